"""`rrext help`: the help of a command, or of all."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `rrext`."""
    parser = commands.add_parser(
        "help",
        help="show the help of a command",
        description="Show the help of a command, or of all.",
        epilog="example:\n  rrext help tool\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="COMMAND", help="a command")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show the help; returns the exit code."""
    from rrext.cli.main import main

    return main(["--help"] if args.name is None else [args.name, "--help"])
