"""The process of a task: it serves one server through its stdin and stdout, and ends with it."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.connections import NO_CONNECTIONS, load_connections
from rrext.engine.interface.call import Caller
from rrext.engine.tasks.foreign import PathRule
from rrext.errors import RrextError
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.secrets.redaction import redact_streams
from rrext.server.journal.logs import set_up_logging
from rrext.server.loop import ServingLoop
from rrext.server.process import ServingProcess
from rrext.server.watchdog import Watchdog, leave, trace_crashes, write_last_words
from rrext.tasks.families import end_family
from rrext.tasks.settings import WorkerSettings, read_settings, without_limits
from rrext.tasks.worker_engine import WorkerEngine
from rrext.tasks.worker_session import WorkerSession
from rrext.threads import prepare_for_many
from rrext.transports.claimed_stdio import ClaimedStdio, claim_stdio
from rrext.transports.descriptors import ParentWatch, has_hung_up

if TYPE_CHECKING:
    from rrext.server.session import Session
    from rrext.transports.lossy import LossyWriter


EXIT_FAILED: Final = 1
USUAL: Final = (
    "rrext.engine.calls.object_calls",
    "rrext.engine.calls.run",
    "rrext.engine.views.task_views",
    "rrext.pipefile.catalog.settings",
    "rrext.tools.arguments",
    "rrext.tools.grammar",
)
"""Modules that are loaded at the first call of nearly every pipeline."""


def main(parent: ParentWatch | None = None) -> None:
    """Serve until the server ends the worker, or is gone itself. `parent` watches the server; by default it is the parent."""
    parent = parent or ParentWatch()
    gc.disable()
    stdio = claim_stdio()
    settings = read_settings(partial(os.read, stdio.read_fd))
    if settings is None:
        os._exit(0)
    watchdog = Watchdog()
    limits, end = settings.limits, partial(end_family, settings.mark)
    # It is never dismissed: a server that dies while the worker ends does not end what tools have left behind.
    watchdog.start(stdio.read_fd, parent.pid, grace=limits.eof_grace, drain=limits.drain, at_end=end)
    sys.path[:] = settings.modules or sys.path
    writers = [stdio.stderr]
    ends: dict[str, Any] = {}
    if settings.listening is not None:
        from rrext.tasks.distant_server import ends_of, meet_server

        tls = meet_server(settings.listening, stdio)
        told = None if tls is None else read_settings(tls.read_exactly)
        if tls is None or told is None:
            os._exit(0)
        settings, ends = msgspec.structs.replace(told, mark=settings.mark), ends_of(tls)
    try:
        code = _serve(settings, stdio, parent, watchdog, writers, ends)
    except RrextError as error:
        sys.stderr.write(f"{error.message}\n")
        code = EXIT_FAILED
    if parent.is_gone() or has_hung_up(stdio.read_fd):
        write_last_words(writers)
        end()
    leave(code, writers)


def _serve(
    settings: WorkerSettings,
    stdio: ClaimedStdio,
    parent: ParentWatch,
    watchdog: Watchdog,
    writers: list[LossyWriter],
    ends: dict[str, Any],
) -> int:
    environment = Environment(settings.values, settings.names)
    redact = environment.redactor.text
    redact_streams(environment.redactor)
    writer = set_up_logging(settings.log_level, settings.log_file, redact=redact)
    writers.append(writer)
    trace_crashes(writer.fileno())
    faulthandler.enable(2)  # the server keeps the end of stderr, for the error of a crash
    prepare_for_many()
    loop = ServingLoop()
    asyncio.set_event_loop(loop)

    async def begin() -> ServingProcess:
        connections = NO_CONNECTIONS
        if settings.connections is not None:
            connections = load_connections(settings.connections, settings.variables)
        engine = WorkerEngine(
            settings.number,
            paths=_paths(settings),
            catalog=_catalog(settings),
            environment=environment,
            limits=settings.limits,
            root=settings.root,
            wait=settings.wait,
            connections=connections,
            packages=settings.packages,
        )
        import_usual()
        gc.freeze()
        gc.enable()

        def on_stdio(_: Any, session: Session) -> None:
            assert isinstance(session, WorkerSession)
            session.connection.raw_tail = True
            engine.session = session
            if settings.tells_sources:
                from rrext.server.reload import tell_sources  # for developers alone

                engine.host.spawn(tell_sources(engine.notify, settings.nodes), "sources")
            engine.notify("worker_ready", {})

        return ServingProcess(
            engine,
            engine.host,
            stdio,
            limits=without_limits(settings.limits),
            on_stdio=on_stdio,
            caller=Caller("server"),
            kind=WorkerSession,
            **ends,
            parent=parent,
            watchdog=watchdog,
            look_at_loop=engine.loop_watch().check,
            last_words=lambda: write_last_words(writers),
        )

    return loop.run_until_complete(begin()).run()


def _catalog(settings: WorkerSettings) -> Catalog:
    catalog = Catalog()
    for name in settings.nodes:
        for node_class in load_nodes(name, settings.node_texts.get(name)):
            catalog.add(node_class)
    return catalog


def _paths(settings: WorkerSettings) -> PathRule | None:
    """The rule for paths of nodes on another machine than the server's."""
    return PathRule(shares_root=settings.shares_root) if settings.is_elsewhere else None


def import_usual() -> None:
    """Import what the first calls of most pipelines need, so that a warm worker answers them at once."""
    for module in USUAL:
        import_module(module)


if __name__ == "__main__":
    main()
