"""`rrext show`: a pipeline as a picture, in the terminal or in a file."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from rrext.cli.console.exit_codes import EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import terminal_width
from rrext.cli.console.output import Results, is_unread
from rrext.cli.options import Command, add_file, add_pipeline_options, catalog_from, environment_from, whole_number
from rrext.cli.pipeline_problems import print_found, print_no_pipeline, read_file, summary
from rrext.columns import printable
from rrext.errors import RrextError
from rrext.limits import PICTURE_DEFAULTS

if TYPE_CHECKING:
    from rrext.picture.picture import Picture
    from rrext.pipefile.loaded_pipeline import LoadedPipeline


DESCRIPTION = "Draw a pipeline: its nodes, what runs between them, and what is wrong. Nothing of it runs."
EXAMPLE = """example:
  rrext show pipeline.pipe
  rrext show --svg -o pipeline.svg pipeline.pipe
  rrext show --mermaid pipeline.pipe >> design.md

A pipeline that cannot be run is drawn as far as it can be made out. Exit codes as those of rrext check --no-probe, and 1 if the
picture cannot be drawn or written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser, "; - reads standard input")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--svg", action="store_true", help="as an image for documents and browsers")
    form.add_argument("--mermaid", action="store_true", help="as a Mermaid flowchart")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the picture there, not to stdout")
    widest = PICTURE_DEFAULTS.width
    parser.add_argument(
        "--width",
        type=whole_number,
        metavar="COLUMNS",
        help=f"how wide it may be: by default as the terminal, at most {widest}",
    )
    add_pipeline_options(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the file; 2 if it cannot be run, 1 without a picture."""
    from rrext.picture.picture import picture_of
    from rrext.pipefile.pipeline_loader import load_pipeline

    (environment, _), catalog = environment_from(args), catalog_from(args)
    text = read_file(args.file)
    if text is None:
        return EXIT_USAGE
    if print_no_pipeline(args.file, text, sys.stderr):
        return EXIT_USAGE
    loaded = load_pipeline(text, catalog, environment, strict_env=False, positions=True)
    try:
        drawn = _draw(args, picture_of(loaded))
    except RrextError as error:
        print(f"rrext: {args.file}: {error.message}", file=sys.stderr)
        drawn = False
    _print_problems(args, loaded, below=drawn and not (args.svg or args.mermaid or args.output))
    return EXIT_USAGE if loaded.spec is None else 0 if drawn else EXIT_FAILED


SHOW = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _draw(args: argparse.Namespace, picture: Picture) -> bool:
    """Write the picture in UTF-8; False if that fails."""
    width = args.width or min(terminal_width(), PICTURE_DEFAULTS.width)
    try:
        if args.output is not None:
            with open(args.output, "wb") as file:
                file.write(_drawn(args, picture, width, colour=False))
        else:
            with Results(keeps_stdin=True) as results:
                colour = results.is_terminal and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
                results.write(_drawn(args, picture, width, colour=colour))
    except OSError as error:
        if args.output is None and is_unread(error):
            raise
        print(f"rrext: {args.output or 'stdout'}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _drawn(args: argparse.Namespace, picture: Picture, width: int, *, colour: bool) -> bytes:
    """The picture in the requested form."""
    if args.mermaid:
        from rrext.picture.text import as_mermaid

        return as_mermaid(picture).encode()
    if args.svg:
        from rrext.picture.svg import as_svg

        return as_svg(picture, args.width or PICTURE_DEFAULTS.width).encode()
    from rrext.picture.text import as_text

    return as_text(picture, width, colour=colour).encode()


def _print_problems(args: argparse.Namespace, loaded: LoadedPipeline, *, below: bool) -> None:
    """List the problems: below a picture in the terminal, else on stderr."""
    if loaded.problems:
        if below and loaded.outline.components:
            print()
        print_found(args.file, loaded, sys.stdout if below else sys.stderr)
    print(f"{printable(args.file)}: {summary(loaded)}", file=sys.stderr)
