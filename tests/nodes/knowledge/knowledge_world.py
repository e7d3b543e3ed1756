"""Catalogs in fresh folders, documents for them, and calls of users in spaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rrext.nodes.knowledge.library import Library
from rrext.nodes.knowledge.partition import DocumentDraft, Partition, StoredDocument
from rrext.tools.context import ToolContext

__all__ = ["call", "catalog", "draft", "library_with", "put"]


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
