"""`store_qdrant_edge`: a vector store in a folder, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import msgspec

from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.vectors.edge.remote import ProcessStore
from rrext.nodes.vectors.node import VectorSettings, VectorStoreNode

MIB = 1024 * 1024
Language = Literal[
    "simple", "arabic", "armenian", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian",
    "italian", "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
]  # fmt: skip
"""The languages whose word forms Qdrant knows."""


class QdrantEdgeNode(VectorStoreNode):
    """Keeps chunks of documents in a folder and finds them by vectors, by words, or by both.

    The folder is made when the first chunk is stored. Processes take turns with the folder: its holder
    gives it to a waiting process when the holder is idle, or after a second. Answered requests survive a kill of the
    process; a request without an answer is stored as a whole or not at all. A folder that is damaged, or that holds
    something else, is refused and left as it is.

    Every search compares its vector with all that are stored (in 4 bits per number, the best ones then in full): that
    is fast for some hundred thousand chunks and in proportion slower for more, for which a server is the better place.
    The first call reads the words of all chunks, about a second for 100,000.

    Qdrant works in a process of its own, which the first call starts and which ends with the pipeline: nothing else
    waits for it, and if it breaks, its calls fail with `store_crashed`, and the next one starts it again.
    """

    provider = "store_qdrant_edge"
    title = "Vector store (embedded)"

    paths = {"path": "folder"}

    class Config(VectorSettings):
        path: Annotated[
            str, "The folder of the store. A relative one begins at --root, or else at the folder of the pipeline's file."
        ] = "vectors"
        min_free_bytes: Annotated[
            int, "With less room on the disk nothing is stored: a full disk would end the store's process, not one call."
        ] = 256 * MIB
        language: Annotated[
            Language,
            "The language of the texts: other forms of a word are found too. `simple` finds words as they are, and fits all "
            "languages. A store keeps the one it began with.",
        ] = "simple"
        wait: Annotated[
            float, msgspec.Meta(ge=0, le=3600), "Seconds that a call waits for other processes that use the folder."
        ] = 10.0

    @classmethod
    def unavailable(cls) -> str | None:
        """The packages that are missing, if any."""
        return missing_packages("vector", "qdrant_edge")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[ProcessStore]:
        """Make the store without opening it. Its end flushes all data and lets another process open the folder."""

        shown = ctx.shown(config.path)
        store = ProcessStore(
            lambda: (ctx.path(config.path), shown),
            min_free=config.min_free_bytes,
            wait=ctx.wait(config.wait),
            language=config.language,
        )
        try:
            yield store
        finally:
            await ctx.in_thread(store.close)
