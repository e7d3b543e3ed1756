"""The setup of each connection of a vector store, and the server's form of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot
from typing import Any, Final

from pgvector import Vector
from pgvector.psycopg.vector import VectorBinaryDumper, register_vector_info
from psycopg import Connection
from psycopg.types import TypeInfo

SESSION: Final = {
    # Compiling a search takes a hundred times as long as the search.
    "jit": "off",
    # Which plan is best depends on what is looked for: one word or scope is rare, another is in every chunk.
    "plan_cache_mode": "force_custom_plan",
    # With a filter, the index is read on until enough is found.
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": "100",
}
CHECK_CLIENT: Final = {"client_connection_check_interval": "10s"}
"""From PostgreSQL 14 on: a statement whose client was killed ends."""

FULL_PRECISION: Final = 2000
"""Numbers that an index takes as they are; of more, it takes the half of the precision, and nothing above 65,504."""

TINY, HUGE = 1e-12, 1e12
"""Lengths of vectors beyond which the server's single precision fails to square them."""


def prepare(connection: Connection[Any]) -> None:
    """Set up a new connection, in a database with or without the extension."""
    settings = SESSION | (CHECK_CLIENT if connection.info.server_version >= 140000 else {})
    # The extension may be in a schema of its own, as hosted servers have it; all other names are given with theirs.
    connection.execute(
        "SELECT set_config(key, value, false) FROM unnest(%s::text[], %s::text[]) AS given(key, value) "
        "WHERE key NOT LIKE 'hnsw.%%' OR NOT EXISTS (SELECT FROM pg_extension "
        "WHERE extname = 'vector' AND string_to_array(extversion, '.')::int[] < '{0,8}')",
        (list(settings), list(settings.values())),
    )
    connection.execute(
        "SELECT set_config('search_path', concat_ws(', ', 'public', (SELECT quote_ident(nspname) FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector' AND nspname <> 'public')), false)"
    )
    connection.adapters.register_dumper(Vector, VectorBinaryDumper)
    learn_vectors(connection)


def knows_vectors(connection: Connection[Any]) -> bool:
    """Whether lists of vectors can be sent: the connection found the extension."""
    return connection.adapters.types.get("vector") is not None


def learn_vectors(connection: Connection[Any]) -> None:
    """Look up the number of the vector type in this database; lists of vectors cannot be sent without it."""
    info = TypeInfo.fetch(connection, "vector")
    if info is not None:
        register_vector_info(connection, info)


def as_vector(numbers: Sequence[float]) -> Vector | None:
    """The vector scaled for comparison, which uses its direction only. None for zeros, which have none."""
    length = hypot(*numbers)
    if not length:
        return None
    if TINY < length < HUGE and len(numbers) <= FULL_PRECISION:
        return Vector(list(numbers))
    if length == float("inf"):
        return as_vector([number / 2**512 / len(numbers) for number in numbers])
    return Vector([number / length for number in numbers])
