"""Loaded pipelines: their components, tool routes, and open pipes."""
