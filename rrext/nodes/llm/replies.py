"""A chat completion: the text of the answer, and whether it is complete."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.http.failures import bad_answer, sentence_of
from rrext.nodes.http.failures import ServerName

REPLY_KEPT: Final = 4000
"""Characters of a cut answer that its failure repeats, so that a person sees how far the model came."""


class ModelReply(msgspec.Struct, frozen=True):
    """A complete answer. `tokens` is the total of question and answer, if the server reports it."""

    text: str
    tokens: int | None = None


class Delta(msgspec.Struct, frozen=True):
    """A piece of a streamed answer. `finish` is the reason of its end, `refusal` a piece of a refusal's text."""

    text: str = ""
    finish: str | None = None
    refusal: str = ""


def read_reply(server: ServerName, body: bytes) -> ModelReply:
    """The answer in the body of a completion.

    Raises `ToolError`: `model_bad_answer` for another body, and what `require_complete` raises.
    """
    said = _object(server, body, "no JSON")
    _require_no_error(server, said, body)
    choice = _first_choice(server, said)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_answer(server, "a choice without a message")
    text = _content(message.get("content"))
    require_complete(server, choice.get("finish_reason"), text or "", message.get("refusal"))
    if text is None:
        raise bad_answer(server, "a message without text")
    usage = said.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return ModelReply(text, total if isinstance(total, int) else None)


def read_delta(server: ServerName, data: str) -> Delta:
    """Read one event of a streamed completion. Raises `ToolError` for an invalid event, and for a failure in the stream."""
    said = _object(server, data.encode(), "an event without JSON")
    _require_no_error(server, said, data.encode())
    if not said.get("choices"):
        return Delta()  # counts of tokens, at the end
    choice = _first_choice(server, said)
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    return Delta(_content(delta.get("content")) or "", _text(choice.get("finish_reason")) or None, _text(delta.get("refusal")))


def require_complete(server: ServerName, finish: Any, text: str, refusal: Any) -> None:
    """Raise `ToolError` for an incomplete answer.

    `answer_refused`, `answer_filtered`, `answer_cut`; `data.answer` has the part that arrived.
    """
    data = {"answer": text[:REPLY_KEPT]}
    if refusal:
        raise ToolError(
            f"The model refuses to answer: {server.hide(str(refusal))[:REPLY_KEPT]}", code="answer_refused", data=data
        )
    if finish == "content_filter":
        raise ToolError("The answer was withheld by the content filter of the model server", code="answer_filtered", data=data)
    if finish == "length":
        raise ToolError(
            "The answer is cut: it is longer than the model may write",
            code="answer_cut",
            hint='Ask for a shorter answer, or raise "maxTokens" in the settings of the node.',
            data=data,
        )


def _require_no_error(server: ServerName, said: dict[str, Any], body: bytes) -> None:
    """Raise for an error in the body: routers of models answer 200, or begin a stream, before the model fails."""
    if said.get("error"):
        sentence = sentence_of(body, server.hide)
        raise ToolError(f"{server} failed: {sentence or 'it does not say why'}", code="model_failed")


def _content(content: Any) -> str | None:
    """The text of a message, given as one or in parts; None if there is none."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return content if isinstance(content, str) else None


def _object(server: ServerName, body: bytes, otherwise: str) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise bad_answer(server, otherwise) from None
    if not isinstance(said, dict):
        raise bad_answer(server, "JSON that is no object")
    return said


def _first_choice(server: ServerName, said: dict[str, Any]) -> dict[str, Any]:
    choices = said.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise bad_answer(server, "no choices, which is where a completion has its text")
    return choices[0]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
