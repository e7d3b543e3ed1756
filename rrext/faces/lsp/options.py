"""The options in the client's `initializationOptions`."""

from __future__ import annotations

import os
from typing import Any, cast

import msgspec
from pygls.uris import to_fs_path

from rrext.errors import near_matches

ONLY_THERE = (
    "rrext takes {names} from initializationOptions only: with other settings an editor may mix those of a folder that "
    "somebody sent."
)


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """The options of a client. `trusted`: pipelines may run, and code of `nodes` is loaded. The others are as on the command
    line.

    `nodes`: files and modules with nodes of the user. `env`: names that `${NAME}` may read besides `ROCKETRIDE_*`. `root`: the
    folder that paths of nodes may not leave. `connections`: the file of connections for runs.
    """

    trusted: bool = False
    nodes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    root: str | None = None
    connections: str | None = None


def options_from(params: Any, given: Options) -> tuple[Options, list[str]]:
    """The options of an `initialize` over those of the command line, and complaints about invalid ones.

    An invalid value is never consent: `trusted` counts only if it is `true`. Paths are relative to the first workspace folder,
    because an editor's working directory is arbitrary; `~` is the home folder.
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
            if near_matches(key, tuple(known)):  # other keys belong to other servers: some editors send all keys to all servers
                complaints.append(f'initializationOptions has no "{key}"; there are {", ".join(known)}')
            continue
        try:
            taken[known[key]] = getattr(msgspec.convert({key: value}, Options), known[key])
        except msgspec.ValidationError as error:
            complaints.append(f"initializationOptions: {error}")
    folder = _folder(params)
    for name in ("root", "connections"):
        if taken.get(name) is not None:
            taken[name] = _path(taken[name], folder)
    if "nodes" in taken:
        taken["nodes"] = tuple(_path(name, folder) if _is_file(name) else name for name in taken["nodes"])
    return msgspec.structs.replace(given, **taken), complaints


def withdrawn(params: Any, options: Options) -> tuple[Options, list[str]]:
    """The options after `workspace/didChangeConfiguration`, and complaints.

    `trusted` may become false. No other change applies, because editors also merge settings from files of the workspace.
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
    """Whether a value of `nodes` names a file, by the same rule as `--nodes`."""
    return name.endswith(".py") or os.sep in name


def _path(path: str, folder: str | None) -> str:
    return os.path.join(folder or "", os.path.expanduser(path))
