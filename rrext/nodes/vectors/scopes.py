"""Checked scopes: filters of a search, and arguments of a delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.vectors.drafts import require_name
from rrext.nodes.vectors.limits import MAX_IDS
from rrext.nodes.vectors.store import Scope

Ids = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_IDS)]


class SearchFilter(TypedDict, total=False):
    """Restricts a search to chunks that match all given fields."""

    objectId: str | Ids | None
    nodeId: str | None
    parent: Annotated[str | None, msgspec.Meta(description="The very path.")]
    prefix: Annotated[str | None, msgspec.Meta(description="This path and all below it.")]


def scope_of(at: str, filter: Mapping[str, Any] | None, *, ids_key: str = "objectId") -> Scope:
    """The scope of a filter; null counts as missing. Raises `InvalidArguments` below the pointer `at`.

    `ids_key` is the key of the object ids.
    """
    if not filter:
        return Scope()
    ids = filter.get(ids_key)
    node_id, parent, prefix = filter.get("nodeId"), filter.get("parent"), filter.get("prefix")
    return Scope(
        object_ids=None if ids is None else _ids(f"{at}/{ids_key}", ids),
        node_id=None if node_id is None else require_name(f"{at}/nodeId", node_id),
        parent=None if parent is None else require_name(f"{at}/parent", parent),
        prefix=None if prefix is None else folder_of(f"{at}/prefix", prefix),
    )


def scope_to_delete(object_ids: Sequence[str] | None, parent: str | None, prefix: str | None) -> Scope:
    """The scope of the tool `delete`. Raises `InvalidArguments` unless exactly one is given."""
    given = [name for name, value in (("object_ids", object_ids), ("parent", parent), ("prefix", prefix)) if value is not None]
    if len(given) != 1:
        raise InvalidArguments.at(
            f"/input/{given[1]}" if given else "/input",
            'expected exactly one of "object_ids", "parent" and "prefix"',
            hint="An object id deletes one object, a parent those of one path, a prefix those of a path and all below it.",
        )
    return Scope(
        object_ids=None if object_ids is None else _ids("/input/object_ids", object_ids),
        parent=None if parent is None else require_name("/input/parent", parent),
        prefix=None if prefix is None else folder_of("/input/prefix", prefix),
    )


def folder_of(at: str, path: Any) -> str:
    """A path as `Scope.prefix` has it: without `/` at its end. Raises `InvalidArguments` at `at`."""
    return require_name(at, path).rstrip("/") or "/"


def _ids(at: str, ids: Any) -> tuple[str, ...]:
    if isinstance(ids, str):
        return (require_name(at, ids),)
    if not isinstance(ids, list | tuple) or not 1 <= len(ids) <= MAX_IDS:
        raise InvalidArguments.at(at, f"expected an id, or a list of 1 to {MAX_IDS:,}")
    return tuple(dict.fromkeys(require_name(f"{at}/{n}", object_id) for n, object_id in enumerate(ids)))
