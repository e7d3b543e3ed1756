"""Fixes for problems: each is a title and edits, and leaves the rest of the text unchanged."""
