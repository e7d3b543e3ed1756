"""Client of HTTP APIs, above all of model servers: one client, with limits, retries and clear failures."""
