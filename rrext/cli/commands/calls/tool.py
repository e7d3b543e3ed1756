"""`rrext tool`: one call of one tool, from the words of its input to the output of its result.

The input is JSON, or `key=value` words whose types the tool's schema says. A tool gives progress for the user, chunks for
programs, and a result as JSON, rows or raw bytes. Questions of a tool to its user are answered at the terminal.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, TypeAlias

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import ProgressLine, amount, terminal_width
from rrext.cli.console.output import Results, print_error
from rrext.cli.options import (
    Command,
    add_caller_options,
    add_pipeline_options,
    add_source,
    add_wait_option,
    let_words_follow_options,
    seconds,
)
from rrext.cli.pipeline import Pipeline, is_cancel, named, run_work
from rrext.cli.tracing import add_trace_options
from rrext.columns import cut, one_line, printable
from rrext.engine.interface.operations import ListTools, Tool
from rrext.errors import NotFound, ParseError, RrextError, UsageError, near_matches
from rrext.limits import DEFAULTS
from rrext.pipefile.text.problems import below, parts_of, value_at
from rrext.wire.codec import decode

DESCRIPTION = "Call one tool of a pipeline, in this process or of a server that runs."
EXAMPLE = """examples:
  rrext tool pipeline.pipe read_file path=notes.txt
  rrext tool pipeline.pipe query sql='select * from visit where people > $1' params:='[40]' --csv
  rrext tool pipeline.pipe upsert documents:=@chunks.json
  rrext tool pipeline.pipe read_file '{"path": "notes.txt"}'
  rrext tool pipeline.pipe read_file path=notes.txt --field content --raw
  rrext tool --at unix:/tmp/rrext.sock read_file path=notes.txt
  echo '{"path": "."}' | rrext tool pipeline.pipe list_directory --node files_1 -

The input is KEY=VALUE words, or one JSON value: itself, @ and a file of it, or - for stdin; else {}. The tool's schema
says whether a VALUE is a text, a number, true or false, or a list, which a repeated KEY makes too. KEY:=JSON takes
JSON as it is, KEY=@FILE the content of a file.

Rows are a table on a terminal; other members of the result are on stderr then. Any other result is one JSON value on
stdout; a generator's is the list of its chunks. Bytes are a base64 string. Progress, errors and whatever the tool prints
are on stderr. Ctrl-C cancels the tool. Questions of a tool to its user are asked at the terminal.

Exit code 0: done. 1: the tool failed, or came too late. 2: nothing was called, because the command, the pipeline, the
tool's name or its input is wrong. 130: cancelled by Ctrl-C.
"""
CALL_IS_WRONG = ("invalid_arguments", "node_not_found", "tool_not_found", "TASK_AMBIGUOUS", "TASK_NOT_REGISTERED")


class _ToolAnswer(msgspec.Struct):
    """The answer to a tool call; the result stays encoded."""

    result: msgspec.Raw


def add_arguments(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments of the command; `at`: a server is used."""
    add_source(parser, at=at)
    parser.add_argument("tool", metavar="TOOL", help="the tool's name; `rrext tools FILE.pipe` lists them")
    parser.add_argument("--node", default="", metavar="ID", help="the node that is asked; needed if several have the tool")
    parser.add_argument("words", nargs="*", default=[], metavar="KEY=VALUE|JSON", help="the tool's input; see below")
    parser.add_argument("--input", metavar="JSON|@FILE|-", help="the same input as one JSON value, for programs")
    parser.add_argument("--timeout", type=call_timeout, metavar="S", help="seconds after which the tool is stopped")
    parser.add_argument(
        "--stream", action="store_true", help='each chunk at once, as a line {"chunk": …}; then a line {"result": …}'
    )
    parser.add_argument(
        "--events", action="store_true", help="the calls within this one, each event as a line of JSON on stderr"
    )
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--raw", action="store_true", help="write text and bytes as they are instead of as JSON")
    formats.add_argument(
        "--content", action="store_true", help="the result as blocks: texts, images, links, with all that the tool said of them"
    )
    for name, text in (
        ("table", "rows as aligned columns; the default for rows on a terminal"),
        ("csv", "rows as comma-separated values"),
        ("json", "JSON; the default elsewhere"),
    ):
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=text)
    parser.add_argument("--field", metavar="PATH", help="the value there in the result alone, as rows/0/name or /rows/0/name")
    add_caller_options(parser)
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)
        add_trace_options(parser)
    let_words_follow_options(parser, "words")


def run(args: argparse.Namespace) -> int:
    """Call the tool and print its result; returns the exit code."""
    words: list[str] = args.words
    if args.field is not None and (args.stream or args.content):
        print("rrext: --field picks from a whole result: leave out --stream and --content", file=sys.stderr)
        return EXIT_USAGE
    if args.stream and args.format in ("table", "csv"):
        print(f"rrext: --stream writes lines of JSON, so it does not go with --{args.format}", file=sys.stderr)
        return EXIT_USAGE
    if words and args.input is not None:
        print(f"rrext: the input is given twice: by --input and by {words[0]}", file=sys.stderr)
        return EXIT_USAGE
    about = "input" if words else "--input"
    try:
        given = None if is_pairs(words) else json_input(words[0] if words else args.input)
    except OSError as error:
        print(f"rrext: {about}: {error.filename or 'stdin'}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except ParseError as error:
        meant = f"; KEY=VALUE names a member, as in `path={words[0]}`" if words and words[0][:1].isalnum() else ""
        print(f"rrext: {about}: {error.message.replace('the body', 'it')}{meant}", file=sys.stderr)
        return EXIT_USAGE

    can_ask = os.isatty(0) and os.isatty(2)  # by a descriptor that no child of a tool has; 0 becomes the null device
    keyboard = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3) if can_ask else None

    async def work(pipeline: Pipeline, results: Results) -> int:
        return await _call(args, given, pipeline, results, keyboard)

    return run_work(args, work)


TOOL = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


async def _call(args: argparse.Namespace, given: Any, pipeline: Pipeline, results: Results, keyboard: int | None) -> int:
    try:
        if is_pairs(args.words):
            given = input_of_pairs(args.words, await _input_schema(args, pipeline))
    except OSError as error:
        print(f"rrext: {error.filename}: {error.strerror}; a text that begins with @ is KEY:='\"@…\"'", file=sys.stderr)
        return EXIT_USAGE
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE
    operation = Tool(
        tool=args.tool,
        node_id=args.node,
        unique=True,
        input=given,
        timeout=args.timeout,
        progress=True,
        stream=args.stream,
        events=args.events or None,
        permits=True,
        questions=None if keyboard is None else ["form", "url"],
        content=args.content or None,
    )
    feed = ToolFeed(results, lambda chunk, data: write_value(results, "chunk", chunk, data, raw=args.raw), keyboard)
    try:
        body, data = await feed.run(pipeline, operation)
    except RrextError as error:
        await _put_pair(error, args, given, pipeline)
        _put_hint(error, named(args))
        print_error(error)
        return EXIT_USAGE if error.code in CALL_IS_WRONG else EXIT_FAILED
    except BaseException as error:
        if is_cancel(error):
            sys.stderr.write("rrext: cancelled\n")
        raise
    encoded = _result(args.field, body, data)
    if encoded is None:
        return EXIT_FAILED
    wanted = args.format or ("table" if results.is_terminal and not (args.raw or args.content or args.stream) else "json")
    if wanted != "json":
        found = rows_in(msgspec.json.decode(encoded)) if data is None else None
        if found is not None:
            write_rows(results, found, wanted)
            return EXIT_DONE
        if args.format is not None:
            shown = "bytes" if data is not None else encoded.decode()
            print(f"rrext: the result has no rows for --{wanted}: {printable(shown)}", file=sys.stderr)
            return EXIT_FAILED
    if not (args.stream and args.raw and encoded == b"null"):  # a generator without a return value
        write_value(results, "result" if args.stream else None, encoded, data, raw=args.raw)
    return EXIT_DONE


def _result(path: str | None, body: bytes, data: bytes | None) -> bytes | None:
    """The result, or the value at a path of it, encoded; None after a message that says how far the path leads."""
    if data is not None:
        if path is not None:
            print("rrext: --field: the result is bytes", file=sys.stderr)
        return b"" if path is None else None
    encoded = bytes(msgspec.json.decode(body, type=_ToolAnswer).result)
    if path is None:
        return encoded
    value, at = msgspec.json.decode(encoded), ""
    parts = parts_of(path if path[:1] in ("", "/") else f"/{path}")
    for part in parts:
        inner = value_at(value, below("", part))
        if inner is msgspec.UNSET:
            names = list(value) if isinstance(value, dict) else []
            near = near_matches(part, names)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            print(printable(f"rrext: --field: {at or 'the result'} has no {part}{meant}"), file=sys.stderr)
            return None
        value, at = inner, below(at, part)
    return msgspec.json.encode(value)


def _put_hint(error: RrextError, pipeline: str) -> None:
    """Add a hint in the words of the command line."""
    if error.code == "tool_not_found" and not error.hint:
        error.hint = f"`rrext tools {pipeline}` lists the tools"
    elif error.code == "invalid_arguments" and "nodes" in error.data:
        error.hint = f"--node ID says which one is asked: {', '.join(error.data['nodes'])}"
    elif error.code == "result_too_large" and error.hint:
        error.hint = error.hint.replace("`stream: true`", "`--stream`")


async def _put_pair(error: RrextError, args: argparse.Namespace, given: Any, pipeline: Pipeline) -> None:
    """Add how a word that is a value alone becomes a member of the input."""
    if error.code != "invalid_arguments" or error.hint or not args.words or isinstance(given, dict):
        return
    schema, word = await _input_schema(args, pipeline), args.words[0]
    names: list[str] = schema.get("required") or list(schema.get("properties", {}))
    if names:
        error.hint = f"write {names[0]}={word}" if len(names) == 1 else f"write KEY={word} with one of {', '.join(names)}"


async def _input_schema(args: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    """The input schema of the tool that the call reaches; an empty one if there is none, as the call itself will say."""
    try:
        body, _ = await pipeline.ask(ListTools(node_id=args.node or None, tool=args.tool))
    except NotFound:
        return {}
    tools = msgspec.json.decode(body)["tools"]
    return tools[0]["inputSchema"] if tools else {}


def call_timeout(text: str) -> float:
    """An argparse type: the timeout of a call."""
    value = seconds(text)
    if value > DEFAULTS.max_timeout:
        raise argparse.ArgumentTypeError(f"expected at most {DEFAULTS.max_timeout:g} seconds, not {text!r}")
    return value


_PAIR: Final = re.compile(r"([^\s=:{}\[\]\"@-][^\s=:]*)(:?=)(.*)", re.DOTALL)


def json_input(text: str | None) -> Any:
    """The value of a whole input: JSON, `@FILE` with JSON, `-` for stdin; None is `{}`. Raises `OSError`, `ParseError`."""
    if text is None:
        return {}
    if text == "-":
        with open(0, "rb", closefd=False) as stdin:  # not sys.stdin, which is None where it is closed
            return decode(stdin.read())
    return _json(text)


def is_pairs(words: Sequence[str]) -> bool:
    """Whether words are `key=value` pairs, and not one whole input."""
    return len(words) > 1 or (len(words) == 1 and _PAIR.fullmatch(words[0]) is not None)


def input_of_pairs(words: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The object that pairs make: `key=value` has the type that the schema gives `key`, `key:=JSON` is JSON.

    `key=@FILE` is the content of a file. A key that stands several times, or whose type is a list, makes a list. A text that
    does not fit the type stays a text, which the tool's own check refuses with its reason. Raises `UsageError`, `OSError`.
    """
    made: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            raise UsageError(f"{word}: expected KEY=VALUE, KEY:=JSON, or one JSON value alone")
        key, sign, text = pair.groups()
        counts[key] = counts.get(key, 0) + 1
        known = schema.get("properties", {}).get(key, {})
        try:
            value = _json(text) if sign == ":=" else typed(text, known, schema)
        except ParseError as error:
            raise UsageError(f"{key}: {error.message.replace('the body', 'it')}") from None
        if counts[key] > 1:
            value = [*_listed(made[key]), *_listed(value)]
        made[key] = value
    return made


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json(text: str) -> Any:
    if text.startswith("@"):
        return decode(_content(text[1:]))
    return decode(text.encode("utf-8", "surrogateescape"))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def typed(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value of a text for a schema: JSON of one of its types, or else the text itself. Raises `UsageError`, `OSError`."""
    parts = list(_alternatives(schema, root))
    kinds = {kind for part in parts for kind in _kinds(part)}
    if text.startswith("@"):
        content = _content(text[1:])
        if any(part.get("contentEncoding") == "base64" for part in parts):
            return base64.b64encode(content).decode()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{text[1:]} is no UTF-8 text") from None
    if "string" in kinds and kinds <= {"string", "null"}:
        return text
    try:
        value = decode(text.encode("utf-8", "surrogateescape"))
    except ParseError:
        value = text
    if _kind_of(value) in kinds or (_kind_of(value) == "integer" and "number" in kinds):
        return value
    if "array" in kinds:
        items = next(part for part in parts if "array" in _kinds(part)).get("items", {})
        return [typed(text, items, root)]
    return text


def _alternatives(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas that a value may follow, without references."""
    if not isinstance(schema, Mapping):
        yield {}
        return
    if "$ref" in schema:
        schema = root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
    several = schema.get("anyOf") or schema.get("oneOf")
    if several is None:
        yield schema
        return
    for part in several:
        yield from _alternatives(part, root)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema without alternatives takes."""
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if values is not None:
        return {_kind_of(value) for value in values}
    return {"string", "boolean", "integer", "number", "array", "object", "null"}


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"


FIGURES_WIDTH: Final = 16
"""What a score and the gaps take of a table of chunks; the text and the path of its file share the rest."""

MAX_MEMBER_WIDTH: Final = 60
"""Columns of a nested member beside a table, where a list of all paths would hide the table."""

TakeChunk: TypeAlias = Callable[[bytes, bytes | None], None]
"""Writes a chunk, given as JSON or as raw bytes."""


class ToolFeed:
    """Shows progress on stderr, and passes chunks to `take`, one at a time, from worker threads.

    The user is asked at the descriptor `keyboard`, if there is one. `run` makes the call. If `take` raises, as with a closed
    stdout, the call is cancelled and `run` raises the same.
    """

    def __init__(self, results: Results, take: TakeChunk, keyboard: int | None = None) -> None:
        self._results = results
        self._keyboard = keyboard
        self._tool = ""
        self._pipeline = Pipeline()
        self._take = take
        self._progress = ProgressLine()
        self._cancel: Callable[[], object] | None = None
        self._failure: Exception | None = None
        self._lock = Lock()

    async def run(self, pipeline: Pipeline, operation: Tool) -> tuple[bytes, bytes | None]:
        """The body and the raw bytes of the answer. Raises the call's failure, and that of `take`."""
        self._tool, self._pipeline = operation.tool, pipeline
        asked, self._cancel = pipeline.cancellable(pipeline.ask(operation, feed=self))
        try:
            return await asked
        except BaseException:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            self._progress.end()

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Show the progress."""
        self._progress.show(f"{amount(value, total)} {message or ''}".rstrip())

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Pass on a chunk; none is dropped. A slow reader delays the tool."""
        with self._lock:
            if self._failure is not None:
                return
            if self._results.is_terminal:
                self._progress.clear()
            try:
                self._take(chunk, tail)
            except Exception as error:
                self._failure = error
                if self._cancel is not None:
                    self._cancel()

    def call_event(self, body: dict[str, Any]) -> None:
        """Show an event, as a line of JSON."""
        with self._lock:
            if self._results.is_terminal:
                self._progress.clear()
            sys.stderr.write(msgspec.json.encode(body).decode() + "\n")

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Permit the tool that the user named, and none that it calls; ask the user what a tool asks."""
        if event == "rrext_permission":
            return bool(body["tool"] == self._tool)

        assert self._keyboard is not None  # else the call did not offer to ask
        self._progress.clear()
        return await self._pipeline.in_thread(partial(_answer_at, body["params"], self._keyboard))

    def wait_for_room(self) -> None:
        """Return at once: a chunk is passed on before its tool continues."""

    async def room(self) -> None:
        """Yield to the loop once, so that a tool without other waits does not hide signals."""
        from asyncio import sleep  # the caller has imported it

        await sleep(0)

    def end(self) -> None:
        """Do nothing: nothing is kept back."""


def write_value(results: Results, name: str | None, encoded: bytes, data: bytes | None, *, raw: bool) -> None:
    """Write JSON, or the bytes `data`, as a line of JSON: alone, or as the member `name`.

    With `raw`, text and bytes are written unchanged. On a terminal, plain JSON is indented.
    """
    if raw and (content := _binary_content(encoded, data)) is not None:
        results.write(content)
        return
    value = encoded if data is None else msgspec.json.encode(data)
    if raw or name is None:
        results.write_line(msgspec.json.format(value, indent=2) if results.is_terminal else value)
    else:
        results.write_line(b'{"%b":%b}' % (name.encode(), value))


def _binary_content(encoded: bytes, data: bytes | None) -> bytes | None:
    """Text or bytes without their JSON form; None for other values."""
    if data is not None:
        return data
    return msgspec.json.decode(encoded, type=str).encode() if encoded[:1] == b'"' else None


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
    from rrext.cli.console.formats import FORMATS

    is_narrow = results.is_terminal and kind == "table"
    names, rows = found.names, found.rows
    if is_narrow and all(_path_of(row) is not None for row in rows):
        rows = [_of_file(row, (terminal_width() - FIGURES_WIDTH) // 2) for row in rows]
        names = [*rows[0]]
    made = FORMATS[kind](results)
    made.rows(msgspec.json.encode(rows), None)
    made.end(names, [])
    members: list[str] = []
    for name, value in found.rest.items():
        text = msgspec.json.encode(value).decode()
        members.append(f"{name}: {cut(text, MAX_MEMBER_WIDTH) if is_narrow and isinstance(value, dict | list) else text}")
    if members:
        print(printable(", ".join(members)), file=sys.stderr)


def _path_of(row: dict[str, Any]) -> str | None:
    """The path of the file of a stored chunk or object; None for other rows."""
    if row.keys() == {"parent", "objectId", "chunks"}:
        return row["parent"]
    metadata = row.get("metadata") if "content" in row else None
    path = metadata.get("parent") if isinstance(metadata, dict) else None
    return path if isinstance(path, str) else None


def _of_file(row: dict[str, Any], width: int) -> dict[str, Any]:
    """A chunk or an object with its file in the place of its metadata, of which a terminal has room for the beginning alone.

    Of a path that does not fit into `width` columns the end is shown, which tells files apart.
    """
    path = cut((_path_of(row) or "")[::-1], width)[::-1]
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("metadata", "parent"):
            shown["parent"] = path
        else:
            shown[name] = round(value, 4) if isinstance(value, float) else value
    return shown


CANCELLED: Final = {"action": "cancel"}


def _answer_at(params: Mapping[str, Any], fd: int) -> dict[str, Any]:
    from rrext.cli.console.keyboard import TypedLines  # few tools ask, and it imports asyncio

    with TypedLines(fd) as lines:
        return answer(params, lines)


def answer(params: Mapping[str, Any], lines: Iterable[str]) -> dict[str, Any]:
    """The user's answer to the parameters of `elicitation/create`: `{action, content?}`. The end of the lines cancels.

    Text for a field is read as `rrext tool` reads the value of a KEY; an empty line stands for its default, or for none.
    """
    sys.stderr.write(f"{printable(str(params.get('message', '')))}\n")
    if params.get("mode") == "url":
        sys.stderr.write(f"{one_line(str(params.get('url')))}\n")
        return _agreed(lines, "Open this page, and go on? [y/n] ", {"action": "accept"})
    schema = params.get("requestedSchema")
    schema = schema if isinstance(schema, dict) else {}
    content: dict[str, Any] = {}
    for name, field in _fields(schema):
        text = _line(lines, f"{one_line(_label(name, field, schema))}: ")
        if text is None:
            return CANCELLED
        if text:
            content[name] = typed({"y": "true", "n": "false"}.get(text, text), field, schema)
        elif "default" in field:
            content[name] = field["default"]
    return _agreed(lines, "Send this? [y/n] ", {"action": "accept", "content": content})


def _agreed(lines: Iterable[str], prompt: str, answer: dict[str, Any]) -> dict[str, Any]:
    said = _line(lines, prompt)
    return CANCELLED if said is None else answer if said.lower() in ("y", "yes") else {"action": "decline"}


def _line(lines: Iterable[str], prompt: str) -> str | None:
    """The line that the user types; None at the end of the input."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = next(iter(lines), None)
    return None if line is None else line.strip()


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    fields = schema.get("properties")
    found = fields if isinstance(fields, dict) else {}
    return [(name, field if isinstance(field, dict) else {}) for name, field in found.items()]


def _label(name: str, field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The prompt of a field: its title, its allowed values, its default."""
    required = schema.get("required")
    notes = [str(field["description"])] if field.get("description") else []
    choices = field.get("enum") or [each.get("const") for each in field.get("oneOf", ()) if isinstance(each, dict)]
    if isinstance(choices, list) and choices:
        notes.append("one of " + ", ".join(map(str, choices)))
    elif field.get("type") == "boolean":
        notes.append("y or n")
    if "default" in field:
        notes.append(f"else {field['default']}")
    elif isinstance(required, list) and name in required:
        notes.append("needed")
    return f"{field.get('title') or name} ({'; '.join(notes)})" if notes else str(field.get("title") or name)
