"""A session and its requests: what is refused, what is held, what overtakes nothing, and one answer to each."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_world import SessionWorld, session_world, until

from rrext.engine.calls.tool_calls import ToolCalls
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Tool
from rrext.engine.tasks.task import Task
from rrext.errors import Cancelled, InternalError, InvalidArguments, ShuttingDown, ToolTimeout, TooManyRequests, UnknownCommand
from rrext.limits import REQUEST_COST
from rrext.nodes.base.node import Node
from rrext.server.reader import Reader
from rrext.server.session import InFlight, Session
from rrext.threads import Workers
from rrext.tools.context import CallInfo, ToolContext
from rrext.tools.decorator import tool_function


class Gates:
    """Where tools wait, one gate for each kind."""

    def __init__(self) -> None:
        self.sync = threading.Event()
        self.coro = asyncio.Event()
        self.log: list[Any] = []

    def open(self) -> None:
        self.sync.set()
        self.coro.set()


def tools(gates: Gates) -> type[Node]:
    log = gates.log

    class Tools(Node):
        provider = "session_tools"
        lanes = {"tags": (), "text": ()}

        @tool_function
        def add(self, a: int, b: int) -> int:
            log.append(("add", a))
            return a + b

        @tool_function
        async def add_async(self, a: int, b: int) -> int:
            log.append(("add_async", a))
            return a + b

        @tool_function
        def wait(self) -> str:
            log.append("wait")
            assert gates.sync.wait(30)
            return "waited"

        @tool_function
        async def wait_async(self) -> str:
            log.append("wait_async")
            await gates.coro.wait()
            return "waited"

        @tool_function
        def text(self, size: int) -> str:
            return "x" * size

        @tool_function
        async def text_async(self, size: int) -> str:
            return "x" * size

        @tool_function
        async def text_later(self, size: int) -> str:
            await gates.coro.wait()
            return "x" * size

        @tool_function
        def raw(self, size: int) -> bytes:
            return b"\x00" * size

        @tool_function
        def nan(self) -> float:
            return float("nan")

        @tool_function
        def who(self, ctx: ToolContext) -> list[Any]:
            return [ctx.user_id, ctx.space_id]

        @tool_function
        async def steps(self, count: int, ctx: ToolContext) -> str:
            for number in range(count):
                ctx.progress(number, count)
                if number % 10 == 0:
                    await asyncio.sleep(0)
            return "done"

        @tool_function
        def chunks(self, count: int, size: int):
            for _ in range(count):
                log.append("chunk")
                yield "x" * size

        def write_text(self, text: str) -> None:
            log.append(("write", text))

        def write_tags(self, tag: Any) -> None:
            log.append(("tag", tag.data))

    return Tools


# -- ids


@pytest.mark.parametrize(
    "second",
    [
        {"command": "rrext_ping"},
        {"command": "initialize"},
        {"command": "cancel", "requestId": 1},
        {"command": "no_such"},
        {"command": "shutdown"},
        {"command": "rrext_process", "subcommand": "tool", "tool": "add", "input": {"a": 1, "b": 2}},
        {"command": "rrext_process", "subcommand": "nothing"},
    ],
    ids=str,
)
async def test_an_id_in_flight_is_not_answered_for_anything_else(second: dict[str, Any]) -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        first, frame = w.tool("wait_async")
        given = {key: value for key, value in second.items() if key != "command"}
        body = msgspec.json.encode({"type": "request", "seq": first, "command": second["command"], "arguments": given})
        other = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        await w.feed((first, frame), other)
        (refused,) = w.answers[None]
        assert refused.error.code == "invalid_request"
        assert refused.error.data == {"id": first}
        assert first not in w.answers
        assert w.ends == []
        gates.open()
        assert await w.result(first) == "waited"


async def test_an_id_in_flight_is_not_answered_for_a_frame_that_is_broken() -> None:
    gates = Gates()
    async with session_world(tools(gates), max_frame=2000) as w:
        first, frame = w.tool("wait_async")
        large = b'{"type":"request","seq":%d,"command":"x","arguments":{"x":"%b"}}' % (first, b"y" * 3000)
        await w.feed((first, frame), b"Content-Length: %d\r\n\r\n%b" % (len(large), large))
        (refused,) = w.answers[None]
        assert refused.error.code == "frame_too_large"
        gates.open()
        assert await w.result(first) == "waited"


async def test_an_answered_id_may_be_used_again() -> None:
    async with session_world(tools(Gates())) as w:
        number, frame = w.tool("add", {"a": 1, "b": 2})
        for count in range(1, 4):
            await w.feed((number, frame))
            await until(lambda count=count: len(w.answers[number]) == count)


async def test_in_json_rpc_a_number_and_its_text_are_two_ids() -> None:
    gates = Gates()
    async with session_world(tools(gates), dialect="jsonrpc") as w:
        frames = []
        for number in (b"1", b'"1"'):
            body = (
                b'{"jsonrpc":"2.0","id":%b,"method":"rrext_process","params":{"subcommand":"tool","tool":"wait_async"}}'
                % number
            )
            frames.append(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await w.feed(*frames)
        gates.open()
        assert await w.result(1) == await w.result("1") == "waited"


# -- what is refused


@pytest.mark.parametrize("timeout", [0, -1, "30", True, 1e9, 3600.1, [], {}, "NaN"])
@pytest.mark.parametrize("subcommand", ["tool", "open", "write", "close", "tools"])
async def test_a_timeout_that_is_none_is_refused_with_its_place(subcommand: str, timeout: Any) -> None:
    async with session_world(tools(Gates())) as w:
        needed = {"write": {"pipe_id": 1, "data": "x"}, "close": {"pipe_id": 1}, "tool": {"tool": "add"}}.get(subcommand, {})
        error = (await w.ask("rrext_process", subcommand=subcommand, timeout=timeout, **needed)).error
        assert isinstance(error, InvalidArguments)
        assert error.data["errors"][0]["path"] == "/timeout"
        assert str(timeout) not in error.data["errors"][0]["message"] or timeout in (0, True)


@pytest.mark.parametrize("timeout", [0.001, 1, 3600, None])
async def test_a_timeout_that_is_one_is_taken(timeout: Any) -> None:
    async with session_world(tools(Gates())) as w:
        answer = await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 2}, timeout=timeout)
        assert answer.body == {"result": 3}


@pytest.mark.parametrize(
    ("wrong", "path", "right"),
    [
        ({"node_id": "x"}, "/node_id", "nodeId"),
        ({"NodeId": "x"}, "/NodeId", "nodeId"),
        ({"pipeId": 1}, "/pipeId", "pipe_id"),
        ({"sub-command": "x"}, "/sub-command", "subcommand"),
        ({"Context": {}}, "/Context", "context"),
        ({"context": {"user_id": "x"}}, "/context/user_id", "userId"),
        ({"time_out": 5}, "/time_out", "timeout"),
    ],
)
async def test_an_argument_that_is_misspelt_is_told_how_it_is_spelt(wrong: dict[str, Any], path: str, right: str) -> None:
    async with session_world(tools(Gates())) as w:
        answer = await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 2}, **wrong)
        assert answer.error.data["errors"][0]["path"] == path
        assert f'"{right}"' in answer.error.data["errors"][0]["message"]


LONG = "x" * 1_000_000


@pytest.mark.promise("call:name:bounded")
@pytest.mark.parametrize(
    ("command", "given", "path"),
    [
        ("rrext_process", {"subcommand": "tool", "tool": LONG}, "/tool"),
        ("rrext_process", {"subcommand": "tool", "tool": " " * 1_000_000 + "add"}, "/tool"),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "nodeId": LONG}, "/nodeId"),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "token": LONG}, "/token"),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "context": {"userId": LONG}}, "/context/userId"),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "context": {LONG: 1}}, None),
        ("rrext_process", {"subcommand": "tool", "tool": "add", "node" + "_" * 1_000_000 + "id": 1}, None),
        ("rrext_process", {"subcommand": LONG}, "/subcommand"),
        ("rrext_process", {"subcommand": "open", "provider": LONG}, "/provider"),
        ("rrext_process", {"subcommand": "open", "mimeType": "lane/" + LONG}, "/mimeType"),
        ("rrext_process", {"subcommand": "tools", "nodeId": LONG}, "/nodeId"),
        ("rrext_services", {"service": LONG}, "/service"),
        ("rrext_get_task_status", {"token": LONG}, "/token"),
        ("execute", {"token": LONG, "pipeline": {}}, "/token"),
        ("cancel", {"requestId": LONG}, "/requestId"),
        ("initialize", {"clientName": LONG}, "/clientName"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_long_name_is_refused_with_its_place_and_hardly_repeated(command: str, given: Any, path: str | None) -> None:
    async with session_world(tools(Gates())) as w:
        error = (await w.ask(command, **given)).error
        assert isinstance(error, InvalidArguments)
        assert "max_name" in error.message
        assert path is None or error.data["errors"][0]["path"] == path
        assert w.session.limits.max_name == 1024
        assert len(w.sink.taken) < 1000
        assert w.session.caller.user_id is None


@pytest.mark.promise("call:name:bounded")
@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_a_long_command_is_unknown_and_hardly_repeated(dialect: str) -> None:
    async with session_world(tools(Gates()), dialect=dialect) as w:
        assert isinstance((await w.ask(LONG)).error, UnknownCommand)
        assert len(w.sink.taken) < 1000


@pytest.mark.promise("call:name:bounded")
@pytest.mark.parametrize("more", [b"", b',"params":[]', b',"other":1'])
async def test_a_long_id_is_refused_and_not_repeated(more: bytes) -> None:
    async with session_world(tools(Gates()), dialect="jsonrpc") as w:
        for size in (1024, 1_000_000):
            body = b'{"jsonrpc":"2.0","id":"%b","method":"rrext_ping"%b}' % (b"i" * size, more)
            await w.feed(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        (usable,), (refused,) = w.answers["i" * 1024], w.answers[None]
        assert usable.error is None or more == b',"params":[]'
        assert refused.error.code == "invalid_request"
        assert "max_name" in refused.error.message
        assert len(w.sink.taken) < 3000


@pytest.mark.parametrize(
    "given",
    [
        {"tool": 5},
        {"tool": None},
        {},
        {"tool": "add", "nodeId": 5},
        {"tool": "add", "pipe_id": True},
        {"tool": "add", "pipe_id": "1"},
        {"tool": "add", "pipe_id": 1.5},
        {"tool": "add", "progress": 1},
        {"tool": "add", "stream": "yes"},
        {"tool": "add", "token": 5},
        {"tool": "add", "context": 5},
        {"tool": "add", "context": {"userId": 5}},
    ],
    ids=str,
)
async def test_arguments_of_another_type_are_refused_with_their_place(given: dict[str, Any]) -> None:
    async with session_world(tools(Gates())) as w:
        error = (await w.ask("rrext_process", subcommand="tool", **given)).error
        assert isinstance(error, InvalidArguments)
        path = error.data["errors"][0]["path"]
        assert path in ("/tool", "/nodeId", "/pipe_id", "/progress", "/stream", "/token", "/context", "/context/userId")


@pytest.mark.parametrize(
    ("command", "subcommand", "near"),
    [
        ("rrext_pign", None, "rrext_ping"),
        ("INITIALIZE", None, "initialize"),
        ("rrext_process", "tol", "tool"),
        ("", None, None),
    ],
)
async def test_unknown_commands_name_those_like_them(command: str, subcommand: str | None, near: str | None) -> None:
    async with session_world(tools(Gates())) as w:
        error = (await w.ask(command, **({"subcommand": subcommand} if subcommand else {}))).error
        assert isinstance(error, UnknownCommand)
        assert error.message.startswith("Invalid ")
        assert (error.data["near"][:1] == [near]) is (near is not None)


async def test_initialize_is_for_once_and_may_be_tried_again_only_if_it_failed() -> None:
    async with session_world(tools(Gates())) as w:
        assert (await w.ask("initialize", context={"userId": 5})).error.code == "invalid_arguments"
        assert (await w.ask("initialize", context={"userId": "ann"})).body["protocol"] == 1
        assert (await w.ask("initialize")).error.code == "invalid_request"
        assert (await w.ask("rrext_process", subcommand="tool", tool="who")).body == {"result": ["ann", None]}


async def test_a_context_stands_in_as_a_whole_for_one_request() -> None:
    async with session_world(tools(Gates())) as w:
        await w.ask("initialize", context={"userId": "ann", "spaceId": "s"})
        for context, seen in (({"userId": "bob"}, ["bob", None]), ({}, [None, None]), (None, ["ann", "s"])):
            answer = await w.ask("rrext_process", subcommand="tool", tool="who", context=context)
            assert answer.body == {"result": seen}


async def test_a_tail_where_none_belongs_is_refused() -> None:
    async with session_world(tools(Gates())) as w:
        for arguments in ({"subcommand": "tool", "tool": "add"}, {"subcommand": "close", "pipe_id": 1}):
            error = (await w.ask("rrext_process", b"tail", **arguments)).error
            assert error.data["errors"][0]["path"] == "/data"
        assert (await w.ask("rrext_ping", b"tail")).error.code == "invalid_arguments"


# -- results


@pytest.mark.parametrize("raw_tail", [False, True])
async def test_bytes_are_a_tail_for_who_takes_tails_and_base64_for_others(raw_tail: bool) -> None:
    async with session_world(tools(Gates()), max_result=4000) as w:
        await w.ask("initialize", rawTail=raw_tail)
        answer = await w.ask("rrext_process", subcommand="tool", tool="raw", input={"size": 3})
        assert answer.body == ({"data": b"\0\0\0"} if raw_tail else {"result": "AAAA"})
        most = 4000 if raw_tail else 3000
        for size, code in ((most, None), (most + 1, "result_too_large")):
            answer = await w.ask("rrext_process", subcommand="tool", tool="raw", input={"size": size})
            assert (answer.error.code if answer.error else None) == code


async def test_nan_is_never_null() -> None:
    async with session_world(tools(Gates())) as w:
        answer = await w.ask("rrext_process", subcommand="tool", tool="nan")
        assert answer.error.code == "tool_failed"


# -- limits


async def test_tool_has_a_limit_and_open_waits_behind_it_and_nothing_else_has_one() -> None:
    gates = Gates()
    async with session_world(tools(gates), max_inflight=5, max_waiting_opens=2) as w:
        numbers = await w.feed(*(w.tool("wait_async") for _ in range(5)))
        (refused,) = await w.feed(w.tool("add", {"a": 1, "b": 1}))
        assert isinstance(await w.error(refused), TooManyRequests)
        opening = await w.feed(*(w.frame("rrext_process", subcommand="open") for _ in range(3)))
        error = await w.error(opening[2])
        assert error.data == {"limit": "max_waiting_opens", "maximum": 2}
        assert (await w.ask("cancel", requestId=opening[0])).body == {"cancelled": True}
        assert (await w.error(opening[0])).code == "cancelled"
        assert (await w.ask("rrext_ping")).error is None
        assert (await w.ask("tools")).error is None
        for number in numbers[:2]:
            await w.ask("cancel", requestId=number)
        assert (await w.answer(opening[1])).body == {"pipe_id": 1}
        assert (await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})).body == {"result": 2}
        gates.open()
        for number in numbers[2:]:
            assert await w.result(number) == "waited"


async def test_the_writes_of_open_pipes_pass_the_opens_that_wait() -> None:
    gates = Gates()
    async with session_world(tools(gates), threads=2, max_inflight=8) as w:
        opening = await w.feed(*(w.frame("rrext_process", subcommand="open", mimeType="text/plain") for _ in range(40)))
        for number in opening:
            pipe = (await w.answer(number)).body["pipe_id"]
            assert (await w.ask("rrext_process", subcommand="write", pipe_id=pipe, data="x")).error is None
            (tool,) = await w.feed(w.tool("add", {"a": 1, "b": 1}, pipe_id=pipe))
            assert await w.result(tool) == 2
            assert (await w.ask("rrext_process", subcommand="close", pipe_id=pipe)).error is None


async def test_an_open_that_waits_is_answered_at_its_deadline() -> None:
    gates = Gates()
    async with session_world(tools(gates), max_inflight=2) as w:
        waiting = await w.feed(w.tool("wait_async"), w.tool("wait_async"))
        (late,) = await w.feed(w.frame("rrext_process", subcommand="open", timeout=0.01))
        w.clock.advance(0.01)
        assert (await w.error(late)).code == "tool_timeout"
        (wrong,) = await w.feed(w.frame("rrext_process", subcommand="open", timeout=-1))
        assert (await w.error(wrong)).code == "invalid_arguments"
        gates.open()
        for number in waiting:
            assert await w.result(number) == "waited"


async def fill(w: SessionWorld) -> None:
    """The peer reads no more, and the outbox is full."""
    w.sink.room = 0
    await w.feed(w.tool("text", {"size": 5000}))
    await until(lambda: w.session.outbox.is_full)


async def test_while_the_outbox_is_full_calls_are_held_and_begin_in_order_when_it_drains() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        await fill(w)
        numbers = await w.feed(*(w.tool("add_async", {"a": n, "b": 0}) for n in range(20)))
        await asyncio.sleep(0)
        assert gates.log == []
        w.sink.drain()
        for number in numbers:
            await w.answer(number)
        assert gates.log == [("add_async", n) for n in range(20)]
        w.check_answers(numbers)


async def test_calls_held_behind_answers_of_their_own_batch_begin_though_the_peer_never_stalled() -> None:
    """Answers of one turn of the loop are written together: until then they may fill the outbox."""
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        first = await w.feed(*(w.tool("text_async", {"size": 900}) for _ in range(4)))
        for number in first:
            await w.answer(number)
        assert w.session.outbox.size == 0
        session, done = w.session, asyncio.get_running_loop().create_future()
        large, small = w.tool("add", {"a": 1, "b": 1}), w.tool("add_async", {"a": 2, "b": 2})

        def turn() -> None:
            session._batch_thread = threading.get_ident()
            session._answer(session.connection.event("large", b'{"x":"' + b"y" * 2000 + b'"}'))
            session.handle(session.connection.framer.receive_data(large[1])[0])
            session.handle(session.connection.framer.receive_data(small[1])[0])
            assert len(session._inflight.held) == 2
            session._batch_thread = 0
            session.outbox.flush()
            done.set_result(None)

        asyncio.get_running_loop().call_soon(turn)
        await done
        assert await w.result(large[0]) == 2
        assert await w.result(small[0]) == 4


@pytest.mark.promise("call:unread:bounded")
async def test_while_the_outbox_is_full_nothing_begins_but_what_ends_something() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        (running,) = await w.feed(w.tool("wait_async"))
        await fill(w)
        size = w.session.outbox.size
        asked = ["rrext_ping", "tools", "rrext_services", "rrext_get_tasks", "rrext_get_task_status", "initialize"]
        numbers = await w.feed(*(w.frame(command) for command in asked))
        given_up, cancel, shutdown = await w.feed(
            w.frame("rrext_ping"), w.frame("cancel", requestId=running), w.frame("shutdown")
        )
        assert w.ends == ["shutdown"]
        assert w.session.outbox.size < size + 500  # two answers: of the cancel, and of what was cancelled
        await until(lambda: w.task.places.used == 0)
        assert [held.request.id for held in w.session._inflight.held.values()] == [*numbers, given_up]
        (cancel_held,) = await w.feed(w.frame("cancel", requestId=given_up))
        w.sink.drain()
        for number in numbers:
            assert (await w.answer(number)).error is None
        for number in (running, given_up):
            assert isinstance(await w.error(number), Cancelled)
        for number in (cancel, cancel_held):
            assert (await w.answer(number)).body == {"cancelled": True}
        w.session.end_with()
        w.check_answers([running, *numbers, given_up, cancel, cancel_held, shutdown])


@pytest.mark.promise("call:unread:bounded")
@pytest.mark.parametrize("what", ["unknown", "broken", "cancel", "duplicate"])
async def test_what_is_answered_though_the_outbox_is_full_counts_as_work_that_waits(what: str) -> None:
    async with session_world(tools(Gates()), outbox_bytes=1000) as w:
        (waiting,) = await w.feed(w.tool("wait_async"))
        _, ping = w.frame("rrext_ping")
        frames = {
            "unknown": lambda: w.frame("no_such")[1],
            "broken": lambda: b"Content-Length: 5\r\n\r\nhello",
            "cancel": lambda: w.frame("cancel", requestId=10**6)[1],
            "duplicate": lambda: ping.replace(b'"seq":%d' % (waiting + 1), b'"seq":%d' % waiting),
        }
        await fill(w)
        before = w.session.unread_bytes
        for count in (1, 100):
            await w.feed(*(frames[what]() for _ in range(count)))
        assert w.session.unread_bytes == before + 101 * REQUEST_COST
        w.sink.drain()
        await until(lambda: w.session.outbox.size == 0)
        await until(lambda: w.session.unread_bytes == REQUEST_COST)


@pytest.mark.promise("call:unread:bounded")
async def test_answers_are_not_made_before_there_is_room_though_all_were_asked_for_at_once() -> None:
    async with session_world(tools(Gates()), outbox_bytes=5000, room=0) as w:
        numbers = await w.feed(*(w.frame("tools") for _ in range(300)))
        for _ in range(20):
            await asyncio.sleep(0)
        size = w.session.outbox.size
        assert 5000 < size < 15_000
        w.sink.drain(size)
        await until(lambda: w.session.outbox.size > 5000)
        assert w.session.outbox.size < 15_000
        w.sink.drain()
        for number in numbers:
            assert (await w.answer(number)).error is None
        w.check_answers(numbers)


@pytest.mark.promise("call:unread:bounded")
@pytest.mark.parametrize("tool", ["text_later", "text", "text_async"])
async def test_calls_that_wait_for_a_place_do_not_begin_while_nobody_reads(tool: str) -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=5000, room=0, threads=4) as w:
        numbers = await w.feed(*(w.tool(tool, {"size": 2000}) for _ in range(200)))
        gates.open()
        await until(lambda: w.session.outbox.is_full and w.task.places.used == 0)
        assert w.session.outbox.size < 5000 + 8 * 2200  # what ran by then: four calls, and those of the turn in which it filled
        (given_up,) = numbers[-1:]
        await w.feed(w.frame("cancel", requestId=given_up))
        w.sink.drain(3000)
        await until(lambda: w.session.outbox.is_full and w.task.places.used == 0)
        assert w.session.outbox.size < 5000 + 8 * 2200
        w.sink.drain()
        for number in numbers[:-1]:
            assert await w.result(number) == "x" * 2000
        assert isinstance(await w.error(given_up), Cancelled)
        w.check_answers(numbers)
        assert w.task.places.used == 0


@pytest.mark.promise("call:unread:bounded")
async def test_a_call_of_a_pipe_keeps_its_turn_while_nobody_reads() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        pipe = (await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"]
        numbers = await w.feed(
            w.frame("rrext_process", subcommand="write", pipe_id=pipe, data="one"),
            w.tool("add", {"a": 1, "b": 1}, pipe_id=pipe),
            w.frame("rrext_process", subcommand="write", pipe_id=pipe, data="two"),
            w.frame("rrext_process", subcommand="close", pipe_id=pipe),
        )
        await fill(w)
        w.sink.drain()
        for number in numbers:
            assert (await w.answer(number)).error is None
        assert gates.log == [("write", "one"), ("add", 1), ("write", "two")]


async def test_a_write_is_never_one_too_many() -> None:
    gates = Gates()
    async with session_world(tools(gates), max_inflight=2) as w:
        pipe = (await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"]
        waiting = await w.feed(w.tool("wait_async"), w.tool("wait_async"))
        number, frame = w.frame("rrext_process", b"x", subcommand="write", pipe_id=pipe)
        (event,) = w.session.connection.framer.receive_data(frame)
        left = await asyncio.to_thread(w.session.handle_inline, event)
        w.session.end_inline()
        if left is not None:
            w.session.handle_all([left])
        assert (await w.answer(number)).error is None
        gates.open()
        for other in waiting:
            assert await w.result(other) == "waited"


async def test_writes_and_closes_do_not_overtake_a_held_call_on_their_pipe() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        pipe = (await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"]
        await fill(w)
        numbers = await w.feed(
            w.tool("add", {"a": 1, "b": 1}, pipe_id=pipe),
            w.frame("rrext_process", subcommand="write", pipe_id=pipe, data="x"),
            w.frame("rrext_process", subcommand="close", pipe_id=pipe),
        )
        await asyncio.sleep(0)
        assert gates.log == []
        w.sink.drain()
        for number in numbers:
            assert (await w.answer(number)).error is None
        assert gates.log == [("add", 1), ("write", "x")]


async def test_a_held_call_can_be_cancelled_and_never_runs() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        await fill(w)
        first, second, third = await w.feed(*(w.tool("add_async", {"a": n, "b": 0}) for n in range(3)))
        (cancel,) = await w.feed(w.frame("cancel", requestId=second))
        w.sink.drain()
        assert isinstance(await w.error(second), Cancelled)
        assert (await w.answer(cancel)).body == {"cancelled": True}
        assert await w.result(first) == 0
        assert await w.result(third) == 2
        assert gates.log == [("add_async", 0), ("add_async", 2)]


async def test_a_held_write_that_is_cancelled_fails_its_pipe_and_a_held_close_frees_it() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        pipes = [(await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"] for _ in range(2)]
        await fill(w)
        await w.feed(w.tool("add", {"a": 1, "b": 1}))
        write, close = await w.feed(
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[0], data="x"),
            w.frame("rrext_process", subcommand="close", pipe_id=pipes[1]),
        )
        await w.feed(w.frame("cancel", requestId=write), w.frame("cancel", requestId=close))
        w.sink.drain()
        assert isinstance(await w.error(write), Cancelled)
        assert isinstance(await w.error(close), Cancelled)
        body = (await w.ask("rrext_process", subcommand="close", pipe_id=pipes[0])).body
        assert body["error"]["code"] == "cancelled"
        assert (await w.ask("rrext_process", subcommand="close", pipe_id=pipes[1])).error.code == "pipe_not_open"
        assert ("write", "x") not in gates.log


async def test_a_held_request_that_is_cancelled_has_its_effect_behind_those_that_were_held_before_it() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        pipes = [(await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"] for _ in range(2)]
        await fill(w)
        first, closed, second, gap = await w.feed(
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[0], data="first"),
            w.frame("rrext_process", subcommand="close", pipe_id=pipes[0]),
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[1], data="second"),
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[1], data="gap"),
        )
        await w.feed(w.frame("cancel", requestId=closed), w.frame("cancel", requestId=gap))
        (behind,) = await w.feed(w.frame("rrext_process", subcommand="write", pipe_id=pipes[1], data="behind"))
        w.sink.drain()
        assert (await w.answer(first)).error is None
        assert (await w.answer(second)).error is None
        assert isinstance(await w.error(gap), Cancelled)
        assert (await w.error(behind)).code == "pipe_failed"
        assert (await w.ask("rrext_process", subcommand="close", pipe_id=pipes[0])).error.code == "pipe_not_open"
        assert (await w.ask("rrext_process", subcommand="close", pipe_id=pipes[1])).body["error"]["code"] == "cancelled"
        assert sorted(gates.log) == [("write", "first"), ("write", "second")]  # each on a pipe of its own


@pytest.mark.promise("pipe:late:failed")
async def test_a_held_write_that_is_late_fails_its_pipe_and_a_late_close_frees_it() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        pipes = [(await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"] for _ in range(2)]
        await fill(w)
        await w.feed(w.tool("add", {"a": 1, "b": 1}))
        numbers = await w.feed(
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[0], data="early"),
            w.frame("rrext_process", subcommand="write", pipe_id=pipes[0], data="late", timeout=5),
            w.frame("rrext_process", subcommand="close", pipe_id=pipes[0]),
            w.frame("rrext_process", subcommand="close", pipe_id=pipes[1], timeout=5),
        )
        w.clock.advance(5)
        w.sink.drain()
        _, late, closed, late_close = [await w.answer(number) for number in numbers]
        assert isinstance(late.error, ToolTimeout)
        assert late.error.message == "write did not finish within 5 s"
        assert closed.body["error"]["code"] == "tool_timeout"
        assert isinstance(late_close.error, ToolTimeout)
        assert (await w.ask("rrext_process", subcommand="close", pipe_id=pipes[1])).error.code == "pipe_not_open"
        await until(lambda: w.task.places.used == 0)
        assert ("write", "late") not in gates.log


@pytest.mark.parametrize("subcommand", ["tool", "open", "tools"])
async def test_nothing_of_a_late_request_without_a_pipe_begins(subcommand: str) -> None:
    gates = Gates()
    given: dict[str, Any] = {"tool": "add", "input": {"a": 1, "b": 1}} if subcommand == "tool" else {}
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        await fill(w)
        await w.feed(w.tool("add", {"a": 2, "b": 2}))
        (late,) = await w.feed(w.frame("rrext_process", subcommand=subcommand, timeout=5, **given))
        w.clock.advance(5)
        w.sink.drain()
        assert isinstance(await w.error(late), ToolTimeout)
        await until(lambda: not w.session.is_busy)
        assert ("add", 1) not in gates.log
        assert w.task.places.used == 0


async def test_the_time_of_a_held_call_runs_from_its_receipt() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        await fill(w)
        late, fine = await w.feed(w.tool("add", {"a": 1, "b": 1}, timeout=5), w.tool("add", {"a": 2, "b": 2}, timeout=50))
        w.clock.advance(5)
        w.sink.drain()
        assert isinstance(await w.error(late), ToolTimeout)
        assert await w.result(fine) == 4
        assert gates.log == [("add", 2)]


async def test_held_requests_that_are_wrong_are_answered_when_their_turn_comes() -> None:
    async with session_world(tools(Gates()), outbox_bytes=1000) as w:
        await fill(w)
        numbers = await w.feed(w.tool("add", {"a": "x"}), w.tool("nothing"), w.tool("add", {}, timeout=-1))
        w.sink.drain()
        codes = [(await w.error(number)).code for number in numbers]
        assert codes == ["invalid_arguments", "tool_not_found", "invalid_arguments"]


async def test_a_held_id_is_in_flight_and_held_calls_count() -> None:
    async with session_world(tools(Gates()), outbox_bytes=1000, max_inflight=3) as w:
        await fill(w)
        numbers = await w.feed(*(w.tool("add", {"a": n, "b": 0}) for n in range(3)))
        (over,) = await w.feed(w.tool("add", {"a": 9, "b": 0}))
        await w.feed((numbers[1], w.frame("rrext_ping")[1].replace(b'"seq":%d' % (over + 1), b'"seq":%d' % numbers[1])))
        w.sink.drain()
        assert isinstance(await w.error(over), TooManyRequests)
        assert [answer.error.code for answer in w.answers[None]] == ["invalid_request"]
        assert [await w.result(number) for number in numbers] == [0, 1, 2]


async def test_thousands_of_held_calls_are_looked_through_by_nobody() -> None:
    """Quadratic work on so many would take longer than this test may."""
    async with session_world(tools(Gates()), outbox_bytes=1000, max_inflight=40_000) as w:
        await fill(w)
        frames = [w.tool("add_async", {"a": n, "b": 0}) for n in range(8_000)]
        numbers = await w.feed(*frames)
        await w.feed(*(w.frame("cancel", requestId=number) for number in reversed(numbers[10:])))
        w.sink.drain()
        for number in numbers[:10]:
            await w.answer(number)
        w.check_answers(numbers)


# -- notifications


def notification(command: bytes, params: bytes) -> bytes:
    body = b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (command, params)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_notifications_run_and_are_never_answered_whatever_becomes_of_them() -> None:
    gates = Gates()
    async with session_world(tools(gates), dialect="jsonrpc") as w:
        await w.ask("rrext_ping")
        await w.feed(
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"add","input":{"a":1,"b":2}}'),
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"add_async","input":{"a":2,"b":2},"progress":true}'),
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"steps","input":{"count":5},"progress":true}'),
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"chunks","input":{"count":2,"size":1},"stream":true}'),
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"nothing"}'),
            notification(b"rrext_process", b'{"subcommand":"tool","tool":"add","timeout":-1}'),
            notification(b"rrext_ping", b"{}"),
            notification(b"no_such", b"{}"),
        )
        await until(lambda: not w.session.is_busy)
        assert {("add", 1), ("add_async", 2), "chunk"} <= set(gates.log)
        assert len(w.heard) == 1


async def test_an_open_without_id_takes_no_pipe() -> None:
    async with session_world(tools(Gates()), dialect="jsonrpc") as w:
        await w.ask("rrext_ping")
        await w.feed(*[notification(b"rrext_process", b'{"subcommand":"open","mimeType":"text/plain"}') for _ in range(100)])
        assert await w.ask("rrext_ping")
        assert not w.session.is_busy
        assert (w.task.places.used, w.task.places.waiting) == (0, 0)


async def test_notifications_are_cancelled_when_the_connection_is_gone_and_counted_until_then() -> None:
    gates = Gates()
    async with session_world(tools(gates), dialect="jsonrpc", max_inflight=2) as w:
        await w.ask("rrext_ping")
        wait = notification(b"rrext_process", b'{"subcommand":"tool","tool":"wait_async"}')
        await w.feed(wait, wait)
        assert isinstance((await w.ask("rrext_process", subcommand="tool", tool="add")).error, TooManyRequests)
        w.session.reports_answers = True
        w.session.close()
        await until(lambda: w.task.places.used == 0)
        assert not w.session.is_busy
        assert w.told >= 2


async def test_a_held_notification_is_not_answered_at_the_end() -> None:
    gates = Gates()
    async with session_world(tools(gates), dialect="jsonrpc", outbox_bytes=1000) as w:
        await w.ask("rrext_ping")
        await fill(w)
        await w.feed(notification(b"rrext_process", b'{"subcommand":"tool","tool":"add","input":{"a":1,"b":2}}'))
        (held,) = await w.feed(w.tool("add", {"a": 3, "b": 4}))
        w.session.fail_all("shutting_down", lambda: ShuttingDown("the end"))
        w.sink.drain()
        assert isinstance(await w.error(held), ShuttingDown)
        assert None not in w.answers
        assert gates.log == []


# -- progress and chunks


@pytest.mark.promise("progress:ordered:bounded")
async def test_progress_rises_comes_before_the_answer_and_never_after() -> None:
    async with session_world(tools(Gates())) as w:
        (number,) = await w.feed(w.tool("steps", {"count": 100}, progress=True))
        await w.answer(number)
        values = [event.body["progress"] for event in w.events]
        assert values == sorted(values)
        assert values[-1] == 99
        assert w.heard[-1].id == number
        assert all(event.body["request"] == number for event in w.events)


@pytest.mark.promise("progress:ordered:bounded")
async def test_a_stalled_peer_costs_no_memory_and_reads_the_latest_progress() -> None:
    async with session_world(tools(Gates()), outbox_bytes=1000) as w:
        (number,) = await w.feed(w.tool("steps", {"count": 5000}, progress=True))
        w.sink.room = 0
        await until(lambda: number not in w.session._inflight.calls)
        assert w.session.outbox.size < 3000
        w.sink.drain()
        await w.answer(number)
        values = [event.body["progress"] for event in w.events]
        assert values == sorted(set(values))
        assert values[-1] == 4999
        assert len(values) < 100


@pytest.mark.promise("events:caller:own-call")
async def test_a_stalled_peer_is_told_how_many_events_of_its_call_it_missed() -> None:
    class Inner(Node):
        provider = "inner"

        @tool_function
        def pad(self) -> str:
            return "x" * 5000

        @tool_function
        def many(self, ctx: ToolContext) -> None:
            for _ in range(200):
                ctx.call_blocking("", "pad")

    async with session_world(Inner, outbox_bytes=1000, room=0) as w:
        (number,) = await w.feed(w.tool("many", events=True))
        await until(lambda: number not in w.session._inflight.calls)
        assert w.session.outbox.size < 400_000
        w.sink.drain()
        await w.answer(number)
        events = [event.body for event in w.events]
        dropped = sum(event.get("dropped", 0) for event in events)
        assert dropped > 0
        assert len(events) + dropped == 2 * 201
        numbers = [event["call"] for event in events if event["event"] == "call_started"]
        assert numbers == sorted(numbers)
        assert events[-1]["event"] == "call_ended"
        assert events[-1]["call"] == numbers[0]


@pytest.mark.promise("events:caller:own-call")
@pytest.mark.parametrize(("pieces", "fewest", "most"), [(100, 100, 100), (4000, 1000, 1400)])
async def test_the_text_of_an_agent_is_joined_for_a_stalled_peer_and_dropped_before_the_tools_that_it_calls(
    pieces: int, fewest: int, most: int
) -> None:
    class Writer(Node):
        provider = "writer"

        @tool_function
        def add(self) -> int:
            return 3

        @tool_function
        def write(self, ctx: ToolContext, pieces: int) -> None:
            info = CallInfo(tool="write", node_id=self.node_id)
            for number in range(pieces):
                ctx.callbacks.agent_chunk(info, "a", f"{number:099} ")
            ctx.call_blocking("", "add")
            ctx.callbacks.agent_end(info, "a", None)

    async with session_world(Writer, outbox_bytes=1000, room=0) as w:
        (number,) = await w.feed(w.tool("write", {"pieces": pieces}, events=True))
        await until(lambda: number not in w.session._inflight.calls)
        w.sink.drain()
        await w.answer(number)
        events = [event.body for event in w.events if event.body["request"] == number]
        texts = [event["data"] for event in events if event.get("step") == "chunk"]
        words = "".join(texts).split()
        assert words == [f"{n:099}" for n in range(len(words))]
        assert fewest <= len(words) <= most
        assert len(texts) < 20
        others = [(event["event"], event.get("tool"), event.get("dropped", 0)) for event in events if "data" not in event]
        assert others == [
            ("call_started", "write", 0), ("call_started", "add", pieces - len(words)), ("call_ended", "add", 0),
            ("agent_step", "write", 0), ("call_ended", "write", 0),
        ]  # fmt: skip


async def test_late_progress_leaves_when_there_is_room_though_the_call_goes_on() -> None:
    go = threading.Event()

    class Slow(Node):
        provider = "slow"

        @tool_function
        def work(self, ctx: ToolContext) -> None:
            for number in range(500):
                ctx.progress(number)
            assert go.wait(20)

    async with session_world(Slow, outbox_bytes=1000, room=0) as w:
        await w.feed(w.tool("work", progress=True))
        await until(lambda: w.session.outbox.is_full and w.session._late)
        w.sink.drain()
        await until(lambda: w.events and w.events[-1].body["progress"] == 499)
        go.set()


async def test_no_progress_of_any_thread_comes_after_a_cancel_was_answered() -> None:
    stop = threading.Event()

    class Chatty(Node):
        provider = "chatty"

        @tool_function
        def talk(self, ctx: ToolContext) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                ctx.progress(number)

    async with session_world(Chatty) as w:
        numbers = []
        for _ in range(4):
            (number,) = await w.feed(w.tool("talk", progress=True))
            await until(lambda number=number: any(event.body["request"] == number for event in w.events))
            await w.feed(w.frame("cancel", requestId=number))
            await w.answer(number)
            numbers.append(number)
        stop.set()
        await until(lambda: w.task.places.used == 0)
        for number in numbers:
            place = next(n for n, message in enumerate(w.heard) if getattr(message, "id", None) == number)
            later = w.heard[place + 1 :]
            assert not any(getattr(message, "name", "") and message.body["request"] == number for message in later)


async def test_chunks_wait_for_a_stalled_peer_and_none_is_lost() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000, room=0) as w:
        (number,) = await w.feed(w.tool("chunks", {"count": 50, "size": 400}, stream=True))
        await until(lambda: w.session.outbox.is_full)
        await asyncio.sleep(0.01)
        assert gates.log.count("chunk") < 6
        while number not in w.answers:
            w.sink.drain(700)
            await asyncio.sleep(0)
        assert [event.body["index"] for event in w.events] == list(range(50))


async def test_a_producer_behind_a_stalled_peer_gives_its_places_back_when_its_call_is_cancelled() -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000, room=0) as w:
        (number,) = await w.feed(w.tool("chunks", {"count": 50, "size": 400}, stream=True))
        await until(lambda: w.session.outbox.is_full)
        await w.feed(w.frame("cancel", requestId=number))
        await until(lambda: w.task.places.used == w.task.sync_places.used == 0)
        assert w.session.outbox.is_full


# -- ends


async def test_while_it_drains_nothing_new_begins_and_what_runs_is_waited_for() -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        (running,) = await w.feed(w.tool("wait_async"))
        (end,) = await w.feed(w.frame("shutdown"))
        assert w.ends == ["shutdown"]
        w.session.is_draining = True
        refused = await w.feed(w.tool("add"), w.frame("tools"), w.frame("disconnect"))
        for number in refused:
            assert isinstance(await w.error(number), ShuttingDown)
        assert (await w.ask("rrext_ping")).error is None
        assert w.session.is_busy
        gates.open()
        assert await w.result(running) == "waited"
        await until(lambda: not w.session.is_busy)
        w.session.end_with()
        assert (await w.answer(end)).body == {}
        assert w.ends == ["shutdown"]


async def test_everything_in_flight_is_failed_once_and_its_tools_are_stopped() -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        numbers = await w.feed(w.tool("wait_async"), w.tool("wait"), w.frame("rrext_process", subcommand="open"))
        await until(lambda: "wait" in gates.log)
        w.session.fail_all("shutting_down", lambda: ShuttingDown("the end"))
        assert not w.session.is_busy
        gates.open()
        await until(lambda: w.task.places.used == 0 or len(w.engine._pipes))
        await asyncio.sleep(0)  # what was answered in this turn of the loop leaves at its end
        w.check_answers(numbers)


async def test_after_the_connection_is_gone_nothing_is_written_and_nothing_kept() -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        pipe = (await w.ask("rrext_process", subcommand="open", mimeType="text/plain")).body["pipe_id"]
        await w.feed(w.tool("wait"), w.tool("wait_async"))
        await until(lambda: "wait" in gates.log)
        before = len(w.sink.taken)
        w.session.close()
        w.session.close()
        gates.open()
        await until(lambda: w.task.places.used == 0)
        assert len(w.sink.taken) == before
        assert w.engine._pipes.at(pipe) is None
        assert w.session.outbox.size == 0


async def test_bytes_that_cannot_be_resynchronised_are_answered_and_end_it() -> None:
    async with session_world(tools(Gates())) as w:
        await w.feed(b"Content-Length: x\r\n\r\n")
        assert w.ends == ["fatal"]
        assert w.answers[None][0].error.code == "parse_error"


# -- bugs of ours


async def test_a_bug_is_answered_masked_and_the_next_request_works(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    async with session_world(tools(Gates())) as w:
        start = ToolCalls.start

        def broken(calls: ToolCalls, call: Call, task: Task, operation: Tool, *, alone: bool) -> bool:
            if operation.tool == "wait":
                raise RuntimeError("a secret of ours")
            return start(calls, call, task, operation, alone=alone)

        monkeypatch.setattr(ToolCalls, "start", broken)
        error = (await w.ask("rrext_process", subcommand="tool", tool="wait")).error
        assert isinstance(error, InternalError)
        assert "secret" not in error.message
        assert "a secret of ours" in caplog.text
        assert not w.session.is_busy
        assert (await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})).body == {"result": 2}


# -- the reading thread


async def test_an_answer_of_a_thread_that_loses_reading_in_that_moment_still_leaves() -> None:
    """Between its look at who reads and its answer in the outbox, the loop takes reading back and flushes."""
    async with session_world(tools(Gates())) as w:
        session, outbox = w.session, w.session.outbox
        append = outbox.append

        class Late:
            def __getattr__(self, name: str) -> Any:
                return getattr(outbox, name)

            def append(self, pieces: Any) -> None:
                session.end_inline()  # what `overstayed` does on the loop, in this very moment
                append(pieces)

        done = threading.Event()
        session.outbox = Late()  # type: ignore[assignment]

        def read() -> None:
            session._batch_thread = threading.get_ident()
            session._answer([b"late"])
            done.set()

        threading.Thread(target=read).start()
        await until(done.is_set)
        session.outbox = outbox
        assert bytes(w.sink.taken) == b"late"
        assert outbox.size == 0


class WatchedReader(Reader):
    """Counts the looks of the watch."""

    looks = 0

    def _watch(self, turn: Any) -> None:
        self.looks += 1
        super()._watch(turn)


async def test_a_request_that_the_thread_comes_to_late_is_not_taken_for_a_call_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call before it runs on a worker. Who takes reading back from a call that stays drops its request from the rest."""
    gates, begins, go_on = Gates(), threading.Event(), threading.Event()
    async with session_world(tools(gates)) as w:
        route = w.task.routes.only("node", "add")
        while not route.quick:
            await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})
        first, slow, late = (w.tool("add", {"a": 1, "b": 2}), w.tool("wait"), w.tool("add", {"a": 2, "b": 2}))
        handle = Session.handle_inline

        def handle_late(session: Session, event: Any, alone: bool = False) -> Any:
            if event.id == late[0]:  # no other thread lets this one go on
                begins.set()
                assert go_on.wait(20)
            return handle(session, event, alone)

        monkeypatch.setattr(Session, "handle_inline", handle_late)
        descriptor, peer = os.pipe()
        reader = WatchedReader(
            w.session, w.session.connection.framer, descriptor, asyncio.get_running_loop(), Workers(), lambda: None
        )
        reader.start()
        try:
            os.write(peer, first[1])
            assert await w.result(first[0]) == 3
            os.write(peer, slow[1])
            await until(lambda: gates.log[-1] == "wait")
            os.write(peer, late[1])
            await until(begins.is_set)
            looks = reader.looks + 4
            await until(lambda: reader.looks >= looks)
            go_on.set()
            assert await w.result(late[0]) == 4
            gates.open()
            assert await w.result(slow[0]) == "waited"
            w.check_answers([first[0], slow[0], late[0]])
        finally:
            go_on.set()
            gates.open()
            reader.stop()
            os.close(peer)
            reader.when_left(lambda: os.close(descriptor))


async def test_a_call_that_is_admitted_while_the_connection_closes_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread looked before the connection was closed, and the call was not there yet when calls were cancelled."""
    gates = Gates()
    async with session_world(tools(gates)) as w:
        loop, add = asyncio.get_running_loop(), InFlight.add

        async def close() -> None:
            w.session.close()

        def late_add(inflight: InFlight, *args: Any, **options: Any) -> None:
            asyncio.run_coroutine_threadsafe(close(), loop).result(10)
            add(inflight, *args, **options)

        while not w.task.routes.only("node", "add").quick:
            await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})
        gates.log.clear()
        (event,) = w.session.connection.framer.receive_data(w.tool("add", {"a": 1, "b": 2})[1])
        monkeypatch.setattr(InFlight, "add", late_add)
        assert await asyncio.to_thread(w.session.handle_inline, event) is None
        assert gates.log == []
        assert not w.session.is_busy


async def test_quick_calls_of_a_batch_leave_in_one_write() -> None:
    async with session_world(tools(Gates())) as w:
        route = w.task.routes.only("node", "add")
        while not route.quick:
            await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})
        frames = [w.tool("add", {"a": n, "b": 0}) for n in range(10)]
        events = w.session.connection.framer.receive_data(b"".join(frame for _, frame in frames))
        before, done = w.sink.writes, threading.Event()

        def read() -> None:
            assert [w.session.handle_inline(event) for event in events] == [None] * 10
            w.session.end_inline()
            done.set()

        threading.Thread(target=read).start()
        await until(done.is_set)
        assert w.sink.writes == before + 1
        assert [await w.result(number) for number, _ in frames] == list(range(10))


@pytest.mark.parametrize("why", ["draining", "closed", "held", "full", "other"])
async def test_a_request_that_may_have_to_wait_is_left_to_the_loop(why: str) -> None:
    gates = Gates()
    async with session_world(tools(gates), outbox_bytes=1000) as w:
        route = w.task.routes.only("node", "add")
        while not route.quick:
            await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})
        given: dict[str, Any] = {"a": 1, "b": 2}
        if why == "draining":
            w.session.is_draining = True
        elif why == "closed":
            w.session.is_closed = True
        elif why in ("held", "full"):
            await fill(w)
            if why == "held":
                await w.feed(w.tool("add", given))
        number, frame = w.frame("tools") if why == "other" else w.tool("add", given)
        (event,) = w.session.connection.framer.receive_data(frame)
        assert w.session.handle_inline(event) is event
        w.session.end_inline()
        assert number not in w.answers
        gates.open()
        w.session.is_closed = False
        w.sink.drain()


@pytest.mark.parametrize("more", [{"context": {"userId": "ann"}}, {"progress": True}, {"timeout": 5}])
async def test_a_quick_call_is_done_where_it_was_read_whatever_it_asks_for_besides(more: dict[str, Any]) -> None:
    async with session_world(tools(Gates())) as w:
        route = w.task.routes.only("node", "add")
        while not route.quick:
            await w.ask("rrext_process", subcommand="tool", tool="add", input={"a": 1, "b": 1})
        number, frame = w.tool("add", {"a": 1, "b": 2}, **more)
        (event,) = w.session.connection.framer.receive_data(frame)
        assert await asyncio.to_thread(w.session.handle_inline, event) is None
        w.session.end_inline()
        assert await w.result(number) == 3


@pytest.mark.parametrize("why", ["wrong", "in flight"])
async def test_a_call_that_is_refused_is_refused_where_it_was_read(why: str) -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        number, frame = w.tool("add", {"a": 1, "b": 2}, **({"timeout": "x"} if why == "wrong" else {}))
        if why == "in flight":
            (first,) = await w.feed(w.tool("wait_async"))
            frame = frame.replace(b'"seq":%d' % number, b'"seq":%d' % first)
        (event,) = w.session.connection.framer.receive_data(frame)
        assert await asyncio.to_thread(w.session.handle_inline, event) is None
        w.session.end_inline()
        await until(lambda: w.answers[number if why == "wrong" else None])
        gates.open()


async def test_a_call_that_the_reading_thread_leaves_is_decoded_once_and_begun_by_the_loop() -> None:
    gates = Gates()
    async with session_world(tools(gates)) as w:
        number, frame = w.tool("wait_async")
        (event,) = w.session.connection.framer.receive_data(frame)
        left = await asyncio.to_thread(w.session.handle_inline, event)
        w.session.end_inline()
        assert isinstance(left, Call)
        w.session.handle_all([left])
        gates.open()
        await w.result(number)


# -- everything at once

REQUESTS = (
    "add",
    "add_async",
    "wait",
    "wait_async",
    "text",
    "chunks",
    "steps",
    "nothing",
    "ping",
    "open",
    "write",
    "close",
    "tools",
)


@settings(max_examples=40)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([*REQUESTS, "cancel", "drain", "stall", "time", "turn", "gates", "inline"]), st.integers(0, 8)
        ),
        max_size=25,
    ),
    dialect=st.sampled_from(["dap", "jsonrpc"]),
    end=st.sampled_from(["answers", "close", "fail"]),
)
@pytest.mark.promise("call:answer:exactly-one")
def test_any_play_of_requests_cancels_and_stalls_answers_each_once(steps: Any, dialect: str, end: str) -> None:
    async def run() -> None:
        gates = Gates()
        async with session_world(tools(gates), dialect=dialect, threads=2, outbox_bytes=2000, max_inflight=8) as w:
            numbers = await w.feed(w.frame("rrext_ping"))
            for what, which in steps:
                await play(w, gates, numbers, what, which)
            if end == "close":
                gates.open()
                w.session.close()
                await until(lambda: not w.task.active)
                assert all(len(found) <= 1 for found in w.answers.values())
                return
            if end == "fail":
                w.session.fail_all("shutting_down", lambda: ShuttingDown("the end"))
            gates.open()
            w.sink.drain()
            while w.session.is_busy:
                # Pipes that nobody closes are given up: others wait for their places.
                w.clock.advance(w.session.limits.pipe_idle)
                await asyncio.sleep(0.0005)
            await w.session.outbox.drained()
            w.check_answers(numbers)
            assert None not in w.answers

    asyncio.run(run())


async def play(w: SessionWorld, gates: Gates, numbers: list[Any], what: str, which: int) -> None:
    given = {
        "add": {"a": 1, "b": 2},
        "add_async": {"a": 1, "b": 2},
        "text": {"size": 400 * which},
        "chunks": {"count": which, "size": 500},
        "steps": {"count": which * 20},
    }
    if what in ("wait", "wait_async", "nothing", *given):
        more: dict[str, Any] = {"timeout": 3} if which % 3 == 0 else {}
        more |= {"progress": True, "stream": True} if which % 2 else {}
        numbers += await w.feed(w.tool(what, given.get(what), **more))
    elif what == "ping":
        numbers += await w.feed(w.frame("rrext_ping"))
    elif what == "tools":
        numbers += await w.feed(w.frame("tools"))
    elif what == "open":
        numbers += await w.feed(w.frame("rrext_process", subcommand="open", mimeType="text/plain"))
    elif what == "write":
        numbers += await w.feed(w.frame("rrext_process", subcommand="write", pipe_id=which, data="x"))
    elif what == "close":
        numbers += await w.feed(w.frame("rrext_process", subcommand="close", pipe_id=which))
    elif what == "cancel":
        numbers += await w.feed(w.frame("cancel", requestId=numbers[which % len(numbers)]))
    elif what == "drain":
        w.sink.drain(which * 500)
    elif what == "stall":
        w.sink.room = 0
    elif what == "time":
        w.clock.advance(which)
    elif what == "turn":
        await asyncio.sleep(0.0005 * which)
    elif what == "gates":
        gates.open()
    elif what == "inline":
        number, frame = w.tool("add", {"a": 1, "b": 2})
        numbers.append(number)
        (event,) = w.session.connection.framer.receive_data(frame)
        left = await asyncio.to_thread(w.session.handle_inline, event)
        w.session.end_inline()
        if left is not None:
            w.session.handle_all([left])
