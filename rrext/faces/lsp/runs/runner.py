"""One run: its progress, its end, and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lsprotocol import types

from rrext.errors import Cancelled, InvalidPipeline, RrextError
from rrext.faces.lsp.runs.deployments import Deployments, Ready, name_of
from rrext.faces.lsp.runs.display import Display
from rrext.faces.lsp.runs.engine import EngineProcess
from rrext.faces.lsp.runs.errors import InputNeeded, as_editor_error
from rrext.faces.lsp.runs.marks import Marks, Work
from rrext.faces.lsp.runs.output import EngineOutput
from rrext.faces.lsp.runs.progress import WorkProgress
from rrext.faces.lsp.runs.results import shown
from rrext.limits import MIB
from rrext.wire.wire_error import wire_error

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

INLINE: Final = MIB
"""Bytes of a formatted result that the answer includes; a larger one is only in the file."""


class DocumentRun:
    """A run of a document. `work` locates the mark of a failure; it may become known only during the run.

    `quiet`: neither progress nor result is shown.
    """

    def __init__(self, uri: str, work: Work, progress: WorkProgress, *, quiet: bool) -> None:
        self.uri = uri
        self.work = work
        self.progress = progress
        self.quiet = quiet
        self.ready: Ready | None = None

    def begin(self, work: Work) -> None:
        """Set the work, once it is known."""
        self.work = work
        self.progress.title = work.tool or work.kind


RunBody: TypeAlias = Callable[[DocumentRun, Ready], Awaitable[Any]]
"""The code of a run: returns a value or raises an error of rrext."""


class Runner:
    """Runs documents: `{ok: true, result?, seconds, uri?, size?}`, or `{ok: false, error, …}` with the same members."""

    def __init__(
        self, server: PipeServer, engine: EngineProcess, deployments: Deployments, output: EngineOutput, display: Display
    ) -> None:
        self._server = server
        self._engine = engine
        self._deployments = deployments
        self._output = output
        self._display = display
        self._marks = Marks(server)

    async def run(
        self, uri: str, work: Work, doing: RunBody, *, token: int | str | None = None, quiet: bool = False
    ) -> dict[str, Any]:
        """Run a work of a document, and show its result unless `quiet`. `token` is that of the client's own progress.

        Raises `Cancelled`, `InputNeeded`, and `JsonRpcInvalidParams` if the document is not open.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._output.refill()
        progress = WorkProgress(self._server, token, work.tool or name_of(uri), lambda: task.cancel())
        run = DocumentRun(uri, work, progress, quiet=quiet)
        task = loop.create_task(self._do(run, doing), name=f"run {work.kind} of {uri}")
        ending = "failed"
        if not quiet:
            progress.start()  # includes loading the pipeline, which may take long
        try:
            value = await task
            ending = "done"
        except asyncio.CancelledError:
            ending = "cancelled"
            raise Cancelled from None
        except InputNeeded:
            ending = "not run"
            raise
        except RrextError as failure:
            error = as_editor_error(failure, has_ended=run.ready is not None and self._engine.has_ended(run.ready.client))
            if isinstance(error, Cancelled):  # the document was closed
                raise error from None
            answer = {"ok": False, **await self._failed(run, error)}
        else:
            answer = {"ok": True, **await self._succeeded(run, value)}
        finally:
            progress.end(ending)
        return {**answer, "seconds": round(loop.time() - begun, 3)}

    async def _do(self, run: DocumentRun, doing: RunBody) -> Any:
        async with self._deployments.of(run.uri) as ready:
            run.ready = ready
            return await doing(run, ready)

    async def _succeeded(self, run: DocumentRun, value: Any) -> dict[str, Any]:
        if run.quiet:
            return {"result": value}
        if run.ready is not None:
            self._marks.remove(run.uri, run.ready.analysis, run.work)
        return await self._shown(run, value)

    async def _failed(self, run: DocumentRun, error: RrextError) -> dict[str, Any]:
        parts = wire_error(error)
        told: dict[str, Any] = {"code": parts.code, "message": parts.message}
        if parts.hint is not None:
            told["hint"] = parts.hint
        if parts.data:
            told["data"] = parts.data
        saved: dict[str, Any] = {}
        if not run.quiet:
            if run.ready is not None and not isinstance(error, InvalidPipeline):
                self._marks.add(run.uri, run.ready.analysis, run.work, error)
            hint = f"\n{parts.hint}" if parts.hint is not None and parts.hint not in parts.message else ""
            self._server.tell(f"{parts.message}{hint}", types.MessageType.Error)
            if error.result is not None:
                saved = await self._shown(run, error.result)
        return {"error": told, **saved}

    async def _shown(self, run: DocumentRun, value: Any) -> dict[str, Any]:
        name = f"{name_of(run.uri)}.{run.work.tool or run.work.kind}"
        place, size = await self._display.show(run.uri, name, shown(value))
        answer: dict[str, Any] = {"uri": place, "size": size} if place is not None else {}
        if not isinstance(value, bytes) and (size <= INLINE or place is None):
            answer["result"] = value
        return answer
