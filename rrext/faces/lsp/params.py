"""The parameters of messages that are read without pygls' objects, which cost more than the work itself: `initialize`, and the
changes and positions of documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, cast

import msgspec
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


T = TypeVar("T")

_SYNC: Final = re.compile(rb'"method"\s*:\s*"textDocument/did(?:Open|Change)"')
_URI: Final = re.compile(rb'"uri"\s*:\s*("(?:[^"\\]|\\.)*")')


class Item(msgspec.Struct, frozen=True):
    """A document, with its text."""

    uri: str
    text: str
    version: int | None = None


class Identifier(msgspec.Struct, frozen=True):
    """A document."""

    uri: str
    version: int | None = None


class SyncPosition(msgspec.Struct, frozen=True):
    """A position. One outside of the text means its nearest end."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True):
    """Two positions."""

    start: SyncPosition
    end: SyncPosition


class TextChange(msgspec.Struct, frozen=True):
    """`text` in place of a range, or of the whole text."""

    text: str
    range: Range | None = None


class Opened(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didOpen`"""

    text_document: Item


class Changed(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didChange`: changes apply in order."""

    text_document: Identifier
    content_changes: list[TextChange]


class Closed(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didClose`, and the common part of all messages about a document."""

    text_document: Identifier


def uri_in(params: Any) -> str | None:
    """The document of an otherwise unreadable notification, or None."""
    try:
        return read(params, Closed).text_document.uri
    except JsonRpcInvalidParams:
        return None


def document_in(start: bytes) -> str | None:
    """The document of an edit from the first bytes of its message, or None.

    A wrong guess is harmless here, unlike for an id: it only makes the user open the document once more.
    """
    named = _URI.search(start) if _SYNC.search(start) else None
    try:
        return None if named is None else msgspec.json.decode(named[1], type=str)
    except ValueError:
        return None


def read(params: Any, wanted: type[T]) -> T:
    """The parameters of a notification. Raises `JsonRpcInvalidParams` with the misfits."""
    try:
        return msgspec.convert(params, wanted, strict=False)  # some clients send floats as positions
    except msgspec.ValidationError as error:
        raise JsonRpcInvalidParams(str(error)) from None
