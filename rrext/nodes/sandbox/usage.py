"""The memory of all guests of a warden, in a table that all supervisors share.

Each guest has a limit of its own, which the kernel keeps to the byte; a full server has 64 guests. Control groups would
bound them together, but most servers may not make any. So each supervisor notes the memory of its guest and adds up the
memory of all. The total lacks pages that guests touch between two looks, and the kernel's memory for pipes and sockets;
pages of the interpreter that guests share are counted for each.
"""

from __future__ import annotations

import mmap
from typing import Final

SHARES: Final = 1024
"""Guests at a time."""


class Usage:
    """The table, made by the warden before it forks. Each guest takes a share, returned when its supervisor has ended."""

    def __init__(self) -> None:
        self._table = memoryview(mmap.mmap(-1, 8 * SHARES)).cast("Q")
        self._free = list(range(SHARES))

    def take(self) -> Share | None:
        """Take a share; None if all are taken."""
        return Share(self._table, self._free.pop()) if self._free else None

    def give_back(self, share: Share) -> None:
        """Return the share of a guest that is gone."""
        share.note(0)
        self._free.append(share.number)


class Share:
    """One guest's line of the table."""

    def __init__(self, table: memoryview, number: int) -> None:
        self._table = table
        self.number = number

    def note(self, nbytes: int) -> None:
        """Write the guest's current memory use in bytes."""
        self._table[self.number] = nbytes

    def is_one_too_many(self, total: int) -> bool:
        """Whether all guests together use more than `total` bytes, and this one uses the most."""
        table = self._table.tolist()
        if sum(table) <= total:
            return False
        most = max(table)
        return table[self.number] == most and most not in table[self.number + 1 :]  # of equal ones, one is enough
