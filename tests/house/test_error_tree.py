"""The tree that errors.py draws is the tree that it defines."""

from __future__ import annotations

import inspect
import re

from rrext import errors
from rrext.errors import NUMBERS, ClientError, RrextError

LINE = re.compile(r"^(?P<rails>(?:│   |    )*)(?:├── |└── )(?P<name>\w+)(?:\s+(?P<code>[a-zA-Z_]+)\s+−(?P<number>\d+))?")


def drawn() -> dict[str, tuple[str, str | None, int | None]]:
    """Class name → (parent's name, code, number), as the docstring draws it."""
    found = {}
    parents = ["RrextError"]
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        depth = len(match["rails"]) // 4
        parents[depth + 1 :] = [match["name"]]
        number = -int(match["number"]) if match["number"] else None
        found[match["name"]] = (parents[depth], match["code"] if number else None, number)
    return found


def defined(root: type[RrextError] = RrextError) -> dict[str, tuple[str, str | None, int | None]]:
    """The same, as the classes are."""
    found = {}
    for cls in root.__subclasses__():
        if cls.__module__ != "rrext.errors":
            continue
        on_wire = "code" in vars(cls) and not issubclass(cls, ClientError)
        found[cls.__name__] = (root.__name__, cls.code if on_wire else None, cls.number if on_wire else None)
        found.update(defined(cls))
    return found


def test_the_drawn_tree_is_the_defined_tree() -> None:
    assert drawn() == defined()


def test_no_two_codes_share_a_number() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
