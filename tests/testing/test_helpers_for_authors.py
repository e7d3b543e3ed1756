"""`rrext.testing` as an author of nodes uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rrext import (
    InvalidArguments,
    InvalidPipeline,
    Node,
    PipeExpired,
    ToolContext,
    ToolError,
    ToolTimeout,
    UsageError,
    tool_function,
)
from rrext.engine.events.records import CallEnded, Message, TaskBegun, TaskEnded
from rrext.engine.local_engine import LocalEngine
from rrext.nodes.base.lanes import Tag
from rrext.testing import ManualClock, call_tool, open_node, open_pipeline, pair, run_node, run_pipeline
from rrext.tools.context import ToolCallbacks

opened: list[str] = []


class Weather(Node):
    """Current weather."""

    provider = "weather"
    lanes = {"text": ("text", "tags"), "questions": ("answers",)}

    class Config:
        units: str = "metric"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any):
        opened.append("setup")
        yield f"shared {config.units}"
        opened.append("closed")

    @tool_function
    def forecast(self, city: str, days: int = 3, *, ctx: ToolContext) -> dict[str, Any]:
        """Forecast for a city."""
        return {"city": city, "days": days, "units": self.config.units, "user": ctx.user_id, "shared": self.shared}

    @tool_function
    def fail(self) -> None:
        """Fail."""
        raise ToolError("no weather today", code="no_weather")

    @tool_function
    async def wait(self, *, ctx: ToolContext) -> None:
        """Wait for ever."""
        ctx.progress(1)
        await asyncio.Event().wait()

    def write_text(self, text: str) -> None:
        if text == "storm":
            raise ToolError("too wet")
        self.emit("text", text.upper())
        self.emit("tags", Tag("data", text.encode()))

    def write_questions(self, question: dict[str, Any]) -> None:
        self.emit("answers", {"answer": question["questions"][0]["text"], "expectJson": False})


PIPELINE = {
    "source": "webhook_1",
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source"}},
        {"id": "weather_1", "provider": "weather", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response", "config": {}, "input": [{"lane": "text", "from": "weather_1"}]},
    ],
}


def test_a_tool_is_called_with_its_config_context_and_shared_state() -> None:
    opened.clear()
    result = call_tool(Weather, "forecast", {"city": "Oslo"}, config={"units": "imperial"}, context={"userId": "u"})
    assert result == {"city": "Oslo", "days": 3, "units": "imperial", "user": "u", "shared": "shared imperial"}
    assert opened == ["setup", "closed"]


def test_a_tool_fails_as_it_does_for_a_caller() -> None:
    with pytest.raises(InvalidArguments, match="/input/days"):
        call_tool(Weather, "forecast", {"city": "Oslo", "days": "three"})
    with pytest.raises(ToolError, match="no weather today") as caught:
        call_tool(Weather, "fail")
    assert caught.value.code == "no_weather"
    with pytest.raises(ToolTimeout):
        call_tool(Weather, "wait", timeout=0.01)


def test_settings_that_do_not_fit_are_problems_of_the_pipeline() -> None:
    with pytest.raises(InvalidPipeline):
        call_tool(Weather, "forecast", {"city": "Oslo"}, config={"units": 5})


def test_a_node_is_fed_and_what_it_emits_is_returned() -> None:
    emitted = run_node(Weather, "text", "sun", "rain")
    assert emitted == {"text": ["SUN", "RAIN"], "tags": [Tag("data", b"sun"), Tag("data", b"rain")]}
    question = {"type": "question", "questions": [{"text": "why?"}]}
    assert run_node(Weather, "questions", question) == {"answers": [{"answer": "why?", "expectJson": False}]}


def test_a_node_that_fails_raises_its_error() -> None:
    with pytest.raises(ToolError, match="too wet"):
        run_node(Weather, "text", "sun", "storm")


def test_a_pipeline_runs_from_an_object_and_from_a_file(tmp_path: Path) -> None:
    assert run_pipeline(PIPELINE, "sun", nodes=[Weather])["text"] == ["SUN\n\n"]
    file = tmp_path / "w.pipe"
    file.write_text(
        '{"source": "webhook_1", "components": [ // a comment\n' + str(PIPELINE["components"]).replace("'", '"')[1:] + "}"
    )
    assert run_pipeline(file, b"rain", mimetype="text/plain", nodes=[Weather])["text"] == ["RAIN\n\n"]


def test_variables_are_those_that_the_test_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_UNITS", "of the machine")
    config = {"units": "${ROCKETRIDE_UNITS}"}
    told = call_tool(Weather, "forecast", {"city": "x"}, config=config, env={"ROCKETRIDE_UNITS": "given"})
    assert told["units"] == "given"
    with pytest.raises(InvalidPipeline):
        call_tool(Weather, "forecast", {"city": "x"}, config=config)


@pytest.mark.anyio
async def test_blocking_helpers_say_what_to_use_in_async_tests() -> None:
    with pytest.raises(UsageError, match="open_node"):
        call_tool(Weather, "forecast", {"city": "x"})


@pytest.mark.anyio
async def test_a_node_is_opened_for_many_calls() -> None:
    emitted: dict[str, list[Any]] = {}
    async with open_node(Weather, {"units": "x"}, emitted=emitted) as client:
        assert (await client.tool(tool="forecast", input={"city": "Oslo"}))["units"] == "x"
        await client.send("sun", mimetype="lane/text")
    assert emitted["text"] == ["SUN"]


@pytest.mark.anyio
async def test_callbacks_hear_of_calls() -> None:
    heard: list[str] = []

    class Listening(ToolCallbacks):
        def tool_start(self, info: Any) -> None:
            heard.append(info.tool)

    async with open_node(Weather, callbacks=Listening()) as client:
        await client.tool(tool="forecast", input={"city": "Oslo"})
    assert heard == ["forecast"]


@pytest.mark.anyio
async def test_events_are_heard_with_what_a_node_publishes() -> None:
    class Speaker(Node):
        provider = "speaker"

        @tool_function
        def speak(self) -> str:
            self.publish("said", {"word": "sun"})
            return "done"

    heard: list[Any] = []
    async with open_node(Speaker, on_event=heard.append) as client:
        await client.tool(tool="speak")
    assert [(e.type, e.data) for e in heard if isinstance(e, Message)] == [("said", {"word": "sun"})]
    assert [e.result for e in heard if isinstance(e, CallEnded)] == ["done"]
    assert type(heard[0]) is TaskBegun
    assert type(heard[-1]) is TaskEnded


def test_a_call_of_a_tool_shows_its_progress_and_its_chunks() -> None:
    class Kettle(Node):
        provider = "kettle"

        @tool_function
        def boil(self, *, ctx: ToolContext) -> str:
            ctx.progress(1, 2, "warm")
            ctx.progress(2, 2)
            return "hot"

        @tool_function
        def pour(self, cups: int) -> Iterator[int]:
            yield from range(cups)

    seen: list[Any] = []
    assert call_tool(Kettle, "boil", progress=lambda *report: seen.append(report)) == "hot"
    assert seen == [(1, 2, "warm"), (2, 2, None)]
    chunks: list[Any] = []
    assert call_tool(Kettle, "pour", {"cups": 2}, on_chunk=chunks.append) is None
    assert chunks == [0, 1]


@pytest.mark.anyio
async def test_an_idle_pipe_expires_when_the_test_says_so() -> None:
    clock = ManualClock()
    async with open_pipeline(PIPELINE, nodes=[Weather], clock=clock) as client:
        pipe = client.pipe(mimetype="text/plain")
        await pipe.open()
        clock.advance(100)
        with pytest.raises(PipeExpired):
            await pipe.write("sun")


@pytest.mark.anyio
async def test_a_deadline_passes_when_the_test_says_so() -> None:
    clock = ManualClock()
    async with open_node(Weather, clock=clock) as client:
        parked = asyncio.Event()
        calling = asyncio.ensure_future(client.tool(tool="wait", timeout=60, progress=lambda *_: parked.set()))
        await parked.wait()
        clock.advance(59)
        await client.ping()
        assert not calling.done()
        clock.advance(2)
        with pytest.raises(ToolTimeout, match="60"):
            await calling


@pytest.mark.anyio
async def test_two_clients_of_one_engine_have_pipes_of_their_own() -> None:
    engine = LocalEngine()
    engine.catalog.add(Weather)
    engine.load(PIPELINE)
    async with pair(engine) as one, pair(engine, over="pipes", context={"userId": "two"}) as two:
        pipe = one.pipe(mimetype="text/plain")
        await pipe.open()
        with pytest.raises(Exception, match=f"Pipe {pipe.pipe_id} is not open"):
            await two.tool(tool="forecast", input={"city": "x"}, pipe_id=pipe.pipe_id)
        assert (await two.tool(tool="forecast", input={"city": "x"}))["user"] == "two"
    await engine.aclose()


@pytest.mark.anyio
async def test_who_is_not_trusted_reads_no_exception_texts() -> None:
    class Broken(Node):
        provider = "broken"

        @tool_function
        def leak(self) -> None:
            """Fail."""
            raise ValueError("a secret")

    engine = LocalEngine()
    engine.catalog.add(Broken)
    engine.load(
        {
            "source": "t",
            "components": [
                {"id": "t", "provider": "tools", "config": {"mode": "Source"}},
                {"id": "b", "provider": "broken", "config": {}, "control": [{"classType": "tool", "from": "t"}]},
            ],
        }
    )
    async with pair(engine) as near, pair(engine, trusted=False) as far:
        with pytest.raises(ToolError, match="a secret"):
            await near.tool(tool="leak")
        with pytest.raises(ToolError) as caught:
            await far.tool(tool="leak")
        assert "secret" not in caught.value.message
    await engine.aclose()


def test_the_clock_does_what_is_due_in_its_order() -> None:
    clock = ManualClock(100)
    done: list[tuple[str, float]] = []

    def note(name: str) -> Any:
        return lambda: done.append((name, clock.now()))

    clock.call_later(5, note("b"))
    clock.call_later(2, note("a"))
    clock.call_later(2, note("a again"))
    clock.call_later(3, note("never")).cancel()
    clock.call_later(1, lambda: clock.call_later(3, note("from inside")) and None)
    clock.call_later(20, note("later"))
    clock.advance(10)
    assert done == [("a", 102), ("a again", 102), ("from inside", 104), ("b", 105)]
    assert clock.now() == 110
    assert "1 timers" in repr(clock)
