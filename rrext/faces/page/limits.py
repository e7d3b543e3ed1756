"""Constants of the status page."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024

MAX_PAGES: Final = 64
"""Status pages that are open at once; each has a connection, and a state to compare with."""
MAX_PAGES_OF_USER: Final = 12
"""Status pages of one user; browsers open six connections to a host, and people have more than one browser."""
PAGE_INTERVAL: Final = 1.0
"""Seconds between two states of a status page: as fast as numbers can be read."""
MAX_PAGE_INTERVAL: Final = 8.0
"""Seconds between two states at most; pages take a server that says nothing for longer for lost."""
PAGE_SHARE: Final = 0.05
"""The share of its time that the server spends on the states of one user; with many pipelines they come more rarely."""
KEPT_LATENCIES: Final = 1000
"""Calls of each pipeline whose latencies are kept: ten are slower than the 99th percentile."""
MAX_COUNTED: Final = 2000
"""Nodes and edges of a pipeline that are counted; a call may name nodes that do not exist."""
KEPT_FAILURES: Final = 100
"""Recent errors of a user."""
KEPT_LINES: Final = 200
"""Lines about recent calls of a user."""
MAX_PAGE_TEXT: Final = 500
"""Characters of a name, a description or a message on the page; a row is sent whole whenever a number of it changes."""
STATUS_TIMEOUT: Final = 2.0
"""Seconds for the status of one pipeline; the page shows the one before if it takes longer."""
SHOWN_ERRORS: Final = 10
"""Errors and warnings of a pipeline itself on the page; its status has all that are kept."""
MAX_ENDED: Final = 50
"""Pipelines on the page that have ended."""
MAX_PAGE_REQUEST: Final = 8 * KIB
"""Bytes of the body of a request of the page, which names a pipeline."""
PICTURE_WIDTH: Final = 110
"""Columns of a picture on the page: two thirds of a screen."""
MAX_DRAWINGS: Final = 2
"""Pictures that are drawn at once; the others wait. One of a thousand nodes takes seconds."""
