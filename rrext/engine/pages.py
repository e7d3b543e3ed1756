"""Pages of rows: search, filters and order, as RocketRide's list commands take them."""

from __future__ import annotations

from typing import Any, Final

from rrext.errors import InvalidArguments

DEFAULT_PAGE: Final = 50
"""Rows of a page of a list, if the request does not say, as in the reference server."""
MAX_PAGE: Final = 100
"""Rows of a page at most, as in the reference server."""

_BOUNDS = ("__gte", "__lte")


def page_of(rows: list[dict[str, Any]], request: Any, *, order: str) -> dict[str, Any]:
    """Make the answer `{rows, total, page, pageSize}` to a list command. `order` is the key of the rows without `sort`.

    Raises `InvalidArguments` for a filter or an order that is none.
    """
    if request.search:
        wanted = request.search.casefold()
        rows = [row for row in rows if any(wanted in str(value).casefold() for value in row.values() if _is_plain(value))]
    for name, value in (request.filters or {}).items():
        rows = [row for row in rows if _fits(row, name, value)]
    rows = sorted(rows, key=lambda row: (_sortable(row.get(order)), str(row["id"])))
    for each in reversed(request.sort or []):
        if not isinstance(each.get("field"), str) or each.get("dir", "asc") not in ("asc", "desc"):
            raise InvalidArguments.at("/sort", "expected a list of {field, dir}, dir being asc or desc")
        rows.sort(key=lambda row, field=each["field"]: _sortable(row.get(field)), reverse=each.get("dir") == "desc")
    size = min(max(request.page_size or DEFAULT_PAGE, 1), MAX_PAGE)
    last = max(1, -(-len(rows) // size))
    page = min(max(request.page or 1, 1), last)
    return {"rows": rows[(page - 1) * size : page * size], "total": len(rows), "page": page, "pageSize": size}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _sortable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, both before what has no order."""
    if isinstance(value, int | float):
        return (0, value, "")
    return (1, 0, value.casefold()) if isinstance(value, str) else (2, 0, "")


def _fits(row: dict[str, Any], name: str, wanted: Any) -> bool:
    for bound in _BOUNDS:
        if name.endswith(bound):
            value, limit = row.get(name.removesuffix(bound)), _number(wanted)
            return isinstance(value, int | float) and (value >= limit if bound == "__gte" else value <= limit)
    value = row.get(name)
    if isinstance(wanted, list):
        return str(value).casefold() in {str(each).casefold() for each in wanted}
    if isinstance(value, str):
        return str(wanted).casefold() in value.casefold()
    return str(value).casefold() == str(wanted).casefold()


def _number(wanted: Any) -> float:
    try:
        return float(wanted)
    except (TypeError, ValueError):
        raise InvalidArguments.at("/filters", "the bound of a range must be a number") from None
