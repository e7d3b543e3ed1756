"""Storing many chunks: embedded before the first is stored, stored a piece at a time, stopped when nobody waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from edge_process import edge_store
from vector_contract import call

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.embeddings.embedder import HashingEmbedder, TextKind
from rrext.nodes.vectors.checked_input import ChunkDraft, drafts_of
from rrext.nodes.vectors.node import store_drafts
from rrext.nodes.vectors.store import NOBODYS
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.usefixtures("forked_children")


def drafts(count: int) -> list[ChunkDraft]:
    return drafts_of([{"content": f"text {n}", "object_id": f"o{n}"} for n in range(count)], NOBODYS)


class FailingEmbedder(HashingEmbedder):
    """Fails at the text that it is told."""

    __slots__ = ("_failing",)

    def __init__(self, failing: str) -> None:
        super().__init__()
        self._failing = failing

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        if self._failing in texts:
            raise ToolError("the model is out", code="model_gone")
        return super().embed(texts, kind, ctx)


def test_nothing_is_stored_if_the_last_text_cannot_be_embedded(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    with pytest.raises(RrextError) as failure:
        store_drafts(store, FailingEmbedder("text 599"), drafts(600), call(), owner=NOBODYS)
    assert failure.value.code == "model_gone"
    assert store.stats(call()).chunks == 0
    store.close()


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e300])
def test_numbers_that_json_cannot_carry_are_refused_from_python_too(odd: float) -> None:
    with pytest.raises(InvalidArguments, match="/input/documents/0/embedding"):
        drafts_of([{"content": "x", "object_id": "a", "embedding": [0.5, odd]}], NOBODYS)
    if odd < 1e308:
        return
    with pytest.raises(InvalidArguments, match="/input/documents/0/metadata"):
        drafts_of([{"content": "x", "object_id": "a", "metadata": {"number": odd}}], NOBODYS)


@pytest.mark.parametrize("text", ["\ud800", "half \udfff"])
def test_half_of_a_character_is_refused(text: str) -> None:
    for document in (
        {"content": text, "object_id": "a"},
        {"content": "x", "object_id": text},
        {"content": "x", "object_id": "a", "metadata": {"parent": text}},
        {"content": "x", "object_id": "a", "metadata": {"more": [text]}},
    ):
        with pytest.raises(InvalidArguments, match="/input/documents/0/"):
            drafts_of([document], NOBODYS)
