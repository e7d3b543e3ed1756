"""Reads a file of connections: TOML, a table for each connection."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from typing import Final

from rrext.connections.connections import Connections
from rrext.connections.reading import read
from rrext.errors import ConnectionInvalid
from rrext.secrets.private_file import NotPrivate, read_private

_HEADER: Final = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def load_connections(path: str, variables: Mapping[str, str] | None = None) -> Connections:
    """The connections of a file. Its tables with problems are invalid; `Connections.problems` has the lines.

    Raises `ConnectionInvalid` if the file cannot be read, is not this user's alone, or is no TOML.
    """
    try:
        text = read_private(path)
        tables = tomllib.loads(text)
    except NotPrivate as error:
        raise ConnectionInvalid(str(error)) from None
    except (ValueError, RecursionError) as error:  # of a number that is too long it is no `TOMLDecodeError`
        raise ConnectionInvalid(f"{path}: {error}") from None
    return read(
        tables,
        os.environ if variables is None else variables,
        folder=os.path.dirname(os.path.abspath(path)),
        lines=_lines(text),
    )


def _lines(text: str) -> dict[str, int]:
    """JSON pointer → number of the line where a table or key stands. The parser does not say; this finds nearly all."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _pointer(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(table + _pointer(key[1]), number)
    return found


def _pointer(name: str) -> str:
    parts = (part.strip("\"'") for part in _PART.findall(name))
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
