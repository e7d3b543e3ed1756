"""What a scripted model says, and how the APIs of OpenAI, Anthropic and Google write it, whole and in events of a stream."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AnthropicWire", "Call", "Event", "Gate", "GeminiWire", "OpenAIWire", "Say", "Usage", "Wire"]


class Gate:
    """A place in an answer where the server says nothing until the test calls `open()`, or the client is gone."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self._waits, self._opens = os.pipe()

    def open(self) -> None:
        os.write(self._opens, b"x")  # stays in the pipe: a gate that was opened stays open

    def wait(self, connection: socket.socket) -> bool:
        """Whether the gate was opened, and the client is still there."""
        self.reached.release()
        ready, _, _ = select.select([connection, self._waits], [], [])
        return connection not in ready

    def __del__(self) -> None:
        os.close(self._waits)
        os.close(self._opens)


@dataclass
class Call:
    """A call of a tool by the model. `arguments` is the text as the model writes it, whether it is JSON or not; otherwise
    `input` is written as JSON. It is streamed in so many `pieces`, each with the call's index unless it is not `has_index`.
    `id` is None for a server that sends none."""

    tool: str
    input: Any = field(default_factory=dict)
    arguments: str | None = None
    id: str | None = ""
    pieces: int = 2
    has_index: bool = True

    def text(self) -> str:
        return self.arguments if self.arguments is not None else json.dumps(self.input)

    def parts(self) -> list[str]:
        text = self.text()
        size = max(1, -(-len(text) // self.pieces))
        return [text[at : at + size] for at in range(0, len(text), size)]

    def identity(self, turn: int, n: int) -> dict[str, str]:
        return {} if self.id is None else {"id": self.id or f"call_{turn}_{n}"}


@dataclass
class Usage:
    """How many tokens the server counts."""

    input: int = 5
    output: int = 7


@dataclass
class Say:
    """Answer a chat like this: a text, which a stream brings in `pieces`, and calls of tools. `finish` is OpenAI's word for how
    it ended, or the server's own, which may be a lie; without it the usual one. `refusal` is what a server says of one."""

    text: str | None = ""
    finish: str = ""
    refusal: str | None = None
    pieces: Sequence[str | Gate] | None = None
    calls: Sequence[Call] = ()
    usage: Usage | None = field(default_factory=Usage)

    def parts(self) -> Sequence[str | Gate]:
        return self.pieces if self.pieces is not None else re.findall(r"\S+\s*|\s+", self.text or "")

    def whole(self) -> str | None:
        if self.pieces is None:
            return self.text
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    def ending(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


Event = dict[str, Any] | str


class Wire:
    """The form of one API. `turn` numbers the answers of the server, for the ids of calls."""

    def asked(self, body: Any) -> str:
        """The last words of a request."""
        raise NotImplementedError

    def tools(self, body: Any) -> list[str]:
        """The names of the tools of a request."""
        raise NotImplementedError

    def results(self, body: Any) -> list[str]:
        """The texts of what tools answered so far."""
        raise NotImplementedError

    def whole(self, say: Say, turn: int, model: str) -> Any:
        """The body of an answer."""
        raise NotImplementedError

    def stream(self, pieces: Sequence[str | Gate], calls: Sequence[Call], turn: int) -> Iterator[Event | Gate]:
        """The events of a stream but for its end."""
        raise NotImplementedError

    def end(self, say: Say, turn: int, body: Any) -> Iterator[Event]:
        """The last events of a stream, for a request."""
        raise NotImplementedError

    def frame(self, event: Event) -> bytes:
        return b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n"


class OpenAIWire(Wire):
    """Chat completions."""

    def asked(self, body: Any) -> str:
        return body["messages"][-1]["content"]

    def tools(self, body: Any) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def results(self, body: Any) -> list[str]:
        return [message["content"] for message in body.get("messages", ()) if message["role"] == "tool"]

    def whole(self, say: Say, turn: int, model: str) -> Any:
        calls = [
            {"type": "function", "function": {"name": call.tool, "arguments": call.text()}, **call.identity(turn, n)}
            for n, call in enumerate(say.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": say.whole(), "refusal": say.refusal}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": say.ending()}
        said = {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
        return said | self._usage(say)

    def stream(self, pieces: Sequence[str | Gate], calls: Sequence[Call], turn: int) -> Iterator[Event | Gate]:
        for piece in pieces:
            yield self._chunk({"content": piece}) if isinstance(piece, str) else piece
        for n, call in enumerate(calls):
            index = {"index": n} if call.has_index else {}
            named = {"type": "function", "function": {"name": call.tool, "arguments": ""}, **call.identity(turn, n)}
            yield self._chunk({"tool_calls": [index | named]})
            for part in call.parts():
                yield self._chunk({"tool_calls": [{**index, "function": {"arguments": part}}]})

    def end(self, say: Say, turn: int, body: Any) -> Iterator[Event]:
        if say.refusal:
            yield self._chunk({"refusal": say.refusal})
        yield self._chunk({}, say.ending())
        if (body.get("stream_options") or {}).get("include_usage") and say.usage is not None:
            yield self._chunk(None) | self._usage(say)
        yield "[DONE]"

    def _usage(self, say: Say) -> dict[str, Any]:
        if say.usage is None:
            return {}
        read, written = say.usage.input, say.usage.output
        return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}

    def _chunk(self, delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": choices}


class AnthropicWire(Wire):
    """Messages of Anthropic."""

    ENDINGS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}

    def asked(self, body: Any) -> str:
        content = body["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def results(self, body: Any) -> list[str]:
        contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        results = [block["content"] for content in contents for block in content if block["type"] == "tool_result"]
        return [found if isinstance(found, str) else "".join(part["text"] for part in found) for found in results]

    def whole(self, say: Say, turn: int, model: str) -> Any:
        content: list[Any] = [{"type": "text", "text": text}] if (text := say.whole()) else []
        content += [
            {"type": "tool_use", "name": call.tool, "input": call.input, **call.identity(turn, n)}
            for n, call in enumerate(say.calls)
        ]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
        return message | {"content": content, "stop_reason": self._ending(say), "usage": self._usage(say)}

    def stream(self, pieces: Sequence[str | Gate], calls: Sequence[Call], turn: int) -> Iterator[Event | Gate]:
        empty = {"input_tokens": 0, "output_tokens": 0}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
        yield {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": empty}}
        if pieces:
            yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
            for piece in pieces:
                yield self._delta(0, {"type": "text_delta", "text": piece}) if isinstance(piece, str) else piece
            yield {"type": "content_block_stop", "index": 0}
        for n, call in enumerate(calls):
            block = {"type": "tool_use", "name": call.tool, "input": {}, **call.identity(turn, n)}
            yield {"type": "content_block_start", "index": n + 1, "content_block": block}
            for part in call.parts():
                yield self._delta(n + 1, {"type": "input_json_delta", "partial_json": part})
            yield {"type": "content_block_stop", "index": n + 1}

    def end(self, say: Say, turn: int, body: Any) -> Iterator[Event]:
        delta = {"stop_reason": self._ending(say), "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": self._usage(say)}
        yield {"type": "message_stop"}

    def frame(self, event: Event) -> bytes:
        assert isinstance(event, dict)
        return b"event: " + event["type"].encode() + b"\n" + super().frame(event)

    def _ending(self, say: Say) -> str:
        ending = "content_filter" if say.refusal else say.ending()
        return self.ENDINGS.get(ending, ending)

    def _usage(self, say: Say) -> dict[str, int]:
        usage = say.usage or Usage(0, 0)
        return {"input_tokens": usage.input, "output_tokens": usage.output}

    def _delta(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": delta}


class GeminiWire(Wire):
    """`generateContent` and `streamGenerateContent` of Google. Its calls are never in pieces, and have no text of arguments."""

    ENDINGS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}

    def asked(self, body: Any) -> str:
        return "".join(part.get("text", "") for part in body["contents"][-1]["parts"])

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tools in body.get("tools", ()) for tool in tools.get("functionDeclarations", ())]

    def results(self, body: Any) -> list[str]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]

    def whole(self, say: Say, turn: int, model: str) -> Any:
        parts: list[Any] = [{"text": text}] if (text := say.whole()) else []
        parts += [self._call(call, turn, n) for n, call in enumerate(say.calls)]
        return self._chunk(parts, self._ending(say)) | self._usage(say)

    def stream(self, pieces: Sequence[str | Gate], calls: Sequence[Call], turn: int) -> Iterator[Event | Gate]:
        for piece in pieces:
            yield self._chunk([{"text": piece}]) if isinstance(piece, str) else piece
        for n, call in enumerate(calls):
            yield self._chunk([self._call(call, turn, n)])

    def end(self, say: Say, turn: int, body: Any) -> Iterator[Event]:
        yield self._chunk([{"text": ""}], self._ending(say)) | self._usage(say)

    def _ending(self, say: Say) -> str:
        ending = "content_filter" if say.refusal else say.ending()
        return self.ENDINGS.get(ending, ending)

    def _call(self, call: Call, turn: int, n: int) -> dict[str, Any]:
        return {"functionCall": {"name": call.tool, "args": call.input, **call.identity(turn, n)}}

    def _chunk(self, parts: list[Any], finish: str | None = None) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}, **({"finishReason": finish} if finish else {})}
        return {"candidates": [candidate], "modelVersion": "scripted"}

    def _usage(self, say: Say) -> dict[str, Any]:
        if say.usage is None:
            return {}
        read, written = say.usage.input, say.usage.output
        counts = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
        return {"usageMetadata": counts}
