"""`Quotes`: finds passages of a text that are quoted with other spaces and line ends."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from functools import cached_property


class Quotes:
    """The quotes of one text. From any thread."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, quote: str) -> tuple[int, int] | None:
        """The characters at which a quote begins and ends; spaces and line ends count as equal. None if it is not there."""
        wanted = " ".join(quote.split())
        if not wanted:
            return None
        exact = self._text.find(quote.strip())
        if exact >= 0:
            return exact, exact + len(quote.strip())
        place = self._spaced.find(wanted)
        return None if place < 0 else (self._before(place), self._before(place + len(wanted) - 1) + 1)

    @cached_property
    def _spaced(self) -> str:
        """The text with one space for each run of spaces and line ends."""
        return re.sub(r"\s+", " ", self._text)

    @cached_property
    def _runs(self) -> tuple[array[int], array[int]]:
        """The places in `_spaced` behind runs of several, and how many characters are missing there so far."""
        places, missing, gone = array("Q"), array("Q"), 0
        for found in re.finditer(r"\s{2,}", self._text):
            places.append(found.start() - gone + 1)
            gone += len(found[0]) - 1
            missing.append(gone)
        return places, missing

    def _before(self, place: int) -> int:
        """The character of the text that stands at a place of `_spaced`."""
        places, missing = self._runs
        at = bisect_right(places, place)
        return place + (missing[at - 1] if at else 0)
