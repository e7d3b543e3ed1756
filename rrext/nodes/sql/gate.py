"""The read-only gate: decides from the words of a statement whether it only reads. The caller's own text is sent.

The gate gives early and clear errors, and refuses what a read-only transaction lets pass: functions that read files or
hold locks, `COPY … TO`, several statements in one text. It is the first of two walls: the second is the database, in
which everything that passed runs in a transaction that the database keeps read-only. `Inspection` finds whether the
tokens of a statement can only read: no writing word, and no unknown function.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any, Final

from rrext.errors import InvalidArguments, ToolError, near_matches
from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.dialect import (
    ESCAPED_NAME,
    NAME,
    OTHER_PLACEHOLDER,
    STRING,
    WORD,
    Kind,
    ReadingSql,
    SqlDialect,
    SqlToken,
    query_after_explain,
)
from rrext.nodes.sql.lexer import placed, readings

MAX_STATEMENT: Final = 4 * 1024 * 1024
"""Characters of a statement that is judged: a list of some 500,000 numbers. Values belong into parameters."""

CACHE_ENTRIES: Final = 1024
"""Statements that a gate remembers; programs repeat a few dozen."""

CACHE_BYTES: Final = 4 * 1024 * 1024
"""Characters of remembered statements: a few huge ones must not fill the memory."""


class SqlGate:
    """The gate of one dialect. Many threads may use it at once."""

    def __init__(self, dialect: SqlDialect, allowed_functions: Iterable[str] = ()) -> None:
        """`allowed_functions`: names beside the known ones, as `my_function`, `schema.function` or `prefix_*`."""
        self.dialect = dialect
        self._allowed = tuple(allowed_functions)
        self._inspection = Inspection(dialect, self._allowed)
        self._entries: OrderedDict[str, ReadingSql] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Gate {self.dialect.name}, {len(self._entries)} statements>"

    def read_only(self, sql: str) -> ReadingSql:
        """Judge a statement. About a microsecond for a known one; else in proportion to its length.

        Raises `InvalidArguments` at `/input/sql` for a text that is no single statement of the dialect (with `line` and
        `column` in its data), and `ToolError` with code `not_read_only` for a statement that does, or may do, more than
        read.
        """
        with self._lock:
            known = self._entries.get(sql)
            if known is not None:
                self._entries.move_to_end(sql)
                return known
        if len(sql) > MAX_STATEMENT:
            text = f"the statement has {len(sql):,} characters: MAX_STATEMENT is {MAX_STATEMENT:,}"
            raise InvalidArguments.at("/input/sql", text).with_data(limit="MAX_STATEMENT", maximum=MAX_STATEMENT)
        made = self._inspection.statement(sql)
        self._remember(sql, made)
        return made

    def learn(self, functions: frozenset[str]) -> None:
        """Let functions pass that the catalog of the connected server says only compute or look."""
        self._inspection = Inspection(self.dialect, self._allowed, functions)

    def _remember(self, sql: str, made: ReadingSql) -> None:
        with self._lock:
            if sql in self._entries:
                return
            self._entries[sql] = made
            self._size += len(sql)
            while len(self._entries) > CACHE_ENTRIES or self._size > CACHE_BYTES:
                old, _ = self._entries.popitem(last=False)
                self._size -= len(old)


def read_only(sql: str, dialect: SqlDialect, allowed_functions: Iterable[str] = ()) -> ReadingSql:
    """Run `SqlGate.read_only` for one statement, without a cache."""
    return SqlGate(dialect, allowed_functions).read_only(sql)


LONGEST_NAME: Final = 80
"""Characters of a name that a message repeats."""

_NAMES: Final = frozenset({WORD, NAME, ESCAPED_NAME})
_TABLE_FOLLOWS: Final = frozenset(
    {"from", "join", "table", "pivot", "unpivot", "describe", "desc", "summarize", "show", "only"}
)
_AFTER_TABLES: Final = words(
    """select values where group having window qualify order limit offset fetch for into union except intersect returning set"""
)
"""Words after a list of tables, in which a comma stands before something else."""

_WRITTEN: Final = {"into": "SELECT … INTO writes", "for": "FOR UPDATE and FOR SHARE take locks"}
_STATEMENTS: Final = words(
    """abort alter analyze attach backup begin call change check checkpoint close cluster comment commit copy create
    deallocate declare delete describe desc detach discard do drop end execute exec export fetch flush force grant
    handler help import insert install kill listen load lock merge move notify optimize pragma prepare purge refresh reindex
    release rename repair replace reset revoke rollback savepoint security set show shutdown start stop summarize truncate
    unlisten unlock update upsert use vacuum xa"""
)
"""The first words of statements that only read and are no queries."""

FILE_NAME: Final = re.compile(r"[/\\*?:]|\.\w+$")
"""The pattern of a name that DuckDB would take for a file: with a folder, a pattern, a protocol or a suffix."""


def refusal(what: str, *, hint: str | None = None, **data: Any) -> ToolError:
    """The error for a statement that may do more than read, with the reason."""
    return ToolError(f"The statement may do more than read: {what}", code="not_read_only", hint=hint, data=data or None)


class _Seen:
    """The state of a scan: the brackets and tables before its place."""

    def __init__(self) -> None:
        self.tables: dict[str, None] = {}
        self.defined: set[str] = set()
        """Names that the statement defines itself."""
        self.aliases: set[int] = set()
        """Places of names that tables get without AS, with their columns in brackets behind."""
        self.opened: list[int] = []
        """The tokens before the brackets that are open."""
        self.closed: dict[int, int] = {}
        """A closing bracket → the token before its opening one."""
        self.listing = [False]
        """Whether a comma stands between tables here: in the statement, and in each bracket that is open."""

    def close(self, index: int) -> None:
        """Note the closing bracket at `index`."""
        self.closed[index] = self.opened.pop() if self.opened else -1
        if len(self.listing) > 1:
            self.listing.pop()


class Inspection:
    """The rules of the read-only gate for one dialect, applied to the tokens of a statement."""

    def __init__(self, dialect: SqlDialect, allowed: Iterable[str], more: frozenset[str] = frozenset()) -> None:
        """`allowed`: see `SqlGate`. `more`: functions that the connected server's catalog says only compute or look."""
        self.dialect = dialect
        self._functions = (dialect.functions or frozenset()) | more
        self._patterns = tuple(pattern.lower() for pattern in allowed)

    def statement(self, sql: str) -> ReadingSql:
        """The statement, if it only reads in every reading of a server. Raises the errors of `SqlGate.read_only`."""
        first, *others = readings(sql, self.dialect, judging=True)
        found = self._judged(sql, first)
        for other in others:
            try:
                self._judged(sql, other)
            except (InvalidArguments, ToolError) as error:
                raise refusal(
                    f"by a server's sql_mode a backslash may end a literal here. Read so: {error.message}",
                    hint="Double the quotes instead, or pass the value as a parameter.",
                ) from None
        return found

    def _judged(self, sql: str, tokens: list[SqlToken]) -> ReadingSql:
        tokens = _one_statement(sql, tokens)
        if self.dialect.shows(tokens):
            return ReadingSql(sql, "show", self._inspected(sql, tokens))
        query = query_after_explain(self.dialect.explains, tokens)
        self._check_beginning(sql, tokens, query)
        kind: Kind = "explain" if query else "show" if tokens[0].text == "pragma" else "select"
        return ReadingSql(sql, kind, self._inspected(sql, tokens, query))

    def _check_beginning(self, sql: str, tokens: Sequence[SqlToken], at: int) -> None:
        while at < len(tokens) and tokens[at].kind == "(":
            at += 1
        if at >= len(tokens):
            raise placed(sql, tokens[-1].start, f'syntax error: nothing follows "{_written(sql, tokens[-1])}"')
        token = tokens[at]
        if token.kind == WORD and token.text in self.dialect.queries:
            return
        if token.kind == WORD and token.text in _STATEMENTS:
            raise refusal(f"{token.text.upper()} is no query", statement=token.text.upper())
        near = near_matches(token.text, sorted(self.dialect.queries)) if len(token.text) <= LONGEST_NAME else []
        hint = f"Did you mean {' or '.join(near).upper()}?" if near else None
        raise placed(sql, token.start, f'syntax error near "{_written(sql, token)}"', hint)

    def _inspected(self, sql: str, tokens: Sequence[SqlToken], query: int = 0) -> tuple[str, ...]:
        """Check one reading, whose query begins at `query`, behind EXPLAIN, and return the tables it names.

        Raises `ToolError` for a statement that may do more than read.
        """
        seen = _Seen()
        attributes = self.dialect.attributes
        catalog = "pg_catalog" if attributes is not None and _only_qualifies(tokens, "pg_catalog") else None
        known = self._functions
        for index, (kind, text, _) in enumerate(tokens):
            if kind == WORD:
                if text in _NOTED:
                    self._track_word(tokens, index, seen)
            elif kind == "(":
                seen.opened.append(index - 1)
                seen.listing.append(False)
                before = tokens[index - 1] if index else None
                is_name = before is not None and before.kind in _NAMES and index - 1 not in seen.aliases and index > query
                if is_name and self.dialect.functions is not None:
                    self._check_call(sql, tokens, index - 1, seen.closed, seen.defined)
            elif kind == ")":
                seen.close(index)
            elif kind == "," and seen.listing[-1]:
                self._add_table(tokens, index + 1, seen)
            elif kind == "." and attributes is not None:
                _check_attribute(tokens, index, catalog, known, attributes)
            elif kind == OTHER_PLACEHOLDER:
                raise InvalidArguments.at("/input/sql", "a parameter is written $1, $2, …; its value stands in params")
            elif kind == ":=" and self.dialect.assignment:
                raise refusal(":= assigns a variable")
        return tuple(name for name in seen.tables if name not in seen.defined)

    def _track_word(self, tokens: Sequence[SqlToken], index: int, seen: _Seen) -> None:
        text = tokens[index].text
        if text in _AFTER_TABLES:
            seen.listing[-1] = False
        if text in _SUSPECT:
            self._check_word(tokens, index)
        elif text in _TABLE_FOLLOWS:
            if not ((seen.opened and _text(tokens, seen.opened[-1]) in _SPECIAL) or _compares(tokens, index)):
                seen.listing[-1] = seen.listing[-1] or text == "from"
                self._add_table(tokens, index + 1, seen)
        elif text == "as" and index and _text(tokens, index + 1) in _QUERY_FOLLOWS:
            seen.defined.add(tokens[index - 1].text)

    def _check_word(self, tokens: Sequence[SqlToken], index: int) -> None:
        """Refuse a word that begins a part of a statement which writes or locks."""
        text = tokens[index].text
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if before is not None and before.kind == WORD and before.text == "as":
            return  # a new name of a column
        is_reserved = self.dialect.reserved_words
        if before is not None and before.kind == "." and (not is_reserved or before.start + 1 == tokens[index].start):
            return  # a column's name: where words are reserved, only if nothing stands between
        follows = after.text if after is not None and after.kind == WORD else ""
        is_reserved = is_reserved and (after is None or after.kind != "(")
        match text:
            case "into":
                writes = follows != "name" or not self.dialect.into_name
            case "for":
                second = _text(tokens, index + 2)
                writes = follows in ("update", "share") or (follows, second) in (("no", "key"), ("key", "share"))
            case "lock":
                writes = follows == "in" and _text(tokens, index + 2) == "share"
            case "next":
                writes = follows in ("value", "values") and _text(tokens, index + 2) == "for"
            case "update":
                writes = is_reserved or (after is not None and after.kind in _NAMES and follows not in _AFTER_COLUMN)
            case _:
                writes = is_reserved or (follows == "from" and before is not None and before.kind in ("(", ")"))
        if writes:
            raise refusal(_WRITTEN.get(text) or _LOCKS.get(text) or f"{text.upper()} writes")

    def _add_table(self, tokens: Sequence[SqlToken], index: int, seen: _Seen) -> None:
        """Note the table at `index`, and the name that it gets."""
        if _text(tokens, index) == "(":  # tables that are joined, or a query
            while _text(tokens, index) == "(":
                index += 1
            if _text(tokens, index) in self.dialect.keywords:
                return
        if self.dialect.tables_from_files and index < len(tokens) and tokens[index].kind == STRING:
            raise refusal("a text in the place of a table names a file")
        parts: list[str] = []
        end = index
        while end < len(tokens) and tokens[end].kind in (WORD, NAME):
            parts.append(tokens[end].text[:LONGEST_NAME])
            index, end = end, end + 2
            if _text(tokens, index + 1) != ".":
                break
        if not parts or _text(tokens, index + 1) == "(":
            return
        if self.dialect.tables_from_files and tokens[index].kind == NAME and FILE_NAME.search(tokens[index].text):
            raise refusal(f'"{parts[-1]}" names a file', table=parts[-1])
        seen.tables[".".join(parts)] = None
        table_and_name = tokens[index : index + 2]
        are_names = all(
            token.kind == NAME or (token.kind == WORD and token.text not in self.dialect.keywords) for token in table_and_name
        )
        if are_names and _text(tokens, index + 2) == "(" and _end_of_names(tokens, index + 3):  # FROM t a(x, y), without AS
            seen.aliases.add(index + 1)

    def _check_call(self, sql: str, tokens: Sequence[SqlToken], index: int, closed: dict[int, int], defined: set[str]) -> None:
        """Refuse the function named by the token at `index`, unless it is known or the name calls nothing."""
        token = tokens[index]
        start = _start_of_name(tokens, index)
        if start == index and token.kind == WORD and token.text in self.dialect.keywords:
            return
        if start == 1 and _text(tokens, 0) == "pragma":
            return  # DuckDB's, of which the name is known by now
        before = tokens[start - 1] if start else None
        is_bare = before is not None and before.kind == WORD
        if before is not None and (before.kind == "::" or (is_bare and before.text == "as")):
            return  # a type with a length, or a new name with columns
        schema = ".".join(part.text for part in tokens[start:index:2])
        if self._is_known(token, schema, is_method=before is not None and before.kind == "."):
            return
        if start == index and before is not None:
            if (is_bare and before.text in ("with", "recursive")) or (
                before.kind == "," and _defines(tokens, index, self.dialect.queries)
            ):
                defined.add(token.text)
                return
            if before.kind == ")" and self._gives_rows(tokens, closed.get(start - 1, -1)):
                return
        name = (f"{schema}.{token.text}" if schema else token.text)[:LONGEST_NAME]
        if token.kind == ESCAPED_NAME:
            raise placed(sql, token.start, "the name of a function may not be written with escapes")
        near = near_matches(token.text, sorted(self._functions)) if len(token.text) <= LONGEST_NAME else []
        hint = f'If it is, the operator can add "{name}" to "allowed_functions" in the settings of the node.'
        raise refusal(
            f'the function "{name}" is not known to only read',
            hint=f"Did you mean {' or '.join(near)}? {hint}" if near else hint,
            function=name,
        )

    def _gives_rows(self, tokens: Sequence[SqlToken], opener: int) -> bool:
        """Whether the brackets behind the token at `opener` hold a query or a function's arguments, which may get an alias."""
        if opener < 0:
            return False
        before = tokens[opener]
        if before.kind == WORD and before.text in self.dialect.keywords:
            return before.text in _ROWS or before.text in self._functions
        return before.kind in _NAMES or before.kind in (",", "(")

    def _is_known(self, token: SqlToken, schema: str, *, is_method: bool) -> bool:
        rules = self.dialect
        text = token.text if token.kind == WORD or rules.exact_quotes else token.text.lower()
        if text in self._functions:
            return rules.own_schemas is None or (not is_method and (not schema or schema in rules.own_schemas))
        full = (f"{schema}.{text}" if schema else text).lower()
        return token.kind != ESCAPED_NAME and any(fnmatchcase(full, pattern) for pattern in self._patterns)


def _check_attribute(
    tokens: Sequence[SqlToken], index: int, catalog: str | None, known: frozenset[str], refused: frozenset[str]
) -> None:
    """Refuse calls by attribute: PostgreSQL calls a function for `x.f` if there is no column `f`. `catalog`: a schema."""
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if after is None or after.kind not in _NAMES or _text(tokens, index + 2) == "(":
        return
    if index and catalog is not None and tokens[index - 1].kind in _NAMES and tokens[index - 1].text == catalog:
        return
    name = after.text.lower()
    may_act = name in refused or (name.startswith(("pg_", "dblink")) and name not in known)
    if may_act or after.kind == ESCAPED_NAME:
        raise refusal(f'".{name[:LONGEST_NAME]}" may call the function of that name', function=name[:LONGEST_NAME])


def _only_qualifies(tokens: Sequence[SqlToken], name: str) -> bool:
    """Whether a name stands only before a dot, and no name is written with escapes, which may say it."""
    if any(token.kind == ESCAPED_NAME for token in tokens):
        return False
    places = [index for index, token in enumerate(tokens) if token.text == name]
    return all(_text(tokens, index + 1) == "." for index in places)


_SUSPECT: Final = frozenset({"into", "for", "lock", "delete", "insert", "update", "next"})
_NOTED: Final = _SUSPECT | _TABLE_FOLLOWS | _AFTER_TABLES | {"as"}
_LOCKS: Final = {"lock": "LOCK IN SHARE MODE takes locks", "next": "NEXT VALUE FOR moves a sequence on"}
_AFTER_COLUMN: Final = words(
    """from as asc desc nulls and or not is in like between limit offset order group having union where end then else when
    collate"""
)
"""What may follow a column that has the name `update`, and no UPDATE."""

_SPECIAL: Final = frozenset({"extract", "trim", "substring", "overlay", "position"})
"""Functions whose arguments have FROM between them."""

_QUERY_FOLLOWS: Final = frozenset({"(", "materialized", "not"})
_ROWS: Final = frozenset({"from", "join", "lateral", "values", "unnest", "json_table", "xmltable", "pivot", "unpivot"})
"""Keywords before brackets that hold rows."""


def _written(sql: str, token: SqlToken) -> str:
    return sql[token.start : token.start + min(len(token.text) or 20, 40)]


def _text(tokens: Sequence[SqlToken], index: int) -> str:
    """The word or the sign at a position; empty for a quoted name."""
    if not 0 <= index < len(tokens) or tokens[index].kind in (NAME, ESCAPED_NAME):
        return ""
    return tokens[index].text


def _one_statement(sql: str, tokens: list[SqlToken]) -> list[SqlToken]:
    end = len(tokens)
    while end and tokens[end - 1].kind == ";":
        end -= 1
    found = tokens[:end]
    if not found:
        raise InvalidArguments.at("/input/sql", "expected a statement")
    several = next((token for token in found if token.kind == ";"), None)
    if several is not None:
        raise placed(sql, several.start, "expected one statement, not several", "Send them one by one.")
    return found


def _start_of_name(tokens: Sequence[SqlToken], index: int) -> int:
    """The position of the first part of `a.b.c`, whose `c` stands at `index`."""
    while index > 1 and tokens[index - 1].kind == "." and tokens[index - 2].kind in (WORD, NAME):
        index -= 2
    return index


def _compares(tokens: Sequence[SqlToken], index: int) -> bool:
    """Whether the FROM at `index` is that of IS [NOT] DISTINCT FROM."""
    return (
        _text(tokens, index) == "from" and _text(tokens, index - 1) == "distinct" and _text(tokens, index - 2) in ("is", "not")
    )


def _end_of_names(tokens: Sequence[SqlToken], at: int) -> int:
    """The place behind `a, b)`, which begins at `at`; 0 if something else stands there."""
    while at < len(tokens) and tokens[at].kind in (WORD, NAME) and _text(tokens, at + 1) == ",":
        at += 2
    is_end = at + 1 < len(tokens) and tokens[at].kind in (WORD, NAME) and tokens[at + 1].kind == ")"
    return at + 2 if is_end else 0


def _defines(tokens: Sequence[SqlToken], index: int, queries: frozenset[str]) -> bool:
    """Whether `name(a, b) AS (SELECT` stands here: a further query of WITH. Columns of a function have types."""
    at = _end_of_names(tokens, index + 2)
    if at and [_text(tokens, place) for place in (at, at + 1, at + 2)] == ["using", "key", "("]:  # of DuckDB
        at = _end_of_names(tokens, at + 3)
    if not at or _text(tokens, at) != "as":
        return False
    at += 1
    at += _text(tokens, at) == "not"
    at += _text(tokens, at) == "materialized"
    if _text(tokens, at) != "(":
        return False
    first = _text(tokens, at + 1)
    return first == "(" or (first in queries and (first != "values" or _text(tokens, at + 2) == "("))
