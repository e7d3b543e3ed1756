"""What an editor is told of a document's problems."""

from __future__ import annotations

from bridges.editors import Editor


async def test_a_problem_is_told_with_range_code_and_link() -> None:
    editor = Editor()
    await editor.start()
    editor.open('{"components": [{"id": "in", "provider": "webhok", "config": {}}]}')
    (found, *_) = await editor.diagnostics()
    assert found["code"] == "unknown_provider"
    assert found["range"] == {"start": {"line": 0, "character": 41}, "end": {"line": 0, "character": 49}}
    assert "protocol.md#L" in found["codeDescription"]["href"]
