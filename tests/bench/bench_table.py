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


KINDS = ("def", "async def")
SHAPES = ("with nodeId", "with timeout", "with context", "with progress", "on a pipe", "with a ToolContext")
SHAPE_ROWS = (
    Row("plain `def` call", "shapes", "plain def p50 µs", ("rrext", "Python floor p50 µs"), 3, 2),
    Row("plain `async def` call", "shapes", "plain async def p50 µs", ("rrext", "Python floor p50 µs"), 4, 2.5),
    *(
        Row(f"`{kind}` call {shape}", "shapes", f"{shape} {kind} p50 µs", ("rrext", f"plain {kind} p50 µs"), 1.4, 1.2)
        for kind in KINDS
        for shape in SHAPES
    ),
    Row(
        "`def` calls in a batch behind a slow one",
        "shapes",
        "def batch behind a slow call CPU µs",
        ("rrext", "def batch CPU µs"),
        1.4,
        1.2,
    ),
    *(
        Row(f"64 in flight, `{kind}`", "shapes", f"{kind} calls/s", (peer, "calls/s"), required, stretch, more=True)
        for peer, required, stretch in (("node", 1.8, 2.5), ("mcp", 35, 60))
        for kind in KINDS
    ),
    Row("`def` call over MCP", "shapes", "over MCP p50 µs", ("rrext", "plain def p50 µs"), 1.3, 1.1),
    Row("64 in flight over MCP", "shapes", "over MCP calls/s", ("mcp", "calls/s"), 30, 60, more=True),
    Row("await client.tool()", "shapes", "client.tool() p50 µs", ("rrext", "raw call p50 µs"), 2.2, 1.8),
    Row("await client.tool()", "shapes", "client.tool() p50 µs", ("rrext", "bare asyncio client p50 µs"), 1.4, 1.25),
    Row("client.tool() with timeout", "shapes", "client.tool(timeout=) p50 µs", ("rrext", "client.tool() p50 µs"), 1.2, 1.1),
    Row("client.tool() with context", "shapes", "client.tool(context=) p50 µs", ("rrext", "client.tool() p50 µs"), 1.4, 1.2),
    Row("client.tool() with progress", "shapes", "client.tool(progress=) p50 µs", ("rrext", "client.tool() p50 µs"), 1.4, 1.2),
    Row("client.tools_call()", "shapes", "client.tools_call() p50 µs", ("rrext", "client.tool() p50 µs"), 1.3, 1.1),
    Row(
        "the same, one argument fixed",
        "shapes",
        "client.tools_call(), b fixed p50 µs",
        ("rrext", "client.tool() p50 µs"),
        1.3,
        1.15,
    ),
    Row("resolve of 200 references", "shapes", "resolve of 200 references p50 µs", None, 20_000, 10_000),
    Row("client.tool() over JSON-RPC", "shapes", "JSON-RPC client p50 µs", ("rrext", "client.tool() p50 µs"), 1.4, 1.2),
    Row("pipe.tool()", "shapes", "pipe.tool() p50 µs", ("rrext", "client.tool() p50 µs"), 1.4, 1.2),
    Row("blocking client, free cores", "shapes", "blocking client p50 µs", ("rrext", "async client p50 µs"), 1.5, 1.3),
)
ROWS = (
    *SHAPE_ROWS,
    Row("call over MCP by HTTP", "http", "over HTTP p50 µs", ("rrext", "SDK over HTTP p50 µs"), 1.3, 1.1),
    Row("external MCP server", "outside", "through rrext p50 µs", ("rrext", "SDK client alone p50 µs"), 1.15, 1),
    Row("spawn to first result", "start", "start ms", ("mcp", "start ms"), 1 / 4, 1 / 6),
    Row("spawn to first result", "start", "start ms", ("mcp-ts", "start ms"), 1, 1 / 2),
    Row("spawn to first result over MCP", "start", "MCP start ms", ("mcp", "start ms"), 1 / 5, 1 / 8),
    Row("200 sync calls of 50 ms, 64 threads", "sleep", "sleep ms", None, 250, 215),
    Row("write 1 MiB raw × 4 pipes", "write", "write MB/s", ("floor", "write MB/s"), 1 / 2, 0.8, more=True),
    Row("write 1 MiB, against base64", "write", "write MB/s", ("node", "write MB/s"), 2, 3, more=True),
    Row("1,000 idle WebSockets, each", "network", "idle client, RSS KiB", None, 40, 32),
    Row("the same, proportional", "network", "idle client, PSS KiB", None, 40, 32),
    Row("100 WebSockets, 16 each", "network", "100 clients calls/s", ("rrext", "one client calls/s"), 0.7, 0.9, more=True),
    Row(
        "the same, a call each",
        "network",
        "100 clients, a call each, calls/s",
        ("rrext", "one client calls/s"),
        0.3,
        0.45,
        more=True,
    ),
    Row("the slowest of them", "network", "slowest client ms", ("rrext", "median client ms"), 3, 1.5),
    Row("64 in flight over WebSocket", "network", "rrext.Client calls/s", ("rrext", "MCP SDK calls/s"), 5, 10, more=True),
    Row("served MCP client", "network", "for an MCP client CPU µs", ("rrext", "MCP SDK's server CPU µs"), 1.2, 1),
    *(
        Row(
            f"call {shape}of a task in a process",
            "network",
            f"{shape}in a process µs",
            ("rrext", f"{shape}in the server µs"),
            1.6,
            1.3,
        )
        for shape in ("", "with timeout, ", "on a pipe, ")
    ),
    Row(
        "64 in flight to it, results of 20 KB",
        "network",
        "20 KB, in a process calls/s",
        ("rrext", "20 KB, in the server calls/s"),
        0.25,
        0.5,
        more=True,
    ),
    *(
        Row(
            f"call beside a slow reader, in {place}",
            "network",
            f"beside a slow reader, in {place} µs",
            ("rrext", f"beside a quick reader, in {place} µs"),
            2,
            1.3,
        )
        for place in ("a process", "the server")
    ),
    Row(
        "raw writes to it, over WebSocket", "network", "in a process MB/s", ("rrext", "in the server MB/s"), 0.7, 0.9, more=True
    ),
    Row("execute to first result, in a process", "network", "execute in a process ms", None, 60, 30),
    Row("memory of that process, proportional", "network", "process MiB", None, 40, 25),
    Row("dashboard, 1,000 tasks of 10 users", "network", "dashboard, in the server ms", None, 20, 10),
    Row("the same, 100 tasks in processes", "network", "dashboard, in a process ms", None, 20, 10),
    Row("end of a connection, 1,000 tasks", "network", "end of a connection, in the server ms", None, 1, 0.5),
    Row("the same, 100 tasks in processes", "network", "end of a connection, in a process ms", None, 1, 0.5),
    Row("memory over 100,000 calls", "memory", "soak MiB", None, 5, 0.5),
    Row("memory over 1 GiB written", "memory", "flood MiB", None, 10, 0.5),
)
"""200 sleeps on 64 threads cannot be over before 200 ms. Half a MiB counts as no growth: pages come and go. A client with one
call at a time costs two system calls and a turn of the loop for each, which calls in a batch share."""


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
        title = figure.removesuffix(f" {unit}").removesuffix(" p50") if name == "rrext" else titles[name]
        beside = title + ("" if theirs is None else f" {number(theirs)} {unit}")
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
