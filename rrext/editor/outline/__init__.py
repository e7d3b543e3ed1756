"""The structure of a pipeline's text: symbols, what can be folded, what selections grow to."""
