"""The language server: the Language Server Protocol over pygls. No other room imports pygls."""
