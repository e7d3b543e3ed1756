"""Constants of traces and of the output of nodes."""

from __future__ import annotations

from typing import Final

from rrext.limits import KIB, MIB

MAX_OUTPUT_LINE: Final = 8 * KIB
"""Characters of a line that a node prints, in its event; of a longer one the event has the begin."""
LINES_AT_ONCE: Final = 16
"""Lines that are told at a time: to twenty monitors that takes two milliseconds of the loop."""
MAX_WAITING_OUTPUT: Final = 4 * MIB
"""Characters of lines of nodes that wait for the loop: what a tool prints in a breath. More are dropped and counted."""
MAX_TRACE_NAME: Final = 200
"""Characters of the name of an object in such an event, as in the reference server."""
MAX_TRACE_TEXT: Final = 2000
"""Characters of a text in such an event, as in the reference server: enough to know it again."""
MAX_TRACE_DATA: Final = 64 * KIB
"""Encoded bytes of a JSON value in an event of a traced pipeline. Several wait for a slow reader, and every component that a
payload enters tells it again. Of a larger one the event has its size and its begin."""
