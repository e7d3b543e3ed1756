"""Constants of task processes, each with its reason."""

from __future__ import annotations

from typing import Final

from rrext.limits import GIB, KIB, MIB

PIPE_BITS: Final = 32
"""Bits of the number of a pipe or a call that count within a worker; those above are the number of the worker. Four thousand
million in each of two million workers fit into the whole numbers of a double."""
MAX_STARTS: Final = 4
"""Processes that start at once: each start takes a tenth of a second of a processor, which running tasks need too."""
HOP_WINDOW: Final = MIB
"""Bytes of a connection on their way from a worker to its client before further ones wait: enough to keep a fast client busy,
and little beside the answers that wait for a slow one."""
STDERR_TAIL: Final = 4 * KIB
"""Bytes of the last words of a process that an error tells: a traceback of a crash, and not its whole log."""
STDERR_KEPT: Final = 2 * STDERR_TAIL
"""Bytes of them that are kept. A secret at their beginning may be cut, and cannot be found: the first half is not told."""
FATAL_KEPT: Final = 256 * KIB
"""Bytes of the trace of a crash that are kept, whose head and crashed thread are told: 64 threads with thirty calls each."""
READ_AT_ONCE: Final = 64 * KIB
"""Bytes of stderr that are read at once."""
PIPE_SIZE: Final = MIB
"""Bytes of the pipes between the server and a worker: a large raw tail passes in few steps."""
ANSWER_PATIENCE: Final = 1.0
"""Seconds in which a worker answers for its status; of a stuck one the last status is told."""
SILENCE: Final = 4.0
"""Seconds more after which a worker that still does not tell its status is stuck: a large library that is loaded holds the
interpreter's lock for some of them. That a worker was stopped is seen at once."""
STOP_MARGIN: Final = 2.0
"""Seconds beyond the time of its calls in which a worker ends; then it is killed."""
EXIT_PATIENCE: Final = 2.0
"""Seconds between the last byte of a worker and its end; then it is killed."""
MEMORY_INTERVAL: Final = 1.0
"""Seconds between two looks at the memory of the workers: a look at a thousand takes some hundredths of one."""
MAX_GAPS: Final = 1024
"""Pipes of a worker whose stopped writes may have ended: the oldest ones have long been answered, and some are never closed."""
MAX_RAN: Final = 8
"""How often a call that ran is named, when its process was killed for its memory."""
SWEEPS: Final = 5
"""How often what a dead worker left behind is looked for again, because a process that was killed had started another."""
HIGHEST_MARK: Final = 1 << 62
"""Microseconds of the limit that marks a worker. It is at least half as high: a process of a real-time class, which alone has
this limit, could run for a thousand centuries."""
MARKS: Final = 1 << 56
"""Numbers from which a mark is drawn: no two servers have the same. A server below a worker draws from those below its mark."""
FIRST_RELOAD_DELAY: Final = 1.0
"""Seconds before a pipeline of the operator is loaded a second time; the first time it is at once, each next one doubles."""
LAST_RELOAD_DELAY: Final = 60.0
"""The longest of these delays: a tool that always crashes takes little of the processor. After a run of this length the delays
begin anew."""
MAX_CALLERS: Final = 4096
"""Callers of one connection that a worker knows by number: those whom its requests name. A further one takes the place of the
one that called least recently, and no place of another connection."""
LOOKS_AT_ONCE: Final = 32
"""Workers that are asked for their status at once: a few milliseconds of the loop."""
LOOK_PATIENCE: Final = 0.01
"""Seconds in which a list of many tasks waits for their statuses; it tells the last one of a task whose turn has not come."""
REST: Final = 2.0
"""Seconds after a call until the status of a task is looked at again: its rates and its load have changed since."""
LONG_REST: Final = 10.0
"""Seconds between two looks at the status of a task that nobody uses: its process may work for itself."""
MAX_ANY: Final = 64 * GIB
"""A limit of a worker's connection that the sessions of the clients enforce."""
