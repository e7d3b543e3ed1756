"""Catalogs in fresh folders, documents for them, and calls of users in spaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from rrext.engine.interface.call import ANONYMOUS, Caller
from rrext.engine.interface.operations import Close, ListTools, Open, Operation, Tool, Write
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ToolError
from rrext.nodes.base.node import Node, Tenant, namespace_of
from rrext.nodes.knowledge.library import Library, View
from rrext.nodes.knowledge.partition import DocumentDraft, Partition, StoredDocument
from rrext.pipefile.catalog.catalog import Catalog
from rrext.tools.context import ToolContext

__all__ = [
    "PIPELINE",
    "KnowledgePipeline",
    "call",
    "catalog",
    "draft",
    "knowledge_pipeline",
    "library_with",
    "put",
    "user",
    "view_of",
]


def call(user: str | None = None, space: str | None = None) -> ToolContext:
    """The context of a call."""
    return ToolContext(user_id=user, space_id=space)


def draft(path: str = "docs/a.txt", text: str = "Some text.\n", **more: Any) -> DocumentDraft:
    """A document at `source/folders/name`, whose object is named by its path unless another id is given."""
    source, *folders, name = path.split("/")
    given: dict[str, Any] = {"object_id": path, "mime_type": "text/plain", "metadata": {}, **more}
    return DocumentDraft(source=source, folder="/".join(folders), name=name, text=text, **given)


@contextmanager
def catalog(folder: Path) -> Iterator[Partition]:
    """The catalog of one tenant."""
    partition = Partition(str(folder), "key")
    try:
        yield partition
    finally:
        partition.close()


@contextmanager
def library_with(folder: Path, **spaces: list[str]) -> Iterator[Library]:
    """A library with these spaces and their members."""
    library = Library(str(folder))
    for space, members in spaces.items():
        library.spaces.create(space)
        library.spaces.add(space, members)
    try:
        yield library
    finally:
        library.close()


def put(
    library: Library, ctx: ToolContext, path: str = "docs/a.txt", text: str = "Some text.\n", **more: Any
) -> StoredDocument:
    """Store a document as a call does."""
    with library.own(ctx) as partition:
        return partition.put(draft(path, text, **more))


def view_of(*partitions: Partition) -> View:
    """The view of a call that may read these catalogs."""
    read: dict[Tenant, Partition] = {(f"user {number}", None): partition for number, partition in enumerate(partitions)}
    for tenant, partition in read.items():
        partition.key = str(namespace_of(tenant))
    return View([*read], lambda tenant: nullcontext(read[tenant]))


PIPELINE: dict[str, Any] = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "parse_1", "provider": "parse", "config": {}, "input": [{"lane": "tags", "from": "webhook_1"}]},
        {
            "id": "split_1",
            "provider": "split",
            "config": {},
            "input": [{"lane": "text", "from": "parse_1"}],
        },
        {
            "id": "store_1",
            "provider": "store_qdrant_edge",
            "config": {"path": "vectors", "shared": "space"},
            "input": [{"lane": "documents", "from": "split_1"}],
            "control": [{"classType": "store", "from": "knowledge_1"}],
        },
        {
            "id": "knowledge_1",
            "provider": "knowledge",
            "config": {},
            "input": [{"lane": "text", "from": "parse_1"}, {"lane": "table", "from": "parse_1"}],
        },
    ],
    "source": "webhook_1",
    "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a26",
    "version": 1,
}
"""Files are parsed, split and kept with their vectors."""


class KnowledgePipeline:
    """A loaded pipeline with documents, and its callers."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    async def ask(self, operation: Operation, *, data: bytes | None = None, caller: Caller = ANONYMOUS) -> Any:
        """The body of the answer. Raises the failure."""
        body, _ = await self.engine.ask(operation, caller, data=data)
        return msgspec.json.decode(body)

    async def tool(self, tool: str, /, *, caller: Caller = ANONYMOUS, node: str = "knowledge_1", **given: Any) -> Any:
        """The result of a tool."""
        return (await self.ask(Tool(tool=tool, node_id=node, input=given), caller=caller))["result"]

    async def tools(self, caller: Caller = ANONYMOUS, **more: Any) -> list[str]:
        """The names of the tools that this caller may call now."""
        found = (await self.ask(ListTools(node_id="knowledge_1", **more), caller=caller))["tools"]
        return [tool.get("function", tool)["name"] for tool in found]

    async def send(
        self, name: str, data: bytes | str, mime_type: str = "text/plain", *, caller: Caller = ANONYMOUS, **about: Any
    ) -> dict[str, Any]:
        """The result body of one object. Raises its failure."""
        opened = Open(object={"name": name, **about}, mime_type=mime_type)
        pipe = (await self.ask(opened, caller=caller))["pipe_id"]
        encoded = data.encode() if isinstance(data, str) else data
        if encoded:
            await self.ask(Write(pipe_id=pipe), data=encoded, caller=caller)
        closed = await self.ask(Close(pipe_id=pipe), caller=caller)
        if "error" in closed:
            raise ToolError(closed["error"]["message"], code=closed["error"]["code"], data={"closed": closed})
        return closed


@asynccontextmanager
async def knowledge_pipeline(
    folder: Path, pipeline: dict[str, Any] = PIPELINE, *, nodes: Iterable[type[Node]] = (), **spaces: list[str]
) -> AsyncIterator[KnowledgePipeline]:
    """A pipeline whose file would stand in `folder`, with these spaces and their members."""
    with library_with(folder / "knowledge", **spaces):
        pass
    engine = LocalEngine(catalog=Catalog(nodes))
    try:
        engine.load(pipeline, folder=str(folder))
        yield KnowledgePipeline(engine)
    finally:
        await engine.aclose()


def user(user_id: str | None, space_id: str | None = None) -> Caller:
    """A caller on a connection of its own."""
    return Caller(f"connection of {user_id} in {space_id}", user_id=user_id, space_id=space_id)
