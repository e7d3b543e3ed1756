"""`prompt` and `question`: what they send on, and when."""

from __future__ import annotations

from typing import Any

import pytest

from rrext.errors import ToolError
from rrext.nodes.base.lanes import empty_question, new_question
from rrext.nodes.base.node import Entry
from rrext.nodes.basic.prompt import PromptNode, QuestionNode

from fake_pipe import made, sending  # isort: skip


def prompted(node: PromptNode, *writes: tuple[str, Any]) -> list[dict[str, Any]]:
    """The questions that leave the node in one object of these payloads."""
    payloads = sending(node)
    node.open(Entry("a"))
    for lane, value in writes:
        getattr(node, f"write_{lane}")(value)
    assert not payloads, "nothing leaves before the object ends"
    node.closing()
    assert {lane for lane, _ in payloads} <= {"questions"}
    return [value for _, value in payloads]


def test_a_question_leaves_with_the_context_that_came_before_and_after_it() -> None:
    (question,) = prompted(
        made(PromptNode),
        ("text", "before"),
        ("questions", {**new_question("why?"), "context": ["own"]}),
        ("table", "|t|"),
        ("documents", [{"page_content": "d"}]),
    )
    assert question["context"] == ["own", "before", "|t|"]
    assert question["documents"] == [{"page_content": "d"}]
    assert [asked["text"] for asked in question["questions"]] == ["why?"]
    assert question.keys() == empty_question().keys()


@pytest.mark.parametrize(
    ("texts", "titles"),
    [((), []), (("be brief",), ["User Instruction"]), (("a", "b"), ["User Instruction 1", "User Instruction 2"])],
)
def test_instructions_are_named_and_numbered(texts: tuple[str, ...], titles: list[str]) -> None:
    (question,) = prompted(made(PromptNode, instructions=texts), ("questions", new_question("?")))
    assert question["instructions"] == [
        {"subtitle": title, "instructions": text} for title, text in zip(titles, texts, strict=True)
    ]


def test_several_questions_become_one_that_asks_them_all() -> None:
    first = new_question("one", role="poet")
    second = new_question("two", role="cook", expectJson=True)
    (question,) = prompted(made(PromptNode), ("questions", first), ("questions", second))
    assert [asked["text"] for asked in question["questions"]] == ["one", "two"]
    assert question["role"] == "poet"
    assert question["expectJson"] is True


def test_context_alone_gives_a_question_and_nothing_gives_none() -> None:
    (question,) = prompted(made(PromptNode, instructions=("summarise",)), ("text", "long"))
    assert question["questions"] == []
    assert question["context"] == ["long"]
    assert prompted(made(PromptNode, instructions=("summarise",))) == []


def test_the_given_question_stays_as_it_is() -> None:
    given = new_question("?")
    prompted(made(PromptNode, instructions=("x",)), ("questions", given), ("text", "t"))
    assert given == new_question("?")


def test_one_object_never_sees_the_context_of_another() -> None:
    node = made(PromptNode)
    prompted(node, ("text", "secret"))
    (question,) = prompted(node, ("questions", new_question("?")))
    assert question["context"] == []


def test_context_is_bounded_and_the_setting_is_named() -> None:
    node = made(PromptNode, maxContext=10)
    node.open(Entry("a"))
    node.write_text("x" * 10)
    with pytest.raises(ToolError, match="more than 10 characters") as caught:
        node.write_documents([{"page_content": "y"}])
    assert caught.value.code == "context_too_large"
    assert "maxContext" in str(caught.value.hint)


def test_each_text_becomes_a_question_and_a_blank_one_none() -> None:
    node = made(QuestionNode, expectJson=True)
    payloads = sending(node)
    for text in ("one?", " \n", "two?"):
        node.write_text(text)
    assert payloads == [("questions", new_question(text, expectJson=True)) for text in ("one?", "two?")]
