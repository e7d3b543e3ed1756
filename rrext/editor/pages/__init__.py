"""Pages about the parts of a pipeline, for hover and for completion."""
