"""Offers in comments that call something."""

from __future__ import annotations

import pytest
from editor.completing import AROUND, COMPLETER, Typing, at


def call(comment: str) -> Typing:
    return at(
        f'{{\n  {comment}\n  "components": [{{"id": "a", "provider": "files", "config": {{}}}},'
        f' {{"id": "p", "provider": "tool_python", "config": {{}}}}]\n}}'
    )


def line(typing: Typing, label: str) -> str:
    return typing.accept(label).split("\n")[1].strip()


@pytest.mark.parametrize("comment", ["// rr¦", "// rrext ¦", "// rrext to¦", "/* rrext¦ */", "//rrext ¦"])
def test_a_comment_that_begins_like_a_call_is_offered_the_calls_there_are(comment: str) -> None:
    typing = call(comment)
    assert typing.labels == ["rrext tool", "rrext send", "rrext chat"]
    assert "rrext tool" in line(typing, "rrext tool")


@pytest.mark.parametrize(
    "comment", ["// ¦", "// r¦", "// see rrext ¦", "// hello ¦", "/¦/ rrext", "/* ¦ */", "// rrext tool nope {¦"]
)
def test_any_other_comment_is_left_alone(comment: str) -> None:
    assert call(comment).labels == []


def test_the_tools_of_the_pipeline_are_offered_with_an_input_to_fill_in() -> None:
    typing = call("// rrext tool ¦")
    assert typing.labels == ["read", "write", "execute"]
    assert typing.detail("execute") == "p (tool_python)"
    assert line(typing, "read") == '// rrext tool read { "path": "" }'
    assert line(call("// rrext tool re¦ad"), "write") == '// rrext tool write { "path": "", "text": "" }'


def test_an_input_that_stands_there_stays() -> None:
    assert line(call('// rrext tool re¦ {"path": "x"}'), "write") == '// rrext tool write {"path": "x"}'
    assert line(call("/* rrext tool ¦ */"), "read") == '/* rrext tool read { "path": "" } */'


def test_a_component_can_be_named_and_then_its_tools_are_offered() -> None:
    typing = call("// rrext tool --node ¦")
    assert typing.labels == ["a", "p"]
    assert typing.detail("a") == "files · read, write"
    assert call("// rrext tool --node p ¦").labels == ["execute"]


def test_inside_of_an_input_its_keys_are_offered() -> None:
    typing = call("// rrext tool write {¦}")
    assert typing.labels == ["path", "text"]
    assert line(typing, "text") == '// rrext tool write {"text": ""}'
    typing = call('// rrext tool --node a write {"path": "x", ¦')
    assert typing.labels == ["text"]
    assert line(typing, "text") == '// rrext tool --node a write {"path": "x", "text": ""'


def test_tools_and_arguments_have_documentation() -> None:
    for typing, label, words in (
        (call("// rrext tool ¦"), "read", ("read(path)", "Read a file.")),
        (call("// rrext tool write {¦}"), "path", ("path: text", "required")),
    ):
        page = COMPLETER.explain(typing.item(label).offer.about, AROUND.catalog)
        assert page is not None
        assert all(word in page.plain() for word in words)
