"""`store_pgvector`: a vector store in a table of a PostgreSQL server with the extension pgvector."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.databases.postgres import PostgresSettings, confined_parameters, connection_parameters, machine_files
from rrext.nodes.vectors.node import VectorSettings, VectorStoreNode

if TYPE_CHECKING:
    from rrext.nodes.vectors.postgres.store import PgVectorStore


class PgVectorNode(VectorStoreNode):
    """Keeps chunks and their vectors in a table of a PostgreSQL server, which any number of processes may share.

    The table is created when something is stored first, and so is the extension `vector`, if the user may create it.
    Nothing is connected before the first call. Words are searched in the text search of PostgreSQL.
    """

    provider = "store_pgvector"
    title = "Vector store (PostgreSQL)"
    capabilities = ("network",)

    class Config(PostgresSettings, VectorSettings):
        table: Annotated[str, msgspec.Meta(min_length=1), "Name of the table, without its schema."] = "rrext_chunks"
        schema: Annotated[str, msgspec.Meta(min_length=1), "Schema of the table; created if it is not there."] = "public"
        language: Annotated[
            str,
            msgspec.Meta(min_length=1),
            "Text search configuration by which words are indexed, as `english`: it finds other forms of a word and leaves "
            "out what says nothing. `simple` does neither and fits all languages. A table keeps the one it began with.",
        ] = "simple"
        connections: Annotated[
            int, msgspec.Meta(ge=1, le=100), "Connections at most, one for each call at the same time: a server has about 100."
        ] = 8
        index_from: Annotated[
            int,
            msgspec.Meta(ge=0),
            "Chunks from which a table that is searched gets an HNSW index, built beside the calls; 0: never. Fewer are "
            "compared one by one, which takes some milliseconds per thousand and misses nothing.",
        ] = 10_000

    @classmethod
    def machine_files(cls, config: Any) -> Iterable[str]:
        return machine_files(config)

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages("pgvector", "psycopg", "pgvector")

    @classmethod
    @contextlib.asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[PgVectorStore]:
        """Make one store for all objects. Calls connect, so that they work again when the server does."""
        store = await ctx.in_thread(_store, config, ctx)
        try:
            yield store
        finally:
            await ctx.in_thread(store.close)


def _store(config: Any, ctx: SetupContext) -> PgVectorStore:
    ctx.require_local_pipeline()
    from rrext.nodes.vectors.postgres.store import PgVectorStore

    parameters = confined_parameters(connection_parameters(config), path=ctx.path, confined=ctx.confined)
    return PgVectorStore(
        parameters,
        schema=config.schema,
        table=config.table,
        language=config.language,
        connections=config.connections,
        threshold=config.index_from,
        shown=ctx.shown(f"{config.schema}.{config.table}"),
    )
