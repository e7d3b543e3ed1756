"""Calls of tools and pipelines that stand in a pipeline's comments."""
