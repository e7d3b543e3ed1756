"""What a tool gives: progress for the user, chunks for programs, and its result as JSON, rows or raw bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any, Final, TypeAlias

import msgspec

from rrext.cli.output import Results
from rrext.cli.pipeline import Pipeline
from rrext.cli.progress import ProgressLine, amount
from rrext.cli.terminal import terminal_width
from rrext.columns import cut, printable
from rrext.engine.interface.operations import Tool

FIGURES_WIDTH: Final = 16
"""What a score and the gaps take of a table of chunks; the text and the path of its file share the rest."""
MAX_MEMBER_WIDTH: Final = 60
"""Columns of a nested member beside a table, where a list of all paths would hide the table."""

TakeChunk: TypeAlias = Callable[[bytes, bytes | None], None]
"""Writes a chunk, given as JSON or as raw bytes."""


class ToolFeed:
    """Shows progress on stderr, and passes chunks to `take`, one at a time, from worker threads.

    The user is asked at the descriptor `keyboard`, if there is one. `run` makes the call. If `take` raises, as with a closed
    stdout, the call is cancelled and `run` raises the same.
    """

    def __init__(self, results: Results, take: TakeChunk, keyboard: int | None = None) -> None:
        self._results = results
        self._keyboard = keyboard
        self._tool = ""
        self._pipeline = Pipeline()
        self._take = take
        self._progress = ProgressLine()
        self._cancel: Callable[[], object] | None = None
        self._failure: Exception | None = None
        self._lock = Lock()

    async def run(self, pipeline: Pipeline, operation: Tool) -> tuple[bytes, bytes | None]:
        """The body and the raw bytes of the answer. Raises the call's failure, and that of `take`."""
        self._tool, self._pipeline = operation.tool, pipeline
        asked, self._cancel = pipeline.cancellable(pipeline.ask(operation, feed=self))
        try:
            return await asked
        except BaseException:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self._progress.end()

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Show the progress."""
        self._progress.show(f"{amount(value, total)} {message or ''}".rstrip())

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Pass on a chunk; none is dropped. A slow reader delays the tool."""
        with self._lock:
            if self._failure is not None:
                return
            if self._results.is_terminal:
                self._progress.clear()
            try:
                self._take(chunk, tail)
            except Exception as error:
                self._failure = error
                if self._cancel is not None:
                    self._cancel()

    def call_event(self, body: dict[str, Any]) -> None:
        """Show an event, as a line of JSON."""
        with self._lock:
            if self._results.is_terminal:
                self._progress.clear()
            sys.stderr.write(msgspec.json.encode(body).decode() + "\n")

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Permit the tool that the user named, and none that it calls; ask the user what a tool asks."""
        if event == "rrext_permission":
            return bool(body["tool"] == self._tool)
        from rrext.cli.form import answer  # few tools ask

        assert self._keyboard is not None  # else the call did not offer to ask
        self._progress.clear()
        return await self._pipeline.in_thread(partial(answer, body["params"], self._keyboard))

    def wait_for_room(self) -> None:
        """Return at once: a chunk is passed on before its tool continues."""

    async def room(self) -> None:
        """Yield to the loop once, so that a tool without other waits does not hide signals."""
        from asyncio import sleep  # the caller has imported it

        await sleep(0)

    def end(self) -> None:
        """Do nothing: nothing is kept back."""


def write_value(results: Results, name: str | None, encoded: bytes, data: bytes | None, *, raw: bool) -> None:
    """Write JSON, or the bytes `data`, as a line of JSON: alone, or as the member `name`.

    With `raw`, text and bytes are written unchanged. On a terminal, plain JSON is indented.
    """
    if raw and (content := _content(encoded, data)) is not None:
        results.write(content)
        return
    value = encoded if data is None else msgspec.json.encode(data)
    if raw or name is None:
        results.write_line(msgspec.json.format(value, indent=2) if results.is_terminal else value)
    else:
        results.write_line(b'{"%b":%b}' % (name.encode(), value))


def _content(encoded: bytes, data: bytes | None) -> bytes | None:
    """Text or bytes without their JSON form; None for other values."""
    if data is not None:
        return data
    return msgspec.json.decode(encoded, type=str).encode() if encoded[:1] == b'"' else None


class Rows(msgspec.Struct):
    """Rows with equal columns, and the other members of the result."""

    names: list[str]
    rows: list[dict[str, Any]]
    rest: dict[str, Any]


def rows_in(value: Any) -> Rows | None:
    """The rows of a result: a list of objects, lists of them, or an object with one such member; None for other results."""
    rest: dict[str, Any] = {}
    names: list[str] = []
    if isinstance(value, dict):
        keys = [key for key, member in value.items() if _are_rows(member)]
        if not keys and value.get("rows") == [] and value.get("columns"):
            keys, names = ["rows"], list(value["columns"])
        if len(keys) != 1:
            return None
        rest = {key: member for key, member in value.items() if key not in (keys[0], "columns", "types")}
        value = value[keys[0]]
    elif isinstance(value, list) and value and all(isinstance(chunk, list) for chunk in value):
        value = [row for chunk in value for row in chunk]  # the chunks of a generator
    if not names and not _are_rows(value):
        return None
    names = list(dict.fromkeys([*names, *(name for row in value for name in row)]))
    return Rows(names, [{name: row.get(name) for name in names} for row in value], rest)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and row for row in value)


def write_rows(results: Results, found: Rows, kind: str) -> None:
    """Write rows to stdout in a format of `rrext sql`, and the other members of the result to stderr."""
    from rrext.cli.formats import FORMATS

    is_narrow = results.is_terminal and kind == "table"
    names, rows = found.names, found.rows
    if is_narrow and all(_path_of(row) is not None for row in rows):
        rows = [_of_file(row, (terminal_width() - FIGURES_WIDTH) // 2) for row in rows]
        names = [*rows[0]]
    made = FORMATS[kind](results)
    made.rows(msgspec.json.encode(rows), None)
    made.end(names, [])
    members: list[str] = []
    for name, value in found.rest.items():
        text = msgspec.json.encode(value).decode()
        members.append(f"{name}: {cut(text, MAX_MEMBER_WIDTH) if is_narrow and isinstance(value, dict | list) else text}")
    if members:
        print(printable(", ".join(members)), file=sys.stderr)


def _path_of(row: dict[str, Any]) -> str | None:
    """The path of the file of a stored chunk or object; None for other rows."""
    if row.keys() == {"parent", "objectId", "chunks"}:
        return row["parent"]
    metadata = row.get("metadata") if "content" in row else None
    path = metadata.get("parent") if isinstance(metadata, dict) else None
    return path if isinstance(path, str) else None


def _of_file(row: dict[str, Any], width: int) -> dict[str, Any]:
    """A chunk or an object with its file in the place of its metadata, of which a terminal has room for the beginning alone.

    Of a path that does not fit into `width` columns the end is shown, which tells files apart.
    """
    path = cut((_path_of(row) or "")[::-1], width)[::-1]
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("metadata", "parent"):
            shown["parent"] = path
        else:
            shown[name] = round(value, 4) if isinstance(value, float) else value
    return shown
