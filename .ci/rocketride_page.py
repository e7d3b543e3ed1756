"""The tables of `rrext/nodes/ROCKETRIDE.md`: RocketRide's nodes, as `.ci/rocketride.txt` has them, beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from node_pages import arrow, names, table

from rrext.nodes import BUILTIN
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.foreign_nodes import foreign_nodes

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "rrext" / "nodes" / "ROCKETRIDE.md"
FACTS = ROOT / ".ci" / "rocketride.txt"
BEGIN, END = "<!-- tables: python .ci/reference writes them -->", "<!-- end of the tables -->"


class Fact(NamedTuple):
    """A node of RocketRide: its lanes, its tools, its settings, and how ours differs beside them."""

    provider: str
    lanes: dict[str, list[str]]
    tools: list[str]
    settings: list[str]
    note: str


def facts() -> list[Fact]:
    """The rows of the file."""
    found: list[Fact] = []
    for line in FACTS.read_text(encoding="utf-8").splitlines():
        if line[0] not in "#@!":
            provider, lanes, tools, settings, note = (part.strip() for part in f"{line} ".split("|"))
            pairs = (each.split(">") for each in lanes.split(";") if each.strip())
            ways = {lane.strip(): [out for out in outs.strip().split(",") if out] for lane, outs in pairs}
            found.append(Fact(provider, ways, tools.split(), settings.split(), note))
    return found


class Example(NamedTuple):
    """A pipeline of RocketRide's repository: its nodes, and whether it has a fault of its own."""

    nodes: list[str]
    is_faulty: bool


def examples() -> list[Example]:
    """The pipelines of the file."""
    lines = [line for line in FACTS.read_text(encoding="utf-8").splitlines() if line[0] in "@!"]
    return [Example(line.partition("|")[2].split(), line[0] == "!") for line in lines]


def page() -> str:
    """The whole text: what stands there by hand, and the tables. Raises `SystemExit` for a node that nobody knows."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{chr(10).join(tables())}\n\n{END}{after}"


def tables() -> Iterator[str]:
    """RocketRide's own pipelines; the nodes that are here, that are not here, and that are here alone."""
    catalog = Catalog(installed=False)
    known, foreign = set(catalog.names_and_aliases()), foreign_nodes()
    yield from wanted(known)
    rows = facts()
    unknown = [fact.provider for fact in rows if fact.provider not in known and fact.provider not in foreign]
    if unknown:
        raise SystemExit(f"{', '.join(unknown)}: neither a node nor a row of rrext/pipefile/catalog/foreign_nodes.py")
    here = [fact for fact in rows if fact.provider in known]
    yield f"### Here: {len(here)}\n"
    yield table(("RocketRide", "here", "what differs"), [row_of(catalog, fact) for fact in here])
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node in foreign.values():
        lanes = ", ".join(node.accepted) + (" → " if node.offered else "") + ", ".join(node.offered)
        groups.setdefault((node.class_types[0], lanes.strip(), names(node.ours)), []).append(node.provider)
    yield f"\n### Not here: {len(foreign)}\n"
    cells = [(names(sorted(found)), kind, lanes, ours) for (kind, lanes, ours), found in groups.items()]
    yield table(("RocketRide", "kind", "lanes", "for the same purpose"), cells)
    theirs = {catalog.provider_of(fact.provider) for fact in here}
    yield "\n### Only here\n"
    yield f"{names(name for name in BUILTIN if name not in theirs)}."


def wanted(known: set[str]) -> Iterator[str]:
    """How many of RocketRide's pipelines have all their nodes here, and which nodes the others lack most."""
    found = examples()
    sound = [example for example in found if not example.is_faulty]
    whole = [example for example in sound if known.issuperset(example.nodes)]
    lacks: dict[str, int] = {}
    for example in found:
        for name in example.nodes:
            if name not in known:
                lacks[name] = lacks.get(name, 0) + 1
    most = sorted(lacks.items(), key=lambda row: (-row[1], row[0]))
    yield "### Its own pipelines\n"
    yield (
        f"Of the {len(found)} pipelines in RocketRide's repository (commit eee534a1), {len(whole)} load whole,"
        f" {len(sound) - len(whole)} in part (`--partial`), and {len(found) - len(sound)} not at all, for faults of their own:"
        " a lane that `chat` does not send, data that would run in a circle, an id that is not there."
    )
    if most:
        yield f"\nNodes that they lack: {', '.join(f'`{name}` ({count})' for name, count in most)}."
    yield ""


def row_of(catalog: Catalog, fact: Fact) -> tuple[str, str, str]:
    node = catalog.class_of(fact.provider)
    ours = node.provider
    family = BUILTIN[ours].split(".")[2]
    differences = list(differences_of(catalog, node, fact))
    text = "; ".join(differences) or "nothing"
    return f"`{fact.provider}`", f"[`{ours}`]({family}/REFERENCE.md#{ours})", text


def differences_of(catalog: Catalog, node: type[Node], fact: Fact) -> Iterator[str]:
    """What RocketRide's node has and ours lacks, the tools that ours has besides, and the note."""
    lost: dict[str, list[str]] = {}
    for lane, outs in fact.lanes.items():
        if lane not in node.lanes:
            lost[lane] = []
        elif rest := [out for out in outs if out not in node.lanes[lane]]:
            lost[lane] = rest
    if lost:
        yield "without " + ", ".join(f"`{arrow(lane, outs) or lane}`" for lane, outs in lost.items())
    if not node.has_dynamic_tools:
        if missing := [tool for tool in fact.tools if tool not in node.tools]:
            yield f"no tool {names(missing)}"
        if fact.tools and (more := [tool for tool in node.tools if tool not in fact.tools]):
            yield f"also {names(more)}"
    settings = catalog.settings_of(node)
    if settings is not None and (unread := [name for name in fact.settings if name not in settings.names]):
        yield f"does not read {names(unread)}"
    if fact.note:
        yield fact.note
