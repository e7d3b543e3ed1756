"""What a command tells of itself, and options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rrext.columns import printable

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.errors import UsageError
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment


def no_pipeline(args: argparse.Namespace) -> UsageError:
    """The error of a command without a pipeline to work with."""
    from rrext.errors import UsageError

    return UsageError(getattr(args, "no_default", None) or "name a pipeline, FILE.pipe, or a default one in rrext.toml")


class Command(NamedTuple):
    """A command as its module describes it; the module has it under its name in capitals, as `TOOL`."""

    description: str
    epilog: str
    add_arguments: Callable[..., None]
    """Adds the arguments to a parser. Of a command that can use a server, also by `at`: whether it does."""
    run: Callable[[argparse.Namespace], int]
    """Runs the command, and returns its exit code."""


KEY: Final = "ROCKETRIDE_APIKEY"
"""The variable with the one key of a server, and that of a client."""

OF_PORT: Final = ("keys", "trust_clients", "allow_origin", "behind_proxy", "tls_cert", "tls_key", "metrics_key_file")
"""The arguments of `rrext serve` that only a port of `--ws` needs."""


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Add `--nodes`, `--env`, `--connections`, `--root` and `--python-package`, and `--project`, which gives them all."""
    add_nodes_option(parser)
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME", help="let ${NAME} be read, beside ROCKETRIDE_* (repeatable)"
    )
    parser.add_argument(
        "--connections", metavar="FILE.toml", help="servers that pipelines name, and their keys: a file of yours alone (0600)"
    )
    parser.add_argument("--root", metavar="DIR", help="the folder that no node's paths may leave")
    parser.add_argument(
        "--python-package",
        action="append",
        default=[],
        dest="python_packages",
        metavar="NAME",
        help="an installed package that tool_python's programs may import, if `allowedModules` names it (repeatable)",
    )


def add_partial_option(parser: argparse.ArgumentParser) -> None:
    """Add `--partial`, for a command that loads a pipeline."""
    parser.add_argument(
        "--partial", action="store_true", help="run what can run: what needs a missing node, package or setting is unavailable"
    )


def add_caller_options(
    parser: argparse.ArgumentParser,
    *,
    user: str = "the user whose calls these are: each has a content of its own in stores",
    space: str = "the same for the space",
) -> None:
    """Add `--user` and `--space`, for a command whose calls may be those of a user. `user` and `space` are their help."""
    parser.add_argument("--user", type=_id, metavar="ID", help=user)
    parser.add_argument("--space", type=_id, metavar="ID", help=space)


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add `--source`, for a command that sends objects."""
    parser.add_argument("--source", metavar="ID", help="the source at which objects enter, if the pipeline has several")


def add_file(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add FILE.pipe, unless a project gives it (`rrext.cli.projects`). `more` ends its help."""
    if parser.get_default("file") is None:
        parser.add_argument("file", metavar="FILE.pipe", help=f"the pipeline{more}; a project may give it")


def add_source(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments that name the pipeline: FILE.pipe and node options, or a server's address and a token."""
    if not at:
        add_file(parser)
        parser.set_defaults(token=None)
        add_partial_option(parser)
    parser.add_argument(
        "--at",
        metavar="unix:PATH|ws://HOST:PORT",
        help="call a running server that listens there, instead of loading FILE.pipe",
    )
    if at:
        parser.add_argument("--token", metavar="NAME", help="the pipeline, if several are served: the stem of its file")
        parser.add_argument("--key-file", metavar="FILE", help=f"the key for a server at ws://, if it is not in {KEY}")
        parser.set_defaults(file=None, nodes=[], env=[], root=None, python_packages=[], wait=None)


def add_nodes_option(parser: argparse.ArgumentParser) -> None:
    """Add `--nodes`, and the project that may name some, for a command that reads no pipeline."""
    parser.add_argument(
        "--nodes", action="append", default=[], metavar="FILE.py|MODULE", help="load nodes of your own from there (repeatable)"
    )
    add_project_options(parser)


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """Add `--project` and `--no-project`."""
    project = parser.add_mutually_exclusive_group()
    project.add_argument(
        "--project", metavar="FILE.toml", help="the settings of a project, trusted as it is (else: rrext.toml)"
    )
    project.add_argument("--no-project", action="store_true", help="use no rrext.toml that is found")


def add_wait_option(parser: argparse.ArgumentParser) -> None:
    """Add `--wait`, for a command that calls nodes."""
    parser.add_argument(
        "--wait", type=seconds, metavar="S", help="seconds to wait for a store that other processes use (else as its node says)"
    )


def let_words_follow_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Let the optional words of the argument `name` follow options, as in `rrext sql FILE --csv SQL`: argparse misses them."""
    parse = parser.parse_known_args

    def parse_all(args: Any = None, namespace: Any = None) -> Any:
        found, rest = parse(args, namespace)
        known = getattr(found, name)
        if all(not word.startswith("-") or " " in word for word in rest):
            if isinstance(known, list):
                known += rest
                rest = []
            elif known is None and len(rest) == 1:
                setattr(found, name, rest.pop())
        return found, rest

    parser.parse_known_args = parse_all


def catalog_from(args: argparse.Namespace) -> Catalog:
    """The built-in nodes and those of `--nodes`. Raises `RrextError` if they cannot be loaded."""
    from rrext.pipefile.catalog.catalog import Catalog

    catalog = Catalog(ignored=getattr(args, "ignored", ""))
    if args.nodes:
        from rrext.pipefile.catalog.plugins import load_nodes

        for name in args.nodes:
            for node_class in load_nodes(name):
                catalog.add(node_class)
    return catalog


def environment_from(args: argparse.Namespace) -> tuple[Environment, Connections]:
    """The values of `${NAME}`, and the connections of `--connections`: their problems are printed, and the others work.

    The variables of both are removed from the environment of child processes, so call it before any import of node code,
    which may start some. Raises `RrextError` for a file of connections that cannot be read.
    """
    from rrext.pipefile.environment import Environment

    connections = connections_from(args)
    for problem in connections.problems:
        place = args.connections if problem.line is None else f"{args.connections}:{problem.line}"
        print(printable(f"rrext: {place}: warning: {problem}"), file=sys.stderr)
    args.connection_variables = {name: os.environ[name] for name in connections.variables if name in os.environ}
    return Environment.taken_from_process(args.env, also=connections.variables), connections


def connections_from(args: argparse.Namespace) -> Connections:
    """The connections of `--connections`. Raises `RrextError` if the file cannot be read."""
    from rrext.connections import NO_CONNECTIONS

    path: str | None = getattr(args, "connections", None)
    if path is None:
        return NO_CONNECTIONS
    from rrext.connections import load_connections

    return load_connections(path)


def packages_from(args: argparse.Namespace) -> tuple[str, ...]:
    """The names of `--python-package`. Raises `RrextError` for one that is not installed, or cannot be offered."""
    names = tuple(args.python_packages)
    if names:
        from rrext.nodes.sandbox.packages import offered

        offered(names)
    return names


def context_from(args: argparse.Namespace) -> dict[str, str]:
    """`--user` and `--space`, as the `context` of a connection has them."""
    given = {"userId": getattr(args, "user", None), "spaceId": getattr(args, "space", None)}
    return {name: value for name, value in given.items() if value is not None}


def key_from(args: argparse.Namespace) -> str | None:
    """The key for the server of `--at`, if it is one that takes keys. Raises `UsageError`."""
    if args.at.startswith("unix:"):
        return None
    if args.key_file is None:
        return os.environ.get(KEY) or None
    from rrext.errors import UsageError
    from rrext.secrets.private_file import NotPrivate, read_private

    try:
        return read_private(args.key_file).strip()
    except NotPrivate as error:
        raise UsageError(f"--key-file {error}") from None


def root_from(args: argparse.Namespace) -> str | None:
    """`--root` as an absolute path, if given."""
    return os.path.abspath(args.root) if args.root is not None else None


def _id(text: str) -> str:
    """An argparse type: an id. An empty one is a variable that is not set, and would be a user of its own."""
    if not text:
        raise argparse.ArgumentTypeError("is empty")
    return text


def whole_number(text: str) -> int:
    """An argparse type: a whole number from 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, not {text!r}")
    return int(text)


def byte_size(text: str) -> int:
    """An argparse type: bytes, or a number with the unit K, M, G or T, each 1,024 times the one before."""
    from rrext.pipefile.resources import size_in_bytes

    size = size_in_bytes(text)
    if not size:
        raise argparse.ArgumentTypeError(f"expected a size such as 512M or 2G, not {text!r}")
    return size


def seconds(text: str) -> float:
    """An argparse type: a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, not {text!r}")
    return value
