"""A database node as `rrext sql` uses it: its tools, which the node offers to every caller, and SQL text split into
statements.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import msgspec

from rrext.cli.commands.calls.tool import ToolFeed
from rrext.cli.console.formats import Format
from rrext.cli.console.output import Results, print_error
from rrext.cli.data_files import FILES
from rrext.cli.pipeline import Pipeline
from rrext.columns import columns, printable
from rrext.engine.interface.operations import ListTools, Tool
from rrext.errors import InvalidArguments, NodeNotFound, RrextError, near_matches
from rrext.limits import MIB
from rrext.nodes import BUILTIN
from rrext.nodes.sql.dialect import BACKTICKED_NAME, ESCAPED_LITERAL, SqlDialect

Params = list[Any] | dict[str, Any] | None
"""The values of a statement: of `$1`, `$2`, …, for Cypher by their names."""


class Statement(msgspec.Struct, frozen=True):
    """One statement without its `;`. `line` is its first line, from 1; `is_ended`: a `;` follows."""

    text: str
    line: int
    is_ended: bool

    @property
    def first_word(self) -> str:
        """The first word in lower case."""
        found = _FIRST.match(self.text, _start(self.text, 0))
        return found[0].lower() if found else ""


_GAP: Final = re.compile(r"(?:\s+|--[^\n]*+|/\*(?!M?!).*?\*/)*+", re.DOTALL)
"""Blanks and comments, except comments that MySQL and MariaDB execute."""

_FIRST: Final = re.compile(r"\w+")

_CYPHER: Final = rf"//[^\n]*|{ESCAPED_LITERAL}|\"(?:[^\"\\]|\\(?:.|\Z))*(?:\"|\Z)|{BACKTICKED_NAME}"
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")

_WITH_BODY: Final = frozenset({"trigger", "procedure", "function", "event"})
"""Objects of CREATE with statements between BEGIN and END."""

_CONTROLS: Final = frozenset({"if", "loop", "while", "repeat"})
"""Words after END that close other blocks than BEGIN and CASE."""


MOST_SCRIPT: Final = 64 * MIB
"""Bytes of the statements of a file or a pipe, which are held in memory: more is a dump, for the database's own client."""


def script(path: str, *, waits: bool) -> str:
    """The statements of a file, or of stdin for `-`. `waits`: it may be a pipe, as of `<(…)`, whose end is waited for.

    Raises `OSError`, and `ValueError` for what is no regular file, no text, or too large.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK)  # without it the open of a pipe waits for a writer
    is_stdin = path == "-" and waits
    shown = "stdin" if is_stdin else printable(path)
    with open(0 if is_stdin else path, "rb", closefd=not is_stdin, opener=lambda name, _: os.open(name, flags)) as file:
        if not waits and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{shown} is no regular file")
        data = file.read(MOST_SCRIPT + 1)
    if len(data) > MOST_SCRIPT:
        raise ValueError(f"{shown} has more than {MOST_SCRIPT // MIB} MiB of statements (MOST_SCRIPT)")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is no UTF-8 text") from None


@lru_cache(maxsize=8)
def _pattern(literals: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<comment>/\*)|(?P<end>;)|{literals}|(?P<word>[^\W\d][\w$]*)", re.DOTALL)


def statements(text: str, dialect: str) -> Iterator[Statement]:
    """The statements of a text, as its dialect reads it, by its name; the last one needs no `;`. Comments alone are none."""
    sql = sql_dialect(dialect)
    find = _pattern(_CYPHER if sql is None else sql.literals).search
    nests = sql is not None and sql.nested_comments
    begin = at = 0
    line, body = 1, _CreateBody()
    while match := find(text, at):
        at = match.end()
        if match["comment"] is not None:
            at = _comment_end(text, at, nests=nests)
        elif match["word"] is not None:
            body.word(match["word"].lower())
        elif match["end"] is not None and not body.depth:
            yield from _statement(text, begin, at - 1, line, is_ended=True)
            line += text.count("\n", begin, at)
            begin, body = at, _CreateBody()
    yield from _statement(text, begin, len(text), line, is_ended=False)


class _CreateBody:
    """The nesting depth inside the BEGIN … END of a CREATE statement."""

    def __init__(self) -> None:
        self.depth = 0
        self._first = self._last = ""
        self._is_there = False

    def word(self, word: str) -> None:
        """Take the next word."""
        self._first = self._first or word
        if self._first == "create":
            self._is_there = self._is_there or word in _WITH_BODY
            if word == "end":
                self.depth = max(0, self.depth - 1)
            elif self._is_there and self._opens(word):
                self.depth += 1
        self._last = word

    def _opens(self, word: str) -> bool:
        return word == "begin" or (word in _CONTROLS if self._last == "end" else word == "case" and self.depth > 0)


def _comment_end(text: str, at: int, *, nests: bool) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, at)):
        at = edge.end()
        depth += (1 if nests else 0) if edge[0] == "/*" else -1
    return at if not depth else len(text)


def _start(text: str, begin: int) -> int:
    """The offset of the first word of the statement at `begin`."""
    return _GAP.match(text, begin).end()  # pyright: ignore[reportOptionalMemberAccess] – it matches nothing at least


def _statement(text: str, begin: int, end: int, line: int, *, is_ended: bool) -> Iterator[Statement]:
    start = _start(text, begin)
    if start < end:
        inner = text[begin:end].lstrip()
        yield Statement(inner.rstrip(), line + text.count("\n", begin, end - len(inner)), is_ended)


def with_values(text: str, dialect: str, values: Mapping[str, Any]) -> tuple[str, Params]:
    """A statement with the values of the names in it, `:NAME`, as parameters; of a graph `$NAME`, which Cypher knows by itself.

    Names without a value stay, and so does a colon that means something else: a cast, a slice, a member.
    """
    sql = sql_dialect(dialect)
    if sql is None:
        used = {match["name"] for match in _named_in(_CYPHER, r"\$").finditer(text)}
        return text, {name: value for name, value in values.items() if name in used} or None
    given: list[Any] = []
    places: dict[str, int] = {}

    def put(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in values:
            return match[0]
        if name not in places:
            given.append(values[name])
            places[name] = len(given)
        return f"${places[name]}"

    made = _named_in(sql.literals, r"(?<![:\w\]\)'\"]):").sub(put, text)
    return made, given or None


@lru_cache(maxsize=8)
def _named_in(literals: str, mark: str) -> re.Pattern[str]:
    return re.compile(rf"/\*.*?(?:\*/|\Z)|{literals}|{mark}(?P<name>[A-Za-z_]\w*)", re.DOTALL)


def sql_dialect(name: str) -> SqlDialect | None:
    """The dialect of the node `db_NAME`; None for another language. Imports the module of the node, and no driver."""
    module, _, node = BUILTIN.get(f"db_{name}", "").partition(":")
    return getattr(import_module(module), node).sql_dialect if module else None


DEFAULT_ROWS: Final = 1000
"""Rows of a table by default."""

MAX_ROWS: Final = 25_000
"""Rows of a table at most: of one answer of a node."""

CHUNK_ROWS: Final = 5000
"""Rows of other forms that are written at once; the node sends fewer large ones."""

NEEDED: Final = frozenset(("query", "query_stream", "dialect", "get_schema"))
"""The tools of a database node."""

ENDS: Final = {"commit": "commit", "end": "commit", "rollback": "rollback", "abort": "rollback"}
"""First word of a statement → the tool that ends the transaction."""

OVER: Final = frozenset({"session_not_found", "transaction_ended", "connection_lost"})
"""Error codes after which no transaction is open."""

_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s+")

_OF_NODES: Final = " in the settings"
"""Words of hints that are of no use for files, which have no settings."""

COUNTS: Final = frozenset({"insert", "update", "delete", "merge", "replace"})
"""First words of statements whose row count is printed even if it is 0."""

SHOWN: Final = frozenset({"line", "column", "near", "statement", "session"})
"""Members of an error's data that its message or hint repeats."""


def value_of(text: str) -> Any:
    """The value that a word of a user stands for: JSON, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


class StatementAnswer(msgspec.Struct):
    """The common members of the answers to statements. Rows stay encoded."""

    columns: list[str] = []
    types: list[str | None] = []
    warnings: list[str] = []
    rows: msgspec.Raw = msgspec.Raw(b"[]")
    truncated: bool = False
    affected_rows: int | None = None
    plan: Any = None


class _Answered(msgspec.Struct):
    result: msgspec.Raw


class _Enough(Exception):
    """The answer has more rows than the limit."""


async def database_of(pipeline: Pipeline, node_id: str | None) -> str:
    """The id of the database node. Raises `RrextError` with the candidates."""
    known = await pipeline.owners_of(NEEDED)
    listed = ", ".join(f"{name} ({provider})" if provider else name for name, provider in known.items())
    if node_id is None and len(known) == 1:
        return next(iter(known))
    if node_id in known:
        return node_id
    if not known:
        raise NodeNotFound("The pipeline has no database", hint="`rrext nodes` lists the nodes that are: db_sqlite and others")
    if node_id is None:
        raise InvalidArguments(f"The pipeline has {len(known)} databases: {listed}", hint="--node ID says which one is asked")
    near = near_matches(node_id, known)
    hint = f"Did you mean {' or '.join(near)}?" if near else None
    raise NodeNotFound(f'The pipeline has no database "{node_id}". There is: {listed}', hint=hint)


class StatementRunner:
    """Runs statements at one node, with its open transaction. `writes`: statements may change data."""

    def __init__(
        self, pipeline: Pipeline, results: Results, node_id: str, *, writes: bool, timeout: float | None, limit: int | None
    ) -> None:
        self._pipeline = pipeline
        self._results = results
        self._writes = writes
        self._timeout = timeout
        self._limit = limit
        self._session: str | None = None
        self.node_id = node_id

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._session is not None

    async def call(self, tool: str, **given: Any) -> Any:
        """The result of a tool of the node."""
        return msgspec.json.decode(await self._ask(Tool(tool=tool, node_id=self.node_id, input=given, timeout=self._timeout)))

    async def run(self, statement: Statement, params: Params, made: Format, *, explain: bool = False) -> None:
        """Run a statement and write its rows. Raises its failure, and `OSError` when stdout is closed."""
        try:
            await self._run(statement, params, made, explain=explain)
        except RrextError as error:
            if self.node_id == FILES and error.hint:
                error.hint = " ".join(part for part in _SENTENCE_END.split(error.hint) if _OF_NODES not in part)
            if error.code == "not_read_only":
                error.hint = f"{error.hint or ''} {await self._way_to_write()}".strip()
            raise

    async def _way_to_write(self) -> str:
        if self.node_id == FILES:
            return "Files are only read."
        body, _ = await self._pipeline.ask(ListTools(node_id=self.node_id))
        if any(tool["name"] == "execute" for tool in msgspec.json.decode(body)["tools"]):
            return "--write runs statements of any kind."
        return f'The node "{self.node_id}" only reads; with "allow_execute": true in its settings, --write runs any statement.'

    async def _run(self, statement: Statement, params: Params, made: Format, *, explain: bool) -> None:
        given: dict[str, Any] = {"sql": statement.text}
        if params:
            given["params"] = params
        if self._writes and not explain:
            await self._execute(statement, given, made)
        elif statement.first_word in {"begin", "start", *ENDS}:
            message = f"{statement.first_word.upper()} is of no use here: statements only read"
            raise InvalidArguments(message, hint="Transactions need --write.")
        elif made.streams and not explain:
            await self._stream(given, made)
        else:
            limit = self._limit or DEFAULT_ROWS
            if limit > MAX_ROWS:
                raise InvalidArguments(f"A table has {MAX_ROWS:,} rows at most", hint="--csv and --json have all of them.")
            answer = await self._answer("query", {**given, "limit": limit, "explain": explain})
            more = f"there are more than {limit:,} rows; --limit N shows more, --csv and --json all"
            self._show(answer, made, more, explain=explain)

    async def roll_back(self) -> None:
        """Roll back the transaction."""
        try:
            await self._end("rollback")
        except RrextError:
            self._session = None  # the transaction has ended already

    async def _execute(self, statement: Statement, given: dict[str, Any], made: Format) -> None:
        word = statement.first_word
        if word in {"begin", "start"}:
            if self._session is not None:
                raise InvalidArguments("There is a transaction already", hint="End it with commit or rollback.")
            self._session = (await self.call("begin"))["session_id"]
            return
        is_savepoint = " to " in f" {' '.join(statement.text.lower().split())} "
        if word in ENDS and not is_savepoint:
            await self._end(ENDS[word])
            return
        if self._session is not None:
            given["session_id"] = self._session
        with self._noting_its_end():
            answer = await self._answer("execute", given)
        self._show(answer, made, "")
        count = answer.affected_rows
        if not answer.columns and (count or word in COUNTS):
            print(f"{count or 0:,} row{'s' if count != 1 else ''} changed", file=sys.stderr)

    async def _end(self, tool: str) -> None:
        if self._session is None:
            raise InvalidArguments("There is no transaction to end", hint="`begin` begins one.")
        with self._noting_its_end():
            await self.call(tool, session_id=self._session)
        self._session = None

    @contextmanager
    def _noting_its_end(self) -> Iterator[None]:
        try:
            yield
        except RrextError as error:
            if error.data.get("session") == "over" or error.code in OVER:
                self._session = None
            raise

    async def _stream(self, given: dict[str, Any], made: Format) -> None:
        count = 0

        def take(chunk: bytes, _: bytes | None) -> None:
            nonlocal count
            room = None if self._limit is None else self._limit - count
            count += made.rows(chunk, room)
            if self._limit is not None and count > self._limit:
                raise _Enough

        given = {**given, "chunk_rows": CHUNK_ROWS}
        operation = self._operation("query_stream", given, stream=True)
        try:
            body, _ = await ToolFeed(self._results, take).run(self._pipeline, operation)
        except _Enough:
            made.end([], [])
            print(f"rrext: there are more than {self._limit:,} rows", file=sys.stderr)
            return
        answer = msgspec.json.decode(msgspec.json.decode(body, type=_Answered).result, type=StatementAnswer)
        made.end(answer.columns, answer.types)
        _print_warnings(answer)

    def _operation(self, tool: str, given: dict[str, Any], *, stream: bool = False) -> Tool:
        """A call of a statement, with its progress for a person who waits."""
        is_watched = sys.stderr is not None and sys.stderr.isatty()
        return Tool(tool=tool, node_id=self.node_id, input=given, timeout=self._timeout, stream=stream, progress=is_watched)

    async def _answer(self, tool: str, given: dict[str, Any]) -> StatementAnswer:
        operation = self._operation(tool, given)
        body, _ = await ToolFeed(self._results, lambda chunk, tail: None).run(self._pipeline, operation)
        return msgspec.json.decode(msgspec.json.decode(body, type=_Answered).result, type=StatementAnswer)

    async def _ask(self, operation: Tool) -> msgspec.Raw:
        body, _ = await self._pipeline.ask(operation)
        return msgspec.json.decode(body, type=_Answered).result

    def _show(self, answer: StatementAnswer, made: Format, cut: str, *, explain: bool = False) -> None:
        if answer.columns and (answer.plan is None or not explain):
            made.rows(bytes(answer.rows), None)
            made.end(answer.columns, answer.types)
        if answer.plan is not None:
            made.plan(answer.plan)
        if answer.truncated:
            print(f"rrext: {cut}", file=sys.stderr)
        _print_warnings(answer)


def _print_warnings(answer: StatementAnswer) -> None:
    for warning in answer.warnings:
        print(f"rrext: warning: {printable(warning)}", file=sys.stderr)


def print_failure(error: RrextError, statement: Statement, about: str = "") -> None:
    """Write the failure of a statement, and its line with a caret if the answer has a position."""
    line, column = error.data.get("line"), error.data.get("column")
    error.data = {name: value for name, value in error.data.items() if name not in SHOWN}
    if error.hint:
        error.hint = error.hint.replace("read with query_stream", "read without --write").replace(
            "read the rows with query_stream", "write the rows with --csv or --json"
        )
    print_error(error, about)
    lines = statement.text.splitlines()
    if isinstance(line, int) and isinstance(column, int) and 1 <= line <= len(lines):
        text = lines[line - 1]
        before = printable(text[: max(0, column - 1)])
        print(f"  {printable(text)}\n  {' ' * columns(before)}^", file=sys.stderr)
