"""How fast are the tools of `knowledge`, beside ripgrep on the same files?

    python tests/bench/run_knowledge.py [--quick]

Texts are made up, of a vocabulary as common and as rare as in prose, with planted words; always the same. Each figure is the
least of several runs, ripgrep's taken between them. Exit code 1: a required figure was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "nodes" / "knowledge")]

from knowledge_world import call, knowledge_pipeline, library_with  # noqa: E402

from rrext.nodes.knowledge.grep import Grep  # noqa: E402
from rrext.nodes.knowledge.library import View  # noqa: E402
from rrext.nodes.knowledge.navigation import find_by_name, list_folder_contents  # noqa: E402
from rrext.nodes.knowledge.partition import DocumentDraft, Partition  # noqa: E402
from rrext.nodes.knowledge.reading import read_document  # noqa: E402
from rrext.nodes.knowledge.selection import Selection  # noqa: E402
from rrext.nodes.text_search.pattern import Pattern  # noqa: E402

Line = tuple[str, str, str, str, str, str]
HEADER: Line = ("what", "handler", "whole call", "beside", "required", "verdict")

WORDS = 40_000
SIZE = 10_400
"""Characters of a text, about."""
FOLDERS = 50
PLANTED = {"quetzalcoatl": (5000, 1), "jabberwocky": (1000, 6), "hydroxyzine": (100, 1), "xylophones": (1, 1)}
"""Words, the number of texts among 10,000 that have them, and the lines of each: a text has the word of its subject often."""


def texts(count: int) -> Iterator[str]:
    """The texts, one after the other."""
    dice = random.Random(7)
    syllables = [a + b + c for a in "bcdfghklmnprstvwz" for b in "aeiou" for c in ("", "n", "r", "s", "t", "l")]
    words = list({"".join(dice.choices(syllables, k=dice.choice((1, 2, 2, 3, 3, 4)))): None for _ in range(WORDS)})
    weights = list(accumulate(1 / (n + 3) for n in range(len(words))))
    for number in range(count):
        lines: list[str] = []
        left = int(SIZE * dice.lognormvariate(-0.1, 0.45))
        while left > 0:
            lines.append(" ".join(dice.choices(words, cum_weights=weights, k=dice.randrange(8, 16))).capitalize() + ".")
            left -= len(lines[-1])
        for word, (often, times) in PLANTED.items():
            every = 10_000 // often
            if number % every == min(3, every - 1):
                for part in range(1, times + 1):
                    lines.insert(len(lines) * part // (times + 1), f"Here the {word} is 42 metres long.")
        yield "\n".join(lines) + "\n"


def fill(partition: Partition, folder: Path, count: int) -> tuple[int, float]:
    """Write files, and store them one by one, as a sync does. The bytes, and the seconds of processor time of storing."""
    size, taken = 0, 0.0
    for number, text in enumerate(texts(count)):
        inner = f"{number % FOLDERS:02}"
        (folder / inner).mkdir(exist_ok=True)
        (folder / inner / f"report{number:05}.txt").write_text(text)
        size += len(text)
        begun = time.process_time()
        partition.put(draft_of(inner, number, text))
        taken += time.process_time() - begun
    return size, taken


def draft_of(folder: str, number: int, text: str) -> DocumentDraft:
    name = f"report{number:05}.txt"
    return DocumentDraft(f"files/{folder}/{name}", "files", folder, name, text, "text/plain", {})


def least(runs: int, work: Callable[[], object]) -> float:
    """The milliseconds of the quickest of several runs."""
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken) * 1e3


def grep_cases() -> list[tuple[str, dict[str, Any], list[str], float | None]]:
    """What is searched, the arguments, those of ripgrep, and how many times quicker than it the handler has to be."""
    common, subject, some, rare = PLANTED
    expression = f"{some}\\s+is\\s+\\d+"
    counts = {"pattern": common, "output": "counts", "limit": 1000}
    return [
        ("a rare word", {"pattern": rare}, ["-F", rare], 200),
        ("a word of 100 texts", {"pattern": some}, ["-F", some], 30),
        ("a regex with a literal", {"pattern": expression, "regex": True}, [expression], 50),
        ("the first 100 hits of a subject's word", {"pattern": subject}, ["-F", subject], 100),
        ("the first 100 hits of a word of half the texts", {"pattern": common}, ["-F", common], None),
        ("all hits of a common word, counted", counts, ["-F", "-c", common], 1),
        ("two characters", {"pattern": "qz"}, ["-F", "qz"], None),
        ("a regex without a literal", {"pattern": "[a-z]{18}\\b", "regex": True}, ["[a-z]{18}\\b"], None),
    ]


def grepped(view: View, pattern: str, regex: bool = False, output: Any = "lines", limit: int = 100) -> dict[str, Any]:
    compiled = Pattern(pattern, is_regex=regex, ignores_case=False)
    return Grep(compiled, output, 0, Selection(None), (), limit).run(view, None, call())


async def grep_lines(root: Path, count: int, runs: int) -> list[Line]:
    """Filling a catalog, and searching it."""
    lines: list[Line] = []
    files = root / "files"
    files.mkdir()
    with library_with(root / "knowledge") as library, library.own(call()) as partition:
        size, taken = fill(partition, files, count)
        path = partition.path
        begun = time.process_time()
        library.merge()
        taken += time.process_time() - begun
    with closing(sqlite3.connect(path)) as rows:
        (index,) = rows.execute("SELECT sum(length(block)) FROM grams_data").fetchone()
    limit = 25 * count / 10_000
    lines.append(judged(f"storing {count:,} texts of {size / 1e6:.0f} MB, CPU", taken, "s", limit))
    lines.append(judged("the index, of the size of the texts", index / size, "×", 0.3))
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        print("ripgrep is not installed (rg): there is nothing to compare with", file=sys.stderr)
    async with knowledge_pipeline(root) as pipeline:
        with library_with(root / "knowledge") as library, library.view(call()) as view:
            for what, given, words, times in grep_cases():
                if times is not None and not grepped(view, **given)["total"]["hits"]:
                    raise RuntimeError(f"{what}: nothing was found")
                ours = least(runs, lambda given=given: grepped(view, **given))
                theirs = None
                if ripgrep is not None:
                    command = [ripgrep, "-j1", "--no-config", *words, str(files)]
                    theirs = least(max(2, runs // 2), lambda command=command: subprocess.run(command, capture_output=True))
                ours = min(ours, least(runs, lambda given=given: grepped(view, **given)))
                whole = []
                for _ in range(runs):
                    begun = time.perf_counter()
                    await pipeline.tool("grep_documents", **given)
                    whole.append(time.perf_counter() - begun)
                ratio = None if theirs is None else theirs / ours
                lines.append(
                    (
                        f"grep: {what}",
                        f"{ours:.2f} ms",
                        f"{min(whole) * 1e3:.2f} ms",
                        "no rg" if theirs is None or ratio is None else f"rg {theirs:.0f} ms, {ratio:.1f}×",
                        "–" if times is None else f"≥ {times:g}×",
                        "–" if times is None or ratio is None else "required" if ratio >= times else "MISSED",
                    )
                )
    return lines


def name_lines(root: Path, count: int, runs: int) -> Iterator[Line]:
    """Names, folders and reads among many small documents."""
    with library_with(root) as library, library.own(call()) as partition, library.view(call()) as view:
        for number in range(count):
            partition.put(draft_of(f"{number % FOLDERS:02}", number, "Some words.\n"))
        long = partition.put(
            DocumentDraft("long", "files", "00", "long.md", "A line of words.\n" * 600_000, "text/markdown", {})
        )
        yield from names(view, long.id, count, runs)


def names(view: View, long: str, count: int, runs: int) -> Iterator[Line]:
    def find(pattern: str) -> Callable[[], object]:
        return lambda: find_by_name(view, pattern, Selection(None), 100, None, call())

    for what, pattern, most in (
        ("a name", "report00777.txt", 5.0),
        ("a beginning", "report007*", 5.0),
        ("an extension", "*.md", 5.0),
        ("a glob without three letters", "*77?t*", None),
    ):
        yield judged(f"find_by_name: {what}, of {count:,}", least(runs, find(pattern)), "ms", most)
    yield judged("a page of a folder", least(runs, lambda: list_folder_contents(view, "files/07", 100, None)), "ms", 2.0)
    read = least(runs, lambda: read_document(view, [long], "characters", 5_000_000, 2000, 2000))
    yield judged("a read of 2,000 characters of 10 MB", read, "ms", 1.0)


def judged(what: str, value: float, unit: str, most: float | None) -> Line:
    verdict = "–" if most is None else "required" if value <= most else "MISSED"
    return (what, f"{value:.2f} {unit}", "–", "–", "–" if most is None else f"≤ {most:g} {unit}", verdict)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the documents: that all is measured, no figures")
    given = parser.parse_args()
    count, many, runs = (100, 1000, 2) if given.quick else (10_000, 100_000, 9)
    rows = [HEADER]
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "grep").mkdir()
        rows += asyncio.run(grep_lines(Path(name) / "grep", count, runs))
        rows += name_lines(Path(name) / "names", many, runs)
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    drawn = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(drawn))
    print(f"\nThe least of {runs} runs on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.")
    return 1 if any(row[-1] == "MISSED" for row in rows) and not given.quick else 0


if __name__ == "__main__":
    sys.exit(main())
