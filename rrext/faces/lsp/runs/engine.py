"""The engine of a language server: `rrext serve` as a child process, started by the first run."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import NotConnected, RrextError
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.runs.errors import NotTrusted

if TYPE_CHECKING:
    from rrext.client.client import Client

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
        program = (sys.executable, "-P", "-m", "rrext", "serve")
        command = serve_command(
            (),
            program,
            nodes=options.nodes,
            env_names=options.env,
            root=options.root,
            connections=options.connections,
            drain=ENGINE_DRAIN,
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
        return await asyncio.shield(self._client)

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
