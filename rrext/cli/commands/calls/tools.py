"""`rrext tools`: the tools of a pipeline with their parameters."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import terminal_width
from rrext.cli.console.output import Results, print_error
from rrext.cli.console.tables import table
from rrext.cli.options import Command, add_caller_options, add_pipeline_options, add_source
from rrext.cli.pipeline import Pipeline, named, run_work
from rrext.columns import printable
from rrext.engine.interface.operations import ANY_TOOL, ListTools
from rrext.errors import RrextError

MAX_LISTED_VALUES: Final = 5
"""Values of an enumeration in the table; `--json` has all."""

DESCRIPTION = "List the tools of a pipeline that can be called."
EXAMPLE = """examples:
  rrext tools pipeline.pipe
  rrext tools --at unix:/tmp/rrext.sock
  rrext tools pipeline.pipe --node files_1 --json | jq -r '.tools[].name'
  rrext tools pipeline.pipe --format openai-strict > tools.json

Nodes are set up, because only then it is known which of their tools can be called; why one cannot is said on stderr,
or in the log of the server.

Exit code 0: done. 1: a tool cannot be described; it is named on stderr, and the others are listed.
2: the pipeline is invalid, or has no such node.
"""
HEADS = ("TOOL", "NODE", "PARAMETERS", "DESCRIPTION")


def add_arguments(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments of the command; `at`: a server is used."""
    add_source(parser, at=at)
    parser.add_argument("--node", metavar="ID", help="the tools of this node alone")
    parser.add_argument("--json", action="store_true", help="{tools: […]} with whole descriptions and schemas")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="{tools: […]} for a model: openai, openai-strict, anthropic or mcp; `rrext tool` accepts their names",
    )
    add_caller_options(parser)
    if not at:
        add_pipeline_options(parser)


def run(args: argparse.Namespace) -> int:
    """List the tools; returns the exit code."""

    async def work(pipeline: Pipeline, results: Results) -> int:
        return await _list(args, pipeline, results)

    return run_work(args, work)


TOOLS = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


async def _list(args: argparse.Namespace, pipeline: Pipeline, results: Results) -> int:
    try:
        body, _ = await pipeline.ask(ListTools(node_id=args.node, format=args.format))
    except RrextError as error:
        error.message = error.message.replace("/format:", "--format:", 1)
        print_error(error)
        return EXIT_USAGE
    for failure in pipeline.setup_failures():
        print_error(failure)
    listed = msgspec.json.decode(body)
    tools, undescribed = listed["tools"], listed.get("undescribed", ())
    for tool in undescribed:
        where = f'node "{tool["nodeId"]}"'
        is_any = tool["name"] == ANY_TOOL
        about = f"{where} lists not all of its tools" if is_any else f'tool "{tool["name"]}" of {where} is not listed'
        print(printable(f"rrext: {about}: {tool['message']} [{tool['code']}]"), file=sys.stderr)
    code = EXIT_FAILED if undescribed else EXIT_DONE
    if args.json or args.format is not None:
        results.write_line(msgspec.json.format(body, indent=2) if results.is_terminal else body)
        return code
    if not tools:
        where = f'node "{args.node}"' if args.node else named(args)
        print(f"rrext: {where} has no tool that can be called", file=sys.stderr)
        return code
    rows = [(tool["name"], tool["nodeId"], signature(tool["inputSchema"]), _first_line(tool)) for tool in tools]
    width = terminal_width() if results.is_terminal else None
    bold = results.is_terminal and os.environ.get("TERM") != "dumb"
    for line in table(HEADS, rows, width=width, bold=bold):
        results.write_line(line.encode("utf-8", "replace"))
    return code


def signature(schema: dict[str, Any]) -> str:
    """The parameters of an input schema in one line: `path: string, limit: integer = 100, tail?: boolean`."""
    required = schema.get("required", ())
    parts = [_parameter(name, part, name in required) for name, part in schema.get("properties", {}).items()]
    if not parts and schema.get("type") not in (None, "object"):
        return _type(schema)
    return ", ".join(parts)


def _parameter(name: str, schema: Any, is_required: bool) -> str:
    known = schema if isinstance(schema, dict) else {}
    if is_required:
        return f"{name}: {_type(known)}"
    if known.get("default") is not None:
        return f"{name}: {_type(known)} = {_value(known['default'])}"
    return f"{name}?: {_type(known)}"


def _type(schema: Any) -> str:
    """A schema in a few words."""
    if not isinstance(schema, dict) or not schema:
        return "any"
    if "enum" in schema:
        values = [_value(value) for value in schema["enum"]]
        return " | ".join([*values[:MAX_LISTED_VALUES], *(["…"] if len(values) > MAX_LISTED_VALUES else [])])
    if "const" in schema:
        return _value(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    kinds = schema.get("type")
    if alternatives is not None or isinstance(kinds, list):
        names = [_type(part) for part in alternatives] if alternatives is not None else [str(kind) for kind in kinds or ()]
        return " | ".join(name for name in dict.fromkeys(names) if name != "null") or "null"
    if kinds == "array":
        item = _type(schema.get("items"))
        return f"({item})[]" if "|" in item else f"{item}[]"
    return str(kinds or "any")


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else f"{text[:39]}…"


def _first_line(tool: dict[str, Any]) -> str:
    lines: Iterator[str] = (line.strip() for line in (tool.get("description") or "").splitlines())
    return next((line for line in lines if line), "")
