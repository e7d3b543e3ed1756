"""One run: its progress, its end, its answer, and the mark of its failure at the failed component.

A mark stays until the run succeeds, the component is edited, or the document is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.editor.analysis import Analysis
from rrext.editor.outline import source_of
from rrext.editor.text import Text
from rrext.errors import Cancelled, InvalidPipeline, RrextError
from rrext.faces.lsp.documents import as_range
from rrext.faces.lsp.runs.cases import CasesFailed
from rrext.faces.lsp.runs.engine import Deployments, EngineOutput, EngineProcess, InputNeeded, Ready, as_editor_error, name_of
from rrext.faces.lsp.runs.results import Display, shown
from rrext.limits import CLIENT_DEFAULTS, MIB
from rrext.pipefile.text.problems import Span, below
from rrext.wire.dialect import wire_error

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
        return await self.run_alone(uri, work, partial(self._on_loaded, doing), token=token, quiet=quiet)

    async def run_alone(
        self,
        uri: str,
        work: Work,
        doing: Callable[[DocumentRun], Awaitable[Any]],
        *,
        token: int | str | None = None,
        quiet: bool = False,
    ) -> dict[str, Any]:
        """Run a work of a document for which its pipeline is not loaded; else as `run`."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._output.refill()
        progress = WorkProgress(self._server, token, work.tool or name_of(uri), lambda: task.cancel())
        run = DocumentRun(uri, work, progress, quiet=quiet)
        task = loop.create_task(_awaited(doing(run)), name=f"run {work.kind} of {uri}")
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

    async def _on_loaded(self, doing: RunBody, run: DocumentRun) -> Any:
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
            self._server.show_to_user(f"{parts.message}{hint}", types.MessageType.Error)
            result = error.outcomes or None if isinstance(error, CasesFailed) else error.result
            if result is not None:
                saved = await self._shown(run, result)
        return {"error": told, **saved}

    async def _shown(self, run: DocumentRun, value: Any) -> dict[str, Any]:
        name = f"{name_of(run.uri)}.{run.work.tool or run.work.kind}"
        place, size = await self._display.show(run.uri, name, shown(value))
        answer: dict[str, Any] = {"uri": place, "size": size} if place is not None else {}
        if not isinstance(value, bytes) and (size <= INLINE or place is None):
            answer["result"] = value
        return answer


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


PROGRESS_DELAY: Final = 0.2
"""Seconds before a run is shown; shorter ones need no progress bar."""

log: Final = logging.getLogger("rrext.lsp")


class WorkProgress:
    """The progress of one run, under the client's token, or under one of ours if the client accepts it.

    It appears with the first report, or after a delay. `cancel` is called when the user cancels. Frequent reports are merged.
    """

    def __init__(self, server: PipeServer, token: int | str | None, title: str, cancel: Callable[[], object]) -> None:
        self.title = title
        self._server = server
        self._cancel = cancel
        self._is_ours = token is None
        self._token = f"rrext-{uuid4()}" if token is None else token
        self._state: tuple[str | None, int | None] = (None, None)
        self._most = 0
        self._news = asyncio.Event()
        self._is_begun = False
        self._showing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to show progress."""
        if self._is_ours and not get_capability(self._server.client_capabilities, "window.work_done_progress", False):
            return
        wanted: Future[None] = Future()
        wanted.add_done_callback(lambda future: self._cancel() if future.cancelled() else None)
        self._server.protocol.progress.tokens[self._token] = wanted
        self._showing = asyncio.get_running_loop().create_task(self._show(), name="show progress")

    def report(self, message: str | None, share: float | None = None) -> None:
        """Report the progress; `share` is between 0 and 1 if known."""
        percentage = None
        if share is not None:
            percentage = self._most = max(self._most, min(100, int(100 * share)))
        self._state = message, percentage
        self._news.set()

    def end(self, message: str) -> None:
        """End the progress."""
        if self._showing is None:
            return
        self._showing.cancel()
        self._showing = None
        self._server.protocol.progress.tokens.pop(self._token, None)
        if self._is_begun:
            self._notify({"kind": "end", "message": message})

    async def _show(self) -> None:
        """Send the newest report, then pause; under a token of ours only if the client accepts it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), PROGRESS_DELAY)
        if self._is_ours:
            try:
                await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self._token))
            except JsonRpcException as error:
                log.info("the client takes no progress: %s", error)
                return
        while True:
            self._news.clear()
            message, percentage = self._state
            value: dict[str, Any] = {"kind": "report"} if self._is_begun else {"kind": "begin", "title": self.title}
            value["cancellable"] = True
            if message is not None:
                value["message"] = message
            if percentage is not None:
                value["percentage"] = percentage
            self._is_begun = True
            self._notify(value)
            await asyncio.sleep(CLIENT_DEFAULTS.progress_redraw)
            await self._news.wait()

    def _notify(self, value: dict[str, Any]) -> None:
        self._server.protocol.send_notification(types.PROGRESS, {"token": self._token, "value": value})


SOURCE: Final = "rrext run"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a run: a tool, `send`, `chat` or `cases`."""

    kind: str
    node: str = ""
    tool: str = ""


class _Mark(msgspec.Struct, frozen=True):
    """A failure. `component` is the text of its component at that time."""

    work: Work
    code: str
    message: str
    node: str
    component: str


_Key: TypeAlias = tuple[str, str, str]
"""Kind of work, node, tool."""


class Marks:
    """The failures on display, the latest of each tool of each node."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        self._marks: dict[str, dict[_Key, _Mark]] = {}
        server.publisher.finders.append(self._found)
        server.on_document_closed.append(lambda uri: self._marks.pop(uri, None))

    def add(self, uri: str, analysis: Analysis, work: Work, error: RrextError) -> None:
        """Mark a failed run of a document; `analysis` belongs to its text."""
        if self._server.documents.find(uri) is None:
            return
        node = _node_of(analysis, work, error.data.get("nodeId"))
        message = error.message if error.hint is None or error.hint in error.message else f"{error.message}\n{error.hint}"
        mark = _Mark(work, error.code, message, node, _component(analysis, node))
        self._marks.setdefault(uri, {})[work.kind, node, work.tool] = mark
        self._server.publish_again(uri)

    def remove(self, uri: str, analysis: Analysis, work: Work) -> None:
        """Remove the mark of a work that succeeded."""
        key = work.kind, _node_of(analysis, work, None), work.tool
        if self._marks.get(uri, {}).pop(key, None) is not None:
            self._server.publish_again(uri)

    def _found(self, uri: str, text: Text, analysis: Analysis) -> Iterator[types.Diagnostic]:
        marks = self._marks.get(uri, {})
        for key, mark in list(marks.items()):
            if _component(analysis, mark.node) != mark.component:
                del marks[key]
                continue
            href = self._server.manual.link(mark.code)
            yield types.Diagnostic(
                as_range(text, _place(analysis, mark)),
                mark.message,
                severity=types.DiagnosticSeverity.Error,
                code=mark.code,
                code_description=None if href is None else types.CodeDescription(href),
                source=SOURCE,
            )


def _node_of(analysis: Analysis, work: Work, named: Any) -> str:
    """The component of a run: the component that its failure names, else the called component."""
    if isinstance(named, str) and named in analysis.by_id:
        return named
    if work.node or work.kind != "tool":
        source = source_of(analysis, work.kind)
        return work.node or (analysis.loaded.outline.source if source is None else source.id)
    chain = {node_id: place for place, node_id in enumerate(analysis.loaded.outline.chain)}
    owners = [draft.id for draft in analysis.drafts if draft.node is not None and work.tool in draft.node.tools]
    return min(owners, key=lambda owner: chain.get(owner, len(chain)), default="")


def _component(analysis: Analysis, node: str) -> str:
    draft = analysis.by_id.get(node)
    located = None if draft is None else analysis.map.find(draft.path)
    return "" if located is None else analysis.text[located.start : located.end]


def _place(analysis: Analysis, mark: _Mark) -> Span:
    """The span of the component's id."""
    draft = analysis.by_id.get(mark.node)
    if draft is not None:
        return analysis.map.span(below(draft.path, "id"))
    start, _ = analysis.map.span(analysis.base)
    return start, start + 1
