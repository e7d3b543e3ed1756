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
GOOD = """\
{"components": [
  {"id": "in", "provider": "webhook", "config": {}},
  {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "in"}]}]}
"""
CALL = """\
// rrext tool read_file {"path": "notes.txt"}
{"components": [
  {"id": "in", "provider": "webhook", "config": {}},
  {"id": "files", "provider": "tool_filesystem", "config": {"root": "."}, "control": [{"classType": "tool", "from": "in"}]}]}
"""
EDITORS = ["neovim@v0.7.0", "neovim@v0.11.0", "emacs@v29.1", "visual_studio_code@v1.65.2"]
"""What these editors say of themselves, as pytest-lsp has recorded it."""


@pytest.fixture(scope="module", params=EDITORS)
async def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LanguageClient]:
    """One server for each editor; each test opens a document of its own."""
    command = [sys.executable, "-m", "rrext", "lsp"]
    client = await ClientServerConfig(command, server_env={"PYTHONPATH": str(ROOT)}).start()
    assert isinstance(client, LanguageClient)

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def registered(asked: types.RegistrationParams) -> None:
        """pytest-lsp has the capabilities of editors that watch files for a server, and does not take the request."""
        assert [registration.method for registration in asked.registrations] == [types.WORKSPACE_DID_CHANGE_WATCHED_FILES]

    params = types.InitializeParams(
        capabilities=client_capabilities(request.param),
        workspace_folders=[types.WorkspaceFolder(tmp_path_factory.mktemp("project").as_uri(), "project")],
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


def place(text: str, needle: str) -> types.Position:
    """The place after the first character of a piece of text that is ASCII."""
    before = text[: text.index(needle) + 1]
    return types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


async def test_problems_are_told(editor: LanguageClient, tmp_path: Path) -> None:
    uri = await opened(editor, BROKEN, tmp_path)
    first = editor.diagnostics[uri][0]
    assert first.code == "unknown_provider"
    assert BROKEN[first.range.start.character : first.range.end.character] == '"webhok"'


async def test_a_node_is_explained_in_a_form_that_the_editor_shows(editor: LanguageClient, tmp_path: Path) -> None:
    document = types.TextDocumentIdentifier(await opened(editor, GOOD, tmp_path))
    hover = await editor.text_document_hover_async(types.HoverParams(document, place(GOOD, '"webhook"')))
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert "webhook" in hover.contents.value


async def test_a_node_is_found_where_it_is_named(editor: LanguageClient, tmp_path: Path) -> None:
    document = types.TextDocumentIdentifier(await opened(editor, GOOD, tmp_path))
    where = place(GOOD, '"in"}]')
    found = await editor.text_document_definition_async(types.DefinitionParams(document, where))
    first = found[0] if isinstance(found, list | tuple) else found
    selected = first.target_selection_range if isinstance(first, types.LocationLink) else getattr(first, "range", None)
    assert selected == types.Range(types.Position(1, 10), types.Position(1, 12))
    context = types.ReferenceContext(include_declaration=True)
    references = await editor.text_document_references_async(
        types.ReferenceParams(text_document=document, position=where, context=context)
    )
    assert [reference.range.start.line for reference in references or ()] == [1, 2]


async def test_renaming_changes_the_node_and_all_who_name_it(editor: LanguageClient, tmp_path: Path) -> None:
    document = types.TextDocumentIdentifier(await opened(editor, GOOD, tmp_path))
    edit = await editor.text_document_rename_async(types.RenameParams(document, place(GOOD, '"in"'), "entry"))
    assert edit is not None
    changes = (edit.changes or {}).get(document.uri) or [
        change for part in edit.document_changes or () if isinstance(part, types.TextDocumentEdit) for change in part.edits
    ]
    assert [getattr(change, "new_text", None) for change in changes] == ["entry", "entry"]


async def test_the_outline_names_the_nodes(editor: LanguageClient, tmp_path: Path) -> None:
    document = types.TextDocumentIdentifier(await opened(editor, GOOD, tmp_path))
    symbols = await editor.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    assert {"in", "out"} <= {symbol.name for symbol in symbols or ()}


async def test_what_is_completed_has_the_form_that_the_editor_takes(editor: LanguageClient, tmp_path: Path) -> None:
    text = GOOD.replace('"config": {}}', '"config": {}, }')
    document = types.TextDocumentIdentifier(await opened(editor, text, tmp_path))
    before = text[: text.index(", }") + 2]
    where = types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)
    found = await editor.text_document_completion_async(types.CompletionParams(document, where))
    assert isinstance(found, types.CompletionList)
    item = next(item for item in found.items if item.label == "control")
    resolved = await editor.completion_item_resolve_async(item)
    assert resolved.documentation is not None


async def test_the_lens_of_a_call_runs_it_and_shows_the_result(editor: LanguageClient, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    document = types.TextDocumentIdentifier(await opened(editor, CALL, tmp_path))
    lenses = await editor.text_document_code_lens_async(types.CodeLensParams(document)) or ()
    command = next(lens.command for lens in lenses if lens.command is not None and "Run read_file" in lens.command.title)
    answer = await editor.workspace_execute_command_async(types.ExecuteCommandParams(command.command, command.arguments))
    assert answer is not None
    assert "hello" in str(answer)
    capabilities = editor.capabilities
    assert capabilities is not None
    window = capabilities.window
    if window is not None and window.show_document is not None and window.show_document.support:
        assert answer["uri"] in [shown.uri for shown in editor.shown_documents]
    else:
        assert any("hello" in message.message for message in editor.messages)


async def test_a_fix_comes_in_the_form_that_the_editor_takes(editor: LanguageClient, tmp_path: Path) -> None:
    uri = await opened(editor, BROKEN, tmp_path)
    first = editor.diagnostics[uri][0]
    context = types.CodeActionContext([first], [types.CodeActionKind.QuickFix])
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), first.range, context)
    action = next(iter(await editor.text_document_code_action_async(params) or ()))
    assert isinstance(action, types.CodeAction)
    if action.edit is None:
        action = await editor.code_action_resolve_async(action)
    edit = action.edit
    assert edit is not None
    edits = list((edit.changes or {}).get(uri, ()))
    for change in edit.document_changes or ():
        assert isinstance(change, types.TextDocumentEdit)
        edits += [part for part in change.edits if isinstance(part, types.TextEdit)]
    assert [part.new_text for part in edits] == ['"webhook"']
