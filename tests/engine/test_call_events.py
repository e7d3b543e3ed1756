"""Calls as events: each that the engine has starts once and ends once, with its code, in its order, whatever happens to it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from engine_world import Asked, AsyncPark, Park, World, pipeline_of, until, world
from outside_tools import Outside

from rrext.engine.calls.watched_run import body_of
from rrext.engine.events.records import (
    KINDS,
    AgentStep,
    AnyEvent,
    CallChunk,
    CallEnded,
    CallEvent,
    CallProgress,
    CallStarted,
    EngineEvent,
    Filter,
    Message,
)
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, ListTools, Open, Tool
from rrext.errors import InvalidArguments, ToolError, ToolTimeout
from rrext.nodes.base.node import Node
from rrext.tools.context import CallInfo, ToolCallbacks, ToolContext, TurnUsage
from rrext.tools.decorator import tool_function


class Heard:
    """A sink that keeps what it gets, from any thread."""

    def __init__(self, w: World, *kinds: str, **filter: Any) -> None:
        self.events: list[Any] = []
        chosen = {"kinds": frozenset(kinds)} if kinds else {}
        self.subscription = w.engine.subscribe(Filter(**chosen, **filter), self.events.append)

    def of(self, kind: type[EngineEvent], **given: Any) -> list[Any]:
        return [e for e in self.events if type(e) is kind and all(getattr(e, n) == v for n, v in given.items())]

    def one(self, kind: type[EngineEvent], **given: Any) -> Any:
        found = self.of(kind, **given)
        assert len(found) == 1, found
        return found[0]

    def by_call(self) -> dict[int, list[Any]]:
        """The events of each call, checked: one start, one end, and everything else between."""
        found: dict[int, list[Any]] = defaultdict(list)
        for event in self.events:
            if isinstance(event, CallEvent):
                found[event.call].append(event)
        for events in found.values():
            assert [type(e) for e in events].count(CallStarted) == 1, events
            assert [type(e) for e in events].count(CallEnded) == 1, events
            assert (type(events[0]), type(events[-1])) == (CallStarted, CallEnded), events
        return found


class Kinds(Node):
    """The same tool in each kind."""

    provider = "kinds"

    @tool_function
    def sync(self, fails: bool = False) -> str:
        return self.result(fails)

    @tool_function
    async def coro(self, fails: bool = False) -> str:
        await asyncio.sleep(0)
        return self.result(fails)

    @tool_function(thread="same")
    def same(self, fails: bool = False) -> str:
        return self.result(fails)

    @tool_function(thread="main")
    def main(self, fails: bool = False) -> str:
        return self.result(fails)

    @tool_function
    def chunks(self, fails: bool = False):
        yield "a"
        yield self.result(fails)

    @tool_function
    async def chunks_async(self, fails: bool = False):
        yield "a"
        yield self.result(fails)

    @tool_function
    def raw(self) -> bytes:
        return b"\xff\x00"

    def result(self, fails: bool) -> str:
        if fails:
            raise ToolError("as asked", code="ASKED")
        return "done"


ALL_KINDS = ("sync", "coro", "same", "main", "chunks", "chunks_async")


@pytest.mark.promise("events:call:one-end")
@pytest.mark.parametrize("kind", ALL_KINDS)
async def test_a_call_of_any_kind_starts_once_and_ends_once(kind: str) -> None:
    async with world(Kinds) as w:
        heard = Heard(w, data=True)
        result = await w.tool(kind, caller=Caller("me", "ann", "home")).result()
        assert (await w.tool(kind, fails=True).error()).code == "ASKED"
        first, second = heard.by_call().values()
        started, ended = first[0], first[-1]
        for event in (started, ended):
            assert (event.token, event.connection_id, event.pipe_id) == ("t", "me", None)
            assert (event.command, event.tool, event.node_id) == ("tool", kind, "kinds")
            assert (event.user_id, event.space_id, event.request_id) == ("ann", "home", 1)
            assert (event.caller, event.callers) == (None, ())
        assert started.arguments == {}
        assert (ended.code, ended.message, ended.result) == (None, None, result)
        assert ended.size == len(msgspec.json.encode(result))
        assert (second[0].arguments, second[-1].code, second[-1].message) == ({"fails": True}, "ASKED", "as asked")
        assert second[-1].size == 0
        chunks = ["a", "done"] if kind.startswith("chunks") else []
        assert [(e.index, e.chunk, e.size) for e in heard.of(CallChunk, call=first[0].call)] == [
            (i, chunk, len(chunk) + 2) for i, chunk in enumerate(chunks)
        ]


async def test_an_end_comes_before_the_answer() -> None:
    async with world(Kinds) as w:
        heard = Heard(w, "call_ended")
        asked = w.asked_for(Tool(tool="sync"))
        seen: list[int] = []
        asked.call.answer = type("Looking", (), {"succeed": lambda *_: seen.append(len(heard.events))})()
        w.engine.start(asked.call)
        await until(lambda: seen)
        assert seen == [1]
        w.asked.clear()


@pytest.mark.promise("events:call:one-end")
async def test_calls_that_are_refused_start_and_end_too() -> None:
    async with world(Kinds) as w:
        heard = Heard(w)
        await w.tool("nosuch").error()
        await w.tool("sync", node="nosuch").error()
        await w.tool("sync", wrong=1).error()
        await w.ask(Tool(tool="sync", token="nosuch")).error()
        await w.tool("sync", pipe=77).error()
        ends = [events[-1] for events in heard.by_call().values()]
        assert [(end.code, end.tool) for end in ends] == [
            ("tool_not_found", "nosuch"),
            ("node_not_found", "sync"),
            ("invalid_arguments", "sync"),
            ("TASK_NOT_REGISTERED", "sync"),
            ("pipe_not_open", "sync"),
        ]
        assert [end.token for end in ends] == ["t", "t", "t", None, None]


def parking(park: Park, on_loop: AsyncPark) -> type[Node]:
    class Parking(Node):
        provider = "parking"
        lanes = {"text": ()}

        def write_text(self, text: str) -> None:
            park.stay()

        @tool_function
        def sync(self) -> str:
            park.stay()
            return "late"

        @tool_function
        async def coro(self) -> str:
            await on_loop.stay()
            return "late"

        @tool_function
        async def outer(self, ctx: ToolContext) -> Any:
            return await ctx.call("parking", "coro")

    return Parking


@pytest.mark.promise("events:call:one-end")
@pytest.mark.parametrize("tool", ["sync", "coro"])
async def test_a_call_that_is_cancelled_or_late_ends_once_with_its_code(tool: str) -> None:
    park, on_loop = Park(), AsyncPark()
    async with world(parking(park, on_loop)) as w:
        heard = Heard(w)
        cancelled, gone, late = w.tool(tool), w.tool(tool), w.tool(tool, timeout=5)
        await until(lambda: park.inside + on_loop.inside == 3)
        cancelled.cancel()
        gone.cancel("disconnected")
        w.clock.advance(7)
        await asyncio.gather(cancelled.error(), gone.error(), late.error())
        ends = {events[-1].request_id: events[-1] for events in heard.by_call().values()}
        assert {number: end.code for number, end in ends.items()} == {1: "cancelled", 2: "cancelled", 3: "tool_timeout"}
        assert ends[3].seconds == 5
        park.let_go()
        await w.at_rest()
        heard.by_call()  # the threads that returned ended nothing a second time


@pytest.mark.promise("events:call:one-end")
async def test_a_call_that_waits_for_its_turn_has_started_and_ends_when_it_is_cancelled() -> None:
    park = Park()
    async with world(parking(park, AsyncPark()), threads=1) as w:
        heard = Heard(w)
        w.tool("sync")
        await until(lambda: park.inside)
        waiting = w.tool("sync")
        waiting.cancel()
        assert heard.one(CallEnded).request_id == 2
        park.let_go()
        await w.at_rest()
        assert len(heard.by_call()) == 2


async def test_other_operations_are_calls_as_well() -> None:
    park = Park()
    park.let_go()
    async with world(parking(park, AsyncPark())) as w:
        heard = Heard(w)
        pipe = await w.open()
        await w.write(pipe, "text").answer()
        await w.close(pipe).answer()
        await w.ask(ListTools()).answer()
        await w.ask(Close(pipe_id=pipe)).error()
        assert [(e[-1].command, e[-1].pipe_id, e[-1].code) for e in heard.by_call().values()] == [
            ("open", pipe, None),
            ("write", pipe, None),
            ("close", pipe, None),
            ("list_tools", None, None),
            ("close", pipe, "pipe_not_open"),
        ]
        assert all(e[-1].size > 0 for e in list(heard.by_call().values())[:4])


# -- calls in calls


class Outer(Node):
    """Tools and a lane method that call others."""

    provider = "outer"
    lanes = {"text": ()}

    def write_text(self, text: str, ctx: ToolContext) -> None:
        ctx.call_blocking("kinds", text)

    @tool_function
    def sync(self, tool: str, ctx: ToolContext, fails: bool = False) -> Any:
        return ctx.call_blocking("kinds", tool, {"fails": fails})

    @tool_function
    async def coro(self, tool: str, ctx: ToolContext, fails: bool = False) -> Any:
        return await ctx.call("kinds", tool, {"fails": fails})

    @tool_function
    async def deep(self, ctx: ToolContext) -> Any:
        return await ctx.call("outer", "sync", {"tool": "coro"})


@pytest.mark.promise("events:call:one-end")
@pytest.mark.parametrize("outer", ["sync", "coro"])
@pytest.mark.parametrize("inner", ALL_KINDS)
async def test_a_nested_call_starts_and_ends_inside_of_its_caller(outer: str, inner: str) -> None:
    async with world(Kinds, Outer) as w:
        heard = Heard(w, data=True)
        result = await w.tool(outer, node="outer", tool=inner).result()
        await w.tool(outer, node="outer", tool=inner, fails=True).error()
        numbers = [(e.call, type(e)) for e in heard.events if isinstance(e, CallStarted | CallEnded)]
        assert numbers == [
            (1, CallStarted), (2, CallStarted), (2, CallEnded), (1, CallEnded),
            (3, CallStarted), (4, CallStarted), (4, CallEnded), (3, CallEnded),
        ]  # fmt: skip
        _, within, _, failed = heard.by_call().values()
        assert {(e.caller, e.callers, e.node_id, e.tool, e.request_id) for e in within} == {
            (1, (f"outer.{outer}",), "kinds", inner, 1)
        }
        assert (within[0].arguments, within[-1].result) == ({"fails": False}, result)
        assert within[-1].size == len(msgspec.json.encode(result))
        assert (failed[-1].code, failed[-1].message) == ("ASKED", "as asked")


async def test_a_chain_of_callers_is_named_and_numbered() -> None:
    async with world(Kinds, Outer) as w:
        heard = Heard(w)
        await w.tool("deep").result()
        pipe = await w.open()
        await w.write(pipe, "coro").answer()
        calls = {e.call: e for e in heard.of(CallEnded)}
        assert (calls[3].caller, calls[3].callers) == (2, ("outer.deep", "outer.sync"))
        write = heard.one(CallEnded, command="write")
        of_lane = heard.one(CallEnded, caller=write.call)
        assert (of_lane.callers, of_lane.tool, of_lane.pipe_id) == (("outer",), "coro", pipe)


@pytest.mark.promise("events:call:one-end")
async def test_a_nested_call_ends_with_the_code_of_what_stopped_it() -> None:
    on_loop = AsyncPark()

    class Hasty(Node):
        provider = "hasty"

        @tool_function(timeout=3)
        async def hasty(self) -> None:
            await on_loop.stay()

        @tool_function
        async def patient(self, ctx: ToolContext) -> str:
            try:
                await ctx.call("hasty", "hasty")
            except ToolTimeout:
                return "went on"
            return "never"

    async with world(Hasty, parking(Park(), on_loop)) as w:
        heard = Heard(w, "call_started", "call_ended")
        asked = w.tool("patient")
        await until(lambda: on_loop.inside == 1)
        w.clock.advance(3)
        assert await asked.result() == "went on"
        assert heard.one(CallEnded, tool="hasty").code == "tool_timeout"
        asked = w.tool("outer", timeout=2)
        await until(lambda: on_loop.inside == 1)
        w.clock.advance(2)
        await w.at_rest()
        assert heard.one(CallEnded, tool="outer").code == "tool_timeout"
        assert heard.one(CallEnded, tool="coro").code == "tool_timeout"
        asked = w.tool("outer")
        await until(lambda: on_loop.inside == 1)
        asked.cancel()
        await w.at_rest()
        assert [e.code for e in heard.of(CallEnded, tool="coro")] == ["tool_timeout", "cancelled"]
        heard.by_call()


async def test_the_node_that_ran_a_call_to_everybody_is_named_at_its_end() -> None:
    class First(Node):
        provider = "first"

        @tool_function(available=lambda node, ctx: False)
        def shared(self) -> str:
            return "first"

    class Second(Node):
        provider = "second"

        @tool_function
        def shared(self) -> str:
            return "second"

    async with world(First, Second) as w:
        heard = Heard(w)
        assert await w.tool("shared").result() == "second"
        ((started, ended),) = heard.by_call().values()
        assert (started.node_id, ended.node_id) == (None, "second")


# -- while they run


class Telling(Node):
    provider = "telling"

    @tool_function
    def progress(self, ctx: ToolContext) -> None:
        for value in (1, 3, 2, 4):
            ctx.progress(value, 4, f"step {value}")

    @tool_function
    def agent(self, ctx: ToolContext) -> None:
        info = CallInfo(tool="agent")
        ctx.callbacks.agent_start(info, "reader")
        ctx.callbacks.agent_chunk(info, "reader", "I look")
        ctx.callbacks.agent_tool_call(info, "reader", "search", {"q": "x"})
        ctx.callbacks.agent_tool_result(info, "reader", "search", {"found": 1}, None)
        ctx.callbacks.agent_tool_result(info, "reader", "search", None, ToolError("no", code="NO"))
        ctx.callbacks.agent_end(info, "reader", ValueError("secret text"))

    @tool_function
    def turns(self, ctx: ToolContext) -> None:
        info = CallInfo(tool="turns")
        ctx.callbacks.agent_turn_start(info, "reader", 1)
        usage = TurnUsage(model="small", input_tokens=20, output_tokens=3, estimated=True, cost=0.25, finish="stop")
        ctx.callbacks.agent_turn_end(info, "reader", 1, usage)
        ctx.callbacks.agent_turn_start(info, "reader", 2)
        ctx.callbacks.agent_turn_end(info, "reader", 2, TurnUsage(model="small"), ToolError("no", code="NO"))

    @tool_function
    def publish_in_call(self, ctx: ToolContext) -> None:
        ctx.publish("step", {"of": [1, 2]})

    @tool_function
    def print_line(self) -> None:
        print("a line")

    @tool_function
    async def publish_by_node(self, type: str = "note") -> None:
        self.publish(type)


async def test_progress_is_told_whether_the_caller_asked_for_it_or_not() -> None:
    async with world(Telling) as w:
        heard = Heard(w)
        await w.tool("progress").result()
        assert [(e.progress, e.total, e.message) for e in heard.of(CallProgress)] == [
            (1, 4, "step 1"), (3, 4, "step 3"), (4, 4, "step 4"),
        ]  # fmt: skip
        heard.by_call()


async def test_nothing_is_told_of_a_call_that_has_ended() -> None:
    inside, let_go = threading.Event(), threading.Event()

    class Late(Node):
        provider = "late"

        @tool_function
        def late(self, ctx: ToolContext) -> None:
            inside.set()
            assert let_go.wait(50)
            ctx.progress(1)
            ctx.callbacks.agent_start(CallInfo(tool="late"), "late")

    async with world(Late) as w:
        heard = Heard(w)
        asked = w.tool("late")
        await until(inside.is_set)
        asked.cancel()
        let_go.set()
        await w.at_rest()
        assert [type(e) for e in heard.events if isinstance(e, CallEvent)] == [CallStarted, CallEnded]


async def test_steps_of_agents_are_events_of_their_call() -> None:
    async with world(Telling) as w:
        heard = Heard(w, "agent_step", data=True)
        await w.tool("agent").result()
        assert [(e.step, e.agent, e.agent_tool, e.code, e.message, e.data) for e in heard.events] == [
            ("start", "reader", None, None, None, msgspec.UNSET),
            ("chunk", "reader", None, None, None, "I look"),
            ("tool_call", "reader", "search", None, None, {"q": "x"}),
            ("tool_result", "reader", "search", None, None, {"found": 1}),
            ("tool_result", "reader", "search", "NO", "no", msgspec.UNSET),
            ("end", "reader", None, "tool_failed", "ValueError", msgspec.UNSET),
        ]
        assert {(e.tool, e.node_id, e.request_id) for e in heard.events} == {("agent", "telling", 1)}


async def test_turns_of_agents_are_events_with_what_they_used() -> None:
    async with world(Telling) as w:
        heard = Heard(w, "agent_turn")
        await w.tool("turns").result()
        left_out = {"time", "call", "tool", "nodeId", "agent"}
        told = [body_of(e) for e in heard.events]
        assert [{name: value for name, value in body.items() if name not in left_out} for body in told] == [
            {"event": "agent_turn", "step": "start", "turn": 1},
            {
                "event": "agent_turn", "step": "end", "turn": 1, "model": "small", "inputTokens": 20, "outputTokens": 3,
                "estimated": True, "cost": 0.25, "finish": "stop",
            },
            {"event": "agent_turn", "step": "start", "turn": 2},
            {"event": "agent_turn", "step": "end", "turn": 2, "model": "small", "code": "NO", "message": "no"},
        ]  # fmt: skip
        assert {(body["agent"], body["nodeId"]) for body in told} == {("reader", "telling")}


class Stepping(Node):
    """Tells a step of an agent for each text, and ends."""

    provider = "stepping"
    lanes = {"text": ()}

    def write_text(self, text: str, ctx: ToolContext) -> None:
        ctx.callbacks.agent_chunk(CallInfo(tool="", node_id=self.node_id), "reader", text)

    async def closing(self, ctx: ToolContext) -> None:
        ctx.callbacks.agent_end(CallInfo(tool="", node_id=self.node_id), "reader", None)


class Noting(ToolCallbacks):
    def __init__(self) -> None:
        self.noted: list[str] = []

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        self.noted.append(text)


async def test_steps_of_agents_that_work_on_an_object_are_events_of_the_write_or_the_close() -> None:
    callbacks = Noting()
    async with world(Stepping, callbacks=callbacks) as w:
        pipe = await w.open()
        await w.write(pipe, "unheard").answer()
        heard = Heard(w, data=True)
        await w.write(pipe, "I look").answer()
        await w.close(pipe).answer()
        steps = heard.of(AgentStep)
        assert [(e.command, e.step, e.agent, e.data) for e in steps] == [
            ("write", "chunk", "reader", "I look"),
            ("close", "end", "reader", msgspec.UNSET),
        ]
        assert [e.call for e in steps] == [heard.one(CallStarted, command=each).call for each in ("write", "close")]
        heard.by_call()
    assert callbacks.noted == ["unheard", "I look"]


# -- messages


async def test_a_node_publishes_messages() -> None:
    class Speaking(Node):
        provider = "speaking"
        lanes = {"text": ()}

        def open(self, entry: Any) -> None:
            self.publish("opened", entry.name)

        async def write_text(self, text: str, ctx: ToolContext) -> None:
            self.publish("text", {"text": text})
            ctx.publish("text", [text])

    async with world(Telling, Speaking) as w:
        heard = Heard(w, "message")
        await w.tool("publish_in_call", caller=Caller("me")).result()
        await w.tool("publish_by_node", caller=Caller("me")).result()
        pipe = await w.open(caller=Caller("me"))
        await w.write(pipe, "hello", caller=Caller("me")).answer()
        assert [(e.node_id, e.type, e.data, e.pipe_id, e.connection_id, e.request_id) for e in heard.events] == [
            ("telling", "step", {"of": [1, 2]}, None, "me", 1),
            ("telling", "note", None, None, None, None),
            ("speaking", "opened", heard.events[2].data, pipe, "me", None),
            ("speaking", "text", {"text": "hello"}, pipe, "me", None),
            ("speaking", "text", ["hello"], pipe, "me", 4),
        ]
        assert {e.token for e in heard.events} == {"t"}


@pytest.mark.parametrize("subscribed", [False, True], ids=["nobody listens", "somebody listens"])
async def test_a_message_that_is_no_json_or_too_large_is_its_authors_error(subscribed: bool) -> None:
    class Wrong(Node):
        provider = "wrong"

        @tool_function
        def wrong(self, how: str, ctx: ToolContext) -> None:
            data: dict[str, Any] = {"nan": {"a": [1.0, float("nan")]}, "object": {"b": self}, "large": "x" * 200}
            publish: Callable[..., None] = ctx.publish if how == "object" else self.publish
            publish("" if how == "nameless" else "note", data.get(how))

    async with world(Wrong, max_event_data=100) as w:
        heard = Heard(w, "message") if subscribed else None
        nan, odd, large, nameless = [await w.tool("wrong", how=how).error() for how in ("nan", "object", "large", "nameless")]
        assert nan.message == 'publish("note"): the data is no JSON: NaN at /a/1'
        assert nan.data["path"] == "/a/1"
        assert "an object of type" in odd.message
        assert odd.data["path"] == "/b"
        assert "max_event_data" in large.message
        assert large.data == {"limit": "max_event_data", "maximum": 100}
        assert "1 to 1024 characters" in nameless.message
        assert heard is None or not heard.events


# -- who listens


@pytest.mark.promise("events:sink:harms-nobody")
@pytest.mark.parametrize("raised", [RuntimeError("a bad sink"), SystemExit(3), asyncio.CancelledError()])
async def test_a_sink_that_raises_is_logged_and_dropped(raised: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def bad(event: EngineEvent) -> None:
        raise raised

    async with world(Kinds, Telling) as w:
        dropped = w.engine.subscribe(Filter(), bad)
        heard = Heard(w)
        for tool in ALL_KINDS:
            await w.tool(tool).result()
        await w.tool("progress").result()
        assert not dropped.is_active
        assert len(heard.by_call()) == len(ALL_KINDS) + 1
    assert [r.message for r in caplog.records if r.name == "rrext.events"] == [
        f"a subscriber failed and gets no more events: {bad!r}"
    ]


@pytest.mark.promise("events:sink:harms-nobody")
async def test_a_sink_may_cancel_subscribe_and_call_from_inside() -> None:
    async with world(Kinds) as w:
        later = []

        def once(event: EngineEvent) -> None:
            subscription.cancel()
            w.engine.subscribe(Filter(), later.append)
            later.append(w.tool("sync"))

        subscription = w.engine.subscribe(Filter(kinds=frozenset({"call_started"})), once)
        await w.tool("coro").result()
        await w.at_rest()
        assert [type(e) for e in later[1:]].count(CallEnded) == 2


async def test_while_nobody_subscribes_runs_are_the_plain_ones() -> None:
    async with world(Kinds) as w:
        host = w.engine.host
        plain = host.tool_run
        assert not host.events.watches_calls
        heard = Heard(w, "message", "pipe_opened")
        assert (host.events.watches_calls, host.tool_run) == (False, plain)
        heard.subscription.cancel()
        heard = Heard(w, "call_ended")
        assert host.tool_run is not plain
        heard.subscription.cancel()
        heard.subscription.cancel()
        assert (host.events.watches_calls, host.events.flow, host.tool_run) == (False, None, plain)
        await w.tool("sync").result()
        assert not heard.events


@pytest.mark.promise("events:sink:harms-nobody")
async def test_subscribers_may_come_and_go_while_calls_run() -> None:
    interval = sys.getswitchinterval()
    async with world(Kinds, Outer) as w:
        done = threading.Event()
        heard: list[EngineEvent] = []

        def come_and_go() -> None:
            while not done.is_set():
                w.engine.subscribe(Filter(data=True), heard.append).cancel()

        sys.setswitchinterval(1e-5)
        restless = threading.Thread(target=come_and_go)
        restless.start()
        try:
            for _ in range(40):
                asked = [w.tool(tool, node="kinds") for tool in ALL_KINDS]
                asked.append(w.tool("coro", node="outer", tool="sync"))
                pipe = await w.open()
                asked += [w.write(pipe, "sync"), w.close(pipe)]
                for each in asked:
                    await each.answer()
        finally:
            done.set()
            restless.join()
            sys.setswitchinterval(interval)
        await w.at_rest()
        numbers = [e.call for e in heard if isinstance(e, CallStarted)]
        assert len(numbers) == len(set(numbers))
        assert (w.engine.host.events.watches_calls, w.engine.host.events.flow) == (False, None)


@pytest.mark.promise("events:call:one-end")
async def test_a_call_that_is_cancelled_while_it_begins_has_both_events_or_none() -> None:
    interval = sys.getswitchinterval()
    async with world(Kinds) as w:
        heard = Heard(w)
        made = [w.asked_for(Tool(tool="sync")) for _ in range(500)]
        begin = threading.Barrier(2)

        def cancel_all() -> None:
            for asked in made:
                begin.wait()
                asked.cancel()

        def start_all() -> None:
            for asked in made:
                begin.wait()
                if not w.engine.start_here(asked.call):
                    w.engine.host.post(w.engine.start, asked.call)

        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=cancel_all), threading.Thread(target=start_all)]
        try:
            for thread in threads:
                thread.start()
            await w.at_rest()
        finally:
            sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
        assert {events[-1].code for events in heard.by_call().values()} <= {None, "cancelled"}


async def test_a_subscription_in_the_middle_hears_of_what_begins_from_then_on() -> None:
    park = Park()
    async with world(parking(park, AsyncPark()), Kinds) as w:
        before = w.tool("sync", node="parking")
        await until(lambda: park.inside)
        heard = Heard(w)
        await w.tool("coro", node="kinds").result()
        park.let_go()
        await before.result()
        ((started, _),) = heard.by_call().values()
        assert started.request_id == 2


async def test_a_filter_chooses_kinds_connections_pipes_and_tasks() -> None:
    async with world(Telling) as w:
        w.engine.load(pipeline_of(Telling), token="other")
        mine, others, pipes = Heard(w, connection_id="me"), Heard(w, token="other"), Heard(w, pipe_id=1)
        ends = Heard(w, "call_ended")
        await w.ask(Tool(tool="progress", token="t"), caller=Caller("me")).result()
        await w.ask(Tool(tool="progress", token="other"), caller=Caller("you")).result()
        await w.ask(Open(token="t"), caller=Caller("you")).answer()
        assert {(e.connection_id, e.token) for e in mine.events} == {("me", "t")}
        assert {(e.connection_id, e.token) for e in others.events} == {("you", "other")}
        assert {e.pipe_id for e in pipes.events} == {1}
        assert [type(e) for e in ends.events] == [CallEnded] * 3


async def test_a_kind_that_does_not_exist_is_refused_with_near_ones() -> None:
    async with world(Kinds) as w:
        with pytest.raises(InvalidArguments, match='no events "call_end". Did you mean "call_ended"'):
            w.engine.subscribe(Filter(kinds=frozenset({"call_end"})), print)


async def test_data_is_there_only_if_somebody_asks_and_it_is_not_too_large() -> None:
    class Echo(Node):
        provider = "echo"

        @tool_function
        def echo(self, text: str) -> str:
            return text

    async with world(Echo, max_event_data=100) as w:
        plain = Heard(w)
        await w.tool("echo", text="hello").result()
        assert [e.arguments for e in plain.of(CallStarted)] == [msgspec.UNSET]
        assert b"arguments" not in msgspec.json.encode(plain.one(CallStarted))
        full = Heard(w, data=True)
        await w.tool("echo", text="x" * 200).result()
        assert full.one(CallStarted).arguments is msgspec.UNSET
        assert (full.one(CallEnded).result, full.one(CallEnded).size) == (msgspec.UNSET, 202)


@pytest.mark.promise("events:secrets:redacted")
async def test_no_value_of_a_variable_is_in_an_event() -> None:
    secret = "hunter-number-2"

    class Leaky(Node):
        provider = "leaky"
        lanes = {"text": ("text",)}

        def write_text(self, text: str) -> None:
            self.emit("text", {"text": text})
            self.publish(secret, {secret: [secret]})

        @tool_function
        def leak(self, text: str, ctx: ToolContext):
            ctx.publish(text, text)
            ctx.progress(1, message=text)
            ctx.callbacks.agent_chunk(CallInfo(tool="leak"), "a", text)
            yield {text: text}
            raise ValueError(text)

        @tool_function
        def outer(self, ctx: ToolContext) -> Any:
            return ctx.call_blocking("leaky", "leak", {"text": secret})

        @tool_function
        def fine(self) -> str:
            return "fine"

    async with world(Leaky) as w:
        w.engine.environment.redactor.learn("ROCKETRIDE_KEY", secret)
        w.engine.environment.redactor.learn("ROCKETRIDE_WORD", "result")  # a key of the answer
        heard = Heard(w, data=True)
        await w.tool("leak", text=secret, meta={"trace": secret}).error()
        await w.tool("outer").error()
        await w.tool(secret, node=secret).error()
        assert await w.tool("fine").result() == "fine"
        pipe = (await w.ask(Open(mime_type="text/plain", object={"name": secret, "path": secret})).answer())["pipe_id"]
        await w.write(pipe, secret).answer()
        await w.close(pipe).answer()
        told = msgspec.json.encode(heard.events).decode()
        assert secret not in told
        assert heard.one(CallEnded, tool="fine").result == "fine"
        assert "${ROCKETRIDE_KEY}" in told
        assert {type(e) for e in heard.events} >= {CallStarted, CallProgress, CallChunk, CallEnded, AgentStep, Message}


async def test_events_are_json_and_come_back_the_same() -> None:
    async with world(Kinds, Outer, Telling, Outside("find").node) as w:
        heard = Heard(w, data=True)
        await w.tools()
        pipe = await w.open()
        w.engine.load(pipeline_of(Kinds), token="second", trace=1)
        await w.ask(Open(token="second", mime_type="text/plain")).answer()
        await w.write(pipe, "sync").answer()
        await w.tool("chunks", node="kinds", pipe=pipe).result()
        for tool in ("progress", "agent", "turns", "publish_in_call", "print_line"):
            await w.tool(tool, node="telling", pipe=pipe).result()
        await w.close(pipe).answer()
        await w.ask(Tool(tool="raw", token="second")).answer()
        await w.engine.aclose()
        assert {type(e) for e in heard.events} == set(KINDS.values())
        raw = heard.one(CallEnded, tool="raw")
        assert (raw.result, raw.size) == ("/wA=", 2)  # bytes as JSON has them everywhere
        assert msgspec.json.decode(msgspec.json.encode(heard.events), type=list[AnyEvent]) == heard.events
        assert all(e.time > 1_700_000_000 for e in heard.events)


@pytest.mark.promise("events:call:one-end")
async def test_calls_of_many_threads_keep_their_order_each() -> None:
    """As the thread that reads starts them: from the second time on in that thread itself."""
    async with world(Kinds, Outer) as w:
        heard = Heard(w)
        rounds, threads = 50, 4

        def start_all(mine: list[Asked]) -> None:
            for made in mine:
                if not w.engine.start_here(made.call):
                    w.engine.host.post(w.engine.start, made.call)

        lists = [
            [w.asked_for(Tool(tool=tool, node_id="kinds")) for _ in range(rounds) for tool in ALL_KINDS] for _ in range(threads)
        ]
        running = [threading.Thread(target=start_all, args=(mine,)) for mine in lists]
        for thread in running:
            thread.start()
        await w.at_rest()
        for thread in running:
            thread.join()
        assert len(heard.by_call()) == rounds * threads * len(ALL_KINDS)
        assert {events[-1].code for events in heard.by_call().values()} == {None}


@pytest.mark.promise("events:call:one-end")
async def test_calls_that_are_cancelled_at_every_moment_end_once() -> None:
    async with world(Kinds, Outer) as w:
        heard = Heard(w)
        for turns in range(30):
            for tool, node in [("coro", "kinds"), ("sync", "kinds"), ("chunks_async", "kinds"), ("coro", "outer")]:
                asked = w.tool(tool, node=node, **({"tool": "coro"} if node == "outer" else {}))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asked.cancel()
        await w.at_rest()
        assert {events[-1].code for events in heard.by_call().values()} <= {None, "cancelled"}
