"""`rrext mcp`: the tools of pipelines for an agent host that speaks the Model Context Protocol on stdio."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from rrext.cli.serve import EXIT_INVALID, add_serving_options
from rrext.cli.serve import run as serve
from rrext.engine.interface.engine import Engine
from rrext.limits import Limits
from rrext.wire.connection import ServedConnection

DESCRIPTION = "Load pipelines and offer their tools on stdin and stdout by the Model Context Protocol."
EXAMPLE = """examples:
  rrext mcp pipeline.pipe --root .
  rrext mcp pipeline.pipe --root . --print-config vscode

The host starts the command, and ends it by closing its stdin. --print-config prints the lines for the settings of a host.
"""
HOSTS: Final = ("vscode", "claude", "cursor", "zed", "codex")
PATHS: Final = frozenset(("--root", "--nodes", "--log-file"))
"""Options whose values are paths, or may be: a host starts the command in a folder of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_serving_options(parser, files="+")
    parser.add_argument("--user", metavar="ID", help="the user whose tools are offered, where pipelines tell users apart")
    parser.add_argument("--space", metavar="ID", help="the same for the space")
    parser.add_argument(
        "--print-config", choices=HOSTS, metavar="HOST", help=f"print the settings for a host: {', '.join(HOSTS)}"
    )
    parser.set_defaults(connect=connect, listen=None, stdio=True)


def connect(limits: Limits) -> ServedConnection:
    """A connection of the protocol."""
    from rrext.faces.mcp.connection import McpConnection
    from rrext.wire.lines import Lines

    return McpConnection(Lines(limits), limits)


def as_one(engine: Engine) -> Engine:
    """The pipelines of an engine as one."""
    from rrext.faces.mcp.pipelines import ManyPipelines

    return ManyPipelines(engine)


def run(args: argparse.Namespace) -> int:
    """Serve, or print the settings for a host."""
    if args.print_config is None:
        args.as_one = as_one if len(args.files) > 1 else None
        return serve(args)
    missing = [path for path in args.files if not os.path.isfile(path)]
    if missing:
        print(f"rrext: there is no file {missing[0]}", file=sys.stderr)
        return EXIT_INVALID
    from rrext.faces.mcp.host_settings import settings_for

    name = os.path.splitext(os.path.basename(args.files[0]))[0]
    print(settings_for(args.print_config, name, [*_program(), *elsewhere(sys.argv[1:])]))
    return 0


def _program() -> list[str]:
    """The words that start this program from any folder."""
    program = os.path.abspath(sys.argv[0])
    return [sys.executable, "-m", "rrext"] if program.endswith("__main__.py") else [program]


def elsewhere(words: Sequence[str]) -> list[str]:
    """The words of a command, without `--print-config`, as they mean the same in every folder."""
    found: list[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (option, "", word)
        if name != "--print-config":
            is_path = (not word.startswith("-") and (not option or option in PATHS)) or (equals and name in PATHS)
            if is_path and os.path.exists(value):
                value = os.path.abspath(value)
            found.append(f"{name}={value}" if equals else word if word.startswith("-") else value)
        option = name if word.startswith("--") and not equals else ""
    return found
