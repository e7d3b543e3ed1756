"""`rrext mcp`: the tools of pipelines for an agent host that speaks the Model Context Protocol, and the settings by which a
host finds this server, in the form that each host documents.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rrext.cli.commands.servers.serve import Face, add_proxy_option, add_serving_options, allowed_tools, origin, stem_of
from rrext.cli.commands.servers.serve import run as serve
from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.console.lines import print_listening
from rrext.cli.options import Command, connections_from, no_pipeline
from rrext.columns import printable
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.errors import UsageError
from rrext.limits import Limits
from rrext.wire.connection import ServedConnection

if TYPE_CHECKING:
    from rrext.engine.local_engine import LocalEngine
    from rrext.faces.mcp.host_offers import HostOffers
    from rrext.pipefile.environment import Environment
    from rrext.server.process import Listener, ServingProcess
    from rrext.server.session import Session


DESCRIPTION = "Load pipelines and offer their tools by the Model Context Protocol, on stdin and stdout or over HTTP."
EXAMPLE = """examples:
  rrext mcp pipeline.pipe --root .
  rrext mcp pipeline.pipe --root . --print-config vscode
  rrext mcp pipeline.pipe --root . --http 127.0.0.1:8080

The host starts the command, writes one JSON text a line, and ends it by closing its stdin. --print-config prints the lines for
the settings of a host; with --http those of a host that takes a URL, and the command runs by itself.
"""
HOSTS: Final = ("vscode", "claude", "cursor", "zed", "codex")
PATHS: Final = frozenset(("--root", "--nodes", "--project", "--connections", "--log-file", "--tokens"))
"""Options whose values are paths, or may be: a host starts the command in a folder of its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_serving_options(parser)
    parser.add_argument("--user", metavar="ID", help="the user whose tools are offered, where pipelines tell users apart")
    parser.add_argument("--space", metavar="ID", help="the same for the space")
    parser.add_argument(
        "--print-config", choices=HOSTS, metavar="HOST", help=f"print the settings for a host: {', '.join(HOSTS)}"
    )
    parser.add_argument(
        "--as-tool",
        action="append",
        default=[],
        metavar="NAME",
        help="offer the pipeline itself as a tool of this name; TOKEN=NAME for one of several files (repeatable)",
    )
    parser.add_argument("--http", dest="listen", metavar="HOST:PORT", help="answer clients of HTTP there instead of stdin")
    parser.add_argument("--tokens", metavar="FILE", help='with --http: the bearer tokens of users, lines token = "user"')
    parser.add_argument(
        "--allow-origin", action="append", default=[], type=origin, metavar="ORIGIN", help="with --http: pages that may call"
    )
    add_proxy_option(parser, "--http")
    parser.set_defaults(stdio=False, ws=None)


def connect(limits: Limits) -> ServedConnection:
    """A connection of the protocol."""
    from rrext.faces.mcp.connection import McpConnection
    from rrext.wire.framing import Lines

    return McpConnection(Lines(limits), limits)


def begin(args: argparse.Namespace, engine: Engine, session: Session) -> None:
    """Let the connection on stdio tell of changed tools, and offer prompts and resources."""
    from rrext.faces.mcp.connection import McpConnection
    from rrext.faces.mcp.listing import ToolChanges

    assert isinstance(session.connection, McpConnection)
    ToolChanges(engine, session, session.connection)
    session.connection.offers, session.connection.user = args.offers, args.user


def as_one(args: argparse.Namespace, engine: LocalEngine) -> Engine:
    """The pipelines of an engine as one, with those that are tools themselves. Raises `RrextError`."""
    tokens = [stem_of(path) for path in args.files]
    args.offers = _offers(engine, tokens, allowed_tools(args))
    if args.as_tool:
        from rrext.faces.mcp.pipelines import offer

        offer(engine, args.as_tool, tokens)
    elif len(args.files) == 1:
        return engine
    from rrext.faces.mcp.pipelines import ManyPipelines

    return ManyPipelines(engine)


def _offers(engine: LocalEngine, tokens: Sequence[str], allowed: frozenset[str] | None) -> HostOffers | None:
    """The prompts and resources of the pipelines; None if there are none, which needs no import."""
    tasks = [{"token": token, "offers": engine.task(token).offers} for token in tokens]
    if not any(task["offers"] for task in tasks):
        return None
    from rrext.faces.mcp.host_offers import HostOffers

    return HostOffers.of(tasks, allowed)


def http_clients(args: argparse.Namespace, environment: Environment) -> Listener:
    """The clients of HTTP. Raises `UsageError`."""
    from rrext.faces.http.address import Address, Proxies
    from rrext.faces.http.kept_files import KeptFiles
    from rrext.nodes.base.setup import missing_packages

    address = Address.of(args.listen)
    files = KeptFiles()
    tokens = None if args.tokens is None else files.keep_tokens(args.tokens, "--tokens", "token", environment.redactor)
    proxies = Proxies(args.behind_proxy)
    if tokens is None:
        address.require_tokens(is_behind=bool(proxies))
    missing = missing_packages("mcp", "mcp", "uvicorn")
    if missing is not None:
        raise UsageError(f"--http: {missing}")
    from rrext.faces.http.budget import Budgets
    from rrext.faces.http.listener import HttpClients
    from rrext.faces.mcp.host_offers import HostOffers
    from rrext.faces.mcp.http_app import McpApp
    from rrext.faces.mcp.protocol import PATH

    def app(process: ServingProcess) -> McpApp:
        caller = Caller(
            user_id=args.user, space_id=args.space, trusted=False, tools=allowed_tools(args), is_keyed=tokens is not None
        )
        host = process.host
        budgets = Budgets(host.loop, process.limits.max_user_bytes, has_users=tokens is not None)
        offers = args.offers or HostOffers()
        return McpApp(process.engine, host, budgets, caller=caller, offers=offers, tokens=tokens)

    def announce(address: Address) -> None:
        print_listening(f"http://{address}{PATH}")

    return HttpClients(address, app, announce, tokens=tokens, origins=args.allow_origin, proxies=proxies, files=files)


def run(args: argparse.Namespace) -> int:
    """Serve, or print the settings for a host."""
    if not args.files:
        raise no_pipeline(args)
    if args.print_config is None:
        args.face = Face(connect, partial(begin, args), partial(as_one, args), http_clients)
        return serve(args)
    variables = _variables(args)
    if variables is None:
        return EXIT_USAGE

    name = stem_of(args.files[0])
    names = printable(", ".join(variables))
    if args.listen is None:
        if names:
            print(f"rrext: put in the values of {names}: hosts do not pass on the variables of a shell", file=sys.stderr)
        words = elsewhere(sys.argv[1:])
        default = [
            os.path.abspath(path) for path in args.files if getattr(args, "is_default", False)
        ]  # beside its project, in every folder
        print(settings_for(args.print_config, name, [*_program(), *words, *default], variables))
    else:
        from rrext.faces.http.address import Address
        from rrext.faces.mcp.protocol import PATH

        url = f"http://{Address.of(args.listen).reachable}{PATH}"
        if names:
            print(f"rrext: the command itself needs the values of {names}", file=sys.stderr)
        if args.tokens is not None:
            place = "as RREXT_TOKEN in the variables of the host" if args.print_config == "codex" else "in the place of TOKEN"
            print(f"rrext: put in the token of a user, {place}", file=sys.stderr)
        print(settings_for_url(args.print_config, name, url, with_token=args.tokens is not None))
    return 0


MCP = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _variables(args: argparse.Namespace) -> list[str] | None:
    """The variables that the connections and the pipelines of a command line need, in the order of their places; None after an
    error message for a file that cannot be read, or that a host could not load before the project is trusted."""
    from rrext.cli.pipeline_problems import read_file
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.pipeline_loader import load_pipeline

    found = dict.fromkeys(sorted(connections_from(args).variables))
    for path in args.files:
        text = read_file(path)
        if text is None:
            return None
        ignored = "" if args.nodes else getattr(args, "ignored", "")
        loaded = load_pipeline(text, Catalog(ignored=ignored), Environment({}, args.env))
        if loaded.ignored and loaded.remedy is not None:
            print(printable(f"rrext: {path}: a host could not start it: {loaded.remedy}"), file=sys.stderr)
            return None
        for problem in loaded.problems:
            if problem.code == "unresolved_variable":
                found[problem.part[2:-1]] = None
            elif problem.code == "variable_not_allowed":
                print(printable(f"rrext: {path}: {problem.message}"), file=sys.stderr)
    return list(found)


def _program() -> list[str]:
    """The words that start this program from any folder."""
    program = os.path.abspath(sys.argv[0])
    return [sys.executable, "-m", "rrext"] if program.endswith("__main__.py") else [program]


def elsewhere(words: Sequence[str]) -> list[str]:
    """The words of a command, without `--print-config`, as they mean the same in every folder."""
    found: list[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (option, "", word)
        if name != "--print-config":
            is_path = (not word.startswith("-") and (not option or option in PATHS)) or (equals and name in PATHS)
            if is_path and os.path.exists(value):
                value = os.path.abspath(value)
            found.append(f"{name}={value}" if equals else word if word.startswith("-") else value)
        option = name if word.startswith("--") and not equals else ""
    return found


FILES: Final = {
    "vscode": ".vscode/mcp.json",
    "claude": "claude_desktop_config.json, or .mcp.json for Claude Code, which alone takes a URL",
    "cursor": ".cursor/mcp.json",
    "zed": "settings.json",
    "codex": "~/.codex/config.toml",
}
"""Host → the file of its settings."""


def settings_for(host: str, name: str, command: Sequence[str], variables: Sequence[str] = ()) -> str:
    """The lines for the settings of a host: a server of that name, started by these words, with a place for the value of each
    variable."""
    program, arguments = command[0], list(command[1:])
    server: dict[str, Any] = {"command": program, "args": arguments}
    places = {variable: f"<value of {variable}>" for variable in variables}
    if host == "codex":
        table = f"mcp_servers.{json.dumps(name)}"  # strings of JSON are basic strings of TOML
        lines = [f"[{table}]", f"command = {json.dumps(program)}", f"args = {json.dumps(arguments)}"]
        lines += [f"[{table}.env]"] if places else []
        return "\n".join([*lines, *(f"{json.dumps(variable)} = {json.dumps(place)}" for variable, place in places.items())])
    if places:
        server["env"] = places
    if host == "vscode":
        server = {"type": "stdio", **server}
    return _table(host, name, server)


def settings_for_url(host: str, name: str, url: str, *, with_token: bool) -> str:
    """The lines for the settings of a host: a server at a URL; with a place for the user's token if clients need one."""
    if host == "codex":
        lines = [f"[mcp_servers.{json.dumps(name)}]", f"url = {json.dumps(url)}"]
        return "\n".join([*lines, *(['bearer_token_env_var = "RREXT_TOKEN"'] if with_token else [])])
    server: dict[str, Any] = {"url": url}
    if host in ("vscode", "claude"):
        server = {"type": "http", **server}
    if with_token:
        server["headers"] = {"Authorization": "Bearer TOKEN"}
    return _table(host, name, server)


def _table(host: str, name: str, server: dict[str, Any]) -> str:
    key = {"vscode": "servers", "zed": "context_servers"}.get(host, "mcpServers")
    return json.dumps({key: {name: server}}, indent=2)
