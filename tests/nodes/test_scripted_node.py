"""`llm_scripted`: which line of the script speaks, and what it says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.lanes import new_question
from rrext.nodes.llm.scripted import ScriptedNode, fits

from fake_pipe import made, sending  # isort: skip

SCRIPT = (
    {"match": "weather", "answer": "Sunny."},
    {"match": "give me *", "answer": {"given": True}},
    {"match": "say*", "answer": "You said: {question}"},
    {"match": "list", "answer": "```json\n[1, 2]\n```"},
)


def answered(question: dict[str, Any], **settings: Any) -> Any:
    node = made(ScriptedNode, **{"script": SCRIPT, **settings})
    payloads = sending(node)
    node.write_questions(question)
    ((lane, answer),) = payloads
    assert lane == "answers"
    return answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What is the WEATHER like?", "Sunny."),
        ("Say hello", "You said: Say hello"),
        ("say what the weather is", "Sunny."),
        ("Give me all", '{"given":true}'),
    ],
)
def test_the_first_line_that_fits_speaks(text: str, answer: str) -> None:
    assert answered(new_question(text)) == {"answer": answer, "expectJson": False}


def test_a_json_answer_travels_as_it_stands_when_json_is_asked_for() -> None:
    assert answered(new_question("give me it", expectJson=True)) == {"answer": {"given": True}, "expectJson": True}


def test_a_question_for_which_no_line_fits_gets_the_default_or_fails() -> None:
    assert answered(new_question("?"), default="No idea.")["answer"] == "No idea."
    with pytest.raises(ToolError) as caught:
        answered(new_question("?"))
    assert caught.value.code == "no_answer"


def test_all_texts_of_a_question_count_and_its_context_does_not() -> None:
    question = new_question("hello", context=["weather"])
    question["questions"].append({"text": "any weather?"})
    assert answered(question)["answer"] == "Sunny."
    with pytest.raises(ToolError):
        answered(new_question("hello", context=["weather"]))


def test_ask_answers_like_the_lane_with_the_json_read() -> None:
    node = made(ScriptedNode, script=SCRIPT)
    assert node.ask("weather?") == {"answer": "Sunny.", "expectJson": False}
    assert node.ask("list", expectJson=True) == {"answer": [1, 2], "expectJson": True}
    assert node.ask({"questions": [{"text": "list"}], "expectJson": True}) == {"answer": [1, 2], "expectJson": True}
    with pytest.raises(ToolError, match="asks for JSON"):
        node.ask("weather?", expectJson=True)


@pytest.mark.parametrize("question", ["", " ", {}, {"questions": []}, {"questions": ["x"]}, {"questions": [{}]}])
def test_asking_nothing_is_refused(question: Any) -> None:
    with pytest.raises(InvalidArguments, match="^/input/question: asks nothing"):
        made(ScriptedNode, default="x").ask(question)


letters = st.text(alphabet="ab*", max_size=8)


@given(pattern=letters, text=st.text(alphabet="ab", max_size=10))
def test_patterns_mean_what_the_same_pattern_means_as_an_expression(pattern: str, text: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    found = re.fullmatch(expression, text) if "*" in pattern else re.search(expression, text)
    assert fits(pattern, text) == bool(found)
