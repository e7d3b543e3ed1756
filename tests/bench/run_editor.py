"""How soon does a person see what is wrong with what he types? From a keystroke to its diagnostics, over stdio.

    python tests/bench/run_editor.py [--quick]

Beside `rrext lsp` stands the floor: a server on pygls that keeps the text and publishes that nothing is wrong. Exit code 1:
a required figure was missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench_client import ServerGone
from bench_editor import BROKEN, VALID, EditorSession, Typist, pipeline
from bench_peers import SERVERS, Missing, editor_command

REQUIRED_MS = 50.0
BUSY_SECONDS = 60.0

HEADER = ("nodes", "what is typed", "meanwhile", "p50 ms", "p99 ms", "floor p50 ms", "required", "verdict")


@dataclass(frozen=True)
class Case:
    """One line of the table. Of `burst` keystrokes the last one is timed; they are `pause` seconds apart."""

    nodes: int
    typed: str
    meanwhile: str = "nothing"
    burst: int = 1
    pause: float = 0.0


CASES = (
    *(Case(nodes, typed) for nodes in (10, 100, 500) for typed in (VALID, BROKEN)),
    Case(500, VALID, "10 keys, 5 ms apart", burst=10, pause=0.005),
    Case(500, BROKEN, "10 keys, 5 ms apart", burst=10, pause=0.005),
    Case(500, BROKEN, "10 keys at once", burst=10),
    Case(500, BROKEN, "8 requests, always"),
    Case(500, BROKEN, "a tool keeps a core busy"),
)
LEAST = 4
"""Keystrokes of `--least`."""
NAMES = {VALID: "a text, longer and longer", BROKEN: "a member, key by key"}


def measure(case: Case, command: list[str], count: int) -> list[float]:
    """Milliseconds of each keystroke, sorted."""
    typist = Typist(pipeline(case.nodes), case.typed)
    with EditorSession(command, typist.text) as session:
        if session.problems:
            raise RuntimeError(f"{session.problems} problems in a sound file")
        if "requests" in case.meanwhile:
            session.flood(typist.line)
        if "tool" in case.meanwhile:
            session.run_busy_tool(BUSY_SECONDS)
        if count > LEAST:  # whose figures tell nothing, warm or not
            list(session.latencies(typist, len(case.typed) * 2))
        return sorted(taken * 1e3 for taken in session.latencies(typist, count, burst=case.burst, pause=case.pause))


def starts(command: list[str], rounds: int) -> float:
    """Milliseconds from spawn to the answer of `initialize`, the median."""
    taken = []
    for _ in range(rounds):
        with EditorSession(command, "{}") as session:
            taken.append(session.start * 1e3)
    return statistics.median(taken)


def lines(command: list[str], count: int, rounds: int) -> Iterator[tuple[str, ...]]:
    floor = [sys.executable, str(SERVERS / "pygls_floor.py")]
    ours, theirs = starts(command, rounds), starts(floor, rounds)
    yield ("–", "spawn to initialize", "nothing", f"{ours:.0f}", "–", f"{theirs:.0f}", "–", "–")
    for case in CASES:
        taken, least = measure(case, command, count), measure(case, floor, count)
        p50, p99 = statistics.median(taken), taken[int(len(taken) * 0.99)]
        verdict = "required" if p50 <= REQUIRED_MS else "MISSED"
        figures = (f"{p50:.1f}", f"{p99:.1f}", f"{statistics.median(least):.1f}", f"p50 ≤ {REQUIRED_MS:g}")
        yield (str(case.nodes), NAMES[case.typed], case.meanwhile, *figures, verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer keystrokes")
    parser.add_argument("--least", action="store_true", help="the fewest keystrokes, to see that all is measured")
    parser.add_argument("--rrext", metavar="COMMAND", help="the command that is `rrext` (default: the one beside this Python)")
    given = parser.parse_args()
    begun, missed = time.monotonic(), False
    try:
        command = editor_command(given.rrext)
        rows = [HEADER]
        keys, rounds = (LEAST, 1) if given.least else (40, 3) if given.quick else (300, 9)
        for line in lines(command, keys, rounds):
            rows.append(line)
            missed = missed or line[-1] == "MISSED"
    except (Missing, ServerGone, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    drawn = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(drawn))
    print(
        f"\nOne run on {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}, {time.monotonic() - begun:.0f} s."
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
