"""`rrext serve`: the server process for clients, with the options of `--ws` (the port of WebSockets and HTTP, and who may use
it) and of `--tools` (the only tools that a server offers).
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from rrext.cli import PARENT
from rrext.cli.console.exit_codes import EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import has_terminal, print_listening
from rrext.cli.options import (
    KEY,
    OF_PORT,
    Command,
    add_partial_option,
    add_pipeline_options,
    add_wait_option,
    byte_size,
    catalog_from,
    environment_from,
    let_words_follow_options,
    packages_from,
    root_from,
    seconds,
    whole_number,
)
from rrext.cli.tracing import Traces, add_record_option, add_trace_options
from rrext.errors import InvalidPipeline, RrextError, UsageError
from rrext.limits import DEFAULTS, MIB, MIN_TASK_MEMORY, Limits, memory_limits
from rrext.secrets.redaction import redact_streams
from rrext.server.loop import ServingLoop
from rrext.server.watchdog import Watchdog, ignore_signal, leave, trace_crashes, write_last_words
from rrext.threads import prepare_for_many
from rrext.transports.claimed_stdio import claim_stdio, open_missing
from rrext.transports.descriptors import ParentWatch

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.engine import Engine
    from rrext.engine.local_engine import LocalEngine
    from rrext.faces.http.address import Address
    from rrext.faces.http.certificate import Certificate
    from rrext.faces.http.kept_files import KeptFiles
    from rrext.faces.http.tokens import UserTokens
    from rrext.files.file_store import FileStoreSettings
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.resources import Resources
    from rrext.secrets.redaction import Redactor
    from rrext.server.process import Listener, ServingProcess
    from rrext.server.session import Session
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.task_engine import TaskEngine
    from rrext.transports.claimed_stdio import ClaimedStdio
    from rrext.transports.lossy import LossyWriter
    from rrext.wire.connection import ServedConnection


DESCRIPTION = "Load pipelines and answer Content-Length framed requests on stdin, DAP-style or JSON-RPC 2.0."
EXAMPLE = """examples:
  rrext serve pipeline.pipe --log-file rrext.log
  rrext serve --listen unix:/tmp/rrext.sock pipeline.pipe
  rrext tool --at unix:/tmp/rrext.sock read_file --input '{"path": "notes.txt"}'
  rrext serve --ws 127.0.0.1:5565 --keys keys.toml --root data

With --listen it answers the clients of a socket, which is for processes of the same user alone, and ends by SIGTERM,
Ctrl-C or a client's `shutdown`. With --ws it answers clients on a network, by WebSockets and HTTP, and ends by a signal.
It says on stderr when clients can connect.
"""
AT_TERMINAL = """rrext: this is a server for programs: it waits for framed requests on stdin. Ctrl-D or Ctrl-C ends it.
  For people: rrext tools FILE.pipe, rrext tool, rrext chat, rrext send. On a socket: rrext serve --listen unix:PATH"""
LEVELS = ("debug", "info", "warning", "error")
LEAST_MEMORY: Final = 48 * MIB, 96 * MIB
"""Bytes of address space with which a server starts, and one that listens at a port: with less, libraries end the process, in
words of their own or without any.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_serving_options(parser)
    parser.add_argument("--listen", metavar="unix:PATH", help="answer clients of this socket instead of stdin")
    add_web_options(parser)
    parser.add_argument("--stdio", action="store_true", help="with --listen or --ws: stdin too, and end with the client there")
    parser.add_argument("--parent", type=whole_number, metavar="PID", help="end with this process, as with the parent")
    add_record_option(parser)
    parser.add_argument("--store", metavar="DIR", help="keep files of clients there, apart for each user")
    parser.add_argument("--store-quota", type=whole_number, metavar="BYTES", help="bytes of one user's files (4294967296)")
    parser.add_argument(
        "--isolation",
        choices=("process", "none"),
        help="each task in a process of its own, or all in this one (default: process with --ws, else none)",
    )
    parser.add_argument(
        "--task-memory", type=byte_size, metavar="SIZE", help="kill a process of a task beyond this, such as 2G (default: none)"
    )
    add_cluster_options(parser)
    parser.set_defaults(face=Face(), user=None, space=None)


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of tasks on other machines."""
    parser.add_argument(
        "--cluster", metavar="HOST:PORT", help="run tasks on the nodes of the cluster of Ray with this head (auto: RAY_ADDRESS)"
    )
    parser.add_argument(
        "--max-resources",
        type=resources,
        metavar="cpu=2,memory=4G",
        help="with --cluster: what a pipeline of a network client may ask for (default: nothing)",
    )
    parser.add_argument("--shared-root", action="store_true", help="with --cluster: --root is the same folder on all nodes")


def resources(text: str) -> Resources:
    """An argparse type: resources as `cpu=2,gpu=1,memory=4G`."""
    from rrext.pipefile.near_names import NearNames
    from rrext.pipefile.resources import read_resources
    from rrext.pipefile.text.problems import Problems

    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            given[name] = value if name == "memory" else float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected resources such as cpu=2,gpu=1,memory=4G, not {text!r}") from None
    problems = Problems()
    found = read_resources({"resources": given}, "", problems, NearNames())
    if "node" in given or problems.errors:
        raise argparse.ArgumentTypeError(next((each.message for each in problems), "node is the operator's alone"))
    return found


class Face(NamedTuple):
    """How clients speak with the process, and which engine they see; the defaults are those of `serve`."""

    connect: Callable[[Limits], ServedConnection] | None = None
    on_stdio: Callable[[Engine, Session], object] = lambda engine, session: None
    as_one: Callable[[LocalEngine], Engine] = lambda engine: engine
    listen: Callable[[argparse.Namespace, Environment], Listener] | None = None


def add_serving_options(parser: argparse.ArgumentParser) -> None:
    """Add the files, and the options of a process that serves them."""
    parser.add_argument("files", nargs="*", metavar="FILE.pipe", help="a pipeline to load; its token is the file's stem")
    let_words_follow_options(parser, "files")
    add_pipeline_options(parser)
    add_wait_option(parser)
    add_partial_option(parser)
    add_tools_option(parser)
    parser.set_defaults(parent=None, store=None, store_quota=None, isolation=None, task_memory=None, cluster=None)
    parser.set_defaults(shared_root=False, max_resources=None)
    parser.add_argument(
        "--threads", type=whole_number, default=DEFAULTS.threads, metavar="N", help="pipes per pipeline (%(default)s)"
    )
    parser.add_argument(
        "--pipe-idle",
        type=seconds,
        default=DEFAULTS.pipe_idle,
        metavar="S",
        help="idle seconds until a pipe is reclaimed (%(default)g)",
    )
    parser.add_argument(
        "--max-frame", type=whole_number, default=DEFAULTS.max_frame, metavar="BYTES", help="largest request body (%(default)s)"
    )
    parser.add_argument(
        "--max-user-bytes",
        type=whole_number,
        default=DEFAULTS.max_user_bytes,
        metavar="BYTES",
        help="what all connections of a user of --ws may keep in memory (%(default)s)",
    )
    parser.add_argument(
        "--drain", type=seconds, default=DEFAULTS.drain, metavar="S", help="time for running calls at the end (%(default)g)"
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="for development: files that change count half a second later, unless they are broken",
    )
    parser.add_argument("--log-file", metavar="FILE", help="log there instead of stderr, at level info")
    parser.add_argument("--log-level", choices=LEVELS, help="what to log (info with --log-file, else warning)")
    parser.add_argument(
        "--audit",
        action=argparse.BooleanOptionalAction,
        help="log a line per call, at any level (default: if the level is info or debug)",
    )
    add_trace_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve; returns an exit code only if serving cannot start: stuck threads and tasks must not delay the end."""
    parent = ParentWatch(PARENT)
    if args.parent is not None and (not parent.watch(args.parent) or parent.is_gone()):
        print(f"rrext: process {args.parent} (--parent) is gone: nobody needs this server", file=sys.stderr)
        return EXIT_FAILED
    gc.disable()  # loading makes little garbage, and collections take a tenth of the start
    stems = [stem_of(path) for path in args.files]
    for stem in stems:
        if stems.count(stem) > 1:
            print(f"rrext: two files have the token (stem) {stem!r}: rename one", file=sys.stderr)
            return EXIT_USAGE
    serves_stdio = args.stdio or (args.listen is None and args.ws is None)
    try:
        _require_memory(LEAST_MEMORY[args.ws is not None or args.face.listen is not None])
        if args.face.listen is None:
            check_options(args)
        args.isolation = args.isolation or ("none" if args.ws is None else "process")
        _check_isolation(args)
        cluster = None if args.cluster is None else cluster_from(args)
    except UsageError as error:
        print(f"rrext: {error.message}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
        return EXIT_USAGE
    args.key = take_key(args)
    try:
        if not serves_stdio:
            open_missing()
        stdio = claim_stdio(frames=serves_stdio)  # before any import of node code, whose output must not reach the client
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        print(f"rrext: stdin and stdout must be open: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    reloads = not serves_stdio and (args.ws is not None or args.face.listen is not None) and not has_terminal()
    if reloads:
        signal.signal(signal.SIGHUP, ignore_signal)  # also one that comes before the files are read for the first time
    watchdog = Watchdog(reloads=reloads)
    fd, pid = (stdio.read_fd, parent.pid) if serves_stdio else (None, None)
    writers = [stdio.stderr]
    code = EXIT_USAGE
    try:
        environment, connections = environment_from(args)  # before the fork, whose memory would keep the variables
        watchdog.start(fd, pid, grace=DEFAULTS.eof_grace, drain=args.drain)
        code = _serve_claimed(args, environment, connections, stdio, parent, watchdog, writers, cluster)
    except RrextError as error:
        print(f"rrext: {error.message}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
    finally:
        stdio.no_frames_come()  # of no effect if they did
    leave(code, writers, watchdog)


SERVE = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _require_memory(least: int) -> None:
    """Raise `UsageError` if the process may have less."""
    if memory_limits().get("RLIMIT_AS", least) < least:
        text = f"no memory is left: raise the limit of it (ulimit -v), of which this server needs {least // MIB} MiB"
        raise UsageError(text)


def _check_isolation(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that do not fit where tasks run."""
    if args.task_memory is not None:
        if args.isolation == "none":
            raise UsageError("--task-memory is for processes of tasks: it needs --isolation process")
        if args.task_memory < MIN_TASK_MEMORY:
            raise UsageError(f"--task-memory must be at least {MIN_TASK_MEMORY // MIB}M")
    if args.reload and args.cluster is not None:
        raise UsageError("--reload is for pipelines on this machine: other machines have other files, so leave out --cluster")


def cluster_from(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the engine for a cluster. This process keeps no variable of Ray's. Raises `UsageError`."""
    from rrext.cluster.ray_placement import head_of, take_ray_variables
    from rrext.pipefile.resources import NO_RESOURCES

    if args.isolation == "none":
        raise UsageError("--cluster is for processes of tasks: it needs --isolation process")
    if args.shared_root and args.root is None:
        raise UsageError("--shared-root needs --root")
    variables = take_ray_variables()
    return {
        "head": head_of(args.cluster, variables),
        "variables": variables,
        "most": args.max_resources or NO_RESOURCES,
    }


def _serve_claimed(
    args: argparse.Namespace,
    environment: Environment,
    connections: Connections,
    stdio: ClaimedStdio,
    parent: ParentWatch,
    watchdog: Watchdog,
    writers: list[LossyWriter],
    cluster: dict[str, Any] | None,
) -> int:
    from rrext.server.journal.logs import set_up_logging

    redact = environment.redactor.text
    redact_streams(environment.redactor)
    level = args.log_level or ("info" if args.log_file else "warning")
    try:
        writer = set_up_logging(
            level,
            args.log_file,
            redact=redact,
            on_failure=lambda error: stdio.stderr.write(
                os.fsencode(f"rrext: --log-file {args.log_file}: {error.strerror}: its lines are lost until there is room\n")
            ),
        )
    except OSError as error:
        raise UsageError(f"--log-file {args.log_file}: {error.strerror}") from None
    writers.append(writer)
    prepare_for_many()
    trace_crashes(writer.fileno())
    catalog, packages = catalog_from(args), packages_from(args)
    loop = ServingLoop()  # not asyncio.run, which waits at the end for tasks that ignore cancellation
    asyncio.set_event_loop(loop)

    refused: list[tuple[str, InvalidPipeline]] = []
    traces: list[Traces] = []
    face: Face = args.face

    async def load() -> ServingProcess | None:
        from rrext.engine.local_engine import LocalEngine
        from rrext.server.process import STDIO, ServingProcess, framed_connection

        limits = msgspec.structs.replace(
            DEFAULTS,
            threads=args.threads,
            pipe_idle=args.pipe_idle,
            max_frame=args.max_frame,
            max_user_bytes=args.max_user_bytes,
            drain=args.drain,
            task_memory=args.task_memory or 0,
        )
        given: dict[str, Any] = {"catalog": catalog, "environment": environment, "connections": connections}
        given["store"] = _store_at(args.store, args.store_quota)
        engine: Any
        if args.isolation == "process":
            engine = _task_engine(given, _worker_settings(args, environment, limits, level), cluster)
        else:
            engine = LocalEngine(**given, limits=limits, root=root_from(args), wait=args.wait, packages=packages)
        if _is_audited(args.audit):
            from rrext.server.journal.audit import begin_audit

            begin_audit(engine)
        traces.append(Traces(args, engine))
        writers.extend(file.writer for file in traces[0].files)
        # All of them, to report the problems of each.
        loaded = [await _load(engine, path, limits, refused, partial=args.partial) for path in args.files]
        if not all(loaded):
            return None
        _watch_files(args, engine)
        gc.freeze()  # loaded objects stay: collections can skip them
        gc.enable()
        if args.listen is None and args.ws is None and os.isatty(stdio.read_fd):
            print(AT_TERMINAL, file=sys.stderr, flush=True)
        listener = None
        if args.ws is not None:
            listener = web_clients(args, environment, caller_of_clients(args, allowed_tools(args)))
        elif args.listen is not None:
            listener = (face.listen or _unix_clients)(args, environment)
        seen, tools = face.as_one(engine), allowed_tools(args)
        if tools is not None:
            warn_of_unknown(tools, engine)
        return ServingProcess(
            seen,
            engine.host,
            stdio,
            limits=limits,
            serves_stdio=args.stdio or listener is None,
            connect_stdio=face.connect or framed_connection,
            on_stdio=face.on_stdio,
            caller=msgspec.structs.replace(STDIO, user_id=args.user, space_id=args.space, tools=tools),
            listener=listener,
            parent=parent,
            watchdog=watchdog,
            look_at_loop=engine.loop_watch().check if isinstance(engine, LocalEngine) else None,
            last_words=lambda: write_last_words(writers, watchdog),
            recorder=traces[0].recorder,
        )

    process = loop.run_until_complete(load())
    if process is not None:
        code = process.run()
        traces[0].end()
        return code
    if refused and (args.stdio or (args.listen is None and args.ws is None)):
        _refuse(stdio, refused)
    return EXIT_USAGE


def _refuse(stdio: ClaimedStdio, refused: list[tuple[str, InvalidPipeline]]) -> None:
    """Answer the first request of the client on stdio, if one comes."""
    from rrext.server.refusal import answer_first_request, refusal_of

    if answer_first_request(stdio.read_fd, stdio.write_fd, refusal_of(refused), DEFAULTS):
        stdio.frames_begin()


def _watch_files(args: argparse.Namespace, engine: Any) -> None:
    """Load what changes anew, if that was asked for."""
    if args.reload:
        from rrext.server.reload import Reloader

        engine.host.spawn(Reloader(engine, {stem_of(path): path for path in args.files}, args.nodes).run(), "reload")


def _task_engine(given: dict[str, Any], settings: WorkerSettings, cluster: dict[str, Any] | None) -> TaskEngine:
    """The engine of tasks in processes, on this machine or on a cluster."""
    if cluster is None:
        from rrext.tasks.task_engine import TaskEngine

        return TaskEngine(**given, settings=settings)
    from rrext.cluster.engine import ClusterEngine

    return ClusterEngine(**given, **cluster, settings=settings)


def _store_at(directory: str | None, quota: int | None) -> FileStoreSettings | None:
    """The settings of the file store, if there is to be one. Its directory is made if only it is missing."""
    if directory is None:
        if quota is not None:
            raise UsageError("--store-quota is for the files of clients, which a server keeps with --store DIR")
        return None
    from rrext.files.file_store import FileStoreSettings

    if not directory:  # as an unset variable of a shell makes it
        raise UsageError("--store: expected a directory, not an empty text")
    directory = os.path.abspath(directory)
    try:
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
    except OSError as error:
        raise UsageError(f"--store {directory}: {error.strerror}") from None
    if not os.path.isdir(directory) or not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError(f"--store {directory}: not a directory that this process may write to")
    return FileStoreSettings(directory=directory) if quota is None else FileStoreSettings(directory=directory, quota=quota)


def _worker_settings(args: argparse.Namespace, environment: Environment, limits: Limits, level: str) -> WorkerSettings:
    """The settings of processes for tasks."""
    from rrext.tasks.settings import WorkerSettings

    return WorkerSettings(
        number=0,
        limits=limits,
        root=root_from(args),
        wait=args.wait,
        values={name: environment.get(name) or "" for name in environment.names},
        names=list(args.env),
        nodes=list(args.nodes),
        connections=None if args.connections is None else os.path.abspath(args.connections),
        packages=args.python_packages,
        variables=args.connection_variables,
        log_level=level,
        log_file=None if args.log_file is None else os.path.abspath(args.log_file),
        modules=list(sys.path),
        shares_root=args.shared_root,
        tells_sources=args.reload,
    )


def _unix_clients(args: argparse.Namespace, environment: Environment) -> Listener:
    from rrext.server.unix import UnixClients
    from rrext.transports.unix import socket_path

    return UnixClients(socket_path(args.listen), lambda: print_listening(args.listen), tools=allowed_tools(args))


def _is_audited(wanted: bool | None) -> bool:
    """Whether the log gets one line per call: if requested, or if the log level includes information."""
    calls = logging.getLogger("rrext.calls")
    if wanted:
        calls.setLevel(min(logging.INFO, calls.getEffectiveLevel()))
    return calls.isEnabledFor(logging.INFO) if wanted is None else wanted


def _read_pipeline(path: str, limits: Limits) -> tuple[bytes, str]:
    """The text of a file, and its folder."""
    with open(path, "rb") as file:
        return file.read(limits.max_pipeline + 1), os.path.dirname(os.path.abspath(path))


async def _load(engine: Any, path: str, limits: Limits, refused: list[tuple[str, InvalidPipeline]], *, partial: bool) -> bool:
    """Load one file; its problems go to stderr, and its error to `refused`."""
    from rrext.columns import printable

    text = b""
    try:
        text, folder = _read_pipeline(path, limits)
        unavailable = await engine.load_file(text, token=stem_of(path), name=stem_of(path), folder=folder, partial=partial)
    except OSError as error:
        from rrext.cli.console.output import unreadable

        print(unreadable(path, error), file=sys.stderr)
    except InvalidPipeline as error:
        refused.append((path, error))
        if error.data.get("problems"):
            from rrext.cli.pipeline_problems import print_problems

            print_problems(path, text, engine.catalog, engine.environment, partial=partial)
        else:  # each node is valid, but not their combination
            print(f"rrext: {path}: {error.message}", file=sys.stderr)
    except RrextError as error:
        print(f"rrext: {path}: {error.message}", file=sys.stderr)
    else:
        for node in unavailable if partial else ():
            what = f'node "{node["nodeId"]}" ({node["provider"]}) is unavailable: {node["reason"]}'
            print(printable(f"rrext: {path}: warning: {what}"), file=sys.stderr)
        return True
    return False


def stem_of(path: str) -> str:
    """The token of a file, the same in every locale: text for messages, although a name of a file is bytes."""
    return os.fsencode(os.path.splitext(os.path.basename(path))[0]).decode("utf-8", "backslashreplace")


MAX_CONNECTIONS: Final = 4096
"""Connections of the port at once; each has a descriptor."""

OTHER_DESCRIPTORS: Final = 1024
"""Descriptors for all else: pipelines, files, databases."""

DEFAULT_ADDRESS: Final = "127.0.0.1:5565"


def add_web_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--ws",
        nargs="?",
        const=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help=f"answer clients of WebSockets and HTTP there instead of stdin (without an address: {DEFAULT_ADDRESS})",
    )
    parser.add_argument("--keys", metavar="FILE", help=f'with --ws: the keys of users, lines key = "user" (or one in {KEY})')
    parser.add_argument(
        "--trust-clients", action="store_true", help="with --ws: let clients' pipelines do all that those of files may"
    )
    parser.add_argument(
        "--allow-origin", action="append", default=[], type=origin, metavar="ORIGIN", help="with --ws: pages that may call"
    )
    parser.add_argument(
        "--metrics-key-file", metavar="FILE", help="with --ws: the key for the metrics of users and pipelines at /metrics"
    )
    add_proxy_option(parser, "--ws")
    parser.add_argument("--tls-cert", metavar="FILE", help="with --ws: the certificate, with its chain")
    parser.add_argument("--tls-key", metavar="FILE", help="with --ws: the private key of the certificate")


def add_proxy_option(parser: argparse.ArgumentParser, face: str) -> None:
    """Add the option that names proxies."""
    parser.add_argument(
        "--behind-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help=f"with {face}: take X-Forwarded-For and -Proto from proxies of this address or network (repeatable)",
    )


def origin(text: str) -> str:
    """An argparse type: the origin of a page."""
    from rrext.faces.http.address import checked_origin

    try:
        return checked_origin(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def take_key(args: argparse.Namespace) -> str | None:
    """The key in the environment, which nobody sees there from now on."""
    from rrext.pipefile.environment import take_variables

    return take_variables((), [KEY]).get(KEY) if args.ws is not None else None


def check_options(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that do not go together."""
    for name in ("max_resources", "shared_root"):
        if args.cluster is None and getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} needs --cluster")
    if args.ws is None:
        for name in OF_PORT:
            if getattr(args, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --ws")
    elif args.listen is not None:
        raise UsageError("--ws and --listen exclude each other: start a server for each")


def web_clients(args: argparse.Namespace, environment: Environment, caller: Caller) -> Listener:
    """The clients of the port. `caller` has what no client may change. Raises `UsageError`."""
    from rrext.faces.http.address import Address, Proxies
    from rrext.faces.http.kept_files import KeptFiles
    from rrext.nodes.base.setup import missing_packages

    address = Address.of(args.ws)
    missing = missing_packages("web", "uvicorn", "starlette", "websockets", "python_multipart")
    if missing is not None:  # before what imports them
        raise UsageError(f"--ws: {missing}")
    files = KeptFiles()
    proxies = Proxies(args.behind_proxy)
    keys = _keys(args, address, environment.redactor, files, is_behind=bool(proxies))
    metrics_keys = None
    if args.metrics_key_file is not None:
        metrics_keys = files.keep_tokens(
            args.metrics_key_file, "--metrics-key-file", "metrics key", environment.redactor, alone=True
        )
    from rrext.faces.http.listener import HttpClients
    from rrext.faces.ws.app import WebApp
    from rrext.faces.ws.protocol import SocketProtocol

    tls = _certificate(args, files)
    _allow_descriptors(MAX_CONNECTIONS + OTHER_DESCRIPTORS)

    def app(process: ServingProcess) -> WebApp:
        return WebApp(process, caller, keys, metrics_keys)

    def announce(address: Address) -> None:
        secure = "" if tls is None else "s"
        print_listening(f"ws{secure}://{address}", page=f"http{secure}://{address.reachable}/")

    return HttpClients(
        address,
        app,
        announce,
        tokens=None,
        origins=args.allow_origin,
        proxies=proxies,
        upgrade=SocketProtocol,
        tls=tls,
        files=files,
        max_connections=MAX_CONNECTIONS,
    )


def caller_of_clients(args: argparse.Namespace, tools: frozenset[str] | None) -> Caller:
    """The caller of all clients of the port, without their users."""
    from rrext.engine.interface.call import Caller

    has_keys = args.keys is not None or args.key is not None
    return Caller(trusted=args.trust_clients, tools=tools, is_keyed=has_keys or not args.trust_clients)


def _keys(
    args: argparse.Namespace, address: Address, redactor: Redactor, files: KeptFiles, *, is_behind: bool
) -> UserTokens | None:
    """The keys of a file, or that of the environment. Raises `UsageError` without any where other machines can connect, be it
    by a proxy.
    """
    from rrext.faces.http.tokens import MIN_TOKEN, UserTokens
    from rrext.faces.ws.authentication import LOCAL_USER

    if args.keys is not None:
        return files.keep_tokens(args.keys, "--keys", "key", redactor)
    is_local = address.is_local and not is_behind
    if args.key is not None:
        redactor.learn("key 1", args.key, always=True)
        if not is_local and len(args.key) < MIN_TOKEN:
            raise UsageError(f"{KEY} has fewer than {MIN_TOKEN} characters, and other machines could guess it")
        return UserTokens({args.key: LOCAL_USER})
    if not is_local:
        raise UsageError(
            f"every machine that can reach {address} could call the tools: clients need keys there",
            hint=f"set {KEY} or give --keys FILE, or listen at 127.0.0.1",
        )
    return None


def _allow_descriptors(count: int) -> None:
    """Let the process have so many descriptors, or as many as the system lets it: a shell often allows no more than 1,024."""
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        count = min(count, most)
    if now != resource.RLIM_INFINITY and now < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))


def _certificate(args: argparse.Namespace, files: KeptFiles) -> Certificate | None:
    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None:
        raise UsageError("--tls-key needs --tls-cert")
    from rrext.faces.http.certificate import Certificate

    found = Certificate(args.tls_cert, args.tls_key)
    files.keep([path for path in (args.tls_cert, args.tls_key) if path is not None], found.read_again)
    return found


def add_tools_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--tools",
        action="append",
        metavar="NAME",
        help="offer only this tool, by name, node.tool, node.* or call ref; may be repeated (default: all tools)",
    )


def allowed_tools(args: argparse.Namespace) -> frozenset[str] | None:
    """The only tools that clients may use; None for all. The call ref of a node's tool becomes `node.tool`."""
    return None if args.tools is None else frozenset(map(_written, args.tools))


def _written(name: str) -> str:
    from rrext.references import CallRef

    ref = CallRef.read(name)
    if ref is None:
        return name
    return ref.text if ref.provider != "node" or ref.names_a_wrapper else f"{ref.integration}.{ref.action}"


def warn_of_unknown(names: Iterable[str], engine: Engine) -> None:
    """Warn on stderr of allowed tools that no pipeline has. A call ref of a connection or a pipeline needs none."""
    from rrext.columns import printable
    from rrext.errors import near_matches
    from rrext.references import CallRef

    tasks = engine.tool_names()
    known = dict.fromkeys(name for task in tasks for name in task.names)
    later = [node_id for task in tasks for node_id in task.later]
    for name in sorted(names) if tasks else ():
        if CallRef.read(name) is not None or name in known:
            continue
        near = near_matches(name, known)
        hint = f" Did you mean {near[0]}?" if near else ""
        if later:
            hint += f" It may still come from {', '.join(later)}, whose tools are known after the first use."
        print(printable(f"rrext: warning: --tools {name}: no pipeline has this tool.{hint}"), file=sys.stderr)
