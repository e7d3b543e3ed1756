"""Hover over the protocol: in the form that the client shows, with the range that it is about."""

from __future__ import annotations

from typing import Any

import pytest
from faces.lsp.editors import Editor
from faces.lsp.places import DOCUMENT, asked, piece_of

TEXT = """{
  "components": [
    { "id": "w", "provider": "webhook", "config": {}, "name": "<b>[x](y)</b>" },
    { "id": "files", "provider": "tool_filesystem", "config": { "root": "${HOME}" },
      "control": [{ "classType": "tool", "from": "w" }] }
  ]
}
"""


def showing(*kinds: str) -> dict[str, Any]:
    return {"textDocument": {"hover": {"contentFormat": list(kinds)}}}


@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [
        (showing("markdown", "plaintext"), "markdown"),
        (showing("plaintext", "markdown"), "plaintext"),
        (showing(), "plaintext"),
        ({}, "plaintext"),
    ],
)
async def test_a_hover_has_the_form_that_the_client_likes_best(capabilities: dict[str, Any], kind: str) -> None:
    editor = Editor()
    await editor.start(capabilities=capabilities)
    editor.open(TEXT)
    found = await editor.request("textDocument/hover", asked(TEXT, '"files"'))
    assert found["contents"]["kind"] == kind
    assert found["contents"]["value"].startswith("### `files`" if kind == "markdown" else "files · File system")
    assert piece_of(TEXT, found["range"]) == '"files"'


async def test_what_a_file_says_is_no_markup() -> None:
    editor = Editor()
    await editor.start(capabilities=showing("markdown"))
    editor.open(TEXT)
    found = await editor.request("textDocument/hover", asked(TEXT, '"w"'))
    assert r"\<b\>\[x\](y)\</b\>" in found["contents"]["value"]


async def test_a_variable_is_told_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_HIDDEN", "Zm9vYmFy")
    text = TEXT.replace("HOME", "ROCKETRIDE_HIDDEN")
    editor = Editor()
    await editor.start()
    editor.open(text)
    found = await editor.request("textDocument/hover", asked(text, "${", inside=5))
    assert "has a value" in found["contents"]["value"]
    await editor.request("textDocument/hover", asked(text, '"files"'))
    await editor.request("textDocument/hover", asked(text, '"root"'))
    assert "Zm9vYmFy" not in str(editor.messages)


async def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    editor = Editor()
    await editor.start()
    editor.open(TEXT)
    assert await editor.request("textDocument/hover", asked(TEXT, "  ]")) is None
    assert await editor.request("textDocument/hover", {**DOCUMENT, "position": {"line": 999, "character": 999}}) is None
