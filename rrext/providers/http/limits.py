"""Limits of tools of HTTP APIs: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024

# api_client.py
MAX_ANSWER: Final = 16 * MIB
"""Bytes of one answer; a larger one would be too large for a result of a tool as well (`max_result`)."""
MAX_REDIRECTS: Final = 5
"""Redirects of one request."""
MAX_ERROR_BODY: Final = 4000
"""Characters of an answer with an error that `data.body` has."""

# answers.py
QUICK_BODY: Final = 64 * 1024
"""Bytes of an answer that the loop itself decodes; a thread does so with larger ones."""

# document.py
MAX_DOCUMENT: Final = 32 * MIB
"""Bytes of an OpenAPI document; the largest public ones have about half of it, and ten times as much in memory."""

# document_tools.py
MAX_OPERATIONS: Final = 10_000
"""Tools of one document; further operations are left out."""
MAX_TOOL_DESCRIPTION: Final = 4000
"""Characters of a description; some documents have whole chapters there, which models read with each question."""
MAX_LOGGED_PROBLEMS: Final = 20
"""Operations without a tool that are logged with their reason; of the others, their number is."""

# pointers.py
MAX_REFERENCES: Final = 50
"""References that lead to references, until a chain of them is taken for a circle."""

# schemas.py
MAX_DEFINITIONS: Final = 1000
"""Definitions of an input schema; an operation with more has no tool, because no model could read it."""
MAX_OUTPUT_SCHEMA: Final = 4000
"""Bytes of an output schema, behind which its definitions become any value: each list of tools carries it."""
