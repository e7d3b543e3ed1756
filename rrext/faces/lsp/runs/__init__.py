"""Runs of pipelines from an editor: the engine in a child process, its commands, the display of results."""
