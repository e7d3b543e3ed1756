"""Nodes whose tools come from a provider."""
