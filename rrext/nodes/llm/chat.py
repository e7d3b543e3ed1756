"""`LanguageModel`: what a node asks, with whole or streamed answers. `ChatModel` is one behind the chat completions API: a
question of the questions lane becomes the messages of a chat, and a completion its answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.http import bad_answer, broken, sentence_of
from rrext.nodes.base.lanes import answer_value, question_text
from rrext.nodes.http import HttpEndpoint, ServerName
from rrext.nodes.llm.price import Price
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from rrext.nodes.llm.agent_models import AgentModel

PATH: Final = "/chat/completions"
DONE: Final = "[DONE]"


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of every request to a model. `extra` goes into the request as it is, over everything else.

    For agents: `service` is whose API it is, `window` the tokens that question and answer may have together.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_name: str = "max_tokens"
    json_mode: bool = True
    extra: Mapping[str, Any] = {}
    service: str = "openai-compatible"
    window: int | None = None
    price: Price | None = None


class LanguageModel(ABC):
    """A language model that is asked questions. Belongs to the event loop; a cancelled call closes its request."""

    async def ask(self, question: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """The answer as it travels on the answers lane: `{answer, expectJson}`, and `tokens` if the server counts them.

        With `expectJson` the answer is text that holds JSON: a model that answers something else is told so, once.
        Raises `ToolError`: `empty_question`, `answer_not_json`, and what endpoint and replies raise.
        """
        expect_json = bool(question.get("expectJson"))
        messages = _asked(question, expect_json)
        reply = await self._complete(messages, expect_json, ctx)
        tokens = reply.tokens
        if expect_json and (wrong := _not_json(reply.text)):
            reply = await self._complete([*messages, *_correction(reply.text, wrong)], expect_json, ctx)
            tokens = None if tokens is None or reply.tokens is None else tokens + reply.tokens
            if wrong := _not_json(reply.text):
                raise wrong
        answer: dict[str, Any] = {"answer": reply.text, "expectJson": expect_json}
        return answer if tokens is None else {**answer, "tokens": tokens}

    async def stream(self, question: Mapping[str, Any], ctx: ToolContext) -> AsyncGenerator[str, None]:
        """Stream the answer as the model writes it. Raises the errors of `ask`, those of the whole answer at the end."""
        expect_json = bool(question.get("expectJson"))
        said: list[str] = []
        async with aclosing(self._pieces(_asked(question, expect_json), expect_json, ctx)) as pieces:
            async for piece in pieces:
                said.append(piece)
                yield piece
        if expect_json and (wrong := _not_json("".join(said))):
            raise wrong

    @abstractmethod
    def agent_model(self) -> AgentModel:
        """The model as agents use it, for the loop that uses it first: that of `ModelLoop`. Blocks, and for a second or two the
        first time, when it imports."""

    @abstractmethod
    async def _complete(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> ModelReply:
        """The whole answer."""

    @abstractmethod
    def _pieces(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> AsyncGenerator[str, None]:
        """The answer in pieces; a failure of the whole answer is raised at the end."""


class ChatModel(LanguageModel):
    """A language model behind the chat completions of an endpoint."""

    def __init__(self, endpoint: HttpEndpoint, settings: ChatSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings

    def agent_model(self) -> AgentModel:
        from rrext.nodes.llm.agent_models import openai_model

        return openai_model(self._endpoint, self._settings)

    async def _complete(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> ModelReply:
        body = await self._endpoint.post(PATH, self._request(messages, expect_json), ctx)
        return read_reply(self._endpoint.server, body)

    async def _pieces(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> AsyncGenerator[str, None]:
        request = {**self._request(messages, expect_json), "stream": True}
        server = self._endpoint.server
        pieces: list[str] = []
        refusal: list[str] = []
        finish: str | None = None
        async with aclosing(self._endpoint.events(PATH, request, ctx)) as events:
            async for data in events:
                if data.strip() == DONE:
                    finish = finish or "stop"
                    break
                delta = read_delta(server, data)
                finish = delta.finish or finish
                refusal.append(delta.refusal)
                if delta.text:
                    pieces.append(delta.text)
                    yield delta.text
        if finish is None:
            raise broken(server, RuntimeError("the answer broke off before its end"), tries=1)
        require_complete(server, finish, "".join(pieces), "".join(refusal))

    def _request(self, messages: list[Message], expect_json: bool) -> dict[str, Any]:
        settings = self._settings
        request: dict[str, Any] = {"model": settings.model, "messages": messages}
        if settings.temperature is not None:
            request["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            request[settings.max_tokens_name] = settings.max_tokens
        if expect_json and settings.json_mode:
            request["response_format"] = {"type": "json_object"}
        return {**request, **settings.extra}


def _asked(question: Mapping[str, Any], expect_json: bool) -> list[Message]:
    messages = messages_of(question, expect_json=expect_json)
    if not messages:
        raise ToolError("The question is empty: there is nothing to ask the model", code="empty_question")
    return messages


def _not_json(text: str) -> ToolError | None:
    try:
        answer_value({"answer": text, "expectJson": True})
    except ToolError as error:
        return error
    return None


def _correction(text: str, wrong: ToolError) -> list[Message]:
    said = f"{wrong.message}. {JSON_ONLY}"
    return [{"role": "assistant", "content": text or "(nothing)"}, {"role": "user", "content": said}]


Message = dict[str, str]
"""`{role, content}`."""

ROLES: Final = ("system", "user", "assistant")
JSON_ONLY: Final = "Answer with one JSON value and nothing else: no other words, no code fence."


def messages_of(question: Mapping[str, Any], *, expect_json: bool = False) -> list[Message]:
    """The messages of a question; an empty list for an empty question.

    One of the system has the role that the model plays, instructions, goals and examples, and with `expect_json` that JSON
    is asked for. The history follows as it was said. The last one, of the user, has context, documents and then the
    questions. A part that is empty leaves nothing behind.
    """
    system = [_line(question.get("role")), *_instructions(question), _goals(question), *_examples(question)]
    user = [*_context(question), *_documents(question), question_text(question).strip()]
    asked = "\n\n".join(part for part in user if part)
    told = "\n\n".join(part for part in system if part)
    if expect_json and (told or asked):
        told = f"{told}\n\n{JSON_ONLY}" if told else JSON_ONLY
    history = [message for item in _items(question, "history") if (message := _message_of(item))]
    messages = [{"role": "system", "content": told}] if told else []
    messages += history
    if asked:
        messages.append({"role": "user", "content": asked})
    return messages


def _items(question: Mapping[str, Any], key: str) -> list[Any]:
    value = question.get(key)
    return value if isinstance(value, list) else []


def _line(value: Any) -> str:
    """A text without spaces around it; another value as JSON."""
    if value is None:
        return ""
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode()).strip()


def _instructions(question: Mapping[str, Any]) -> list[str]:
    found = []
    for item in _items(question, "instructions"):
        if isinstance(item, Mapping):
            title, text = _line(item.get("subtitle")), _line(item.get("instructions"))
            found.append(f"{title}:\n{text}" if title and text else text or title)
        else:
            found.append(_line(item))
    return found


def _goals(question: Mapping[str, Any]) -> str:
    goals = [f"- {line}" for item in _items(question, "goals") if (line := _line(item))]
    return "\n".join(["Goals:", *goals]) if goals else ""


def _examples(question: Mapping[str, Any]) -> list[str]:
    found = []
    for item in _items(question, "examples"):
        if isinstance(item, Mapping):
            found.append(f"Example.\nGiven: {_line(item.get('given'))}\nAnswer: {_line(item.get('result'))}".rstrip())
        elif line := _line(item):
            found.append(f"Example.\n{line}")
    return found


def _context(question: Mapping[str, Any]) -> list[str]:
    return [f"Context:\n{line}" for item in _items(question, "context") if (line := _line(item))]


def _documents(question: Mapping[str, Any]) -> list[str]:
    """Each document with its number and source, so that an answer can cite it."""
    found = []
    for item in _items(question, "documents"):
        document = item if isinstance(item, Mapping) else {"page_content": item}
        content = _line(document.get("page_content"))
        if not content:
            continue
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        source = _line(metadata.get("parent")) or _line(metadata.get("objectId"))
        found.append(f"Document {len(found) + 1}{f' ({source})' if source else ''}:\n{content}")
    return found


def _message_of(item: Any) -> Message | None:
    if not isinstance(item, Mapping):
        return None
    content = _line(item.get("content"))
    role = str(item.get("role") or "user").lower()
    return {"role": role if role in ROLES else "user", "content": content} if content else None


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
