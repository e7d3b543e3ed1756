"""Questions as nodes work with them: JSON objects with every key present, as `rrext.engine.lanes` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rrext.engine.lanes import empty_question

__all__ = ["merge_questions", "question_text"]

COLLECTED = ("instructions", "history", "examples", "context", "goals", "documents", "questions")
"""The keys of a question that are lists."""


def merge_questions(first: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """One question that asks all of them.

    Lists are joined, `expectJson` holds if any of them asks for it, everything else is the first one's.
    """
    merged = {**empty_question(), **first}
    for key in COLLECTED:
        merged[key] = [item for question in (first, *others) for item in question.get(key) or ()]
    merged["expectJson"] = any(question.get("expectJson") for question in (first, *others))
    return merged


def question_text(question: Mapping[str, Any]) -> str:
    """What is asked, a line for each text; instructions, context and history are no part of it."""
    asked = question.get("questions") or ()
    return "\n".join(str(item.get("text") or "") for item in asked if isinstance(item, Mapping))
