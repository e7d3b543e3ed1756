"""Diagnostics of pipeline files in the workspace that are not open.

The files are found once, when the client has introduced itself. After that a file is checked again when the client reports its
change, when its document is closed, and all of them when the settings change. An open document has diagnostics of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse, unread
from rrext.editor.text import Text
from rrext.faces.lsp.diagnostics import as_diagnostics
from rrext.faces.lsp.features.positions import workspace_folders
from rrext.faces.lsp.params import read
from rrext.faces.lsp.runs.engine import path_of
from rrext.limits import KIB
from rrext.pipefile.text.problems import Problem

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

WORKSPACE_DELAY: Final = 0.2
"""Seconds after the introduction until files of the workspace are looked for."""
MAX_WORKSPACE_FILES: Final = 500
"""Pipeline files of a workspace that are checked without being open."""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Entries of folders that are looked at to find them; a home folder has millions."""
MAX_WORKSPACE_FILE: Final = 1024 * KIB
"""Bytes of such a file; a larger one is checked when it is opened."""

log: Final = logging.getLogger("rrext.lsp")

DELETED: Final = types.FileChangeType.Deleted.value
SUFFIX: Final = ".pipe"
_LEFT_OUT: Final = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist", "target"})
"""Names of folders whose files are not the author's; so are hidden ones."""


class WatchedChange(msgspec.Struct, frozen=True):
    """A change of a file outside of the editor."""

    uri: str
    type: int


class WatchedChanges(msgspec.Struct, frozen=True):
    """`workspace/didChangeWatchedFiles`"""

    changes: list[WatchedChange] = []


def register_workspace(server: PipeServer) -> None:
    """Let a server check the files of the workspace."""
    files = WorkspaceDiagnostics(server)
    server.on_initialized.append(files.begin)
    server.on_files_changed.append(files.changed)
    server.on_settings_changed.append(files.check_all)
    server.on_document_opened.append(files.opened)
    server.on_document_closed.append(files.closed)
    server.when_closing(files.aclose)


class WorkspaceDiagnostics:
    """The closed pipeline files of one client's workspace, checked one after the other on a thread."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        self._folders: list[str] = []
        self._sent: dict[str, list[Any]] = {}
        """Path of a file → the diagnostics of it that the client has."""
        self._waiting: dict[str, None] = {}
        self._search: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_over = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rrext-workspace")

    def begin(self) -> None:
        """Find the files of the workspace, and ask the client to report their changes."""
        self._folders = workspace_folders(self._server)
        if self._folders:
            self._watch()
            self._search = asyncio.get_running_loop().create_task(self._find(), name="workspace files")

    def changed(self, params: Any) -> None:
        """Check reported files again; forget deleted ones, and those below deleted folders."""
        for change in read(params, WatchedChanges).changes:
            path = path_of(change.uri)
            if path is None:
                continue
            if change.type == DELETED:
                for gone in [known for known in self._sent if known == path or known.startswith(path + os.sep)]:
                    self._forget(gone)
            elif path.endswith(SUFFIX) and self._is_ours(path):
                self._check([path])

    def check_all(self) -> None:
        """Check all known files again."""
        self._check(list(self._sent))

    def opened(self, uri: str) -> None:
        """Leave a file to its document."""
        path = path_of(uri)
        if path is not None:
            self._waiting.pop(path, None)
            if Path(path).as_uri() == uri:
                self._sent.pop(path, None)
            else:
                self._forget(path)

    def closed(self, uri: str) -> None:
        """Check the file of a closed document."""
        path = path_of(uri)
        if path is not None and path.endswith(SUFFIX) and self._is_ours(path):
            self._check([path])

    async def aclose(self) -> None:
        """End the thread after its present file."""
        self._is_over = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        for task in filter(None, (self._search, self._work)):
            task.cancel()

    # the work

    def _watch(self) -> None:
        asked = get_capability(self._server.client_capabilities, "workspace.did_change_watched_files", None)
        if asked is None or not asked.dynamic_registration:
            return
        options = {"watchers": [{"globPattern": f"**/*{SUFFIX}"}]}
        wanted = types.Registration("pipelines", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        self._server.protocol.send_request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([wanted]))

    def _is_ours(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(os.path.commonpath([os.path.realpath(folder), real]) == os.path.realpath(folder) for folder in self._folders)

    async def _find(self) -> None:
        await asyncio.sleep(WORKSPACE_DELAY)  # the first open document comes first
        loop = asyncio.get_running_loop()
        self._check(await loop.run_in_executor(self._thread, pipelines_in, self._folders, lambda: self._is_over))

    def _check(self, paths: Iterable[str]) -> None:
        self._waiting.update(dict.fromkeys(paths))
        if self._waiting and self._work is None and not self._is_over:
            self._work = asyncio.get_running_loop().create_task(self._check_waiting(), name="workspace")

    async def _check_waiting(self) -> None:
        """Check file by file. A slow client gets the next one when it has read the last."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                path = next(iter(self._waiting))
                del self._waiting[path]
                if self._is_open(path):
                    continue
                try:
                    found = await loop.run_in_executor(self._thread, self._diagnostics, path)
                except Exception:
                    log.exception("a bug of rrext: %s could not be checked", path)
                    continue
                if not self._is_open(path) and path not in self._waiting:
                    self._send(path, found)
                    await self._server.documents.taken()
        finally:
            self._work = None

    def _diagnostics(self, path: str) -> list[Any] | None:
        """On the thread: the diagnostics of a file; None for a file that is not checked."""
        server = self._server
        found = checked_file(path, server.surroundings())
        if found is None:
            return None
        text, analysis = found
        content, uri = Text(text, server.documents.unit), Path(path).as_uri()
        return as_diagnostics(analysis.problems, analysis.map, content, uri, server.manual, server.publisher.support)

    def _is_open(self, path: str) -> bool:
        return any(path_of(document.uri) == path for document in self._server.documents)

    def _forget(self, path: str) -> None:
        self._waiting.pop(path, None)
        self._send(path, None)

    def _send(self, path: str, found: list[Any] | None) -> None:
        """Send the diagnostics of a file, unless the client has them; None: the file is gone."""
        known = self._sent.pop(path, [])
        if found is not None:
            self._sent[path] = found
        if known != (found or []):
            params = {"uri": Path(path).as_uri(), "diagnostics": found or []}
            self._server.protocol.send_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)


# files


def pipelines_in(folders: Iterable[str], stop: Callable[[], bool]) -> list[str]:
    """The paths of pipeline files, those of outer folders first. Symbolic links to folders are not followed."""
    found: list[str] = []
    waiting = deque(dict.fromkeys(map(os.path.abspath, folders)))
    entries = 0
    while waiting and len(found) < MAX_WORKSPACE_FILES and entries < MAX_SCANNED_ENTRIES and not stop():
        try:
            with os.scandir(waiting.popleft()) as listed:
                for entry in listed:
                    entries += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _LEFT_OUT:
                            waiting.append(entry.path)
                    elif entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                        found.append(entry.path)
                    if entries >= MAX_SCANNED_ENTRIES:
                        break
        except OSError:
            continue
    return sorted(found[:MAX_WORKSPACE_FILES])


def checked_file(path: str, settings: AnalysisSettings) -> tuple[str, Analysis] | None:
    """The text of a file and its analysis; None for a file that cannot be read, or that is too large to be read unasked."""
    try:
        if not os.path.isfile(path):  # a named pipe would keep the thread for ever
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_WORKSPACE_FILE + 1)
    except OSError:
        return None
    if len(data) > MAX_WORKSPACE_FILE:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "", unread(Problem("not_utf8", "error", "This file is not UTF-8."), settings)
    return text, analyse(text, settings)
