"""Tasks, pipes, objects and lanes as events: in their order, from the beginning to the end, whatever ends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import AsyncPark, Park, World, pipeline_of, until, world
from test_call_events import Heard

from rrext.engine.events.records import (
    EngineEvent,
    LaneIn,
    LaneOut,
    ObjectBegun,
    ObjectEnded,
    PipeClosed,
    PipeOpened,
    TaskBegun,
    TaskEnded,
    kind_of,
)
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Open, Terminate
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function

FLOW = (PipeOpened, ObjectBegun, LaneIn, LaneOut, ObjectEnded, PipeClosed)
ME = Caller("me", "ann", "home")


def flow(heard: Heard) -> list[Any]:
    return [e for e in heard.events if isinstance(e, FLOW)]


def names(events: list[EngineEvent]) -> list[str]:
    return [f"{kind_of(type(e))} {e.node_id}.{e.lane}" if isinstance(e, LaneIn | LaneOut) else kind_of(type(e)) for e in events]


def lane_pair(*, on_loop: bool, park: Park | None = None) -> list[type[Node]]:
    """A node that sends its payloads on, and a node that receives them; the methods of both nodes are of the same kind."""

    class Sender(Node):
        provider = "sender"
        lanes = {"text": ("text",)}

        if on_loop:

            async def write_text(self, text: str) -> None:
                await self.emit("text", text + "!")  # type: ignore[misc]

            async def closing(self) -> None:
                await self.emit("text", "end")  # type: ignore[misc]
        else:

            def write_text(self, text: str) -> None:  # type: ignore[no-redef]
                self.emit("text", text + "!")

            def closing(self) -> None:  # type: ignore[no-redef]
                self.emit("text", "end")

    class Taker(Node):
        provider = "taker"
        lanes = {"text": ()}

        if on_loop:

            async def write_text(self, text: str) -> None:
                if text == "bad!":
                    raise ValueError("as asked")
        else:

            def write_text(self, text: str) -> None:  # type: ignore[no-redef]
                if text == "bad!":
                    raise ValueError("as asked")

    return [Sender, Taker]


def chained(sender: type[Node], taker: type[Node]) -> dict[str, Any]:
    pipeline = pipeline_of(sender, taker)
    pipeline["components"][2]["input"] = [{"lane": "text", "from": sender.provider}]
    return pipeline


IN_A_ROW = ["lane_in sender.text", "lane_in taker.text", "lane_out taker.text", "lane_out sender.text"]


@pytest.mark.promise("events:pipe:in-order")
@pytest.mark.parametrize("on_loop", [False, True], ids=["def", "async def"])
async def test_an_object_is_told_from_the_opening_of_its_pipe_to_the_closing(on_loop: bool) -> None:
    nodes = lane_pair(on_loop=on_loop)
    async with world(*nodes, pipeline=chained(*nodes)) as w:
        heard = Heard(w, data=True)
        opened = await w.ask(
            Open(mime_type="text/plain", object={"name": "a.txt", "path": "docs", "size": 5}), caller=ME
        ).answer()
        pipe = opened["pipe_id"]
        await w.write(pipe, "hello", caller=ME).answer()
        w.clock.advance(2)
        body = await w.close(pipe, caller=ME).answer()
        events = flow(heard)
        assert names(events) == [
            "pipe_opened", "object_begun", *IN_A_ROW, "lane_in taker.text", "lane_out taker.text",
            "object_ended", "pipe_closed",
        ]  # fmt: skip
        assert {(e.token, e.connection_id, e.pipe_id) for e in events} == {("t", "me", pipe)}
        assert (events[0].user_id, events[0].space_id) == ("ann", "home")
        begun, ended, closed = events[1], events[-2], events[-1]
        assert (begun.name, begun.path, begun.mime_type, begun.lane, begun.size) == ("a.txt", "docs", "text/plain", "text", 5)
        assert begun.object_id == ended.object_id == body["objectId"]
        assert (ended.name, ended.seconds, ended.code, ended.result) == ("a.txt", 2, None, body)
        assert ended.size > 0
        assert (closed.reason, closed.seconds) == ("closed", 2)
        assert [e.data for e in heard.of(LaneIn)] == ["hello", "hello!", "end"]


@pytest.mark.promise("events:pipe:in-order")
@pytest.mark.parametrize("on_loop", [False, True], ids=["def", "async def"])
async def test_a_node_that_fails_is_told_in_its_lane_and_in_its_object(on_loop: bool) -> None:
    nodes = lane_pair(on_loop=on_loop)
    async with world(*nodes, pipeline=chained(*nodes)) as w:
        heard = Heard(w)
        pipe = await w.open()
        await w.write(pipe, "bad").error()
        await w.close(pipe).answer()
        assert names(flow(heard)) == ["pipe_opened", "object_begun", *IN_A_ROW, "object_ended", "pipe_closed"]
        assert [e.code for e in heard.of(LaneOut)] == ["tool_failed"] * 2
        assert "as asked" in heard.of(LaneOut)[0].message
        assert heard.one(ObjectEnded).code == "tool_failed"


async def test_who_subscribes_to_lanes_hears_of_pipes_that_are_open_already() -> None:
    nodes = lane_pair(on_loop=False)
    async with world(*nodes, pipeline=chained(*nodes)) as w:
        pipe = await w.open()
        heard = Heard(w, "lane_in", "lane_out")
        await w.write(pipe, "hello").answer()
        assert names(flow(heard)) == IN_A_ROW
        heard.subscription.cancel()
        await w.write(pipe, "more").answer()
        assert len(heard.events) == 4
        assert heard.events[0].data is not None


def stubborn(park: Park) -> type[Node]:
    class Stubborn(Node):
        provider = "stubborn"
        lanes = {"text": ()}

        def open(self, entry: Any) -> None:
            if entry.name == "bad":
                raise ValueError("as asked")

        def write_text(self, text: str) -> None:
            park.stay()

        def close(self) -> None:
            pass

        @tool_function
        def stay(self) -> None:
            park.stay()

    return Stubborn


async def leave_pipe(w: World, how: str, pipe: int) -> None:
    if how == "disconnected":
        w.engine.disconnect("me")
    elif how == "terminated":
        await w.ask(Terminate()).answer()
    elif how == "idle":
        w.clock.advance(100)
    elif how == "cancelled":
        closing = w.close(pipe, caller=ME)
        closing.cancel()
    else:
        await w.close(pipe, caller=ME).answer()


@pytest.mark.promise("events:pipe:in-order")
@pytest.mark.parametrize("how", ["closed", "disconnected", "terminated", "idle", "cancelled"])
async def test_whatever_ends_a_pipe_is_its_last_event(how: str) -> None:
    async with world(stubborn(Park())) as w:
        heard = Heard(w)
        pipe = await w.open(caller=ME)
        await leave_pipe(w, how, pipe)
        await until(lambda: heard.of(PipeClosed))
        await w.at_rest()
        assert names(flow(heard)) == ["pipe_opened", "object_begun", "object_ended", "pipe_closed"]
        assert heard.one(PipeClosed).reason == how
        assert heard.one(ObjectEnded).code == (None if how == "closed" else "cancelled")


@pytest.mark.promise("events:pipe:in-order")
async def test_a_pipe_that_cannot_be_opened_is_closed_again() -> None:
    async with world(stubborn(Park())) as w:
        heard = Heard(w)
        await w.ask(Open(mime_type="text/plain", object={"name": "bad"})).error()
        assert names(flow(heard)) == ["pipe_opened", "object_begun", "object_ended", "pipe_closed"]
        assert heard.one(PipeClosed).reason == "failed"
        assert heard.one(ObjectEnded).code == "tool_failed"
        assert "as asked" in heard.one(ObjectEnded).message


@pytest.mark.promise("events:pipe:in-order")
async def test_a_pipe_is_not_closed_before_the_thread_that_was_left_on_it_returns() -> None:
    park = Park()
    async with world(stubborn(park)) as w:
        heard = Heard(w)
        pipe = await w.open()
        late = w.write(pipe, "hello", timeout=1)
        await until(lambda: park.inside)
        w.clock.advance(2)
        assert (await late.error()).code == "tool_timeout"
        await w.close(pipe).answer()
        assert names(flow(heard)) == ["pipe_opened", "object_begun", "lane_in stubborn.text", "object_ended"]
        park.let_go()
        await w.at_rest()
        await until(lambda: heard.of(PipeClosed))
        assert names(flow(heard))[-2:] == ["lane_out stubborn.text", "pipe_closed"]


async def test_a_cancelled_lane_method_is_left_with_that() -> None:
    on_loop = AsyncPark()

    class Waits(Node):
        provider = "waits"
        lanes = {"text": ()}

        async def write_text(self, text: str) -> None:
            await on_loop.stay()

    async with world(Waits) as w:
        heard = Heard(w)
        pipe = await w.open()
        asked = w.write(pipe, "hello")
        await until(lambda: on_loop.inside)
        asked.cancel()
        await until(lambda: heard.of(LaneOut))
        assert heard.one(LaneOut).code == "cancelled"
        await w.close(pipe).answer()


async def test_tasks_begin_and_end() -> None:
    async with world(stubborn(Park())) as w:
        heard = Heard(w, "task_begun", "task_ended", "pipe_closed")
        caller = Caller("me", "ann")
        executed = await w.ask(
            Execute(pipeline=pipeline_of(stubborn(Park())), token="second", name="Second", ttl=50), caller=caller
        ).answer()
        begun = heard.one(TaskBegun)
        assert (begun.token, begun.name, begun.source, begun.user_id) == ("second", "Second", "source", "ann")
        assert begun.project_id == executed["projectId"]
        await w.ask(Open(token="second", mime_type="text/plain")).answer()
        await w.ask(Terminate(token="second")).answer()
        assert [type(e) for e in heard.events] == [TaskBegun, PipeClosed, TaskEnded]
        assert heard.events[-1].reason == "terminated"
        await w.ask(Execute(pipeline=pipeline_of(stubborn(Park())), token="third", ttl=50)).answer()
        w.clock.advance(60)
        await until(lambda: len(heard.of(TaskEnded)) == 2)
        assert (heard.events[-1].token, heard.events[-1].reason, heard.events[-1].seconds) == ("third", "idle", 60)
        await w.engine.aclose()
        await asyncio.sleep(0)
        assert (heard.events[-1].token, heard.events[-1].reason) == ("t", "closed")
        assert len(heard.of(TaskEnded)) == 3
