"""Nodes that change texts, find something in them, or let a model tell what they say."""
