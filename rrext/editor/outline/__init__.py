"""The structure of a pipeline's text: symbols, folds, selection ranges."""
