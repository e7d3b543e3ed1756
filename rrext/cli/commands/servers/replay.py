"""`rrext replay`: plays a recording to a server, and tells what differs from what the recorded server did."""

from __future__ import annotations

import argparse
from typing import Final

from rrext.cli.options import KEY, Command, add_pipeline_options, let_words_follow_options, seconds
from rrext.errors import UsageError

DESCRIPTION = "Play the requests of a recording to a server, and show what differs."
EXAMPLE = """examples:
  rrext serve pipeline.pipe --listen unix:/tmp/rrext.sock --record bug.jsonl
  rrext replay bug.jsonl pipeline.pipe
  rrext replay bug.jsonl --at unix:/tmp/rrext.sock --ignore '/result/*/price'

--record FILE of `rrext serve` writes the file. Each request is sent when all has come that had come before it. Ids, tokens,
numbers of pipes and times may differ. A server for the replay is started with the pipelines that are named, else with those of
the recorded one, and ends with it. A recording can do all that its clients could do: replay none of people whom you would
not let run a program.

Where the value of a variable was in a request, the recording has ${NAME}: set the variable, and name it by --env unless it
begins with ROCKETRIDE_. Requests whose secrets have no name, as values of `bearer_token`, are not replayed.

Exit code 0: no difference. 1: there are some, or requests or lines are missing. 2: no recording, or no server. 130: cancelled
by Ctrl-C.
"""
PATIENCE: Final = 30.0
"""Seconds that an answer may take longer than it took: another machine may be slower, and many models are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("recording", metavar="FILE", help="a file that --record wrote")
    parser.add_argument("files", nargs="*", metavar="FILE.pipe", help="a pipeline of the server that is started")
    parser.add_argument("--at", metavar="unix:PATH|ws://HOST:PORT", help="play to a running server that listens there")
    parser.add_argument("--key-file", metavar="FILE", help=f"the key for a server at ws://, if it is not in {KEY}")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="POINTER",
        help="a place of answers that may differ, as /result/at; * is any one part (repeatable)",
    )
    parser.add_argument(
        "--timeout", type=seconds, default=PATIENCE, metavar="S", help="how much longer an answer may take (%(default)g)"
    )
    parser.add_argument(
        "--trust-clients",
        action="store_true",
        help="the server that is started trusts who reaches its port, as one of `rrext serve`",
    )
    add_pipeline_options(parser)
    let_words_follow_options(parser, "files")


def run(args: argparse.Namespace) -> int:
    """Replay; returns the exit code."""
    if args.at is not None and args.files and not getattr(args, "is_default", False):
        raise UsageError("the server of --at has its own pipelines: name none")
    for pointer in args.ignore:
        if not pointer.startswith("/"):
            raise UsageError(f"--ignore {pointer}: a pointer begins with /, as /result/at")
    from rrext.cli.commands.servers.replay_run import replay_all  # with the SDK, which `--help` does not need

    return replay_all(args)


REPLAY = Command(DESCRIPTION, EXAMPLE, add_arguments, run)
