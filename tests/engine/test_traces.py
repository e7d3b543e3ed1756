"""Traced pipelines: the ways of objects through their components, in the detail of each level, and nobody else's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from engine_world import AsyncPark, World, pipeline_of, until, world
from hypothesis import given
from hypothesis import strategies as st
from test_call_events import Heard

from rrext.engine.events.hub import EventHub, EventOrigin
from rrext.engine.events.records import Filter, FlowStep
from rrext.engine.events.trace import MAX_TRACE_DATA, MAX_TRACE_TEXT, PipeTrace, TaskTrace, TracedVisit
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, Execute, Open, Restart, TaskStatus, Tool, Write
from rrext.errors import ToolError
from rrext.limits import DEFAULTS
from rrext.nodes.base.lanes import Media, Tag
from rrext.nodes.base.node import Entry, Node
from rrext.secrets.redaction import Redactor
from rrext.testing.sessions import ManualClock
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.promise("monitor:traces")

ME = Caller("me", "ann", "home")


class Asker(Node):
    """Calls a tool for each text, and sends the result on."""

    provider = "asker"
    lanes = {"text": ("json",)}

    def write_text(self, text: str, ctx: ToolContext) -> None:
        found = ctx.call_blocking("helper", "measure", {"text": text})
        self.emit("json", {"text": text, "found": found})

    def closing(self) -> None:
        self.emit("json", {"end": True})


class Taker(Node):
    """Fails as asked."""

    provider = "taker"
    lanes = {"json": ()}

    def write_json(self, data: dict[str, Any]) -> None:
        if data.get("text") == "bad":
            raise ValueError("as asked")


class Helper(Node):
    """Has the tool."""

    provider = "helper"

    @tool_function
    def measure(self, text: str) -> dict[str, Any]:
        if text == "worse":
            raise ValueError("of the tool")
        return {"length": len(text)}


def pipeline() -> dict[str, Any]:
    made = pipeline_of(Asker, Taker, Helper)
    asker, taker = (part for part in made["components"] if part["provider"] in ("asker", "taker"))
    taker["input"] = [{"lane": "json", "from": asker["id"]}]
    return {**made, "project_id": "p"}


def traced_world(**limits: Any) -> Any:
    return world(Helper, more=[Asker, Taker], **limits)


async def run(w: World, level: str | None, *texts: str, heard: Heard | None = None) -> list[FlowStep]:
    """The steps of one object through a pipeline of this level."""
    heard = heard or Heard(w, "flow_step")
    await w.ask(Execute(pipeline=pipeline(), token="traced", pipeline_trace_level=level), caller=ME).answer()
    pipe = (await w.ask(Open(token="traced", mime_type="text/plain", object={"name": "a.txt"}), caller=ME).answer())["pipe_id"]
    for text in texts:
        asked = w.ask(Write(pipe_id=pipe, data=text), caller=ME)
        await asked._news.wait()
    await w.ask(Close(pipe_id=pipe), caller=ME).answer()
    return [event for event in heard.events if isinstance(event, FlowStep)]


def shape(steps: list[FlowStep]) -> list[str]:
    return [f"{step.op} {step.component} {step.trace.get('lane', '')}".rstrip() for step in steps]


async def test_an_untraced_pipeline_has_no_steps_and_no_times() -> None:
    async with traced_world() as w:
        assert await run(w, "none", "x") == []
        status = await w.ask(TaskStatus(token="traced"), caller=ME).answer()
        assert (status["componentStats"], status["pipeflow"]["byPipe"]) == ({}, {})


PATH = [
    "begin a.txt text",
    "enter asker text",
    "enter taker json",
    "leave taker json",
    "leave asker text",
    "enter asker closing",
    "enter taker json",
    "leave taker json",
    "leave asker closing",
    "end a.txt",
]


async def test_metadata_has_the_way_of_an_object_and_the_sizes_of_payloads_alone() -> None:
    async with traced_world() as w:
        steps = await run(w, "metadata", "hello")
        assert shape(steps) == PATH
        assert [step.stack for step in steps[:5]] == [
            ("a.txt",), ("a.txt", "asker"), ("a.txt", "asker", "taker"), ("a.txt", "asker"), ("a.txt",)
        ]  # fmt: skip
        assert {(e.project_id, e.source, e.user_id, e.token) for e in steps} == {("p", "source", "ann", "traced")}
        assert len({step.pipe_id for step in steps}) == 1
        assert steps[0].trace["data"] == {"mimeType": "text/plain", "size": None}
        assert steps[1].trace["data"] == {"length": 5}
        assert (steps[3].trace["result"], steps[-1].trace) == ("continue", {})
        assert "hello" not in str(steps)


async def test_summary_has_the_result_of_the_object_also() -> None:
    async with traced_world() as w:
        steps = await run(w, "summary", "hello")
        assert shape(steps) == PATH
        assert steps[-1].result["name"] == "a.txt"
        assert steps[-1].trace == steps[-1].result
        assert "hello" not in str(steps[:-1])


async def test_full_has_payloads_and_calls_of_tools_also() -> None:
    async with traced_world() as w:
        steps = await run(w, "full", "hello")
        assert shape(steps)[:6] == [*PATH[:2], "enter helper invoke", "leave helper invoke", *PATH[2:4]]
        assert steps[1].trace["data"] == {"length": 5, "text": "hello"}
        call = {"op": "tool.invoke", "tool_name": "measure"}
        assert steps[2].trace["data"]["param"] == {**call, "input": {"text": "hello"}}
        assert steps[3].trace["data"]["param"] == {**call, "output": {"length": 5}}
        assert steps[2].stack == ("a.txt", "asker", "helper")
        assert steps[4].trace["data"] == {"json": {"text": "hello", "found": {"length": 5}}}


@pytest.mark.parametrize(("text", "failed"), [("bad", ["taker", "asker"]), ("worse", ["helper", "asker"])])
async def test_errors_are_told_where_they_pass_and_at_the_end(text: str, failed: list[str]) -> None:
    async with traced_world() as w:
        steps = await run(w, "full", text)
        assert [step.component for step in steps if step.trace.get("result") == "error"] == failed
        assert all("as asked" in step.trace["error"] or "of the tool" in step.trace["error"] for step in steps[-2:])
        assert (steps[-1].op, steps[-1].stack) == ("end", ())


async def test_a_tool_that_a_client_calls_on_a_pipe_is_traced_with_its_failure() -> None:
    async with traced_world() as w:
        heard = Heard(w, "flow_step")
        await w.ask(Execute(pipeline=pipeline(), token="traced", pipeline_trace_level="full"), caller=ME).answer()
        pipe = (await w.ask(Open(token="traced", mime_type="text/plain"), caller=ME).answer())["pipe_id"]
        for text in ("abc", "worse"):
            asked = w.ask(Tool(tool="measure", input={"text": text}, pipe_id=pipe), caller=ME)
            await asked._news.wait()
        assert [step.trace.get("result") for step in heard.events[1:]] == [None, "continue", None, "error"]
        assert heard.events[2].trace["data"]["param"]["output"] == {"length": 3}
        await w.close(pipe, caller=ME).answer()


async def test_times_of_components_are_counted_without_subscribers_and_kept_after_the_end() -> None:
    async with traced_world() as w:
        heard = Heard(w, "message")
        assert await run(w, "metadata", "a", "b", heard=heard) == []
        stats = (await w.ask(TaskStatus(token="traced"), caller=ME).answer())["componentStats"]
        assert {name: times["calls"] for name, times in stats.items()} == {"asker": 3, "taker": 3, "helper": 2}
        assert all(set(times) == {"calls", "totalSeconds", "maxSeconds"} for times in stats.values())
        await w.ask(Restart(token="traced"), caller=ME).answer()
        assert (await w.ask(TaskStatus(token="traced"), caller=ME).answer())["componentStats"] == {}
        pipe = (await w.ask(Open(token="traced", mime_type="text/plain"), caller=ME).answer())["pipe_id"]
        await w.close(pipe, caller=ME).answer()
        assert (await w.ask(TaskStatus(token="traced"), caller=ME).answer())["componentStats"]  # the level is kept


class Slow(Node):
    """Stays with its payload until the test lets it go."""

    provider = "slow"
    lanes = {"text": ()}
    park: AsyncPark

    async def write_text(self, text: str) -> None:
        await self.park.stay()


async def test_the_status_has_the_components_that_work_on_each_pipe_now() -> None:
    async with world(Slow) as w:
        Slow.park = AsyncPark()
        made = {**pipeline_of(Slow), "project_id": "p"}
        await w.ask(Execute(pipeline=made, token="traced", pipeline_trace_level="metadata"), caller=ME).answer()
        heard = Heard(w, "flow_step")
        pipes = [(await w.ask(Open(token="traced", mime_type="text/plain"), caller=ME).answer())["pipe_id"] for _ in range(2)]
        asked = w.write(pipes[0], "x", caller=ME)
        await until(lambda: Slow.park.inside)
        flow = (await w.ask(TaskStatus(token="traced"), caller=ME).answer())["pipeflow"]
        assert flow == {"totalPipes": 2, "byPipe": {str(pipes[0]): ["slow"], str(pipes[1]): []}}
        asked.cancel()
        w.engine.disconnect("me")  # in the middle of a write
        await until(lambda: [step.op for step in heard.events].count("end") == 2)
        ended = [step for step in heard.events if step.op == "end" and step.pipe_id == pipes[0]]
        assert "error" in ended[0].trace
        assert heard.events[-1].op == "end"


async def test_large_payloads_are_told_by_their_size_and_their_begin() -> None:
    async with traced_world() as w:
        text = "µ" * MAX_TRACE_DATA
        steps = await run(w, "full", text)
        assert steps[1].trace["data"] == {"length": len(text), "text": text[:MAX_TRACE_TEXT] + "…"}
        given = steps[2].trace["data"]["param"]["input"]
        assert (given["truncated"], given["originalBytes"]) == (True, 2 * len(text) + len('{"text":""}'))
        assert len(given["preview"]) <= MAX_TRACE_TEXT
        assert max(len(encoded) for encoded in map(msgspec.json.encode, steps)) < 4 * MAX_TRACE_TEXT


async def test_texts_that_json_cannot_hold_end_no_subscription() -> None:
    async with traced_world() as w:
        heard = Heard(w, "flow_step")
        steps = await run(w, "full", "a\ud800b", heard=heard)
        assert heard.subscription.is_active
        assert steps[1].trace["data"]["text"] == "a?b"


async def test_values_of_variables_are_replaced_in_traces() -> None:
    async with traced_world() as w:
        w.engine.environment.redactor.learn("SECRET", "correct horse battery", always=True)
        steps = await run(
            w, "full", "it is correct horse battery, is it", "x" * (MAX_TRACE_TEXT - 10) + "correct horse battery"
        )
        assert "correct horse" not in str(steps)
        assert "${SECRET}" in str(steps)


@pytest.mark.parametrize("level", ["Full", "all", "", "summry"])
async def test_an_unknown_level_is_refused(level: str) -> None:
    async with traced_world() as w:
        error = await w.ask(Execute(pipeline=pipeline(), pipeline_trace_level=level), caller=ME).error()
        assert (error.code, error.data["errors"][0]["path"]) == ("invalid_arguments", "/pipelineTraceLevel")


def hub() -> EventHub:
    redactor = Redactor()
    redactor.learn("SECRET", SECRET, always=True)
    return EventHub(ManualClock(), redactor, DEFAULTS)


def traced(events: EventHub, level: int) -> PipeTrace:
    head = {"token": "t", "project_id": "p", "source": "s", "user_id": None}
    return TaskTrace(level).pipe(EventOrigin(events, head, pipe_id=1))


SECRET = "correct horse battery"
TEXTS = st.text(max_size=20) | st.sampled_from(
    [SECRET, SECRET * 3, "\ud800", "x" * 3 * MAX_TRACE_TEXT, f"{'y' * 1990}{SECRET}"]
)
JSON = st.recursive(
    TEXTS | st.integers() | st.floats() | st.none() | st.binary(max_size=9) | st.just("z" * 2 * MAX_TRACE_DATA),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = (
    JSON
    | st.builds(Tag, st.sampled_from(["begin", "data", "end"]), st.binary(max_size=99))
    | st.builds(Media, st.sampled_from(["begin", "write", "end"]), st.just("image/png"), st.binary(max_size=99))
    | st.just(object())
)


@given(PAYLOADS, TEXTS, st.sampled_from([1, 2, 3]))
def test_no_payload_makes_a_step_large_tells_a_secret_or_fails(payload: Any, name: str, level: int) -> None:
    events, steps = hub(), []
    events.subscribe(Filter(kinds=frozenset({"flow_step"})), steps.append)
    trace = traced(events, level)
    trace.begin(Entry(name=name.replace("\ud800", ""), mime_type="text/plain"), "text")
    trace.enter("n", "text", (payload,), None).leave(ToolError(name))
    with trace.invoke("n", "tool", payload) as call:
        call.returned((b'{"a":1}', None))
    trace.end(b'{"name":"x"}', None)
    assert [step.op for step in steps] == ["begin", "enter", "leave", *["enter", "leave"] * (level == 3), "end"]
    for step in steps:
        encoded = msgspec.json.encode(step)
        assert len(encoded) < 2 * MAX_TRACE_DATA
        assert SECRET not in encoded.decode()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=30))
def test_the_stack_of_each_step_has_the_components_that_have_not_left(moves: list[tuple[bool, str]]) -> None:
    events, steps, inside, calls = hub(), [], [], dict[str, list[TracedVisit]]()
    events.subscribe(Filter(kinds=frozenset({"flow_step"})), steps.append)
    trace = traced(events, 1)
    trace.begin(Entry(name="o"), "text")
    for enters, component in moves:
        if enters:
            inside.append(component)
            calls.setdefault(component, []).append(trace.enter(component, "text", (), None))
        elif calls.get(component):
            calls[component].pop().leave(None)
            del inside[len(inside) - 1 - inside[::-1].index(component)]
        assert steps[-1].stack == ("o", *inside)
        assert trace.components == inside
    trace.end(None, None)
    told = len(steps)
    for visits in calls.values():
        for visit in visits:
            visit.leave(None)
    assert len(steps) == told  # nothing follows the end
