"""Pipelines loaded in part: what needs a missing node is `unavailable` with the reason, the rest runs, no data is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest
from engine_world import World, world
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.interface.operations import Execute, ListTools, TaskStatus
from rrext.errors import InvalidArguments, InvalidPipeline, NodeNotFound, RrextError, ToolNotFound, Unavailable
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.basic.sources import ChatNode, WebhookNode
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


class Echo(Node):
    """Responds with every text."""

    provider = "echo"
    lanes = {"text": ()}

    def open(self, entry: Entry) -> None:
        self.entry = entry

    def write_text(self, text: str) -> None:
        self.entry.respond("echo", "text", text)


class Asked(Node):
    """Responds with every question."""

    provider = "asked"
    lanes = {"questions": ()}

    def open(self, entry: Entry) -> None:
        self.entry = entry

    def write_questions(self, question: dict[str, Any]) -> None:
        self.entry.respond("asked", "questions", question["questions"][0]["text"])


class Clock(Node):
    provider = "clock"

    @tool_function
    def hour(self) -> int:
        return 12


class Keyed(Node):
    """Needs a key, and shares the name of a tool with Clock."""

    provider = "keyed"

    class Config(msgspec.Struct):
        key: str

    @tool_function
    def minute(self) -> int:
        return 30


class Asking(Node):
    """Calls the tool of another node."""

    provider = "asking"

    @tool_function
    async def ask(self, node: str, tool: str, ctx: ToolContext) -> Any:
        return await ctx.call(node, tool, {})


class Late(Node):
    """Sends at the end of an object, whether anything came or not."""

    provider = "late"
    lanes = {"tags": ("text",)}

    def write_tags(self, tag: Any) -> None:
        pass

    def closing(self) -> None:
        self.emit("text", "late")


class LateOnLoop(Late):
    provider = "late_on_loop"

    async def closing(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        sent = self.emit("text", "late")
        assert sent is not None
        await sent


class Uninstalled(Node):
    """Lacks a package, and takes part in every object."""

    provider = "uninstalled"

    @classmethod
    def unavailable(cls) -> str | None:
        return "the package hammer is missing: pip install hammer"

    def open(self, entry: Entry) -> None:
        raise AssertionError("it cannot run here")

    def closing(self) -> None:
        raise AssertionError("it cannot run here")

    def close(self) -> None:
        raise AssertionError("it cannot run here")

    @tool_function
    def hit(self) -> str:
        return "hit"


class Unready(Node):
    """Cannot be set up."""

    provider = "unready"
    lanes = {"text": ()}
    mended: ClassVar[bool] = False

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[str]:
        if not cls.mended:
            raise OSError("no such server")
        yield "shared"

    def open(self, entry: Entry) -> None:
        self.opened = True

    def write_text(self, text: str) -> None:
        raise AssertionError("not set up")

    @tool_function
    def knock(self) -> bool:
        return self.opened


def part(node_id: str, provider: str, *inputs: str, control: str = "", **config: Any) -> dict[str, Any]:
    """A component; an input is `lane:from`."""
    edges = [dict(zip(("lane", "from"), text.split(":"), strict=True)) for text in inputs]
    bound = [{"classType": "tool", "from": control}] if control else []
    return {"id": node_id, "provider": provider, "config": config, "input": edges, "control": bound}


S = part("s", "source")
NODES = (Echo, Clock, Keyed, Asking, Late, LateOnLoop, Uninstalled, Unready)


def piped(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"components": list(parts), "project_id": "p-1", **more}


def partial(*parts: dict[str, Any], **more: Any) -> Any:
    return world(*NODES, pipeline=piped(*parts, **more), partial=True)


async def sent(w: World, text: str = "hello", *, mime_type: str = "text/plain", source: str | None = None) -> dict[str, Any]:
    pipe = await w.open(mime_type=mime_type, source=source)
    await w.write(pipe, text).answer()
    return await w.close(pipe).answer()


async def refused(w: World, *, mime_type: str = "text/plain", source: str | None = None) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        await w.open(mime_type=mime_type, source=source)
    assert caught.value.code == "unavailable"
    return caught.value


async def unavailable(w: World) -> list[dict[str, Any]]:
    return (await w.ask(TaskStatus()).answer())["unavailable"]


UNKNOWN = part("http_1", "acme", control="s")


@pytest.mark.promise("partial:rest-runs")
async def test_the_tools_of_an_unknown_node_are_unavailable_and_all_others_work() -> None:
    async with partial(S, UNKNOWN, part("clock_1", "clock", control="s")) as w:
        assert await w.tools() == ["hour"]
        assert await w.tool("hour").result() == 12
        error = await w.tool("get", node="http_1").error()
        assert (error.code, error.data["nodeId"]) == ("unavailable", "http_1")
        assert error.message == 'Node "http_1" is not available here: There is no node "acme".'
        assert await unavailable(w) == [{"nodeId": "http_1", "provider": "acme", "reason": 'There is no node "acme".'}]


async def test_the_default_is_an_error_that_names_the_way_to_run_the_rest() -> None:
    async with world(*NODES, pipeline=piped(S)) as w:
        with pytest.raises(InvalidPipeline) as caught:
            w.engine.load(piped(S, UNKNOWN))
        assert "partial: true" in (caught.value.hint or "")
        with pytest.raises(InvalidPipeline) as caught:
            w.engine.load(piped(S, UNKNOWN, part("c", "clock", "text:nobody")))
        assert caught.value.hint is None  # there is another error, which stays one
        with pytest.raises(InvalidPipeline):
            w.engine.load(piped(S, UNKNOWN, part("c", "clock", "text:nobody")), partial=True)


async def test_a_tool_that_nobody_has_may_be_one_of_an_unknown_node() -> None:
    async with partial(S, UNKNOWN, part("clock_1", "clock", control="s")) as w:
        error = await w.tool("get").error()
        assert isinstance(error, ToolNotFound)
        assert 'The tools of "http_1" are not known: There is no node "acme"' in error.message
        assert isinstance(await w.tool("hour", node="http_2").error(), NodeNotFound)
        assert isinstance(await w.tool("hou", node="clock_1").error(), ToolNotFound)


async def test_a_missing_setting_makes_its_node_unavailable() -> None:
    async with partial(S, part("k", "keyed", control="s"), part("c", "clock", control="s")) as w:
        error = await w.tool("minute").error()
        assert error.code == "unavailable"
        assert 'Node "k" is not available here' in error.message
        assert "key" in error.message
        assert await w.tools() == ["hour"]


async def test_a_variable_without_a_value_makes_its_node_unavailable() -> None:
    async with partial(S, part("k", "keyed", control="s", key="${ROCKETRIDE_ABSENT}"), part("c", "clock", control="s")) as w:
        error = await w.tool("minute", node="k").error()
        assert error.message == 'Node "k" is not available here: The variable ${ROCKETRIDE_ABSENT} has no value.'
        assert await w.tool("hour").result() == 12


async def test_a_tool_that_calls_an_unavailable_one_fails_with_the_reason() -> None:
    async with partial(S, UNKNOWN, part("k", "keyed", control="s"), part("a", "asking", control="s")) as w:
        for node, tool in ("http_1", "get"), ("k", "minute"):
            error = await w.tool("ask", {"node": node, "tool": tool}, node="a").error()
            assert error.code == "unavailable"
            assert f'Node "{node}" is not available here' in error.message


@pytest.mark.promise("partial:data:never-lost")
async def test_data_that_would_reach_a_missing_node_is_refused_at_open_and_other_lanes_work() -> None:
    parts = (
        part("late", "late", "tags:s"),
        part("ner_1", "acme_ner", "text:late"),
        part("echo", "echo", "text:s"),
        part("ocr_1", "acme_ocr", "questions:s"),
    )
    async with partial(S, *parts[:1], *parts[2:]) as w:
        assert (await sent(w))["echo"] == ["hello"]
        error = await refused(w, mime_type="lane/questions")
        assert (error.data["nodeId"], error.message) == (
            "ocr_1",
            'Node "ocr_1" is not available here: There is no node "acme_ocr".',
        )
    async with partial(S, *parts) as w:
        assert (await refused(w, mime_type="application/pdf")).data["nodeId"] == "ner_1"


@pytest.mark.promise("partial:data:never-lost")
@pytest.mark.parametrize("provider", ["late", "late_on_loop"])
async def test_what_a_node_sends_at_the_end_of_an_object_fails_it_at_a_missing_node(provider: str) -> None:
    """No data of this lane leads there, so that the object can be opened."""
    async with partial(
        S, part("late", provider, "tags:s"), part("ner_1", "acme_ner", "text:late"), part("e", "echo", "text:s")
    ) as w:
        body = await sent(w)
        assert body["error"]["code"] == "unavailable"
        assert 'Node "ner_1" is not available here: There is no node "acme_ner".' in body["error"]["message"]
        assert body["echo"] == ["hello"]
        await w.at_rest()


async def test_a_missing_package_of_a_helper_stops_no_object_and_its_tool_says_so() -> None:
    parts = (S, part("e", "echo", "text:s"), part("u", "uninstalled", control="s"))
    async with partial(*parts) as w:
        pipe = await w.open()
        error = await w.tool("hit", pipe=pipe).error()
        assert error.message == 'Node "u" is not available here: the package hammer is missing: pip install hammer'
        await w.write(pipe, "x").answer()
        assert (await w.close(pipe).answer())["echo"] == ["x"]
        assert [node["nodeId"] for node in await unavailable(w)] == ["u"]
    async with world(*NODES, pipeline=piped(*parts)) as w:
        await refused(w)  # without `partial` every node must be there


async def test_a_setup_that_fails_is_unavailable_where_it_is_needed() -> None:
    parts = (S, part("e", "echo", "text:s"), part("u", "unready", control="s"))
    async with partial(*parts) as w:
        error = await w.tool("knock").error()
        assert (error.code, error.data["cause"]) == ("unavailable", "tool_failed")
        assert "no such server" in error.message
        assert (await sent(w))["echo"] == ["hello"]
        assert "no such server" in (await unavailable(w))[0]["reason"]
    async with partial(S, part("u", "unready", "text:s")) as w:
        assert "no such server" in (await refused(w)).message


@pytest.mark.promise("variables:values:never-leave")
async def test_no_reason_has_the_value_of_a_variable() -> None:
    class Leaking(Node):
        provider = "leaking"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: dict[str, Any]) -> AsyncIterator[str]:
            raise OSError(f"cannot reach {config['url']}")
            yield ""

        @tool_function
        def reach(self) -> str:
            return self.shared

    async with world(Leaking, Keyed, pipeline=piped(S)) as w:
        parts = (S, part("l", "leaking", control="s", url="${ROCKETRIDE_URL}"), UNKNOWN)
        env = {"ROCKETRIDE_URL": "https://me:opensesame@db"}
        await w.ask(Execute(pipeline=piped(*parts), token="one", partial=True, env=env)).answer()
        assert await w.ask(ListTools(token="one")).answer() == {"tools": []}  # which sets the node up, and sends no failure
        status = await w.ask(TaskStatus(token="one")).answer()
        assert [node["nodeId"] for node in status["unavailable"]] == ["l", "http_1"]
        assert "cannot reach ${ROCKETRIDE_URL}" in status["unavailable"][0]["reason"]
        assert "opensesame" not in str(status)


async def test_a_node_that_was_mended_while_a_pipe_is_open_is_not_used_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with partial(S, part("e", "echo", "text:s"), part("u", "unready", control="s")) as w:
        pipe = await w.open()
        monkeypatch.setattr(Unready, "mended", True)
        assert (await w.tool("knock", pipe=pipe).error()).code == "unavailable"  # its `open` did not run
        await w.close(pipe).answer()
        pipe = await w.open()
        assert await w.tool("knock", pipe=pipe).result() is True
        assert await unavailable(w) == []


async def test_a_pipeline_whose_only_source_is_unknown_has_tools() -> None:
    telegram = part("t", "telegram", mode="Source")
    async with partial(telegram, part("c", "clock", control="t"), part("e", "echo", "text:t")) as w:
        assert await w.tool("hour").result() == 12
        assert (await refused(w)).data["nodeId"] == "t"
    async with partial(part("t", "telegram"), part("c", "clock", control="t")) as w:  # nothing says that it is a source
        assert await w.tool("hour").result() == 12
        assert "telegram" in (await refused(w)).message


async def test_execute_loads_in_part_and_lists_what_is_unavailable() -> None:
    async with world(*NODES, pipeline=piped(S)) as w:
        document = piped(S, UNKNOWN, part("c", "clock", control="s"))
        with pytest.raises(InvalidPipeline):
            await w.ask(Execute(pipeline=document, token="one")).answer()
        body = await w.ask(Execute(pipeline=document, token="one", partial=True)).answer()
        assert [node["nodeId"] for node in body["unavailable"]] == ["http_1"]
        again = await w.ask(Execute(pipeline=document, token="one", partial=True)).error()
        assert again.code == "TASK_ALREADY_RUNNING"
        joined = await w.ask(Execute(pipeline=document, token="one", partial=True, use_existing=True)).answer()
        assert joined == body
        listed = await w.ask(ListTools(token="one")).answer()
        assert [tool["name"] for tool in listed["tools"]] == ["hour"]
        whole = await w.ask(Execute(pipeline=piped(S), token="two")).answer()
        assert "unavailable" not in whole


SOURCES = (
    part("in_1", "source"),
    part("in_2", "source"),
    part("e", "echo", "text:in_1"),
    part("u", "unready", "text:in_2"),
    part("c", "clock", control="in_2"),
)


@pytest.mark.promise("sources:several:named")
async def test_an_object_names_its_source_if_there_are_several_and_tools_need_none() -> None:
    async with world(*NODES, pipeline=piped(*SOURCES)) as w:
        assert await w.tool("hour").result() == 12
        with pytest.raises(InvalidArguments) as caught:
            await w.open()
        assert caught.value.message == "/source: required: Pipeline has multiple source components (in_1, in_2)"
        assert (await sent(w, source="in_1"))["echo"] == ["hello"]  # the other source's nodes are not set up for it
        with pytest.raises(RrextError, match="no such server"):
            await w.open(source="in_2")
        with pytest.raises(InvalidArguments, match='but at in_1, in_2. Did you mean "in_1"'):
            await w.open(source="in1")


async def test_a_question_enters_where_questions_do_and_a_text_where_files_do() -> None:
    sources = (part("web", "webhook"), part("talk", "chat"))
    sinks = (part("e", "echo", "text:web"), part("a", "asked", "questions:talk"))
    async with world(*NODES, Asked, WebhookNode, ChatNode, pipeline=piped(*sources, *sinks)) as w:
        assert (await sent(w))["echo"] == ["hello"]
        for mime_type in ("application/rocketride-question", "lane/questions"):
            assert (await sent(w, '{"questions": [{"text": "why?"}]}', mime_type=mime_type))["asked"] == ["why?"]
        with pytest.raises(InvalidArguments, match="required: Pipeline has multiple source components"):
            next(iter(w.engine.tasks)).plan_from(None)


async def test_a_pipeline_that_names_its_source_takes_objects_there_alone() -> None:
    async with world(*NODES, pipeline=piped(*SOURCES, source="in_1")) as w:
        assert (await sent(w))["echo"] == (await sent(w, source="in_1"))["echo"]
        with pytest.raises(InvalidArguments, match='do not begin at "in_2", but at in_1'):
            await w.open(source="in_2")


# any pipeline: what is delivered in the whole one is delivered in the part, or refused


class Step(Node):
    """Notes what it gets, and sends it on."""

    provider = "step"
    lanes = {"text": ("text",)}
    seen: ClassVar[list[str]] = []

    def write_text(self, text: str) -> None:
        self.seen.append(self.node_id)
        self.emit("text", text)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], set[int]]:
    """For each node the nodes before it that send to it (−1 is the source); and which nodes are missing."""
    count = draw(st.integers(1, 6))
    edges = [sorted(draw(st.sets(st.integers(-1, node - 1), max_size=2))) for node in range(count)]
    return edges, draw(st.sets(st.integers(0, count - 1), max_size=3))


@pytest.mark.promise("partial:data:never-lost")
@given(graphs())
def test_a_pipeline_in_part_delivers_what_the_whole_delivers_or_refuses_the_object(
    graph: tuple[list[list[int]], set[int]],
) -> None:
    edges, missing = graph

    def document(gone: set[int]) -> dict[str, Any]:
        names = ["s", *(f"n{node}" for node in range(len(edges)))]
        parts = [
            part(f"n{node}", "gone" if node in gone else "step", *(f"text:{names[sender + 1]}" for sender in senders))
            for node, senders in enumerate(edges)
        ]
        return piped(S, *parts)

    async def delivered(gone: set[int]) -> list[str] | None:
        Step.seen.clear()
        async with world(Step, pipeline=document(gone), partial=True) as w:
            try:
                body = await sent(w)
            except Unavailable:
                return None
            return None if "error" in body else sorted(Step.seen)

    whole = asyncio.run(delivered(set()))
    assert whole is not None
    needed = {f"n{node}" for node in missing}.intersection(whole)
    assert asyncio.run(delivered(missing)) == (None if needed else whole)
