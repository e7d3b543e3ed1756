"""The open documents, each with its latest analysis; offsets in a text as positions of the protocol, and back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse, unread
from rrext.editor.text import Edit, Text, Unit
from rrext.errors import Cancelled
from rrext.faces.lsp.params import TextChange
from rrext.pipefile.text.problems import Problem, Span
from rrext.threads import shielded

log: Final = logging.getLogger("rrext.lsp")


class State:
    """A document between two edits. `waiters` counts the requests that need its analysis, however old it is.

    With `refusal`, a problem, the text is unknown and stands empty.
    """

    def __init__(self, text: Text, version: int | None, refusal: Problem | None = None) -> None:
        self.text = text
        self.version = version
        self.refusal = refusal
        self.waiters = 0
        self.is_begun = False
        self.is_told = False
        self.analysis: Analysis | None = None
        self.awaited: asyncio.Future[Analysis] | None = None


class Document:
    """An open document. `state` is the client's newest state.

    `is_queued`: an analysis of the newest state is queued; `told` waits until the client has read the last diagnostics.
    """

    def __init__(self, uri: str, state: State) -> None:
        self.uri = uri
        self.state = state
        self.is_closed = False
        self.is_queued = False
        self.told: asyncio.Task[None] | None = None


class Documents:
    """All open documents. `on_analysis` receives the analysis of each newest state, never an outdated one.

    One thread analyses, so that the loop can answer meanwhile; an outdated analysis that no request needs is given up. `taken`
    waits until the client has read the messages sent so far, so a slow client gets the newest state only.
    """

    def __init__(
        self,
        around: Callable[[], AnalysisSettings],
        on_analysis: Callable[[Document, State, Analysis], None],
        on_close: Callable[[Document], None],
    ) -> None:
        self.unit: Unit = "utf-16"
        self.taken: Callable[[], Awaitable[None]] = _at_once
        self._around = around
        self._on_analysis = on_analysis
        self._on_close = on_close
        self._open: dict[str, Document] = {}
        self._turns: deque[asyncio.Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rrext-analysis")
        self._is_over = False

    def get(self, uri: str) -> Document:
        """An open document. Raises `JsonRpcInvalidParams` for any other."""
        document = self._open.get(uri)
        if document is None:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return document

    def find(self, uri: str) -> Document | None:
        """An open document, or None."""
        return self._open.get(uri)

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

        # notifications of the client

    def open(self, uri: str, version: int | None, text: str) -> None:
        """Open a document, or replace an open one."""
        state = State(Text("", self.unit).changed(0, 0, text), version)
        document = self._open.get(uri)
        if document is None:
            document = self._open[uri] = Document(uri, state)
        self._put(document, state)

    def refuse(self, uri: str, problem: Problem) -> None:
        """Open or keep a document without its text, which is unknown until the client sends it whole."""
        state = State(Text("", self.unit), None, problem)
        self._put(self._open.setdefault(uri, Document(uri, state)), state)

    def change(self, uri: str, version: int | None, changes: Iterable[TextChange]) -> None:
        """Apply edits in order; edits of an unknown text have no effect. Raises `JsonRpcInvalidParams`."""
        document = self.get(uri)
        text, refusal = document.state.text, document.state.refusal
        for change in changes:
            if change.range is None:
                text, refusal = Text("", self.unit).changed(0, 0, change.text), None
            elif refusal is None:
                start, end = change.range.start, change.range.end
                text = text.edited((start.line, start.character), (end.line, end.character), change.text)
        self._put(document, State(text, version, refusal))

    def close(self, uri: str) -> None:
        """Close a document; one that is not open is ignored."""
        document = self._open.pop(uri, None)
        if document is not None:
            document.is_closed = True
            if document.told is not None:
                document.told.cancel()
            self._on_close(document)

    def refresh(self) -> None:
        """Analyse every document again, because the settings of the analysis changed."""
        for document in self:
            self._put(document, State(document.state.text, document.state.version, document.state.refusal))

    async def aclose(self) -> None:
        """Give up all analyses, end the thread without waiting (it may run code of a node), and send nothing any more."""
        self._is_over = True
        self._thread.shutdown(wait=False)
        waits = [document.told for document in self if document.told is not None]
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    def _put(self, document: Document, state: State) -> None:
        document.state = state
        self._offer(document)

    # analyses

    async def analysis(self, document: Document, state: State) -> Analysis:
        """The analysis of one state, for a request.

        Waiting requests continue one by one, so that edits are processed and diagnostics sent between them. Raises `Cancelled`
        once the documents are closed.
        """
        found = state.analysis
        if found is None:
            found = await self._awaited(document, state)
        await self._turn()
        return found

    async def _awaited(self, document: Document, state: State) -> Analysis:
        if self._is_over:
            raise Cancelled
        state.waiters += 1
        try:
            if state.awaited is None:
                state.awaited = asyncio.get_running_loop().create_future()
                self._submit(document, lambda: state)
            return await shielded(state.awaited)
        finally:
            state.waiters -= 1

    async def _turn(self) -> None:
        """Let one waiting request continue in each round of the loop."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._turns.append(turn)
        if len(self._turns) == 1:
            loop.call_soon(self._next_turn, loop)
        await turn

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = self._turns.popleft()
        if self._turns:
            loop.call_soon(self._next_turn, loop)
        if not turn.done():
            turn.set_result(None)

    def _pursue(self, document: Document) -> None:
        """Queue an analysis of the newest state; intermediate states are skipped."""
        if not document.is_queued:
            document.is_queued = True
            self._submit(document, partial(_newest, document))

    def _submit(self, document: Document, choose: Callable[[], State]) -> None:
        if not self._is_over:
            self._thread.submit(self._analyse, asyncio.get_running_loop(), document, choose)

    def _analyse(self, loop: asyncio.AbstractEventLoop, document: Document, choose: Callable[[], State]) -> None:
        """On the thread: analyse a state, unless that was done already, and notify the loop."""
        state = choose()
        if state.is_begun:
            return
        state.is_begun = True

        def is_stale() -> bool:
            return self._is_over or (state.waiters == 0 and (document.state is not state or document.is_closed))

        outcome: Analysis | Exception
        try:
            if state.refusal is not None:
                outcome = unread(state.refusal, self._around())
            else:
                outcome = analyse(state.text.content, self._around(), stop=is_stale)
        except Exception as error:
            outcome = error
        try:
            loop.call_soon_threadsafe(self._analysed, document, state, outcome)
        except RuntimeError:
            log.debug("the loop is closed already")

    def _analysed(self, document: Document, state: State, outcome: Analysis | Exception) -> None:
        """On the loop: answer the waiting requests, and send diagnostics."""
        awaited, state.awaited = state.awaited, None
        if isinstance(outcome, Analysis):
            state.analysis = outcome
            if awaited is not None:
                awaited.set_result(outcome)
            self._offer(document)
            return
        state.is_begun = False
        if isinstance(outcome, Cancelled) and not self._is_over:
            if state.waiters:  # a request came just when the analysis was given up
                state.awaited = awaited
                self._submit(document, lambda: state)
            return
        if not isinstance(outcome, Cancelled):
            log.error("a bug of rrext: %s could not be analysed", document.uri, exc_info=outcome)
        if awaited is not None and state.waiters:
            awaited.set_exception(outcome)

    def _offer(self, document: Document) -> None:
        """Send diagnostics of the newest state, once it is analysed and the client has read the last ones."""
        state = document.state
        if self._is_over or document.is_closed or document.told is not None or state.is_told:
            return
        if state.analysis is None:
            self._pursue(document)
            return
        state.is_told = True
        try:
            self._on_analysis(document, state, state.analysis)
        except Exception:
            log.exception("a bug of rrext: the diagnostics of %s could not be told", document.uri)
        document.told = asyncio.get_running_loop().create_task(self._until_taken(document), name=f"told {document.uri}")

    async def _until_taken(self, document: Document) -> None:
        await self.taken()
        document.told = None
        self._offer(document)


def _newest(document: Document) -> State:
    """On the thread: the newest state; later edits are queued again."""
    document.is_queued = False
    return document.state


async def _at_once() -> None:
    """Return at once, before a transport is connected."""


def as_position(text: Text, offset: int) -> types.Position:
    """The position of an offset."""
    line, character = text.position(offset)
    return types.Position(line, character)


def as_range(text: Text, span: Span) -> types.Range:
    """The range of a span."""
    return types.Range(as_position(text, span[0]), as_position(text, span[1]))


def as_edits(text: Text, edits: Iterable[Edit]) -> list[types.TextEdit]:
    """Edits as `TextEdit` objects."""
    return [types.TextEdit(as_range(text, (edit.start, edit.end)), edit.text) for edit in edits]


def offset_of(text: Text, position: types.Position) -> int:
    """The offset of a position; the nearest one for an invalid position."""
    return text.offset(position.line, position.character)


def workspace_edit(
    client: types.ClientCapabilities, uri: str, version: int | None, text: Text, edits: Sequence[Edit]
) -> types.WorkspaceEdit:
    """Edits of one document, bound to its version if the client supports that."""
    changes = as_edits(text, edits)
    if not get_capability(client, "workspace.workspace_edit.document_changes", False):
        return types.WorkspaceEdit(changes={uri: changes})
    document = types.OptionalVersionedTextDocumentIdentifier(uri, version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, changes)])
