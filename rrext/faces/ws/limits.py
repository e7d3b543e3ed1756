"""Constants of the WebSocket face."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# protocol.py
MAX_MESSAGE: Final = 250 * MIB
"""Bytes of one message of a client; those of RocketRide receive as much."""
MAX_STRANGERS_MESSAGE: Final = 64 * KIB
"""Bytes of one message of a client that has shown no key."""
LARGE_READ: Final = 256 * KIB
"""Bytes that are read at once while a large message comes; less at other times, because each read maps so much memory anew."""

FIRST_LOOK: Final = 0.005
LAST_LOOK: Final = 0.1
"""Seconds until a look whether a client of TLS has read what waits for it, at first and at last: most are soon through."""
FAIL_TIMEOUT: Final = 5.0
"""Seconds in which a client that is cut off in the middle of a message may read why; what it sends meanwhile is dropped."""

# sink.py
SINK_WINDOW: Final = 256 * KIB
"""Bytes of answers that are handed over to be sent at a time; the others wait in the outbox, which is limited."""

# app.py
MAX_CONNECTIONS: Final = 4096
"""Connections of the port at once; each has a descriptor."""
OTHER_DESCRIPTORS: Final = 1024
"""Descriptors for all else: pipelines, files, databases."""

# authentication.py
AUTH_TIMEOUT: Final = 30.0
"""Seconds until a client without a key is cut off."""
MAX_ATTEMPTS: Final = 5
"""Wrong keys of one connection; a further one ends it."""

# webhook.py
MAX_WEBHOOKS: Final = 32
"""Requests to the webhook at once: the body of each is in memory."""
MAX_PARTS: Final = 100
"""Files and fields of one request to the webhook."""
WEBHOOK_TIMEOUT: Final = 300.0
"""Seconds for one object of a webhook, from `open` to `close`; proxies in between wait no longer anyway."""
