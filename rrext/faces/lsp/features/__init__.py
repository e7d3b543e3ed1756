"""The features of the language server; each module registers one kind of request."""
