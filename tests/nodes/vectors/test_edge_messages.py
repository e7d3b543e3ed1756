"""What travels between the server and the process of an embedded store arrives as it was sent."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from vector_contract import call

from rrext.errors import Cancelled, InternalError, RrextError, ToolError, ToolTimeout, Unavailable
from rrext.nodes.child.process import Cancel
from rrext.nodes.child.worker import Answer, Done, Failed, frame, receive
from rrext.nodes.vectors.edge.messages import (
    Delete,
    FindSpace,
    Get,
    List,
    Message,
    Query,
    Stage,
    StagedPiece,
    Stats,
    Unstage,
    Upsert,
    pieces_of,
)
from rrext.nodes.vectors.store import Chunk, Scope, Search, VectorSpace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNT = st.integers(0, 2**53)
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
SPACES = st.builds(VectorSpace, TEXT, st.integers(1, 4096))
SCOPES = st.builds(
    Scope, st.none() | st.lists(TEXT, max_size=3).map(tuple), st.none() | TEXT, st.none() | TEXT, st.none() | TEXT
)
MODES = st.sampled_from(["dense", "keyword", "hybrid"])
CHUNKS = st.builds(Chunk, TEXT, COUNT, TEXT, TEXT, TEXT, OBJECT)
SEARCHES = st.builds(Search, MODES, COUNT, TEXT, st.none() | st.lists(FLOAT), SCOPES)
MESSAGES = st.one_of(
    st.builds(FindSpace),
    st.builds(Stage, COUNT, st.builds(StagedPiece, st.binary(), st.binary())),
    st.builds(Unstage, COUNT),
    st.builds(Upsert, COUNT, SPACES, st.dictionaries(TEXT, st.frozensets(COUNT), max_size=3)),
    st.builds(Delete, SCOPES),
    st.builds(Query, SEARCHES),
    st.builds(List, st.none() | TEXT, COUNT, COUNT),
    st.builds(Get, TEXT, COUNT, COUNT, TEXT, COUNT),
    st.builds(Stats),
    st.builds(Cancel, st.sampled_from(["cancelled", "timeout", "disconnected", "shutting_down"])),
)
ANSWERS = st.builds(Done, st.binary()) | st.builds(Failed, TEXT, TEXT, st.none() | TEXT, st.binary())
ERRORS = st.one_of(
    st.builds(ToolError, TEXT, code=st.sampled_from(["store_full", "store_in_use"]), hint=st.none() | TEXT, data=OBJECT),
    *(
        st.builds(kind, TEXT, hint=st.none() | TEXT, data=OBJECT)
        for kind in (Cancelled, ToolTimeout, Unavailable, InternalError)
    ),
)


class Recorder:
    """Keeps what it is called with; the calls are those of a store."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def search(self, **given: Any) -> None:
        self.given = given


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), MESSAGES | ANSWERS), max_size=5), st.data())
def test_messages_arrive_in_their_order_and_half_of_one_does_not(sent: list[tuple[int, Any]], data: st.DataObject) -> None:
    frames = [frame(number, message) for number, message in sent]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    stream = io.BytesIO(whole[:cut])
    arrived = []
    while (received := receive(stream)) is not None:
        arrived.append((received[0], msgspec.msgpack.decode(received[1], type=Message | Answer)))
    complete = sum(len(b"".join(frames[: n + 1])) <= cut for n in range(len(frames)))
    assert arrived == sent[:complete]


@given(st.lists(st.tuples(CHUNKS, st.lists(FLOAT, min_size=3, max_size=3)), min_size=1, max_size=4))
def test_chunks_and_their_vectors_arrive_as_they_were(pairs: list[tuple[Chunk, list[float]]]) -> None:
    (piece,) = pieces_of([one for one, _ in pairs], [vector for _, vector in pairs])
    chunks, vectors = piece.decoded()
    assert chunks == [one for one, _ in pairs]
    assert [list(vector) for vector in vectors] == [vector for _, vector in pairs]


@given(SEARCHES)
def test_a_search_is_done_with_its_arguments(search: Search) -> None:
    recorder: Any = Recorder()
    Query(search).call(recorder, call())
    assert recorder.given["search"] == search


@given(ERRORS)
def test_an_error_is_raised_as_it_was(error: RrextError) -> None:
    again = Failed.of(error).error()
    assert (type(again), again.code, again.message, again.hint, again.data) == (
        type(error),
        error.code,
        error.message,
        error.hint,
        error.data,
    )
