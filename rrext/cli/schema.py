"""`rrext schema`: the JSON Schema of pipeline files."""

from __future__ import annotations

import argparse
import sys

import msgspec

from rrext.cli.options import add_nodes_option, catalog_from

DESCRIPTION = "Print the JSON Schema of pipeline files with the nodes that are installed here."
EXAMPLE = """examples:
  rrext schema > pipe.schema.json
  rrext schema --closed --nodes my_nodes.py

For editors without a language server, and for models that write pipelines. The schema (draft 2020-12) has a form for each
node: its settings, lanes and class types. It accepts what `rrext check` accepts; with --closed it also refuses unknown
keys, which `check` warns of. It describes the value after comments and trailing commas are removed. It cannot see
relations between components: ids that are taken or missing, cycles, edges whose sender lacks the lane.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--closed", action="store_true", help="refuse unknown keys too")
    add_nodes_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the schema; 2 if a node cannot be loaded."""
    from rrext.pipefile.pipeline_schema import pipeline_schema

    catalog = catalog_from(args)
    schema = pipeline_schema(catalog, closed=args.closed)
    for name in catalog.names():
        if name not in schema["$defs"]:
            print(f"rrext: the node {name} cannot be loaded, and is left out; `rrext nodes {name}` says why", file=sys.stderr)
    encoded = msgspec.json.encode(schema)
    print((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode())
    return 0
