"""The read-only gate: decides from the tokens of an SQL statement whether it only reads."""
