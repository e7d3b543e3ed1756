"""The rows in the result of a tool, as a table or as CSV."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from rrext.cli.results_stdout import Results
from rrext.columns import printable


class Rows(msgspec.Struct):
    """Rows with equal columns, and the other members of the result."""

    names: list[str]
    rows: list[dict[str, Any]]
    rest: dict[str, Any]


def rows_in(value: Any) -> Rows | None:
    """The rows of a result: a list of objects, lists of them, or an object with one such member; None for other results."""
    rest: dict[str, Any] = {}
    names: list[str] = []
    if isinstance(value, dict):
        keys = [key for key, member in value.items() if _are_rows(member)]
        if not keys and value.get("rows") == [] and value.get("columns"):
            keys, names = ["rows"], list(value["columns"])
        if len(keys) != 1:
            return None
        rest = {key: member for key, member in value.items() if key not in (keys[0], "columns", "types")}
        value = value[keys[0]]
    elif isinstance(value, list) and value and all(isinstance(chunk, list) for chunk in value):
        value = [row for chunk in value for row in chunk]  # the chunks of a generator
    if not names and not _are_rows(value):
        return None
    names = list(dict.fromkeys([*names, *(name for row in value for name in row)]))
    return Rows(names, [{name: row.get(name) for name in names} for row in value], rest)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and row for row in value)


def write_rows(results: Results, found: Rows, kind: str) -> None:
    """Write rows to stdout in a format of `rrext sql`, and the other members of the result to stderr."""
    from rrext.cli.formats import FORMATS

    made = FORMATS[kind](results)
    made.rows(msgspec.json.encode(found.rows), None)
    made.end(found.names, [])
    if found.rest:
        members = (f"{name}: {msgspec.json.encode(value).decode()}" for name, value in found.rest.items())
        print(printable(", ".join(members)), file=sys.stderr)
