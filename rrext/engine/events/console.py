"""The output of nodes: lines that their code prints or logs, as events while somebody wants them."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from time import time
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from rrext.engine.events.records import Output
from rrext.limits import KIB, MIB

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventHub, EventOrigin

MAX_OUTPUT_LINE: Final = 8 * KIB
"""Characters of a line that a node prints, in its event; of a longer one the event has the begin."""
LINES_AT_ONCE: Final = 16
"""Lines that are told at a time: to twenty monitors that takes two milliseconds of the loop."""
MAX_WAITING_OUTPUT: Final = 4 * MIB
"""Characters of lines of nodes that wait for the loop: what a tool prints in a breath. More are dropped and counted."""

CALLERS: Final = frozenset(("deliver", "_run", "_called", "_awaited"))
"""The functions of the engine that call the code of nodes. Their `self` has an `event_origin`."""

NOTHING: Final[tuple[CallsNodes | None, str]] = (None, "")
"""The begin of no line."""


class CallsNodes(Protocol):
    """An object of the engine that calls the code of a node."""

    @property
    def event_origin(self) -> EventOrigin | None:
        """The origin of the events of that code."""
        ...


def speaker() -> CallsNodes | None:
    """The caller of the node whose code runs in this thread now; None for the engine's own code, and for threads of nodes.

    It looks for the engine's frames on the stack: so code that prints nothing pays nothing.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in CALLERS and frame.f_globals.get("__name__", "").startswith("rrext.engine."):
            caller = frame.f_locals.get("self")
            if getattr(caller, "event_origin", None) is not None:
                return caller
        frame = frame.f_back
    return None


class Console:
    """Takes the lines that nodes print to `sys.stdout` and `sys.stderr`, and log, and passes them on, too.

    Who prints or logs may hold any lock, also that of an outbox to which the line would go. So lines wait for the loop, and
    for the next other event, which follows them.
    """

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._waiting: deque[Output] = deque()
        self._size = 0
        self._dropped = 0
        self._is_due = False
        self._lock = threading.RLock()  # of the four above; a finalizer may print inside of it
        self._telling = threading.RLock()  # so that lines leave in order; a subscriber may publish an event itself
        self._begun = threading.local()
        self._streams: list[ConsoleStream] = []
        """All that ever stood in `sys`, to be used again: `print` has no reference of its own to its stream, and if that is
        freed meanwhile, the process crashes."""
        self._handler = ConsoleHandler(self)

    def begin(self) -> None:
        """Begin to listen."""
        for name in ("stdout", "stderr"):
            inner = getattr(sys, name)
            if inner is None:  # a process without a terminal may have none
                continue
            stream = next((stream for stream in self._streams if stream.inner is inner), None)
            if stream is None:
                self._streams.append(stream := ConsoleStream(inner, self))
            setattr(sys, name, stream)
        logging.getLogger().addHandler(self._handler)

    def end(self) -> None:
        """Listen no more. A stream that somebody has put in the place of ours stays, and ours passes on what it gets."""
        logging.getLogger().removeHandler(self._handler)
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream in self._streams:
                setattr(sys, name, stream.inner)

    def printed(self, text: str) -> None:
        """Publish the complete lines of a text; the rest waits for its end, or for output of others in this thread."""
        by = speaker()
        before, begun = getattr(self._begun, "line", NOTHING)
        self._begun.line = NOTHING
        if before is not None and before is not by:
            self.publish_line(before, begun)
            begun = ""
        if by is None:
            return
        *lines, rest = (begun + text).split("\n")
        for line in lines:
            self.publish_line(by, f"{line}\n")
        if len(rest) > MAX_OUTPUT_LINE:
            begun = self._hub.redactor.begun(rest)  # a secret may go on in the next text
            if begun:
                self.publish_line(by, rest[:begun])
            rest = rest[begun:]
        if rest:
            self._begun.line = (by, rest)

    def publish_line(self, by: CallsNodes, text: str) -> None:
        """Publish a line soon; a long one in part. What a subscriber prints when it is told one is not told."""
        hub, origin = self._hub, by.event_origin
        if origin is None or origin.events is not hub or not hub.wants(Output) or getattr(self._begun, "is_telling", False):
            return
        shown = hub.shown_text(text, MAX_OUTPUT_LINE)
        shown = shown if shown[-1:] == "\n" else f"{shown}\n"
        with self._lock:
            if self._size > MAX_WAITING_OUTPUT:
                self._dropped += 1
                return
            dropped, self._dropped = self._dropped, 0
            if dropped:
                shown = f"… {dropped} lines were printed too fast, and are not told\n{shown}"
            self._waiting.append(Output(time=time(), **origin.head, text=shown))
            self._size += len(shown)
            was_due, self._is_due = self._is_due, True
        if not was_due:
            hub.post(self._on_loop)

    def _on_loop(self) -> None:
        """Publish some lines, and further ones when the subscribers have these: others have the loop between."""
        with self._lock:
            self._is_due = bool(self._waiting)
        if self._is_due:
            self.publish_waiting(LINES_AT_ONCE)
            self._hub.pace(self._on_loop)

    def publish_waiting(self, most: int | None = None) -> None:
        """Publish the lines that wait, or that many of them. From any thread that may publish an event."""
        if not self._waiting or getattr(self._begun, "is_telling", False):
            return
        with self._telling:
            self._begun.is_telling = True
            try:
                for _ in range(len(self._waiting) if most is None else min(most, len(self._waiting))):
                    with self._lock:
                        event = self._waiting.popleft()
                        self._size -= len(event.text)
                    self._hub.deliver(event)
            finally:
                self._begun.is_telling = False


class ConsoleStream:
    """A stream that passes texts to another one, and to the console."""

    def __init__(self, inner: TextIO, console: Console) -> None:
        self.inner = inner
        self._console = console

    def write(self, text: str, /) -> int:
        """Write a text; returns its length, as streams do."""
        written = self.inner.write(text)
        self._console.printed(text)
        return written

    def writelines(self, lines: Any, /) -> None:
        """Write texts, one by one."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class ConsoleHandler(logging.Handler):
    """Passes log records of nodes' code to the console; the engine's own are for the operator."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and logging.getLogger().handlers == [self]:
            if record.levelno >= logging.lastResort.level:  # without us it would be printed, and so it is
                logging.lastResort.handle(record)
        elif record.name.partition(".")[0] != "rrext" and (by := speaker()) is not None:
            try:
                text = record.getMessage()
            except Exception as error:  # an argument's __str__ may raise anything
                text = f"a message has no text: {type(error).__name__}"
            self._console.publish_line(by, f"{record.levelname} {record.name}: {text}\n")
