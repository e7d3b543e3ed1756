"""What the client says in `initializationOptions`."""

from __future__ import annotations

from typing import Any, cast

import msgspec

__all__ = ["Options", "options_from"]


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """`trusted`: pipelines may be run, and code of `nodes` is loaded. The others are the options of the command line.

    `nodes`: files and modules with nodes of one's own. `env`: names that `${NAME}` may read, beside `ROCKETRIDE_*`.
    `root`: the folder that no node's paths may leave.
    """

    trusted: bool = False
    nodes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    root: str | None = None


def options_from(params: Any, given: Options) -> tuple[Options, list[str]]:
    """The options of an `initialize` over those of the command line, and what could not be used of them.

    Nothing that cannot be read is taken for consent: `trusted` counts only if it is `true`.
    """
    sent: Any = cast("dict[str, Any]", params).get("initializationOptions") if isinstance(params, dict) else None
    if sent is None:
        return given, []
    if not isinstance(sent, dict):
        return given, ["initializationOptions must be an object"]
    known = {field.encode_name: field.name for field in msgspec.structs.fields(Options)}
    taken: dict[str, Any] = {}
    complaints: list[str] = []
    for key, value in cast("dict[str, Any]", sent).items():
        if key not in known:
            complaints.append(f'initializationOptions has no "{key}"; there are {", ".join(known)}')
            continue
        try:
            taken[known[key]] = getattr(msgspec.convert({key: value}, Options), known[key])
        except msgspec.ValidationError as error:
            complaints.append(f"initializationOptions: {error}")
    return msgspec.structs.replace(given, **taken), complaints
