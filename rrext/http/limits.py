"""Limits of requests to HTTP services: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# client.py
CONNECT_TIMEOUT: Final = 10.0
"""Seconds to wait for a connection."""
MAX_CONNECTIONS: Final = 100
"""Connections of one client: as many calls at once wait for the server, further ones for a free connection."""

# failures.py
MAX_SENTENCE: Final = 500
"""Characters of the server's own message that are quoted."""
