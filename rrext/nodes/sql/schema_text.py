"""A schema as text for a language model: the tables most relevant to the question, within a size."""

from __future__ import annotations

import re
from typing import Final

from rrext.nodes.sql.limits import MAX_COLUMNS, MAX_SCHEMA_TEXT, SHORTEST_WORD
from rrext.nodes.sql.schema import Schema, SqlTable

_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE: Final = re.compile(r"\s+")


def schema_text(schema: Schema, question: str) -> str:
    """One line per table. The most relevant ones come first; how many are left out is said at the end."""
    asked = _stems(question)
    scores = {name: _score(table, asked) for name, table in schema.tables.items()}
    for name, table in schema.tables.items():  # a table that connects relevant tables is needed for the join
        if scores[name]:
            for key in table.foreign_keys:
                if key.table in scores and not scores[key.table]:
                    scores[key.table] = 1
    lines: list[str] = []
    size = 0
    for name in sorted(schema.tables, key=lambda name: (-scores[name], name)):
        line = _line(schema.tables[name], asked)
        size += len(line) + 1
        if size > MAX_SCHEMA_TEXT:
            break
        lines.append(line)
    left = len(schema.tables) - len(lines)
    if left:
        lines.append(f"({left} more tables are not shown)")
    return "\n".join(lines)


def _line(table: SqlTable, asked: frozenset[str]) -> str:
    columns = table.columns
    if len(columns) > MAX_COLUMNS:
        columns = tuple(sorted(columns, key=lambda column: not (_stems(column.name) & asked))[:MAX_COLUMNS])
    told = [f"{_one_line(column.name)} {_one_line(column.type)}" for column in columns]
    if len(table.columns) > len(columns):
        told.append(f"({len(table.columns) - len(columns)} more columns)")
    if table.primary_key:
        told.append(f"primary key ({', '.join(map(_one_line, table.primary_key))})")
    for key in table.foreign_keys:
        here, there = ", ".join(map(_one_line, key.columns)), ", ".join(map(_one_line, key.references))
        told.append(f"({here}) references {_one_line(key.table)} ({there})")
    return f"{'view' if table.is_view else 'table'} {_one_line(table.name)}: {'; '.join(told)}"[:MAX_SCHEMA_TEXT]


def _one_line(name: str) -> str:
    """The text on one line: names may hold anything, even line breaks."""
    return _LINE.sub(" ", name)[:128]


def _score(table: SqlTable, asked: frozenset[str]) -> int:
    of_columns = {stem for column in table.columns for stem in _stems(column.name)}
    return 4 * len(_stems(table.name) & asked) + len(of_columns & asked)


def _stems(text: str) -> frozenset[str]:
    """The words of a text or of a name, without plural endings."""
    words = _WORDS.findall(_CAMEL.sub(" ", text).casefold())
    return frozenset(_stem(word) for word in words if len(word) >= SHORTEST_WORD)


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > SHORTEST_WORD + 1:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
