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
"""Brackets within brackets, or NOT after NOT. Ladybug reads by recursion: some hundred more end the process."""
CASES_MAX: Final = 12
"""CASE within CASE: each one doubles about the time that Ladybug takes to read it, which nothing can stop."""
STATEMENTS_REMEMBERED: Final = 256
"""Statements whose check is cached."""
NAMES_MAX: Final = 16
"""Parts that the name of a function or procedure may have."""

# database.py
SCHEMA_ROWS: Final = 10_000
"""Rows of one query of the schema: labels, properties, samples."""

# transaction.py
BATCH: Final = 500
"""Rows that are fetched at once."""

# neo4j/samples.py
SAMPLE: Final = 100
"""Elements of each label and each type in a sample."""

# neo4j/backend.py
BOLT_FETCH: Final = 1000
"""Rows that the server sends at once."""
MESSAGE_MAX: Final = 500
"""Characters of the server's sentence that are passed on."""

# ladybug/open_database.py
IDLE_CONNECTIONS: Final = 8
"""Connections that are kept for the next calls; making one is cheap."""
PLANNED_STATEMENTS: Final = 16
"""Statements with parameters after which a connection is not used again: it keeps the plan of each, half a megabyte."""
OPEN_AGAIN: Final = 0.02
"""Seconds between attempts to open a file that another program has open."""

# ladybug/backend.py
WRITE_TURN: Final = 0.05
"""Seconds between checks whether a call that waits for its turn to write has been cancelled."""

# ladybug/calls.py
STUCK_AFTER: Final = 1.5
"""Seconds after which a statement that does not stop ends with its process: some of Ladybug's functions never check."""
START_PATIENCE: Final = 5.0
"""Seconds for a transaction to begin after a cancel: another process may have to release the file."""
COMMIT_PATIENCE: Final = 15.0
"""Seconds for a commit to end after a cancel: it may have much to write."""
OPEN_PATIENCE: Final = 60.0
"""Seconds for a database to open after a cancel: the recovery from a crash may be long."""

# ladybug/process.py
CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to roll back open transactions and close the database."""
FIRST_ROWS: Final = 64
"""Rows that come with the answer to a statement, so that most need one answer only."""

# ladybug/worker.py
INTERRUPT_AGAIN: Final = 0.05
"""Seconds until an interrupt is repeated: the first may have come before the step began."""
LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""
