"""What a model is told: instructions, question and history as messages, and how a long history is made to fit its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from rrext.errors import ToolError
from rrext.nodes.agent.budget import estimated_tokens

if TYPE_CHECKING:
    from rrext.nodes.agent.node import AgentConfig
    from rrext.nodes.llm.chat import Message

DEFAULT_PROMPT: Final = (
    "You answer with the help of tools. Call several at once when none needs the result of another. When a call fails, "
    "read its message, and mend the call or find another way. As soon as you know enough, answer without calling a tool."
)

FULL: Final = 0.85
"""Share of the window from which on a history is made smaller: the rest is for the answer."""
COMPACTED: Final = 0.6
"""Share of the window that a history takes afterwards, so that it is not made smaller in each turn."""
LEFT_OUT: Final = "[this result was left out, so that the conversation fits the window of the model]"


def instructions_of(config: AgentConfig) -> str:
    """The instructions in the settings of an agent, as one text."""
    lines = [config.system_prompt.strip() or DEFAULT_PROMPT]
    for label, text in (("Your role", config.role), ("Your goal", config.goal), ("Your background", config.backstory)):
        if text.strip():
            lines.append(f"{label}: {text.strip()}")
    lines += [text.strip() for text in config.instructions if text.strip()]
    if config.task_description.strip():
        lines.append(f"Your task: {config.task_description.strip()}")
    if config.expected_output.strip():
        lines.append(f"The answer is to be: {config.expected_output.strip()}")
    return "\n\n".join(lines)


def messages_for(asked: Sequence[Message]) -> tuple[list[str], list[ModelMessage], str]:
    """The instructions, the history and the prompt of a question."""
    *before, last = asked
    told = [message["content"] for message in before if message["role"] == "system"]
    history: list[ModelMessage] = []
    for message in before:
        if message["role"] == "user":
            history.append(ModelRequest(parts=[UserPromptPart(content=message["content"])]))
        elif message["role"] == "assistant":
            history.append(ModelResponse(parts=[TextPart(content=message["content"])]))
    return told, history, last["content"]


def tokens_of(messages: Sequence[ModelMessage]) -> int:
    """The tokens of messages: what the server counted up to its last answer, and an estimate for what came after."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelResponse) and message.usage.input_tokens and not message.usage.unmeasured_requests:
            counted = message.usage.input_tokens + message.usage.output_tokens
            return counted + estimated_tokens(sum(map(_characters, messages[place + 1 :])))
    return estimated_tokens(sum(map(_characters, messages)))


def fitting(messages: list[ModelMessage], window: int | None, *, agent: str, compacts: bool) -> list[ModelMessage]:
    """The messages, made smaller if they fill the window of the model; None is a window that nobody knows.

    Results of tools are left out first, the oldest first, and then the oldest questions with their answers. Raises
    `ToolError` `context_too_long` if that is not wanted, or not enough.
    """
    tokens = tokens_of(messages)
    if window is None or tokens <= window * FULL:
        return messages
    if compacts:
        share = COMPACTED * window / tokens
        most = int(share * sum(map(_characters, messages)))
        found = _without_old_exchanges(_without_old_results(messages, most), most)
        if sum(map(_characters, found)) <= FULL / COMPACTED * most:
            return found
    raise ToolError(
        f'The conversation of agent "{agent}" has about {tokens:,} tokens, too many for the window of its model, {window:,}',
        code="context_too_long",
        hint='Lower "max_result", ask in a new session, or take a model with a larger window.'
        + ("" if compacts else ' With "context": "compact" old results are left out.'),
        data={"tokens": tokens, "window": window, "agent": agent},
    )


def _without_old_results(messages: list[ModelMessage], most: int) -> list[ModelMessage]:
    found, size = list(messages), sum(map(_characters, messages))
    for place, message in enumerate(messages[:-1]):
        if size <= most:
            break
        if isinstance(message, ModelRequest):
            parts = [replace(part, content=LEFT_OUT) if _is_long_result(part) else part for part in message.parts]
            found[place] = replace(message, parts=parts)
            size -= _characters(message) - _characters(found[place])
    return found


def _without_old_exchanges(messages: list[ModelMessage], most: int) -> list[ModelMessage]:
    """The messages from a later question on. The last question stays."""
    begins = [place for place, message in enumerate(messages) if _is_question(message)]
    for begin in begins:
        if sum(map(_characters, messages[begin:])) <= most:
            return messages[begin:]
    return messages[begins[-1] :] if begins else messages


def _is_question(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def _is_long_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart) and len(str(part.content)) > 2 * len(LEFT_OUT)


def _characters(message: ModelMessage) -> int:
    """The characters of the parts of a message that a model reads."""
    return sum(map(characters_of, message.parts))


def characters_of(part: Any) -> int:
    """The characters of a part of a message: its text, its result, or its arguments."""
    return len(str(getattr(part, "content", "") or getattr(part, "args", "") or ""))
