"""Call lines: commands of rrext's command line in comments, `// rrext tool read_file {"path": "a.txt"}`.

This module parses them; `rrext.editor.checked_calls` resolves them in their pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from rrext.editor.calls.comments import Comment
from rrext.errors import near_matches
from rrext.limits import Limits
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Problems, Span, shown
from rrext.pipefile.text.source import SourceMap, parse

CallKind: TypeAlias = Literal["tool", "send", "chat"]

COMMAND: Final = re.compile(r"rrext[ \t]+(tool|send|chat)(?!\S)")
"""The beginning of a call line."""
OPTIONS: Final = {"tool": ("--node",), "send": ("--mime",), "chat": ()}

_WORD: Final = re.compile(r"[ \t]*+(\"[^\"]*+\"|'[^']*+'|[^\s{]\S*+)")
_NAME: Final = re.compile(r"[ \t]*+([^\s{]++)")


class CallLine(msgspec.Struct, frozen=True, kw_only=True):
    """A call in a comment. `node` is the id of the called component: the written one, or after the check that of the component
    around the call; empty for the first one that has the tool. `node_span` is that of the written id, `(0, 0)` without one.

    `sound` is false if a problem was reported for the call. `input` is None if the line has none; `place` gives the span of a
    value of it in the document, by JSON pointer (or of its key).
    """

    kind: CallKind
    span: Span
    sound: bool = True
    tool: str = ""
    tool_span: Span = (0, 0)
    node: str = ""
    node_span: Span = (0, 0)
    input: dict[str, Any] | None = None
    place: Callable[[str, bool], Span] | None = None
    paths: tuple[str, ...] = ()
    mime_type: str | None = None
    question: str = ""


def read_call(comment: Comment, problems: Problems, limits: Limits) -> CallLine:
    """The call of a comment that begins with `COMMAND`. Problems are added to `problems`."""
    return _Reader(comment, problems, limits).read()


class _Reader:
    """Parses one comment from left to right."""

    def __init__(self, comment: Comment, problems: Problems, limits: Limits) -> None:
        command = COMMAND.match(comment.text)
        assert command is not None  # the comment was found by it
        self._comment = comment
        self._problems = problems
        self._limits = limits
        self._kind = cast("CallKind", command[1])
        self._at = command.end()
        self._errors = 0

    def read(self) -> CallLine:
        if self._kind == "tool":
            return self._tool()
        return self._send() if self._kind == "send" else self._chat()

    def _tool(self) -> CallLine:
        name, name_span, node, node_span = "", self._comment.place((0, 0)), "", (0, 0)
        while (word := self._next(_NAME)) is not None:
            text, span = word
            if text.startswith("--"):
                node, node_span = self._option(text, span)
            else:
                name, name_span = text, span
                break
        while (option := self._next_option()) is not None:
            node, node_span = self._option(*option)
        if not name:
            self._report("The name of a tool is missing.", self._command_span())
        value, where = self._input()
        return CallLine(
            kind="tool",
            span=self._comment.span,
            sound=not self._errors,
            tool=name,
            tool_span=name_span,
            node=node,
            node_span=node_span,
            input=value,
            place=where,
        )

    def _send(self) -> CallLine:
        paths: list[str] = []
        mime_type: str | None = None
        while (word := self._next(_WORD)) is not None:
            text, span = word
            if text.startswith("--"):
                mime_type = self._option(text, span)[0] or mime_type
            else:
                paths.append(_unquoted(text))
        if not paths:
            self._report("A file is missing: `rrext send notes.txt`.", self._command_span())
        return CallLine(kind="send", span=self._comment.span, sound=not self._errors, paths=tuple(paths), mime_type=mime_type)

    def _chat(self) -> CallLine:
        question = self._comment.text[self._at :].strip()
        if not question:
            self._report("A question is missing: `rrext chat What is open?`.", self._command_span())
        return CallLine(kind="chat", span=self._comment.span, sound=not self._errors, question=question)

    def _next(self, pattern: re.Pattern[str]) -> tuple[str, Span] | None:
        found = pattern.match(self._comment.lines[0] if self._kind == "tool" else self._comment.text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[1], self._comment.place(found.span(1))

    def _next_option(self) -> tuple[str, Span] | None:
        before = self._at
        word = self._next(_NAME)
        if word is not None and word[0].startswith("--"):
            return word
        self._at = before
        return None

    def _option(self, name: str, span: Span) -> tuple[str, Span]:
        """The value of an option; each kind of call has at most one option."""
        known = OPTIONS[self._kind]
        if name not in known:
            near = near_matches(name[:100], known)
            has = f"there is {known[0]}" if known else "there are none"
            self._report(f"A call line has no option {shown(name)}: {has}.", span, near)
            return "", (0, 0)
        value = self._next(_WORD)
        if value is None or value[0].startswith("--"):
            self._report(f"{name} needs a value.", span)
            return "", (0, 0)
        return _unquoted(value[0]), value[1]

    def _input(self) -> tuple[dict[str, Any] | None, Callable[[str, bool], Span] | None]:
        """The JSON input. An object that is open at the end of a line continues in the next comment."""
        comment, start = self._comment, self._at
        depth = _depth(comment.lines[-1][start:], 0)
        while depth and comment.go_on(COMMAND):
            depth = _depth(comment.lines[-1], depth)
        text = comment.text[start:]
        if not text.strip():
            return None, None
        source = parse(text, limits=self._limits)
        where = source.map
        assert where is not None  # parse always makes it

        def place(path: str, key: bool) -> Span:
            begin, end = where.span(path, key=key)
            return comment.place((start + begin, start + end))

        for problem in source.problems:
            begin, end = where.span_of(problem)
            self._report(problem.message, comment.place((start + begin, start + end)))
        if not source.problems and not isinstance(source.value, dict):
            self._report('The input of a tool is an object, as {"path": "notes.txt"}.', _whole(where, comment, start))
        return (source.value if isinstance(source.value, dict) else None), place

    def _command_span(self) -> Span:
        start, end = self._comment.span
        return start, min(end, start + len(self._comment.lines[0]))

    def _report(self, message: str, span: Span, near: list[str] | None = None) -> None:
        self._errors += 1
        self._problems.add("invalid_call", message, span=span, near=near or ())


def _whole(where: SourceMap, comment: Comment, start: int) -> Span:
    begin, end = where.span("")
    return comment.place((start + begin, start + end))


def _depth(line: str, depth: int) -> int:
    """The number of open brackets after a line of JSON; 0 as soon as all are closed, or if none was open."""
    at = 0
    while True:
        found = tokens.TOKEN.match(line, at)
        assert found is not None  # one alternative fits everywhere
        kind = found.lastindex or tokens.END
        if kind in (tokens.END, tokens.COMMENT):
            return depth
        at = found.end()
        if kind == tokens.PUNCTUATION:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[kind], 0)
        if depth <= 0:
            return 0


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
