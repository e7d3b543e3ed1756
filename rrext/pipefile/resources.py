"""What a pipeline asks of the machine that runs it: its member `resources`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rrext.limits import MIB, MIN_TASK_MEMORY
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.problems import Problems, below, shown

RESOURCE_KEYS: Final = ("cpu", "gpu", "memory", "node")
LEAST_SHARE: Final = 0.001
"""The least part of a processor that a cluster counts: it has four decimals of each number."""

MOST: Final = 2**40
"""The most processors that a pipeline may ask for, far above any machine."""

MOST_BYTES: Final = 2**50
"""The most bytes that a pipeline may ask for, far above any machine: doubles, in which clusters count, hold them exactly."""

_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)(iB|B)?", re.IGNORECASE | re.ASCII)


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pipeline asks for: processors, graphics processors, bytes of memory, and the name of the node of a cluster."""

    cpu: float = 0.0
    gpu: float = 0.0
    memory: int = 0
    node: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing, so that a host may have other tasks too."""
        return self == NO_RESOURCES

    def above(self, most: Resources) -> list[str]:
        """The members of which it asks for more than `most` has."""
        return [name for name in ("cpu", "gpu", "memory") if getattr(self, name) > getattr(most, name)]


NO_RESOURCES: Final = Resources()


def size_in_bytes(text: str) -> int | None:
    """The bytes of a size such as `512M` or `4 GiB`, each unit 1,024 times the one before; None if it is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    factor = 1024 ** " KMGT".index(found[2].upper() or " ")
    return int(found[1]) * factor if "." not in found[1] else int(float(found[1]) * factor)


def read_resources(document: Mapping[str, Any], base: str, problems: Problems, near: NearNames) -> Resources:
    """The resources of a pipeline document at `base`; a wrong one is a problem, and asks for nothing."""
    given = document.get("resources")
    if given is None:
        return NO_RESOURCES
    path = below(base, "resources")
    if not isinstance(given, dict):
        problems.add("wrong_type", "Expected an object for resources.", path)
        return NO_RESOURCES
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in RESOURCE_KEYS:
            message = f"{shown(key)} is no resource: expected {', '.join(RESOURCE_KEYS)}."
            problems.add("invalid_resources", message, below(path, key), near=near.of(key, RESOURCE_KEYS), on="key")
        elif value is not None:
            read = _READERS[key](value)
            if isinstance(read, _Wrong):
                problems.add("invalid_resources", f"{key} {read}", below(path, key))
            else:
                found[key] = read
    return Resources(**found)


class _Wrong(str):
    """Why a value cannot be used, behind the name of its key."""

    __slots__ = ()


def _count(value: Any) -> float | _Wrong:
    if type(value) not in (int, float):
        return _Wrong("is a number of processors, such as 2.")
    if not (value == 0 or LEAST_SHARE <= value <= MOST):
        return _Wrong(f"is at least {LEAST_SHARE}, or 0.") if value < LEAST_SHARE else _Wrong("is more than any machine has.")
    return float(value) if value <= 1 or value == int(value) else _Wrong("above 1 is a whole number.")


def _memory(value: Any) -> int | _Wrong:
    size = size_in_bytes(value) if isinstance(value, str) else value
    if type(size) is not int:
        return _Wrong('is a number of bytes, or a text such as "4 GiB".')
    if size and not MIN_TASK_MEMORY <= size <= MOST_BYTES:
        least = f"is at least {MIN_TASK_MEMORY // MIB} MiB: an empty pipeline takes a third of that."
        return _Wrong(least if size < MIN_TASK_MEMORY else "is more than any machine has.")
    return size


def _node(value: Any) -> str | _Wrong:
    return value if isinstance(value, str) and value else _Wrong("is the name of a node of the cluster.")


_READERS: Final = {"cpu": _count, "gpu": _count, "memory": _memory, "node": _node}
