"""`Selection`: which documents a search is about, as SQL over the catalog and as a filter of the vector store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypedDict

import msgspec

from rrext.errors import InvalidArguments

Names = Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)]
Scalar = str | int | float | bool
MOST_KEYS: Final = 20
"""Metadata keys in a filter."""


class DocumentFilter(TypedDict, total=False):
    """Which documents are meant: those that fit all that is given; null and left out mean any."""

    sources: Annotated[Names | None, msgspec.Meta(description="Names of sources.")]
    feeds: Annotated[Names | None, msgspec.Meta(description="Names of feeds.")]
    folder: Annotated[str | None, msgspec.Meta(description="A folder and all below it, as `source/folder`.")]
    types: Annotated[Names | None, msgspec.Meta(description="MIME types (`application/pdf`, `text/*`) or extensions (`pdf`).")]
    modified_after: Annotated[str | None, msgspec.Meta(description="A date or time of ISO 8601, in UTC unless it says else.")]
    modified_before: Annotated[str | None, msgspec.Meta(description="The same; documents modified at that time do not count.")]
    metadata: Annotated[
        dict[str, Scalar] | None, msgspec.Meta(description="Values that the documents' metadata have under these keys.")
    ]


class Selection:
    """The documents that a filter means."""

    def __init__(self, filter: Mapping[str, Any] | None) -> None:
        """Raises `InvalidArguments` at the place of what cannot be read."""
        given = {key: value for key, value in (filter or {}).items() if value is not None}
        self.sources: Sequence[str] = given.get("sources", ())
        self.feeds: Sequence[str] = given.get("feeds", ())
        self.folder: str | None = _folder(given["folder"]) if "folder" in given else None
        self.types: Sequence[str] = [kind.strip().lower().removeprefix(".") for kind in given.get("types", ())]
        self.after = _seconds("modified_after", given)
        self.before = _seconds("modified_before", given)
        self.metadata: Mapping[str, Scalar] = given.get("metadata", {})
        if len(self.metadata) > MOST_KEYS:
            raise InvalidArguments.at("/input/filter/metadata", f"expected at most {MOST_KEYS} keys")

    def __bool__(self) -> bool:
        parts = (self.sources, self.feeds, self.types, self.metadata)
        return any(parts) or self.folder is not None or self.after is not None or self.before is not None

    def metadata_filter(self) -> dict[str, Any] | None:
        """The filter of a vector store by the metadata of chunks; None if they cannot say what is meant."""
        if self.folder is not None or any("/" not in kind or kind.endswith("/*") for kind in self.types):
            return None
        wanted: dict[str, Any] = dict(self.metadata)
        for key, values in (("source", self.sources), ("feed", self.feeds), ("mimeType", self.types)):
            if values:
                wanted[key] = list(values)
        limits = {"gte": self.after, "lt": self.before}
        between = {operator: moment for operator, moment in limits.items() if moment is not None}
        if between:
            wanted["modified"] = between
        return wanted

    def condition(self) -> tuple[str, list[Any]]:
        """An SQL condition over `partition.JOINED`, and its values."""
        parts: list[str] = []
        values: list[Any] = []
        for column, wanted in (("source.name", self.sources), ("document.feed", self.feeds)):
            if wanted:
                parts.append(f"{column} IN ({_marks(wanted)})")
                values += wanted
        if self.folder is not None:
            source, _, below = self.folder.partition("/")
            parts.append("source.name = ?")
            values.append(source)
            if below:
                parts.append("(folder.path = ? OR (folder.path >= ? AND folder.path < ?))")
                values += [below, f"{below}/", f"{below}0"]  # the character behind the slash
        if self.types:
            kinds = [kind for kind in self.types if "/" in kind]
            either = [f"document.extension IN ({_marks(self.types)})"]
            values += self.types
            for kind in kinds:
                is_family = kind.endswith("/*")
                either.append("substr(document.type, 1, ?) = ?" if is_family else "document.type = ?")
                values += [len(kind) - 1, kind[:-1]] if is_family else [kind]
            parts.append(f"({' OR '.join(either)})")
        for operator, moment in ((">=", self.after), ("<", self.before)):
            if moment is not None:
                parts.append(f"document.modified {operator} ?")
                values.append(moment)
        for key, value in self.metadata.items():
            parts.append(
                "EXISTS (SELECT 1 FROM about, json_each(about.metadata) AS had WHERE about.number = document.number "
                "AND had.key = ? AND had.atom IS ? AND (had.type IN ('true', 'false')) = ?)"
            )
            values += [key, value, isinstance(value, bool)]
        return " AND ".join(parts) or "true", values


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _folder(path: str) -> str:
    folder = "/".join(filter(None, path.split("/")))
    if not folder:
        raise InvalidArguments.at("/input/filter/folder", "expected the path of a folder, as `source/folder`")
    return folder


def _seconds(key: str, given: Mapping[str, Any]) -> float | None:
    if key not in given:
        return None
    try:
        moment = datetime.fromisoformat(given[key].strip())
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidArguments.at(
            f"/input/filter/{key}", "expected a date or time of ISO 8601, as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
