"""Limits of Python programs in the sandbox, and what those of one component may import beside the standard library. Sizes in
bytes, times in seconds.

The warden and its supervisors import this.
"""

from __future__ import annotations

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
