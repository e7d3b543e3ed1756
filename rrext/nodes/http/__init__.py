"""HTTP APIs that nodes ask, above all those of model servers: one client, with limits, retries and plain failures."""
