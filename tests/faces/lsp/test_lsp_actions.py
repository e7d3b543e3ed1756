"""Fixes as code actions: what is offered where, in the form that the client can use."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from lsprotocol import types

from rrext.editor.text import Edit, Text, applied
from rrext.faces.lsp.features.actions import FIX_ALL

BROKEN = """{
  "components": [
    { "id": "w", "provider": "webhok", "config": {} },
    { "id": 'out', "provider": 'response_text', "config": {}, "input": [{ "lane": "txt", "from": "w" }] }
  ]
}
"""

LITERALS: dict[str, Any] = {
    "textDocument": {
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source.fixAll"]}}}
    },
    "workspace": {"workspaceEdit": {"documentChanges": True}},
}


def resolving() -> dict[str, Any]:
    """What a client says that works out the edits of an action when it is chosen."""
    action = {**LITERALS["textDocument"]["codeAction"], "dataSupport": True, "resolveSupport": {"properties": ["edit"]}}
    return {**LITERALS, "textDocument": {"codeAction": action}}


async def opened(text: str = BROKEN, capabilities: Any = LITERALS, options: Any = None) -> Editor:
    editor = Editor()
    await editor.start(options, capabilities)
    editor.open(text)
    await editor.diagnostics()
    return editor


def place_of(text: str, words: str) -> dict[str, Any]:
    """The range of some words of a text."""
    start = text.index(words)
    (line, character), (end_line, end) = Text(text).position(start), Text(text).position(start + len(words))
    return {"start": {"line": line, "character": character}, "end": {"line": end_line, "character": end}}


async def actions(editor: Editor, place: dict[str, Any], **context: Any) -> list[dict[str, Any]]:
    params = {"textDocument": {"uri": URI}, "range": place, "context": {"diagnostics": [], **context}}
    return await editor.request("textDocument/codeAction", params)


def after(text: str, action: dict[str, Any]) -> str:
    """The text after an action, which is a change of the one document."""
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"]["uri"] == URI
    return after_edits(text, change["edits"])


def after_edits(text: str, edits: list[dict[str, Any]]) -> str:
    lines = Text(text)

    def offset(position: dict[str, int]) -> int:
        return lines.offset(position["line"], position["character"])

    return applied(
        text, [Edit(offset(edit["range"]["start"]), offset(edit["range"]["end"]), edit["newText"]) for edit in edits]
    )


async def test_the_server_says_what_it_offers() -> None:
    provider = (await Editor().start(None, LITERALS))["codeActionProvider"]
    assert provider == {"codeActionKinds": ["quickfix", FIX_ALL, "rrext.run"], "resolveProvider": True}


async def test_the_fix_at_the_cursor_is_offered_with_its_diagnostic() -> None:
    editor = await opened()
    place = place_of(BROKEN, '"webhok"')
    cursor = {"start": place["start"], "end": place["start"]}
    (action,) = await actions(editor, cursor)
    assert (action["title"], action["kind"], action["isPreferred"]) == ('Replace "webhok" with "webhook"', "quickfix", True)
    (diagnostic,) = action["diagnostics"]
    assert (diagnostic["code"], diagnostic["source"], diagnostic["range"]) == ("unknown_provider", "rrext", place)
    assert action["edit"]["documentChanges"][0]["textDocument"]["version"] == 1
    assert after(BROKEN, action) == BROKEN.replace("webhok", "webhook")


async def test_nothing_is_offered_where_nothing_is_wrong() -> None:
    editor = await opened()
    assert await actions(editor, place_of(BROKEN, '"components"')) == []


async def test_the_client_gets_its_own_diagnostic_back() -> None:
    editor = await opened()
    told = (await editor.diagnostics())[0]
    told["data"] = {"own": 1}
    (action,) = await actions(editor, place_of(BROKEN, '"webhok"'), diagnostics=[told])
    assert action["diagnostics"] == [told]


async def test_a_diagnostic_elsewhere_in_the_line_is_fixed_if_the_client_names_it() -> None:
    editor = await opened()
    told = next(each for each in await editor.diagnostics() if each["code"] == "unknown_provider")
    start = {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 0}}
    assert await actions(editor, start) == []
    assert [action["title"] for action in await actions(editor, start, diagnostics=[told])] == [
        'Replace "webhok" with "webhook"'
    ]
    other = {**told, "code": "unknown_lane"}
    assert await actions(editor, start, diagnostics=[other]) == []
    assert await actions(editor, start, diagnostics=[{**told, "source": "another server"}]) == []


async def test_a_selection_offers_the_fixes_of_all_its_problems() -> None:
    editor = await opened()
    titles = [action["title"] for action in await actions(editor, place_of(BROKEN, BROKEN.splitlines()[3]))]
    assert titles.count("Use double quotes") == 2
    assert 'Replace "txt" with "text"' in titles


async def test_the_same_change_for_two_problems_is_one_action() -> None:
    text = '{"components": [], "a": 1, "a": 2, "a": 3}'
    editor = await opened(text)
    found = await actions(editor, place_of(text, text))
    (action,) = [each for each in found if each["title"] == 'Remove the first "a", which does not count']
    assert [diagnostic["code"] for diagnostic in action["diagnostics"]] == ["duplicate_key", "duplicate_key"]


async def test_a_large_selection_is_answered_with_some_fixes() -> None:
    text = "{" + ", ".join(f"'k{number}': 1" for number in range(300)) + "}"
    editor = await opened(text)
    assert len(await actions(editor, place_of(text, text))) == 20


@pytest.mark.parametrize(
    ("only", "kinds"),
    [
        (None, {"quickfix"}),
        (["quickfix"], {"quickfix"}),
        (["source.fixAll"], {FIX_ALL}),
        (["source"], {FIX_ALL}),
        ([FIX_ALL], {FIX_ALL}),
        (["quickfix", "source"], {"quickfix", FIX_ALL}),
        (["refactor"], set[str]()),
        (["quick"], set[str]()),
        ([""], {"quickfix", FIX_ALL}),
        ([], set[str]()),
    ],
)
async def test_only_the_kinds_that_are_asked_for_are_answered(only: list[str] | None, kinds: set[str]) -> None:
    editor = await opened()
    context = {} if only is None else {"only": only}
    found = await actions(editor, place_of(BROKEN, '"webhok"'), **context)
    assert {action["kind"] for action in found} == kinds


async def test_a_client_without_versions_of_documents_gets_plain_changes() -> None:
    capabilities = {**LITERALS, "workspace": {}}
    editor = await opened(capabilities=capabilities)
    (action,) = await actions(editor, place_of(BROKEN, '"webhok"'))
    assert "documentChanges" not in action["edit"]
    assert after_edits(BROKEN, action["edit"]["changes"][URI]) == BROKEN.replace("webhok", "webhook")


async def test_a_client_that_knows_commands_only_gets_nothing_that_it_would_misread() -> None:
    editor = await opened(capabilities={})
    assert await actions(editor, place_of(BROKEN, '"webhok"')) == []


async def test_everything_safe_is_one_action_on_demand() -> None:
    editor = await opened()
    (action,) = await actions(editor, place_of(BROKEN, "{"), only=["source.fixAll"])
    fixed = BROKEN.replace("webhok", "webhook").replace("'", '"').replace("txt", "text")
    assert after(BROKEN, action) == fixed


UNFIXED = ('{{"components": []}}', '{"components": [], {"a": 1}, {"a": 2}}')
"""Texts with a mistake of a kind that often has one obvious answer, and has none here."""


@pytest.mark.parametrize("text", UNFIXED)
@pytest.mark.parametrize("capabilities", [LITERALS, resolving()])
async def test_no_action_is_offered_that_would_change_nothing(text: str, capabilities: Any) -> None:
    editor = await opened(text, capabilities)
    for only in (["source.fixAll"], ["source"], [""]):
        found = await actions(editor, place_of(text, "{"), only=only)
        assert [action for action in found if action["kind"] == FIX_ALL] == []


async def test_what_is_costly_is_worked_out_when_it_is_chosen() -> None:
    editor = await opened(capabilities=resolving())
    found = await actions(editor, place_of(BROKEN, "'out'"))
    assert {action["title"] for action in found} == {
        "Use double quotes",
        "Fix all 2 of single_quotes",
        "Fix everything that has one obvious answer",
    }
    later = {action["title"]: action for action in found if "edit" not in action}
    assert len(later) == 2
    resolved = await editor.request("codeAction/resolve", later["Fix all 2 of single_quotes"])
    assert after(BROKEN, resolved) == BROKEN.replace("'", '"')
    resolved = await editor.request("codeAction/resolve", later["Fix everything that has one obvious answer"])
    assert after(BROKEN, resolved) == BROKEN.replace("webhok", "webhook").replace("'", '"').replace("txt", "text")


async def test_a_change_of_a_text_that_was_edited_is_not_worked_out() -> None:
    editor = await opened(capabilities=resolving())
    action = next(each for each in await actions(editor, place_of(BROKEN, "'out'")) if "edit" not in each)
    editor.change({"text": BROKEN + "\n"})
    error = await editor.failure("codeAction/resolve", action)
    assert error["code"] == types.LSPErrorCodes.ContentModified.value


@pytest.mark.parametrize("data", [3, {}, {"uri": 1}, {"uri": URI, "version": "x"}, {"uri": "file:///other", "version": 1}])
async def test_an_action_of_somebody_else_is_refused(data: Any) -> None:
    editor = await opened(capabilities=resolving())
    error = await editor.failure("codeAction/resolve", {"title": "x", "data": data})
    assert error["code"] == -32602


async def test_an_action_that_is_complete_stays_as_it_is() -> None:
    editor = await opened(capabilities=resolving())
    action = {"title": "x", "edit": {"changes": {}}}
    assert await editor.request("codeAction/resolve", action) == action


async def test_a_document_that_is_not_open_has_no_actions() -> None:
    editor = Editor()
    await editor.start(None, LITERALS)
    params = {"textDocument": {"uri": URI}, "range": place_of(BROKEN, "{"), "context": {"diagnostics": []}}
    assert (await editor.failure("textDocument/codeAction", params))["code"] == -32602


async def test_places_are_counted_as_the_client_counts() -> None:
    text = '{"name": "\U0001f600", "components": [], "versoin": 1}'
    editor = await opened(text)
    (action, _) = await actions(editor, place_of(text, '"versoin"'))
    assert after(text, action) == text.replace("versoin", "version")


async def test_what_other_features_offer_at_a_place_is_offered_too() -> None:
    text = '{"components": [{"id": "f", "provider": "tool_filesystem", "config": {}}]}'
    editor = await opened(text, options={"trusted": True})
    titles = {action["title"] for action in await actions(editor, place_of(text, '"tool_filesystem"'))}
    assert "Run tool read_file" in titles


async def test_applying_the_first_preferred_fix_again_and_again_repairs_a_document() -> None:
    editor = await opened()
    text = BROKEN
    for _ in range(10):
        told = await editor.diagnostics()
        if not told:
            return
        found = await actions(editor, told[0]["range"], diagnostics=told[:1], only=["quickfix"])
        text = after(text, next(action for action in found if action.get("isPreferred")))
        editor.change({"text": text})
    raise AssertionError(text)


async def test_what_a_file_names_cannot_colour_or_turn_around_a_title() -> None:
    odd = "a\u001b[31m\u202e\n" + "a" * 1000
    edge = {"lane": "questions", "from": odd}
    text = json.dumps({"components": [{"id": odd, "provider": "prompt", "config": {}, "input": [edge, edge]}]})
    editor = await opened(text)
    titles = [action["title"] for action in await actions(editor, place_of(text, text))]
    assert any(title.startswith("Remove the edge a\\u001b[31m\\u202e aaa") for title in titles), titles
    assert all(title.isprintable() and len(title) <= 200 for title in titles)


async def test_what_was_edited_meanwhile_is_not_told_to_have_nothing_to_offer() -> None:
    editor = await opened()
    params = {"textDocument": {"uri": URI}, "range": place_of(BROKEN, '"webhok"'), "context": {"diagnostics": []}}
    request = editor.post("textDocument/codeAction", params)
    await asyncio.sleep(0)  # it begins
    editor.change({"text": BROKEN.replace("webhok", "webhoo")})
    assert (await editor.answer(request))["error"]["code"] == types.LSPErrorCodes.ContentModified.value


async def test_a_literal_key_is_a_warning_whose_fix_writes_a_variable_and_shows_nothing_of_the_key() -> None:
    key = "sk-proj-Zq7Rk2Lm9Xw4Tb6Yh1Nc8Vd3Pf5Gj0"
    config = f'{{"apikey": "{key}", "header": "Bearer {key}"}}'
    text = f'{{"components": [{{"id": "in", "provider": "webhook", "config": {config}}}]}}'
    editor = await opened(text)
    told = [found for found in await editor.diagnostics() if found["code"] == "literal_secret"]
    assert [found["severity"] for found in told] == [2, 2]
    assert key[8:] not in json.dumps(told)
    offered = await actions(editor, place_of(text, f'"{key}"'))
    (action,) = [action for action in offered if "${" in action["title"]]
    assert action["title"] == "Replace the secret with ${ROCKETRIDE_WEBHOOK_APIKEY}"
    assert action.get("isPreferred") is None
    (edited,) = action["edit"]["documentChanges"]
    assert [change["newText"] for change in edited["edits"]] == ["${ROCKETRIDE_WEBHOOK_APIKEY}"]
    offered = await actions(editor, place_of(text, f'"Bearer {key}"'))
    (edited,) = next(action for action in offered if "_HEADER}" in action["title"])["edit"]["documentChanges"]
    (change,) = edited["edits"]
    assert change["range"]["end"]["character"] - change["range"]["start"]["character"] == len(key), "Bearer stays"
