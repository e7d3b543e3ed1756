"""Formatting through the language server: the options of the editor, the lines of a selection."""

from __future__ import annotations

from typing import Any

import pytest
from faces.lsp.editors import URI, Editor

from rrext.editor.text import Edit, Text, applied

TEXT = '// é😀 head\n{"components":[\n{"id":"a",\n"provider":"webhook","config":{}}, // 😀\n{"id":"b"}]}'


async def formatted(text: str, request: str = "formatting", **params: Any) -> str:
    editor = Editor()
    await editor.start()
    editor.open(text)
    options = {"tabSize": 4, "insertSpaces": True, **params.pop("options", {})}
    changes = await editor.request(f"textDocument/{request}", {"textDocument": {"uri": URI}, "options": options, **params})
    places = Text(text)
    return applied(
        text,
        [
            Edit(places.offset(**change["range"]["start"]), places.offset(**change["range"]["end"]), change["newText"])
            for change in changes
        ],
    )


async def test_a_document_is_formatted_with_the_options_of_the_editor() -> None:
    shown = await formatted(TEXT)
    assert shown.splitlines() == [
        "// é😀 head",
        "{",
        '    "components": [',
        "        {",
        '            "id": "a",',
        '            "provider": "webhook",',
        '            "config": {}',
        "        }, // 😀",
        '        {"id": "b"}',
        "    ]",
        "}",
    ]
    assert await formatted(shown) == shown
    assert await formatted(shown, options={"insertSpaces": False}) == shown.replace("    ", "\t")


async def test_a_selection_is_formatted_in_whole_lines() -> None:
    selection = {"start": {"line": 2, "character": 3}, "end": {"line": 4, "character": 0}}
    shown = await formatted(TEXT, "rangeFormatting", range=selection)
    assert shown.splitlines()[:2] == ["// é😀 head", '{"components":[']
    assert shown.splitlines()[3:5] == ['            "id": "a",', '            "provider": "webhook",']
    assert shown.endswith('// 😀\n{"id":"b"}]}')


@pytest.mark.parametrize("text", ["", '{"a": ', "hello", '{"a": 1} {}'])
async def test_a_text_with_a_mistake_is_not_formatted(text: str) -> None:
    assert await formatted(text) == text


async def test_the_capabilities_name_formatting() -> None:
    can = await Editor().start()
    assert can["documentFormattingProvider"]
    assert can["documentRangeFormattingProvider"]
