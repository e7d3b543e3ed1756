"""DuckDB as an SQL database, in a process of its own."""
