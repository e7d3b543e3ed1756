"""Ladybug as a graph database, in a process of its own."""
