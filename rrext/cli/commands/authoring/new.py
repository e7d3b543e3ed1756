"""`rrext new node`: the package of a node of one's own, which installs and passes its test as it is."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.util import find_spec
from keyword import iskeyword
from string import Template
from typing import Final

from rrext.cli.commands.authoring.init import tell_next, write
from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_USAGE
from rrext.cli.options import Command
from rrext.cli.starters import NODE_PACKAGE
from rrext.columns import one_line

DESCRIPTION = "Write the package of a node: entry point, typed settings, a tool, its test, and a pipeline with it."
EXAMPLE = """examples:
  rrext new node word-count

It makes the folder NAME, which must not be there yet. Once the package is installed, every rrext of that environment knows the
node, without --nodes.

Exit code 0: the package is written. 2: the name cannot be used, or there is such a folder.
"""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")

_TAKEN: Final = frozenset(("conftest", "tests", "pip", "setup", "setuptools", "sitecustomize", "usercustomize"))
"""Modules that pip, pytest and Python import by these names, also where none of them is here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("kind", choices=("node",), metavar="KIND", help="node")
    parser.add_argument("name", metavar="NAME", help="its provider and module: lower-case words, with - or _ between them")


def run(args: argparse.Namespace) -> int:
    """Write the package; returns the exit code."""
    from uuid import uuid4

    name: str = args.name
    module = name.replace("-", "_")
    if (wrong := _fault(name, module)) is not None:
        print(f"rrext: {name!r} {wrong}", file=sys.stderr)
        return EXIT_USAGE
    title = "".join(word.capitalize() for word in module.split("_"))
    words = {"name": name, "module": module, "title": title, "project_id": str(uuid4())}
    files = {
        os.path.join(name, Template(path).substitute(words)): Template(text).substitute(words)
        for path, text in NODE_PACKAGE.texts().items()
    }
    try:
        os.mkdir(name)
    except OSError as error:
        print(f"rrext: {name}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    if not write(files):
        os.rmdir(name)
        return EXIT_USAGE
    tell_next(f"{name} is written", NODE_PACKAGE.lines, {"folder": name, "pipeline": f"{module}.pipe"})
    return EXIT_DONE


NEW = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _fault(name: str, module: str) -> str | None:
    """Why a name cannot be used."""
    from rrext.pipefile.catalog.catalog import Catalog

    if not _NAME.fullmatch(name):
        return "is no name of a node: expected lower-case words, with - or _ between them"
    if iskeyword(module) or module in sys.stdlib_module_names:
        return "means something else in Python: give another name"
    if module in Catalog().names() or module == "rrext":
        return "is a node already: give another name"
    if module in _TAKEN:
        return "means something else to pip, pytest or Python: give another name"
    if not os.path.lexists(name) and (spec := find_spec(module)) is not None:
        where = f" ({one_line(spec.origin)})" if spec.origin else ""
        return f"is a module here already{where}, and would hide it or be hidden: give another name"
    return None
