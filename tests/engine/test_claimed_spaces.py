"""Spaces that clients of a network claim: the pipeline's list of members is asked at each call, before any node sees it."""

from __future__ import annotations

from asyncio import Event
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engine_world import Asked, World, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import CallTool, ListTools, Open, Operation, ResolveTools, Tool, Write
from rrext.errors import InvalidArguments, PipeNotOpen, RrextError, ToolError, ToolTimeout
from rrext.nodes.base.node import Entry, Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.promise("spaces:members-only")


class Members:
    """A list of members, and each question to it."""

    def __init__(self) -> None:
        self.members = {("ada", "legal")}
        self.asked: list[tuple[str | None, str]] = []
        self.set_up = 0
        self.fails = False


def with_members(members: Members) -> type[Node]:
    class Knowing(Node):
        provider = "knowing"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any) -> AsyncIterator[Members]:
            members.set_up += 1
            if members.fails:
                raise ToolError("the list is damaged", code="store_failed")
            yield members

        @classmethod
        def require_member(cls, shared: Members, user_id: str | None, space_id: str) -> None:
            shared.asked.append((user_id, space_id))
            if (user_id, space_id) not in shared.members:
                raise ToolError("no such space, or not in it", code="space_not_found")

        @tool_function
        def own(self, ctx: ToolContext) -> str | None:
            return ctx.space_id

    return Knowing


class Spy(Node):
    """Notes each space that it sees."""

    provider = "spy"
    lanes = {"text": ()}
    seen: list[Any]

    def note(self, ctx: ToolContext) -> bool:
        type(self).seen.append(ctx.space_id)
        return True

    def open(self, entry: Entry, ctx: ToolContext) -> None:
        self.note(ctx)

    def write_text(self, text: str, ctx: ToolContext) -> None:
        self.note(ctx)

    def closing(self, ctx: ToolContext) -> None:
        self.note(ctx)

    @tool_function
    def quick(self, ctx: ToolContext) -> bool:
        return self.note(ctx)

    @tool_function(available=lambda ctx: Spy.seen.append(ctx.space_id) is None)
    async def guarded(self, ctx: ToolContext) -> bool:
        return self.note(ctx)


@asynccontextmanager
async def claimed(members: Members | None, *more: type[Node]) -> AsyncIterator[tuple[World, list[Any]]]:
    """A world with a list of members, if there is one, and what its spy has seen."""
    Spy.seen = seen = []
    nodes = (Spy, *more) if members is None else (with_members(members), Spy, *more)
    async with world(*nodes) as w:
        yield w, seen


def claiming(user: str | None = "ada", space: str = "legal", connection: str = "c") -> Caller:
    return Caller(connection, user_id=user, trusted=False, is_keyed=True).claiming(space, "/context/spaceId")


NODE_TOOL = [{"type": "node", "node": "spy", "tool": "guarded"}]
OPERATIONS: list[Operation] = [
    Tool(tool="quick"),
    Tool(tool="guarded", node_id="spy"),
    Tool(tool="no_such_tool"),
    ListTools(),
    Open(mime_type="text/plain"),
    CallTool(name="quick", arguments={}),
    CallTool(call_ref="tools.node.spy.guarded.self", arguments={}),
    ResolveTools(tools=NODE_TOOL),
]


async def outcome(asked: Asked) -> Any:
    """The body, or the code of the failure."""
    try:
        return await asked.answer()
    except RrextError as error:
        return error.code, error.message, error.hint


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: type(each).__name__)
async def test_nothing_of_a_pipeline_sees_a_space_that_the_user_is_not_in(operation: Operation) -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        refusals = [
            await outcome(w.ask(operation, caller=claiming(user, space)))
            for user, space in (("ben", "legal"), ("ben", "nowhere"), ("ada", "nowhere"), (None, "legal"), ("ada", ""))
        ]
        assert {refusal[0] for refusal in refusals} == {"space_not_found"}
        assert len(set(refusals)) == 1, "the same words"
        assert seen == []
        assert members.asked[:2] == [("ben", "legal"), ("ben", "nowhere")], "the same question"
        assert len(members.asked) == 5
        await w.at_rest()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: type(each).__name__)
async def test_a_member_is_asked_for_at_each_call(operation: Operation) -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        first = await outcome(w.ask(operation, caller=claiming()))
        again = await outcome(w.ask(operation, caller=claiming()))
        if isinstance(first, tuple):
            assert first == again
            assert first[0] == "tool_not_found"
        assert members.asked == [("ada", "legal")] * 2
        assert members.set_up == 1
        assert set(seen) <= {"legal"}
        members.members.clear()
        del seen[:]
        assert (await outcome(w.ask(operation, caller=claiming())))[0] == "space_not_found"
        assert seen == []


async def test_a_pipeline_without_a_list_of_members_takes_no_claim() -> None:
    async with claimed(None) as (w, seen):
        for operation in OPERATIONS:
            with pytest.raises(InvalidArguments, match="/context/spaceId"):
                await w.ask(operation, caller=claiming()).answer()
        assert seen == []
        assert await w.tool("quick", caller=Caller("c", user_id="ada")).result()


async def test_calls_without_a_claim_ask_for_nobody() -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        for caller in (Caller("a", user_id="ben", space_id="legal"), Caller("b", user_id="ben"), Caller("c")):
            assert await w.tool("quick", caller=caller).result()
            pipe = await w.open(caller=caller)
            await w.write(pipe, "x", caller=caller).answer()
            await w.close(pipe, caller=caller).answer()
        assert members.asked == []
        assert "legal" in seen, "who is trusted with naming spaces is checked by the tools themselves"


async def test_every_list_of_a_pipeline_must_have_the_user() -> None:
    first, second = Members(), Members()
    other = with_members(second)
    other.provider = "other"
    async with claimed(first, other) as (w, seen):
        assert await w.tool("quick", caller=claiming()).result()
        second.members.clear()
        assert (await w.tool("quick", caller=claiming()).error()).code == "space_not_found"
        assert seen == ["legal"]


@pytest.mark.parametrize("per_request", [False, True], ids=["connection", "open"])
@pytest.mark.parametrize("next_call", ["write", "close", "tool"])
async def test_a_member_who_is_removed_is_refused_at_the_next_call_of_an_open_pipe(next_call: str, per_request: bool) -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        later = Caller("c", user_id="ada", trusted=False, is_keyed=True) if per_request else claiming()
        pipe = await w.open(caller=claiming())
        await w.write(pipe, "a", caller=later).answer()
        assert await w.tool("quick", pipe=pipe, caller=later).result()
        assert set(seen) == {"legal"}, "a pipe keeps the space of its open"
        asked = len(members.asked)
        assert asked >= 3, "each call asked"
        members.members.clear()
        del seen[:]
        if next_call == "write":
            refused = w.write(pipe, "b", caller=later)
        elif next_call == "close":
            refused = w.close(pipe, caller=later)
        else:
            refused = w.tool("quick", pipe=pipe, caller=later)
        assert (await refused.error()).code == "space_not_found"
        members.members.add(("ada", "legal"))
        await until(lambda: not w.task.places.used)
        assert seen == [], "nothing of the object is kept"
        assert isinstance(await w.close(pipe, caller=later).error(), PipeNotOpen)
        await w.at_rest()


class Asking(Node):
    """Goes on for long, and calls other tools meanwhile."""

    provider = "asking"

    @tool_function
    async def ask(self, space: str | None, ctx: ToolContext) -> Any:
        ctx.progress(1)
        await gates[-1].wait()
        return await (ctx if space == "legal" else ctx.in_space(space)).call("spy", "quick")

    @tool_function
    def ask_in_thread(self, space: str | None, ctx: ToolContext) -> Any:
        return (ctx if space == "legal" else ctx.in_space(space)).call_blocking("spy", "quick")


gates: list[Event] = []


@pytest.mark.parametrize("on_pipe", [False, True])
async def test_a_long_call_that_calls_tools_loses_the_space_with_its_user(on_pipe: bool) -> None:
    members = Members()
    async with claimed(members, Asking) as (w, seen):
        gates.append(Event())
        pipe = await w.open(caller=claiming()) if on_pipe else None
        running = w.tool("ask", {"space": "legal"}, pipe=pipe, caller=claiming())
        await until(lambda: w.task.calls)
        await w.tool("quick", caller=claiming()).result()
        members.members.clear()
        del seen[:]
        gates[-1].set()
        assert (await running.error()).code == "space_not_found"
        assert seen == []


async def test_a_node_that_names_another_space_for_a_claim_is_asked_for_it_too() -> None:
    members = Members()
    members.members.add(("ada", "hr"))
    async with claimed(members, Asking) as (w, seen):
        gates.append(Event())
        gates[-1].set()
        for tool in ("ask", "ask_in_thread"):
            del seen[:]
            assert await w.tool(tool, {"space": "hr"}, caller=claiming()).result()
            assert await w.tool(tool, {"space": None}, caller=claiming()).result()
            assert (await w.tool(tool, {"space": "other"}, caller=claiming()).error()).code == "space_not_found"
            assert seen == ["hr", None]


async def test_a_call_on_a_pipe_of_a_space_may_not_claim_another_one() -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        pipe = await w.open(caller=claiming())
        assert (await w.tool("quick", pipe=pipe, caller=claiming(space="hr")).error()).code == "space_not_found"
        assert set(seen) == {"legal"}
        await w.close(pipe, caller=claiming()).answer()


async def test_calls_at_once_wait_for_the_list_to_be_set_up_and_keep_their_order() -> None:
    members = Members()
    async with claimed(members) as (w, seen):
        asked = [w.tool("quick", caller=claiming("ada" if number % 2 else "ben")) for number in range(6)]
        told = [await outcome(each) for each in asked]
        assert [one["result"] if isinstance(one, dict) else one[0] for one in told] == ["space_not_found", True] * 3
        assert members.set_up == 1
        assert seen == ["legal"] * 3
        await w.at_rest()


async def test_a_list_that_cannot_be_set_up_lets_nobody_in() -> None:
    members = Members()
    members.fails = True
    async with claimed(members) as (w, seen):
        for operation in OPERATIONS:
            assert (await outcome(w.ask(operation, caller=claiming())))[0] == "store_failed"
        assert seen == []
        await w.at_rest()


async def test_a_call_that_waits_for_the_list_can_be_cancelled_and_has_its_deadline() -> None:
    members = Members()

    class Slow(with_members(members)):  # type: ignore[misc]
        provider = "slow"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any) -> AsyncIterator[Members]:
            members.set_up += 1
            await gate.wait()
            yield members

    gate = Event()
    Spy.seen = seen = []
    async with world(Slow, Spy) as w:
        cancelled, late = w.tool("quick", caller=claiming()), w.tool("quick", timeout=5, caller=claiming())
        await until(lambda: members.set_up)
        cancelled.cancel()
        assert (await cancelled.error()).code == "cancelled"
        w.clock.advance(6)
        assert isinstance(await late.error(), ToolTimeout)
        gate.set()
        assert await w.tool("quick", caller=claiming()).result()
        assert seen == ["legal"]
        await w.at_rest()


async def test_the_reading_thread_leaves_claims_to_the_loop() -> None:
    members = Members()
    async with claimed(members) as (w, _):
        assert await w.tool("quick", caller=claiming()).result()
        for operation in (Tool(tool="quick"), Write(pipe_id=1, data="x")):
            call = w.asked_for(operation, caller=claiming()).call
            assert w.engine.start_here(call) is False
            w.asked.pop()


async def test_the_space_that_an_operator_chose_is_not_the_clients_to_change() -> None:
    own = Caller("c", user_id="ada", space_id="legal", is_keyed=True)
    assert own.claiming("legal", "/p") is own
    assert own.claiming(None, "/p") is own
    with pytest.raises(InvalidArguments, match="/p"):
        own.claiming("hr", "/p")
    named = claiming()
    assert (named.space_id, named.claims) == ("legal", True)
    assert (named.claiming("hr", "/p").space_id, named.claiming(None, "/p")) == ("hr", claiming().claiming(None, "/p"))
    assert not named.claiming(None, "/p").claims


def test_a_list_of_members_is_what_a_class_with_the_method_has() -> None:
    from rrext.nodes.knowledge.node import KnowledgeNode

    assert "require_member" in vars(KnowledgeNode)
    assert "require_member" not in vars(Spy)
