"""A page for a person to read, as Markdown or as plain text, and the meanings of the keys and lanes of pipeline files.

All content of a page is text and never markup: a file from a stranger can add no link, image, HTML or heading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

import msgspec

from rrext.columns import printable
from rrext.nodes.base.lanes import TABLE
from rrext.references import TEXTS

MAX_JSON_WIDTH: Final = 100
"""Columns of a list or an object that stands in one line."""

MAX_CODE: Final = 200
"""Characters of a name or value inside a sentence."""

MAX_BLOCK: Final = 4000
"""Characters of a code block; a hover should stay short."""

MAX_PROSE: Final = 4000
"""Characters of a text of a page."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MARKS: Final = re.compile(r"[\\`*\[\]<>|~#]|(?<![^\W_])_|_(?![^\W_])|&(?=[#A-Za-z])")
_LINE_START: Final = re.compile(r"[-+=]|\d+(?=[.)])")
_LINK_LIKE: Final = re.compile(r"(\S*(?://|@|www\.)\S*)", re.IGNORECASE)
"""Text that editors turn into a link although it is no markup."""

_SPAN: Final = re.compile(r"``([^`]+)``|`([^`]+)`")
_BULLET: Final = re.compile(r"[-*•]\s+")


class Code(msgspec.Struct, frozen=True):
    """A name or a value inside a sentence."""

    text: str


Inline: TypeAlias = str | Code
Item: TypeAlias = tuple[int, Sequence[Inline]]
"""A list item: its depth and its content."""


class _Title(msgspec.Struct, frozen=True):
    content: tuple[Inline, ...]


class _Paragraph(msgspec.Struct, frozen=True):
    content: tuple[Inline, ...]


class _Items(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]


class _Block(msgspec.Struct, frozen=True):
    text: str
    language: str


_PageElement: TypeAlias = _Title | _Paragraph | _Items | _Block


class Page:
    """Titles, sentences, lists and code blocks, in order."""

    def __init__(self) -> None:
        self._elements: list[_PageElement] = []

    def title(self, *content: Inline) -> Page:
        """Add a title."""
        self._elements.append(_Title(content))
        return self

    def text(self, *content: Inline) -> Page:
        """Add a paragraph."""
        self._elements.append(_Paragraph(content))
        return self

    def items(self, items: Iterable[Item]) -> Page:
        """Add a list, unless it is empty."""
        kept = tuple(items)
        if kept:
            self._elements.append(_Items(kept))
        return self

    def block(self, text: str, language: str = "") -> Page:
        """Add a code block; a long one is cut, with a note."""
        if len(text) > MAX_BLOCK:
            text = f"{text[:MAX_BLOCK]}\n… and {len(text) - MAX_BLOCK} more characters"
        self._elements.append(_Block(text, language))
        return self

    def prose(self, text: str) -> Page:
        """Add hand-written text, such as a docstring: paragraphs, lists, `names` in backticks."""
        if len(text) > MAX_PROSE:
            text = text[:MAX_PROSE] + "…"
        for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n").strip("\n")):
            lines = paragraph.splitlines()
            if lines and all(line.startswith(("    ", ">>>", "...")) for line in lines):
                self.block("\n".join(lines))
            else:
                self._paragraph([line.strip() for line in lines if line.strip()])
        return self

    def _paragraph(self, lines: list[str]) -> None:
        plain: list[str] = []
        bullets: list[str] = []
        for line in lines:
            bullet = _BULLET.match(line)
            if bullet is not None:
                bullets.append(line[bullet.end() :])
            elif bullets:
                bullets[-1] += f" {line}"
            else:
                plain.append(line)
        if plain:
            self.text(*inlines_of(" ".join(plain)))
        self.items((0, inlines_of(bullet)) for bullet in bullets)

    def markdown(self) -> str:
        """The page as Markdown (CommonMark and GitHub's dialect)."""
        return "\n\n".join(_as_markdown(element) for element in self._elements)

    def plain(self) -> str:
        """The page without markup."""
        return "\n\n".join(_as_plain(element) for element in self._elements)


def inlines_of(text: str) -> list[Inline]:
    """Text with names and values in backticks, as in a docstring."""
    found: list[Inline] = []
    done = 0
    for match in _SPAN.finditer(text):
        found += [text[done : match.start()], Code(match[1] or match[2])]
        done = match.end()
    found.append(text[done:])
    return [piece for piece in found if piece != ""]


def json_text(value: Any, margin: str = "") -> str:
    """A value as JSON, indented by two spaces per level. A value that JSON cannot hold is shown as text."""
    flat = json.dumps(value, ensure_ascii=False, default=str)
    if len(margin) + len(flat) <= MAX_JSON_WIDTH or not value:
        return flat
    inner = margin + "  "
    if isinstance(value, Mapping):
        lines = [f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {json_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(value, list | tuple):
        return "[\n" + ",\n".join(inner + json_text(item, inner) for item in value) + f"\n{margin}]"
    return flat


def _as_markdown(element: _PageElement) -> str:
    if isinstance(element, _Title):
        return f"### {_sentence(element.content)}"
    if isinstance(element, _Paragraph):
        return _sentence(element.content)
    if isinstance(element, _Items):
        return "\n".join(f"{'  ' * level}- {_sentence(content)}" for level, content in element.items)
    text = _visible(element.text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{element.language}\n{text}\n{fence}"


def _as_plain(element: _PageElement) -> str:
    if isinstance(element, _Block):
        return _visible(element.text)
    if isinstance(element, _Items):
        return "\n".join(f"{'  ' * level}- {_words(content)}" for level, content in element.items)
    return _words(element.content)


def _words(content: Iterable[Inline]) -> str:
    return "".join(readable(piece.text, MAX_CODE) if isinstance(piece, Code) else _one_line(piece) for piece in content).strip()


def _sentence(content: Iterable[Inline]) -> str:
    """One line of Markdown."""
    pieces: list[str] = []
    for is_code, run in groupby(content, lambda piece: isinstance(piece, Code)):
        if is_code:
            for piece in run:
                _join(pieces, _code(piece.text))  # pyright: ignore[reportAttributeAccessIssue]
            continue
        for index, bit in enumerate(_LINK_LIKE.split(_one_line("".join(map(str, run))))):
            _join(pieces, _code(bit) if index % 2 else _escaped(bit))
    line = "".join(pieces).strip()
    return _LINE_START.sub(_marked, line, count=1) if _LINE_START.match(line) else line


def _marked(match: re.Match[str]) -> str:
    """The start of a line escaped, so that it begins no list or rule."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def _join(pieces: list[str], piece: str) -> None:
    if pieces and piece.startswith("`") and pieces[-1].endswith("`"):
        pieces.append(" ")  # adjacent runs of backticks would merge
    if piece:
        pieces.append(piece)


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    text = readable(text, MAX_CODE) or " "
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def readable(text: str, most: int) -> str:
    """A text on one line of at most `most` characters, with an escape for each control and invisible character."""
    text = printable(text[: 2 * most + 2].replace("\r\n", " ").replace("\n", " "))
    return text if len(text) <= most else text[: most - 1] + "…"


def _one_line(text: str) -> str:
    return _visible(text).replace("\n", " ").replace("\t", " ")


def _visible(text: str) -> str:
    """The text with a placeholder for each control character."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


ROOT_TEXTS: Final[Mapping[str, str]] = {
    "components": "The nodes of the pipeline. Their order is the order in which data reaches those that listen to one node.",
    "source": "The id of the component with which the pipeline begins. It may be left out if there is only one source.",
    "project_id": "What the pipeline is called by machines, usually a UUID. It is literal: variables are not replaced in it.",
    "version": "The version of this format: 1.",
    "name": "What the pipeline is called by people. Variables are not replaced in it.",
    "description": "What the pipeline is for. Variables are not replaced in it.",
    "resources": "What the pipeline asks of its machine: `{cpu, gpu, memory, node}`. On one machine `memory` alone counts.",
}
"""Keys of a pipeline with a meaning. All others belong to editors."""

COMPONENT_TEXTS: Final[Mapping[str, str]] = {
    "id": "What other components call this one. Each component has an id of its own.",
    "provider": "Which node this is.",
    "config": "The settings of the node; `{}` if there are none. With `profile`, they stand in the section of that profile.",
    "input": "The data edges that end here: a list of `{lane, from}`. An edge stands on what receives.",
    "control": "The control edges that end here: a list of `{classType, from}`. An edge stands on what is invoked.",
    "name": "What the component is called by people.",
    "description": "What the component is for.",
    "ui": "Where editors draw the component. It means nothing to the pipeline.",
}

EDGE_TEXTS: Final[Mapping[str, str]] = {
    "lane": "What travels on the edge. The sending node offers the lane, and the receiving node accepts it.",
    "classType": "As what this component is invoked, for example tool, llm or memory.",
    "from": "The id of the component that the edge comes from: the one that sends, or the one that invokes.",
    "tools": "References to tools of this component, which the invoking node offers under other names, or wrapped.",
}

REFERENCE_TEXTS: Final[Mapping[str, str]] = {
    **TEXTS,
    "tools": "References to the tools that are offered: names of tools of this pipeline, or objects that say where a tool is.",
    "space": "Whether the caller must have a space: `required`.",
    "users": "The ids of the users who may see and call the tool.",
    "when": "Whether the tool is there at all: true or false, or a variable.",
}
"""Keys of a reference to a tool, and of its `available`."""

REFERENCE_FORMS: Final[Mapping[str, str]] = {
    "node": "a tool of a component",
    "pipeline": "a running pipeline as a tool",
    "mcp": "a tool of an MCP server",
    "http": "a tool of an HTTP API",
    "composio": "an action of an integration of Composio",
    "gateway": "an action of an integration, by a gateway",
}
"""Types of references."""

PERMISSION_TEXTS: Final[Mapping[str, str]] = {
    "allow": "everybody may call it who sees it",
    "ask": "each call needs a permission",
    "deny": "nobody sees it",
}
"""Permissions of references."""

CONFIG_TEXTS: Final[Mapping[str, str]] = {
    "mode": '"Source" makes the component the one that the pipeline begins with.',
    "type": "The provider's name again; editors write it.",
    "profile": "Which of the node's profiles gives the defaults. Settings of one's own then stand in the section of that name.",
    "parameters": "The values of a form in an editor.",
    "secureParameters": "Encrypted values: `secure` lists the names, `token` decrypts them. They are never shown.",
    "hideForm": "For editors: show no form.",
    "name": "What the component is called by people.",
    "description": "What the component is for.",
    "tool_description": "Text that stands before the description of each tool of this component.",
}
"""Keys that every config may have."""

LANE_TEXTS: Final[Mapping[str, str]] = {lane.name: lane.text for lane in TABLE}
"""The payload of each lane."""
