"""SQL databases: one set of tools, and a backend for each kind of database."""
