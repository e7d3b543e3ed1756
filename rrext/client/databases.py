"""`client.database` and `client.vectors`: the tools of database nodes, graphs and vector stores, as methods of the same
names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypedDict, Unpack

import anyio

from rrext.client.endpoint import Body
from rrext.client.updates import ChunkCallback
from rrext.errors import ToolError, Unavailable
from rrext.limits import CLIENT_DEFAULTS, READ_INSTEAD_ROWS

Params: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""A list for the `$1…$n` of SQL, an object for the `$name` of Cypher."""


class WhichNode(TypedDict, total=False):
    """The node, by default the only one that has the tool, and its pipeline."""

    node_id: str
    token: str | None


class CallOptions(WhichNode, total=False):
    """The options of every method."""

    timeout: float | None


class NodeTools:
    """Calls tools as `Client.tool` does with `unique`: `node_id` is needed where several nodes have the tool.

    In every method `node_id`, `token` and `timeout` are those of `Client.tool`, and so are the failures.
    """

    __slots__ = ("_tool",)

    def __init__(self, tool: Callable[..., Awaitable[Any]]) -> None:
        """Made by the client; `tool` is its method of that name."""
        self._tool = tool

    async def _call(
        self, tool: str, input: Mapping[str, Any], options: CallOptions, on_chunk: ChunkCallback | None = None
    ) -> Any:
        """Call a tool. Members of its input that are None are left out."""
        given = {name: value for name, value in input.items() if value is not None}
        return await self._tool(tool=tool, input=given, unique=True, on_chunk=on_chunk, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} tools>"


class Database(NodeTools):
    """The tools of a pipeline's database nodes."""

    __slots__ = ()

    async def query(
        self,
        sql: str,
        *,
        params: Params | None = None,
        session_id: str | None = None,
        row_mode: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """Run any statement and return `{rows, affected_rows}`: the tool `execute`, which a node's settings must allow.

        On a node that does not allow it, a statement that only reads is run as by `read`. With `session_id` it is a step of
        the transaction that `begin_transaction` began. `row_mode` is "object" or "array".
        """
        input = {"sql": sql, "params": params, "session_id": session_id, "row_mode": row_mode}
        try:
            return await self._call("execute", input, options)
        except Unavailable as refused:
            if session_id is not None or refused.data.get("instead") != "query":
                raise
            return await self._read_instead(refused, input, options)

    async def _read_instead(self, refused: Unavailable, input: Mapping[str, Any], options: CallOptions) -> Body:
        """Run a statement by the tool `query` after the node refused `execute`. Raises `refused` for one that may write."""
        try:
            found = await self._call("query", {**input, "limit": READ_INSTEAD_ROWS}, options)
        except ToolError as error:
            if error.code != "not_read_only":
                raise
            message = f"{refused.message}, and `query` refused the statement too: {error.message}"
            raise Unavailable(message, hint=refused.hint, data={**error.data, **refused.data}) from error
        if found["truncated"]:
            raise ToolError(
                f"The statement gives more than {READ_INSTEAD_ROWS:,} rows",
                code="too_many_rows",
                hint="Read them with `stream`.",
            )
        return {**found, "affected_rows": 0}

    async def read(
        self,
        sql: str,
        *,
        params: Params | None = None,
        limit: int | None = None,
        explain: bool | None = None,
        row_mode: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """Run a statement that only reads: the tool `query`, which every database node has. The database refuses to write.

        `limit` is how many rows are returned at most; `explain` returns the plan instead of rows.
        """
        input = {"sql": sql, "params": params, "limit": limit, "explain": explain, "row_mode": row_mode}
        return await self._call("query", input, options)

    async def stream(
        self,
        sql: str,
        *,
        on_chunk: ChunkCallback,
        params: Params | None = None,
        row_mode: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Read a result of any size: the tool `query_stream`. `on_chunk` gets each chunk of rows as it arrives.

        Returns the result of the tool, which comes after the last row.
        """
        input = {"sql": sql, "params": params, "row_mode": row_mode}
        return await self._call("query_stream", input, options, on_chunk)

    async def begin_transaction(self, **options: Unpack[CallOptions]) -> str:
        """Begin a transaction and return its session id. It is rolled back when this connection ends, or when it is idle."""
        return (await self._call("begin", {}, options))["session_id"]

    async def commit(self, session_id: str, **options: Unpack[CallOptions]) -> Body:
        """Commit a transaction. Returns `{ok: true}`."""
        return await self._call("commit", {"session_id": session_id}, options)

    async def rollback(self, session_id: str, **options: Unpack[CallOptions]) -> Body:
        """Roll a transaction back. Returns `{ok: true}`."""
        return await self._call("rollback", {"session_id": session_id}, options)

    @asynccontextmanager
    async def transaction(self, **which: Unpack[WhichNode]) -> AsyncIterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails or is cancelled.

        The failure of the block is raised; if the rollback fails too, a note on that failure says so.
        """
        session_id = await self.begin_transaction(**which)
        try:
            yield Transaction(self, session_id, which)
        except BaseException as error:
            with anyio.move_on_after(CLIENT_DEFAULTS.rollback, shield=True):
                try:
                    await self.rollback(session_id, **which)
                except Exception as second:
                    error.add_note(f"The rollback failed too: {second}")
            raise
        await self.commit(session_id, **which)

    async def dialect(self, **options: Unpack[CallOptions]) -> str:
        """The query language of the database: `postgres`, `mysql`, `sqlite`, `duckdb`, `neo4j` or `ladybug`."""
        return (await self._call("dialect", {}, options))["dialect"]

    async def schema(
        self,
        *,
        table: str | None = None,
        label: str | None = None,
        refresh: bool = False,
        **options: Unpack[CallOptions],
    ) -> Body:
        """Tables, columns and keys, or one `table`; of a graph, its node and relationship types, or one `label`.

        It is a snapshot; with `refresh` it is read anew.
        """
        if refresh:
            whole = await self._call("refresh_schema", {}, options)
            if table is None and label is None:
                return whole
        return await self._call("get_schema", {"table": table, "label": label}, options)


class Transaction:
    """A transaction of `Database.transaction`: `query` runs a statement in it."""

    __slots__ = ("_database", "_which", "session_id")

    def __init__(self, database: Database, session_id: str, which: WhichNode) -> None:
        """Made by `Database.transaction`."""
        self._database = database
        self._which = which
        self.session_id: str = session_id

    async def query(
        self, sql: str, *, params: Params | None = None, row_mode: str | None = None, timeout: float | None = None
    ) -> Body:
        """Run a statement in the transaction and return `{rows, affected_rows}`."""
        return await self._database.query(
            sql, params=params, session_id=self.session_id, row_mode=row_mode, timeout=timeout, **self._which
        )

    def __repr__(self) -> str:
        return f"<Transaction {self.session_id}>"


class Vectors(NodeTools):
    """The tools of a pipeline's vector stores."""

    __slots__ = ()

    async def search(
        self,
        query: str | None = None,
        *,
        mode: str | None = None,
        top_k: int | None = None,
        filter: Mapping[str, Any] | None = None,
        score_threshold: float | None = None,
        embedding: Sequence[float] | None = None,
        embedding_model: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """The chunks that fit a query best: `{results: [{content, score, metadata}], total, mode}`.

        `mode` is "dense", "keyword" or "hybrid". `filter` has `objectId`, `nodeId`, `parent`, `prefix`, `metadata`.
        `embedding`, made by `embedding_model`, stands in for that of the query.
        """
        input = {
            "query": query,
            "mode": mode,
            "top_k": top_k,
            "filter": filter,
            "score_threshold": score_threshold,
            "embedding": embedding,
            "embedding_model": embedding_model,
        }
        return await self._call("search", input, options)

    async def upsert(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        replace: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """Store chunks, `{content, object_id, metadata?, embedding?, embedding_model?}` each. Returns `{count, …}`.

        With `replace`, chunks that the objects had before and are not among these are deleted.
        """
        return await self._call("upsert", {"documents": documents, "replace": replace}, options)

    async def delete(
        self,
        object_ids: Sequence[str] | None = None,
        *,
        parent: str | None = None,
        prefix: str | None = None,
        everything: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """Remove objects by their ids, all of one `parent` path, all below a `prefix` path, or everything that the caller has.

        Returns `{deleted_count, …}`.
        """
        input = {"object_ids": object_ids, "parent": parent, "prefix": prefix, "everything": everything}
        return await self._call("delete", input, options)

    async def move(self, object_id: str, to: str, *, parent: str | None = None, **options: Unpack[CallOptions]) -> Body:
        """Give an object another id, and another `parent` path; its chunks keep their vectors. Returns `{count}`."""
        return await self._call("move", {"object_id": object_id, "to": to, "parent": parent}, options)

    async def list(
        self,
        *,
        parent: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """The stored objects, sorted by parent and id: `{objects: [{parent, objectId, chunks}], total, cursor, …}`.

        With the `cursor` of a page, the next one begins where that one ended; it is null on the last page.
        """
        input = {"parent": parent, "offset": offset, "limit": limit, "cursor": cursor}
        return await self._call("list", input, options)

    async def get(
        self,
        object_id: str,
        *,
        offset: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Body:
        """The chunks of one object, in their order: `{chunks: [{content, chunkId, metadata}], total, cursor}`.

        `cursor` is as in `list`.
        """
        input = {"object_id": object_id, "offset": offset, "limit": limit, "cursor": cursor}
        return await self._call("get", input, options)

    async def versions(self, object_ids: Sequence[str], **options: Unpack[CallOptions]) -> Body:
        """Those of the objects that are stored: `{versions: {id: {chunks, signature}}}`."""
        return await self._call("versions", {"object_ids": object_ids}, options)

    async def stats(self, **options: Unpack[CallOptions]) -> Body:
        """The number of stored chunks, the model and the vector size: `{count, model, vector_size, …}`."""
        return await self._call("stats", {}, options)
