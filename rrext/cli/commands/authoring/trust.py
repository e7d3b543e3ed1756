"""`rrext trust`: what a project file would allow, and the user's consent to it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_USAGE
from rrext.cli.options import Command
from rrext.columns import one_line
from rrext.project import NAME, Project, find_project, trust, trusted_paths, withdraw

DESCRIPTION = "Let the settings of a project file count that can run code, open connections or start a server."
EXAMPLE = """examples:
  rrext trust
  rrext trust shop/rrext.toml --yes
  rrext trust --remove shop/rrext.toml
  rrext trust --list

It shows what the file allows, and asks. The consent is for the path and the content: a change of the file asks anew. What the
file names, such as the code of nodes, may change without a question.

Exit code 0: done. 2: the file is missing or cannot be used, or the answer was no.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", nargs="?", metavar="PATH", help="the file or its folder; else as commands here find it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--remove", action="store_true", help="withdraw the trust, also in a file that is gone")
    other.add_argument("--list", action="store_true", help="list the files that are trusted, a line each")


def run(args: argparse.Namespace) -> int:
    """Show the file, ask, and keep the answer; returns the exit code."""
    try:
        return _run(args)
    except OSError as error:
        if error.filename is None:  # stdout
            raise
        print(f"rrext: {one_line(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE


TRUST = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _run(args: argparse.Namespace) -> int:
    if args.list:
        for path in trusted_paths():
            print(one_line(path))
        return EXIT_DONE
    folder = os.path.dirname(args.path) if os.path.basename(args.path or "") == NAME else args.path
    folder = os.path.realpath(folder or os.curdir)
    if args.remove:
        path = os.path.join(folder, NAME)
        if not withdraw(path):
            print(f"rrext: {one_line(path)} was not trusted", file=sys.stderr)
            return EXIT_USAGE
        return EXIT_DONE
    project = find_project(folder)
    if project is None or (args.path is not None and project.folder != folder):
        print(f"rrext: there is no {NAME} in {one_line(folder)}{'' if args.path else ', nor above it'}", file=sys.stderr)
        return EXIT_USAGE
    if project.trust == "unsafe":
        print(f"rrext: {project.notice}", file=sys.stderr)
        return EXIT_USAGE
    from rrext.cli.projects import serve_values

    serve_values(project)  # a mistake in it is told before it is trusted
    print(f"{one_line(project.path)} allows:", *allowed(project), sep="\n  ", file=sys.stderr)
    if project.trust == "trusted":
        print("rrext: this is trusted already", file=sys.stderr)
        return EXIT_DONE
    if not args.yes and not _is_meant():
        return EXIT_USAGE
    trust(project)
    return EXIT_DONE


def allowed(project: Project) -> Iterator[str]:
    """What the guarded settings of a project allow, a line each."""
    settings = project.settings
    for name in settings.nodes:
        yield one_line(f"nodes: the code of {name} runs")
    for name in settings.env:
        yield one_line(f"env: pipelines read the variable {name}")
    if settings.connections is not None:
        yield one_line(f"connections: pipelines use the servers of {settings.connections}, and its commands run")
    for name in settings.python_packages:
        yield one_line(f"python-packages: programs of tool_python import {name}")
    if settings.pipeline is not None:
        yield one_line(f"pipeline: commands without a FILE.pipe run {settings.pipeline}")
    for name, value in settings.serve.items():
        yield one_line(f"serve: `rrext serve` has the option {name} = {value!r}")
    if not project.guarded:
        yield "nothing that needs trust"


def _is_meant() -> bool:
    if not (os.isatty(0) and os.isatty(2)):
        print("rrext: without a terminal this needs --yes", file=sys.stderr)
        return False
    sys.stderr.write("Trust it? [y/n] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("rrext: nothing was changed", file=sys.stderr)
    return False
