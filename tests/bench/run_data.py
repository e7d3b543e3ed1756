"""What do the data nodes add to the databases and stores below them?

    python tests/bench/run_data.py [--quick] [--only sql,vectors]

Each figure stands beside that of the driver or store alone, taken in the same run, in turns. The tools are called over
stdio, as clients call them. Exit code 1: a required figure was missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator

from bench_client import ServerGone
from bench_peers import Missing, installed
from bench_sql import ENGINES, LEAST, MANY_TIMES, OF_MANY, added, many_times
from bench_vectors import figures

Line = tuple[str, str, str, str, str, str]
HEADER: Line = ("what", "through rrext", "alone", "difference", "required", "verdict")


def sql_lines(command: list[str], quick: bool) -> Iterator[Line]:
    """Statements of one row, by primary key, and of many. All on one core: what it costs to wake another one is not the
    software's.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        for engine in ENGINES:
            for case, alone, taken in added(engine, command, 450 if quick else 2050):
                verdict = "required" if taken - alone <= LEAST[case] else "MISSED"
                difference, least = f"+{taken - alone:.0f} µs", f"≤ +{LEAST[case]:.0f} µs"
                yield (f"{engine.name}, {case}", f"{taken:.0f} µs", f"{alone:.0f} µs", difference, least, verdict)
        for engine in OF_MANY:
            for case, alone, taken in many_times(engine, command, 9 if quick else 31):
                verdict = "required" if taken / alone <= MANY_TIMES[case] else "MISSED"
                most = f"≤ {MANY_TIMES[case]:.0f}×"
                yield (f"{engine.name}, {case}", f"{taken:.1f} ms", f"{alone:.1f} ms", f"{taken / alone:.1f}×", most, verdict)
    finally:
        os.sched_setaffinity(0, cores)


def vector_lines(command: list[str], quick: bool) -> Iterator[Line]:
    """The embedded store, with made-up texts."""
    yield from figures(command, quick)


PARTS: dict[str, Callable[[list[str], bool], Iterator[Line]]] = {"sql": sql_lines, "vectors": vector_lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer calls and smaller stores")
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rrext", metavar="COMMAND", help="the command that is `rrext` (default: the one beside this Python)")
    given = parser.parse_args()
    parts = given.only.split(",")
    if strange := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown: {', '.join(strange)}")
    begun = time.monotonic()
    rows = [HEADER]
    try:
        command = installed(given.rrext)
        for part in parts:
            for line in PARTS[part](command, given.quick):
                rows.append(line)
                print(f"{line[0]}: {line[1]}", file=sys.stderr)
    except (Missing, ServerGone, RuntimeError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    drawn = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(drawn))
    print(
        f"\nMedians of one run on {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}, {time.monotonic() - begun:.0f} s."
    )
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
