"""`rrext lsp`: the language server that editors spawn."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rrext.cli.options import add_pipeline_options
from rrext.transports.claim import claim_stdio
from rrext.transports.parent import ParentWatch

__all__ = ["add_parser", "run"]

EXAMPLE = """example (Helix, languages.toml):
  [language-server.rrext]
  command = "rrext"
  args = ["lsp"]

Pipelines are run, and nodes of your own are loaded, only if the editor sends {"trusted": true} as initializationOptions.
"""
LEVELS = ("debug", "info", "warning", "error")
EXIT_INVALID = 2


def add_parser(commands: Any) -> None:
    """Add the command to the parser of `rrext`."""
    parser = commands.add_parser(
        "lsp",
        help="serve an editor: problems, completion, fixes and runs of .pipe files",
        description="Speak the Language Server Protocol on stdin and stdout.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_pipeline_options(parser)
    parser.add_argument("--stdio", action="store_true", help="the only transport; some editors say so")
    parser.add_argument("--log-file", metavar="FILE", help="log there instead of stderr")
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="what to log (%(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve; the exit code. Does not return once it serves: threads that are stuck must not be waited for."""
    parent = ParentWatch()
    try:
        stdio = claim_stdio()  # before any node's code is imported: what that prints must not reach the client
    except OSError as error:
        print(f"rrext: stdin and stdout must be open: {error.strerror}", file=sys.stderr)
        return EXIT_INVALID
    import asyncio

    from rrext.bridges.lsp.options import Options
    from rrext.bridges.lsp.stdio import serve
    from rrext.server.logs import set_up_logging

    try:
        writer = set_up_logging(args.log_level, args.log_file)
    except OSError as error:
        print(f"rrext: --log-file {args.log_file}: {error.strerror}", file=sys.stderr)
        return EXIT_INVALID
    given = Options(nodes=tuple(args.nodes), env=tuple(args.env), root=args.root)
    code = asyncio.new_event_loop().run_until_complete(serve(stdio, given, parent=parent))
    writer.flush(0.1)
    sys.stderr.flush()
    os._exit(code)
