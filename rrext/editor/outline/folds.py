"""Folds: brackets and comments over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.pages.page import readable
from rrext.editor.written_pipeline import WrittenPipeline
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.tree import Located

FoldKind: TypeAlias = Literal["brackets", "comment"]

_QUOTED_OR_COMMENT: Final = re.compile(
    r'"(?:[^"\\\r\n]++|\\[^\r\n])*+"?'
    r"|'(?:[^'\\\r\n]++|\\[^\r\n])*+'?"
    rf"|({tokens.COMMENTS.pattern}|/\*(?s:.*+))"  # an unterminated one extends to the end
)
_BETWEEN: Final = re.compile(r"[ \t]*(?:\r\n|\r|\n)[ \t]*")


class Fold(msgspec.Struct, frozen=True):
    """A span that can be hidden. For brackets, `span` is the text between them.

    `lines` are the first and last line, from 0, for editors that hide whole lines: the first line stays, and so does a closing
    bracket. `label` describes the hidden text; it may be empty.
    """

    kind: FoldKind
    span: Span
    lines: tuple[int, int]
    label: str = ""


def folds_of(analysis: Analysis) -> list[Fold]:
    """All folds, in the order of the text, outer ones first."""
    found = [*_brackets(analysis), *_comments(analysis)]
    return sorted(found, key=lambda fold: (fold.span[0], -fold.span[1]))


def by_lines(folds: Iterable[Fold]) -> list[Fold]:
    """The folds that hide whole lines, one for each first line, because editors show one mark per line.

    The innermost fold wins, because folding `"components": [{` should hide the component; brackets win over comments.
    """
    found: dict[int, Fold] = {}
    for fold in folds:
        first, last = fold.lines
        other = found.get(first)
        if first < last and (other is None or other.kind == "comment" or fold.kind != "comment"):
            found[first] = fold
    return list(found.values())


def limited(folds: list[Fold], most: int) -> list[Fold]:
    """At most `most` folds: the largest, in the order of the text."""
    if len(folds) <= most:
        return folds
    kept = sorted(range(len(folds)), key=lambda index: folds[index].span[0] - folds[index].span[1])[:most]
    return [folds[index] for index in sorted(kept)]


def comments_of(text: str) -> Iterator[Span]:
    """The spans of all comments, also in broken text."""
    for found in _QUOTED_OR_COMMENT.finditer(text):
        if found.lastindex:
            yield found.span()


# brackets


def _brackets(analysis: Analysis) -> Iterator[Fold]:
    text = analysis.text
    labels = {
        component.located.start: _label(component.id, component.provider) for component in WrittenPipeline(analysis).components
    }
    pending = [analysis.map.root]
    while pending:
        located = pending.pop()
        if located.kind not in ("object", "array"):
            continue
        pending.extend(located.children)
        fold = _bracket(analysis, located, text)
        if fold is not None:
            label = labels.get(located.start, "") if located.kind == "object" else ""
            yield msgspec.structs.replace(fold, label=label) if label else fold


def _bracket(analysis: Analysis, located: Located, text: str) -> Fold | None:
    start, end = located.start, located.end
    if text[start : start + 1] not in ("{", "["):  # a missing bracket cannot be folded
        return None
    closed = end > start + 1 and text[end - 1] in "}]"
    first, last = _line(analysis, start), _line(analysis, end)
    if first == last:
        return None
    stays = closed and not _before(analysis, end - 1).strip(" \t}]")  # the line only closes brackets
    return Fold("brackets", (start + 1, end - closed), (first, last - stays))


def _label(node_id: str, provider: str) -> str:
    return readable(" ".join(filter(None, (node_id, provider))), 60)


# comments


def _comments(analysis: Analysis) -> Iterator[Fold]:
    text = analysis.text
    for start, end in _joined(analysis, comments_of(text)):
        first, last = _line(analysis, start), _line(analysis, end)
        if first < last:
            yield Fold("comment", (start, end), (first, last), readable(text[start:end].splitlines()[0], 60))


def _joined(analysis: Analysis, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of comments; adjacent line comments form one."""
    text = analysis.text
    run: Span | None = None
    for start, end in spans:
        if run is not None and _BETWEEN.fullmatch(text, run[1], start) and not _before(analysis, run[0]).strip():
            run = (run[0], end)
        else:
            if run is not None:
                yield run
            run = (start, end)
    if run is not None:
        yield run


def _before(analysis: Analysis, offset: int) -> str:
    """The text before an offset in its line."""
    _, column = analysis.map.position(offset)
    return analysis.text[offset - column + 1 : offset]


def _line(analysis: Analysis, offset: int) -> int:
    return analysis.map.position(offset)[0] - 1
