"""`ChatModel`: a language model behind the chat completions API, with whole or streamed answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.http.failures import broken
from rrext.nodes.base.lanes import answer_value
from rrext.nodes.http.endpoint import HttpEndpoint
from rrext.nodes.llm.messages import JSON_ONLY, Message, messages_of
from rrext.nodes.llm.replies import ModelReply, read_delta, read_reply, require_complete
from rrext.tools.context import ToolContext

PATH: Final = "/chat/completions"
DONE: Final = "[DONE]"


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of every request to a model. `extra` goes into the request as it is, over everything else."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_name: str = "max_tokens"
    json_mode: bool = True
    extra: Mapping[str, Any] = {}


class ChatModel:
    """A language model behind an endpoint. Belongs to the event loop; a cancelled call closes its request."""

    def __init__(self, endpoint: HttpEndpoint, settings: ChatSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings

    async def ask(self, question: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """The answer as it travels on the answers lane: `{answer, expectJson}`, and `tokens` if the server counts them.

        With `expectJson` the answer is text that holds JSON: a model that answers something else is told so, once.
        Raises `ToolError`: `empty_question`, `answer_not_json`, and what endpoint and replies raise.
        """
        expect_json = bool(question.get("expectJson"))
        messages = self._messages(question, expect_json)
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
        request = {**self._request(self._messages(question, expect_json), expect_json), "stream": True}
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
        text = "".join(pieces)
        if finish is None:
            raise broken(server, RuntimeError("the answer broke off before its end"), tries=1)
        require_complete(server, finish, text, "".join(refusal))
        if expect_json and (wrong := _not_json(text)):
            raise wrong

    def _messages(self, question: Mapping[str, Any], expect_json: bool) -> list[Message]:
        messages = messages_of(question, expect_json=expect_json)
        if not messages:
            raise ToolError("The question is empty: there is nothing to ask the model", code="empty_question")
        return messages

    async def _complete(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> ModelReply:
        body = await self._endpoint.post(PATH, self._request(messages, expect_json), ctx)
        return read_reply(self._endpoint.server, body)

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


def _not_json(text: str) -> ToolError | None:
    try:
        answer_value({"answer": text, "expectJson": True})
    except ToolError as error:
        return error
    return None


def _correction(text: str, wrong: ToolError) -> list[Message]:
    said = f"{wrong.message}. {JSON_ONLY}"
    return [{"role": "assistant", "content": text or "(nothing)"}, {"role": "user", "content": said}]
