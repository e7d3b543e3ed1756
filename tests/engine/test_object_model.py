"""Random pipelines, compared with a model that is nothing but recursion."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_pipelines import SOURCE, Flow, LoopServices

from rrext.engine.flow.intake import Intake
from rrext.errors import RrextError
from rrext.nodes.base.node import Entry, Node
from rrext.tools.context import ToolContext

LANES = ("text", "table")
Action = Literal["drop", "forward", "both", "hold"]


class Behaviour(NamedTuple):
    """A node: what it does on each lane that it has a method for, and in closing; which methods are `async def`."""

    lanes: dict[str, Action]
    lifecycle: tuple[str, ...]
    is_async: tuple[str, ...]
    context: bool


class Case(NamedTuple):
    nodes: dict[str, Behaviour]
    edges: tuple[str, ...]
    writes: tuple[str, ...]
    fail_at: int | None
    """The number of the call, counted from 0, that raises."""


@st.composite
def cases(draw: st.DrawFn, *, may_be_async: bool) -> Case:
    ids = [f"n{i}" for i in range(draw(st.integers(min_value=1, max_value=6)))]
    edges = [f"{SOURCE} text {node}" for node in ids if draw(st.booleans())]
    for i, sender in enumerate(ids):
        for receiver in ids[i + 1 :]:
            edges += [f"{sender} {lane} {receiver}" for lane in LANES if draw(st.booleans())]
    behaviours = {}
    for node in draw(st.permutations(ids)):
        lanes = draw(st.dictionaries(st.sampled_from(LANES), st.sampled_from(["drop", "forward", "both", "hold"])))
        lifecycle = tuple(name for name in ("open", "closing", "close") if draw(st.booleans()))
        methods = (*lifecycle, *(f"write_{lane}" for lane in lanes))
        is_async = tuple(name for name in methods if may_be_async and draw(st.booleans()))
        behaviours[node] = Behaviour(lanes, lifecycle, is_async, draw(st.booleans()))
    writes = tuple(draw(st.lists(st.sampled_from(["x", "y"]), max_size=2)))
    return Case(behaviours, tuple(draw(st.permutations(edges))), writes, draw(st.none() | st.integers(0, 30)))


class Tripped(Exception):
    """The failure that a case asks for."""


class Calls:
    """The calls so far; the one that the case names raises."""

    def __init__(self, case: Case, log: list[tuple[Any, ...]]) -> None:
        self._fail_at = case.fail_at
        self._log = log

    def note(self, *what: Any) -> None:
        self._log.append(what)
        if self._fail_at == len(self._log) - 1:
            raise Tripped(" ".join(what))


class Model:
    """What should happen. Nodes forward on the same lane, or on both; what they hold they send in closing, on text."""

    def __init__(self, case: Case, flow: Flow) -> None:
        self.case = case
        self.plan = flow.plan
        self.log: list[tuple[Any, ...]] = []
        self.calls = Calls(case, self.log)
        self.held: dict[str, list[str]] = {node: [] for node in case.nodes}
        self.listeners: dict[tuple[str, str], list[str]] = {}
        for node in case.nodes:  # in file order
            for edge in case.edges:
                sender, lane, receiver = edge.split()
                if receiver == node:
                    self.listeners.setdefault((sender, lane), []).append(node)

    def send(self, sender: str, lane: str, value: str) -> None:
        for node in self.listeners.get((sender, lane), []):
            action = self.case.nodes[node].lanes.get(lane)
            if action is None:
                self.send(node, lane, value)
                continue
            self.calls.note(node, f"write_{lane}", value)
            if action == "hold":
                self.held[node].append(value)
            elif action != "drop":
                self.send(node, lane, value + node)
                if action == "both":
                    self.send(node, "text" if lane == "table" else "table", value)

    def run(self) -> str | None:
        opened: list[str] = []
        failure: str | None = None
        try:
            for node in self.plan.opening:
                if "open" in self.case.nodes[node].lifecycle:
                    self.calls.note(node, "open")
                opened.append(node)
            for value in self.case.writes:
                self.send(SOURCE, "text", value)
            for node in self.plan.closing:
                if "closing" in self.case.nodes[node].lifecycle:
                    self.calls.note(node, "closing")
                    for value in self.held[node]:
                        self.send(node, "text", value)
        except Tripped as error:
            failure = str(error)
        for node in self.plan.closing:
            if node in opened and "close" in self.case.nodes[node].lifecycle:
                try:
                    self.calls.note(node, "close")
                except Tripped as error:
                    failure = failure or str(error)
        return failure


def node_class(behaviour: Behaviour, case: Case, log: list[tuple[Any, ...]]) -> type[Node]:
    """A class that does what the behaviour says."""
    calls = Calls(case, log)
    made: dict[str, Any] = {"lanes": dict.fromkeys(LANES, LANES), "__init__": lambda self: setattr(self, "held", [])}
    for lane, action in behaviour.lanes.items():
        made[f"write_{lane}"] = lane_method(lane, action, calls, f"write_{lane}" in behaviour.is_async)
    for name in behaviour.lifecycle:
        made[name] = lifecycle_method(name, calls, name in behaviour.is_async, behaviour.context)
    return type("Modelled", (Node,), made)


def sends(node: Any, lane: str, action: Action, value: str) -> list[tuple[str, str]]:
    if action == "hold":
        node.held.append(value)
    if action in ("drop", "hold"):
        return []
    same = (lane, value + node.node_id)
    return [same, ("text" if lane == "table" else "table", value)] if action == "both" else [same]


def lane_method(lane: str, action: Action, calls: Calls, is_async: bool) -> Any:
    def write(self: Any, value: str) -> None:
        calls.note(self.node_id, f"write_{lane}", value)
        for sent in sends(self, lane, action, value):
            self.emit(*sent)

    async def write_on_loop(self: Any, value: str) -> None:
        calls.note(self.node_id, f"write_{lane}", value)
        await asyncio.sleep(0)
        for sent in sends(self, lane, action, value):
            await self.emit(*sent)

    return write_on_loop if is_async else write


def lifecycle_method(name: str, calls: Calls, is_async: bool, context: bool) -> Any:
    def flushed(self: Any) -> list[str]:
        calls.note(self.node_id, name)
        return self.held if name == "closing" else []

    def plain(self: Any, *args: Any) -> None:
        for value in flushed(self):
            self.emit("text", value)

    def asking(self: Any, *args: Any, ctx: ToolContext) -> None:
        assert ctx.node_id == self.node_id
        plain(self)

    async def on_loop(self: Any, *args: Any) -> None:
        await asyncio.sleep(0)
        for value in flushed(self):
            await self.emit("text", value)

    async def asking_on_loop(self: Any, *args: Any, ctx: ToolContext) -> None:
        assert ctx.node_id == self.node_id
        await on_loop(self)

    if is_async:
        return asking_on_loop if context else on_loop
    return asking if context else plain


def build(case: Case) -> tuple[Flow, Model]:
    log: list[tuple[Any, ...]] = []
    classes = {node: node_class(behaviour, case, log) for node, behaviour in case.nodes.items()}
    flow = Flow(classes, *case.edges)
    flow.log = log
    return flow, Model(case, flow)


def run_blocking(case: Case, flow: Flow) -> RrextError | None:
    objects, services = flow.objects(), LoopServices()
    try:
        objects.open_blocking(Entry("a"), Intake("text", "text/plain"), services)
    except RrextError as error:
        assert objects.closed
        return error
    with suppress(RrextError):
        for value in case.writes:
            objects.write_blocking(value, services)
    failure = objects.finish_blocking(services)
    assert objects.closed
    return failure


async def run_on_loop(case: Case, flow: Flow) -> RrextError | None:
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    try:
        await objects.open(Entry("a"), Intake("text", "text/plain"), services)
    except RrextError as error:
        assert objects.closed
        return error
    with suppress(RrextError):
        for value in case.writes:
            await objects.write(value, services)
    failure = await objects.finish(services)
    assert objects.closed
    return failure


def compare(flow: Flow, model: Model, failure: RrextError | None) -> None:
    expected = model.run()
    assert flow.log == model.log
    if expected is None:
        assert failure is None
    else:
        assert failure is not None
        assert failure.message.endswith(f"Tripped: {expected}")


@given(cases(may_be_async=False))
def test_blocking_objects_do_what_the_model_does(case: Case) -> None:
    flow, model = build(case)
    assert not flow.plan.needs_loop
    compare(flow, model, run_blocking(case, flow))


@settings(max_examples=60)
@given(cases(may_be_async=True))
def test_objects_on_the_loop_do_what_the_model_does(case: Case) -> None:
    flow, model = build(case)
    compare(flow, model, asyncio.run(run_on_loop(case, flow)))


@pytest.mark.parametrize("blocking", [True, False])
def test_the_model_sees_every_kind_of_action(blocking: bool) -> None:
    """A case that has them all, so that the properties above are known to be about something."""
    nodes = {
        "a": Behaviour({"text": "both"}, ("open", "closing", "close"), (), context=True),
        "b": Behaviour({"text": "hold"}, ("open", "closing", "close"), (), context=False),
        "c": Behaviour({}, (), (), context=False),
        "d": Behaviour({"text": "drop", "table": "drop"}, ("open", "closing", "close"), (), context=False),
    }
    edges = (f"{SOURCE} text a", "a text b", "b text c", "c text d", "a table d")
    case = Case(nodes, edges, ("x",), None)
    flow, model = build(case)
    compare(flow, model, run_blocking(case, flow) if blocking else asyncio.run(run_on_loop(case, flow)))
    assert model.log[3:] == [
        ("a", "write_text", "x"),
        ("b", "write_text", "xa"),
        ("d", "write_table", "x"),
        ("a", "closing"),
        ("b", "closing"),
        ("d", "write_text", "xa"),
        ("d", "closing"),
        ("a", "close"),
        ("b", "close"),
        ("d", "close"),
    ]
