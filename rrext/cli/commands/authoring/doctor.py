"""`rrext doctor`: what this machine gives rrext: Python, limits, extras, packages of nodes, connections, a server."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

import rrext
from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED
from rrext.cli.console.lines import terminal_width
from rrext.cli.console.tables import table
from rrext.cli.options import (
    KEY,
    Command,
    add_nodes_option,
    catalog_from,
    connections_from,
    key_from,
)
from rrext.errors import RrextError
from rrext.limits import memory_limits
from rrext.version import __version__

if TYPE_CHECKING:
    from rrext.connections import Connection
    from rrext.pipefile.catalog.catalog import Catalog

DESCRIPTION = "Tell what rrext finds here: Python, limits, extras, nodes and what they lack, connections, a server."
EXAMPLE = """examples:
  rrext doctor
  rrext doctor --connections servers.toml --reach
  rrext doctor --at unix:/tmp/rrext.sock

It asks the code of the nodes, as `rrext check` does, and connects to nothing; with --reach, to the addresses of the
connections, to which it says nothing; with --at, to that server.

Exit code 0: what was asked for is there. 1: a connection, a server or a limit is not as it must be. What extras and nodes
lack is told, and is no failure.
"""
DESCRIPTORS: Final = 64
"""Open files that a server needs at least."""
PATIENCE: Final = 5.0
"""Seconds in which an address of a connection has to take one."""
_DOCS: Final = ("kreuzberg", "chardet", "pypdfium2", "PIL")
_DUCKDB: Final = ("duckdb", "pytz", "python_calamine")
_EMBED: Final = ("numpy", "tokenizers", "safetensors")
EXTRAS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "cli": ("prompts and Markdown of `rrext sql` and `rrext chat`, results as .xlsx", ("prompt_toolkit", "rich", "xlsxwriter")),
    "web": ("rrext serve --ws", ("uvicorn", "starlette", "websockets", "python_multipart")),
    "mcp": ("rrext mcp --http, servers of the Model Context Protocol", ("mcp", "uvicorn")),
    "otel": ("--otel", ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")),
    "cluster": ("rrext serve --cluster", ("ray", "cryptography")),
    "keyring": ("secrets of connections in the keyring", ("keyring",)),
    "http": ("connections to HTTP APIs", ("httpx2", "yaml")),
    "python": ("programs of tool_python", ("sandlock",) if sys.platform == "linux" else ()),
    "sql": ("SQLite, which comes with Python", ()),
    "duckdb": ("DuckDB", _DUCKDB),
    "postgres": ("PostgreSQL", ("psycopg",)),
    "mysql": ("MySQL", ("pymysql",)),
    "graph": ("Neo4j", ("neo4j",)),
    "graph-embedded": ("graphs without a server", ("ladybug",)),
    "vector": ("vectors without a server", ("qdrant_edge",)),
    "pgvector": ("vectors in PostgreSQL", ("psycopg", "pgvector")),
    "qdrant": ("vectors in Qdrant", ("qdrant_client",)),
    "embed": ("embeddings", _EMBED),
    "embed-fast": ("embeddings, faster", (*_EMBED, "onnxruntime")),
    "knowledge": (
        "spaces of documents, kept in step by --sync",
        (*_DOCS, "re2", "qdrant_edge", *_DUCKDB, "httpx2", "yaml", "watchfiles", "feedparser"),
    ),
    "docs": ("texts of documents", _DOCS),
    "text": ("patterns in texts", ("re2",)),
    "images": ("images", ("PIL",)),
    "ocr": ("texts of images", ("PIL", "rapidocr", "onnxruntime")),
    "audio": ("audio files", ("miniaudio",)),
    "speech": ("spoken texts", ("espeakng_loader",)),
    "git": ("repositories of Git", ("pygit2", "re2")),
    "llm": ("models over HTTP", ("httpx2",)),
    "agent": ("agents", ("pydantic_ai", "openai")),
    "anthropic": ("agents with models of Anthropic", ("pydantic_ai", "anthropic")),
    "gemini": ("agents with models of Google", ("pydantic_ai", "google.genai")),
}
"""Extra of our package → what it is for, and the modules that it brings."""
HEADS: Final = ("STATE", "WHAT", "FOUND")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_nodes_option(parser)
    parser.add_argument("--connections", metavar="FILE.toml", help="look at these connections too")
    parser.add_argument("--reach", action="store_true", help="find out whether their addresses take a connection")
    parser.add_argument("--at", metavar="unix:PATH|ws://HOST:PORT", help="ask this server for its version")
    parser.add_argument("--key-file", metavar="FILE", help=f"the key for a server at ws://, if it is not in {KEY}")
    parser.add_argument("--json", action="store_true", help="each finding as a line of JSON: {state, what, found}")


class Diagnosis(msgspec.Struct, frozen=True):
    """One line of the report: `missing` is of use to who needs it, `wrong` is a failure."""

    state: Literal["ok", "missing", "wrong"]
    what: str
    found: str


def run(args: argparse.Namespace) -> int:
    """Look, and tell; 1 if something is wrong."""
    told = [*_machine(), *_extras(), *_engines(), *_nodes(catalog_from(args)), *asyncio.run(_outside(args))]
    if args.json:
        for each in told:
            print(msgspec.json.encode(each).decode())
    else:
        width = terminal_width() if sys.stdout.isatty() else None
        print(*table(HEADS, [(each.state, each.what, each.found) for each in told], width=width), sep="\n")
    return EXIT_FAILED if any(each.state == "wrong" for each in told) else EXIT_DONE


DOCTOR: Final = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _machine() -> Iterator[Diagnosis]:
    yield Diagnosis("ok", "rrext", f"{__version__}, {rrext.__path__[0]}")
    yield Diagnosis("ok", "Python", f"{platform.python_version()}, {sys.executable}")
    yield Diagnosis(
        "ok", "system", f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} processors"
    )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 0 <= files < DESCRIPTORS
    yield Diagnosis("wrong" if few else "ok", "open files", f"{files}, of which a server needs {DESCRIPTORS} (ulimit -n)")
    limits = ", ".join(f"{name} {limit:,} bytes" for name, limit in memory_limits().items())
    yield Diagnosis("ok", "memory", limits or "no limit")


def _extras() -> Iterator[Diagnosis]:
    """The extras that are installed, and what each of the others is for and lacks."""
    from rrext.nodes.base.setup import missing_packages

    lacks = {extra: missing_packages(extra, *modules) for extra, (_, modules) in EXTRAS.items()}
    there = ", ".join(extra for extra, lack in lacks.items() if lack is None)
    yield Diagnosis("ok", "extras", there)
    for extra, lack in lacks.items():
        if lack is not None:
            yield Diagnosis("missing", f"extra {extra}", f"for {EXTRAS[extra][0]}: {lack}")


def _engines() -> Iterator[Diagnosis]:
    """What isolates the programs of `tool_python`, the strongest first."""
    from rrext.nodes.sandbox.engine import lack_of, wanted

    for engine in wanted():
        lack = lack_of(engine)
        weaker = "" if (told := engine.weaker()) is None else f"; {told}"
        found = lack or f"isolates programs of tool_python, as far as is known before one runs{weaker}"
        yield Diagnosis("ok" if lack is None else "missing", f"sandbox {engine.name}", found)


def _nodes(catalog: Catalog) -> Iterator[Diagnosis]:
    """How many nodes can run, and the reasons of the others, each with the names of its nodes."""
    lacks: dict[str, list[str]] = {}
    able = 0
    for name in catalog.names():
        try:
            reason = catalog.class_of(name).unavailable()
        except RrextError as error:
            reason = error.message
        except Exception as error:  # a node's own code
            reason = f"{type(error).__name__}: {error}"
        if reason is None:
            able += 1
        else:
            lacks.setdefault(reason, []).append(name)
    yield Diagnosis("ok", "nodes", f"{able} of {len(catalog.names())} can run here")
    for reason, names in lacks.items():
        yield Diagnosis("missing", ", ".join(names), reason)


async def _outside(args: argparse.Namespace) -> list[Diagnosis]:
    """The connections and the server that were asked for."""
    told: list[Diagnosis] = []
    if args.connections is not None:
        try:
            connections = connections_from(args)
        except RrextError as error:
            told.append(Diagnosis("wrong", "connections", error.message))
        else:
            told += [Diagnosis("wrong", "connections", str(problem)) for problem in connections.problems]
            told += await asyncio.gather(*(_connection(each, reach=args.reach) for each in connections))
    if args.at is not None:
        told.append(await _server(args))
    return told


async def _connection(connection: Connection, *, reach: bool) -> Diagnosis:
    what = f"connection {connection.name}"
    settings: Any = connection.settings
    if not connection.active:
        return Diagnosis("ok", what, f"{connection.provider}, switched off")
    if getattr(settings, "command", None):
        from shutil import which

        program = settings.command[0]
        if which(program) is None:
            return Diagnosis("wrong", what, f'there is no program "{program}" on this machine')
        return Diagnosis("ok", what, f"{connection.provider}, starts {program}")
    url = getattr(settings, "url", None)
    if url is None or not reach:
        return Diagnosis("ok", what, connection.provider)
    begun = time.monotonic()
    try:
        place = urlsplit(url)
        port = place.port or (80 if place.scheme == "http" else 443)
    except ValueError:  # whose words repeat a part of the url, which may be a password
        return Diagnosis("wrong", what, "its url has no host and port: expected http://HOST:PORT/, with a port up to 65535")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(place.hostname, port), PATIENCE)
    except UnicodeError:
        return Diagnosis("wrong", what, f"{place.hostname} is no name of a machine")
    except (OSError, TimeoutError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error) or f"not in {PATIENCE:g} s"
        return Diagnosis("wrong", what, f"{place.hostname}:{port} takes no connection: {why}")
    writer.close()
    return Diagnosis("ok", what, f"{place.hostname}:{port} takes a connection ({(time.monotonic() - begun) * 1e3:.0f} ms)")


async def _server(args: argparse.Namespace) -> Diagnosis:
    from rrext.client.client import Client

    what = f"server {args.at}"
    try:
        async with Client.connect(args.at, key=key_from(args)) as client:
            version, protocol = client.server["server"]["version"], client.server["protocol"]
            running = len(await client.tasks())
    except RrextError as error:
        return Diagnosis("wrong", what, error.message)
    other = "" if version == __version__ else f", and this is {__version__}"
    return Diagnosis("ok", what, f"rrext {version}{other}, protocol {protocol}, {running} pipelines")
