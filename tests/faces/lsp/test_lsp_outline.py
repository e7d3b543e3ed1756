"""Symbols over the protocol, in what each client can take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faces.lsp.editors import URI, Editor
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


async def opened(**capabilities: Any) -> Editor:
    editor = Editor()
    await editor.start(capabilities={"textDocument": capabilities})
    editor.open(TEXT)
    return editor


def nested(**more: Any) -> dict[str, Any]:
    return {"hierarchicalDocumentSymbolSupport": True, **more}


def flat(symbols: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for symbol in symbols:
        yield symbol
        yield from flat(symbol.get("children", []))


async def test_the_outline_is_nested_for_those_who_can_show_that() -> None:
    editor = await opened(documentSymbol=nested(symbolKind={"valueSet": list(range(1, 27))}))
    found = await editor.request("textDocument/documentSymbol", DOCUMENT)
    assert [symbol["name"] for symbol in found] == ["chat", "llm", "answers"]
    assert [symbol["kind"] for symbol in found] == [24, 12, 23]
    assert [child["name"] for child in found[1]["children"]] == ["config", "questions ← chat"]
    assert piece_of(TEXT, found[1]["selectionRange"]) == '"llm"'
    assert piece_of(TEXT, found[1]["range"]).startswith('{\n      "id": "llm"')


async def test_kinds_that_a_client_does_not_know_are_not_sent() -> None:
    editor = await opened(documentSymbol=nested())
    found = await editor.request("textDocument/documentSymbol", DOCUMENT)
    assert all(1 <= symbol["kind"] <= 18 for symbol in flat(found))


async def test_the_outline_is_a_list_for_all_others() -> None:
    editor = await opened()
    found = await editor.request("textDocument/documentSymbol", DOCUMENT)
    assert [(symbol["name"], symbol.get("containerName")) for symbol in found] == [
        ("chat", None),
        ("config", "chat"),
        ("llm", None),
        ("config", "llm"),
        ("default", "config"),
        ("questions ← chat", "llm"),
        ("answers", None),
        ("config", "answers"),
        ("answers ← llm", "answers"),
    ]
    assert {symbol["location"]["uri"] for symbol in found} == {URI}


async def test_a_broken_text_has_an_outline_too() -> None:
    editor = await opened(documentSymbol=nested())
    for text in ("", "{", TEXT[:-60], TEXT.replace('"', "'"), "[" * 300, "\ud800{" + TEXT):
        editor.change({"text": text})
        assert isinstance(await editor.request("textDocument/documentSymbol", DOCUMENT), list)
