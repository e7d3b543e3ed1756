"""Completion at the prompt: tables, columns, keywords and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_KEYWORDS: Final = (
    "select from where group by order having limit offset join left right inner outer full cross on using as and or not in is "
    "null like between exists distinct all union intersect except case when then else end with recursive values insert into "
    "update set delete create table view index drop alter begin commit rollback explain asc desc cast over partition"
)
_FUNCTIONS: Final = (
    "abs avg ceil coalesce concat count floor length lower max min nullif replace round row_number substr sum trim upper"
)
_CYPHER: Final = "match optional return where with create merge set delete detach order by limit skip unwind as and or not"
_TABLE_FOLLOWS: Final = frozenset({"from", "join", "into", "update", "table", "describe"})
_WORD: Final = re.compile(r"[\w$]*$")
_BEFORE: Final = re.compile(r"(\w+)\s+$")
_OWNER: Final = re.compile(r"([\w$]+|\"[^\"]+\"|`[^`]+`)\.$")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALIAS: Final = r"(?i)\b(?:from|join|update|into)\s+([\w.$\"`]+)(?:\s+(?:as\s+)?([\w$]+))?"
_LABEL: Final = r"(\w+)\s*:\s*`?(\w+)"


class SchemaNames:
    """The names of a database: tables and their columns; for a graph, labels and their properties."""

    def __init__(self, dialect: str, schema: Mapping[str, Any]) -> None:
        self.is_graph = "tables" not in schema
        self._folds_case = dialect == "postgres"
        self.quote = "`" if dialect == "mysql" or self.is_graph else '"'
        self.found = {**schema["nodes"], **schema["relationships"]} if self.is_graph else schema["tables"]
        self.tables = {name: [_name(entry) for entry in _entries(table)] for name, table in self.found.items()}

    def _is_plain(self, name: str) -> bool:
        if not _PLAIN.fullmatch(name) or (self._folds_case and name != name.lower()):
            return False
        return name.lower() not in (_CYPHER if self.is_graph else _KEYWORDS).split()

    def table(self, name: str) -> list[dict[str, Any]]:
        """One row per column of a table: name, type, and its keys."""
        table = self.found[name]
        keys = dict.fromkeys(table.get("primary_key", ()), "primary key")
        for key in table.get("foreign_keys", ()):
            keys |= dict.fromkeys(key["columns"], f"→ {key['references']['table']}")
        return [{"column": _name(entry), "type": entry["type"], "key": keys.get(_name(entry), "")} for entry in _entries(table)]

    def quoted(self, name: str) -> str:
        """The name as statements write it. A dot separates schema and table."""
        return ".".join(
            part if self._is_plain(part) else self.quote + part.replace(self.quote, self.quote * 2) + self.quote
            for part in name.split(".")
        )


def _entries(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    return table["columns"] if "columns" in table else table["properties"]


def _name(entry: Mapping[str, Any]) -> str:
    return entry["column"] if "column" in entry else entry["property"]


def completions(text: str, statement: str, names: SchemaNames) -> Iterator[tuple[str, int, str]]:
    """The completions at the end of `text`, the part of the `statement` before the cursor.

    Each is `(name, length, kind)`: it replaces `length` characters before the cursor.
    """
    word = _WORD.search(text)[0]  # pyright: ignore[reportOptionalSubscript] – it matches nothing at least
    before = text[: len(text) - len(word)]
    for name, kind in _candidates(before, statement, names, word):
        if name.lower().startswith(word.lower()):
            written = names.quoted(name) if kind in ("table", "column") else name
            yield written, len(word), kind


def _candidates(before: str, statement: str, names: SchemaNames, word: str) -> Iterator[tuple[str, str]]:
    owner = _OWNER.search(before)
    if owner is not None:
        columns = _columns_of(owner[1].strip('"`'), statement, names)
        prefix = owner[1].strip('"`') + "."
        inner = [name[len(prefix) :] for name in names.tables if name.startswith(prefix)]
        yield from ((name, "column") for name in columns)
        yield from ((name, "table") for name in inner)
        return
    last = _BEFORE.search(before)
    if (last is not None and last[1].lower() in _TABLE_FOLLOWS) or (names.is_graph and before.rstrip().endswith(":")):
        yield from ((name, "table") for name in names.tables)
        return
    if not word and not (last is not None and last[1].lower() in ("select", "where", "by", "on", "and", "or", "set")):
        return
    found = [name for _, table in _named(statement, names) for name in names.tables[table]]
    known = found or [name for columns in names.tables.values() for name in columns]
    yield from ((name, "column") for name in dict.fromkeys(known))
    yield from ((name, "table") for name in names.tables)
    yield from ((name, "keyword") for name in (_CYPHER if names.is_graph else _KEYWORDS).split())
    yield from ((name, "function") for name in _FUNCTIONS.split())


def _columns_of(owner: str, statement: str, names: SchemaNames) -> Sequence[str]:
    tables = {name.lower(): name for name in names.tables}
    aliases = {alias.lower(): table for alias, table in _named(statement, names)}
    table = aliases.get(owner.lower()) or tables.get(owner.lower())
    return names.tables[table] if table is not None else ()


def _named(statement: str, names: SchemaNames) -> list[tuple[str, str]]:
    """The tables of a statement, each by its alias and by its name."""
    tables = {name.lower(): name for name in names.tables}
    found: list[tuple[str, str]] = []
    if names.is_graph:
        return [(match[1], tables[match[2].lower()]) for match in re.finditer(_LABEL, statement) if match[2].lower() in tables]
    for match in re.finditer(_ALIAS, statement):
        table = tables.get(match[1].replace('"', "").replace("`", "").lower())
        if table is not None:
            found += [(match[1].rpartition(".")[2].strip('"`'), table), (match[2] or table, table)]
    return found
