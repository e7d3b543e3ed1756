"""Nodes that ask language models over their HTTP APIs."""
