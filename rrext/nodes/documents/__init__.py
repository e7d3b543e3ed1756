"""Documents: files become text and tables, and those become chunks that a store can find."""
