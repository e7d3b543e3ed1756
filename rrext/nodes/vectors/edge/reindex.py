"""Stores of an older format become those of today's, in place, when they are opened. Importing this imports the engine."""

from __future__ import annotations

from typing import Final

import qdrant_edge as qe

from rrext.nodes.vectors.edge.requests import CONTENT, WORDS, word_index, words_of

PAGE: Final = 1000
FLUSH_EVERY: Final = 10_000
"""Chunks after which the engine's log is emptied."""


def index_words(shard: qe.EdgeShard) -> int:
    """Give every chunk of a store of format 1 its words, and index them; how many chunks there are.

    The engine's tokenizer, by which their contents were indexed, dropped numbers. It takes about 8 s for 100,000 chunks,
    and begins anew if it was interrupted.
    """
    shard.update(qe.UpdateOperation.delete_field_index(CONTENT))
    shard.update(qe.UpdateOperation.delete_field_index(WORDS))
    done, offset = 0, None
    while True:
        fields = qe.PayloadSelector.Include([CONTENT])
        page, offset = shard.scroll(qe.ScrollRequest(offset=offset, limit=PAGE, with_payload=fields))
        for record in page:
            words = words_of((record.payload or {})[CONTENT])
            shard.update(qe.UpdateOperation.set_payload([record.id], {WORDS: words}))
        done += len(page)
        if done % FLUSH_EVERY == 0:
            shard.flush()
        if offset is None:
            break
    shard.update(qe.UpdateOperation.create_field_index(WORDS, word_index()))
    shard.flush()
    return done
