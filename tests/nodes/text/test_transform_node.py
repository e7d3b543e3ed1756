"""`transform`: the effect of its steps on texts, and refused steps."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidPipeline, RrextError, ToolError, Unavailable
from rrext.nodes.base.lanes import new_question
from rrext.nodes.text.regular_expression import RegularExpression, Replacement
from rrext.nodes.text.transform import TransformNode
from rrext.testing import run_node

pytest.importorskip("re2", reason="the extra `text` is not installed")


def texts(*pieces: str, **settings: Any) -> list[str]:
    return run_node(TransformNode, "text", *pieces, config=settings)["text"]


def changed(text: str, *steps: dict[str, Any]) -> str:
    (found,) = texts(text, steps=steps)
    return found


def test_without_steps_each_piece_passes_as_it_is() -> None:
    assert texts("one ", "two") == ["one ", "two"]


def test_a_hit_may_begin_in_one_piece_and_end_in_another() -> None:
    assert texts("the sec", "ret word", steps=[{"op": "replace", "pattern": "secret", "text": "open"}]) == ["the open word"]


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ({"op": "replace", "pattern": r"(\w+)@(\w+)", "text": r"\2 at \1\n"}, "me@home", "home at me\n"),
        ({"op": "replace", "pattern": "a.c", "text": r"\1", "regex": False}, "a.c abc", r"\1 abc"),
        ({"op": "replace", "pattern": "ß", "text": "ss", "ignore_case": True}, "Straße", "Strasse"),
        ({"op": "replace", "pattern": "^", "text": "> "}, "one\ntwo", "> one\n> two"),
        ({"op": "replace", "pattern": "x*", "text": "-"}, "äb", "-ä-b-"),
        ({"op": "keep_lines", "pattern": "^err"}, "error 1\nok\nerror 2", "error 1\nerror 2"),
        ({"op": "drop_lines", "pattern": "ok"}, "error 1\r\nok\r\nerror 2\r\n", "error 1\r\nerror 2\r\n"),
        ({"op": "lower"}, "ÄB", "äb"),
        ({"op": "upper"}, "äb", "ÄB"),
        ({"op": "title"}, "one two", "One Two"),
        ({"op": "strip"}, "\n one \n", "one"),
        ({"op": "spaces"}, " one \t two\n\n\n\nthree", "one two\n\nthree"),
        ({"op": "nfc"}, "a\u0308", "ä"),
        ({"op": "nfkc"}, "\ufb01", "fi"),
        ({"op": "cut", "characters": 2}, "äöü", "äö"),
        ({"op": "wrap", "text": "<{text}|{text}>"}, "a", "<a|a>"),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else "",
)
def test_a_step_does_what_its_name_says(step: dict[str, Any], text: str, expected: str) -> None:
    assert changed(text, step) == expected


def test_steps_follow_each_other() -> None:
    steps = {"op": "lower"}, {"op": "replace", "pattern": "b", "text": "c"}, {"op": "wrap", "text": "[{text}]"}
    assert changed("ABB", *steps) == "[acc]"


def test_documents_questions_answers_and_tables_keep_all_but_their_text() -> None:
    config = {"steps": [{"op": "upper"}]}
    documents = run_node(TransformNode, "documents", [{"page_content": "a", "metadata": {"n": 1}}], config=config)["documents"]
    assert documents == [[{"page_content": "A", "metadata": {"n": 1}}]]
    (question,) = run_node(TransformNode, "questions", new_question("why", context=["c"]), config=config)["questions"]
    assert ([each["text"] for each in question["questions"]], question["context"]) == (["WHY"], ["c"])
    assert run_node(TransformNode, "table", "|a|", config=config)["table"] == ["|A|"]
    for answer, expected in (("yes", "YES"), ({"a": "b"}, {"a": "b"})):
        (found,) = run_node(TransformNode, "answers", {"answer": answer, "expectJson": False}, config=config)["answers"]
        assert found["answer"] == expected


@given(
    st.text(alphabet="abä\n", max_size=30), st.sampled_from(["a+", "ä", "b|ä", "(a)(b)", "[ab]{2}"]), st.text("xyÄ", max_size=3)
)
def test_replacing_is_what_python_does_where_both_know_the_pattern(text: str, pattern: str, by: str) -> None:
    compiled = RegularExpression(pattern)
    found = compiled.replaced(text.encode(), Replacement(by, compiled.groups), 10_000, lambda: None).decode()
    assert found == re.sub(pattern, by, text)


@pytest.mark.parametrize(
    "step",
    [
        {"op": "replace", "pattern": "(", "text": ""},
        {"op": "replace", "pattern": "a", "text": r"\1"},
        {"op": "replace", "pattern": "a", "text": "\\"},
        {"op": "replace", "pattern": r"(?:\pL{1000}){20}", "text": ""},
        {"op": "keep_lines", "pattern": r"a(?=b)"},
        {"op": "drop_lines", "pattern": "x" * 3000},
    ],
)
def test_what_is_no_pattern_is_told_with_its_step(step: dict[str, Any]) -> None:
    with pytest.raises(RrextError, match="Step 1") as caught:
        changed("a", {"op": "lower"}, step)
    assert isinstance(caught.value, Unavailable)
    (problem,) = TransformNode.missing(settings_with(step), lambda path: path)
    assert problem[0] == "steps"


def settings_with(step: dict[str, Any]) -> Any:
    import msgspec

    from rrext.nodes.text.transform import TransformStep

    config = TransformNode.Config()
    config.steps = (msgspec.convert(step, TransformStep),)
    return config


@pytest.mark.parametrize(
    "step",
    [
        {"op": "replace"},
        {"op": "cut"},
        {"op": "wrap", "text": "no place"},
        {"op": "reverse"},
        {"op": "lower", "patern": "x"},
        {},
    ],
)
def test_a_step_that_lacks_something_is_refused_when_the_pipeline_is_loaded(step: dict[str, Any]) -> None:
    with pytest.raises(InvalidPipeline):
        changed("a", step)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("a" * 101, {"op": "lower"}),
        ("a" * 60, {"op": "wrap", "text": "{text}{text}"}),
        ("a" * 60, {"op": "replace", "pattern": "a", "text": "x" * 50, "regex": False}),
        ("\ufdfa" * 60, {"op": "nfkc"}),
        ("a" * 100, {"op": "replace", "pattern": "a?", "text": "yyyyyyyyyy"}),
    ],
)
def test_a_text_may_not_grow_without_end(text: str, step: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        texts(text, steps=[step], maxCharacters=100)
    assert caught.value.code == "text_too_large"
    assert "(maxCharacters)" in caught.value.message


def test_a_pattern_that_is_costly_for_a_large_text_is_refused() -> None:
    steps = [{"op": "replace", "pattern": "(?:a|b){900}c", "text": ""}]
    with pytest.raises(ToolError) as caught:
        texts("ab" * 3_000_000, steps=steps)
    assert caught.value.code == "pattern_too_expensive"
