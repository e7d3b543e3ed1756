"""`rrext init`: a first pipeline of one's own, which runs as it is."""

from __future__ import annotations

import argparse
import os
import sys
from shlex import quote
from string import Template
from typing import Final

from rrext.cli.exit_codes import EXIT_USAGE
from rrext.cli.options import Command

DESCRIPTION = "Write a small pipeline with a comment at each part. It runs at once. No file is overwritten."
EXAMPLE = """example:
  rrext init notes.pipe
  rrext tool notes.pipe list_directory

Exit code 0: the file is written. 2: there is such a file already, or it cannot be written.
"""
PIPELINE: Final = Template("""\
// A pipeline: nodes, and the edges between them. `rrext show FILE.pipe` draws it, `rrext check` finds mistakes.
{
  "name": "first",
  "description": "Reads the files beside this one, and gives back a text that is sent.",
  "components": [
    // The source, where texts and files enter: `rrext send FILE.pipe PATH`.
    { "id": "webhook_1", "provider": "webhook", "config": {} },

    // Tools. `control` binds them to the source; "root" is the folder that they see, relative to this file.
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "." },
      "control": [{ "classType": "tool", "from": "webhook_1" }],
    },

    // The result. `input` is an edge of data: texts come from the source. `rrext nodes` lists what else there is.
    {
      "id": "reply_1",
      "provider": "response_text",
      "config": {},
      "input": [{ "lane": "text", "from": "webhook_1" }],
    },
  ],
  "source": "webhook_1",
  "project_id": "$project_id",
  "version": 1,
}
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", nargs="?", default="pipeline.pipe", metavar="FILE.pipe", help="its name (%(default)s), or - for stdout"
    )


def run(args: argparse.Namespace) -> int:
    """Write the file; returns the exit code."""
    from uuid import uuid4

    text = PIPELINE.substitute(project_id=uuid4())
    if args.file == "-":
        sys.stdout.write(text)
        return 0
    begun = False
    try:
        with open(args.file, "x", encoding="utf-8") as file:
            begun = True
            file.write(text)
    except FileExistsError:
        print(f"rrext: {args.file} is there already, and is not overwritten: give another name", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        if begun:  # an empty file would stop the next try
            os.unlink(args.file)
        print(f"rrext: {args.file}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    print(f"rrext: {args.file} is written. Next:\n  rrext tool {quote(args.file)} list_directory", file=sys.stderr)
    return 0


INIT = Command(DESCRIPTION, EXAMPLE, add_arguments, run)
