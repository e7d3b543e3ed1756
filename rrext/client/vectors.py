"""`client.vectors`: the tools of vector stores by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from rrext.client.node_tools import CallOptions, NodeTools
from rrext.client.pending_call import Body


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

        `mode` is "dense", "keyword" or "hybrid". `filter` has `objectId`, `nodeId`, `parent`, `prefix`. `embedding`, made
        by `embedding_model`, stands in for that of the query.
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
        **options: Unpack[CallOptions],
    ) -> Body:
        """Remove objects by their ids, all of one `parent` path, or all below a `prefix` path. Returns `{deleted_count, …}`."""
        input = {"object_ids": object_ids, "parent": parent, "prefix": prefix}
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
