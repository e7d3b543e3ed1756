"""How often does a request pass from module to module?

    python tests/bench/walk.py [WORD] [--calls]

Counts the Python calls within rrext of one warm request, in their order. A stay is a run of calls in one file, a return is a
stay in a file that was seen before. `--calls` prints each stay with its calls, WORD chooses the rows that contain it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench_client import FIRST_ID, Dap, Server

HERE = Path(__file__).resolve().parent
WARM = 40
"""Requests before the measured ones: quick tools are known, and buffers have their size."""
ROUNDS = 21
"""Measured requests of a kind, of which the median counts."""
WATCHES = {"server/end_watch.py", "engine/views/loop_watch.py", "transports/parent.py"}
"""Files of a thread that looks regularly whether the process is to end, or the loop is stuck."""
PACKAGE = f"{os.sep}rrext{os.sep}"
Entry = tuple[int, str, str]
"""A call: the time on the monotonic clock in ns, the file within rrext, the function."""


class Walk(NamedTuple):
    """A request's way through the files of rrext."""

    stays: int
    returns: int
    files: int
    calls: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.stays} stays, {self.returns} returns, {self.files} files"


def walk_of(calls: Iterable[tuple[str, str]]) -> Walk:
    """The walk of calls, given as file and function in their order."""
    calls = tuple(calls)
    files = [file for file, _ in groupby(file for file, _ in calls)]
    return Walk(len(files), len(files) - len(set(files)), len(set(files)), calls)


# -- in the counted process


def record(entries: list[Entry]) -> Callable[[Any, str, Any], None]:
    """A profile function that notes each call of a function of rrext; the code of modules and classes is not counted."""
    names: dict[Any, str | None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        try:
            name = names[code]
        except KeyError:
            _, found, inner = code.co_filename.rpartition(PACKAGE)
            is_function = bool(code.co_flags & 0x2)  # CO_NEWLOCALS
            name = names[code] = inner if found and is_function and inner not in WATCHES else None
        if name is not None:
            entries.append((time.monotonic_ns(), name, code.co_name))

    return note


def count_command(out: str, arguments: list[str]) -> None:
    """Run a command of rrext in this process, and write its calls to a file."""
    from rrext.cli.main import main

    entries: list[Entry] = []
    end, own = os._exit, os.getpid()

    def write_and_exit(code: int) -> None:
        if os.getpid() != own:  # a helper process, which was forked
            end(code)
        threading.setprofile(None)
        sys.setprofile(None)
        Path(out).write_text(json.dumps(entries), encoding="utf-8")
        end(code)

    os._exit = write_and_exit  # type: ignore[assignment]
    note = record(entries)
    threading.setprofile(note)
    sys.setprofile(note)
    code = main(arguments)
    sys.stdout.flush()
    write_and_exit(code)


# -- outside


def command_of(out: Path, *arguments: str) -> list[str]:
    """The command that counts a command of rrext."""
    return [sys.executable, str(HERE / "walk.py"), "--count", str(out), *arguments]


def serve_command(out: Path) -> list[str]:
    nodes = str(HERE / "bench_nodes.py")
    return command_of(out, "serve", "--nodes", nodes, str(HERE / "bench.pipe"))


def tool(name: str, **others: Any) -> dict[str, Any]:
    return {"subcommand": "tool", "tool": name, "nodeId": "bench_1", "input": {"a": 1, "b": 2}, **others}


def served(rounds: Iterable[Callable[[Callable[[dict[str, Any]], Any]], None]]) -> list[Walk]:
    """The walk of each round of requests to one server."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "calls.json"
        numbers = iter(range(FIRST_ID, FIRST_ID * 2))

        def ask(arguments: dict[str, Any]) -> Any:
            request = {"type": "request", "seq": next(numbers), "command": "rrext_process", "arguments": arguments}
            server.send(json.dumps(request).encode())
            answer = json.loads(server.receive())
            assert answer["success"], answer
            return answer["body"]

        marks: list[int] = []
        with Server(serve_command(out), Dap(), seconds=100) as server:
            for each in rounds:
                marks.append(time.monotonic_ns())
                each(ask)
            marks.append(time.monotonic_ns())
            assert server.process.stdin is not None
            server.process.stdin.close()
            server.process.wait()
        entries = sorted(json.loads(out.read_text(encoding="utf-8")), key=lambda entry: entry[0])
    return [walk_of((file, name) for at, file, name in entries if since <= at < until) for since, until in pairwise(marks)]


def median(walks: list[Walk]) -> Walk:
    """The walk in the middle: some requests meet the reader's watch, or the end of the request before."""
    walks = sorted(walks)
    return walks[len(walks) // 2]


def of_tool(name: str, **others: Any) -> Walk:
    """The walk of a tool call by node id."""
    return median(served([lambda ask: ask(tool(name, **others))] * (WARM + ROUNDS))[WARM:])


def of_object() -> Walk:
    """The walk of open, one write and close of a text object."""

    def once(ask: Callable[[dict[str, Any]], Any]) -> None:
        pipe = ask({"subcommand": "open", "object": {"name": "a.txt"}, "mimeType": "text/plain"})["pipe_id"]
        ask({"subcommand": "write", "pipe_id": pipe, "data": "a text"})
        ask({"subcommand": "close", "pipe_id": pipe})

    return median(served([once] * (WARM + ROUNDS))[WARM:])


def of_command() -> Walk:
    """The walk of `rrext tool FILE.pipe TOOL KEY=VALUE`, from the first command to the exit."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "calls.json"
        pipe = str(HERE.parent / "examples" / "filesystem.pipe")
        subprocess.run(command_of(out, "tool", pipe, "read_file", "path=welcome.txt"), check=True, stdout=subprocess.DEVNULL)
        return walk_of((file, name) for _, file, name in json.loads(out.read_text(encoding="utf-8")))


WALKS: dict[str, Callable[[], Walk]] = {
    "`def` tool": lambda: of_tool("add"),
    "`async def` tool": lambda: of_tool("add_async"),
    "open, write, close": of_object,
    "`rrext tool FILE`": of_command,
}


def main() -> None:
    shown = [title for title in WALKS if all(word in title for word in sys.argv[1:] if word != "--calls")]
    for title in shown:
        walk = WALKS[title]()
        print(f"{title}: {walk}")
        if "--calls" in sys.argv:
            for file, calls in groupby(walk.calls, key=lambda call: call[0]):
                print(f"    {file}: {', '.join(name for _, name in calls)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        count_command(sys.argv[2], sys.argv[3:])
    else:
        main()
