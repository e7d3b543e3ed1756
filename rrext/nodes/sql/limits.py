"""Limits of SQL databases: sizes in bytes or characters, times in seconds."""

from __future__ import annotations

from typing import Final

from rrext.limits import DEFAULTS

# backend.py
MOST_WARNINGS: Final = 100
"""Warnings of one statement that an answer has at most."""
LONGEST_WARNING: Final = 2000
"""Characters of a warning in an answer."""

# database.py
CONFLICT_ATTEMPTS: Final = 50
"""The maximum number of attempts of a transaction."""
CONFLICT_FIRST_PAUSE: Final = 0.001
CONFLICT_LAST_PAUSE: Final = 0.05
"""Seconds between attempts: at most so many, twice as many each time, and fewer by chance, so that no two meet again."""

# row_import.py
MAX_INSERT_ROWS: Final = 10_000
"""Rows of one answer. They are one transaction, which holds locks in the database until the last one is inserted."""

# schema.py
MAX_SCHEMA_TEXT: Final = 24_000
"""Characters of the schema in a prompt, about 6,000 tokens: what a model of any size still reads with attention."""
MAX_COLUMNS: Final = 150
"""Columns of one table that are shown; those that the question names first."""
SHORTEST_WORD: Final = 3
"""Letters of a word that counts as relevant."""

# transaction.py
FIRST_BATCH: Final = 64
"""Rows of the first batch. Each one after it is twice as large, up to `LAST_BATCH`, as long as rows are small."""
LAST_BATCH: Final = 1024
SMALL_BATCH: Final = 64 * 1024
"""Bytes that a batch may have for the next one to be larger."""

# mysql/node.py
CANCEL_TIMEOUT: Final = 5.0
"""Seconds for the connection that carries a KILL QUERY."""
SPARE_TIME: Final = 30.0
"""Seconds beyond the statement timeout without a message from the server, which then counts as gone."""

# mysql/rows.py
MYSQL_DRAINED: Final = 2000
"""Rows that are read and dropped before an unwanted statement is cancelled: a cancel opens another connection."""

# mysql/types.py
KEPT_TABLES: Final = 512
"""Tables whose columns are cached."""

# postgres/backend.py
ANSWER_TIMEOUT: Final = 10.0
"""Seconds for the server to answer quick statements: begin, rollback, reset. After that it counts as gone."""

# postgres/rows.py
LARGEST_ROW: Final = 2 * DEFAULTS.max_result
"""Bytes of a row as the server writes it; one that is larger cannot be sent on, and is not even read into Python's values,
which would stop everything else in the process for seconds. Twice, as bytes are written as twice as many digits."""
POSTGRES_DRAINED: Final = 16
"""Chunks that are read and dropped before an unwanted statement is cancelled: a cancel opens another connection."""

# postgres/reading_role.py
READER_CHECKED_AGAIN: Final = 60.0
"""Seconds after which the database is asked again whether the reading role would change answers."""

# postgres/libpq.py
POSTGRES_CHUNK: Final = 64
"""Rows that the server's answer is cut into: large enough that their number costs nothing, small enough for wide rows."""
LARGEST_CHUNK: Final = 256 * 1024 * 1024
"""Bytes of such a piece, which libpq holds in memory: rows of 4 MB."""

# postgres/types.py
KEPT_STATEMENTS: Final = 512
"""Statements whose parameter types are cached; programs repeat a few dozen."""
LONGEST_KEPT: Final = 16 * 1024
"""Characters of a statement that is cached."""

# sqlite/node.py
LONGEST_VALUE: Final = 64 * 1024 * 1024
"""Bytes of one text or blob, and of one statement: SQLite allows 1 GB, which one `randomblob` would take of the memory."""
LARGEST_HEAP: Final = 512 * 1024 * 1024
"""Bytes of all SQLite in the process. A row may have thousands of such values; statements that need more fail."""
MANY_VALUES: Final = 200
"""Placeholders of a statement beyond which the search for their names takes SQLite longer than all else."""
CACHED_STATEMENTS: Final = 256
"""Prepared statements that a connection keeps; programs repeat a few dozen."""

# duckdb/instance.py
FILE_LEAVING: Final = 1.0
"""Seconds to wait for a file that another process has locked: a killed server's process is about to end."""
OPEN_AGAIN: Final = 0.05
"""Seconds between attempts to open the file."""
HEAPS: Final = 3
HEAP_BASE: Final = 1024**3
"""A DuckDB process may have `HEAPS` times `memory_limit` plus `HEAP_BASE` bytes, for what DuckDB's allocator keeps mapped but
unused, values that `memory_limit` does not count, Python's own, and a second instance while files are read. Ordinary work
within a limit of 200 MB, 1 GB and 3 GB, in eight connections at once, mapped 2.8, 2.8 and 0.8 times the limit at most."""

# duckdb/files.py
LOOK_SHARE: Final = 20
"""A look at the files is followed by at least so many times its own duration without another."""
QUICK_LOOK: Final = 0.002
"""Seconds: a check of the files that takes no longer is repeated at once."""

# duckdb/node.py
CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to roll back open transactions and close the database."""

# duckdb/process.py
FIRST_ROWS: Final = 64
"""Rows that come with the answer to a statement, so that most need one answer only."""
MORE_ROWS: Final = 1024
"""Rows of a later fetch; fewer if they are large."""
STUCK_AFTER: Final = 2.0
"""Seconds after which a cancelled statement that does not stop ends with its process: some never check for interrupts."""
MOST_LEFT: Final = 3
"""Statements that do not stop and are left running, as a database in memory would end with them. Each takes a processor."""
NAMED: Final = 20
"""Tables of a database in memory whose names are told if it is lost."""
SETTLING_TIMEOUT: Final = 2.0
"""Seconds that commits of other calls get for their answers before that."""

# duckdb/worker.py
LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""
