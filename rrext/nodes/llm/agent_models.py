"""`AgentModel`: the model of a node as agents use it, made of pydantic-ai and the SDK of its API, and its failures as ours.

Import this module on a thread that may block, as its import takes a second.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRequestTimeout,
    ModelTimeoutError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from rrext.errors import ToolError
from rrext.http import PACKINGS, bad_answer, broken, failure, late, of_status, sentence_of, too_large
from rrext.nodes.http import RETRIED, EndpointSettings, HttpEndpoint, ServerName, endpoint_client
from rrext.nodes.llm.chat import ChatSettings, Message, ModelReply, require_complete
from rrext.nodes.llm.price import Price, known_price

for _sdk in ("openai", "anthropic", "google_genai"):
    logging.getLogger(_sdk).setLevel(logging.INFO)  # some write all that a user asks into their lines for developers


@dataclass(frozen=True, kw_only=True)
class AgentModel:
    """A model for the runs of agents. Belongs to the loop that uses it first; it may be made on any thread.

    `settings` go with every request, `name` is the model's as its server knows it, `window` are the tokens that question and
    answer may have together, `price` is None if nobody knows it. `close` gives its connections back.
    """

    model: Model[Any]
    settings: ModelSettings
    server: ServerName
    name: str
    window: int | None
    price: Price | None
    close: Callable[[], Awaitable[None]]


def openai_model(endpoint: HttpEndpoint, settings: ChatSettings) -> AgentModel:
    """A model behind OpenAI's chat completions. A stream without `finish_reason` is one that broke off."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    server = endpoint.server
    key = {"authorization": f"Bearer {server.secret}"} if server.secret else {}
    client = sdk_client(server, endpoint.settings, key, is_remote=endpoint.ctx.remote)
    sdk = AsyncOpenAI(base_url=server.address, api_key=NO_KEY, http_client=client, max_retries=endpoint.settings.retries.count)
    if settings.service == "openai":
        provider = OpenAIProvider(openai_client=sdk)
    else:
        provider = OpenAICompatibleProvider(settings.service, openai_client=sdk)
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=settings.max_tokens_name == "max_completion_tokens",
        openai_chat_streaming_requires_finish_reason=True,
    )
    model = OpenAIChatModel(settings.model, provider=provider, profile=profile)
    requests = request_settings(endpoint.settings, temperature=settings.temperature, max_tokens=settings.max_tokens)
    if settings.extra:
        requests["extra_body"] = dict(settings.extra)
    return agent_model(model, requests, server, client, window=settings.window, price=settings.price)


def anthropic_model(server: ServerName, settings: EndpointSettings, chat: ChatSettings, *, is_remote: bool) -> AgentModel:
    """A model of Anthropic. The version in its paths is the SDK's."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = sdk_client(server, settings, _key_header("x-api-key", server), is_remote=is_remote)
    address = server.address.removesuffix("/v1")
    sdk = AsyncAnthropic(base_url=address, api_key=NO_KEY, http_client=client, max_retries=settings.retries.count)
    model = AnthropicModel(chat.model, provider=AnthropicProvider(anthropic_client=sdk))
    requests = request_settings(settings, temperature=chat.temperature, max_tokens=chat.max_tokens)
    return agent_model(model, requests, server, client, window=chat.window, price=chat.price)


def gemini_model(server: ServerName, settings: EndpointSettings, chat: ChatSettings, *, is_remote: bool) -> AgentModel:
    """A model of Google's Gemini API. The version in its paths is the SDK's."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.providers.google import GoogleProvider

    from rrext.nodes.llm.gemini_model import ClosingGoogleModel

    client = sdk_client(server, settings, _key_header("x-goog-api-key", server), is_remote=is_remote)
    retries = settings.retries
    provider = GoogleProvider(
        api_key=NO_KEY,
        http_client=client,
        base_url=server.address.removesuffix("/v1beta"),
        retry_options=HttpRetryOptions(
            attempts=1 + retries.count,
            initial_delay=retries.delay,
            max_delay=retries.longest,
            jitter=retries.delay,
            http_status_codes=sorted(RETRIED),
        ),
    )
    model = ClosingGoogleModel(chat.model.removeprefix("models/"), provider=provider)
    requests = request_settings(settings, temperature=chat.temperature, max_tokens=chat.max_tokens)
    return agent_model(model, requests, server, client, window=chat.window, price=chat.price)


def _key_header(name: str, server: ServerName) -> dict[str, str]:
    return {name: server.secret} if server.secret else {}


def agent_model(
    model: Model[Any],
    requests: ModelSettings,
    server: ServerName,
    client: httpx2.AsyncClient,
    *,
    window: int | None,
    price: Price | None,
) -> AgentModel:
    """The model with what is known about it, where its node does not say so."""
    return AgentModel(
        model=model,
        settings=requests,
        server=server,
        name=model.model_name,
        window=window or model.context_window,
        price=price or known_price(model.model_name, model.base_url or "", model.system),
        close=client.aclose,
    )


def request_settings(settings: EndpointSettings, *, temperature: float | None, max_tokens: int | None) -> ModelSettings:
    """The settings of each request. How long a server may be silent is known to the client."""
    found = ModelSettings(request_timeout=settings.total)
    if temperature is not None:
        found["temperature"] = temperature
    if max_tokens is not None:
        found["max_tokens"] = max_tokens
    return found


NO_KEY: Final = "-"
"""The key that SDKs get: the client puts the true one into each request, so that no object or failure of theirs has it."""

SENT: Final = frozenset(
    {
        *(
            "accept",
            "accept-encoding",
            "connection",
            "content-length",
            "content-type",
            "host",
            "transfer-encoding",
            "user-agent",
        ),
        *("anthropic-version", "anthropic-beta", "traceparent", "tracestate"),
    }
)
"""Headers of SDKs that go to a server. Others tell about this machine, or come from variables of the environment that are not
for the server of a pipeline."""


OPENED: Final[ContextVar[list[httpx2.Response] | None]] = ContextVar("opened", default=None)
"""The list that answers are added to when they begin, for a model whose SDK does not close each one that is left."""


def sdk_client(
    server: ServerName, settings: EndpointSettings, key: Mapping[str, str], *, is_remote: bool
) -> httpx2.AsyncClient:
    """A client for an SDK: it guards addresses as that of the endpoint, keeps the key, and reads no answer without end."""
    client = endpoint_client(server, settings, {"content-type": "application/json"}, is_remote=is_remote)

    async def send(request: httpx2.Request) -> None:
        for name in [name for name in request.headers if name.lower() not in SENT]:
            del request.headers[name]
        request.headers.update({"user-agent": "rrext", **key})

    async def receive(response: httpx2.Response) -> None:
        packing = response.headers.get("content-encoding", "").strip().lower()
        if packing not in PACKINGS:
            raise bad_answer(server, "in a packing that nobody asked for")
        response.stream = _Bounded(response, server, settings.max_answer)
        if (opened := OPENED.get()) is not None:
            opened.append(response)
        response.headers.pop("content-encoding", None)

    client.event_hooks = {"request": [send], "response": [receive]}
    return client


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, unpacked, until it is too large."""

    def __init__(self, response: httpx2.Response, server: ServerName, maximum: int) -> None:
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream
        self._unpacked: Any = stream
        if response.headers.get("content-encoding"):
            packed = httpx2.Response(response.status_code, headers=response.headers, stream=stream)
            self._unpacked = packed.aiter_bytes()
        self._server = server
        self._maximum = maximum
        self._size = 0
        self._is_left = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # An SDK that has seen the last event reads on by another iterator, so that the connection can be used again.
        pieces = self._stream if self._is_left else self._unpacked
        self._is_left = True
        async for piece in pieces:
            self._size += len(piece)
            if self._size > self._maximum:
                raise too_large(self._server, self._maximum)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def streamed_answer(agent: AgentModel, messages: Sequence[Message]) -> AsyncGenerator[str | ModelReply, None]:
    """The answer to the messages of a chat, piece by piece, and then whole. Raises `ToolError`."""
    try:
        async with model_request_stream(agent.model, _model_messages(messages), model_settings=agent.settings) as events:
            async for event in events:
                if piece := _new_text(event):
                    yield piece
            response = events.get()
        require_whole(agent.server, response)
    except Exception as error:
        raise model_failure(error, agent.server) from None
    if response.text is None:
        raise bad_answer(agent.server, "a message without text")
    usage = response.usage
    yield ModelReply(response.text, None if usage.unmeasured_requests else usage.total_tokens)


def _model_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    found: list[ModelMessage] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant":
            found.append(ModelResponse([TextPart(content)]))
            continue
        part = SystemPromptPart(content) if message["role"] == "system" else UserPromptPart(content)
        if found and isinstance(found[-1], ModelRequest):
            found[-1] = ModelRequest([*found[-1].parts, part])
        else:
            found.append(ModelRequest([part]))
    return found


def _new_text(event: ModelResponseStreamEvent) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def require_whole(server: ServerName, response: ModelResponse) -> None:
    """Raise `ToolError` for an answer that was cut, filtered or refused, with the part that arrived, or that broke off."""
    details = response.provider_details or {}
    reason = details.get("finish_reason")
    if response.finish_reason is None and reason is None:
        raise broken(server, RuntimeError("the answer broke off before its end"))
    refusal = details.get("refusal") or (reason == "refusal" and "it does not say why")
    require_complete(server, response.finish_reason, response.text or "", refusal)


def model_failure(error: BaseException, server: ServerName) -> ToolError:
    """The failure of a request to a model as `rrext.http` and `ask` name it. Raises `error` itself if it is no such failure."""
    for found in _causes(error):
        if isinstance(found, ToolError):  # of the client: an address that is not public, an answer without end
            return found
    if isinstance(error, ContentFilterError):
        return ToolError("The answer was withheld by the content filter of the model server", code="answer_filtered")
    if isinstance(error, OutputTokenLimitExceeded):
        hint = 'Ask for a shorter answer, or raise "maxTokens" in the settings of the node.'
        return ToolError("The answer is cut: it is longer than the model may write", code="answer_cut", hint=hint)
    if isinstance(error, UnexpectedModelBehavior):
        return bad_answer(server, f"what cannot be read: {_line(error.message)}")
    if isinstance(error, ModelRequestTimeout):
        return late(server, f"was not done within {error.timeout:g} s (totalTimeout)")
    if isinstance(error, ModelConnectionError):
        if isinstance(error, ModelTimeoutError) and error.phase != "connect":
            return late(server, "said nothing for the time that it has (timeout)")
        return broken(server, _reason(error))
    if isinstance(error, ModelAPIError):
        return _of_api(error, server)
    raise error


def _of_api(error: ModelAPIError, server: ServerName) -> ToolError:
    body = error.body if isinstance(error.body, str) else msgspec.json.encode(error.body or {"message": error.message})
    body = body.encode() if isinstance(body, str) else body
    cause = error.__cause__
    status = error.status_code if isinstance(error, ModelHTTPError) else getattr(cause, "status_code", None)
    if isinstance(status, int) and not error.in_stream:
        return of_status(server, status, body, asked=error.retry_after)
    if error.in_stream:
        return failure(server, "failed", f" failed: {sentence_of(body, server.hide) or 'it does not say why'}")
    if cause is None:  # pydantic-ai itself did not like the stream
        return broken(server, error)
    return bad_answer(server, f"what cannot be read: {_line(error.message)}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _reason(error: BaseException) -> BaseException:
    """The innermost failure that says anything: SDKs say `Connection error.`"""
    return next((found for found in reversed([*_causes(error)]) if str(found)), error)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]
