"""Limits of the providers of tools: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

from rrext.limits import KIB, MIB

# http/api_client.py
MAX_ANSWER: Final = 16 * MIB
"""Bytes of one answer; a larger one would be too large for a result of a tool as well (`max_result`)."""
MAX_REDIRECTS: Final = 5
"""Redirects of one request."""
MAX_ERROR_BODY: Final = 4000
"""Characters of an answer with an error that `data.body` has."""
QUICK_BODY: Final = 64 * 1024
"""Bytes of an answer that the loop itself decodes; a thread does so with larger ones."""

# http/document.py
MAX_DOCUMENT: Final = 32 * MIB
"""Bytes of an OpenAPI document; the largest public ones have about half of it, and ten times as much in memory."""
MAX_YAML_VALUES: Final = 2_000_000
"""Values of a document in YAML, with those that aliases repeat; the largest public ones have a tenth of it."""
MAX_REFERENCES: Final = 50
"""References that lead to references, until a chain of them is taken for a circle."""

# http/document_tools.py
MAX_OPERATIONS: Final = 10_000
"""Tools of one document; further operations are left out."""
MAX_TOOL_DESCRIPTION: Final = 4000
"""Characters of a description; some documents have whole chapters there, which models read with each question."""
MAX_ALTERNATIVES: Final = 5
"""Alternatives within alternatives, and items within items, in which files of a body are looked for."""
MAX_BODY_PARTS: Final = 1000
"""Parts of the schema of a body in which fields and files are looked for: alternatives of alternatives may have no end."""
MAX_LOGGED_PROBLEMS: Final = 20
"""Operations without a tool that are logged with their reason; of the others, their number is."""

# http/schemas.py
MAX_DEFINITIONS: Final = 1000
"""Definitions of an input schema; an operation with more has no tool, because no model could read it."""
MAX_OUTPUT_SCHEMA: Final = 4000
"""Bytes of an output schema, behind which its definitions become any value: each list of tools carries it."""

# http/composio.py
CATALOG_TTL: Final = 300.0
"""Seconds that the tools of an integration and the state of an account count as known."""
PAGE_SIZE: Final = 100
"""Tools asked for at once."""
MAX_CATALOG_PAGES: Final = 50
"""Pages of one integration; further tools are left out."""

# mcp/provider.py
FIRST_PAUSE: Final = 0.25
"""Seconds before the second attempt to connect; each further failure doubles the pause."""
LONGEST_PAUSE: Final = 8.0
"""Seconds between two attempts at most: a server that is back is found before a person gives up."""
LONGEST_WAIT: Final = 1.0
"""Seconds that a call waits for the next attempt; before a later one it fails at once: a list of all tools waits too."""
STABLE_LIFE: Final = 10.0
"""Seconds after which a connection that broke is made again at once: it broke for a reason of its own."""

# mcp/link.py
PROBE_SHARE: Final = 0.4
"""The part of the time for connecting that a server of the handshake era may leave the question for its era unanswered."""
MAX_PAGES: Final = 100
"""Pages of one list of tools: a list that never ends must not hang its reader."""
REFRESH_PAUSE: Final = 0.2
"""Seconds between two readings of the list of tools: a server may announce a change of each tool by itself."""
LISTEN_PAUSE: Final = 5.0
"""Seconds until the server is asked anew for announcements after it ended their stream."""

MAX_ROUNDS: Final = 100
"""Rounds of questions in one call of 2026-07-28: a server that asks for ever must not keep its caller."""

# mcp/listing.py
MAX_TOOLS: Final = 5000
"""Tools of one server; more are of no use to any caller."""
MAX_TOOL_NAME: Final = 256
"""Characters of the name of a tool."""

# mcp/stdio.py
MESSAGE_FACTOR: Final = 2
"""A message may be this many times as large as `max_result`: escapes in JSON, and base64 of bytes, make it larger."""
MAX_SKIPPED: Final = 1024 * MIB
"""Bytes of one line that are read and thrown away; of a longer line the end is not awaited."""
LINE_ENDS: Final = 256
"""Bytes kept of both ends of a line that is too long, in which its id is looked for."""
INBOX_LENGTH: Final = 64
"""Messages that wait for the session before the server is not read any more."""
MESSAGES_PER_TURN: Final = 16
"""Messages of one server that are handled in one iteration of the loop."""
MAX_BACKLOG: Final = 32 * MIB
"""Bytes that wait for a server that does not read its stdin, before further calls fail."""
STDERR_TAIL: Final = 4 * KIB
"""Bytes of a server's stderr, kept for the error when the server ends."""
LOGGED_LINES: Final = 100
"""Lines of a server's stderr and of other text on its stdout that are logged in `LOGGED_TIME`; the rest is counted."""
LOGGED_TIME: Final = 10.0
"""Seconds to which `LOGGED_LINES` applies."""
LOGGED_LINE: Final = 2000
"""Characters of one logged line."""
CLOSE_PATIENCE: Final = 1.0
"""Seconds that a server gets to end after the end of its stdin, and again after SIGTERM, before it is killed."""
EXIT_WAIT: Final = 0.5
"""Seconds for the exit code and the last words of a server that closed its stdout."""

# mcp/results.py, mcp/failures.py
MAX_QUOTED: Final = 2000
"""Characters of a text of the server in the message of an error."""
