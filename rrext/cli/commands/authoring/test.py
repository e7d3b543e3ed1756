"""`rrext test`: the cases that stand beside pipelines, run in this process; what is not as expected is told."""

from __future__ import annotations

import argparse
import os
from typing import Final

from rrext.cli.options import Command, add_pipeline_options, let_words_follow_options, no_pipeline, whole_number

DESCRIPTION = "Run the cases of pipelines: NAME.cases.json beside NAME.pipe."
EXAMPLE = """examples:
  rrext test pipeline.pipe
  rrext test *.pipe --junit report.xml
  rrext test pipeline.pipe -k 'reads' --update

A file of cases is JSON with comments; `rrext schema --cases` prints its schema:
  {"cases": [
    {"name": "a note is read", "tool": "read_file", "input": {"path": "notes.txt"},
     "expect": {"$at": {"/content": "Hello\\n"}}},
    {"name": "no way leads out", "tool": "read_file", "input": {"path": "../x"}, "error": "path_outside_root"},
    {"name": "a text is summed up", "lane": "text", "input": "Long…", "expect": {"answers": ["Short."]},
     "stub": {"llm_1": {"default": "Short."}}}
  ]}

`expect` is the result, member by member. In it {"$pattern": "^2026-"} stands for the texts that fit, {"$schema": {…}} for the
values that fit, {"$any": true} for any, {"$at": {"/rows/0/id": 7}} for results with 7 there, other members aside. `error` is a
code, or members of the error. `stub` stands in for nodes: their tools, their lanes, a model's script.
--update writes what came as what is expected, and keeps what still holds.

Pipelines run beside each other, the cases of one in their order. What nodes print is on stderr.

Exit code 0: all cases passed. 1: some failed. 2: a file of cases or the command is wrong. 130: cancelled by Ctrl-C.
"""
JOBS: Final = min(4, os.cpu_count() or 1)
"""Pipelines that run at once, if the command does not say how many."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("files", nargs="*", metavar="FILE.pipe", help="a pipeline, or its file of cases")
    parser.add_argument("-k", dest="words", metavar="WORDS", help="run the cases whose names hold these words alone")
    parser.add_argument("--update", action="store_true", help="write what came as what is expected, and keep what still holds")
    parser.add_argument("--junit", metavar="FILE.xml", help="write the outcomes as JUnit XML too")
    parser.add_argument("-j", "--jobs", type=whole_number, default=JOBS, metavar="N", help=f"pipelines at once; else {JOBS}")
    add_pipeline_options(parser)
    let_words_follow_options(parser, "files")


def run(args: argparse.Namespace) -> int:
    """Run the cases, and tell how they went."""
    if not args.files:
        raise no_pipeline(args)
    from rrext.cli.commands.authoring.test_run import run_cases  # with the engine, which `--help` does not need

    return run_cases(args)


TEST = Command(DESCRIPTION, EXAMPLE, add_arguments, run)
