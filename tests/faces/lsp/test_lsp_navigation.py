"""Ids over the protocol: from use to definition and back, and renamed everywhere at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from faces.lsp.places import asked, piece_of, place

from rrext.editor.text import Edit, Text, Unit, applied

TEXT = """{ /* 😀é */ "components": [
    { "id": "wé😀", "provider": "webhook", "config": {} },
    { "id": "files", "provider": "tool_filesystem", "config": {},
      /* 😀 */ "control": [{ "classType": "tool", "from": "wé😀" }] },
    { "id": "out", "provider": "response_text", "config": {}, "input": [{ "lane": "text", "from": "wé😀" }] }
  ],
  "source": "wé😀"
}
"""


async def opened(text: str = TEXT, *, trusted: bool = False, unit: Unit = "utf-16", **capabilities: Any) -> Editor:
    editor = Editor()
    await editor.start({"trusted": trusted}, capabilities, [unit])
    editor.open(text)
    return editor


def edited(text: str, edits: list[dict[str, Any]], unit: Unit) -> str:
    lines = Text(text, unit)
    made = [
        Edit(
            *(lines.offset(edit["range"][key]["line"], edit["range"][key]["character"]) for key in ("start", "end")),
            edit["newText"],
        )
        for edit in edits
    ]
    return applied(text, made)


@pytest.mark.parametrize("nth", [0, 1, 2, 3])
async def test_the_definition_of_an_id_is_where_the_component_has_it(nth: int) -> None:
    editor = await opened()
    found = await editor.request("textDocument/definition", asked(TEXT, '"wé😀"', nth))
    assert found == {"uri": URI, "range": {"start": place(TEXT, '"wé😀"'), "end": place(TEXT, '"wé😀"', inside=4)}}


async def test_a_client_that_takes_links_gets_the_whole_component_too() -> None:
    editor = await opened(textDocument={"definition": {"linkSupport": True}})
    (found,) = await editor.request("textDocument/definition", asked(TEXT, '"wé😀"', 2))
    assert piece_of(TEXT, found["targetRange"]) == '{ "id": "wé😀", "provider": "webhook", "config": {} }'
    assert piece_of(TEXT, found["targetSelectionRange"]) == "wé😀"
    assert found["originSelectionRange"]["start"] == place(TEXT, '"wé😀"', 2)


@pytest.mark.parametrize("piece", ['"text"', '"tool_filesystem"', '"components"', "{}", '"classType"'])
async def test_what_is_no_id_has_no_definition_no_references_and_no_highlights(piece: str) -> None:
    editor = await opened(trusted=True)
    for method, more in (
        ("definition", {}),
        ("references", {"context": {"includeDeclaration": True}}),
        ("documentHighlight", {}),
    ):
        assert await editor.request(f"textDocument/{method}", asked(TEXT, piece, **more)) is None
    assert await editor.request("textDocument/prepareRename", asked(TEXT, piece)) is None


@pytest.mark.parametrize("nth", [0, 2])
async def test_references_are_all_uses_with_or_without_the_declaration(nth: int) -> None:
    editor = await opened()
    for declared in (True, False):
        wanted = asked(TEXT, '"wé😀"', nth, context={"includeDeclaration": declared})
        found = await editor.request("textDocument/references", wanted)
        assert [reference["range"]["start"]["line"] for reference in found] == [1, 3, 4, 6][not declared :]
        assert {piece_of(TEXT, reference["range"]) for reference in found} == {"wé😀"}


async def test_a_component_that_nobody_uses_has_no_references_without_its_declaration() -> None:
    editor = await opened()
    assert await editor.request("textDocument/references", asked(TEXT, '"out"', context={"includeDeclaration": False})) == []


async def test_highlights_say_where_an_id_is_given_and_where_it_is_used() -> None:
    editor = await opened()
    found = await editor.request("textDocument/documentHighlight", asked(TEXT, '"wé😀"', 3))
    assert [highlight["kind"] for highlight in found] == [3, 2, 2, 2]


@pytest.mark.parametrize("unit", ["utf-8", "utf-16", "utf-32"])
async def test_renaming_works_in_every_unit(unit: Unit) -> None:
    editor = await opened(unit=unit)
    for nth in range(4):
        there = asked(TEXT, '"wé😀"', nth, unit=unit)
        prepared = await editor.request("textDocument/prepareRename", there)
        assert prepared["placeholder"] == "wé😀"
        assert piece_of(TEXT, prepared["range"], unit) == "wé😀"
        found = await editor.request("textDocument/rename", {**there, "newName": 'in "1"'})
        assert edited(TEXT, found["changes"][URI], unit) == TEXT.replace("wé😀", 'in \\"1\\"')


async def test_a_client_that_takes_versions_gets_the_version_that_was_renamed() -> None:
    editor = await opened(workspace={"workspaceEdit": {"documentChanges": True}})
    version = editor.change({"text": TEXT + "\n"})
    found = await editor.request("textDocument/rename", asked(TEXT, '"out"', newName="end"))
    (change,) = found["documentChanges"]
    assert change["textDocument"] == {"uri": URI, "version": version}
    assert [edit["newText"] for edit in change["edits"]] == ["end"]


@pytest.mark.parametrize(
    ("piece", "new", "why"),
    [
        ('"out"', "", "may not be empty"),
        ('"out"', "files", 'The id "files" is taken'),
        ('"out"', "${X}", "variable"),
        ('"text"', "x", "Only the ids of components can be renamed"),
    ],
)
async def test_a_rename_that_cannot_be_is_refused_with_a_reason(piece: str, new: str, why: str) -> None:
    editor = await opened()
    error = await editor.failure("textDocument/rename", asked(TEXT, piece, newName=new))
    assert error["code"] == -32803
    assert why in error["message"]


async def test_an_id_that_cannot_be_renamed_says_so_before_a_name_is_typed() -> None:
    text = TEXT.replace('"id": "out"', "\"id\": 'out'")
    editor = await opened(text)
    error = await editor.failure("textDocument/prepareRename", asked(text, "'out'"))
    assert error["code"] == -32803
    assert error["message"].startswith("The id in line 5, column ")


async def test_renaming_is_offered_with_its_preparation_to_those_who_know_that() -> None:
    assert (await Editor().start())["renameProvider"] is True
    offered = await Editor().start(capabilities={"textDocument": {"rename": {"prepareSupport": True}}})
    assert offered["renameProvider"] == {"prepareProvider": True}


CONNECTED = """{ "components": [
    { "id": "t", "provider": "tools", "config": { "tools": [
      { "type": "node", "node": "files", "tool": "read_file", "name": "look" },
      { "type": "mcp", "server": "githb", "tool": "x" } ] } },
    { "id": "files", "provider": "tool_filesystem", "config": {}, "control": [{ "classType": "tool", "from": "t" }] }
] }
"""


@pytest.mark.promise("editor:references:known")
async def test_a_reference_leads_to_its_component_and_knows_the_connections_of_the_options(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[github]\nprovider = "mcp"\ncommand = ["x"]\n')
    file.chmod(0o600)
    editor = Editor()
    await editor.start({"connections": str(file)})
    editor.open(CONNECTED)
    for piece in ('"files"', '"read_file"'):
        found = await editor.request("textDocument/definition", asked(CONNECTED, piece))
        assert found["range"]["start"] == place(CONNECTED, '"files"', 1)
    told = await editor.until(lambda message: message.get("method") == "textDocument/publishDiagnostics")
    assert 'There is no connection "githb" for mcp. Did you mean "github"?' in [
        each["message"] for each in told["params"]["diagnostics"]
    ]
    offers = await editor.request("textDocument/completion", asked(CONNECTED, '"githb"'))
    items = offers["items"] if isinstance(offers, dict) else offers
    assert [item["label"] for item in items] == ["github"]


async def test_a_file_of_connections_that_cannot_be_read_is_told_and_the_editor_works(tmp_path: Path) -> None:
    editor = Editor()
    await editor.start({"connections": str(tmp_path / "none.toml")})
    editor.open(CONNECTED)
    said = await editor.until(lambda message: message.get("method") == "window/showMessage")
    assert "The connections are not known" in said["params"]["message"]
    assert await editor.request("textDocument/definition", asked(CONNECTED, '"files"'))
