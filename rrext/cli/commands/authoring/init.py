"""`rrext init`: a first pipeline of one's own, which runs as it is."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from string import Template
from typing import Final

from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.options import Command
from rrext.cli.starters import STARTERS
from rrext.columns import one_line
from rrext.project import NAME, find_project, trust

PIPELINE: Final = "pipeline.pipe"
"""The name of a pipeline that gets no other."""
DESCRIPTION = "Write a pipeline with a comment at each part, which runs at once. No file is overwritten."
EXAMPLE = """examples:
  rrext init notes.pipe
  rrext tool notes.pipe list_directory
  rrext init --template api shop
  rrext init --template knowledge library.pipe --folder documents
  rrext send --sync library.pipe documents

Beside the pipeline most templates write its cases (FILE.cases.json), documents a document, sql some statements, and api a node
in Python and rrext.toml, which it trusts. A name without an ending is a folder, which gets a pipeline.pipe.

Exit code 0: the files are written. 2: one of them is there already, or cannot be written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file",
        nargs="?",
        default=PIPELINE,
        metavar="FILE.pipe|FOLDER",
        help="its name, or the folder of %(default)s, or - for stdout",
    )
    parser.add_argument(
        "--template",
        choices=tuple(STARTERS),
        default="first",
        help="; ".join(f"{name}: {starter.summary}" for name, starter in STARTERS.items()),
    )
    parser.add_argument("--folder", metavar="FOLDER", help="of the template knowledge: the documents, for the lines it prints")


def run(args: argparse.Namespace) -> int:
    """Write the files; returns the exit code."""
    from uuid import uuid4

    if args.folder is not None and (args.template != "knowledge" or not os.path.isdir(args.folder)):
        what = "is no folder" if args.template == "knowledge" else "belongs to --template knowledge"
        print(f"rrext: --folder {args.folder} {what}", file=sys.stderr)
        return EXIT_USAGE
    starter = STARTERS[args.template]
    file: str = args.file
    if file != "-" and (os.path.isdir(file) or not os.path.splitext(file)[1]):
        file = os.path.join(file, PIPELINE)
    folder, name = os.path.split(file)
    stem = args.template if file == "-" else os.path.splitext(name)[0]
    words = {"stem": json.dumps(stem)[1:-1], "project_id": str(uuid4())}  # in JSON, TOML and a comment
    files = {
        Template(each).substitute(stem=stem): Template(text).safe_substitute(words) for each, text in starter.texts().items()
    }
    if file == "-":
        sys.stdout.write(next(iter(files.values())))
        return 0
    _, *others = files
    written = {file: next(iter(files.values()))} | {os.path.join(folder, each): files[each] for each in others}
    if not write(written):
        return EXIT_USAGE
    *first, last = written
    told = f"{', '.join(first)} and {last} are written" if first else f"{last} is written"
    if NAME in files and _trust(folder):
        told += "; the project is trusted, as you made it"
    base = os.path.join(folder, stem)
    paths = {"file": file, "folder": args.folder or "FOLDER", "documents": f"{base}.files", "statements": f"{base}.sql"}
    tell_next(told, starter.lines, paths)
    return 0


INIT = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def write(files: Mapping[str, str]) -> bool:
    """Write new files, with their folders, all or none; False after an error message."""
    made, folders, path = list[str](), list[str](), ""
    try:
        for path, text in files.items():
            folders += _make_folder(os.path.dirname(path))
            with open(path, "x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for each in made:  # they would stop the next try
            os.unlink(each)
        for each in reversed(folders):
            with suppress(OSError):
                os.rmdir(each)
        print(f"rrext: {_failure(path, error)}", file=sys.stderr)
        return False
    return True


def _make_folder(folder: str) -> list[str]:
    """Make a folder with those above it; returns the ones that were not there, the highest first."""
    missing = list[str]()
    while folder and not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    for each in missing:
        with suppress(FileExistsError):  # as in `a/.`
            os.mkdir(each)
    return missing


def _failure(path: str, error: OSError) -> str:
    """Why a file is not written, and what helps."""
    if isinstance(error, FileExistsError):
        folder, name = os.path.split(path)
        beside = os.path.join(folder, "other", PIPELINE)
        other = f"a folder has one project: give another folder, as {beside}" if name == NAME else "give another name"
        return f"{path} is there already, and is not overwritten: {other}"
    where = os.path.dirname(path) if isinstance(error, NotADirectoryError) else error.filename or path
    return f"{where}: {error.strerror}"


def tell_next(what: str, lines: tuple[str, ...], paths: Mapping[str, str]) -> None:
    """Say `what` was written, and the commands that come next."""
    quoted = {name: quote(path) for name, path in paths.items()}
    print(
        "\n  ".join([f"rrext: {what}. Next:", *(Template(line).substitute(quoted) for line in lines)]),
        file=sys.stderr,
    )


def _trust(folder: str) -> bool:
    """Trust the project that was written; False after a message that says what remains."""
    project = find_project(folder or os.curdir)
    if project is None or project.trust == "unsafe":
        print(f"rrext: {NAME} is not used" if project is None else f"rrext: {project.notice}", file=sys.stderr)
        return False
    try:
        trust(project)
    except OSError as error:
        where = one_line(str(error.filename))
        again = f"`rrext trust {quote(project.path)}`"
        print(f"rrext: {where}: {error.strerror}: {NAME} counts after {again}, which comes first", file=sys.stderr)
        return False
    return True
