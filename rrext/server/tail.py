"""The last items of a long row, for readers who come back for those that are new."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Tail(Generic[T]):
    """The last `most` items, numbered from 1. One thread adds at a time; any thread reads."""

    def __init__(self, most: int) -> None:
        self._items: deque[tuple[int, T]] = deque(maxlen=most)
        self._numbers = count(1)

    def add(self, item: T) -> None:
        """Keep an item in place of the oldest one."""
        self._items.append((next(self._numbers), item))

    def after(self, number: int) -> list[tuple[int, T]]:
        """The kept items after that of a number, each with its own."""
        return [entry for entry in self._items.copy() if entry[0] > number]
