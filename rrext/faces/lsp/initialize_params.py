"""The parameters of `initialize`, read as far as they are valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.uris import to_fs_path

_LEAST: Final[dict[str, Any]] = {"capabilities": {}, "processId": None, "rootUri": None}


def read_initialize(params: Any, structure: Callable[[Any, Any], Any]) -> tuple[types.InitializeParams, list[str]]:
    """The parameters of an `initialize`, and the paths of the parts that were dropped as invalid.

    Editors are newer or older than the known protocol, and some have bugs: an unknown kind of symbol must not prevent
    diagnostics. Raises `JsonRpcInvalidParams` if the parameters are not an object.
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
    """The valid parameters; capabilities are checked one by one."""
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
    """The smallest independent parts of the parameters, each with its path."""
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
    """Whether pygls can parse a URI."""
    try:
        to_fs_path(text or "")
    except ValueError:
        return False
    return True
