"""Completion as an editor sees it."""

from __future__ import annotations

from typing import Any

import pytest
from faces.lsp.editors import URI, Editor

pytestmark = pytest.mark.anyio

ABLE: dict[str, Any] = {
    "textDocument": {
        "completion": {
            "completionItem": {
                "snippetSupport": True,
                "documentationFormat": ["markdown", "plaintext"],
                "insertTextModeSupport": {"valueSet": [1, 2]},
            }
        }
    }
}
PIPELINE = """{
  // 😀 before it
  "components": [
    {"id": "in", "provider": "webhook", "config": {}},
    {"id": "😀", "provider": "response", "config": {}, "input": [{"lane": "¦", "from": "in"}]}
  ]
}"""


async def ask(editor: Editor, text: str, trigger: str | None = None) -> dict[str, Any]:
    """The list at the `¦` of a document that is opened for it."""
    before, _, after = text.partition("¦")
    editor.open(before + after)
    lines = before.split("\n")
    units = len(lines[-1].encode("utf-16-le")) // 2
    params: dict[str, Any] = {
        "textDocument": {"uri": URI},
        "position": {"line": len(lines) - 1, "character": units},
        "context": {"triggerKind": 1} if trigger is None else {"triggerKind": 2, "triggerCharacter": trigger},
    }
    return await editor.request("textDocument/completion", params)


def applied(text: str, item: dict[str, Any]) -> str:
    """A document after an item was accepted by an editor that knows no snippets."""
    content = text.replace("¦", "")
    edits = [item["textEdit"], *item.get("additionalTextEdits", [])]
    for edit in sorted(edits, key=lambda edit: place_of(edit["range"]["start"]), reverse=True):
        start, end = (offset_of(content, edit["range"][side]) for side in ("start", "end"))
        content = content[:start] + edit["newText"] + content[end:]
    return content


def place_of(position: dict[str, int]) -> tuple[int, int]:
    return position["line"], position["character"]


def offset_of(content: str, position: dict[str, int]) -> int:
    lines = content.split("\n")
    line = lines[position["line"]].encode("utf-16-le")
    return sum(len(line) + 1 for line in lines[: position["line"]]) + len(line[: 2 * position["character"]].decode("utf-16-le"))


def labels(listing: dict[str, Any]) -> list[str]:
    return [item["label"] for item in listing["items"]]


async def test_the_capabilities_name_the_signs_and_that_details_come_later() -> None:
    editor = Editor()
    capabilities = await editor.start()
    assert capabilities["completionProvider"] == {"triggerCharacters": ['"', ":", "{", "/"], "resolveProvider": True}


async def test_lanes_that_fit_are_offered_with_both_sides_said() -> None:
    editor = Editor()
    await editor.start(capabilities=ABLE)
    listing = await ask(editor, PIPELINE)
    assert listing["isIncomplete"] is False
    first = listing["items"][0]
    assert (first["label"], first["detail"]) == ("text", "in sends it; 😀 accepts it")
    assert '"lane": "text", "from"' in applied(PIPELINE, first)


async def test_ranges_count_in_the_units_of_the_client() -> None:
    editor = Editor()
    await editor.start()
    item = (await ask(editor, PIPELINE))["items"][0]
    line = PIPELINE.replace("¦", "").split("\n")[4]
    inside = {"line": 4, "character": len(line[: line.index('"lane": ') + 9].encode("utf-16-le")) // 2}
    assert item["textEdit"]["range"] == {"start": inside, "end": inside}


async def test_what_is_typed_is_compared_with_what_begins_as_the_range_does() -> None:
    editor = Editor()
    await editor.start()
    for text in ('{"components": [{"provider": "we¦"}]}', '{"components": [{"provider": we¦}]}'):
        listing = await ask(editor, text)
        assert all(item["filterText"] == item["label"] for item in listing["items"])


async def test_quotes_that_stand_there_stay_for_editors_that_replace_words() -> None:
    editor = Editor()
    await editor.start()
    for typed, new in (('"we¦"', "webhook"), ('"we¦', 'webhook"'), ("we¦", '"webhook"'), ('"we"¦', 'webhook"')):
        text = f'{{"components": [{{"provider": {typed}}}]}}'
        item = next(item for item in (await ask(editor, text))["items"] if item["label"] == "webhook")
        assert item["textEdit"]["newText"] == new
        assert '"provider": "webhook"' in applied(text, item)


async def test_items_keep_the_order_in_which_they_were_ranked() -> None:
    editor = Editor()
    await editor.start()
    listing = await ask(editor, '{"components": [{"provider": ¦}]}')
    texts = [item["sortText"] for item in listing["items"]]
    assert texts == sorted(texts)
    assert len(set(texts)) == len(texts)
    assert "webhook" in labels(listing)[:5]


# snippets


async def test_a_client_with_snippets_gets_stops_and_lines_that_it_indents_itself() -> None:
    editor = Editor()
    await editor.start(capabilities=ABLE)
    listing = await ask(editor, '{\n    "components": [\n        ¦\n    ]\n}')
    item = next(item for item in listing["items"] if item["label"] == "webhook")
    assert item["insertTextFormat"] == 2
    assert item["insertTextMode"] == 2
    assert item["textEdit"]["newText"].startswith('{\n    "id": "${1:webhook_1}",\n    "provider": "webhook"')


async def test_a_client_without_snippets_gets_plain_text_that_is_whole() -> None:
    editor = Editor()
    await editor.start()
    text = '{\n    "components": [\n        ¦\n    ]\n}'
    listing = await ask(editor, text)
    item = next(item for item in listing["items"] if item["label"] == "webhook")
    assert "insertTextFormat" not in item
    assert applied(text, item) == (
        '{\n    "components": [\n        {\n            "id": "webhook_1",\n            "provider": "webhook",\n'
        '            "config": {}\n        }\n    ]\n}'
    )


async def test_a_comma_that_was_forgotten_further_up_is_an_edit_of_its_own() -> None:
    editor = Editor()
    await editor.start()
    text = '{"components": []\n  ¦\n}'
    listing = await ask(editor, text)
    item = next(item for item in listing["items"] if item["label"] == "version")
    assert item["additionalTextEdits"][0]["newText"] == ","
    assert applied(text, item) == '{"components": [],\n  "version": 1\n}'


# what editors ask by themselves


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ('{"components": [{"provider": "webhook"¦}]}', '"'),
        ('{"components": [{¦}]}', "{"),
        ('{"name": "a:¦"}', ":"),
        ('{"components": [] // see:¦\n}', ":"),
        ('// "¦\n{}', '"'),
    ],
)
async def test_an_editor_that_asks_by_itself_shows_nothing_where_it_would_be_in_the_way(text: str, trigger: str) -> None:
    editor = Editor()
    await editor.start()
    assert (await ask(editor, text, trigger))["items"] == []


@pytest.mark.parametrize(
    ("text", "trigger"),
    [('{"components": [{"provider": "¦"}]}', '"'), ('{"components": [{"provider":¦}]}', ":"), ('{"source": "¦}', '"')],
)
async def test_an_editor_that_asks_by_itself_gets_what_belongs_there(text: str, trigger: str) -> None:
    editor = Editor()
    await editor.start()
    text = text.replace('"source"', '"components": [{"id": "w", "provider": "webhook", "config": {}}], "source"')
    assert (await ask(editor, text, trigger))["items"]


# documentation


async def resolved(editor: Editor, listing: dict[str, Any], label: str) -> dict[str, Any]:
    item = next(item for item in listing["items"] if item["label"] == label)
    assert "documentation" not in item
    return await editor.request("completionItem/resolve", item)


async def test_documentation_comes_when_an_item_is_looked_at() -> None:
    editor = Editor()
    await editor.start(capabilities=ABLE)
    listing = await ask(editor, '{"components": [{"provider": "¦"}]}')
    found = await resolved(editor, listing, "tool_python")
    assert found["documentation"]["kind"] == "markdown"
    assert "Runs Python programs in a sandbox" in found["documentation"]["value"]
    assert found["textEdit"] == next(item for item in listing["items"] if item["label"] == "tool_python")["textEdit"]


async def test_a_client_that_shows_no_markdown_gets_plain_text() -> None:
    editor = Editor()
    await editor.start()
    listing = await ask(editor, '{"components": [{"id": "p", "provider": "tool_python", "config": {¦}}]}')
    found = await resolved(editor, listing, "timeout")
    assert found["documentation"].startswith("timeout: number.")


@pytest.mark.parametrize("data", [None, 3, [], ["provider"], ["no", "such", "thing"], ["setting", "webhook"], [[]], {"a": 1}])
async def test_an_item_that_is_none_of_ours_comes_back_as_it_is(data: Any) -> None:
    editor = Editor()
    await editor.start()
    item = {"label": "x", "data": data}
    found = await editor.request("completionItem/resolve", item)
    assert {key: value for key, value in found.items() if value is not None} == {
        key: value for key, value in item.items() if value is not None
    }


# many


async def test_of_hundreds_only_those_that_fit_are_listed_and_more_may_be_asked_for() -> None:
    editor = Editor()
    await editor.start()
    nodes = ", ".join(f'{{"id": "w{n}", "provider": "webhook", "config": {{}}}}' for n in range(400))
    text = f'{{"components": [{nodes}, {{"id": "r", "provider": "response", "config": {{}}, "input": [{{"from": "¦"}}]}}]}}'
    listing = await ask(editor, text)
    assert listing["isIncomplete"] is True
    assert len(listing["items"]) == 200
    listing = await ask(editor, text.replace("¦", "w37¦"))
    assert "w37" in labels(listing)
    assert all("3" in label and "7" in label for label in labels(listing))


async def test_a_document_that_is_not_open_is_an_error() -> None:
    editor = Editor()
    await editor.start()
    params = {"textDocument": {"uri": "file:///nowhere.pipe"}, "position": {"line": 0, "character": 0}}
    assert (await editor.failure("textDocument/completion", params))["code"] == -32602


@pytest.mark.parametrize(
    "params", [None, {}, {"textDocument": {"uri": URI}}, {"textDocument": {"uri": URI}, "position": {"line": "x"}}]
)
async def test_parameters_that_cannot_be_read_are_an_error(params: Any) -> None:
    editor = Editor()
    await editor.start()
    editor.open("{}")
    assert (await editor.failure("textDocument/completion", params))["code"] == -32602


async def test_a_place_that_the_document_does_not_have_is_its_nearest_end() -> None:
    editor = Editor()
    await editor.start()
    editor.open('{"components": [')
    params = {"textDocument": {"uri": URI}, "position": {"line": 7, "character": 7}}
    assert "webhook" in labels(await editor.request("textDocument/completion", params))
