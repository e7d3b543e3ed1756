"""`FreeNames`: gives out names that differ from each other."""

from __future__ import annotations

from rrext.limits import MAX_EXPORTED_NAME


class FreeNames:
    """Adds a number to a name that is taken. Counts for each name, so that ten thousand equal ones cost no more than others."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    def take(self, wanted: str) -> str:
        """A name like this one that is free, and then taken. Only its number makes it longer, up to `MAX_EXPORTED_NAME`."""
        name = wanted
        while name in self._counts:
            self._counts[wanted] += 1
            tail = f"_{self._counts[wanted]}"
            name = wanted[: MAX_EXPORTED_NAME - len(tail)] + tail
        self._counts[name] = 1
        return name
