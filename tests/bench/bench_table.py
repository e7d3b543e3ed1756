"""The table: what is compared with what, which ratio a release must show, and which we want to be known for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Medians = Mapping[tuple[str, str], float]
"""(server, figure) → median of all rounds"""

HEADER = ("what", "rrext", "peer or floor", "ratio", "required", "stretch", "verdict")


@dataclass(frozen=True)
class Row:
    """One comparison: the ratio to a peer's figure is judged or, without a peer, the figure itself."""

    what: str
    phase: str
    figure: str
    peer: tuple[str, str] | None
    required: float
    stretch: float
    more: bool = False
    """Whether more is better."""


ROWS = (
    Row("one call, async tool, same core", "calls", "async p50 µs", ("floor", "any p50 µs"), 4.5, 3),
    Row("one call, sync tool, same core", "calls", "sync p50 µs", ("floor", "any p50 µs"), 7, 4),
    Row("64 in flight, async tool", "calls", "async calls/s", ("mcp", "any calls/s"), 35, 60, more=True),
    Row("64 in flight, sync tool", "calls", "sync calls/s", ("mcp", "any calls/s"), 35, 60, more=True),
    Row("64 in flight, async tool", "calls", "async calls/s", ("node", "any calls/s"), 1.5, 2.5, more=True),
    Row("64 in flight, sync tool", "calls", "sync calls/s", ("node", "any calls/s"), 1.5, 2.5, more=True),
    Row("spawn to first result", "start", "start ms", ("mcp", "start ms"), 1 / 4, 1 / 6),
    Row("spawn to first result", "start", "start ms", ("mcp-ts", "start ms"), 1, 1 / 2),
    Row("200 sync calls of 50 ms, 64 threads", "sleep", "sleep ms", None, 250, 215),
    Row("write 1 MiB raw × 4 pipes", "write", "write MB/s", ("floor", "write MB/s"), 1 / 2, 0.8, more=True),
    Row("write 1 MiB, against base64", "write", "write MB/s", ("node", "write MB/s"), 2, 3, more=True),
    Row("memory over 100,000 calls", "memory", "soak MiB", None, 5, 0.5),
    Row("memory over 1 GiB written", "memory", "flood MiB", None, 10, 0.5),
)
"""200 sleeps on 64 threads cannot be over before 200 ms. Half a MiB counts as no growth: pages come and go."""


def judge(row: Row, value: float) -> str:
    """`stretch`, `required` or `MISSED`."""

    def reached(mark: float) -> bool:
        return value >= mark if row.more else value <= mark

    return "stretch" if reached(row.stretch) else "required" if reached(row.required) else "MISSED"


def cells(row: Row, medians: Medians, titles: Mapping[str, str], reasons: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """One line of the table; a figure that is not there is replaced by the reason why."""
    sign = "≥" if row.more else "≤"
    unit = row.figure.rsplit(" ", 1)[-1]
    form = ratio if row.peer else f"{{:g}} {unit}".format
    marks = tuple(f"{sign} {form(value)}" for value in (row.required, row.stretch))
    ours, theirs, beside, missing = medians.get(("rrext", row.figure)), None, "itself", "rrext"
    if row.peer:
        name, figure = row.peer
        theirs = medians.get((name, figure))
        beside = titles[name] + ("" if theirs is None else f" {number(theirs)} {unit}")
        missing = "rrext" if ours is None else name
    shown = "–" if ours is None else f"{number(ours)} {unit}"
    if ours is None or (row.peer and theirs is None):
        reason = reasons.get((missing, row.phase)) or reasons.get((missing, "")) or "left out"
        return (row.what, shown, beside, "–", *marks, f"not measured: {reason}")
    value = ours / theirs if theirs else ours
    return (row.what, shown, beside, ratio(value) if theirs else "–", *marks, judge(row, value))


def ratio(value: float) -> str:
    return f"{value:.1f}×" if value >= 10 else f"{value:.2f}×"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def table(lines: Sequence[Sequence[str]]) -> str:
    """Aligned columns, readable as Markdown too."""
    rows = [HEADER, *lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    drawn = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    drawn.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(drawn)
