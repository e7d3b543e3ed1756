"""Nodes for language models with HTTP APIs."""
