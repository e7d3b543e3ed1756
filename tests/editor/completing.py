"""Documents, nodes and a cursor `¦` for tests of completion."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.editor.completions.completion import Completer, Completion
from rrext.editor.completions.offer import CompletionItem, Offer, as_plain
from rrext.editor.text import Edit, applied
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import builtin_nodes
from rrext.pipefile.environment import Environment
from rrext.pipefile.text.source import parse
from rrext.tools.decorator import tool_function

CURSOR = "¦"
SECRET = "tell-nobody"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


class Rule(TypedDict):
    """A rule of a router."""

    match: str
    weight: int


class Place(TypedDict, total=False):
    """Where a store is."""

    host: str
    port: int


class RouterNode(Node):
    """Sends questions where they belong.

    A second paragraph.
    """

    provider = "router"
    title = "Router"
    aliases = ("switchboard",)
    lanes = {"questions": ("questions", "text"), "text": ("text",)}

    class Config:
        rules: Annotated[list[Rule], "In their order."]
        mode_of_rules: Annotated[Literal["first", "all"], "Which rules count."] = "first"
        place: Place | None = None


class ModelNode(Node):
    """Thinks."""

    provider = "llm_profiled"
    title = "Model"
    class_types = ("llm",)
    lanes = {"questions": ("answers",)}
    profiles = {"small": {"model": "s-1", "tokens": 100}, "large": {"model": "l-1", "tokens": 900}}
    default_profile = "small"

    class Config:
        model: Annotated[str, "Its name."]
        apikey: Annotated[str, "What opens it."]
        tokens: int = 10
        fast: bool = False


class AgentNode(Node):
    """Asks a model and calls tools."""

    provider = "guide"
    title = "Agent"
    lanes = {"questions": ("answers",)}
    invoke = {"llm": {"min": 1, "max": 1}, "tool": {}, "memory": {"max": 1}}

    class Config:
        instructions: list[str] = []
        allowed_tools: list[str] = []
        first_tool: str = ""


class FilesNode(Node):
    """Has tools."""

    provider = "files"

    @tool_function
    def read(self, path: str) -> str:
        """Read a file."""
        return path

    @tool_function
    def write(self, path: str, text: str) -> None:
        """Write a file."""


NODES = (RouterNode, ModelNode, AgentNode, FilesNode)
BROKEN = {"broken_import": "no.such.module:Node", "broken_exit": "editor.leaving:LeavingNode"}


def surroundings(*, nodes: bool = True, broken: bool = True, env: dict[str, str] | None = None) -> AnalysisSettings:
    """Built-in nodes, those above, and two that cannot be imported."""
    builtin = {**builtin_nodes()[0], **(BROKEN if broken else {})}
    values = {"ROCKETRIDE_TOKEN": SECRET, "ROCKETRIDE_ROOM": "blue"} if env is None else env
    return AnalysisSettings(
        Catalog(NODES if nodes else (), builtin=builtin, installed=False), Environment(values), trusted=True
    )


AROUND = surroundings()
COMPLETER = Completer()


@dataclass
class Typing:
    """A text, a cursor in it, and what is offered there."""

    text: str
    cursor: int
    completion: Completion
    analysis: Analysis = field(repr=False)

    @property
    def labels(self) -> list[str]:
        return [item.offer.label for item in self.completion.items]

    @property
    def offers(self) -> list[Offer]:
        return [item.offer for item in self.completion.items]

    def item(self, label: str, kind: str | None = None) -> CompletionItem:
        """The item of a label."""
        found = [item for item in self.completion.items if item.offer.label == label and kind in (None, item.offer.kind)]
        assert found, f"{label} is not among {self.labels}"
        return found[0]

    def detail(self, label: str) -> str:
        return self.item(label).offer.detail

    def accept(self, label: str | CompletionItem, kind: str | None = None) -> str:
        """The text after an item was accepted, with stops as they are at first."""
        item = self.item(label, kind) if isinstance(label, str) else label
        written = as_plain(item.template, self.completion.indent)
        return applied(self.text, (*item.before, Edit(item.start, item.end, written)))

    def ranks(self) -> dict[str, int]:
        return {item.offer.label: item.offer.rank for item in self.completion.items}


def at(text: str, around: AnalysisSettings = AROUND, trigger: str | None = None, completer: Completer = COMPLETER) -> Typing:
    """What is offered at the `¦` in a text."""
    cursor = text.index(CURSOR)
    return typed(text.replace(CURSOR, "", 1), cursor, around, trigger, completer)


def typed(
    text: str, cursor: int, around: AnalysisSettings = AROUND, trigger: str | None = None, completer: Completer = COMPLETER
) -> Typing:
    """What is offered at an offset of a text."""
    analysis = analyse(text, around)
    return Typing(text, cursor, completer.complete(analysis, cursor, trigger), analysis)


def mistakes(text: str) -> list[str]:
    """The codes of what is no JSON in a text; a key that stands twice is such a thing."""
    return [problem.code for problem in parse(text).problems]


def value_at(text: str, pointer: str) -> Any:
    where = parse(text).map
    assert where is not None
    located = where.find(pointer)
    assert located is not None, f"nothing stands at {pointer}"
    return located.value


BIG = """// A pipeline with a bit of everything
{
    "components": [
        {"id": "chat_1", "provider": "chat", "config": {}},
        {
            "id": "a", "provider": "guide", // the agent
            "config": {"allowed_tools": ["read", "write"], "instructions": ["x"]},
            "input": [{"lane": "questions", "from": "chat_1"}],
        },
        {"id": "m", "provider": "llm_profiled", "config": {"profile": "large", "large": {"apikey": "${ROCKETRIDE_TOKEN}",
         "fast": true}}, "control": [{"classType": "llm", "from": "a"}]},
        {"id": "f", "provider": "files", "config": {"tool_description": "hm"},
         "control": [{"from": "a", "classType": "tool"},]},
        {"id": "r", "provider": "router", "config": {"rules": [{"match": "a", "weight": 1}, {"match": "b", "weight": 2}],
         "place": {"host": "h", "port": 1}}, "input": [{"lane": "questions", "from": "chat_1"}]},
        {"id": "out", "provider": "response", "config": {"lanes": [{"laneId": "answers", "laneName": "x"}]},
         "input": [{"lane": "answers", "from": "a"}]}
    ],
    "source": "chat_1", /* here */ "version": 1
}
"""
TIGHT = (
    '{"pipeline":{"components":[{"id":"w","provider":"webhook","config":{}},{"id":"t","provider":"response_text",'
    '"config":{},"input":[{"lane":"text","from":"w"}]}],"source":"w"}}'
)
DOCUMENTS = [
    *(path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.pipe"))),
    BIG,
    TIGHT,
    (EXAMPLES / "echo.pipe").read_text(encoding="utf-8").replace("\n", "\r\n"),
]
"""Pipelines in which nothing is broken."""
