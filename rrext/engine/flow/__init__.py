"""Processing of objects by the nodes of a pipe: payloads from bytes, node links, calls of node methods."""
