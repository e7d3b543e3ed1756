"""Embeddings: texts as vectors, and the nodes that compute them."""
