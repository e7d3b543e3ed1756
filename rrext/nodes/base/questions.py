"""Questions and answers in the form for nodes: JSON objects with every key present, as `rrext.nodes.base.lanes` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.lanes import empty_question, new_question

COLLECTED = ("instructions", "history", "examples", "context", "goals", "documents", "questions")
"""The keys of a question that are lists."""


def merge_questions(first: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """Merge questions into one that asks all of them.

    Lists are joined, `expectJson` holds if any of them asks for it, everything else is the first one's.
    """
    merged = {**empty_question(), **first}
    for key in COLLECTED:
        merged[key] = [item for question in (first, *others) for item in question.get(key) or ()]
    merged["expectJson"] = any(question.get("expectJson") for question in (first, *others))
    return merged


def question_text(question: Mapping[str, Any]) -> str:
    """The texts of the question, one a line, without instructions, context and history."""
    asked = question.get("questions")
    if not isinstance(asked, list | tuple):
        return ""
    return "\n".join(str(item.get("text") or "") for item in asked if isinstance(item, Mapping))


def asked_question(question: str | Mapping[str, Any], expect_json: bool = False) -> dict[str, Any]:
    """The question that the tool `ask` of a language model is given, with every key present.

    Raises `InvalidArguments` at `/input/question` if it asks nothing.
    """
    asked = new_question(question) if isinstance(question, str) else {**empty_question(), **question}
    asked["expectJson"] = expect_json or bool(asked["expectJson"])
    if not question_text(asked).strip():
        raise InvalidArguments.at("/input/question", 'asks nothing: expected a text, or "questions" with a "text" each')
    return asked


FENCE = "```"


def answer_value(answer: Mapping[str, Any]) -> Any:
    """The answer as the client gets it: a text as it is, or, if JSON was asked for, the value that the text holds.

    With `expectJson`, a string is JSON text, perhaps in a Markdown code fence as models write it; anything else is the
    value already. Raises `ToolError` for a text that is no JSON.
    """
    value = answer["answer"]
    if not answer.get("expectJson") or not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(_unfenced(value))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ToolError(
            f"The question asks for JSON, and the answer is none: {error}",
            code="answer_not_json",
            hint='Ask without "expectJson", or tell the model to answer in JSON alone.',
        ) from error


def _unfenced(text: str) -> str:
    text = text.strip()
    first_line, newline, rest = text.partition("\n")
    if newline and first_line.startswith(FENCE) and rest.endswith(FENCE):
        return rest.removesuffix(FENCE)
    return text
