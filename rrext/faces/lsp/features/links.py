"""Links from paths in settings to their files, and the files of a workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.uris import to_fs_path

from rrext.editor.workspace_files import WorkspaceFiles, links_of
from rrext.faces.lsp.positions import as_range
from rrext.faces.lsp.runs.deployments import folder_of

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


def register(server: PipeServer) -> None:
    """Let a server answer links."""

    async def links(params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        uri = params.text_document.uri
        _, text, analysis = await server.look(uri)
        files = workspace_files(server, uri)
        if files is None:
            return []
        found = await asyncio.to_thread(lambda: list(links_of(analysis, files)))
        return [types.DocumentLink(as_range(text, span), Path(path).as_uri()) for span, path in found]

    server.answer(types.TEXT_DOCUMENT_DOCUMENT_LINK, links, types.DocumentLinkOptions(resolve_provider=False))


def workspace_files(server: PipeServer, uri: str) -> WorkspaceFiles | None:
    """The files that a document may name: below the root of the options, or else in the folders of the workspace, or in its
    own folder if there are none. None for a document without a file."""
    folder = folder_of(uri)
    if folder is None:
        return None
    root = server.options.root
    if root is not None:
        return WorkspaceFiles(root, [root])
    return WorkspaceFiles(folder, workspace_folders(server) or [folder])


def workspace_folders(server: PipeServer) -> list[str]:
    """The folders of the client's workspace that are in the file system."""
    workspace = server.workspace
    uris = list(workspace.folders) or ([workspace.root_uri] if workspace.root_uri else [])
    paths = (to_fs_path(uri) for uri in uris if uri.startswith("file:"))
    return [path for path in paths if path]
