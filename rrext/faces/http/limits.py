"""Constants of a port of HTTP."""

from __future__ import annotations

from typing import Final

# listener.py
MAX_CONNECTIONS: Final = 512
"""Connections at once; a client has one for each of its requests, and a process may often have 1024 descriptors."""
CLIENT_PATIENCE: Final = 30.0
"""Seconds in which a client sends a whole request, or reads a full buffer of its answers, before its connection is closed."""
LOOK_INTERVAL: Final = 5.0
"""Seconds between two looks for such clients."""
PING_INTERVAL: Final = 30.0
"""Seconds between two pings of the server, which notice a client that vanished without a word."""
PING_TIMEOUT: Final = 300.0
"""Seconds in which a client answers a ping; a busy one may be late, and RocketRide's client has the same patience."""

# tokens.py
MIN_TOKEN: Final = 16
"""Characters of a token; a shorter one can be guessed."""
MAX_TOKENS: Final = 500
"""Tokens of a file: each is compared with that of a request, and half of what the redactor keeps is for other secrets."""
