"""`VectorStoreNode`: the tools and lanes of all vector stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NotRequired, TypedDict

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.embeddings.embedder import EMBEDDING_SLOT, embedder_of
from rrext.nodes.vectors.checked_input import (
    CHUNK_PLACE,
    MAX_CONTENT,
    MAX_IDS,
    OBJECT_PLACE,
    SearchFilter,
    cursor_at,
    draft_of,
    drafts_of,
    folder_of,
    place_of,
    require_name,
    require_vector,
    scope_of,
    scope_to_delete,
)
from rrext.nodes.vectors.embedding import PendingChunks, answer_to, documents_for, query_vector, store_drafts, vectors_of
from rrext.nodes.vectors.store import FIRST_OBJECT, NOBODYS, Mode, Search, VectorStore, chunk_json, hit_json, owner_of
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

LIST_MAX: Final = 10_000
LIST_DEFAULT: Final = 1000
GET_MAX: Final = 1000
GET_DEFAULT: Final = 100
"""Chunks are whole texts: a page of the longest default ones is about a hundred kilobytes."""
MAX_TOP_K: Final = 100
"""Hits of one search: more than anybody reads."""
MAX_DOCUMENTS: Final = 100_000
"""Documents in one `upsert`; the bytes of a request have a limit of their own."""

READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class VectorSettings:
    """The settings of all vector stores."""

    shared: Annotated[
        bool, "Whether all users and spaces read and change one content; else each user in each space has its own."
    ] = False


class DocumentInput(TypedDict):
    """A chunk to store."""

    content: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CONTENT)]
    object_id: Annotated[str, msgspec.Meta(min_length=1, description="The document that it is a piece of.")]
    metadata: NotRequired[
        Annotated[
            dict[str, Any] | None,
            msgspec.Meta(description="`chunkId` (0 if left out), `parent` (a path), `nodeId`; anything else is kept too."),
        ]
    ]
    embedding: NotRequired[Annotated[list[float] | None, msgspec.Meta(description="Its vector, if there is one already.")]]
    embedding_model: NotRequired[str | None]


class VectorStoreNode(Node):
    """Base of the vector stores: `self.shared` is a `VectorStore`, which the class's own `setup` yields.

    On the documents lane, all chunks of an object that is sent again replace its former ones, also if there are none. They are
    stored when the object's pipe closes, all or nothing. A document with `isDeleted` deletes its object. The hits of a question
    go out as documents, as an answer, and within the question itself, for a language model. `semantic` questions search by
    meaning, `keyword` ones by words, `get` ones read the objects of their filter, and all others do both kinds of search.
    """

    class_types = ("store",)
    lanes = {"documents": (), "questions": ("documents", "answers", "questions")}
    invoke = EMBEDDING_SLOT

    shared: VectorStore
    config: VectorSettings

    def __init__(self) -> None:
        self._sent = PendingChunks()

    def _owner(self, ctx: ToolContext) -> str:
        """Whose chunks a call stores and reads."""
        return NOBODYS if self.config.shared else owner_of(ctx)

    @tool_function(group="vectors", annotations=READS)
    def search(
        self,
        query: str | None = None,
        top_k: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOP_K)] = 10,
        mode: Mode | None = None,
        filter: SearchFilter | None = None,
        score_threshold: float | None = None,
        embedding: list[float] | None = None,
        embedding_model: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Find the chunks that fit a query best. Answers `{results: [{content, score, metadata}], total, mode}`.

        `score` is higher for better ones. dense: the cosine similarity, -1 to 1. keyword: the relevance of the words,
        above 0, without an upper end. hybrid: 0 to 1, the mean of the similarity and of the share that the words have.

        Args:
            query: What is looked for, in words.
            top_k: How many are found at most.
            mode: "dense" compares meanings (vectors), "keyword" words, "hybrid" both. If left out: hybrid, or dense for an
                embedding without a query.
            filter: Only chunks of these objects, this node, this parent path, or a path and all below it (`prefix`).
            score_threshold: Only results with at least this score.
            embedding: The query's vector, if there is one already. Alone it means a dense search.
            embedding_model: The model that made `embedding`, to be sure that it fits.
        """
        text = (query or "").strip()
        if mode is None:
            mode = "dense" if embedding is not None and not text else "hybrid"
        if not text and not (embedding is not None and mode == "dense"):
            raise InvalidArguments.at("/input/query", "expected some text to look for")
        scope = scope_of("/input/filter", filter, owner=self._owner(ctx))
        vector = None if embedding is None else require_vector("/input/embedding", embedding)
        if mode != "keyword":
            vector = query_vector(self.shared, embedder_of(self), text, vector, embedding_model, ctx)
        hits = [] if mode != "keyword" and vector is None else self.shared.search(Search(mode, top_k, text, vector, scope), ctx)
        if score_threshold is not None:
            hits = [hit for hit in hits if hit.score >= score_threshold]
        return {"results": [hit_json(hit) for hit in hits], "total": len(hits), "mode": mode}

    @tool_function(group="vectors", annotations=WRITES)
    def upsert(
        self,
        documents: Annotated[list[DocumentInput], msgspec.Meta(min_length=1, max_length=MAX_DOCUMENTS)],
        replace: bool = False,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Store chunks of documents. Answers `{success, count, skipped, removed, model}`.

        A chunk takes the place of the one with the same object id and `chunkId`. All is stored or nothing, whatever
        happens. `removed` counts the chunks that `replace` removed; `skipped` is always 0.

        Args:
            documents: The chunks. Those without an `embedding` are embedded here.
            replace: Whether these are all chunks of their objects: the ones stored before and not given are removed.
        """
        owner = self._owner(ctx)
        drafts = drafts_of(documents, owner)
        space, removed = store_drafts(self.shared, embedder_of(self), drafts, ctx, replace=replace, owner=owner)
        return {"success": True, "count": len(drafts), "skipped": 0, "removed": removed, "model": space.model}

    @tool_function(group="vectors", annotations=WRITES)
    def delete(
        self,
        object_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_IDS)] | None = None,
        parent: str | None = None,
        prefix: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Remove objects with all their chunks, by exactly one of the arguments.

        Answers `{success, deleted_count, objects, missing}`: how many chunks were there and are gone, of how many objects,
        and which of the `object_ids` had none.

        Args:
            object_ids: The objects.
            parent: All chunks of this very path.
            prefix: All chunks of this path and those below it: "/a" means "/a" and "/a/b", not "/ab".
        """
        scope = scope_to_delete(object_ids, parent, prefix, owner=self._owner(ctx))
        gone = self.shared.delete(scope, ctx)
        missing = [object_id for object_id in scope.object_ids or () if object_id not in gone.object_ids]
        return {"success": True, "deleted_count": gone.chunks, "objects": len(gone.object_ids), "missing": missing}

    @tool_function(group="vectors", annotations=WRITES)
    def move(
        self,
        object_id: Annotated[str, msgspec.Meta(min_length=1)],
        to: Annotated[str, msgspec.Meta(min_length=1)],
        parent: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Give an object another id, as after its file was moved. Answers `{success, count}`.

        Its chunks keep their vectors and their metadata; an object of the new id is replaced. All is done or nothing.
        `count` is the number of chunks; if it is 0, there is no such object, and nothing was changed.

        Args:
            object_id: The object.
            to: Its new id.
            parent: The new path of all its chunks; without it they keep theirs.
        """
        object_id, to = require_name("/input/object_id", object_id), require_name("/input/to", to)
        place = None if parent is None else require_name("/input/parent", parent)
        return {"success": True, "count": self.shared.move(object_id, to, place, ctx, self._owner(ctx))}

    @tool_function(name="list", group="vectors", annotations=READS)
    def list_paths(
        self,
        parent: str | None = None,
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = LIST_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """The objects that are stored, sorted by parent path and id.

        Answers `{success, objects, paths, counts, total, cursor}`. `objects` are `{parent, objectId, chunks}`, and `total`
        counts all of them, not only this page's. Of this page, `paths` has the first object of each path, and `counts` the
        number of chunks. `cursor` is null on the last page.

        Args:
            parent: Only this path and those below it.
            offset: How many objects are left out at the beginning.
            limit: How many objects are listed at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        prefix = None if parent is None else folder_of("/input/parent", parent)
        after = place_of(cursor, OBJECT_PLACE, FIRST_OBJECT)
        found = self.shared.list(prefix, offset, limit + 1, ctx, self._owner(ctx), after)
        page, more = found.objects[:limit], found.objects[limit:]
        paths: dict[str, str] = {}
        counts: dict[str, int] = {}
        for one in page:
            paths.setdefault(one.parent, one.object_id)
            counts[one.parent] = counts.get(one.parent, 0) + one.chunks
        objects = [{"parent": one.parent, "objectId": one.object_id, "chunks": one.chunks} for one in page]
        cursor = cursor_at((page[-1].parent, page[-1].object_id)) if more else None
        return {"success": True, "objects": objects, "paths": paths, "counts": counts, "total": found.total, "cursor": cursor}

    @tool_function(group="vectors", annotations=READS)
    def objdir(
        self,
        parent: str | None = None,
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = LIST_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """The same as `list`, by its older name.

        Args:
            parent: Only this path and those below it.
            offset: How many objects are left out at the beginning.
            limit: How many objects are listed at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        return self.list_paths(parent, offset, limit, cursor, ctx=ctx)

    @tool_function(group="vectors", annotations=READS)
    def get(
        self,
        object_id: Annotated[str, msgspec.Meta(min_length=1)],
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=GET_MAX)] = GET_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Read one object, chunk by chunk. Answers `{success, chunks: [{content, chunkId, metadata}], total, cursor}`.

        The chunks are sorted by `chunkId`; `total` counts all that the object has, 0 if there is no such object. `cursor` is
        null on the last page.

        Args:
            object_id: The object.
            offset: How many chunks are left out at the beginning.
            limit: How many chunks are read at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        object_id = require_name("/input/object_id", object_id)
        found = self.shared.get(object_id, offset, limit + 1, ctx, self._owner(ctx), place_of(cursor, CHUNK_PLACE, -1))
        page, more = found.chunks[:limit], found.chunks[limit:]
        cursor = cursor_at(page[-1].chunk_id) if more else None
        return {"success": True, "chunks": [chunk_json(chunk) for chunk in page], "total": found.total, "cursor": cursor}

    @tool_function(group="vectors", annotations=READS)
    def versions(
        self,
        object_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_IDS)],
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Which versions of objects are stored. Answers `{success, versions: {id: {chunks, signature}}}`.

        Objects without chunks are left out. `signature` is that of all chunks' metadata, null if they have none or several.

        Args:
            object_ids: The objects.
        """
        wanted = [require_name(f"/input/object_ids/{n}", object_id) for n, object_id in enumerate(object_ids)]
        found = {
            version.object_id: {"chunks": version.chunks, "signature": version.signature}
            for version in self.shared.versions(wanted, ctx, self._owner(ctx))
        }
        return {"success": True, "versions": found}

    @tool_function(group="vectors", annotations=READS)
    def stats(self, *, ctx: ToolContext) -> dict[str, Any]:
        """What the caller has. Answers `{success, count, objects, parents, model, vector_size, disk_bytes, keyword, details}`.

        `count` is the number of chunks. `model` and `vector_size` are null while nothing is stored; these and `disk_bytes` are
        of the whole store.
        """
        found = self.shared.stats(ctx, self._owner(ctx))
        return {
            "success": True,
            "count": found.chunks,
            "objects": found.objects,
            "parents": found.parents,
            "model": found.space.model if found.space else None,
            "vector_size": found.space.size if found.space else None,
            "disk_bytes": found.disk_bytes,
            "keyword": found.keyword,
            "details": found.details,
        }

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._asked = False
        self._sent = PendingChunks()

    def write_documents(self, documents: Sequence[dict[str, Any]], ctx: ToolContext) -> None:
        drafts = []
        for n, document in enumerate(documents):
            metadata = document.get("metadata") or {}
            object_id = require_name(f"/documents/{n}/metadata/objectId", metadata.get("objectId"))
            if metadata.get("isDeleted"):
                drafts = [draft for draft in drafts if draft.chunk.object_id != object_id]
                self._sent.delete(object_id)
            else:
                if self._entry.signature is not None and object_id == self._entry.object_id:
                    document = {**document, "metadata": {**metadata, "signature": self._entry.signature}}
                keys = ("page_content", "metadata/objectId")
                content = document.get("page_content")
                drafts.append(draft_of(f"/documents/{n}", keys, document, object_id, content, self._owner(ctx)))
        if drafts:
            stored = self._sent.space or self.shared.space(ctx)
            self._sent.add(drafts, *vectors_of(drafts, embedder_of(self), stored, ctx))
            if self._sent.is_full:
                self._sent.store(self.shared, ctx, self._owner(ctx), is_last=False)

    def closing(self, ctx: ToolContext) -> None:
        sent, self._sent = self._sent, PendingChunks()
        is_kept = not self._asked and self.listens("documents")
        if is_kept:
            sent.end(self._entry.object_id)
        sent.store(self.shared, ctx, self._owner(ctx), is_last=True)
        if is_kept:
            self._entry.stored[self.node_id] = sent.count

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        self._asked = True
        documents = documents_for(question, self.shared, embedder_of(self), ctx, self._owner(ctx))
        self.emit("documents", documents)
        self.emit("answers", answer_to(question, documents))
        self.emit("questions", {**question, "documents": [*(question.get("documents") or ()), *documents]})
