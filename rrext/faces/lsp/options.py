"""What the client says in `initializationOptions`."""

from __future__ import annotations

import os
from typing import Any, cast

import msgspec
from pygls.uris import to_fs_path

from rrext.errors import near_matches

__all__ = ["Options", "options_from", "withdrawn"]

ONLY_THERE = (
    "rrext takes {names} from initializationOptions only: with other settings an editor may mix those of a folder that "
    "somebody sent."
)


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

    Nothing that cannot be read is taken for consent: `trusted` counts only if it is `true`. Paths begin at the workspace's
    first folder, as nobody knows where an editor was started; `~` is the home folder.
    """
    sent = _member(params, "initializationOptions")
    if sent is None:
        return given, []
    if not isinstance(sent, dict):
        return given, ["initializationOptions must be an object"]
    known = {field.encode_name: field.name for field in msgspec.structs.fields(Options)}
    taken: dict[str, Any] = {}
    complaints: list[str] = []
    for key, value in cast("dict[str, Any]", sent).items():
        if key not in known:
            if near_matches(key, tuple(known)):  # the others are another server's: editors send some to all of them
                complaints.append(f'initializationOptions has no "{key}"; there are {", ".join(known)}')
            continue
        try:
            taken[known[key]] = getattr(msgspec.convert({key: value}, Options), known[key])
        except msgspec.ValidationError as error:
            complaints.append(f"initializationOptions: {error}")
    folder = _folder(params)
    if taken.get("root") is not None:
        taken["root"] = _path(taken["root"], folder)
    if "nodes" in taken:
        taken["nodes"] = tuple(_path(name, folder) if _is_file(name) else name for name in taken["nodes"])
    return msgspec.structs.replace(given, **taken), complaints


def withdrawn(params: Any, options: Options) -> tuple[Options, list[str]]:
    """The options after `workspace/didChangeConfiguration`, and what is to be told.

    `trusted` may become false. Nothing else is taken: many editors build settings from files of the workspace too.
    """
    sent = _member(_member(params, "settings"), "rrext")
    if not isinstance(sent, dict):
        return options, []
    wanted = cast("dict[str, Any]", sent)
    left = msgspec.structs.replace(options, trusted=options.trusted and wanted.get("trusted") is not False)
    known = msgspec.json.decode(msgspec.json.encode(left))
    strange = [name for name, value in wanted.items() if name in known and value != known[name]]
    return left, [ONLY_THERE.format(names=", ".join(strange))] if strange else []


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _folder(params: Any) -> str | None:
    """The workspace's first folder, or None."""
    folders = _member(params, "workspaceFolders")
    first = _member(cast("list[Any]", folders)[0], "uri") if isinstance(folders, list) and folders else None
    uri = first or _member(params, "rootUri")
    try:
        return (to_fs_path(uri) or None) if isinstance(uri, str) else None
    except ValueError:
        return None


def _is_file(name: str) -> bool:
    """Whether a name of nodes is a file's, by the same signs as for `--nodes`."""
    return name.endswith(".py") or os.sep in name


def _path(path: str, folder: str | None) -> str:
    return os.path.join(folder or "", os.path.expanduser(path))
