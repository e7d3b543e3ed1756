"""`rrext tool`: one call of one tool."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from rrext.cli.options import add_pipeline_options, add_source, add_wait_option, seconds
from rrext.cli.pipeline import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Pipeline, is_cancel, named, run_work
from rrext.cli.report import print_error
from rrext.cli.results import Results
from rrext.cli.tool_feed import ToolFeed, write_value
from rrext.engine.interface.operations import Tool
from rrext.errors import ParseError, RrextError
from rrext.limits import DEFAULTS

EXAMPLE = """examples:
  rrext tool pipeline.pipe read_file --input '{"path": "notes.txt"}'
  rrext tool pipeline.pipe read_file --input @request.json | jq .content
  rrext tool --at unix:/tmp/rrext.sock read_file --input '{"path": "notes.txt"}'
  echo '{"path": "."}' | rrext tool pipeline.pipe list_directory --node files_1 --input -

The result is one JSON value on stdout; a generator's is the list of its chunks. Bytes are a base64 string. Progress,
errors and whatever the tool prints are on stderr. Ctrl-C cancels the tool.

Exit code 0: done. 1: the tool failed, or came too late. 2: nothing was called, because the command, the pipeline, the
tool's name or its input is wrong. 130: cancelled by Ctrl-C.
"""
CALL_IS_WRONG = ("invalid_arguments", "node_not_found", "tool_not_found", "TASK_AMBIGUOUS", "TASK_NOT_REGISTERED")


class _ToolAnswer(msgspec.Struct):
    """The answer to a tool call; the result stays encoded."""

    result: msgspec.Raw


def add_parser(commands: Any, *, at: bool) -> None:
    """Add the command to the parser of `rrext`; `at`: a server is used."""
    parser = commands.add_parser(
        "tool",
        help="call one tool of a pipeline",
        description="Call one tool of a pipeline, in this process or of a server that runs.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source(parser, at=at)
    parser.add_argument("tool", metavar="TOOL", help="the tool's name; `rrext tools FILE.pipe` lists them")
    parser.add_argument("--node", default="", metavar="ID", help="the node that is asked; else the first one that has the tool")
    parser.add_argument(
        "--input", metavar="JSON|@FILE|-", help="the tool's input: JSON, @ and a file of it, or - for stdin; else {}"
    )
    parser.add_argument("--timeout", type=call_timeout, metavar="S", help="seconds after which the tool is stopped")
    parser.add_argument(
        "--stream", action="store_true", help='each chunk at once, as a line {"chunk": …}; then a line {"result": …}'
    )
    parser.add_argument("--raw", action="store_true", help="write text and bytes as they are instead of as JSON")
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Call the tool and print its result; returns the exit code."""
    try:
        given = _input(args.input)
    except OSError as error:
        print(f"rrext: --input: {error.filename or 'stdin'}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except ParseError as error:
        print(f"rrext: --input: {error.message.replace('the body', 'it')}", file=sys.stderr)
        return EXIT_USAGE

    async def work(pipeline: Pipeline, results: Results) -> int:
        return await _call(args, given, pipeline, results)

    return run_work(args, work)


async def _call(args: argparse.Namespace, given: Any, pipeline: Pipeline, results: Results) -> int:
    operation = Tool(tool=args.tool, node_id=args.node, input=given, timeout=args.timeout, progress=True, stream=args.stream)
    feed = ToolFeed(results, lambda chunk, data: write_value(results, "chunk", chunk, data, raw=args.raw))
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
    if not (args.stream and args.raw and encoded == b"null"):  # a generator without a return value
        write_value(results, "result" if args.stream else None, encoded, data, raw=args.raw)
    return EXIT_DONE


def _put_hint(error: RrextError, pipeline: str) -> None:
    """Add a hint in the words of the command line."""
    if error.code == "tool_not_found" and not error.hint:
        error.hint = f"`rrext tools {pipeline}` lists the tools"
    elif error.code == "result_too_large" and error.hint:
        error.hint = error.hint.replace("`stream: true`", "`--stream`")


def _input(text: str | None) -> Any:
    """The value of `--input`. Raises `OSError` and `ParseError`."""
    from rrext.wire.codec import decode

    if text is None:
        return {}
    if text == "-":
        with open(0, "rb", closefd=False) as stdin:  # not sys.stdin, which is None where it is closed
            return decode(stdin.read())
    if text.startswith("@"):
        with open(text[1:], "rb") as file:
            return decode(file.read())
    return decode(text.encode("utf-8", "surrogateescape"))


def call_timeout(text: str) -> float:
    """An argparse type: the timeout of a call."""
    value = seconds(text)
    if value > DEFAULTS.max_timeout:
        raise argparse.ArgumentTypeError(f"expected at most {DEFAULTS.max_timeout:g} seconds, not {text!r}")
    return value
