"""A pipeline in the process of the command itself."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.console.output import PACKAGE, Results, print_error, unreadable
from rrext.cli.options import catalog_from, environment_from, packages_from, root_from
from rrext.cli.pipeline import Absorbs, Interrupts, Pipeline, end_process, exit_code_of
from rrext.cli.tracing import Traces
from rrext.columns import printable
from rrext.engine.host.places import Places
from rrext.engine.interface.call import ANONYMOUS, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError, ToolTimeout
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS, Limits
from rrext.secrets.redaction import RedactedStream

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.engine.local_engine import LocalEngine
    from rrext.engine.tasks.task import Task
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.lane_plan import LanePlan

T = TypeVar("T")

NODES: Final = os.path.join(PACKAGE, "nodes") + os.sep
FAILURES: Final = "rrext.failures"
TOLD_AGAIN: Final = (FAILURES, "rrext.component")
"""Loggers of exceptions that also return as the failure of a call, which is printed."""


class LocalPipeline(Pipeline):
    """A loaded pipeline, and the requests of a command. `source` is where its objects enter, if that is said."""

    def __init__(self, engine: LocalEngine, task: Task, source: str | None = None, caller: Caller = ANONYMOUS) -> None:
        self._engine = engine
        self.caller = caller
        self._source = source
        self._is_late = False
        self._readers = Places(engine.limits.threads)
        self.task = task
        self.limits = engine.limits

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller | None = None
    ) -> tuple[bytes, bytes | None]:
        try:
            return await self._engine.ask(operation, caller or self.caller, data=data, feed=feed)
        except ToolTimeout:
            self._is_late = True
            raise

    async def in_thread(self, work: Callable[[], T]) -> T:
        from rrext.engine.calls.run import in_thread  # `send --at` imports this module, and no engine

        return await in_thread(self._engine.host, work, places=self._readers, lease=None)

    def drop(self, caller: Caller) -> None:
        self._engine.disconnect(caller.connection_id)

    def listens(self, lane: str) -> bool:
        return self.plan.listens(lane)

    @property
    def plan(self) -> LanePlan:
        """The plan of its objects. Raises `InvalidArguments` and `Unavailable` without a usable source."""
        return self.task.plan_from(self._source, "send")

    async def owners_of(self, tools: frozenset[str]) -> dict[str, str]:
        """Those whose class has the tools, so that no node is set up to learn it."""
        found = self.task.components.items()
        return {name: each.node_class.provider for name, each in found if each.node_class.tools.keys() >= tools}

    def setup_failures(self) -> list[RrextError]:
        found = (component.failure for component in self.task.components.values() if component.node_class.tools)
        return [failure for failure in found if failure is not None]

    async def close(self) -> bool:
        """Unload the pipeline; False if some of it may still run and is left behind.

        A call after its deadline counts as left behind: its tool may have threads of its own, which are invisible here.
        """
        is_idle = await _done_within(CLIENT_DEFAULTS.interrupt / 2, self._idle())
        patience = self.limits.drain if is_idle else CLIENT_DEFAULTS.interrupt / 2
        is_closed = await _done_within(patience, self._engine.aclose())
        return is_idle and is_closed and not self._is_late

    async def _idle(self) -> None:
        while self.task.is_busy:  # noqa: ASYNC110 – any thread may release a place, without an event
            await asyncio.sleep(0.005)


async def _done_within(seconds: float, work: Coroutine[Any, Any, None]) -> bool:
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True


def in_words_of_source(error: RrextError) -> RrextError:
    """The same error of a pipeline's plan, with the option of the command line in place of the argument."""
    error.message = error.message.replace("/source", "--source", 1)
    return error


LocalWork: TypeAlias = Callable[[LocalPipeline, Results], Awaitable[int]]
"""A `Work` that needs the pipeline in its own process."""


def redirected(
    args: argparse.Namespace, stack: ExitStack, *, keeps_stdin: bool = False
) -> tuple[Results, Environment, Connections]:
    """The real stdout, and what pipelines may read, until the end of `stack`; what nodes print goes to stderr, without secrets.

    Raises `OSError` when stdout is closed, and `RrextError` for a file of connections that cannot be read.
    """
    results = stack.enter_context(Results(keeps_stdin=keeps_stdin))
    environment, connections = environment_from(args)
    told = RedactedStream(sys.stderr, environment.redactor)
    stack.callback(told.end)
    stack.enter_context(redirect_stderr(told))
    stack.enter_context(redirect_stdout(told))
    stack.enter_context(NodeLog())
    return results, environment, connections


def run_locally(
    args: argparse.Namespace,
    work: LocalWork,
    *,
    limits: Limits = DEFAULTS,
    keeps_stdin: bool = False,
    absorbs: Absorbs | None = None,
) -> int:
    """Load `args.file`, or the text `args.pipeline` in its place, do the work, unload; returns the exit code.

    `absorbs` may keep signals from ending the work. It does not return after Ctrl-C or SIGTERM, nor if a thread is left
    behind, because Python would wait for that thread.
    """
    with ExitStack() as stack:
        try:
            results, environment, connections = redirected(args, stack, keeps_stdin=keeps_stdin)
            text = getattr(args, "pipeline", None) or _read(args.file, limits)
            catalog = catalog_from(args)
            packages_from(args)
        except OSError as error:
            print(unreadable("stdout" if error.filename is None else error.filename, error), file=sys.stderr)
            return EXIT_USAGE
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            return loop.run_until_complete(_run(args, text, catalog, environment, connections, limits, work, results, absorbs))


async def _run(
    args: argparse.Namespace,
    text: bytes,
    catalog: Catalog,
    environment: Environment,
    connections: Connections,
    limits: Limits,
    work: LocalWork,
    results: Results,
    absorbs: Absorbs | None,
) -> int:
    from rrext.engine.local_engine import LocalEngine

    wait: float | None = getattr(args, "wait", None)
    engine = LocalEngine(
        catalog=catalog, environment=environment, limits=limits, root=root_from(args), wait=wait, connections=connections,
        packages=args.python_packages,
    )  # fmt: skip
    try:
        traces = Traces(args, engine)
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE
    is_own = getattr(args, "pipeline", None) is None
    task = _load(engine, args.file, text, partial=getattr(args, "partial", False), is_own=is_own)
    if task is None:
        return EXIT_USAGE
    pipeline = LocalPipeline(engine, task, getattr(args, "source", None), _caller(args))
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel), absorbs) as interrupts:
        code = await exit_code_of(work(pipeline, results), interrupts)
        is_clean = await pipeline.close()
    traces.end()
    if not is_clean:
        end_process(code)
    return code


def _caller(args: argparse.Namespace) -> Caller:
    return Caller(user_id=getattr(args, "user", None), space_id=getattr(args, "space", None))


def _load(engine: LocalEngine, path: str, text: bytes, *, partial: bool, is_own: bool) -> Task | None:
    """The loaded pipeline; None after an error message."""
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        folder = os.path.dirname(os.path.abspath(path))
        task = engine.load(text, token=stem, name=stem, folder=folder, partial=partial)
    except RrextError as error:
        if "problems" not in error.data:
            print_error(error, path)
            return None
        from rrext.cli.pipeline_problems import print_problems

        print_problems(path, text, engine.catalog, engine.environment, partial=partial, is_own=is_own)
        return None
    if partial:
        if missing := task.unavailable(engine.environment.redactor.text):
            names = ", ".join(node["nodeId"] for node in missing)
            print(f"rrext: {path}: unavailable: {printable(names)}; `rrext check --partial` says why", file=sys.stderr)
        return task
    for warning in task.warnings[:1]:
        more = f" (and {len(task.warnings) - 1} more)" if len(task.warnings) > 1 else ""
        print(f"rrext: {path}: warning: {printable(warning)}{more}; `rrext check` shows where", file=sys.stderr)
    return task


def _read(path: str, limits: Limits) -> bytes:
    with open(path, "rb") as file:
        return file.read(limits.max_pipeline + 1)


class NodeLog(logging.Handler):
    """A context manager that prints rrext's log records about nodes, for their authors.

    A traceback keeps the frames of the author's code and omits rrext's, and is printed once: a thousand files may fail at one
    line.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._shown: set[tuple[object, ...]] = set()
        self._log = logging.getLogger("rrext")

    def __enter__(self) -> NodeLog:
        self._log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, without its message if that is printed elsewhere."""
        raised = record.exc_info[1] if record.exc_info else None
        lines = [] if raised is None else self._frames(raised)
        if record.name != FAILURES and (raised is None or record.name not in TOLD_AGAIN):
            lines.insert(0, f"rrext: {record.getMessage()}")
        if lines:
            print(printable("\n".join(lines)), file=sys.stderr)

    def _frames(self, error: BaseException) -> list[str]:
        told = traceback.TracebackException.from_exception(error)
        key = (type(error), *((frame.filename, frame.lineno) for frame in told.stack))
        if key in self._shown:
            return []
        self._shown.add(key)
        _leave_out_machinery(told)
        return "".join(told.format()).splitlines()


def _leave_out_machinery(told: traceback.TracebackException | None) -> None:
    """Keep the frames of the author's code, also in causes; without any, it is our own bug and all stay."""
    while told is not None:
        own = [frame for frame in told.stack if not frame.filename.startswith(PACKAGE) or frame.filename.startswith(NODES)]
        told.stack[:] = own or told.stack
        told = told.__cause__ or told.__context__
