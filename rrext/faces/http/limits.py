"""Constants of a port of HTTP."""

from __future__ import annotations

from typing import Final

# listener.py
MAX_CONNECTIONS: Final = 512
"""Connections at once; a client has one for each of its requests, and a process may often have 1024 descriptors."""
CLIENT_PATIENCE: Final = 30.0
"""Seconds in which a client sends a whole request, or reads a full buffer of its answers, before its connection is closed;
and in which a client whose connection has ended reads its last answers."""
LOOK_INTERVAL: Final = 5.0
"""Seconds between two looks for such clients."""
BACKLOG: Final = 1024
"""Connections that wait to be accepted; the system of a client beyond them tries again a second later."""
ACCEPTS_PER_ITERATION: Final = 32
"""Connections that are accepted in an iteration of the loop: a flood delays others by some milliseconds."""
PING_INTERVAL: Final = 30.0
"""Seconds between two pings of the server, which notice a client that vanished without a word."""
PING_TIMEOUT: Final = 300.0
"""Seconds in which a client answers a ping; a busy one may be late, and RocketRide's client has the same patience."""

# door.py
STRANGERS_SHARE: Final = 2
"""One part in so many of the connections may be without a key; beyond it the oldest go."""
KNOWN_RESERVE: Final = 16
"""One part in so many of the connections is kept from clients with a key, so that life signs are always answered."""
MAX_STRANGERS_OF_ADDRESS: Final = 1024
"""Connections without a key at once of one address: all clients of a company may come from one and start at the same moment."""
CROWD: Final = 64
"""Connections without a key of one address from which they have less time."""
CROWD_PATIENCE: Final = 10.0
"""Seconds for a client to show its key in a crowd; published clients need far less, also on a busy machine."""
FREE_WRONG_KEYS: Final = 5
"""Wrong keys of one address that are answered at once: people make mistakes."""
WRONG_KEY_DELAY: Final = 0.1
"""Seconds by which each further wrong key is answered later than the one before."""
MAX_WRONG_KEYS: Final = 20
"""Wrong keys of one address beyond which each is answered as one too many, not later than the last one."""
WRONG_KEY_MEMORY: Final = 2.0
"""Seconds until one wrong key of an address is forgotten: a guesser gets 30 answers a minute, people wait less than one."""
MAX_SUSPECTS: Final = 4096
"""Addresses whose wrong keys are counted, in some hundred KiB; the one that was quiet longest is forgotten."""
TALLY_INTERVAL: Final = 1.0
"""Seconds between two lines of the log about the same deed of strangers."""
TOLD_ADDRESSES: Final = 8
"""Addresses in one such line; of further ones only the number, for a line has an end."""

# budget.py
NOTED: Final = 1 << 16
"""Bytes of a connection below which it is not counted for its user: thousands of idle ones cost less than one message."""
BUDGET_LOOK: Final = 0.1
"""Seconds between two looks at connections that keep much: answers that come take room, and those that are read make some."""
ROOM_TIMEOUT: Final = 30.0
"""Seconds until a client is cut off whose message gets no room."""

# tokens.py
MIN_TOKEN: Final = 16
"""Characters of a token; a shorter one can be guessed."""
MAX_TOKENS: Final = 500
"""Tokens of a file: each is compared with that of a request, and half of what the redactor keeps is for other secrets."""
