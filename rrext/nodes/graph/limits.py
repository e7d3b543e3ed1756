"""Limits of graph databases: sizes in characters, times in seconds."""

from __future__ import annotations

from typing import Final

# lexer.py
TOKENS_MAX: Final = 40_000
"""Tokens of a statement: more is data, which belongs into parameters. So any text is judged in a fraction of a second."""

# gate.py
STATEMENT_MAX: Final = 100_000
"""Characters of a statement: more is data, which belongs into parameters."""
NESTING_MAX: Final = 50
"""Brackets within brackets, or NOT after NOT. The embedded engine reads by recursion: some hundred more end the process."""
CASES_MAX: Final = 12
"""CASE within CASE: each one doubles about the time that the embedded engine takes to read it, which nothing can stop."""
STATEMENTS_REMEMBERED: Final = 256
"""Statements that need no second look."""
NAMES_MAX: Final = 16
"""Parts that the name of a function or procedure may have."""

# database.py
SCHEMA_ROWS: Final = 10_000
"""Rows that one look at the schema may give: labels, properties, samples."""

# calls.py
BATCH: Final = 500
"""Rows that are fetched at once."""

# neo4j/samples.py
SAMPLE: Final = 100
"""Elements of each label and each type that are looked at."""

# neo4j/backend.py
BOLT_FETCH: Final = 1000
"""Rows that the server sends at once."""
MESSAGE_MAX: Final = 500
"""Characters of the server's sentence that are passed on."""

# ladybug/file.py
IDLE_CONNECTIONS: Final = 8
"""Connections that are kept for the next calls; making one is cheap."""
