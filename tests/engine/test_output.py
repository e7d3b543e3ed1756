"""What nodes print and log, as events of their task for those who want them; the streams of the process stay as they are."""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable

import pytest
from engine_world import World, pipeline_of, until, world
from test_call_events import Heard

from rrext.engine.events.console import LINES_AT_ONCE, MAX_OUTPUT_LINE, MAX_WAITING_OUTPUT
from rrext.engine.events.records import Filter, Output
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Open, Tool
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

ADA = Caller("ada", "ada", trusted=False)


HELD = threading.Lock()


class Strange:
    """Has no attributes, and says so in its own way."""

    def __getattr__(self, name: str) -> None:
        raise KeyError(name)

    def _run(self) -> None:
        print("strange")


class Chatty(Node):
    """Prints and logs."""

    provider = "chatty"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        print("got", text)

    async def closing(self) -> None:
        print("closing", file=sys.stderr)

    @tool_function
    def say(self, text: str) -> None:
        sys.stdout.write(text)

    @tool_function
    async def say_on_loop(self, text: str, ctx: ToolContext) -> None:
        print(text)
        await ctx.call("chatty", "say", {"text": "inner\n"})

    @tool_function
    def log_it(self, text: str) -> None:
        logging.getLogger("my.node").warning("logged %s", text)
        logging.getLogger("rrext.sql").warning("of the operator")

    @tool_function
    def say_strangely(self) -> None:
        Strange()._run()

    @tool_function
    def log_under_a_lock(self) -> None:
        with HELD:
            logging.getLogger("my.node").warning("under a lock")
            print("printed")

    @tool_function
    def print_and_publish(self, times: int, ctx: ToolContext) -> None:
        for number in range(times):
            print(number)
            ctx.publish("number", number)

    @tool_function
    async def print_without_a_pause(self, times: int, size: int) -> None:
        for _ in range(times):
            print("x" * size)

    @tool_function
    async def add(self, a: int) -> int:
        return a + 1

    @tool_function
    def in_a_thread_of_its_own(self) -> None:
        other = threading.Thread(target=print, args=("nobody knows whose",))
        other.start()
        other.join()


def lines(heard: Heard) -> list[str]:
    return [event.text for event in heard.of(Output)]


async def test_lines_of_objects_and_tools_are_told_with_their_pipe_and_user(capsys: pytest.CaptureFixture[str]) -> None:
    async with world(Chatty) as w:
        before = sys.stdout
        heard = Heard(w, "output")
        await w.ask(Execute(pipeline={**pipeline_of(Chatty), "project_id": "p"}, token="hers"), caller=ADA).answer()
        await w.ask(Tool(tool="say_on_loop", input={"text": "from the loop"}, token="hers"), caller=ADA).result()
        assert lines(heard) == ["from the loop\n", "inner\n"]
        assert {(e.token, e.project_id, e.user_id, e.pipe_id) for e in heard.events} == {("hers", "p", "ada", None)}
        pipe = (await w.ask(Open(token="hers", mime_type="text/plain"), caller=ADA).answer())["pipe_id"]
        await w.write(pipe, "this", caller=ADA).answer()
        await w.close(pipe, caller=ADA).answer()
        assert [(e.text, e.pipe_id) for e in heard.events[2:]] == [("got this\n", pipe), ("closing\n", pipe)]
        heard.subscription.cancel()
        assert sys.stdout is before
    assert capsys.readouterr().out == "from the loop\ninner\ngot this\n"


async def test_a_line_in_pieces_is_one_event_and_a_long_one_is_cut() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output")
        await w.tool("say_on_loop", text="a").result()
        await say(w, "b\nc\n")
        await say(w, "x" * (MAX_OUTPUT_LINE + 5) + "\n")
        assert lines(heard)[:4] == ["a\n", "inner\n", "b\n", "c\n"]
        assert lines(heard)[4:] == ["x" * MAX_OUTPUT_LINE + "…\n"]


async def say(w: World, text: str) -> None:
    await w.tool("say", text=text).result()


async def test_log_records_of_nodes_are_told_and_those_of_rrext_are_not() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output")
        await w.tool("log_it", text="it").result()
        assert lines(heard) == ["WARNING my.node: logged it\n"]


async def test_output_without_a_known_object_is_told_to_nobody() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output")
        await w.tool("in_a_thread_of_its_own").result()
        print("the engine's own")
        assert lines(heard) == []


async def test_objects_of_nodes_are_not_asked_whose_output_it_is() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output")
        await w.tool("say_strangely").result()
        assert lines(heard) == ["strange\n"]


async def test_a_process_without_streams_has_output_to_tell_none_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(Chatty) as w:
        monkeypatch.setattr(sys, "stderr", None)
        heard = Heard(w, "output")
        await say(w, "once\n")
        heard.subscription.cancel()
        assert lines(heard) == ["once\n"]
        assert sys.stderr is None


async def test_a_stream_that_a_thread_may_still_print_to_is_kept_and_used_again() -> None:
    async with world(Chatty) as w:
        first = Heard(w, "output")
        streams = [weakref.ref(stream) for stream in (sys.stdout, sys.stderr)]
        first.subscription.cancel()
        assert None not in [stream() for stream in streams]  # `print` would crash the process
        again = Heard(w, "output")
        assert [sys.stdout, sys.stderr] == [stream() for stream in streams]
        await say(w, "once\n")
        again.subscription.cancel()
        assert (lines(first), lines(again)) == ([], ["once\n"])


async def test_a_subscriber_that_prints_is_not_told_of_itself() -> None:
    async with world(Chatty) as w:
        found: list[str] = []

        def echo(event: Output) -> None:
            found.append(event.text)
            print("heard", event.text)

        w.engine.subscribe(Filter(kinds=frozenset({"output"})), echo)  # type: ignore[arg-type]
        await say(w, "once\n")
        assert found == ["once\n"]


async def test_a_line_waits_for_no_subscriber_because_who_logs_may_hold_what_it_waits_for() -> None:
    async with world(Chatty) as w:
        found: list[str] = []

        def listen(event: Output) -> None:
            with HELD:
                found.append(event.text)

        w.engine.subscribe(Filter(kinds=frozenset({"output"})), listen)  # type: ignore[arg-type]
        await w.tool("log_under_a_lock").result()
        assert found == ["WARNING my.node: under a lock\n", "printed\n"]


async def test_lines_stand_before_the_events_that_follow_them() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output", "message")
        await w.tool("print_and_publish", times=20).result()
        told = [event.text if isinstance(event, Output) else event.data for event in heard.events]
        assert told == [text for n in range(20) for text in (f"{n}\n", n)]


async def test_lines_that_are_printed_too_fast_are_counted() -> None:
    async with world(Chatty) as w:
        heard = Heard(w, "output")
        count = 2 * MAX_WAITING_OUTPUT // MAX_OUTPUT_LINE
        await w.tool("print_without_a_pause", times=count, size=MAX_OUTPUT_LINE - 1).result()
        await say(w, "last\n")
        await until(lambda: lines(heard)[-1].endswith("last\n"))
        *told, last = lines(heard)
        dropped = count - len(told)
        assert 0 < dropped < count
        assert last == f"… {dropped} lines were printed too fast, and are not told\nlast\n"


async def test_lines_are_told_a_few_at_a_time_and_further_ones_when_these_have_been_told() -> None:
    async with world(Chatty) as w:
        heard, pace = Heard(w, "output"), list[Callable[[], object]]()
        w.engine.host.events.pace = pace.append
        await w.tool("print_without_a_pause", times=5 * LINES_AT_ONCE, size=1).result()
        for portions in range(1, 6):
            await until(lambda count=portions: len(heard.events) >= count * LINES_AT_ONCE)
            await w.tool("add", a=1).result()
            assert len(heard.events) == portions * LINES_AT_ONCE
            await say(w, "more\n")
            pace.pop()()
        assert lines(heard)[-1] == "more\n"


async def test_values_of_variables_are_not_in_output() -> None:
    async with world(Chatty) as w:
        w.engine.environment.redactor.learn("SECRET", "correct horse battery", always=True)
        heard = Heard(w, "output")
        await say(w, "it is correct horse battery\n")
        assert lines(heard) == ["it is ${SECRET}\n"]
