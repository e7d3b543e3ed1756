"""Symbols over the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faces.lsp.editors import Editor
from faces.lsp.places import DOCUMENT, piece_of

TEXT = """// A talk,
// in chain order.
{
  "components": [
    { "id": "answers", "provider": "response_answers", "config": {}, "input": [{ "lane": "answers", "from": "llm" }] },
    { "id": "chat", "provider": "chat", "config": {} },
    {
      "id": "llm", "provider": "llm_scripted",
      "config": { "default": "😀" },
      "input": [{ "lane": "questions", "from": "chat" }]
    }
  ]
}
"""


async def opened() -> Editor:
    editor = Editor()
    await editor.start()
    editor.open(TEXT)
    return editor


def flat(symbols: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for symbol in symbols:
        yield symbol
        yield from flat(symbol.get("children", []))


async def test_the_outline_is_nested_in_kinds_that_every_client_knows() -> None:
    editor = await opened()
    found = await editor.request("textDocument/documentSymbol", DOCUMENT)
    assert [symbol["name"] for symbol in found] == ["chat", "llm", "answers"]
    assert [symbol["kind"] for symbol in found] == [9, 12, 5]
    assert [child["name"] for child in found[1]["children"]] == ["config", "questions ← chat"]
    assert piece_of(TEXT, found[1]["selectionRange"]) == '"llm"'
    assert piece_of(TEXT, found[1]["range"]).startswith('{\n      "id": "llm"')
    assert all(1 <= symbol["kind"] <= 18 for symbol in flat(found))


async def test_a_broken_text_has_an_outline_too() -> None:
    editor = await opened()
    for text in ("", "{", TEXT[:-60], TEXT.replace('"', "'"), "[" * 300, "\ud800{" + TEXT):
        editor.change({"text": text})
        assert isinstance(await editor.request("textDocument/documentSymbol", DOCUMENT), list)
