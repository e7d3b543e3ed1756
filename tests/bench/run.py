"""How fast is rrext, beside other servers and beside the least that any server must do?

    python tests/bench/run.py [--quick]

Installs the servers that it compares with into a cache folder, once. Every figure is the median of several rounds, in
which all servers take turns in random order; only ratios of one run mean something.
Exit code 1: rrext failed, or missed a required ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from bench_client import Dap, ServerGone
from bench_peers import PEERS, Missing, default_cache, rrext_command
from bench_phases import PHASES
from bench_subject import LEAST, QUICK, Size, Subject
from bench_table import ROWS, cells, table

Samples = dict[tuple[str, str], list[float]]
Reasons = dict[tuple[str, str], str]
"""(server, phase) → why it was not measured there; the phase is empty when it could not be had at all."""
FAILURES = (ServerGone, RuntimeError, OSError, ValueError)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and calls: about half a minute")
    parser.add_argument("--least", action="store_true", help="one round of the fewest calls, to see that all is measured")
    parser.add_argument("--only", metavar="PHASES", help=f"some of {','.join(PHASES)}, with commas between")
    parser.add_argument("--without", metavar="PEERS", default="", help=f"leave out some of {','.join(PEERS)}")
    parser.add_argument("--rounds", type=int, help="rounds of each phase")
    parser.add_argument("--rrext", metavar="COMMAND", help="the command that is `rrext` (default: the one beside this Python)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where peers are installed (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there too")
    given = parser.parse_args()
    given.phases = given.only.split(",") if given.only else list(PHASES)
    given.without = set(filter(None, given.without.split(",")))
    if strange := [name for name in given.phases if name not in PHASES] + [name for name in given.without if name not in PEERS]:
        parser.error(f"unknown: {', '.join(strange)}")
    return given


def subjects(given: argparse.Namespace) -> tuple[dict[str, Subject], Reasons]:
    """The servers that can be started, and for each other one the reason why not."""
    found = {"rrext": Subject("rrext", rrext_command(given.rrext), Dap())}
    reasons: Reasons = {}
    needed = {name for phase in given.phases for name in PHASES[phase].subjects} - {"rrext"}
    for name, peer in PEERS.items():
        if name not in needed or name in given.without:
            continue
        try:
            found[name] = Subject(name, peer.command(given.cache.expanduser().resolve()), peer.dialect)
        except (Missing, OSError) as error:
            reasons[name, ""] = str(error)
    return found, reasons


def measure(title: str, ready: dict[str, Subject], rounds: int, size: Size, reasons: Reasons) -> Samples:
    """All rounds of a phase. A server that fails once is out of it, with all its figures."""
    phase, samples = PHASES[title], defaultdict(list)
    taking_part = [name for name in phase.subjects if name in ready]
    for number in range(rounds):
        say(f"{title}: round {number + 1} of {rounds}")
        random.shuffle(taking_part)
        for name in list(taking_part):
            try:
                figures = phase.subjects[name](ready[name], size)
            except FAILURES as error:
                reasons[name, title] = f"{type(error).__name__}: {error}"
                taking_part.remove(name)
                continue
            for figure, value in figures.items():
                samples[name, figure].append(value)
    return {(name, figure): values for (name, figure), values in samples.items() if name in taking_part}


def say(text: str) -> None:
    """Progress, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r{text:<40}", end="", file=sys.stderr, flush=True)


def main() -> int:
    given = arguments()
    random.seed(7)
    try:
        ready, reasons = subjects(given)
    except Missing as error:
        print(error, file=sys.stderr)
        return 2
    samples: Samples = {}
    begun = time.monotonic()
    for name in given.phases:
        phase = PHASES[name]
        rounds = given.rounds or (1 if given.least else phase.quick_rounds if given.quick else phase.rounds)
        samples |= measure(name, ready, rounds, LEAST if given.least else QUICK if given.quick else Size(), reasons)
    say("")
    medians = {key: statistics.median(values) for key, values in samples.items()}
    titles = {name: peer.title for name, peer in PEERS.items()}
    lines = [cells(row, medians, titles, reasons) for row in ROWS if row.phase in given.phases]
    print(table(lines))
    print(
        f"\nMedians of one run on {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}, {time.monotonic() - begun:.0f} s."
    )
    if given.json:
        dump = [{"server": server, "figure": figure, "samples": values} for (server, figure), values in samples.items()]
        given.json.write_text(json.dumps(dump, indent=1))
    failed = any(server == "rrext" for server, _ in reasons)
    return 1 if failed or any(line[-1] == "MISSED" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
