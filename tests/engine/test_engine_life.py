"""Pipelines that come and go: tokens, idle times, who may see what, and an engine that is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import AsyncPark, Park, World, pipeline_of, until, world

from rrext.engine.base_engine import CHANGE_REFUSED
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import (
    Execute,
    ListTasks,
    ListTools,
    Open,
    Operation,
    Services,
    TaskStatus,
    Terminate,
    Tool,
    Validate,
)
from rrext.errors import (
    Cancelled,
    InvalidArguments,
    NodeNotFound,
    TaskAlreadyRunning,
    TaskAmbiguous,
    TaskNotRegistered,
    ToolError,
    ToolNotFound,
    Unavailable,
)
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


class Adder(Node):
    provider = "adder"
    lanes = {"text": ()}

    @tool_function
    def add(self, a: int, b: int) -> int:
        return a + b

    @tool_function
    async def add_async(self, a: int, b: int) -> int:
        return a + b

    def write_text(self, text: str) -> None: ...


def execute(**given: Any) -> Execute:
    return Execute(pipeline=pipeline_of(Adder), **given)


async def answer(w: World, operation: Operation) -> Any:
    return await w.ask(operation).answer()


# -- tokens


async def test_a_second_execute_of_one_project_is_refused_or_joined() -> None:
    async with world(Adder) as w:
        await w.terminate()
        first = await answer(w, execute())
        assert isinstance(await w.ask(execute()).error(), TaskAlreadyRunning)
        assert (await answer(w, execute(use_existing=True)))["token"] == first["token"]
        other = await answer(w, execute(token="mine"))
        assert other["token"] == "mine"
        assert isinstance(await w.ask(execute(token="mine")).error(), TaskAlreadyRunning)
        assert (await answer(w, execute(token="mine", use_existing=True)))["token"] == "mine"
        await answer(w, Terminate(token=first["token"]))
        assert (await answer(w, execute(use_existing=True)))["token"] == "mine"
        await answer(w, Terminate(token="mine"))
        assert (await answer(w, execute()))["token"] not in ("mine", first["token"])


async def test_without_a_token_the_only_task_is_meant() -> None:
    async with world(Adder) as w:
        assert await w.tool("add", a=1, b=2).result() == 3
        await answer(w, execute(token="second"))
        error = await w.tool("add", a=1, b=2).error()
        assert isinstance(error, TaskAmbiguous)
        assert error.data == {"tokens": ["second", "t"]}
        await answer(w, Terminate(token="t"))
        await answer(w, Terminate(token="second"))
        assert isinstance(await w.tool("add", a=1, b=2).error(), TaskNotRegistered)


async def test_a_generated_token_is_named_to_nobody() -> None:
    async with world(Adder) as w:
        await w.terminate()
        secret = (await answer(w, execute()))["token"]
        await answer(w, execute(token="mine"))
        for asked in (w.tool("add", a=1, b=2), w.ask(TaskStatus(token=secret[:-1]))):
            error = await asked.error()
            assert secret not in f"{error.message} {error.hint} {error.data}"


async def test_a_call_on_a_pipe_is_its_pipes_pipelines_call() -> None:
    async with world(Adder) as w:
        pipe = await w.open()
        await answer(w, execute(token="second"))
        assert await w.tool("add", pipe=pipe, a=1, b=2).result() == 3
        other = w.ask(Tool(tool="add", input={"a": 1, "b": 2}, pipe_id=pipe, token="second"))
        assert isinstance(await other.error(), InvalidArguments)
        await w.close(pipe).answer()


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"threads": -1}, {"ttl": -1}, {"token": " "}, {"source": "nobody"}], ids=str)
async def test_an_execute_that_cannot_be_right_loads_nothing(wrong: dict[str, Any]) -> None:
    async with world(Adder) as w:
        await w.terminate()
        assert (await w.ask(execute(**wrong)).error()).code in ("invalid_arguments", "invalid_pipeline")
        assert await answer(w, ListTasks()) == {"tasks": []}


async def test_threads_are_the_limit_of_both_kinds() -> None:
    park = Park()

    class Stays(Node):
        provider = "stays"

        @tool_function
        def stay(self) -> None:
            park.stay()

    async with world(Stays) as w:
        await w.terminate()
        await answer(w, Execute(pipeline=pipeline_of(Stays), threads=2, token="two"))
        asked = [w.tool("stay") for _ in range(5)]
        await until(lambda: park.inside == 2)
        status = await answer(w, TaskStatus())
        assert status["threads"] == {"limit": 2, "used": 2, "waiting": 3}
        park.let_go()
        for one in asked:
            await one.answer()
        assert park.peak == 2


# -- idle pipelines


async def test_an_idle_pipeline_is_unloaded_after_its_ttl() -> None:
    async with world(Adder) as w:
        await w.terminate()
        await answer(w, execute(token="idle", ttl=40))
        w.clock.advance(39)
        assert await w.tool("add", a=1, b=2).result() == 3
        w.clock.advance(39)
        assert await w.tool("add_async", a=1, b=2).result() == 3
        w.clock.advance(40)
        await until(lambda: not len(w.engine.tasks))


@pytest.mark.parametrize("busy", ["call", "pipe", "line"])
async def test_a_busy_pipeline_is_not_idle_and_its_time_begins_when_it_is_no_longer(busy: str) -> None:
    park = Park()

    class Stays(Node):
        provider = "stays"
        lanes = {"text": ()}

        @tool_function
        def stay(self) -> None:
            park.stay()

        def write_text(self, text: str) -> None: ...

    async with world(Stays, pipe_idle=10_000) as w:
        await w.terminate()
        await answer(w, Execute(pipeline=pipeline_of(Stays), ttl=40, token="x", threads=1))
        call = w.tool("stay")
        if busy == "pipe":
            park.let_go()
            await call.answer()
            call = w.ask(Open())
            await call.answer()
        else:
            await until(lambda: park.inside)
        for _ in range(20):
            w.clock.advance(15)
        assert len(w.engine.tasks) == 1
        if busy == "pipe":
            await w.close(1).answer()
        park.let_go()
        await call.answer()
        await until(lambda: not w.engine.tasks.get("x").is_busy)
        w.clock.advance(20)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(w.engine.tasks) == 1
        w.clock.advance(40)
        await until(lambda: not len(w.engine.tasks))


async def test_without_a_ttl_a_pipeline_stays() -> None:
    async with world(Adder) as w:
        w.clock.advance(10**6)
        assert await w.tool("add", a=1, b=2).result() == 3


# -- unloading


async def test_terminate_cancels_calls_frees_pipes_and_leaves_nothing() -> None:
    park, lot = Park(), AsyncPark()

    class Stays(Node):
        provider = "stays"
        lanes = {"text": ()}

        @tool_function
        def stay(self) -> None:
            park.stay()

        @tool_function
        async def stay_async(self) -> None:
            await lot.stay()

        def write_text(self, text: str) -> None:
            park.stay()

    async with world(Stays, threads=3) as w:
        pipe = await w.open()
        asked = [w.tool("stay"), w.tool("stay_async"), w.write(pipe, "x"), w.tool("stay"), w.ask(Open()), w.close(pipe)]
        await until(lambda: park.inside == 2 and lot.inside == 1)
        ended = w.ask(Terminate())
        for one in asked:
            error = await one.error()
            assert isinstance(error, Cancelled)
        assert isinstance(await w.tool("stay").error(), TaskNotRegistered)
        park.let_go()
        assert await ended.answer() == {}
        await w.at_rest()
        assert len(w.engine._pipes) == 0
        assert lot.cancelled == 1
        assert park.visits == 2


async def test_a_second_terminate_finds_nothing() -> None:
    async with world(Adder) as w:
        first, second = w.ask(Terminate()), w.ask(Terminate())
        assert await first.answer() == {}
        assert isinstance(await second.error(), TaskNotRegistered)


async def test_a_closed_engine_has_answered_everything() -> None:
    lot = AsyncPark()

    class Stays(Node):
        provider = "stays"

        @tool_function
        async def stay(self) -> None:
            await lot.stay()

        @tool_function
        async def stubborn(self) -> None:
            while True:
                try:
                    await lot.stay()
                except asyncio.CancelledError:
                    if lot.cancelled > 2:
                        raise

    async with world(Stays, drain=0.05) as w:
        asked = [w.tool("stay"), w.tool("stubborn"), w.ask(ListTools())]
        await until(lambda: lot.inside == 2)
    assert [len(one.answers) for one in asked] == [1, 1, 1]


# -- who may see what


class Members(Node):
    """Tools for some."""

    provider = "members"

    @tool_function
    def for_all(self) -> str:
        return "all"

    @tool_function(available=lambda ctx: ctx.user_id == "ann")
    def for_ann(self) -> str:
        return "ann"

    @tool_function(available=lambda ctx: 1 / 0)
    def for_nobody(self) -> str:
        return "?"


class Fans(Node):
    """The same name on a second node, for others."""

    provider = "fans"

    @tool_function(available=lambda ctx: ctx.user_id == "bob")
    def for_ann(self) -> str:
        return "bob"


@pytest.mark.promise("tools:availability-per-request")
async def test_what_is_listed_is_what_can_be_called_for_each_caller() -> None:
    names = ("for_all", "for_ann", "for_nobody")
    async with world(Members, Fans) as w:
        for user in ("ann", "bob", None, "ann"):
            caller = Caller("c", user_id=user)
            listed = (await w.ask(ListTools(), caller=caller).answer())["tools"]
            pairs = {(tool["nodeId"], tool["name"]) for tool in listed}
            for node in ("members", "fans"):
                for name in names:
                    asked = w.tool(name, node=node, caller=caller)
                    if (node, name) in pairs:
                        await asked.result()
                    else:
                        assert isinstance(await asked.error(), Unavailable | ToolNotFound)
            anywhere = w.tool("for_ann", caller=caller)
            if user is None:
                assert isinstance(await anywhere.error(), Unavailable)
            else:
                assert await anywhere.result() == user
        await w.at_rest()


async def test_near_matches_name_only_what_this_caller_could_list() -> None:
    class Hidden(Node):
        provider = "for_an"

        @tool_function(available=lambda ctx: ctx.user_id == "ann")
        def secret(self) -> None: ...

    async with world(Members, Fans, Hidden) as w:
        for user, tools, nodes in (("ann", ["for_ann"], ["for_an"]), ("eve", [], [])):
            caller = Caller("c", user_id=user)
            error = await w.tool("for_anm", caller=caller).error()
            assert isinstance(error, ToolNotFound)
            assert ("for_ann" in error.data["near"]) is bool(tools)
            assert ("for_ann" in error.message) is bool(tools)
            for asked in (w.tool("x", node="for_am", caller=caller), w.ask(ListTools(node_id="for_am"), caller=caller)):
                missing = await asked.error()
                assert isinstance(missing, NodeNotFound)
                assert missing.data["near"] == nodes
                assert missing.message.startswith('Node "for_am" not found in pipeline.')


async def test_a_near_match_is_not_asked_of_a_node_that_is_not_set_up() -> None:
    """A predicate that looks at what is shared would look at nothing, and be thought broken for ever."""
    from contextlib import asynccontextmanager

    class Later(Node):
        provider = "later"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any):
            yield {"open": True}

        @tool_function(available=lambda node, ctx: node.shared["open"])
        def guarded(self) -> bool:
            return self.shared["open"]

    async with world(Later) as w:
        error = await w.tool("guardet").error()
        assert error.data["near"] == []
        assert await w.tool("guarded").result() is True
        assert (await w.tool("guardet").error()).data["near"] == ["guarded"]


async def test_a_tool_on_another_node_is_named() -> None:
    async with world(Members, Adder) as w:
        error = await w.tool("add", node="members").error()
        assert error.data["nodes"] == ["adder"]


@pytest.mark.parametrize("tool", ["", " ", "\t"])
async def test_a_tool_without_a_name_is_an_argument_that_is_missing(tool: str) -> None:
    async with world(Adder) as w:
        error = await w.tool(tool).error()
        assert isinstance(error, InvalidArguments)
        assert error.message.startswith("tool is required")


async def test_names_with_spaces_around_them_are_found() -> None:
    async with world(Adder) as w:
        assert await w.tool(" add ", node=" adder ", a=1, b=1).result() == 2


async def test_one_broken_node_hides_no_other(caplog: Any) -> None:
    class BrokenObject(Node):
        provider = "broken_object"

        def __init__(self) -> None:
            raise OSError("no disk")

        @tool_function
        def one(self) -> None: ...

    class BrokenText(Node):
        provider = "broken_text"

        @tool_function(description=lambda node: 1 / 0)
        def two(self) -> None: ...

    async with world(BrokenObject, BrokenText, Adder) as w:
        assert await w.tools() == ["add", "add_async"]
        assert "cannot be described" in caplog.text
        error = await w.tool("one").error()
        assert "OSError: no disk" in error.message
        await w.at_rest()


async def test_a_broadcast_asks_the_next_node_only_when_a_tool_is_not_available() -> None:
    class First(Node):
        provider = "first"

        @tool_function(available=lambda ctx: ctx.user_id != "skip")
        def both(self, how: str) -> str:
            if how == "raise":
                raise ToolError("first failed")
            return "first"

    class Second(Node):
        provider = "second"

        @tool_function(timeout=5)
        def both(self, how: str, ctx: ToolContext) -> Any:
            return ["second", ctx.remaining()]

    async with world(First, Second) as w:
        assert await w.tool("both", how="").result() == "first"
        assert (await w.tool("both", how="raise").error()).message == "first failed"
        assert isinstance(await w.tool("both", wrong=1).error(), InvalidArguments)
        skip = Caller("c", user_id="skip")
        assert await w.tool("both", how="", caller=skip).result() == ["second", 5]
        assert await w.tool("both", how="", timeout=2, caller=skip).result() == ["second", 2]


# -- odd operations


@pytest.mark.parametrize("operation", [Services(), Services(service="adder"), ListTasks(), Validate(pipeline={})], ids=str)
async def test_slow_operations_are_answered(operation: Operation) -> None:
    async with world(Adder) as w:
        assert isinstance(await answer(w, operation), dict)
        await w.at_rest()


async def test_a_module_that_ends_the_process_when_it_is_imported_ends_only_its_request(monkeypatch: Any) -> None:
    async with world(Adder) as w:

        def leave(catalog: Any, service: str | None) -> Any:
            raise SystemExit(1)

        monkeypatch.setattr(type(w.engine.catalog), "services", leave)
        error = await w.ask(Services()).error()
        assert error.code == "internal"
        assert await w.tool("add", a=1, b=1).result() == 2


async def test_an_operation_that_nobody_runs_is_internal() -> None:
    async with world(Adder) as w:
        assert (await w.ask(Operation()).error()).code == "internal"


async def test_a_deadline_of_a_slow_operation_is_kept() -> None:
    from contextlib import asynccontextmanager

    lot = AsyncPark()

    class Slow(Node):
        provider = "slow"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any):
            await lot.stay()
            yield

        @tool_function
        def work(self) -> None: ...

    async with world(Slow) as w:
        asked = w.ask(ListTools(timeout=3))
        await until(lambda: lot.inside)
        w.clock.advance(3)
        assert (await asked.error()).code == "tool_timeout"
        lot.let_go()
        assert await w.tools() == ["work"]


async def test_who_is_not_trusted_does_not_read_why_a_tool_cannot_be_described() -> None:
    def no_schema(node: Node) -> dict[str, Any]:
        raise ValueError("postgres://user:secret@host")

    def end(node: Node) -> str:
        raise SystemExit("secret")

    class Undescribed(Node):
        provider = "undescribed"

        @tool_function(input_schema=no_schema)
        def one(self, word: str = "") -> None: ...

        @tool_function(description=end)
        def two(self) -> None: ...

    async with world(Undescribed, Adder) as w:
        for trusted in (True, False):
            listed = await w.ask(ListTools(), caller=Caller("c", trusted=trusted)).answer()
            assert [found["name"] for found in listed["tools"]] == ["add", "add_async"]
            assert [(found["nodeId"], found["name"]) for found in listed["undescribed"]] == [
                ("undescribed", "one"),
                ("undescribed", "two"),
            ]
            assert [("secret" in found["message"]) for found in listed["undescribed"]] == [trusted, trusted]


async def test_the_reason_why_a_tool_cannot_be_described_has_no_value_of_a_variable() -> None:
    def no_schema(node: Node) -> dict[str, Any]:
        raise ValueError("the key is tr0ub4dor-three")

    class Undescribed(Node):
        provider = "undescribed"

        @tool_function(input_schema=no_schema)
        def one(self, word: str = "") -> None: ...

    async with world(Undescribed) as w:
        w.engine.host.redactor.learn("ROCKETRIDE_KEY", "tr0ub4dor-three")
        listed = await w.ask(ListTools()).answer()
        assert "tr0ub4dor" not in listed["undescribed"][0]["message"]
        assert "${ROCKETRIDE_KEY}" in listed["undescribed"][0]["message"]


@pytest.mark.parametrize("closes", [False, True])
async def test_a_call_on_a_former_version_has_its_time_and_is_cancelled_then_or_at_the_end(closes: bool) -> None:
    lot = AsyncPark()

    class Stayer(Node):
        provider = "stayer"
        lanes = {"text": ()}

        @tool_function
        async def stay(self) -> None:
            await lot.stay()

        @tool_function
        def here(self) -> bool:
            return True

    async with world(Stayer) as w:
        asked = w.tool("stay")
        await until(lambda: lot.inside)
        key = w.task.public_token
        await w.engine.exchange(w.task, patience=60 if closes else 0.01)
        assert w.engine.task("t") is not w.task
        assert w.engine.task("t").public_token == key
        assert await w.tool("here").result()
        if closes:
            assert list(w.engine.leaving) == [w.task]
            await w.engine.aclose()
        assert (await asked.error()).code == "cancelled"
        await until(lambda: w.task.stopping and not lot.inside)


async def test_only_who_is_trusted_reads_why_a_change_of_files_does_not_count() -> None:
    ada = Caller(connection_id="a", user_id="ada", trusted=False)
    async with world(Adder) as there:
        token = there.task.token

        async def warnings(caller: Caller) -> list[str]:
            return (await there.ask(TaskStatus(token=token), caller=caller).answer())["warnings"]

        there.engine.refuse_change(None, "/home/ops/nodes.py, line 2: API_KEY = (")
        there.engine.refuse_change("another", "its own reason")
        assert await warnings(Caller()) == ["/home/ops/nodes.py, line 2: API_KEY = ("]
        assert await warnings(ada) == [CHANGE_REFUSED]
        there.engine.refuse_change(token, "p.pipe is no JSON")
        assert await warnings(Caller()) == ["/home/ops/nodes.py, line 2: API_KEY = (", "p.pipe is no JSON"]
        there.engine.take_change(None)
        assert await warnings(Caller()) == ["p.pipe is no JSON"]
        there.engine.take_change(token)
        assert await warnings(Caller()) == await warnings(ada) == []


async def test_a_refused_change_ends_with_its_pipeline() -> None:
    async with world(Adder) as there:
        token = there.task.token
        there.engine.refuse_change(token, "p.pipe is no JSON")
        await there.terminate()
        again = {"pipeline": pipeline_of(Adder), "token": token}
        await there.ask(Execute(**again)).answer()
        assert (await there.ask(TaskStatus(token=token)).answer())["warnings"] == []
