"""The read-only gate: tells from the tokens of an SQL statement whether it only reads."""
