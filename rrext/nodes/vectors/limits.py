"""Limits of vector stores: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# edge/requests.py
OVERSAMPLING: Final = 4.0
"""How many times as many vectors as asked for are compared in full, after all were compared by 4 bits per number.

With 100,000 vectors of 384 numbers this finds 99.9 % of what comparing all in full finds, in a sixth of the time.
"""

# questions.py
MAX_LIMIT: Final = 1000
"""Documents for one question, with those that `offset` leaves out: more than any language model reads."""

# words.py
MAX_QUERY_WORDS: Final = 500
"""Different words of a question that are searched for, the first ones: each makes the search slower."""
MAX_WORD: Final = 500
"""Characters of a word that count: PostgreSQL indexes 2046 bytes of one."""

# scopes.py
MAX_IDS: Final = 10_000
"""Object ids in one call: more is a list that somebody should keep as a path."""

# incoming.py
MAX_CONTENT: Final = 200_000
"""Characters of one chunk. A hit is read as a whole, so more is no chunk but a document that nobody split."""
MAX_NAME: Final = 2000
"""Bytes of an id or a path in UTF-8: what the indexes of all backends take."""
MAX_CHUNK_ID: Final = 2**53
"""The greatest whole number that every JSON reader keeps."""
MAX_SIZE: Final = 16_000
"""Numbers in a vector: what the backends can keep."""

# embedded.py
EMBED_BATCH: Final = 256
"""Texts that are embedded between two looks at whether the caller still waits."""

# node.py
LIST_MAX: Final = 10_000
LIST_DEFAULT: Final = 1000
GET_MAX: Final = 1000
GET_DEFAULT: Final = 100
"""Chunks are whole texts: a page of the longest default ones is about a hundred kilobytes."""
MAX_TOP_K: Final = 100
MAX_DOCUMENTS: Final = 100_000

# postgres/connections.py
MAX_WAIT: Final = 30.0
"""Seconds that a call without a deadline waits for a connection: who waits longer is told that there are too few."""
CANCEL_TIMEOUT: Final = 2.0
"""Seconds for one attempt to cancel in the server."""
CANCEL_AGAIN: Final = 0.2
"""Seconds between attempts: one that comes before the statement has begun does nothing."""
CUT_AFTER: Final = 5.0
"""Seconds after which a statement that goes on in spite of all is left alone: its thread here has to be free again."""

# postgres/index.py
CLOSING_WAIT: Final = 10.0
"""Seconds that a store which is closed waits for its builder, whose statement was cancelled."""
