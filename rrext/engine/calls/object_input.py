"""The client's input for an object: the description in `open`, and the data of a `write`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.flow.intake import Intake
from rrext.errors import InvalidArguments, fold
from rrext.nodes.base.lanes import choose_lane
from rrext.nodes.base.node import Entry

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.operations import Open, Write
    from rrext.engine.interface.store_operations import WriteFile
    from rrext.pipefile.lane_plan import LanePlan


KNOWN: Final = {fold(key): key for key in ("name", "path", "url", "objectId", "signature", "size", "metadata")}


def entry_of(plan: LanePlan, operation: Open, caller: Caller) -> tuple[Entry, Intake]:
    """Read the arguments of `open`: the object, and the rule that turns its writes into payloads. Raises `InvalidArguments`."""
    source = plan.source_class
    given = operation.object or {}
    mime_type = operation.mime_type or "application/octet-stream"
    if operation.provider and operation.provider != source.provider:
        raise InvalidArguments.at(
            "/provider", f'You are looking for a "{operation.provider}", but this pipeline isn\'t it: it begins at a '
            f'"{source.provider}"'
        )  # fmt: skip
    _check_method(plan, mime_type)
    lane = choose_lane(mime_type, plan.listens)
    _check_keys(given)
    size, metadata = given.get("size"), given.get("metadata")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise InvalidArguments.at("/object/size", "expected a number of bytes")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidArguments.at("/object/metadata", "expected an object")
    entry = Entry(
        _text(given, "name"),
        path=_text(given, "path") or "",
        mime_type=mime_type,
        size=size,
        metadata=metadata,
        url=_text(given, "url"),
        object_id=_text(given, "objectId"),
        signature=_text(given, "signature"),
        tenant=(caller.user_id, caller.space_id),
    )
    return entry, Intake(lane, mime_type)


def data_of(operation: Write | WriteFile, raw: bytes | None) -> bytes | str:
    """The data of a write. Raises `InvalidArguments` unless it was given in exactly one way."""
    given = [value is not None for value in (operation.data, operation.data_base64, raw)]
    if sum(given) != 1:
        what = "No data specified" if not any(given) else "data was given twice"
        raise InvalidArguments.at("/data", f"{what}: a write takes exactly one of data (text), data_base64 and a raw tail")
    if raw is not None:
        return raw
    if operation.data is not None:
        return operation.data
    try:
        return base64.b64decode(operation.data_base64 or "", validate=True)
    except ValueError:  # base64 raises ValueError for non-ASCII characters too
        raise InvalidArguments.at("/data_base64", "expected base64 (RFC 4648, with padding)") from None


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidArguments.at(f"/object/{key}", "expected a string")
    return value


def _check_keys(given: dict[str, Any]) -> None:
    """Refuse `object_id` and an empty id: if they were ignored, the object would get another id than the client means."""
    for key in given:
        meant = KNOWN.get(fold(key))
        if meant is not None and meant != key and meant not in given:
            raise InvalidArguments.at(f"/object/{key}", f'unknown key; did you mean "{meant}"?')
    for key in ("objectId", "url"):
        if given.get(key) == "":
            raise InvalidArguments.at(f"/object/{key}", "is empty; leave it out to have one made")


def _check_method(plan: LanePlan, mime_type: str) -> None:
    """Refuse the classic mix-up of `send` and `chat`, which would end in an empty result."""
    accepts = plan.source_class.accepts
    asks = mime_type.startswith("application/rocketride-question") or mime_type == "lane/questions"
    if asks and accepts and "chat" not in accepts and "questions" not in plan.source_lanes:
        raise InvalidArguments.at("/mimeType", f'nobody takes questions here: "{plan.source}" is for send()')
    if not asks and accepts == ("chat",):
        raise InvalidArguments.at("/mimeType", f'"{plan.source}" takes questions only: use chat() instead of send()')
