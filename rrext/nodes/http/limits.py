"""Limits of requests to HTTP services: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# failures.py
MAX_SENTENCE: Final = 500
"""Characters of the server's own message that are quoted."""
SHORTEST_SECRET: Final = 4
"""The minimum length of a key to hide: a shorter one would occur in ordinary words."""

# endpoint.py
CONNECT_TIMEOUT: Final = 10.0
"""Seconds to wait for a connection."""
MAX_CONNECTIONS: Final = 100
"""Connections of one component: as many calls at once wait for the model, further ones for a free connection."""
MAX_FAILURE: Final = 64 * 1024
"""Bytes read of an answer with an error; the rest is not worth quoting."""

# events.py
MAX_EVENT: Final = 4 * 1024 * 1024
"""Characters of one event, or of a line without an end; an event of a model has a few hundred."""
