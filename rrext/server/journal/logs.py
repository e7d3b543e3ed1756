"""The server's log: a line per event, on stderr or in a file, that never holds up the server. The last lines are kept."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from rrext.limits import DEFAULTS, LOG_TAIL, LOG_TAIL_BYTES
from rrext.transports.lossy import LossyWriter

LogForm: TypeAlias = Literal["text", "json"]

LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""Line ends and terminal controls -> escapes, so that texts of tools and peers cannot forge log lines."""


def set_up_logging(
    level: str,
    path: str | None = None,
    *,
    form: LogForm = "text",
    redact: Callable[[str], str] = str,
    on_failure: Callable[[OSError], object] = lambda error: None,
) -> LossyWriter:
    """Log events of `level` and above to stderr, or append them to a file, which is made readable for its owner alone.

    `redact` removes secrets from each text; `on_failure` is told of a file that takes no more, once until it does again.
    Returns the writer, to be flushed at the end. Raises `OSError` when the file cannot be opened.
    """
    fd = 2 if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        writer = LossyWriter(fd, lambda drops: _dropped(drops, form), on_failure)
    finally:
        if fd != 2:
            os.close(fd)
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(LineHandler(writer, form, redact))
    root.setLevel(LEVELS[level])
    return writer


def log_tail() -> Tail[bytes]:
    """The last events of the log of this process; none before `set_up_logging`."""
    found = (handler.tail for handler in logging.getLogger().handlers if isinstance(handler, LineHandler))
    return next(found, Tail(0))


def keep_lines(lines: Sequence[bytes]) -> None:
    """Keep lines that other processes of the server wrote among the last events of the log."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.acquire()  # events of other threads are numbered meanwhile
            try:
                for line in lines:
                    handler.tail.add(line + b"\n")
            finally:
                handler.release()


class LineHandler(logging.Handler):
    """Writes each event as one line: text or JSON. `tail` keeps the last ones.

    In text, a traceback follows on lines that begin with a space, which no event does. In JSON it is a member.
    """

    def __init__(self, writer: LossyWriter, form: LogForm, redact: Callable[[str], str] = str) -> None:
        super().__init__()
        self._redact = redact
        self._writer = writer
        self._line = _json if form == "json" else _text
        self.tail: Tail[bytes] = Tail(LOG_TAIL)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            texts = record.name, _message(record), _trace(record)
            line = self._line(record, *map(self._redact, texts))
        except Exception as error:  # an argument's __str__ may raise anything
            text = f"an event of {record.pathname}:{record.lineno} has no text: {type(error).__name__}"
            line = self._line(record, *map(self._redact, (record.name, text, "")))
        self._writer.write(line)
        self.tail.add(line[:LOG_TAIL_BYTES])


def _message(record: logging.LogRecord) -> str:
    return _cut(record.getMessage(), DEFAULTS.max_log_text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters cut)"


def _text(record: logging.LogRecord, name: str, message: str, trace: str) -> bytes:
    line = f"{_stamp(record)} {record.levelname} {name} {message}"
    lines = [line, *(f"  {part}" for part in trace.splitlines())]
    safe = (part if part.isprintable() else part.translate(_CONTROLS) for part in lines)  # looking is faster
    return "".join(f"{part}\n" for part in safe).encode("utf-8", "backslashreplace")


def _json(record: logging.LogRecord, name: str, message: str, trace: str) -> bytes:
    event = {"time": _stamp(record), "level": record.levelname.lower(), "logger": name, "message": message}
    if trace:
        event["exception"] = trace
    plain = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in event.items()}
    return msgspec.json.encode(plain) + b"\n"


def _stamp(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(maxsize=1)
def _second(since_1970: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since_1970))


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    most = DEFAULTS.max_log_text
    parts = [_cut(part, most // 4) for part in traceback.format_exception(record.exc_info[1])]
    text = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}… ({len(text) - most} characters cut) …{text[-(most // 2) :]}"  # the end says what happened


def _dropped(drops: int, form: LogForm) -> bytes:
    record = logging.LogRecord("rrext.log", logging.WARNING, __file__, 0, "", None, None)
    text = f"events dropped here, because nobody read them in time: {drops}"
    return (_json if form == "json" else _text)(record, record.name, text, "")


T = TypeVar("T")


class Tail(Generic[T]):
    """The last `most` items, numbered from 1. One thread adds at a time; any thread reads."""

    def __init__(self, most: int) -> None:
        self._items: deque[tuple[int, T]] = deque(maxlen=most)
        self._numbers = count(1)

    def add(self, item: T) -> None:
        """Keep an item in place of the oldest one."""
        self._items.append((next(self._numbers), item))

    def after(self, number: int) -> list[tuple[int, T]]:
        """The kept items after that of a number, each with its own."""
        return [entry for entry in self._items.copy() if entry[0] > number]
