"""What a client says of itself, also if some of it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.uris import to_fs_path

__all__ = ["read_initialize"]

_LEAST: Final[dict[str, Any]] = {"capabilities": {}, "processId": None, "rootUri": None}


def read_initialize(params: Any, structure: Callable[[Any, Any], Any]) -> tuple[types.InitializeParams, list[str]]:
    """The parameters of an `initialize`, and the places of what was left out because it could not be read.

    Editors are newer or older than the protocol that is known here, and some have mistakes: a kind of symbol that nobody
    knows must not keep a person from his diagnostics. Raises `JsonRpcInvalidParams` if the parameters are no object.
    """
    if not isinstance(params, dict):
        raise JsonRpcInvalidParams("The parameters of initialize are an object")
    params = cast("dict[str, Any]", params)
    wanted = {**_LEAST, **params}
    try:
        found, dropped = structure(wanted, types.InitializeParams), list[str]()
    except Exception:
        wanted, dropped = _readable(params, structure)
        found = structure(wanted, types.InitializeParams)
    if not _is_uri(found.root_uri):
        found.root_uri = None
        dropped.append("rootUri")
    folders = found.workspace_folders or []
    found.workspace_folders = [folder for folder in folders if _is_uri(folder.uri)]
    if len(folders) > len(found.workspace_folders):
        dropped.append("workspaceFolders")
    return found, dropped


def _readable(params: dict[str, Any], structure: Callable[[Any, Any], Any]) -> tuple[dict[str, Any], list[str]]:
    """What can be read of the parameters; capabilities are looked at one by one."""
    capabilities: dict[str, Any] = {}
    found = {**_LEAST, "capabilities": capabilities}
    dropped: list[str] = []
    for path, part in _parts(params):
        if not _fits({**_LEAST, **part}, structure):
            dropped.append(path)
        elif "capabilities" not in part:
            found.update(part)
        else:
            for group, members in part["capabilities"].items():
                capabilities.setdefault(group, {}).update(members)
    return found, dropped


def _parts(params: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parameters in the smallest pieces that make sense alone, each with its place."""
    for name, value in params.items():
        if name != "capabilities":
            yield name, {name: value}
    capabilities = params.get("capabilities")
    for group, members in _members(capabilities):
        for name, value in _members(members):
            yield f"capabilities.{group}.{name}", {"capabilities": {group: {name: value}}}


def _members(value: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", value).items()) if isinstance(value, dict) else []


def _fits(wanted: dict[str, Any], structure: Callable[[Any, Any], Any]) -> bool:
    try:
        structure(wanted, types.InitializeParams)
    except Exception:
        return False
    return True


def _is_uri(text: str | None) -> bool:
    """Whether pygls can take it apart."""
    try:
        to_fs_path(text or "")
    except ValueError:
        return False
    return True
