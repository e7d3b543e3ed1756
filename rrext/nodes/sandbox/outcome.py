"""The result of the tool, made from the answer of a supervisor, and the beginning and the end of an output stream of any
size. Pure; the guest's part of the answer is untrusted.
"""

from __future__ import annotations

import os
import signal
from base64 import b64decode
from contextlib import nullcontext
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import Cancelled, ToolError, Unavailable
from rrext.nodes.sandbox.grant import MIB, NOTHING, Grant, SandboxLimits
from rrext.nodes.sandbox.values import MAX_DEPTH, MOST_BITS
from rrext.tools.results import LARGE_TEXT, LARGE_VALUES, NotJson, encode_json

_KILLED = 128
_PNG: Final = "iVBORw0KGgo"
"""The begin of a PNG in base64: the eight bytes of its signature, but for two bits."""

_LACKS: Final = {
    "module": "the sandbox has no module `{name}`: {why_not}",
    "network": "the sandbox has no network: put the data into the program, after another tool has fetched it",
    "processes": "the sandbox has no other processes, nor what multiprocessing shares with them: use threads, such as "
    "concurrent.futures.ThreadPoolExecutor starts",
    "files": "the sandbox has no files: put the data into the program, use io.StringIO, io.BytesIO or sqlite3's `:memory:`, "
    "and hand values back in `result` or print them",
    "input": "a program gets no input: put the values into the program",
    "memory": "a program has {memory} MiB of memory, of which Python takes 30 and each thread 4",
    "threads": "a program has at most {threads} threads, and each takes 4 of its {memory} MiB of memory",
    "descriptors": "a program has at most {open_files} open files, sockets and pipes: close those that it no longer needs",
}
"""The lacks of the sandbox that a guest may name → the sentence for the program's author, with the way to do without."""

_PERHAPS: Final[dict[int, str]] = {
    signal.SIGKILL: ", by the system: perhaps its memory ran out",
    signal.SIGSEGV: ": perhaps a recursion was deeper than the stack has room for",
}
_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))


class PythonRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a program.

    `exit_code` is 0 after a clean end, 1 after an exception, the program's own after `sys.exit(n)`, −1 when its time
    was up, and 128 + n when signal n ended it. `result_text` is the variable `result` as strict JSON, None without one: a
    guest may send a text whose value is thirty times as large. `picture` is a PNG, if the result is one.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    result_text: bytes | None = None
    picture: bytes | None = None

    @property
    def result(self) -> Any:
        """The value of `result`, None without one."""
        return None if self.result_text is None else msgspec.json.decode(self.result_text)

    @property
    def has_result(self) -> bool:
        """Whether there is one."""
        return self.result_text is not None


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A supervisor's answer: why the guest ended, its exit status (−1: a signal ended it), the signal or 0."""

    why: str
    exit_code: int = -1
    signal: int = 0
    stdout: str = ""
    stderr: str = ""


class _Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    lack: str = ""
    result: Any = msgspec.UNSET
    picture: str = ""


def outcome(answer: ProgramEnd, report: bytes, limits: SandboxLimits, grant: Grant = NOTHING) -> PythonRun:
    """Make the result of a program. Raises `Cancelled`, `Unavailable` without full confinement, `ToolError` for our bugs."""
    for root in grant.roots:  # as the path of the interpreter, that of packages stays hidden
        answer = msgspec.structs.replace(answer, stderr=answer.stderr.replace(root, "<packages>"))
    if answer.why == "cancelled":
        raise Cancelled()
    if answer.why.startswith("walls"):
        detail = answer.why.partition(": ")[2] or "the guest did not start"
        said = answer.stderr.strip()[-300:]
        raise Unavailable(f"This machine could not isolate the program, so it did not run: {detail}{said and f' ({said})'}")
    if answer.why.startswith("broken"):
        raise ToolError(f"The sandbox failed, and the program was killed: {answer.why.partition(': ')[2]}")
    if answer.why == "timeout":
        note = f"Killed: the time limit of {limits.timeout:g} s was reached"
        return _run(answer, limits, -1, note, timed_out=True)
    if answer.why == "threads":
        return _run(answer, limits, _KILLED + signal.SIGKILL, f"Killed: it had more than {limits.threads} threads")
    if answer.why == "memory":
        note = f"Killed: programs that ran together had more than {limits.total_memory // MIB} MiB, this one the most of it"
        return _run(answer, limits, _KILLED + signal.SIGKILL, note)
    if answer.signal:
        return _run(answer, limits, _KILLED + answer.signal, _signal_note(answer.signal))
    return _ended(answer, report, limits, grant)


def _ended(answer: ProgramEnd, report: bytes, limits: SandboxLimits, grant: Grant) -> PythonRun:
    if not report:  # `os._exit`: the program's own choice
        return _run(answer, limits, answer.exit_code)
    try:
        with LARGE_VALUES if len(report) > LARGE_TEXT else nullcontext():
            told = msgspec.json.decode(report, type=_Report)
            _check(told.result)
            text = picture = None
            if told.result is not msgspec.UNSET and told.result is not None:
                text, picture = encode_json(told.result), _png(told.picture or told.result)
            told = msgspec.structs.replace(told, result=None)
    except (msgspec.MsgspecError, ValueError, RecursionError, NotJson):
        note = "The variable `result` could not be read: what arrived is not what the sandbox sends"
        return _run(answer, limits, answer.exit_code or 1, note)
    # The status tells what happened after the report, in threads and at exit; in a report the code may be wider.
    exit_code = told.exit_code if told.exit_code & 0xFF == answer.exit_code else answer.exit_code
    run = _run(answer, limits, exit_code, _lack_note(told.lack, limits, grant))
    return msgspec.structs.replace(run, result_text=text, picture=picture)


def _png(text: Any) -> bytes | None:
    """The PNG that base64 stands for, which may be the result itself."""
    if not isinstance(text, str) or not text.startswith(_PNG):
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _check(result: Any) -> None:
    """Raise `ValueError` for a value that no guest of ours sends: readers of the answer might fail at it."""
    level: list[Any] = [result]
    for _ in range(MAX_DEPTH + 1):
        if any(type(each) is int and each.bit_length() > MOST_BITS for each in level):
            raise ValueError("too large")
        holders = [each for each in level if type(each) is list or type(each) is dict]
        if not holders:
            return
        level = [inner for each in holders for inner in (each.values() if type(each) is dict else each)]
    raise ValueError("too deep")


def _run(answer: ProgramEnd, limits: SandboxLimits, exit_code: int, note: str = "", *, timed_out: bool = False) -> PythonRun:
    stderr = answer.stderr.replace(_LIBRARY, "<python>")  # the path of the host's interpreter stays hidden
    if note:
        gap = "\n" if stderr and not stderr.endswith("\n") else ""
        stderr = cut_middle(f"{stderr}{gap}{note}\n", limits.output)
    return PythonRun(stdout=answer.stdout, stderr=stderr, exit_code=exit_code, timed_out=timed_out)


def _lack_note(lack: str, limits: SandboxLimits, grant: Grant) -> str:
    word, _, name = lack.partition(":")
    if word not in _LACKS:
        return ""
    values = {**limits._asdict(), "memory": limits.memory // MIB, "name": name, "why_not": grant.why_not(name)}
    return "Note: " + _LACKS[word].format_map(values)


def _signal_note(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"Killed by {name}{_PERHAPS.get(number, '')}"


_CONTINUATION = bytes(range(0x80, 0xC0))
_WIDEST = 4  # bytes of a character in UTF-8


class Capture:
    """Collects the bytes of a stream in bounded memory, and gives their text cut to `limit` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._half = limit * _WIDEST // 2  # bytes that hold half of the characters, whatever they are
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never holds more than six bytes for each character of the limit."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:  # in large steps, so that each byte is moved about once
            self._drop(len(self._tail) - self._half)

    def _drop(self, count: int) -> None:
        for _ in range(_WIDEST - 1):  # whole characters, so that each is counted once
            if self._tail[count] & 0xC0 == 0x80:
                count += 1
        gone = bytes(self._tail[:count])
        self._dropped += len(gone.translate(None, _CONTINUATION))  # characters: bytes that begin one
        del self._tail[:count]

    def text(self) -> str:
        """The text, at most `limit` characters; bytes that are no UTF-8 become U+FFFD."""
        if not self._dropped:
            return cut_middle((self._head + self._tail).decode("utf-8", "replace"), self._limit)
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return cut_middle(head + tail, self._limit, left_out=self._dropped)


def cut_middle(text: str, limit: int, *, left_out: int = 0) -> str:
    """`text`, with its middle replaced by a marker if it is longer than `limit` characters.

    The result is never longer than `limit`. `left_out` characters are missing from the middle already.
    """
    if len(text) <= limit and not left_out:
        return text
    total = len(text) + left_out
    marker = ""
    for _ in range(3):  # the marker takes room too, and its length depends on the number that it tells
        marker = f"\n… [{total - max(limit - len(marker), 0)} characters left out] …\n"
    room = max(limit - len(marker), 0)
    first = (room + 1) // 2
    last = room - first
    return (text[:first] + marker + (text[-last:] if last else ""))[:limit]
