"""`rrext nodes`: the catalog of nodes, or the definition of one. `rrext schema`: the JSON Schema of pipelines with them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.cli.console.lines import MIN_WRAPPED_WIDTH, terminal_width
from rrext.cli.options import Command, add_nodes_option, catalog_from
from rrext.columns import columns, wrapped

if TYPE_CHECKING:
    from rrext.pipefile.catalog.catalog import Catalog


DESCRIPTION = "List all nodes, or show one: its lanes, its settings with their defaults, its tools with their schemas."
EXAMPLE = """example:
  rrext nodes
  rrext nodes tool_filesystem
  rrext nodes --nodes my_nodes.py weather --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a provider name as in pipeline files")
    parser.add_argument("--json", action="store_true", help="the definitions as JSON, as rrext_services answers them")
    add_nodes_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the catalog or one node; 2 for an unknown name."""
    catalog = catalog_from(args)
    found = catalog.services(args.name)
    definitions = [found] if args.name is not None else list(found["services"].values())
    for definition in definitions:
        _add_availability(catalog, definition)
    width = terminal_width() if sys.stdout.isatty() else None
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif args.name is not None:
        print(*(part for line in _details(found) for part in _fitted(line, width)), sep="\n")
    else:
        print(*_table(definitions, width), sep="\n")
    for conflict in catalog.conflicts:
        print(f"rrext: {conflict}; the first one is used", file=sys.stderr)
    return 0


NODES = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _add_availability(catalog: Catalog, definition: dict[str, Any]) -> None:
    """Add the reason why a node cannot run on this machine, if any."""
    if "unavailable" in definition:
        return
    try:
        reason = catalog.class_of(definition["prefix"]).unavailable()
    except Exception as error:  # a node's own code
        reason = f"{type(error).__name__}: {error}"
    if reason is not None:
        definition["unavailable"] = reason


def _table(definitions: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    """Each node with its name, its lanes and its tools: in one line, or wrapped to a width."""
    indent = max((len(definition["prefix"]) for definition in definitions), default=0) + 2
    for definition in definitions:
        parts = [*_lanes(definition["lanes"])]
        tools = [tool["name"] for tool in definition["tools"]]
        if tools:
            parts.append(f"tools: {', '.join(tools)}")
        if "unavailable" in definition:
            parts.append(f"(not available here: {_first_line(definition['unavailable'])})")
        text = "; ".join(parts) or "-"
        first, *more = [text] if width is None else wrapped(text, max(width - indent, MIN_WRAPPED_WIDTH))
        yield f"{definition['prefix']:<{indent}}{first}"
        yield from (" " * indent + line for line in more)


def _fitted(line: str, width: int | None) -> Iterator[str]:
    """A line, in several with a deeper indent if it is wider than `width`."""
    if width is None or columns(line) <= width:
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()))
    first, *more = wrapped(line, max(width - len(indent) - 4, MIN_WRAPPED_WIDTH))
    yield indent + first
    yield from (f"{indent}    {part}" for part in more)


def _details(definition: dict[str, Any]) -> Iterator[str]:
    """The definition of one node as text."""
    yield f"{definition['prefix']}: {definition['title']}"
    if "unavailable" in definition:
        yield f"  not available here: {definition['unavailable']}"
    for line in definition["description"].splitlines():
        yield f"  {line}".rstrip()
    if definition.get("aliases"):
        yield f"\nother names: {', '.join(definition['aliases'])}"
    for title, lines in (
        ("lanes", list(_lanes(definition["lanes"]))),
        ("class types", definition["classType"]),
        ("wants bound to it by control", list(_slots(definition.get("invoke", {})))),
        ("config", list(_fields(definition.get("fields", {})))),
        ("profiles", list(_profiles(definition.get("preconfig", {})))),
        ("tools", list(_tools(definition["tools"]))),
    ):
        if lines:
            yield f"\n{title}"
            yield from (f"  {line}".rstrip() for line in lines)


def _lanes(lanes: Mapping[str, list[str]]) -> Iterator[str]:
    for lane, outs in lanes.items():
        if lane == "_source":
            yield f"sends {', '.join(outs) or 'nothing'}"
        elif outs:
            yield f"{lane} → {', '.join(outs)}"
    taken = [lane for lane, outs in lanes.items() if lane != "_source" and not outs]
    if taken:
        yield f"takes {', '.join(taken)}"


def _slots(invoke: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for kind, slot in invoke.items():
        least, most = slot.get("min") or 0, slot.get("max")
        count = f"exactly {least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        yield f"{kind} ({count})  {slot.get('description', '')}"


def _fields(fields: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, field in fields.items():
        kind = field.get("type") or " or ".join(str(part.get("type")) for part in field.get("anyOf", ())) or "any"
        kind = " | ".join(str(value) for value in field["enum"]) if "enum" in field else kind
        default = "required" if field["required"] else f"default {msgspec.json.encode(field.get('default')).decode()}"
        yield f"{name} ({kind}, {default})  {field.get('description', '')}"


def _profiles(preconfig: Mapping[str, Any]) -> Iterator[str]:
    for name, values in preconfig.get("profiles", {}).items():
        mark = " (default)" if name == preconfig.get("default") else ""
        yield f"{name}{mark}  {msgspec.json.encode(values).decode()}"


def _tools(tools: list[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        yield tool["name"]
        for line in (tool.get("description") or "").splitlines():
            yield f"  {line}"
        for key in ("inputSchema", "outputSchema"):
            if key in tool:
                schema = msgspec.json.format(msgspec.json.encode(tool[key]), indent=2).decode()
                head, *rest = schema.splitlines()
                yield f"  {key}: {head}"
                yield from (f"  {line}" for line in rest)
        yield ""


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


SCHEMA_DESCRIPTION = "Print the JSON Schema of pipeline files with the nodes that are installed here."
SCHEMA_EXAMPLE = """examples:
  rrext schema > pipe.schema.json
  rrext schema --closed --nodes my_nodes.py
  rrext schema --cases > cases.schema.json

For editors without a language server, and for models that write pipelines. The schema (draft 2020-12) has a form for each
node: its settings, lanes and class types. It accepts what `rrext check` accepts; with --closed it also refuses unknown
keys, which `check` warns of. It describes the value after comments and trailing commas are removed. It cannot see
relations between components: ids that are taken or missing, cycles, edges whose sender lacks the lane.
"""


def add_schema_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rrext schema`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--closed", action="store_true", help="refuse unknown keys too")
    which.add_argument("--cases", action="store_true", help="print the schema of files of cases, see `rrext test`")
    add_nodes_option(parser)


def print_schema(args: argparse.Namespace) -> int:
    """Print the schema; 2 if a node cannot be loaded."""
    if args.cases:
        from rrext.testing.case_file import SCHEMA as CASES

        _print_json(CASES)
        return 0
    from rrext.pipefile.pipeline_schema import pipeline_schema

    catalog = catalog_from(args)
    schema = pipeline_schema(catalog, closed=args.closed)
    for name in catalog.names():
        if name not in schema["$defs"]:
            print(f"rrext: the node {name} cannot be loaded, and is left out; `rrext nodes {name}` says why", file=sys.stderr)
    _print_json(schema)
    return 0


def _print_json(schema: Mapping[str, Any]) -> None:
    encoded = msgspec.json.encode(schema)
    print((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode())


SCHEMA = Command(SCHEMA_DESCRIPTION, SCHEMA_EXAMPLE, add_schema_arguments, print_schema)
