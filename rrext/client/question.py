"""A question as it travels to a pipeline that chats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rrext.errors import UsageError
from rrext.wire.codec import encode

QUESTION_TYPE: Final = "application/rocketride-question"


def question_content(question: str | Mapping[str, Any]) -> bytes:
    """The bytes of a question object, or of a new one for a text. Raises `UsageError` for what is not JSON."""
    asked = {"type": "question", "questions": [{"text": question}]} if isinstance(question, str) else question
    try:
        return encode(asked)
    except ValueError as error:
        raise UsageError(f"the question is not JSON: {error}") from error
