"""The numbers of a server as Prometheus reads them: sums over all users, and for its operator those of users and pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from rrext.engine.interface.engine import Engine
from rrext.engine.interface.totals import BUCKETS, COMMANDS, Labels, Times
from rrext.version import __version__


async def metrics_text(engine: Engine, connections: int, *, redact: Callable[[str], str] | None = None) -> str:
    """The exposition of all metrics, version 0.0.4 of the text format.

    With `redact`, which takes secrets out of the names of pipelines, also of those that are for the operator alone.
    """
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
    lines = _head("rrext_info", "gauge", "The version of the server.")
    lines.append(f'rrext_info{{version="{__version__}"}} 1')
    for name, kind, meaning, value in rows:
        lines += [*_head(name, kind, meaning), f"{name} {value}"]
    if engine.times is not None:
        times, outcomes = engine.times.read()
        sums = dict.fromkeys(COMMANDS.values(), Times())
        for (_, _, command), each in times.items():
            sums[command] = sums[command].plus(each)
        meaning = "How long the calls of a command took, with their time in line."
        lines += _histogram("rrext_call_duration_seconds", meaning, {f'command="{name}"': sums[name] for name in sums})
        if redact is not None:
            lines += _of_users(times, outcomes, redact)
    return "\n".join([*lines, ""])


def _of_users(times: Mapping[Labels, Times], outcomes: Mapping[Labels, int], redact: Callable[[str], str]) -> Iterator[str]:
    shown_times: dict[str, Times] = {}
    shown_outcomes: Counter[str] = Counter()
    for labels, each in times.items():  # two names may look alike once their secrets are taken out
        shown = _labels(labels, "command", redact)
        shown_times[shown] = shown_times.get(shown, Times()).plus(each)
    for labels, number in outcomes.items():
        shown_outcomes[_labels(labels, "outcome", redact)] += number
    meaning = "How long the calls of a user to a pipeline took."
    yield from _histogram("rrext_user_call_duration_seconds", meaning, shown_times)
    yield from _head("rrext_user_calls_total", "counter", "The calls of a user to a pipeline that were answered.")
    yield from (f"rrext_user_calls_total{{{labels}}} {number}" for labels, number in shown_outcomes.items())


def _histogram(name: str, meaning: str, times: Mapping[str, Times]) -> Iterator[str]:
    yield from _head(name, "histogram", meaning)
    for labels, each in times.items():
        for bound, number in zip((*map(str, BUCKETS), "+Inf"), each.reached, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {number}'
        yield f"{name}_sum{{{labels}}} {each.seconds}"
        yield f"{name}_count{{{labels}}} {each.reached[-1]}"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels, last: str, redact: Callable[[str], str]) -> str:
    names = ("user", "pipeline", last)
    return ",".join(f'{name}="{_escaped(redact(value))}"' for name, value in zip(names, labels, strict=True))


def _escaped(value: str) -> str:
    """A label's value: clients choose names with anything in them."""
    plain = value.encode("utf-8", "replace").decode()
    return plain.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
