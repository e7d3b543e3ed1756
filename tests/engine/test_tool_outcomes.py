"""Whatever a tool returns or raises, of whatever kind it is: one answer that says so, and a runtime that goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from engine_world import World, world

from rrext.engine.interface.call import Caller
from rrext.errors import ResultTooLarge, RrextError, ToolError
from rrext.nodes.base.node import Node
from rrext.tools.context import CallInfo, ToolCallbacks, ToolContext
from rrext.tools.decorator import tool_function


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class FatalText(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


class OddText(Exception):
    def __str__(self) -> str:
        return "half a \ud83d smile"


class BrokenRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Forgetful(ToolError):
    def __init__(self, number: int) -> None:
        self.number = number


class OddHint(ToolError):
    def __init__(self) -> None:
        super().__init__("as asked")
        self.hint = BrokenText()  # type: ignore[assignment]


class Indescribable(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


RAISED: dict[str, BaseException | type[BaseException]] = {
    "value": ValueError("as asked"),
    "class": ValueError,
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "generator exit": GeneratorExit(),
    "stop": StopIteration(5),
    "stop async": StopAsyncIteration(),
    "cancelled": asyncio.CancelledError("inside"),
    "timeout": TimeoutError("its own"),
    "broken text": BrokenText(),
    "fatal text": FatalText(),
    "odd text": OddText(),
    "forgotten __init__": Forgetful(5),
    "odd hint": OddHint(),
    "broken argument": ValueError(BrokenRepr()),
    "group": ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
    "memory": MemoryError(),
    "recursion": RecursionError("deep"),
    "long": ValueError("x" * 100_000),
}
RETURNED: dict[str, Any] = {
    "nan": float("nan"),
    "deep nan": {"a": [1, {"b": float("inf")}]},
    "object": object(),
    "surrogate": "\ud800",
    "keys": {1: 2},
    "function": print,
    "coroutine": None,
}


class Ends(Node):
    provider = "ends"

    @staticmethod
    def _end(how: str) -> Any:
        if how in RAISED:
            raise RAISED[how]
        if how == "indescribable":
            raise Indescribable
        return RETURNED[how]

    @tool_function
    def sync(self, how: str) -> Any:
        return self._end(how)

    @tool_function
    def sync_ctx(self, how: str, ctx: ToolContext) -> Any:
        return self._end(how)

    @tool_function
    async def coro(self, how: str) -> Any:
        return self._end(how)

    @tool_function
    async def coro_later(self, how: str) -> Any:
        await asyncio.sleep(0)
        return self._end(how)

    @tool_function(thread="same")
    def same(self, how: str) -> Any:
        return self._end(how)

    @tool_function(thread="main")
    def main(self, how: str) -> Any:
        return self._end(how)

    @tool_function
    def fine(self) -> str:
        return "fine"

    @tool_function
    async def fine_async(self) -> str:
        return "fine"


TOOLS = ("sync", "sync_ctx", "coro", "coro_later", "same", "main")


async def goes_on(w: World) -> None:
    assert await w.tool("fine").result() == "fine"
    assert await w.tool("fine_async").result() == "fine"
    await w.at_rest()


@pytest.mark.promise("error:failure:stays-failure")
@pytest.mark.parametrize("how", RAISED)
async def test_whatever_a_tool_raises_is_its_calls_failure_and_nobody_elses(how: str) -> None:
    async with world(Ends, threads=2) as w:
        for tool in TOOLS:
            error = await w.tool(tool, how=how).error()
            assert (type(error), error.code) == (ToolError, "tool_failed"), (tool, error)
            assert f'"{tool}" on node "ends"' in error.message
            assert len(error.message) < 5000
            error.message.encode()
        await goes_on(w)


async def test_what_cannot_be_described_is_answered_too(caplog: pytest.LogCaptureFixture) -> None:
    async with world(Ends, threads=2) as w:
        for tool in TOOLS:
            error = await w.tool(tool, how="indescribable").error()
            assert error.code == "internal", tool
            assert "cannot be described" in caplog.text
            caplog.clear()
        await goes_on(w)


@pytest.mark.promise("result:never-null")
@pytest.mark.parametrize("how", RETURNED)
async def test_whatever_json_cannot_hold_is_a_failure_with_its_place(how: str) -> None:
    async with world(Ends) as w:
        for tool in TOOLS:
            asked = w.tool(tool, how=how)
            if how == "coroutine":
                assert await asked.result() is None
            else:
                error = await asked.error()
                assert error.code == "tool_failed"
                assert "path" in error.data
        await goes_on(w)


async def test_the_text_of_an_exception_is_for_those_who_may_read_it() -> None:
    async with world(Ends) as w:
        stranger = await w.tool("sync", how="value", caller=Caller("s", trusted=False)).error()
        assert "ValueError" in stranger.message
        assert "as asked" not in stranger.message
        assert (await w.tool("sync", how="value").error()).message.endswith("failed: ValueError: as asked")


class Own(RrextError):
    code = "own_kind"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolError("no", code="quota", hint="wait", data={"x": 1}), "quota"),
        (ToolError("no"), "tool_failed"),
        (Own("no"), "own_kind"),
    ],
    ids=["own code", "plain", "own class"],
)
async def test_an_authors_own_error_is_shown_as_it_is(error: RrextError, code: str) -> None:
    class Author(Node):
        provider = "author"

        @tool_function
        def sync(self) -> None:
            raise error

        @tool_function
        async def coro(self) -> None:
            raise error

    async with world(Author) as w:
        for tool in ("sync", "coro"):
            found = await w.tool(tool, caller=Caller("s", trusted=False)).error()
            assert (found.code, found.message, found.hint, found.data) == (code, "no", error.hint, error.data)


@pytest.mark.parametrize("code", ["cancelled", "internal", "shutting_down", "TASK_AMBIGUOUS"])
def test_a_code_of_ours_is_not_an_authors(code: str) -> None:
    with pytest.raises(ValueError, match="choose another name"):
        ToolError("x", code=code)


async def test_max_result_is_kept_to_the_byte_for_json_and_for_bytes() -> None:
    class Sizes(Node):
        provider = "sizes"

        @tool_function
        def text(self, size: int) -> str:
            return "x" * size

        @tool_function
        async def raw(self, size: int) -> bytes:
            return b"x" * size

    async with world(Sizes, max_result=1000) as w:
        assert len(await w.tool("text", size=998).result()) == 998
        assert isinstance(await w.tool("text", size=999).error(), ResultTooLarge)
        whole = w.tool("raw", size=1000)
        await whole.answer()
        assert whole.tail == b"x" * 1000
        assert isinstance(await w.tool("raw", size=1001).error(), ResultTooLarge)
        await w.at_rest()


# -- tools and cancellation


async def test_a_tool_that_swallows_its_cancel_ends_when_it_ends_and_is_not_heard() -> None:
    go = asyncio.Event()
    log: list[str] = []

    class Stubborn(Node):
        provider = "stubborn"

        @tool_function
        async def stay(self) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append("swallowed")
            await go.wait()
            log.append("ended")
            return "too late"

    async with world(Stubborn, threads=1) as w:
        asked = w.tool("stay")
        await asyncio.sleep(0)
        asked.cancel()
        second = w.tool("stay")
        for _ in range(5):
            await asyncio.sleep(0)
        assert log == ["swallowed"]  # the only place is held until it ends
        go.set()
        while "ended" not in log:
            await asyncio.sleep(0)
        second.cancel()
        await w.at_rest()
        assert len(asked.answers) == 1


async def test_on_cancel_and_check_work_in_both_kinds_whatever_the_listener_does() -> None:
    said: list[Any] = []
    inside = threading.Event()

    class Listens(Node):
        provider = "listens"

        @tool_function
        def sync(self, ctx: ToolContext) -> None:
            stop = threading.Event()
            ctx.on_cancel(lambda: 1 / 0)
            ctx.on_cancel(stop.set)
            ctx.on_disconnect(lambda: said.append("gone"))
            inside.set()
            assert stop.wait(10)
            said.append(ctx.token.reason)
            ctx.check()

        @tool_function
        async def coro(self, ctx: ToolContext) -> None:
            ctx.on_cancel(lambda: said.append("listener"))
            try:
                await asyncio.Event().wait()
            finally:
                said.append(ctx.token.reason)

    async with world(Listens) as w:
        asked = w.tool("sync")
        while not inside.is_set():
            await asyncio.sleep(0)
        asked.cancel("disconnected")
        await w.at_rest()
        assert said == ["gone", "disconnected"]
        said.clear()
        asked = w.tool("coro")
        await asyncio.sleep(0)
        asked.cancel("shutting_down")
        await w.at_rest()
        assert said == ["listener", "shutting_down"]


# -- who watches


class Notes(ToolCallbacks):
    def __init__(self) -> None:
        self.log: list[Any] = []

    def tool_start(self, info: CallInfo) -> None:
        self.log.append(("start", info.tool, info.user_id))

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        self.log.append(("complete", info.tool, result, type(error).__name__ if error else None))


async def test_callbacks_see_each_run_once_and_change_nothing() -> None:
    class Rude(Notes):
        def tool_start(self, info: CallInfo) -> None:
            super().tool_start(info)
            raise RuntimeError("rude")

        def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
            super().tool_complete(info, result, error)
            raise RuntimeError("rude")

    for notes in (Notes(), Rude()):
        async with world(Ends, callbacks=notes) as w:
            assert await w.tool("fine", caller=Caller("c", user_id="ann")).result() == "fine"
            assert await w.tool("fine_async").result() == "fine"
            assert "as asked" in (await w.tool("sync", how="value").error()).message
            assert notes.log == [
                ("start", "fine", "ann"),
                ("complete", "fine", "fine", None),
                ("start", "fine_async", None),
                ("complete", "fine_async", "fine", None),
                ("start", "sync", None),
                ("complete", "sync", None, "ValueError"),
            ]
            await w.at_rest()


@pytest.mark.promise("meta:passthrough")
async def test_meta_reaches_the_tool_untouched() -> None:
    class Meta(Node):
        provider = "meta"

        @tool_function
        def sync(self, ctx: ToolContext) -> Any:
            return ctx.meta

        @tool_function
        async def coro(self, ctx: ToolContext) -> Any:
            return ctx.meta

    async with world(Meta) as w:
        for meta in ({"trace": [1, None, "x"]}, {}, None):
            for tool in ("sync", "coro"):
                assert await w.tool(tool, meta=meta).result() == meta


@pytest.mark.promise("tool:context:per-call")
async def test_fifty_calls_at_once_see_each_their_own_context() -> None:
    barrier = threading.Barrier(51)

    class Own_(Node):
        provider = "own"

        @tool_function
        def sync(self, ctx: ToolContext) -> list[Any]:
            barrier.wait(20)
            return [ctx.user_id, ctx.request_id, ctx.meta]

    async with world(Own_) as w:
        asked = [w.tool("sync", caller=Caller("c", user_id=f"u{n}"), meta={"n": n}) for n in range(50)]
        await asyncio.to_thread(barrier.wait, 20)
        for number, one in enumerate(asked):
            assert await one.result() == [f"u{number}", one.call.request_id, {"n": number}]
