"""The structure of a pipeline's text: symbols and folds."""
