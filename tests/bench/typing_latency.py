"""How long after a keystroke is a pipeline checked again, beside checking it from scratch?

    python tests/bench/typing_latency.py [--nodes 500] [--edits 300] [--seed 7]

Every edit changes one character at a random place of a file as the canvas writes it, and is undone by the next one.
Medians and 99th percentiles of one run, in milliseconds; every result is also compared with a check from scratch.
Exit code 1: a result was not the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator

from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import check_pipeline

SIGNS = '"{}[],:\\/'
"""What makes text of another shape when it comes or goes."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--edits", type=int, default=300, help="of each kind")
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def document(nodes: int) -> str:
    """A pipeline of so many nodes in a row, with what the canvas keeps of each."""
    components = [component(number, f"prompt_{number - 1}" if number > 1 else "chat_1") for number in range(1, nodes - 1)]
    source = {"id": "chat_1", "provider": "webhook", "config": {"mode": "Source"}, "ui": place(0)}
    edge = {"lane": "questions", "from": f"prompt_{nodes - 2}"}
    response = {"id": "response_1", "provider": "response_questions", "config": {}, "input": [edge], "ui": place(nodes)}
    return json.dumps({"project_id": "typing", "components": [source, *components, response]}, indent=2)


def component(number: int, before: str) -> dict[str, object]:
    return {
        "id": f"prompt_{number}",
        "provider": "prompt",
        "config": {"instructions": [f"Do the thing {number}"]},
        "ui": place(number),
        "input": [{"lane": "questions", "from": before}],
    }


def place(number: int) -> dict[str, object]:
    return {"position": {"x": number * 10, "y": 20}, "measured": {"width": 150, "height": 66}, "nodeType": "default"}


def edits(text: str, count: int) -> Iterator[tuple[str, str]]:
    """(kind, text after it): a letter or digit becomes another one, or something is typed that is no JSON any more."""
    plain = [at for at, sign in enumerate(text) if sign.isalnum()]
    for _ in range(count):
        at = random.choice(plain)
        other = random.choice("123456789" if text[at].isdigit() else "abcdefgh")
        yield "another letter", text[:at] + other + text[at + 1 :]
        at = random.randrange(len(text))
        yield "a sign comes", text[:at] + random.choice(SIGNS) + text[at:]
        at = random.choice([found for found in range(at, min(at + 2000, len(text))) if text[found] in SIGNS] or [at])
        yield "a sign goes", text[:at] + text[at + 1 :]


class Typist:
    """Checks text after text with one catalog, and keeps the times in milliseconds."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.differing = 0
        self._catalog = Catalog()
        self._environment = Environment()

    def check(self, kind: str, text: str, before: LoadedPipeline | None = None) -> LoadedPipeline:
        start = time.perf_counter()
        loaded = check_pipeline(text, self._catalog, self._environment, positions=True, before=before)
        self.times[kind].append((time.perf_counter() - start) * 1000)
        return loaded

    def check_again(self, kind: str, text: str, before: LoadedPipeline) -> LoadedPipeline:
        again, first = self.check(kind, text, before), self.check("from scratch", text)
        self.differing += again.problems != first.problems or again.outline.chain != first.outline.chain
        return again


def main() -> int:
    given = arguments()
    random.seed(given.seed)
    text, typist = document(given.nodes), Typist()
    for warm in (text, text.replace("webhook", "webhok").replace('["Do', '{"Do'), text):  # imports what mistakes need
        loaded = typist.check("warm", warm)
    del typist.times["warm"]
    gc.collect()
    gc.freeze()
    for kind, changed in edits(text, given.edits):
        loaded = typist.check_again("undone", text, typist.check_again(kind, changed, loaded))
    print(f"{'edit':<16}{'p50 ms':>8}{'p99 ms':>8}{'checks':>8}")
    for kind, times in typist.times.items():
        print(f"{kind:<16}{statistics.median(times):>8.1f}{sorted(times)[len(times) * 99 // 100]:>8.1f}{len(times):>8}")
    print(
        f"\n{given.nodes} nodes, {len(text):,} characters; one run on {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}."
    )
    if typist.differing:
        print(f"{typist.differing} results were not what a check from scratch gives", file=sys.stderr)
    return 1 if typist.differing else 0


if __name__ == "__main__":
    sys.exit(main())
