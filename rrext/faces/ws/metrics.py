"""The numbers of a server as Prometheus reads them: sums over all users, and nothing of one."""

from __future__ import annotations

from rrext.engine.interface.engine import Engine
from rrext.version import __version__


async def metrics_text(engine: Engine, connections: int) -> str:
    """The exposition of all metrics, version 0.0.4 of the text format."""
    totals = await engine.totals()
    rows = (
        ("rrext_connections", "gauge", "Clients of WebSockets and of stdin.", connections),
        ("rrext_tasks", "gauge", "Pipelines that are loaded.", totals.tasks),
        ("rrext_pipes", "gauge", "Pipes that are open.", totals.pipes),
        ("rrext_running_calls", "gauge", "Calls that run.", totals.running),
        ("rrext_calls_total", "counter", "Calls that began.", totals.calls),
        ("rrext_objects_completed_total", "counter", "Objects whose pipe was closed without a failure.", totals.completed),
        ("rrext_objects_failed_total", "counter", "Objects that failed.", totals.failed),
    )
    lines = [
        "# HELP rrext_info The version of the server.",
        "# TYPE rrext_info gauge",
        f'rrext_info{{version="{__version__}"}} 1',
    ]
    for name, kind, meaning, value in rows:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value}"]
    return "\n".join([*lines, ""])
