"""SQLite as an SQL database."""
