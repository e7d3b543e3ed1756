"""Limits of embedding models: texts and characters of one request."""

from __future__ import annotations

from typing import Final

# openai.py
OPENAI_MAX_CHARACTERS: Final = 300_000
"""Characters of one request: servers take some 300,000 tokens, and a token can be a single character."""
ON_LOOP: Final = 64 * 1024
"""Bytes of an answer that is parsed on the event loop; larger ones would block it, and go to a thread."""

# bound_embedder.py
BOUND_MAX_TEXTS: Final = 64
"""Texts in one call of the bound node: their vectors, as JSON, stay far below the limit of a result."""
BOUND_MAX_CHARACTERS: Final = 1_000_000
"""Characters in one call of the bound node. A longer text goes alone."""

# transformer/embedder.py
MAX_BATCH: Final = 64
"""Texts in a batch; more at once are no faster."""
MAX_SQUARE: Final = 1 << 20
"""Texts of a batch times the square of their tokens: the attention of a layer then takes some 50 MB."""

# node.py
MAX_TEXTS: Final = 2048
"""Texts in one call of `embed`: as many as model servers take. Their vectors have to fit into one result as well."""
MAX_CHARACTERS: Final = 4_000_000
"""Characters in one call of `embed`; thousands of pages, which no caller waits for."""

# hashing.py
HASHED_SIZE: Final = 384
"""Numbers in a vector: as many as in small sentence models, so that a database column fits both."""
