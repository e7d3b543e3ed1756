"""The process of an embedded store: `python -m rrext.nodes.vectors.edge.worker`.

Requests come through the standard input and answers leave through the standard output, as `messages` says, after the
`StoreSettings`. When the server closes its end, or is killed, this process finishes its running requests, closes the store
and ends.
"""

from __future__ import annotations

import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.process import Cancel
from rrext.nodes.child.worker import AnswerStream, answer_of, begin, receive
from rrext.nodes.vectors.edge.folder import StoreFolder
from rrext.nodes.vectors.edge.messages import Message, Request, StoreSettings
from rrext.tools.context import CancelToken, ToolContext

if TYPE_CHECKING:
    from rrext.nodes.vectors.edge.store import EdgeStore

READERS: Final = 2
"""Threads that search and read. Qdrant lets one thread work at a time; the other packs and sends its answer meanwhile."""

Job = tuple[int, Request, CancelToken]
"""A call's number, its request, and a flag whether the call is still wanted."""


class EdgeWorker:
    """Serves requests: reads on some threads, and writes and counts in their order on another thread."""

    def __init__(self, store: EdgeStore, answers: AnswerStream) -> None:
        self._store = store
        self._answers = answers
        self._tokens: dict[int, CancelToken] = {}
        self._in_turn: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = SimpleQueue()

    def serve(self, requests: BinaryIO) -> None:
        """Answer requests until the other end closes; then close the store. Raises the errors of closing."""
        queues = [self._in_turn, *[self._reads] * READERS]
        threads = [threading.Thread(target=self._work, args=(queue,), daemon=True) for queue in queues]
        for thread in threads:
            thread.start()
        decoder = msgspec.msgpack.Decoder(Message)
        while (received := receive(requests)) is not None:
            call, data = received
            self._take(call, decoder.decode(data))
        try:
            self._store.close()  # waiting requests fail with an error
        finally:
            for queue in queues:
                queue.put(None)
            for thread in threads:
                thread.join()

    def _take(self, call: int, message: Message) -> None:
        if isinstance(message, Cancel):
            token = self._tokens.get(call)
            if token is not None:
                token.cancel(message.reason)
            return
        token = self._tokens[call] = CancelToken()
        queue = self._in_turn if message.in_turn else self._reads
        queue.put((call, message, token))

    def _work(self, queue: SimpleQueue[Job | None]) -> None:
        while (job := queue.get()) is not None:
            call, request, token = job
            ctx = ToolContext(token=token)
            answer = answer_of(lambda request=request, ctx=ctx: request.call(self._store, ctx), "The vector store")
            del self._tokens[call]
            self._answers.send(call, answer)


def main() -> None:
    """Serve one folder until the server is gone."""
    requests, answers, given = begin(StoreSettings)
    from rrext.nodes.vectors.edge.store import EdgeStore

    def folder() -> StoreFolder:
        return StoreFolder(given.path, given.shown, owner=given.owner)

    store = EdgeStore(folder, min_free=given.min_free, wait=given.wait, language=given.language)
    try:
        EdgeWorker(store, answers).serve(requests)
    except ToolError as error:
        sys.exit(f'The vector store in "{given.shown}" was not closed in order: {error.message}')


if __name__ == "__main__":
    main()
