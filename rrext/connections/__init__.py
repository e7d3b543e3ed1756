"""Connections: the servers outside that a configuration may name, with the secrets that open them."""
