"""The kernel that SQL and graph databases share: sessions, timeouts, cells and connection settings."""
