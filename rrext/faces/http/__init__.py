"""HTTP: a port, who may use it, and the faces behind it."""
