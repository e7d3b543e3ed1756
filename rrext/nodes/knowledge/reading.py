"""Handlers of `document_info` and `read_document`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.knowledge.library import View, address_of, opened
from rrext.nodes.knowledge.navigation import document_json
from rrext.nodes.knowledge.partition import Partition, StoredDocument
from rrext.nodes.text_search.text_map import MARK, TextMap

Unit = Literal["characters", "lines", "pages"]
MOST_CHARACTERS: Final = 100_000
"""Characters that one call reads: more than a model takes at once."""
DEFAULT_CHARACTERS: Final = 20_000
"""The same if the caller does not say, over all its documents."""
MOST_DOCUMENTS: Final = 20
"""Documents in one call."""
MOST_SHEETS: Final = 200
"""Sheets that document_info lists."""
MOST_METADATA: Final = 20_000
"""Bytes of metadata, as JSON, that document_info tells: a page or two."""


def document_info(view: View, public_id: str) -> dict[str, Any]:
    """All that is known about a document but its text."""
    partition, document = view.find(public_id)
    metadata, sheets = partition.metadata(document.number)
    told: dict[str, Any] = {}
    room = MOST_METADATA
    for key, value in metadata.items():
        size = len(msgspec.json.encode({key: value}))
        if size <= room:
            told[key] = value
            room -= size
    return {
        **document_json(document),
        "source": document.source,
        "folder": document.folder,
        "feed": document.feed,
        "added": document.added,
        "lines": document.lines,
        "pages": document.pages,
        "sheets": [{"name": sheet.name, "start": sheet.start, "end": sheet.end} for sheet in sheets[:MOST_SHEETS]],
        "metadata": told,
        "left_out": {"sheets": max(0, len(sheets) - MOST_SHEETS), "metadata": len(metadata) - len(told)},
    }


def read_document(
    view: View, public_ids: Sequence[str], unit: Unit, start: int | None, count: int | None, most: int
) -> dict[str, Any]:
    """The same range of each document, or that of its address; `most` characters over all of them."""
    found = [(*view.find(written), opened(written)[1]) for written in dict.fromkeys(public_ids)]
    read: list[dict[str, Any]] = []
    left = most
    for partition, document, passage in found:
        if passage is None:
            answer = _read(partition, document, unit, start, count, left)
        else:
            answer = _read(partition, document, "characters", passage[0], passage[1] - passage[0], left)
        left -= len(answer["text"])
        read.append(answer)
    return {"documents": read}


def _read(
    partition: Partition, document: StoredDocument, unit: Unit, start: int | None, count: int | None, most: int
) -> dict[str, Any]:
    first = 0 if unit == "characters" else 1
    start = first if start is None else start
    if start < first:
        raise InvalidArguments.at("/input/start", f"{unit} are counted from {first}")
    with partition.reading() as rows:
        spots = partition.spots_of(rows, document)

        def part(start: int, end: int) -> str:
            return partition.text_of(rows, document, spots, start, end)

        begin = place_of_unit(document, spots, unit, start, part)
        end = document.characters if count is None else place_of_unit(document, spots, unit, start + count, part)
        stop = max(begin, min(end, begin + most))
        text = partition.text_of(rows, document, spots, begin, stop)
    total = {"characters": document.characters, "lines": document.lines, "pages": document.pages}[unit]
    return {
        "id": document.id,
        "path": document.path,
        "uri": address_of(document.id, begin, stop),
        "text": text,
        "start": begin,
        "end": stop,
        "characters": document.characters,
        "unit": unit,
        "total": total,
        "next": stop if stop < document.characters else None,
    }


def place_of_unit(document: StoredDocument, spots: TextMap, unit: Unit, number: int, part: Callable[[int, int], str]) -> int:
    """The character at which a character, line or page begins; the end of the text for those behind it.

    `part` gives the characters of the text from one place to another. Raises `InvalidArguments` for a document without pages.
    """
    if unit == "characters":
        return min(number, document.characters)
    if unit == "pages":
        if document.pages is None:
            raise InvalidArguments.at(
                "/input/unit",
                f'"{document.id}" has no pages',
                hint='Only PDF documents have pages: use "lines" or "characters".',
            )
        number = max(1, number)
        return spots.pages[number - 1] if number <= len(spots.pages) else document.characters
    if number > document.lines:
        return document.characters
    place, newlines = spots.mark_of_line(number)
    while newlines < number - 1:
        piece = part(place, place + MARK)
        inside = piece.count("\n")
        if newlines + inside >= number - 1:
            at = 0
            for _ in range(number - 1 - newlines):
                at = piece.index("\n", at) + 1
            return place + at
        newlines += inside
        place += MARK
    return place
