"""What the process of an embedded store does first, what meanwhile, and what never."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import pytest

from rrext.errors import Unavailable
from rrext.nodes.child.process import Cancel
from rrext.nodes.child.worker import Answer, AnswerStream, Done, Failed, frame, receive
from rrext.nodes.vectors.edge.messages import Delete, Get, Message, Query, Upsert
from rrext.nodes.vectors.edge.worker import EdgeWorker
from rrext.nodes.vectors.store import NOBODYS, ChunkPage, Deleted, Scope, Search, VectorSpace
from rrext.tools.context import ToolContext

SPACE = VectorSpace("model", 3)
SEARCH = Query(Search("keyword", 1, "words"))


class SlowStore:
    """Its deletes take until `released`; what it does is written down."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.done: list[str] = []

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        self.begun.set()
        assert self.released.wait(30)
        self.done.append("delete")
        return Deleted(1, frozenset())

    def upsert_staged(self, request: int, space: VectorSpace, replace: Any, owner: str, ctx: ToolContext) -> int:
        ctx.check()
        if "close" in self.done:
            raise Unavailable("closed")
        self.done.append(f"upsert {request}")
        return 0

    def search(self, search: Search, ctx: ToolContext) -> list[Any]:
        return []

    def get(self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str, after: int) -> ChunkPage:
        raise OSError("a bug")

    def close(self) -> None:
        self.done.append("close")


class Link:
    """A worker of a slow store in a thread, and the server's ends of its pipes."""

    def __init__(self) -> None:
        self.store: Any = SlowStore()
        (theirs, ours), (answers, given) = os.pipe(), os.pipe()
        self.requests: BinaryIO = os.fdopen(ours, "wb")
        self.answers: BinaryIO = os.fdopen(answers, "rb")
        self._theirs = (os.fdopen(theirs, "rb"), os.fdopen(given, "wb"))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        requests, answers = self._theirs
        with requests, answers:
            EdgeWorker(self.store, AnswerStream(answers)).serve(requests)

    def send(self, number: int, message: Message) -> None:
        self.requests.write(frame(number, message))
        self.requests.flush()

    def receive(self) -> tuple[int, Answer]:
        received = receive(self.answers)
        assert received is not None
        return received[0], msgspec.msgpack.decode(received[1], type=Answer)


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.store.released.set()
    link.requests.close()
    link.thread.join(30)
    link.answers.close()


def test_searches_are_answered_while_a_write_goes_on(link: Link) -> None:
    link.send(1, Delete(Scope(parent="/")))
    link.send(2, Upsert(2, SPACE, {}, NOBODYS))
    for number in range(3, 30):
        link.send(number, SEARCH)
    assert {link.receive()[0] for _ in range(3, 30)} == set(range(3, 30))
    link.store.released.set()
    assert [link.receive()[0] for _ in range(2)] == [1, 2]
    assert link.store.done == ["delete", "upsert 2"]


def test_a_write_that_is_cancelled_before_its_turn_is_never_done(link: Link) -> None:
    link.send(1, Delete(Scope(parent="/")))
    link.send(2, Upsert(2, SPACE, {}, NOBODYS))
    link.send(3, Upsert(3, SPACE, {}, NOBODYS))
    link.send(2, Cancel("timeout"))
    link.send(77, Cancel("cancelled"))  # its answer has left already
    link.send(4, SEARCH)
    assert link.receive()[0] == 4
    link.store.released.set()
    answers = dict(link.receive() for _ in range(3))
    assert isinstance(answers[1], Done)
    assert isinstance(answers[2], Failed)
    assert answers[2].code == "tool_timeout"
    assert isinstance(answers[3], Done)
    assert link.store.done == ["delete", "upsert 3"]


def test_a_bug_is_told_and_the_next_call_is_answered(link: Link, capfd: pytest.CaptureFixture[str]) -> None:
    link.send(1, Get("a", 0, 1, NOBODYS, -1))
    _, answer = link.receive()
    assert isinstance(answer, Failed)
    assert (answer.code, answer.message) == ("internal", "The vector store failed; the server's log has it")
    assert "a bug" in capfd.readouterr().err
    link.send(2, SEARCH)
    assert link.receive() == (2, Done(b"[]"))


def test_at_its_end_it_finishes_what_it_does_and_tells_the_others(link: Link) -> None:
    link.send(1, Delete(Scope(parent="/")))
    assert link.store.begun.wait(30)
    link.send(2, Upsert(2, SPACE, {}, NOBODYS))
    link.requests.close()
    while "close" not in link.store.done:
        link.thread.join(0.005)
    link.store.released.set()
    assert isinstance(link.receive()[1], Done)
    number, answer = link.receive()
    assert number == 2
    assert isinstance(answer, Failed)
    assert answer.code == "unavailable"
    link.thread.join(30)
    assert link.store.done == ["close", "delete"]
