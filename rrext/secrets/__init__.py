"""Secrets: which names and values are some, where they are found in texts, and files that keep them."""
