"""pytest-lsp, whose client we did not write, plays editors that people use and checks that every answer suits them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

ROOT = Path(__file__).resolve().parents[2]
BROKEN = '{"components": [{"id": "in", "provider": "webhok", "config": {}}]}'
EDITORS = ["neovim@v0.7.0", "neovim@v0.11.0", "emacs@v29.1", "visual_studio_code@v1.65.2"]
"""What these editors say of themselves, as pytest-lsp has recorded it."""


@pytest.fixture(params=EDITORS)
async def editor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LanguageClient]:
    command = [sys.executable, "-m", "rrext", "lsp"]
    client = await ClientServerConfig(command, server_env={"PYTHONPATH": str(ROOT)}).start()
    assert isinstance(client, LanguageClient)
    params = types.InitializeParams(
        capabilities=client_capabilities(request.param),
        workspace_folders=[types.WorkspaceFolder(tmp_path.as_uri(), "project")],
        initialization_options={"trusted": True},
    )
    await client.initialize_session(params)
    yield client
    await client.shutdown_session()
    await client.stop()
    assert client.error is None


async def opened(client: LanguageClient, text: str, folder: Path) -> str:
    """Open a document and wait for its diagnostics; its URI."""
    path = folder / "test.pipe"
    path.write_text(text, encoding="utf-8")
    item = types.TextDocumentItem(path.as_uri(), "pipe", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    await asyncio.wait_for(client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS), 30)
    return item.uri


async def test_problems_are_told(editor: LanguageClient, tmp_path: Path) -> None:
    uri = await opened(editor, BROKEN, tmp_path)
    first = editor.diagnostics[uri][0]
    assert first.code == "unknown_provider"
    assert BROKEN[first.range.start.character : first.range.end.character] == '"webhok"'
