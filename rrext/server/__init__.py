"""Connections: sessions, what they read and what they write."""
