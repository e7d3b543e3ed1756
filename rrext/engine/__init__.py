"""Pipelines: read, checked, loaded and run."""
