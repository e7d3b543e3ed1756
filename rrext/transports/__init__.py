"""Transports of bytes: descriptors, Unix sockets, processes."""
