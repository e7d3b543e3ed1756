"""The engine process of an editor, its output and its errors, and the documents that are loaded in it as pipelines."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pygls.exceptions import JsonRpcInvalidParams
from pygls.uris import to_fs_path

from rrext.editor.analysis import Analysis
from rrext.errors import (
    Cancelled,
    InvalidArguments,
    InvalidPipeline,
    NotConnected,
    RrextError,
    ServerExited,
    ShuttingDown,
    TaskNotRegistered,
    UsageError,
)
from rrext.faces.lsp.options import Options
from rrext.limits import KIB
from rrext.threads import shielded

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.faces.lsp.server import PipeServer


TRUST_HINT = 'set "trusted": true in initializationOptions if you would run this pipeline on the command line too'


class NotTrusted(RrextError, code="not_trusted", number=-32016):
    """A workspace without trust wants to run code."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} runs code, and this workspace is not trusted", hint=TRUST_HINT)


class EngineEnded(RrextError, code="engine_ended", number=-32016):
    """The engine process ended or could not start; `data` has `exit_code` and the tail of `stderr`, if it ran."""


class InputNeeded(InvalidArguments):
    """A tool, its input, a file or a question is missing, and the user provided none."""

    def __init__(self, path: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint, data={"errors": [{"path": path, "message": message}]})


class FilesFailed(RrextError, code="files_failed", number=-32016):
    """Some of several files failed; `result` has the outcome of each."""


def as_editor_error(error: RrextError, *, has_ended: bool = False) -> RrextError:
    """The error in the words of an editor, which knows an engine and no server behind it.

    The last errors of an engine that `has_ended` are not the reason of the failure.
    """
    data: dict[str, Any] = error.data
    if isinstance(error, ShuttingDown) or (has_ended and isinstance(error, Cancelled)):
        error = NotConnected(error.message)
    if isinstance(error, ServerExited):
        return EngineEnded(error.message.replace("The server", "The engine", 1), hint="the next run starts it again", data=data)
    if isinstance(error, NotConnected):
        return EngineEnded("The engine was ended while this ran", hint="run it again")
    if isinstance(error, UsageError) and "arguments cannot be sent" in error.message:
        return InvalidArguments.at("", error.message)
    if isinstance(error, UsageError):
        return EngineEnded(error.message.replace("the server", "the engine", 1))
    return error


MAX_UNFINISHED_LINE: Final = 4 * KIB
"""Characters of an unfinished line, after which it is shown."""

MAX_RUN_OUTPUT: Final = 64 * KIB
"""Bytes shown per run: an endless output must not fill the editor's log or the pipe to the editor."""


class EngineOutput:
    """Shows the output line by line, up to a limit; `refill` resets the limit."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._left = MAX_RUN_OUTPUT

    def refill(self) -> None:
        """Reset the limit at the start of a run."""
        self._left = MAX_RUN_OUTPUT

    def __call__(self, piece: bytes) -> None:
        """Take a piece of output."""
        if self._left <= 0:
            return
        self._left -= len(piece)
        *lines, self._rest = (self._rest + self._decoder.decode(piece)).split("\n")
        if len(self._rest) > MAX_UNFINISHED_LINE:
            lines, self._rest = [*lines, self._rest], ""
        if lines:
            self._tell("\n".join(lines))
        if self._left <= 0:
            self._rest = ""
            self._tell(f"(There is more output. Of each run, {MAX_RUN_OUTPUT} bytes are shown.)")


ENGINE_DRAIN: Final = 0.25
"""Seconds that running calls get at the end of the engine."""

ENGINE_STOP_TIMEOUT: Final = 0.25
"""Seconds between the end of the engine's stdin, SIGTERM and SIGKILL: editors kill servers that linger."""

log: Final = logging.getLogger("rrext.lsp")


class EngineProcess:
    """At most one engine at a time. A tool that blocks, prints or crashes there does not affect the editor's answers.

    When the process ends, its runs fail with the reason, and the next `client` starts another process. `on_event` receives the
    engine's events, `on_output` its stderr. Without trust no process ever starts.
    """

    def __init__(
        self,
        options: Callable[[], Options],
        *,
        on_output: Callable[[bytes], object],
        on_event: Callable[[str, dict[str, Any]], object],
    ) -> None:
        self._options = options
        self._on_output = on_output
        self._on_event = on_event
        self._life: _Life | None = None
        self._ending: asyncio.Task[bool] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while a process runs."""
        life = self._life
        return None if life is None or life.is_over else life.process.pid

    async def client(self) -> Client:
        """The connection to the engine, which starts if necessary.

        Raises `NotTrusted`, `UsageError` if it cannot start, and `ServerExited` if it ends during the start.
        """
        options = self._options()
        if not options.trusted:
            raise NotTrusted("The engine")
        if self._life is None or self._life.is_over:
            self._life = _Life(options, self._on_output, self._on_event)
        return await self._life.client()

    def has_ended(self, client: Client) -> bool:
        """Whether the engine of a connection has ended, or is ending."""
        return self._life is None or not self._life.is_of(client)

    async def end(self) -> bool:
        """End the process: its calls are cancelled, and soon killed. False if none was running."""
        life, self._life = self._life, None
        if life is None or life.is_over:
            return False
        await life.end()
        return True

    def abandon(self) -> None:
        """End the process, without waiting for that."""
        self._ending = asyncio.get_running_loop().create_task(self.end(), name="end the engine")


class _Life:
    """One process, from start to end. A task owns the connection, because the SDK must be left in the task that entered it."""

    def __init__(
        self, options: Options, on_output: Callable[[bytes], object], on_event: Callable[[str, dict[str, Any]], object]
    ) -> None:
        from rrext.client.server_address import Launch, serve_command

        # -P: a folder that is open in an editor may hold modules of any name, and `-m` alone would put it first.
        # --no-project: what counts of it is among the options.
        program = (sys.executable, "-P", "-m", "rrext", "serve", "--no-project")
        command = serve_command(
            (),
            program,
            nodes=options.nodes,
            env_names=options.env,
            root=options.root,
            connections=options.connections,
            drain=ENGINE_DRAIN,
            args=options.package_words,
        )
        self.process = Launch(command=command, env=engine_environment(), on_stderr=on_output).start()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._client.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # nobody may be waiting
        self._task = asyncio.get_running_loop().create_task(self._live(on_event), name="rrext engine")

    @property
    def is_over(self) -> bool:
        """Whether the process or its connection has ended."""
        return self._task.done() or self.process.returncode is not None

    def is_of(self, client: Client) -> bool:
        """Whether a connection leads to this process."""
        ready = self._client
        return not self.is_over and ready.done() and ready.exception() is None and ready.result() is client

    async def client(self) -> Client:
        return await shielded(self._client)

    async def _live(self, on_event: Callable[[str, dict[str, Any]], object]) -> None:
        from rrext.client.client import Client

        try:
            async with Client.over(self.process, dialect="jsonrpc") as client:
                self._client.set_result(client)
                async for event in client.events():
                    on_event(event.name, event.body)
        except RrextError as error:
            log.info("the engine ended: %s", error.message)
            self._refuse(error)
        finally:
            self._refuse(NotConnected("The engine did not start"))

    def _refuse(self, error: RrextError) -> None:
        """Fail all waits for the connection."""
        if not self._client.done():
            self._client.set_exception(error)

    async def end(self) -> None:
        """End the process, by force if necessary."""
        await self.process.stop(ENGINE_STOP_TIMEOUT)
        await asyncio.wait([self._task])


def engine_environment() -> dict[str, str]:
    """The full environment, as for `rrext tool`: a user who trusts a workspace could run that instead.

    If `python -m rrext` found rrext through its working directory alone, as in a checkout, the engine gets that path too.
    """
    environment = dict(os.environ)
    home = str(Path(__file__).parents[4])
    if not sys.flags.safe_path and sys.path[:1] == [home] and home not in sys.path[1:]:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), home)))
    return environment


class Ready(msgspec.Struct, frozen=True):
    """A document whose pipeline is loaded under a token; `analysis` is that of the loaded text."""

    client: Any
    token: str
    analysis: Analysis
    folder: str | None


class Deployments:
    """The loaded text of each document.

    A changed text is loaded under a new token. Runs on the old one continue, and it is unloaded after them.
    """

    def __init__(self, server: PipeServer, engine: EngineProcess) -> None:
        self._server = server
        self._engine = engine
        self._current: dict[str, _Deployment] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._numbers = count(1)
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, uri: str) -> AsyncIterator[Ready]:
        """The document in its present state, loaded within this context.

        Raises `JsonRpcInvalidParams` if it is not open, `InvalidPipeline` if it has errors, and the errors of starting the
        engine and loading the pipeline.
        """
        self._server.documents.get(uri)
        async with self._turns.setdefault(uri, asyncio.Lock()):
            analysis = await self._sound(uri)
            deployment = await self._deployed(uri, analysis, await self._engine.client())
            deployment.users += 1
        try:
            yield Ready(deployment.client, deployment.token, analysis, folder_of(uri))
        except TaskNotRegistered:  # another client unloaded it
            self._retire(uri, deployment)
            raise
        finally:
            deployment.users -= 1
            if deployment.is_retired and not deployment.users:
                self._unload(deployment)

    def close(self, uri: str) -> None:
        """Unload a closed document, and end its runs."""
        self._turns.pop(uri, None)
        deployment = self._current.pop(uri, None)
        if deployment is not None:
            self._unload(deployment)

    async def _sound(self, uri: str) -> Analysis:
        _, _, analysis = await self._server.analysis_of(uri)
        errors = list(analysis.loaded.errors)
        if errors:
            line, _ = analysis.map.position(analysis.map.span_of(errors[0])[0])
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            text = f"{name_of(uri)} is not run: line {line}: {errors[0].message}{more}"
            raise InvalidPipeline(text, data={"problems": analysis.loaded.problems_as_json()})
        return analysis

    async def _deployed(self, uri: str, analysis: Analysis, client: Client) -> _Deployment:
        known = self._current.get(uri)
        if known is not None and known.client is client and known.text == analysis.text:
            return known
        token = f"{uri}#{next(self._numbers)}"
        arguments = {"pipeline": analysis.text, "token": token, "name": name_of(uri), "folder": folder_of(uri)}
        try:
            await client.request("execute", arguments)
        except InvalidPipeline as error:
            raise _with_line(error, uri) from None
        deployment = _Deployment(client, token, analysis.text)
        if self._server.documents.find(uri) is None:
            self._unload(deployment)
            raise JsonRpcInvalidParams(f"{uri} was closed")
        if known is not None:
            self._retire(uri, known)
        self._current[uri] = deployment
        return deployment

    def _retire(self, uri: str, deployment: _Deployment) -> None:
        """Start no more runs on a deployment."""
        if self._current.get(uri) is deployment:
            del self._current[uri]
        deployment.is_retired = True
        if not deployment.users:
            self._unload(deployment)

    def _unload(self, deployment: _Deployment) -> None:
        if not deployment.is_unloaded:
            deployment.is_unloaded = True
            task = asyncio.get_running_loop().create_task(self._terminate(deployment), name=f"unload {deployment.token}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _terminate(self, deployment: _Deployment) -> None:
        try:
            await deployment.client.terminate(deployment.token)
        except RrextError as error:
            log.debug("%s is not unloaded: %s", deployment.token, error.message)


class _Deployment:
    """One text of one document in one engine. `users` counts its runs."""

    def __init__(self, client: Client, token: str, text: str) -> None:
        self.client = client
        self.token = token
        self.text = text
        self.users = 0
        self.is_retired = False
        self.is_unloaded = False


def name_of(uri: str) -> str:
    """The name of a document's pipeline: the stem of its file, as on the command line."""
    return os.path.splitext(os.path.basename(path_of(uri) or uri))[0]


def folder_of(uri: str) -> str | None:
    """The folder of a document's file, the base of relative paths in its settings; None for a document without a file."""
    path = path_of(uri)
    return None if path is None else os.path.dirname(path)


def path_of(uri: str) -> str | None:
    """The path of a document's file; None for a document without a file."""
    if not uri.startswith("file:"):
        return None
    try:
        path = to_fs_path(uri)
    except ValueError:
        return None
    return None if path is None or "\0" in path else path


def _with_line(error: InvalidPipeline, uri: str) -> InvalidPipeline:
    """An error that only the engine found, such as a variable without a value, with its line."""
    first = next((problem for problem in error.data.get("problems", ()) if problem.get("severity") == "error"), None)
    where = f"line {first['line']}: {first['message']}" if first is not None and "line" in first else error.message
    return InvalidPipeline(f"{name_of(uri)} is not run: {where}", hint=error.hint, data=error.data)
