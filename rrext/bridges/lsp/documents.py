"""The documents that are open in the editor, and the analysis of each of their states."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from pygls.exceptions import JsonRpcInvalidParams

from rrext.bridges.lsp.sync import Change
from rrext.editor.analysis import Analysis, Surroundings, analyse
from rrext.editor.text import Text, Unit
from rrext.errors import Cancelled

__all__ = ["Document", "Documents", "State"]

log: Final = logging.getLogger("rrext.lsp")


class State:
    """A document between two edits. `waiters` counts the requests that want its analysis, however old it is."""

    __slots__ = ("task", "text", "version", "waiters")

    def __init__(self, text: Text, version: int | None) -> None:
        self.text = text
        self.version = version
        self.waiters = 0
        self.task: asyncio.Task[Analysis] | None = None

    def __repr__(self) -> str:
        return f"<State {self.version}, {self.text!r}>"


class Document:
    """A document of the client's. `state` is what the client sees; `last` is the analysis that was finished last."""

    __slots__ = ("changed", "follower", "last", "state", "uri")

    def __init__(self, uri: str, state: State) -> None:
        self.uri = uri
        self.state = state
        self.last: Analysis | None = None
        self.changed = asyncio.Event()
        self.follower: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Document {self.uri} {self.state!r}>"


class Documents:
    """All open documents. `on_analysis` is told of the newest state's analysis of each, never of one that is out of date.

    One thread analyses, so that the loop answers meanwhile; an analysis that is out of date and that no request waits for is
    given up. `taken` waits until the client has taken what it was told: who does not read for a while is told of the newest
    state only.
    """

    def __init__(
        self,
        around: Callable[[], Surroundings],
        on_analysis: Callable[[Document, State, Analysis], None],
        on_close: Callable[[Document], None],
    ) -> None:
        self.unit: Unit = "utf-16"
        self.taken: Callable[[], Awaitable[None]] = _at_once
        self._around = around
        self._on_analysis = on_analysis
        self._on_close = on_close
        self._open: dict[str, Document] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rrext-analysis")

    def get(self, uri: str) -> Document:
        """An open document. Raises `JsonRpcInvalidParams` for one that is not."""
        document = self._open.get(uri)
        if document is None:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return document

    def find(self, uri: str) -> Document | None:
        """An open document, or None."""
        return self._open.get(uri)

    def __iter__(self) -> Iterator[Document]:
        return iter(list(self._open.values()))

    # what the client tells

    def open(self, uri: str, version: int | None, text: str) -> None:
        """A document was opened; one that was open is replaced."""
        state = State(Text("", self.unit).changed(0, 0, text), version)
        document = self._open.get(uri)
        if document is None:
            document = self._open[uri] = Document(uri, state)
            document.follower = asyncio.get_running_loop().create_task(self._follow(document), name=f"follow {uri}")
        self._put(document, state)

    def change(self, uri: str, version: int | None, changes: Iterable[Change]) -> None:
        """A document was edited: each change applies to what the one before left. Raises `JsonRpcInvalidParams`."""
        document = self.get(uri)
        text = document.state.text
        for change in changes:
            if change.range is None:
                text = Text("", self.unit).changed(0, 0, change.text)
            else:
                start, end = change.range.start, change.range.end
                text = text.edited((start.line, start.character), (end.line, end.character), change.text)
        self._put(document, State(text, version))

    def close(self, uri: str) -> None:
        """A document was closed, or is not known any more. One that is not open stays so."""
        document = self._open.pop(uri, None)
        if document is not None:
            if document.follower is not None:
                document.follower.cancel()
            self._on_close(document)

    def refresh(self) -> None:
        """Look at every document anew: what they are judged by has changed."""
        for document in self:
            document.last = None
            self._put(document, State(document.state.text, document.state.version))

    def _put(self, document: Document, state: State) -> None:
        document.state = state
        document.changed.set()

    # analyses

    async def analysis(self, document: Document, state: State) -> Analysis:
        """The analysis of one state, for a request that asked about it."""
        state.waiters += 1
        try:
            return await asyncio.shield(self._task(document, state))
        finally:
            state.waiters -= 1

    def _task(self, document: Document, state: State) -> asyncio.Task[Analysis]:
        if state.task is None or state.task.cancelled():
            state.task = asyncio.get_running_loop().create_task(self._analyse(document, state))
        return state.task

    async def _analyse(self, document: Document, state: State) -> Analysis:
        def is_stale() -> bool:  # asked on the other thread
            return state.waiters == 0 and (document.state is not state or self._open.get(document.uri) is not document)

        work = partial(analyse, state.text.content, self._around(), before=document.last, stop=is_stale)
        analysis = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        if analysis.around is self._around():
            document.last = analysis
        return analysis

    async def _follow(self, document: Document) -> None:
        """Have the newest state analysed, again and again; what came meanwhile is skipped."""
        while True:
            await document.changed.wait()
            document.changed.clear()
            state = document.state
            try:
                analysis = await asyncio.shield(self._task(document, state))
                if document.state is state:
                    self._on_analysis(document, state, analysis)
                    await self.taken()
            except Cancelled:
                pass  # it was out of date
            except Exception:
                log.exception("a bug of rrext: %s could not be analysed", document.uri)

    def __repr__(self) -> str:
        return f"<Documents {', '.join(self._open) or 'none'}>"


async def _at_once() -> None:
    """Before anybody listens."""
