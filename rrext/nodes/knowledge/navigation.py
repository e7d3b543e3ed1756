"""Handlers of the tools that walk over sources and folders, and of `find_by_name`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import ToolError
from rrext.nodes.knowledge.library import View
from rrext.nodes.knowledge.partition import COLUMNS, JOINED, Partition, StoredDocument
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.text_search.glob import Glob
from rrext.nodes.text_search.trigrams import match_of
from rrext.nodes.vectors.checked_input import cursor_at, place_of
from rrext.tools.context import ToolContext

MOST_TREE: Final = 2000
"""Folders in one tree: what a model can still read."""

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
SOURCE_PLACE: Final = msgspec.json.Decoder(str)
CONTENT_PLACE: Final = msgspec.json.Decoder(tuple[Literal["folder", "document"], str, Number])
NAME_PLACE: Final = msgspec.json.Decoder(tuple[str, Number])


def folder_not_found(path: str) -> ToolError:
    """The error for a source or folder that the caller does not have."""
    return ToolError(
        f'There is no folder "{path[:200]}"', code="folder_not_found", hint="list_sources and folder_tree tell which there are."
    )


def document_json(document: StoredDocument) -> dict[str, Any]:
    """A document in a list."""
    return {
        "id": document.id,
        "name": document.name,
        "path": document.path,
        "type": document.mime_type,
        "characters": document.characters,
        "modified": document.modified,
    }


def list_sources(view: View, limit: int, cursor: str | None) -> dict[str, Any]:
    """The sources of a space, by name."""
    asked = (
        "SELECT source.name, sum(folder.documents), count(folder.parent) FROM source JOIN folder ON folder.source = "
        "source.number WHERE source.name > ? GROUP BY source.name ORDER BY source.name LIMIT ?"
    )
    found: list[tuple[str, int, int]] = []
    total = 0
    for _, partition in view.parts():
        with partition.reading() as rows:
            found = rows.execute(asked, (place_of(cursor, SOURCE_PLACE, ""), limit + 1)).fetchall()
            (total,) = rows.execute("SELECT count(*) FROM source").fetchone()
    page = found[:limit]
    sources = [{"name": name, "documents": documents, "folders": folders} for name, documents, folders in page]
    return {"sources": sources, "total": total, "cursor": cursor_at(page[-1][0]) if len(found) > limit else None}


def list_folder_contents(view: View, path: str, limit: int, cursor: str | None) -> dict[str, Any]:
    """The folders of a folder of a space, then its documents, each by name."""
    partition, folder = _folder(view, path)
    kind, after, number = place_of(cursor, CONTENT_PLACE, ("folder", "", 0))
    folders: list[tuple[str, int]] = []
    documents: list[StoredDocument] = []
    with partition.reading() as rows:
        asked = "SELECT documents, (SELECT count(*) FROM folder WHERE parent = own.number) FROM folder AS own WHERE number = ?"
        total_documents, total_folders = rows.execute(asked, (folder,)).fetchone()
        if kind == "folder":
            asked = "SELECT name, documents FROM folder WHERE parent = ? AND name > ? ORDER BY name LIMIT ?"
            folders = rows.execute(asked, (folder, after, limit)).fetchall()
            after, number = "", 0
        if len(folders) < limit:
            asked = (
                f"SELECT {COLUMNS} FROM {JOINED} WHERE document.folder = ? AND (document.name, document.number) > (?, ?) "
                "ORDER BY document.name, document.number LIMIT ?"
            )
            found = rows.execute(asked, (folder, after, number, limit + 1 - len(folders)))
            documents = [StoredDocument(*row) for row in found]
    page = documents[: limit - len(folders)]
    next_cursor = None
    if len(folders) == limit:
        next_cursor = cursor_at(("folder", folders[-1][0], 0))
    elif len(documents) > len(page):
        next_cursor = cursor_at(("document", page[-1].name, page[-1].number))
    path = "/".join(filter(None, path.split("/")))
    return {
        "path": path,
        "folders": [{"name": name, "path": f"{path}/{name}", "documents": count} for name, count in folders],
        "documents": [document_json(one) for one in page],
        "total": {"folders": total_folders, "documents": total_documents},
        "cursor": next_cursor,
    }


def folder_tree(view: View, path: str, depth: int) -> dict[str, Any]:
    """A folder of a space with those below it, each with the number of documents in it and below it."""
    partition, number = _folder(view, path)
    asked = (
        "SELECT folder.path, folder.documents, top.path FROM folder, folder AS top WHERE top.number = ? "
        "AND folder.source = top.source AND (top.path = '' OR folder.path = top.path "
        "OR (folder.path >= top.path || '/' AND folder.path < top.path || '0'))"
    )
    counts: dict[str, int] = {}
    with partition.reading() as rows:
        for inner, documents, top in rows.execute(asked, (number,)):
            counts[inner[len(top) :].lstrip("/")] = documents
    path = "/".join(filter(None, path.split("/")))
    downward = sorted(counts, key=lambda below: (bool(below), below.count("/"), below))
    for below in reversed(downward[1:]):
        counts[_above(below)] += counts[below]
    nodes: dict[str, dict[str, Any]] = {"": {"name": path.rpartition("/")[2], "documents": counts[""], "folders": []}}
    for below in downward[1 : MOST_TREE + 1]:
        if below.count("/") < depth:
            nodes[below] = {"name": below.rpartition("/")[2], "documents": counts[below], "folders": []}
            nodes[_above(below)]["folders"].append(nodes[below])
    return {"path": path, **nodes[""], "left_out": len(counts) - len(nodes)}


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _folder(view: View, path: str) -> tuple[Partition, int]:
    """The folder of a path, as `source/folder`. Raises `ToolError` (`folder_not_found`)."""
    source, _, below = "/".join(filter(None, path.split("/"))).partition("/")
    joined = "folder JOIN source ON source.number = folder.source"
    asked = f"SELECT folder.number FROM {joined} WHERE source.name = ? AND folder.path = ?"
    for _, partition in view.parts():
        with partition.reading() as rows:
            found = rows.execute(asked, (source, below)).fetchone()
        if found is not None:
            return partition, found[0]
    raise folder_not_found(path)


def find_by_name(
    view: View, pattern: str, selection: Selection, limit: int, cursor: str | None, ctx: ToolContext
) -> dict[str, Any]:
    """The documents whose name or path fits a glob, by catalog and number."""
    glob = Glob(pattern)
    match = match_of(glob.literals)
    where, values = selection.condition()
    if glob.extension is not None:
        where, values = f"document.extension = ? AND {where}", [glob.extension, *values]
    elif match is not None:
        where, values = (
            f"document.number IN (SELECT rowid FROM name_grams WHERE name_grams MATCH ?) AND {where}",
            [match, *values],
        )
    key, number = place_of(cursor, NAME_PLACE, ("", 0))
    found: list[tuple[Partition, StoredDocument]] = []
    for _, partition in view.parts(key):
        after = number if partition.key == key else 0
        with partition.reading() as rows:
            tables = JOINED if selection else "document"  # names alone: the rest is read of those that fit
            asked = f"SELECT document.number, document.path, document.name FROM {tables} WHERE {where} AND document.number > ?"
            told = f"SELECT {COLUMNS} FROM {JOINED} WHERE document.number = ?"
            with closing(rows.execute(f"{asked} ORDER BY document.number", (*values, after))) as listed:
                for of, path, name in listed:
                    ctx.check()
                    if not glob.fits(path, name):
                        continue
                    if len(found) == limit:
                        at, last = found[-1]
                        return _found(found, cursor_at((at.key, last.number)))
                    found.append((partition, StoredDocument(*rows.execute(told, (of,)).fetchone())))
    return _found(found, None)


def _found(documents: Sequence[tuple[Partition, StoredDocument]], cursor: str | None) -> dict[str, Any]:
    return {"documents": [document_json(document) for _, document in documents], "cursor": cursor}
