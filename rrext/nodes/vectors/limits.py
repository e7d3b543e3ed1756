"""Limits of vector stores: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

# edge/requests.py
OVERSAMPLING: Final = 4.0
"""The ratio of vectors that are compared in full to vectors that are asked for, after a comparison of all by 4 bits per number.

With 100,000 vectors of 384 numbers this finds 99.9 % of the hits of a full comparison, in a sixth of the time.
"""

# questions.py
MAX_LIMIT: Final = 1000
"""Documents for one question, with those that `offset` leaves out: more than any language model reads."""

# words.py
MAX_QUERY_WORDS: Final = 500
"""Different words of a question that are searched for: the first ones. Each word slows the search down."""
MAX_WORD: Final = 500
"""Characters of a word that count: PostgreSQL indexes 2046 bytes of one."""
MAX_PARTS: Final = 16
"""Parts of an identifier. A word with more is a key or a checksum, whose parts say nothing."""
KNOWN_WORDS: Final = 16_384
"""Words whose forms are cached, a few megabytes: texts repeat their words."""

# checked_input.py, of scopes
MAX_IDS: Final = 10_000
"""Object ids in one call: longer lists belong into a parent path."""

# checked_input.py, of documents
MAX_CONTENT: Final = 200_000
"""Characters of one chunk. A hit is read as a whole, so longer texts should be split."""
MAX_NAME: Final = 2000
"""Bytes of an id or a path in UTF-8: what the indexes of all backends take."""
MAX_CHUNK_ID: Final = 2**53
"""The greatest whole number that every JSON reader keeps."""
MAX_SIZE: Final = 16_000
"""Numbers in a vector: what the backends can keep."""

# embedding.py
EMBED_BATCH: Final = 256
"""Texts that are embedded between two checks whether the call has been cancelled."""

# node.py
LIST_MAX: Final = 10_000
LIST_DEFAULT: Final = 1000
GET_MAX: Final = 1000
GET_DEFAULT: Final = 100
"""Chunks are whole texts: a page of the longest default ones is about a hundred kilobytes."""
MAX_TOP_K: Final = 100
MAX_DOCUMENTS: Final = 100_000

# postgres/connection_pool.py
MAX_WAIT: Final = 30.0
"""Seconds that a call waits for a connection; after that it fails for lack of connections."""
CANCEL_TIMEOUT: Final = 2.0
"""Seconds for one attempt to cancel in the server."""
CUT_AFTER: Final = 5.0
"""Seconds after which a statement that ignores its cancel is abandoned, because its thread is needed."""
SERVER_GRACE: Final = 1.0
"""Seconds by which the server's own limit is later than the call's, so that the caller sees the call's own timeout."""

# postgres/index.py
CLOSING_WAIT: Final = 10.0
"""Seconds that a store which is closed waits for its builder, whose statement was cancelled."""
INDEX_LOOK: Final = 30.0
"""Seconds between two counts of the chunks: counting takes time too."""
BUILD_MEMORY: Final = "256MB"
"""Memory for the construction of the graph: 384 numbers of 100,000 chunks fit; larger graphs take several times as long."""

# edge/folder.py
COMPARED_HEAD: Final = 64 * 1024
"""Bytes of each file that are compared with the manifest, beside its size: the part with Qdrant's headers."""

# edge/journal.py
QDRANT_BATCH: Final = 64
"""Points that are written or deleted in one call of Qdrant: about 5 ms, during which its process does nothing else."""

# edge/open_shard.py
FLUSH_EVERY: Final = 16 * 1024 * 1024
"""The maximum bytes of Qdrant's log before a flush to its files. All of them are read again after a crash."""
WRITTEN_TIMES: Final = 3
"""How many times the bytes of a change are written: in the journal, in Qdrant's log, and in its files."""
WRITE_AGAIN: Final = 0.05
"""Seconds between checks whether a waiting call has been cancelled."""

# edge/remote.py
CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to close the store in order. Qdrant's log has all answered changes already."""

# edge/store.py
NAMES_PAGE: Final = 1000
"""Points whose names are read in one call of Qdrant: about 4 ms."""
MAKE_TRIES: Final = 5
"""Attempts to create a store that another process creates with other properties at the same time."""

# edge/worker.py
READERS: Final = 2
"""Threads that search and read. Qdrant lets one thread work at a time; the other packs and sends its answer meanwhile."""

# postgres/search.py
FREQUENT_SHARE: Final = 0.05
"""The share of all chunks from which a word is one of these."""
FREQUENT_FROM: Final = 10_000
"""Chunks from which frequent words are left out. In a small store, a word in a tenth of the chunks may be the right one."""
FREQUENT_LOOK: Final = 60.0
"""Seconds between two queries of them: the server counts again when a tenth of a table has changed."""

# postgres/store.py
CHANGE_TRIES: Final = 5
"""Attempts of a change that conflicts with another; at each attempt at least one of the conflicting changes succeeds."""
ROWS_AT_ONCE: Final = 10_000
"""Chunks in one statement."""

# postgres/table.py
INLINE_SIZE: Final = 500
"""Up to so many numbers (2 kB) a vector lies within its row: searching all of them is three times as fast."""

# embedding.py
KEPT_CHUNKS: Final = 100_000
"""Chunks that are kept before a part is stored, as many as one call of `upsert` takes."""
