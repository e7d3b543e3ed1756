"""Answers to an editor's questions about a pipeline's text: offsets in, plain data out, independent of any protocol."""
