"""What two answers may have that differs although a server did the same twice: ids that it made, times, and the values of
variables, which a recording has by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from time import time
from typing import Any, Final, TypeAlias

from rrext.engine.views.task_views import id_of
from rrext.secrets.names import HIDDEN, PLACEHOLDER, without_keys
from rrext.secrets.redaction import Redactor
from rrext.testing.expectations import Difference, differences, matcher_of

NUMBERS: Final = frozenset({"pipe_id", "permission", "question", "handle", "call"})
"""Members of a body with numbers that a server gives, or texts in their place, and that later requests name."""

Number: TypeAlias = tuple[str, int | str]
"""A number with the name of its member."""

NAMES: Final = frozenset({"token", "transaction", "run_id"})
"""Members with texts that a server makes of random bits; a token of a client is another text."""

MADE: Final = re.compile(r"(?:[a-z]+_)?[0-9a-f]{32}")
"""The form of these."""

CALLS: Final = frozenset({"call", "caller"})
"""Members of an event with the number of a call in its engine: those of calls that run at once come in any order."""

MOST_LOOKED_AT: Final = 64
"""Events among which that of a call that runs beside others is looked for: an agent calls fewer tools at once."""

DURATION: Final = "seconds"
"""The name of a time that something took, if it has a fraction; a whole number is a setting."""

RANDOM: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of random bits, under whatever name."""

NAMED: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:[a-z]+_)?[0-9a-f]{32}|[0-9a-f]{8}\.")
"""What may be a name of a server within a text: a UUID, one of `NAMES`, or the short form of a token in the id of a task."""

SLACK: Final = 2.0
"""Seconds by which a time may be outside of the time of its messages: they are written a little later or earlier."""


class RunLikeness:
    """What the connections of a run share: `value_of` gives the value of a variable, `texts` has the names that each server
    made. The recording took from `begun` to `reached`, in seconds since 1970, which moves on with it.
    """

    def __init__(self, begun: float, value_of: Callable[[str], str | None]) -> None:
        self.reached = self.begun = begun
        self.value_of = value_of
        self.texts: dict[str, str] = {}
        self.redactor = Redactor()


class Likeness:
    """Learns which ids of a recorded connection stand for which of its replay, and compares answers."""

    def __init__(self, run: RunLikeness) -> None:
        self._run = run
        self._texts = run.texts
        self._numbers: dict[Number, int | str] = {}
        self.lost: set[Number] = set()
        """Numbers of the recording that the replay has not got, with their names."""

    def learn(self, recorded: Any, replayed: Any) -> None:
        """Learn the ids of two bodies that belong together."""
        if isinstance(recorded, dict) and isinstance(replayed, dict):
            for name, number in numbers_in(recorded):
                if type(replayed.get(name)) is type(number):
                    self._numbers.setdefault((name, number), replayed[name])
        self._learn_texts(recorded, replayed, "")

    def _learn_texts(self, recorded: Any, replayed: Any, key: str) -> None:
        if isinstance(recorded, dict) and isinstance(replayed, dict):
            if self._has_no_name(recorded) and self._has_no_name(replayed):
                self._texts.setdefault(recorded["objectId"], replayed["objectId"])
            for name in recorded.keys() & replayed.keys():
                self._learn_texts(recorded[name], replayed[name], name)
        elif isinstance(recorded, list) and isinstance(replayed, list):
            for one, other in zip(recorded, replayed, strict=False):
                self._learn_texts(one, other, key)
        elif isinstance(recorded, str) and isinstance(replayed, str) and recorded != replayed:
            if RANDOM.fullmatch(recorded) and RANDOM.fullmatch(replayed):
                self._texts.setdefault(recorded, replayed)
            if key in NAMES and MADE.fullmatch(recorded) and MADE.fullmatch(replayed):
                self._texts.setdefault(recorded, replayed)
                self._texts.setdefault(id_of(recorded, ""), id_of(replayed, ""))

    @staticmethod
    def _has_no_name(body: dict[str, Any]) -> bool:
        """Whether a body is that of an object without a name: it gets one of random bits, and an id of this name."""
        name, object_id = body.get("name"), body.get("objectId")
        return isinstance(name, str) and isinstance(object_id, str) and RANDOM.fullmatch(name) is not None

    def lose(self, recorded: Any) -> None:
        """Note that the numbers of a body have none in the replay."""
        self.lost.update(numbers_in(recorded) - self._numbers.keys())

    def translated(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the recording with the ids of the replay."""
        found: dict[str, Any] = self._translated(arguments, "") if self._texts or self._numbers else arguments
        return found

    def _translated(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: self._translated(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._translated(item, key) for item in value]
        if type(value) is int or type(value) is str:
            return self._numbers.get((key, value)) or (self._renamed(value) if isinstance(value, str) else value)
        return value

    def _renamed(self, text: str) -> str:
        return NAMED.sub(lambda found: self._texts.get(found[0], found[0]), text) if self._texts else text

    def differences(self, recorded: Any, replayed: Any) -> Iterator[Difference]:
        """What differs, but for what may."""
        yield from differences(_as_it_is(recorded), self.aligned(recorded, replayed))

    def in_order_of(self, recorded: list[Any], replayed: list[Any]) -> list[Any]:
        """The replayed events in the order of the recorded ones, where that is a matter of which call was quicker."""
        rest, found = list(replayed), list[Any]()
        for one in recorded:
            alike = (at for at, other in enumerate(rest[:MOST_LOOKED_AT]) if not any(self.differences(one, other)))
            place = next(alike, None)
            found.append(None if place is None else rest.pop(place))
        rest.reverse()
        found = [rest.pop() if each is None and rest else each for each in found]
        return [*(each for each in found if each is not None), *reversed(rest)]

    def aligned(self, recorded: Any, replayed: Any, key: str = "") -> Any:
        """The replayed value, with the recorded one wherever both mean the same."""
        if isinstance(recorded, dict) and isinstance(replayed, dict):
            return {
                name: self.aligned(recorded[name], item, name) if name in recorded else item for name, item in replayed.items()
            }
        if isinstance(recorded, list) and isinstance(replayed, list):
            pairs = zip(recorded, replayed, strict=False)
            return [*(self.aligned(one, other, key) for one, other in pairs), *replayed[len(recorded) :]]
        return recorded if recorded != replayed and self._is_alike(recorded, replayed, key) else replayed

    def _is_alike(self, recorded: Any, replayed: Any, key: str) -> bool:
        is_given = type(recorded) in (int, str) and type(recorded) is type(replayed)
        if is_given and self._numbers.get((key, recorded)) == replayed:
            return True
        if _is_number(recorded) and _is_number(replayed):
            is_length = key == DURATION and type(recorded) is float and type(replayed) is float
            return is_length or self._are_times(recorded, replayed)
        if not (isinstance(recorded, str) and isinstance(replayed, str)):
            return False
        if self._renamed(recorded) == replayed:
            return True
        return self._has_variables(recorded, replayed) or self._are_times(_seconds_of(recorded), _seconds_of(replayed))

    def _has_variables(self, recorded: str, replayed: str) -> bool:
        """Whether the replayed text has the secrets that the recorded one has not, but for the names of variables."""
        names = re.findall(PLACEHOLDER, recorded)
        for name in names:
            self._run.redactor.learn(name, self._run.value_of(name) or "", always=True)
        if not names and HIDDEN not in recorded:
            return False
        return recorded == HIDDEN or without_keys(self._run.redactor.text(replayed)) == recorded

    def _are_times(self, recorded: float, replayed: float) -> bool:
        """Whether one is of the time of the recording, and the other of a time from then to now: in seconds or milliseconds."""
        first, last = self._run.begun - SLACK, self._run.reached + SLACK
        return any(first <= recorded / unit <= last and first <= replayed / unit <= time() + SLACK for unit in (1.0, 1000.0))


def without_calls(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without the numbers of their calls."""
    return [{name: item for name, item in body.items() if name not in CALLS} for body in events]


def numbers_in(body: Any) -> set[Number]:
    """The numbers in a body, or in arguments, that a server gave, with their names."""
    names = NUMBERS & body.keys() if isinstance(body, dict) else ()
    return {(name, body[name]) for name in names if type(body[name]) in (int, str)}


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _seconds_of(text: str) -> float:
    """The seconds since 1970 of a text that is a time; 0 of another."""
    if len(text) > len("2026-01-31T12:00:00.123456+00:00") or not text[:4].isdigit():
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _as_it_is(value: Any) -> Any:
    """An expectation of exactly this value: objects in it that would stand for many values mean themselves."""
    if isinstance(value, dict):
        if matcher_of(value) is not None:
            return {"$equals": value}
        return {name: _as_it_is(item) for name, item in value.items()}
    return [_as_it_is(item) for item in value] if isinstance(value, list) else value
