"""The text before the last keystroke: its unchanged parts are not read again."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from rrext.pipefile.text.tree import Located

if TYPE_CHECKING:
    from rrext.pipefile.text.source import SourceMap


class PreviousText:
    """The values of an earlier text, at their positions in the new text.

    Only sound objects in lists are given: how they are read depends on nothing around them.
    """

    def __init__(self, former: SourceMap, text: str) -> None:
        old = former.text
        shorter = min(len(old), len(text))
        self._root = former.root
        self._around, self._level = former.root, 1
        """The list where something was found last: most likely the next thing stands there too."""
        self._head = _same_begin(old, text, shorter)
        """Up to here both texts are the same."""
        self._tail = len(text) - _same_end(old, text, shorter - self._head)
        """From here on they are the same again, `_shift` further on than before."""
        self._shift = len(text) - len(old)

    def run(self, start: int, depth: int) -> list[Located]:
        """The objects from an offset on, with nothing wrong between them, that were read already; below `depth` brackets."""
        if start >= self._tail:
            shift, end = self._shift, None
        elif start < self._head:
            shift, end = 0, self._head
        else:
            return []
        siblings, index = self._list_of(start - shift, depth)
        stop = len(siblings) if end is None else bisect_right(siblings, end, key=_end)
        found = siblings[index : index + 1] if index < stop and siblings[index].sound else []
        while found and index + len(found) < stop and siblings[index + len(found)].sound:
            found.append(siblings[index + len(found)])
        return [located.moved(shift) for located in found] if shift else found

    def _list_of(self, start: int, depth: int) -> tuple[list[Located], int]:
        """The list in which an object began at an offset of the former text, and its index; it stood as deep, or deeper."""
        around, level = self._around, self._level
        if not around.start <= start < around.end:
            around, level = self._root, 1
        while isinstance(around.inside, list):
            siblings = around.inside
            index = bisect_right(siblings, start, key=_start) - 1
            if index < 0 or start >= siblings[index].end:
                break
            inner = siblings[index]
            if inner.start == start and inner.kind == "object":
                if around.kind != "array" or depth > level:
                    break
                self._around, self._level = around, level
                return siblings, index
            around, level = inner, level + 1
        return [], 0


def _start(located: Located) -> int:
    return located.start


def _end(located: Located) -> int:
    return located.end


def _same_begin(old: str, new: str, most: int) -> int:
    """The length of the common beginning of two texts."""
    if old[:most] == new[:most]:
        return most
    same, differs = 0, most
    while differs - same > 1:
        middle = (same + differs) // 2
        if old[same:middle] == new[same:middle]:
            same = middle
        else:
            differs = middle
    return same


def _same_end(old: str, new: str, most: int) -> int:
    """The length of the common end of two texts."""
    ends = len(old), len(new)
    if old[ends[0] - most :] == new[ends[1] - most :]:
        return most
    same, differs = 0, most
    while differs - same > 1:
        middle = (same + differs) // 2
        if old[ends[0] - middle : ends[0] - same] == new[ends[1] - middle : ends[1] - same]:
            same = middle
        else:
            differs = middle
    return same
