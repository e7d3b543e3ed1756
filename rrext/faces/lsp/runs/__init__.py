"""Running pipelines for an editor: the engine in a process of its own, the commands that use it, what is shown of a run."""
