"""A script as a model of pydantic-ai, without a network. Import this module as `agent_models`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pydantic_ai.exceptions import ModelConnectionError, ModelHTTPError
from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    RetryPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from rrext.errors import ToolError
from rrext.nodes.http import ServerName
from rrext.nodes.llm.agent_models import AgentModel
from rrext.nodes.llm.price import Price
from rrext.nodes.llm.scripted import Script, ScriptTurn

NAME: Final = "scripted"


def scripted_model(script: Script, price: Price | None) -> AgentModel:
    """The script as an agent's model."""

    async def close() -> None:
        """There is nothing to close."""

    return AgentModel(
        model=ScriptedModel(script),
        settings=ModelSettings(),
        server=ServerName(script.node_id, "(a script)"),
        name=NAME,
        window=None,
        price=price,
        close=close,
    )


class ScriptedModel(Model[None]):
    """Says the turns of a script: which one follows from the messages, so that runs at once do not meet."""

    def __init__(self, script: Script) -> None:
        super().__init__(profile=ModelProfile(supports_json_schema_output=True, supports_json_object_output=True))
        self._script = script

    @property
    def model_name(self) -> str:
        return NAME

    @property
    def system(self) -> str:
        return NAME

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        async with self.request_stream(messages, model_settings, model_request_parameters) as stream:
            async for _ in stream:
                pass
            return stream.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncIterator[StreamedResponse]:
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        question, said, results = _heard(messages)
        turns = self._script.turns(question)
        if said < len(turns):
            turn = _filled(turns[said], question, results)
        else:
            answer = self._script.answer(question)
            turn = ScriptTurn(text=answer if isinstance(answer, str) else _json(answer))
        if failure := turn.get("failure"):
            raise ModelHTTPError(failure["status"], NAME, {"message": failure.get("message", "so the script says")})
        yield _Stream(parameters, turn, said)


@dataclass
class _Stream(StreamedResponse):
    turn: ScriptTurn
    number: int
    _usage_received: bool | None = field(default=False, init=False)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        turn = self.turn
        text = turn.get("text", ())
        for piece in (text,) if isinstance(text, str) else text:
            for event in self._parts_manager.handle_text_delta(vendor_part_id="text", content=piece):
                yield event
        if stall := turn.get("stall"):
            await asyncio.sleep(stall)
        calls, is_cut = turn.get("calls", ()), turn.get("cut", False)
        for n, call in enumerate(calls):
            given = call.get("input", {})
            arguments = given if isinstance(given, str) else _json(given)
            if is_cut and n == len(calls) - 1:
                arguments = arguments[: len(arguments) // 2]
            for event in self._parts_manager.handle_tool_call_delta_events(
                vendor_part_id=n, tool_name=call["tool"], args=arguments, tool_call_id=f"call_{self.number}_{n}"
            ):
                yield event
        if is_cut:
            raise ModelConnectionError(NAME, "the script cuts the answer here", phase="read")
        if usage := turn.get("usage"):
            self._add_usage(RequestUsage(input_tokens=usage["input"], output_tokens=usage["output"]), reported=True)
        usual: FinishReason = "tool_call" if calls else "stop"
        self.finish_reason = turn.get("finish", usual)

    async def close_stream(self) -> None:
        """There is no connection."""

    @property
    def model_name(self) -> str:
        return NAME

    @property
    def provider_name(self) -> str:
        return NAME

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return datetime.now(UTC)


def _heard(messages: Sequence[ModelMessage]) -> tuple[str, int, list[Any]]:
    """The last question, the number of the model's turns since then, and the results of tools."""
    question, said, results = "", 0, []
    for message in messages:
        if isinstance(message, ModelResponse):
            said += 1
            continue
        asked = [part for part in message.parts if isinstance(part, UserPromptPart)]
        if asked:
            question, said = "\n".join(_text_of(part) for part in asked), 0
        results += _results(message)
    return question, said, results


def _text_of(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(item for item in part.content if isinstance(item, str))


def _results(message: ModelRequest) -> list[Any]:
    found: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            found.append(part.content)
        elif isinstance(part, RetryPromptPart):
            found.append(part.model_response())
    return found


PLACE: Final = re.compile(r"\{(?:question|result((?:\.[^.{}\s]+)*))\}")


def _filled(value: Any, question: str, results: list[Any]) -> Any:
    """A turn with question and result in its texts."""
    if isinstance(value, str):
        return PLACE.sub(lambda found: question if found[1] is None else _found(found[1], results), value)
    if isinstance(value, dict):
        return {key: _filled(item, question, results) for key, item in value.items()}
    return [_filled(item, question, results) for item in value] if isinstance(value, (list, tuple)) else value


def _found(path: str, results: list[Any]) -> str:
    """The text of the last result, or of the value at a path such as `.rows.0.n` in it."""
    value: Any = results[-1] if results else None
    try:
        if path and isinstance(value, str):
            value = msgspec.json.decode(value)
        for key in path.split(".")[1:]:
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (LookupError, TypeError, ValueError):  # of msgspec too
        value = None
    if value is None:
        raise ToolError(f"The script names {{result{path}}}, which is not there", code="no_result")
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
