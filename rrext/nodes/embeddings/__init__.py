"""Embeddings: texts as vectors, and the nodes that make them."""
