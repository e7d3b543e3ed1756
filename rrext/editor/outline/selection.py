"""Selection ranges, growing step by step: a variable, a string, a member with its key, the content of brackets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from rrext.editor.analysis import Analysis
from rrext.editor.style import begin_of
from rrext.pipefile.environment import PLACEHOLDER
from rrext.pipefile.text.problems import Span
from rrext.pipefile.text.tree import Located

_VARIABLE: Final = re.compile(PLACEHOLDER)


def selections_at(analysis: Analysis, offset: int) -> list[Span]:
    """The spans around an offset, smallest first; each lies inside the next."""
    found: list[Span] = []
    for span in _candidates(analysis, offset):
        inside = span[0] <= offset <= span[1]
        grows = not found or (span != found[-1] and span[0] <= found[-1][0] and found[-1][1] <= span[1])
        if inside and grows and span[0] < span[1]:
            found.append(span)
    return found or [(offset, offset)]


def _candidates(analysis: Analysis, offset: int) -> Iterator[Span]:
    """Candidate spans from the inside out, also some without the offset."""
    text = analysis.text
    for located in reversed(_way_to(analysis.map.root, offset)):
        key = located.key_span
        if key is not None and key[0] <= offset <= key[1]:
            yield from _string(text, key)
        elif located.start <= offset <= located.end:
            if located.kind == "string":
                yield from (match.span() for match in _VARIABLE.finditer(text, located.start, located.end))
                yield from _string(text, (located.start, located.end))
            elif located.kind in ("object", "array"):
                yield from _between(text, located)
            yield located.start, located.end
        if key is not None:
            yield key[0], max(key[1], located.end)
    yield 0, len(text)


def _way_to(root: Located, offset: int) -> list[Located]:
    """The values around an offset, from the outside in."""
    way = [root]
    while True:
        children = way[-1].children
        index = bisect_right(children, offset, key=begin_of) - 1
        if index < 0 or offset > children[index].end:
            return way
        way.append(children[index])


def _string(text: str, span: Span) -> Iterator[Span]:
    start, end = span
    if end - start > 1 and text[start] in "\"'" and text[end - 1] == text[start]:
        yield start + 1, end - 1
    yield span


def _between(text: str, located: Located) -> Iterator[Span]:
    """The content of brackets: without the surrounding space, then with it."""
    start, end = located.start + 1, located.end - 1
    if end > start and text[located.start] in "{[" and text[end] in "}]":
        inside = text[start:end]
        first = start + len(inside) - len(inside.lstrip())
        last = start + len(inside.rstrip())
        if first < last:
            yield first, last
        yield start, end
