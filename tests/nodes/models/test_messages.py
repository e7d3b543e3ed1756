"""How a question of the lane becomes the messages of a chat."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.base.lanes import empty_question, new_question
from rrext.nodes.llm.chat import JSON_ONLY, messages_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("role", "instructions", "history", "examples", "context", "goals", "documents", "questions")

FULL: dict[str, Any] = {
    "role": "You are a clerk.",
    "instructions": [{"subtitle": "Tone", "instructions": "Be brief."}, {"subtitle": "", "instructions": "No jokes."}],
    "goals": ["Help.", "Do not harm."],
    "examples": [{"given": "1+1", "result": {"sum": 2}}],
    "history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
    "context": ["It rains."],
    "documents": [
        {"page_content": "Rain is wet.", "metadata": {"parent": "/a.txt", "objectId": "o"}},
        {"page_content": " "},
        {"page_content": "Sun is dry.", "metadata": {}},
    ],
}

SYSTEM = """You are a clerk.

Tone:
Be brief.

No jokes.

Goals:
- Help.
- Do not harm.

Example.
Given: 1+1
Answer: {"sum":2}"""

USER = """Context:
It rains.

Document 1 (/a.txt):
Rain is wet.

Document 2:
Sun is dry.

Is it wet?"""


def test_every_part_of_a_question_has_its_place() -> None:
    assert messages_of(new_question("Is it wet?", **FULL)) == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": USER},
    ]


def test_a_plain_question_is_one_message() -> None:
    assert messages_of(new_question("Who?")) == [{"role": "user", "content": "Who?"}]


def test_json_is_asked_for_in_words_too() -> None:
    alone, after = (
        messages_of(question, expect_json=True) for question in (new_question("Who?"), new_question("Who?", role="A clerk."))
    )
    assert alone[0] == {"role": "system", "content": JSON_ONLY}
    assert after[0] == {"role": "system", "content": f"A clerk.\n\n{JSON_ONLY}"}


def test_a_question_that_says_nothing_has_no_messages() -> None:
    assert messages_of(empty_question(), expect_json=True) == []
    assert messages_of({}) == []


def test_context_and_instructions_alone_are_asked_too() -> None:
    question = {**empty_question(), "instructions": [{"subtitle": "x", "instructions": "Sum up."}], "context": ["Long text."]}
    assert [message["role"] for message in messages_of(question)] == ["system", "user"]


def test_a_role_that_chats_do_not_know_is_the_users() -> None:
    said = [{"role": "Human", "content": "a"}, {"role": "SYSTEM", "content": "b"}, {"content": "c"}, {"role": "user"}, "d"]
    messages = messages_of(new_question("?", history=said))
    assert messages[:-1] == [{"role": role, "content": text} for role, text in (("user", "a"), ("system", "b"), ("user", "c"))]


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)), st.booleans())
def test_whatever_a_question_holds_its_messages_are_texts_of_known_roles(question: dict[str, Any], expect_json: bool) -> None:
    for message in messages_of(question, expect_json=expect_json):
        assert set(message) == {"role", "content"}
        assert message["role"] in ("system", "user", "assistant")
        assert message["content"].strip() == message["content"] != ""


@given(st.lists(st.text(min_size=1).map(str.strip).filter(bool), max_size=4))
def test_no_context_is_lost(context: list[str]) -> None:
    (message,) = messages_of(new_question("?", context=context))
    assert all(text in message["content"] for text in context)
