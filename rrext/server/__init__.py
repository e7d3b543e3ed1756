"""Served connections: sessions, readers, outboxes, and the end of the process."""
