"""Pipelines to be read by an editor: ordinary ones, and any that a person could be in the middle of typing."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.tools.decorator import tool_function

VALUE = "Zm9vYmFy"
"""The value of `ROCKETRIDE_SECRET`, which nothing may show."""


class Agent(Node):
    """Invokes others.

    It thinks with `llm`, and acts with tools.
    """

    provider = "guide"
    title = "An *agent*"
    class_types = ("agent", "tool")
    lanes = {"questions": ("answers",)}
    invoke = {"llm": {"description": "thinks", "min": 1, "max": 1}, "tool": {"description": "acts"}}


class Llm(Node):
    """Thinks."""

    provider = "llm"
    class_types = ("llm",)
    lanes = {"questions": ("answers",)}
    profiles = {"small": {"model": "s-1", "limits": {"tokens": 100}}, "large": {"model": "l-1", "limits": {"tokens": 900}}}
    default_profile = "small"

    class Config:
        """Settings.

        Args:
            apikey: Opens the door.
        """

        model: Annotated[str, "Which one."]
        apikey: str = ""
        limits: dict[str, int] = {}
        warmth: Annotated[float, msgspec.Meta(ge=0, le=2)] = 1.0
        station: str | None = None


class Desk(Node):
    """Tools."""

    provider = "desk"

    @tool_function
    def write(self, text: str, copies: Annotated[int, msgspec.Meta(ge=1)] = 1) -> str:
        """Write a text.

        Args:
            text: What it says, as in <b>[a link](x)</b>.
        """
        return text * copies

    @tool_function(input_schema=lambda node: {"type": "object"})
    def paint(self, **input: Any) -> None:
        """Paint, with what only the settings know."""


class Anything(Node):
    """Takes any settings."""

    provider = "anything"
    lanes = {"text": ("text",)}


CATALOG = Catalog([Agent, Llm, Desk, Anything], installed=False)
ENVIRONMENT = Environment({"ROCKETRIDE_SECRET": VALUE, "ROCKETRIDE_ID": "llm_1", "ROCKETRIDE_NODE": "webhook"})


def look(document: Any, *, trusted: bool = True) -> Analysis:
    """The analysis of a text, or of a document that is written in lines."""
    text = document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
    return analyse(text, AnalysisSettings(CATALOG, ENVIRONMENT, trusted))


TALK: dict[str, Any] = {
    "components": [
        {"id": "answers_1", "provider": "response_answers", "config": {}, "input": [{"lane": "answers", "from": "agent_1"}]},
        {"id": "chat_1", "provider": "chat", "config": {}},
        {"id": "agent_1", "provider": "guide", "config": {}, "input": [{"lane": "questions", "from": "chat_1"}]},
        {
            "id": "llm_1",
            "provider": "llm",
            "config": {"profile": "large", "large": {"apikey": "${ROCKETRIDE_SECRET}", "limits": {"calls": 3}}},
            "control": [{"classType": "llm", "from": "agent_1"}],
        },
        {"id": "desk_1", "provider": "desk", "config": {}, "control": [{"classType": "tool", "from": "agent_1"}]},
    ],
    "source": "chat_1",
}
"""A chat with an agent that has a model and a tool."""


def at(analysis: Analysis, piece: str, nth: int = 0, inside: int = 1) -> int:
    """An offset inside of the nth piece of that text."""
    place = -1
    for _ in range(nth + 1):
        place = analysis.text.index(piece, place + 1)
    return place + inside


# any text

IDS = ["a", "b", "llm_1", "x y", 'q"', "\\", "é😀", "${ROCKETRIDE_ID}", "a/b~c", "[l](http://evil.example)", "-", "7"]
PROVIDERS = ["webhook", "chat", "guide", "llm", "desk", "anything", "response_text", "strange", "${ROCKETRIDE_NODE}"]
CONFIGS = [
    {},
    {"mode": "Source"},
    {"profile": "large", "large": {"apikey": "k-${ROCKETRIDE_SECRET}", "model": None}, "model": "beside"},
    {"profile": "none"},
    {"profile": 3},
    {"small": {"model": 4}, "limits": {"tokens": "x", "more": [1, {"deep": [None]}]}, "warmth": 9},
    {"secureParameters": {"secure": ["a"], "token": "t"}, "parameters": [], "nested": [{"apikey": "visible?"}]},
    {"tool_description": "<script>", "": {"": ""}, "url": "http://user:pass@host"},
    None,
    "text",
]
LANES = ["text", "questions", "answers", "tags", "nowhere", "${ROCKETRIDE_SECRET}"]
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "'",
    "//",
    "/*",
    "*/",
    "\n",
    "\\",
    "${",
    "}",
    "\ud800",
    "é",
    "1",
    '"id":',
    '"from"',
]


def edges(ids: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    inputs = st.lists(st.fixed_dictionaries({"lane": st.sampled_from(LANES), "from": ids}), max_size=2)
    kinds = st.sampled_from(["llm", "tool", "other"])
    controls = st.lists(st.fixed_dictionaries({"classType": kinds, "from": ids}), max_size=2)
    return st.fixed_dictionaries({}, optional={"input": inputs, "control": controls})


def documents(names: list[str] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Pipelines of some components, whose edges lead anywhere."""
    ids = st.sampled_from(IDS if names is None else names)
    component = st.builds(
        lambda own, provider, config, more: {"id": own, "provider": provider, "config": config, **more},
        ids,
        st.sampled_from(PROVIDERS),
        st.sampled_from(CONFIGS),
        edges(ids),
    )
    pipeline = st.builds(
        lambda components, more: {"components": components, **more},
        st.lists(component, max_size=5),
        st.fixed_dictionaries({}, optional={"source": ids, "project_id": st.just("${X}"), "name": st.just("n")}),
    )
    return pipeline | pipeline.map(lambda inner: {"pipeline": inner})


@st.composite
def written(draw: st.DrawFn, document: st.SearchStrategy[dict[str, Any]]) -> str:
    """A document as a text with some comments; a line may hold all of it."""
    text = json.dumps(draw(document), indent=draw(st.sampled_from([None, 1, 2])), ensure_ascii=draw(st.booleans()))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    comment = draw(st.sampled_from(["", "// rrext tool write {}\n", "/* a\n b */", "// #region x\n// y\n"]))
    return (comment + text).replace("\n", end)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A text in the middle of being typed: something was taken out, put in, or stands twice."""
    text = draw(written(documents()))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 9, 40])))
        text = text[:start] + draw(st.sampled_from(["", *PIECES, text[start:end] * 2])) + text[end:]
    return text
