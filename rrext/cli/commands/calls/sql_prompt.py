"""The prompt of `rrext sql`: history, completion of tables, columns, keywords and functions, commands with a backslash."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.cli.commands.calls.sql_database import (
    Statement,
    StatementRunner,
    database_of,
    print_failure,
    script,
    statements,
    value_of,
    with_values,
)
from rrext.cli.commands.calls.tool import CALL_IS_WRONG
from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.formats import FORMATS, Format, Records, TableFormat
from rrext.cli.console.keyboard import Keyboard, history, why_no_prompt
from rrext.cli.console.output import Results, print_error
from rrext.cli.console.result_files import ResultFile
from rrext.cli.options import seconds
from rrext.cli.pipeline import Pipeline
from rrext.columns import printable
from rrext.errors import RrextError, near_matches
from rrext.pipefile.environment import PREFIX

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

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


COMMANDS: Final = {
    r"\d": "the tables; \\d TABLE shows one",
    r"\x": "rows as lists of cells, or as tables again",
    r"\timing": "how long statements take",
    r"\i": "run the statements of a file",
    r"\o": "write rows to a file (.csv, .json, .md, .txt, .parquet, .xlsx); \\o alone ends it",
    r"\watch": "run the last statement again and again, every 2 seconds or as many as said, until Ctrl-C",
    r"\e": "edit the last statement, or a file, in $VISUAL or $EDITOR",
    r"\set": "the values of names; \\set NAME VALUE gives one, which is :NAME in statements ($NAME in Cypher)",
    r"\unset": "take the value of a name away",
    r"\q": "end; so does Ctrl-D",
    r"\?": "this list",
}
CHANGES_SCHEMA: Final = frozenset({"create", "drop", "alter", "rename", "commit", "rollback"})


def run_prompt(args: argparse.Namespace) -> int:
    """Read statements and run them until the user ends; returns the exit code."""
    reason = why_no_prompt("give a statement, or -f FILE.sql")
    if reason is not None:
        print(f"rrext: {reason}", file=sys.stderr)
        return EXIT_USAGE
    prompt = Prompt(args)
    if args.at is not None:
        from rrext.cli.remote import run_remotely

        return run_remotely(args, prompt.run, absorbs=prompt.keyboard.absorbs)
    from rrext.cli.local import run_locally

    return run_locally(args, prompt.run, absorbs=prompt.keyboard.absorbs)


WATCH_SECONDS: Final = 2.0
"""Seconds between two runs of `\\watch`, unless it says how many: as psql has it."""


class Prompt:
    """The state of the prompt: the schema names, the output and its format, the last statement, the values of names."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._format = FORMATS[args.format or "table"]
        self._is_expanded = self._is_timed = False
        self._dialect = ""
        self._names = SchemaNames("", {"tables": {}})
        self._last: Statement | None = None
        self._values: dict[str, Any] = {}
        self._file: ResultFile | None = None
        self._typed = ""
        self.keyboard = Keyboard()

    async def run(self, pipeline: Pipeline, results: Results) -> int:
        """Read and run until the end."""
        args = self._args
        try:
            node_id = await database_of(pipeline, args.node)
            database = StatementRunner(pipeline, results, node_id, writes=args.write, timeout=args.timeout, limit=args.limit)
            self._dialect = (await database.call("dialect"))["dialect"]
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE if error.code in CALL_IS_WRONG else EXIT_FAILED
        self.keyboard.begin()
        await self.keyboard.stoppable(self._read_schema(database, "get_schema"))
        print(rf"{node_id} ({self._dialect}). Statements end with ;  \? lists commands, Ctrl-D ends.", file=sys.stderr)
        session = self._session(results)
        try:
            while (text := await self._read(session, database)) is not None:
                if not text.startswith("\\"):
                    await self._run_text(text, database, results)
                elif not await self._command(text, database, results):
                    break
        finally:
            self.keyboard.end()
            self._end_file()
        if database.is_in_transaction:
            await database.roll_back()
            print("the transaction was not committed: it is rolled back", file=sys.stderr)
        return EXIT_DONE

    async def _read(self, session: PromptSession[str], database: StatementRunner) -> str | None:
        """The typed text; None at the end."""
        name = f"{database.node_id}{'*' if database.is_in_transaction else ''}> "
        more = " " * (len(name) - 4) + "...> "
        typed, self._typed = self._typed, ""
        return await self.keyboard.read(session, name, more[-len(name) :], typed)

    async def _run_text(self, text: str, database: StatementRunner, results: Results) -> None:
        """Run statements up to the first that fails."""
        for statement in statements(text, self._dialect):
            self._last = statement
            if not await self._ran(database, statement, results):
                return

    async def _ran(self, database: StatementRunner, statement: Statement, results: Results) -> bool:
        """Run a statement; False if it failed."""
        begun = time.monotonic()
        try:
            return await self.keyboard.stoppable(self._done(database, statement, results))
        except RrextError as error:
            print_failure(error, statement)
            return False
        except OSError as error:
            if self._file is None:
                raise
            print(f"rrext: {printable(self._file.path)}: {error.strerror}", file=sys.stderr)
            return False
        finally:
            if self._is_timed:
                print(f"{(time.monotonic() - begun) * 1000:,.1f} ms", file=sys.stderr)

    async def _done(self, database: StatementRunner, statement: Statement, results: Results) -> None:
        text, params = with_values(statement.text, self._dialect, self._values)
        given = msgspec.structs.replace(statement, text=text)
        await database.run(given, params, self._made(results))
        if statement.first_word in CHANGES_SCHEMA:
            await self._read_schema(database, "refresh_schema")

    def _made(self, results: Results) -> Format:
        if self._file is not None:
            return self._file.made()
        return Records(results) if self._is_expanded else self._format(results)

    async def _read_schema(self, database: StatementRunner, tool: str) -> None:
        try:
            self._names = SchemaNames(self._dialect, await database.call(tool))
        except RrextError as error:
            print_error(error, "no names are completed")

    async def _command(self, text: str, database: StatementRunner, results: Results) -> bool:
        """Run a backslash command; False if it ends the prompt."""
        word, _, rest = text.rstrip("; \t").partition(" ")
        match word:
            case r"\q":
                return False
            case r"\x":
                self._is_expanded = not self._is_expanded
                print(f"expanded display is {'on' if self._is_expanded else 'off'}", file=sys.stderr)
            case r"\timing":
                self._is_timed = not self._is_timed
                print(f"timing is {'on' if self._is_timed else 'off'}", file=sys.stderr)
            case r"\d":
                self._describe(rest.strip(), results)
            case r"\i" | r"\o" | r"\watch" | r"\e" | r"\set" | r"\unset":
                await self._file_or_value(word, rest.strip(), database, results)
            case r"\?":
                results.write("".join(f"{name:8} {text}\n" for name, text in COMMANDS.items()).encode())
            case _:
                near = near_matches(word, COMMANDS)
                print(rf"there is no {word}: {near[0] + ' is near' if near else chr(92) + '? lists commands'}", file=sys.stderr)
        return True

    async def _file_or_value(self, word: str, rest: str, database: StatementRunner, results: Results) -> None:
        """Run a command with a file, a repetition or a value; what is wrong is said, and ends nothing."""
        try:
            match word:
                case r"\i":
                    await self._run_text(_content(rest), database, results)
                case r"\o":
                    self._end_file()
                    self._file = ResultFile(rest) if rest else None
                case r"\watch":
                    await self._watch(rest, database, results)
                case r"\e":
                    self._typed = await edited(rest, "" if self._last is None else f"{self._last.text};")
                case _:
                    self._set(word, rest, results)
        except OSError as error:
            if error.filename is None:  # stdout is gone
                raise
            print(f"rrext: {printable(error.filename)}: {error.strerror}", file=sys.stderr)
        except (RrextError, ValueError) as error:
            print(f"rrext: {getattr(error, 'message', error)}", file=sys.stderr)

    def _end_file(self) -> None:
        """Put the file of `\\o` in its place."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.keep()
            except OSError as error:
                print(f"rrext: {printable(file.path)}: {error.strerror}", file=sys.stderr)
            except RrextError as error:
                print_error(error)
            finally:
                file.drop()

    async def _watch(self, rest: str, database: StatementRunner, results: Results) -> None:
        """Run the last statement again and again. Raises `ValueError` for what is no number of seconds."""
        pause = WATCH_SECONDS
        if rest:
            try:
                pause = seconds(rest)
            except argparse.ArgumentTypeError as error:
                raise ValueError(str(error)) from None
        statement = self._last
        if statement is None:
            raise ValueError("there is no statement yet")

        async def again() -> None:
            while True:
                print(f"-- {time.strftime('%H:%M:%S')}, every {pause:g} s; Ctrl-C ends", file=sys.stderr)
                await self._done(database, statement, results)
                await asyncio.sleep(pause)

        try:
            await self.keyboard.stoppable(again())
        except RrextError as error:
            print_failure(error, statement)

    def _set(self, word: str, rest: str, results: Results) -> None:
        """Give a name a value, take it away, or list them. Raises `ValueError` for what is no name."""
        name, _, text = rest.partition(" ")
        if not name:
            results.write("".join(f"{key} = {_shown(value)}\n" for key, value in self._values.items()).encode())
        elif not _PLAIN.fullmatch(name):
            raise ValueError(f"{printable(name)} is no name: letters, digits and _, and no digit at first")
        elif word == r"\unset":
            self._values.pop(name, None)
        else:
            self._values[name] = value_of(text.strip())

    def _describe(self, table: str, results: Results) -> None:
        """Print the tables, or the columns of one."""
        tables = self._names.tables
        if table and table not in tables:
            near = near_matches(table, tables)
            print(f"there is no table {table}{': did you mean ' + ' or '.join(near) + '?' if near else ''}", file=sys.stderr)
            return
        rows = self._names.table(table) if table else [{"table": name, "columns": ", ".join(tables[name])} for name in tables]
        shown = TableFormat(results)
        shown.rows(msgspec.json.encode(rows), None)
        shown.end(list(rows[0]) if rows else ["table"], [])

    def _session(self, results: Results) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.output import create_output

        prompt = self

        class Known(Completer):
            def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
                for text, length, kind in completions(document.text_before_cursor, document.text, prompt._names):
                    yield Completion(text, start_position=-length, display_meta=kind)

        return PromptSession(
            history=history("sql_history"),
            completer=Known(),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_keys(lambda text: is_complete(text, self._dialect)),
            output=create_output(stdout=results.text()),
        )


def _shown(value: Any) -> str:
    return printable(msgspec.json.encode(value).decode())


def _at_home(path: str) -> str:
    return os.path.expanduser(path)


def _content(path: str) -> str:
    """The text of a file. Raises as `script` does."""
    if not path:
        raise ValueError("give the name of a file")
    return script(_at_home(path), waits=False)


async def edited(path: str, text: str) -> str:
    """What the user's editor leaves: of the file `path`, or else of the `text`. Raises `OSError` and `ValueError`."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    own_variables = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sql") as own:
        own.write(f"{text}\n" if text else "")
        own.flush()
        name = _at_home(path) if path else own.name
        try:
            done = await asyncio.to_thread(subprocess.run, [*editor, name], stdout=2, env=own_variables, check=False)
        except OSError as error:
            raise ValueError(f"{editor[0]}: {error.strerror}; $VISUAL or $EDITOR names your editor") from None
        if done.returncode != 0:
            raise ValueError(f"{editor[0]} ended with {done.returncode}: nothing is taken from it")
        return _content(name).strip()


def is_complete(text: str, dialect: str) -> bool:
    """Whether Enter runs the text: empty, a command, or statements of which the last one ends with `;`."""
    if not text.strip() or text.lstrip().startswith("\\"):
        return True
    found = list(statements(text, dialect))
    return not found or found[-1].is_ended


def _keys(is_done: Any) -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: Any) -> None:
        buffer = event.current_buffer
        if is_done(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys
