"""Keeps the stores of a pipeline as the sources of an operator are: what to send, what moved, what is gone."""
