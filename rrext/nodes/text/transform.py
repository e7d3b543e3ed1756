"""`transform`: texts, tables, documents, questions and answers, changed by steps of the settings."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.text.gathered_text import MAX_CHARACTERS, GatheredText, require_size
from rrext.nodes.text.regular_expression import RegularExpression, Replacement
from rrext.tools.context import ToolContext

WITH_PATTERN: Final = ("replace", "keep_lines", "drop_lines")
PLACE: Final = "{text}"
BYTES_OF_A_CHARACTER: Final = 4
"""Bytes that a character takes at most in UTF-8."""


class TransformStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step. `op` says which of the other members count."""

    op: Annotated[
        Literal[
            "replace",
            "keep_lines",
            "drop_lines",
            "lower",
            "upper",
            "title",
            "strip",
            "spaces",
            "nfc",
            "nfkc",
            "cut",
            "wrap",
        ],
        "replace: hits of pattern by text; keep_lines, drop_lines: those with a hit; lower, upper, title: the case of letters; "
        "strip: without white space around it; spaces: runs of them become one; nfc, nfkc: forms of Unicode; "
        "cut: its first characters; wrap: put into text at {text}.",
    ]
    pattern: Annotated[str, "Of replace, keep_lines and drop_lines: a regular expression (RE2)."] = ""
    text: Annotated[str, "Of replace: what stands in place of a hit, with \\1 for a group. Of wrap: a text with {text}."] = ""
    regex: Annotated[bool, "false: the pattern is a plain text."] = True
    ignore_case: Annotated[bool, "Upper and lower case count as equal."] = False
    characters: Annotated[int, msgspec.Meta(ge=0), "Of cut: how many characters stay."] = 0

    def __post_init__(self) -> None:
        if self.op in WITH_PATTERN and not self.pattern:
            raise ValueError(f'the step "{self.op}" needs a pattern')
        if self.op == "cut" and not self.characters:
            raise ValueError('the step "cut" needs characters')
        if self.op == "wrap" and PLACE not in self.text:
            raise ValueError(f'the step "wrap" needs a text with {PLACE}')


class TransformNode(Node):
    """Changes what passes by the steps of its settings, one after the other; without steps it passes unchanged.

    The text of an object is changed as a whole when the object ends, so that a hit may begin in one piece and end in another.
    Of documents the content is changed, of questions the text of each, of answers those that are text. Nothing else of them
    changes. Steps with a pattern need the extra `text`.
    """

    provider = "transform"
    title = "Transform"
    class_types = ("text",)
    lanes = {
        "text": ("text",),
        "table": ("table",),
        "documents": ("documents",),
        "questions": ("questions",),
        "answers": ("answers",),
    }
    shared: Transformation

    class Config:
        steps: Annotated[tuple[TransformStep, ...], "What is done, in this order."] = ()
        maxCharacters: Annotated[int, msgspec.Meta(ge=1), "Characters of one text, before and after each step."] = (
            MAX_CHARACTERS
        )

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        try:
            Transformation(config.steps, config.maxCharacters, "")
        except Unavailable as error:
            yield "steps", error.message

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Transformation]:
        """Compile the patterns."""
        yield await ctx.in_thread(Transformation, config.steps, config.maxCharacters, ctx.node_id)

    def open(self, entry: Entry) -> None:
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)

    def write_text(self, text: str) -> None:
        if self.config.steps:
            self._gathered.add(text)
        else:
            self.emit("text", text)

    def write_table(self, table: str, ctx: ToolContext) -> None:
        self.emit("table", self.shared.of(table, ctx))

    def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        self.emit("documents", [self._member(document, "page_content", ctx) for document in documents])

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        asked = [self._member(item, "text", ctx) for item in question.get("questions") or ()]
        self.emit("questions", {**question, "questions": asked})

    def write_answers(self, answer: dict[str, Any], ctx: ToolContext) -> None:
        self.emit("answers", self._member(answer, "answer", ctx))

    def closing(self, ctx: ToolContext) -> None:
        if self._gathered.pieces:
            self.emit("text", self.shared.of(self._gathered.whole(), ctx))

    def _member(self, item: Any, key: str, ctx: ToolContext) -> Any:
        text = item.get(key) if isinstance(item, Mapping) else None
        return {**item, key: self.shared.of(text, ctx)} if isinstance(text, str) else item


Change = Callable[[str, Callable[[], object]], str]
"""What a step does to a text; it may ask whether the call is still wanted."""


class Transformation:
    """The steps of a node, ready for use from any thread."""

    def __init__(self, steps: Sequence[TransformStep], limit: int, node_id: str) -> None:
        """Compile the patterns. Raises `Unavailable` for what is no pattern, and without the package."""
        self._limit = limit
        self._node_id = node_id
        if any(step.op in WITH_PATTERN for step in steps):
            missing = missing_packages("text", "re2")
            if missing is not None:
                raise Unavailable(f"Patterns of transform need a package: {missing}")
        self._changes: list[Change] = []
        for number, step in enumerate(steps):
            try:
                self._changes.append(self._change(step))
            except ValueError as error:
                whose = f' of node "{node_id}"' if node_id else ""
                raise Unavailable(f"Step {number}{whose}: {error}", hint='See "steps" of its settings.') from None

    def of(self, text: str, ctx: ToolContext) -> str:
        """The text after all steps. Raises `ToolError` (`text_too_large`, `pattern_too_expensive`)."""
        for change in self._changes:
            ctx.check()
            require_size(len(text), self._limit, self._node_id)
            text = change(text, ctx.check)
        require_size(len(text), self._limit, self._node_id)
        return text

    def _change(self, step: TransformStep) -> Change:
        match step.op:
            case "replace":
                return self._replacing(step)
            case "keep_lines" | "drop_lines":
                return _choosing(step)
            case "cut":
                return lambda text, check: text[: step.characters]
            case "wrap":
                return self._wrapping(step)
            case _:
                plain = PLAIN[step.op]
                return lambda text, check: plain(text)

    def _replacing(self, step: TransformStep) -> Change:
        pattern = _pattern(step)
        replacement = Replacement(step.text, pattern.groups if step.regex else -1)
        limit = BYTES_OF_A_CHARACTER * self._limit

        def change(text: str, check: Callable[[], object]) -> str:
            data = text.encode("utf-8", "replace")
            return pattern.replaced(data, replacement, limit, check).decode()

        return change

    def _wrapping(self, step: TransformStep) -> Change:
        count = step.text.count(PLACE)

        def change(text: str, check: Callable[[], object]) -> str:
            require_size(len(step.text) + count * len(text), self._limit, self._node_id)
            return step.text.replace(PLACE, text)

        return change


def _pattern(step: TransformStep) -> RegularExpression:
    return RegularExpression(step.pattern, is_regex=step.regex, ignores_case=step.ignore_case)


def _choosing(step: TransformStep) -> Change:
    pattern, keeps = _pattern(step), step.op == "keep_lines"

    def change(text: str, check: Callable[[], object]) -> str:
        return pattern.lines(text.encode("utf-8", "replace"), check, keeps=keeps).decode()

    return change


def _spaces(text: str) -> str:
    """Lines without spaces around them and with single ones in them, and no more than one empty line between two others."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return "\n".join(line for number, line in enumerate(lines) if line or number == 0 or lines[number - 1])


PLAIN: Final[Mapping[str, Callable[[str], str]]] = {
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "strip": str.strip,
    "spaces": _spaces,
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
}
"""Steps without settings."""
