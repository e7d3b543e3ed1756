"""`rrext lsp`: the language server for editors."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from typing import Final

from rrext.cli import PARENT
from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.console.output import PACKAGE
from rrext.cli.options import Command, add_pipeline_options, root_from
from rrext.transports.claimed_stdio import claim_stdio
from rrext.transports.descriptors import ParentWatch

SETTINGS: Final = os.path.join(PACKAGE, "faces", "lsp", "EDITORS.md")
"""The page with the settings of several editors."""

DESCRIPTION = "Speak the Language Server Protocol on stdin and stdout."
EXAMPLE = f"""example, as the command in an editor's settings:
  rrext lsp
  rrext lsp --nodes my_nodes.py --log-file rrext.log

Pipelines are run, and nodes of your own are loaded, only if the editor sends {{"trusted": true}} as initializationOptions.
Settings for several editors: {SETTINGS}
"""
FOR_PEOPLE: Final = f"rrext lsp talks to an editor on stdin and stdout, not to people. Settings: {SETTINGS}. Ctrl-C ends it."
LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_pipeline_options(parser)
    parser.add_argument("--stdio", action="store_true", help="the only transport; some editors say so")
    parser.add_argument("--log-file", metavar="FILE", help="log there instead of stderr")
    parser.add_argument("--log-level", choices=LEVELS, help="what to log (info with --log-file, else warning)")


def run(args: argparse.Namespace) -> int:
    """Serve; returns an exit code only if serving cannot start: stuck threads must not delay the end."""
    parent = ParentWatch(PARENT)  # the parent may die while we load
    gc.disable()  # while loading, next to nothing is garbage
    try:
        if os.isatty(0):
            print(FOR_PEOPLE, file=sys.stderr, flush=True)
        stdio = claim_stdio()  # before any import of node code, whose output must not reach the client
    except OSError as error:
        print(f"rrext: stdin and stdout must be open: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    from rrext.server.journal.logs import set_up_logging
    from rrext.server.watchdog import leave, write_last_words

    writers = [stdio.stderr]
    try:
        writers.append(set_up_logging(args.log_level or ("info" if args.log_file else "warning"), args.log_file))
    except OSError as error:
        print(f"rrext: --log-file {args.log_file}: {error.strerror}", file=sys.stderr)
        stdio.no_frames_come()
        leave(EXIT_USAGE, writers)
    loop = asyncio.new_event_loop()  # not asyncio.run, which waits at the end for tasks that ignore cancellation
    asyncio.set_event_loop(loop)

    connections = None if args.connections is None else os.path.abspath(args.connections)

    async def serve() -> int:
        from rrext.faces.lsp.deferred_types import load_protocol_types

        load_protocol_types()  # before any other module of the protocol
        from rrext.faces.lsp.features.table import language_server
        from rrext.faces.lsp.options import Options
        from rrext.faces.lsp.stdio import LspServing

        given = Options(
            nodes=tuple(map(_absolute, args.nodes)),
            env=tuple(args.env),
            root=root_from(args),
            connections=connections,
            python_packages=tuple(args.python_packages),
            project=args.project is None and not args.no_project,
        )
        serving = LspServing(stdio, language_server(given), parent=parent, last_words=lambda: write_last_words(writers))
        gc.freeze()  # loaded objects stay: collections can skip them
        gc.enable()
        stdio.frames_begin()
        return await serving.run()

    leave(loop.run_until_complete(serve()), writers)


LSP = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _absolute(nodes: str) -> str:
    """The absolute path of a file; the name of a module unchanged."""
    return os.path.abspath(nodes) if nodes.endswith(".py") or os.sep in nodes else nodes
