"""`rrext tool`: one call of one tool."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from typing import Any

import msgspec

from rrext.cli.interrupts import is_cancel
from rrext.cli.options import (
    add_caller_options,
    add_pipeline_options,
    add_source,
    add_wait_option,
    let_words_follow_options,
    seconds,
)
from rrext.cli.output import Results
from rrext.cli.pipeline import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Pipeline, named, run_work
from rrext.cli.report import print_error
from rrext.cli.tool_input import input_of_pairs, is_pairs, json_input
from rrext.cli.tool_output import ToolFeed, rows_in, write_rows, write_value
from rrext.columns import printable
from rrext.engine.interface.operations import ListTools, Tool
from rrext.errors import ParseError, RrextError
from rrext.limits import DEFAULTS

DESCRIPTION = "Call one tool of a pipeline, in this process or of a server that runs."
EXAMPLE = """examples:
  rrext tool pipeline.pipe read_file path=notes.txt
  rrext tool pipeline.pipe query sql='select * from visit where people > $1' params:='[40]' --csv
  rrext tool pipeline.pipe upsert documents:=@chunks.json
  rrext tool pipeline.pipe read_file '{"path": "notes.txt"}'
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
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE|JSON", help="the tool's input; see below")
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
    add_caller_options(parser)
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)
    let_words_follow_options(parser, "words")


def run(args: argparse.Namespace) -> int:
    """Call the tool and print its result; returns the exit code."""
    words: list[str] = args.words
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
        _put_hint(error, named(args))
        print_error(error)
        return EXIT_USAGE if error.code in CALL_IS_WRONG else EXIT_FAILED
    except BaseException as error:
        if is_cancel(error):
            sys.stderr.write("rrext: cancelled\n")
        raise
    encoded = b"" if data is not None else bytes(msgspec.json.decode(body, type=_ToolAnswer).result)
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


def _put_hint(error: RrextError, pipeline: str) -> None:
    """Add a hint in the words of the command line."""
    if error.code == "tool_not_found" and not error.hint:
        error.hint = f"`rrext tools {pipeline}` lists the tools"
    elif error.code == "invalid_arguments" and "nodes" in error.data:
        error.hint = f"--node ID says which one is asked: {', '.join(error.data['nodes'])}"
    elif error.code == "result_too_large" and error.hint:
        error.hint = error.hint.replace("`stream: true`", "`--stream`")


async def _input_schema(args: argparse.Namespace, pipeline: Pipeline) -> dict[str, Any]:
    """The input schema of the tool that the call reaches; an empty one if there is none, as the call itself will say."""
    for format in (None, "mcp"):  # own names, then exported ones
        body, _ = await pipeline.ask(ListTools(node_id=args.node or None, format=format))
        for tool in msgspec.json.decode(body)["tools"]:
            if tool["name"] == args.tool:
                return tool["inputSchema"]
    return {}


def call_timeout(text: str) -> float:
    """An argparse type: the timeout of a call."""
    value = seconds(text)
    if value > DEFAULTS.max_timeout:
        raise argparse.ArgumentTypeError(f"expected at most {DEFAULTS.max_timeout:g} seconds, not {text!r}")
    return value
