"""The structure of a pipeline's text: symbols, names and lenses."""
