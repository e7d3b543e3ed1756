"""Call lines: calls of tools and pipelines in the comments of a pipeline file."""
