"""Names that could have been meant by a wrong one, within a budget."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rrext.errors import fold, near_matches
from rrext.limits import MAX_NEAR_NAMES, MIN_SIMILARITY


class NearNameQuery(msgspec.Struct, frozen=True):
    """A question for near matches, with its answer. `compared` says that the names were compared letter by letter."""

    name: str
    known: tuple[str, ...]
    found: tuple[str, ...]
    compared: bool


class NearNames:
    """Finds near matches, and stops comparing when that would cost too much.

    A comparison costs microseconds, and a file may have thousands of names and thousands of wrong ones. After `budget`
    comparisons only names that differ in case, `_` or `-` are found. What `former` compared is not compared again, but costs
    as much of the budget: the answers do not depend on it.
    """

    def __init__(self, budget: int = 4000, former: NearNames | None = None) -> None:
        self._asked: list[NearNameQuery] = []
        self._budget = budget
        self._compared: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self._former = {} if former is None else former._compared
        self._seen: dict[tuple[str, int], NearNameQuery] = {}  # it holds the names, so that their id stays their own
        self._folded: dict[int, dict[str, str]] = {}

    def of(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        """The known names most like `name`. Pass the same tuple for the same names: it is remembered by identity."""
        key = (name, id(known))
        asked = self._seen.get(key)
        if asked is None:
            compared = self._affords(name, known, self._budget)
            found = self._compare(name, known) if compared else self._find_same(name, known)
            asked = self._seen[key] = NearNameQuery(name, known, found, compared)
        self._asked.append(asked)
        return asked.found

    def taken(self) -> tuple[NearNameQuery, ...]:
        """The queries since the last call of this method."""
        asked, self._asked = self._asked, []
        return tuple(asked)

    def repeat(self, questions: tuple[NearNameQuery, ...]) -> bool:
        """Repeat earlier queries if all of them have the same answers here; otherwise do nothing and return False."""
        budget, new = self._budget, dict[tuple[str, int], NearNameQuery]()
        for asked in questions:
            key = (asked.name, id(asked.known))
            seen = self._seen.get(key) or new.get(key)
            if seen is None:
                if self._affords(asked.name, asked.known, budget) != asked.compared:
                    return False
                budget -= len(asked.known) if asked.compared else 0
                new[key] = asked
            elif seen.found != asked.found:
                return False
        self._budget = budget
        self._seen.update(new)
        return True

    @staticmethod
    def _affords(name: str, known: tuple[str, ...], budget: int) -> bool:
        return len(known) <= budget and len(name) <= 100

    def _compare(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        self._budget -= len(known)
        found = self._former.get((name, known))
        if found is None:
            found = tuple(near_matches(name, _promising(name, known)))
        self._compared[name, known] = found
        return found

    def _find_same(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        index = self._folded.get(id(known))
        if index is None:
            index = self._folded[id(known)] = {fold(other): other for other in known}
        same = index.get(fold(name))
        return () if same is None or same == name else (same,)


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
