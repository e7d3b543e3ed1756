"""The base of all nodes: the node class, the lanes and the context of `setup`."""
