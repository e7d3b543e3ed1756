"""WebSockets: clients of a network, each with a session of its own, and the HTTP endpoints beside them."""
