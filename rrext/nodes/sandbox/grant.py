"""Limits of Python programs in the sandbox, and what those of one component may import beside the standard library. Sizes in
bytes, times in seconds.

The warden and its supervisors import this. They share a table with the memory of all guests (`Usage`).

Each guest has a limit of its own, which the kernel keeps to the byte; a full server has 64 guests. Control groups would
bound them together, but most servers may not make any. So each supervisor notes the memory of its guest and adds up the
memory of all. The total lacks pages that guests touch between two looks, and the kernel's memory for pipes and sockets;
pages of the interpreter that guests share are counted for each.
"""

from __future__ import annotations

import mmap
from typing import Final, NamedTuple

import msgspec

MIB: Final = 1024 * 1024


class SandboxLimits(NamedTuple):
    """The bounds of one program. Each is enforced from outside the program."""

    timeout: float = 20.0
    """Seconds of wall-clock time; then the program is killed. RocketRide's default."""
    memory: int = 512 * MIB
    """Bytes of address space, the interpreter's own 30 MiB and 4 MiB for the stack of each thread included: room for a few
    million objects, while the 64 calls of a full server stay below what a large machine has."""
    total_memory: int = 2048 * MIB
    """Bytes of memory that all programs of one sandbox use at a time, which is four programs at their limit, or the server's
    64 places full of ordinary ones; beyond it the program that uses most is killed."""
    threads: int = 64
    """Threads that a program has at a time beside its first one. Ordinary pools use under 40; a thread costs the machine
    memory that `memory` does not count."""
    open_files: int = 64
    """Open descriptors. The program has three; an event loop needs three more. Each pipe holds 64 KiB of the kernel's."""
    output: int = 51_200
    """Characters kept of each of stdout and stderr, cut in the middle. RocketRide's figure."""
    result: int = 4 * MIB
    """Bytes of `result` as JSON: a quarter of what an answer may have."""


SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 1.0, 1200.0
"""RocketRide's bounds of `timeout`, in seconds."""

LEAST_MEMORY, MOST_MEMORY = 64, 64 * 1024
"""MiB: below, the interpreter does not start; above, it is a slip of the keyboard."""


class Grant(msgspec.Struct, frozen=True):
    """The packages of the programs, each with its version in `names`.

    `paths` are the files and folders that programs read. `modules` has the file of each module that is in no granted folder;
    a folder that distributions share ends with `/`. `distributions` has the folders of the metadata. `refused` says of other
    packages why they cannot be imported. `roots` are the folders in which packages are installed.
    """

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    modules: dict[str, str] = {}
    distributions: dict[str, str] = {}
    refused: dict[str, str] = {}
    roots: tuple[str, ...] = ()

    def why_not(self, module: str) -> str:
        """Why programs cannot import a module."""
        alone = f"with {', '.join(self.names)}" if self.names else "alone"
        usual = f"programs have Python's standard library {alone}, and nothing can be installed"
        return self.refused.get(module.partition(".")[0], usual)


NOTHING: Final = Grant()

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
