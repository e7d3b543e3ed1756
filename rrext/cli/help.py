"""`rrext help`: the help of a command, or of all."""

from __future__ import annotations

import argparse

DESCRIPTION = "Show the help of a command, or of all."
EXAMPLE = "example:\n  rrext help tool\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", nargs="?", metavar="COMMAND", help="a command")


def run(args: argparse.Namespace) -> int:
    """Show the help; returns the exit code."""
    from rrext.cli.main import main

    return main(["--help"] if args.name is None else [args.name, "--help"])
