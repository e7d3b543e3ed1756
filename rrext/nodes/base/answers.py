"""The payload of the answers lane, `{"answer": …, "expectJson": bool}`, and the JSON inside an answer's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rrext.errors import ToolError

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
