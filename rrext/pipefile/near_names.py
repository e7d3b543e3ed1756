"""Names that could have been meant by a wrong one, within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rrext.errors import fold, near_matches
from rrext.limits import MAX_COMPARED_NAME, MAX_NEAR_NAMES, MIN_SIMILARITY, MIN_TYPED_LENGTHS

_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LOOKALIKES: Final = str.maketrans("lio", "110")


class NearNames:
    """Finds near matches, and stops comparing when that would cost too much.

    Only names that `resembles` accepts are near: another vendor or another number is another name.
    A comparison costs microseconds, and a file may have thousands of names and thousands of wrong ones. After `budget`
    comparisons only names that differ in case, `_` or `-` are found.
    """

    def __init__(self, budget: int = 4000) -> None:
        self._budget = budget
        self._found: dict[tuple[str, int], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """(Name, id of the known names) → those names, so that their id stays their own, and the near ones."""
        self._folded: dict[int, dict[str, str]] = {}

    def of(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """The known names most like `name`. Pass the same tuple for the same names: it is remembered by identity."""
        key = (name, id(known))
        if key not in self._found:
            affordable = len(known) <= self._budget and len(name) <= MAX_COMPARED_NAME
            self._found[key] = known, self._compare(name, known) if affordable else self._find_same(name, known)
        return self._found[key][1]

    def _compare(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        self._budget -= len(known)
        return tuple(near_matches(name, _promising(name, known)))

    def _find_same(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        index = self._folded.get(id(known))
        if index is None:
            index = self._folded[id(known)] = {fold(other): other for other in known}
        same = index.get(fold(name))
        return () if same is None or same == name else (same,)


def resembles(name: str, other: str) -> bool:
    """Whether two names are alike in the part that differs, as `llm_anthropic` and `llm_openai` are not.

    One may have words that the other lacks, but a number never stands for another number.
    """
    if _folded(name) == _folded(other):
        return True
    from difflib import SequenceMatcher

    mine, others = _differing(name, other)
    if _numbers(mine) and _numbers(others) and _numbers(mine) != _numbers(others):
        return False
    return not mine or not others or SequenceMatcher(None, "".join(others), "".join(mine)).ratio() >= MIN_SIMILARITY


def is_typing_mistake(name: str, meant: str) -> bool:
    """Whether `name` is `meant` with a slip of the fingers: letters left out, doubled or swapped, few for the length of the
    part that differs, and not in its first letter. A replaced letter counts as two slips. Or the number at its end is left out.
    """
    if _folded(name) == _folded(meant):
        return name != meant
    if max(len(name), len(meant)) > MAX_COMPARED_NAME:
        return False
    typed, intended = _differing(name, meant)
    if not typed and len(intended) == 1 and intended[0].isdecimal():
        return meant.endswith(intended[0]) and not _numbers(_words(name))
    if _numbers(typed) != _numbers(intended):
        return False
    one, other = "".join(typed), "".join(intended)
    allowed = sum(max(len(one), len(other)) >= length for length in MIN_TYPED_LENGTHS)
    begins_alike = one[:1] == other[:1] or one[:2] == other[1::-1]
    return bool(one and other) and begins_alike and _slips(one, other) <= allowed


def _folded(name: str) -> str:
    """A name without the differences that people overlook, which includes that of `l` and `1`."""
    return fold(name).translate(_LOOKALIKES)


def _differing(name: str, other: str) -> tuple[list[str], list[str]]:
    """The words of two names, without their common first and last words."""
    mine, others = _words(name), _words(other)
    for end in (0, -1):
        while mine and others and mine[end] == others[end]:
            del mine[end], others[end]
    return mine, others


def _words(name: str) -> list[str]:
    return _WORD.findall(_HUMP.sub("_", name).lower())


def _numbers(words: Iterable[str]) -> list[str]:
    return [word for word in words if word.isdecimal()]


def _slips(one: str, other: str) -> int:
    """The least number of inserted, removed and swapped letters between two words."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            slips = before[j - 1] if letter == wanted else 1 + min(before[j], row[j - 1])
            if i > 1 and j > 1 and letter == other[j - 2] and wanted == one[i - 2]:
                slips = min(slips, above[j - 2] + 1)
            row.append(slips)
    return row[-1]


def _promising(name: str, known: Iterable[str]) -> list[str]:
    """The known names that can be near matches, in their order: comparing all others would change nothing."""
    from difflib import SequenceMatcher  # a millisecond that a start without mistakes need not pay

    known = list(dict.fromkeys(known))
    folded, matcher = fold(name), SequenceMatcher(b=name)
    closest: list[float] = []
    promising: set[str] = set()
    for bound, other in _by_letters(name, known):
        if bound < MIN_SIMILARITY or (len(closest) == MAX_NEAR_NAMES and bound < closest[-1]):
            break
        matcher.set_seq1(other)
        ratio = matcher.ratio()
        if ratio < MIN_SIMILARITY or not resembles(name, other):
            continue
        if len(closest) < MAX_NEAR_NAMES or ratio >= closest[-1]:
            promising.add(other)
            closest = sorted([*closest, ratio], reverse=True)[:MAX_NEAR_NAMES]
    return [other for other in known if other in promising or fold(other) == folded]


def _by_letters(name: str, known: Iterable[str]) -> list[tuple[float, str]]:
    """Names with a bound: no two texts are more alike than their letters are. The highest bounds come first."""
    counts = [(letter, name.count(letter)) for letter in set(name)]
    found: list[tuple[float, str]] = []
    for other in known:
        shared, total = 0, len(name) + len(other)
        for letter, count in counts:
            there = other.count(letter)
            shared += there if there < count else count
        found.append((2.0 * shared / total if total else 1.0, other))
    return sorted(found, reverse=True)
