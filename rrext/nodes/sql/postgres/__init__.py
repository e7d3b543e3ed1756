"""PostgreSQL as an SQL database."""
