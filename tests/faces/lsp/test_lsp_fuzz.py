"""Whatever a client sends: requests are answered once, nothing else is, and the next request works."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from rrext.faces.lsp.stdio import MessageReader
from rrext.limits import DEFAULTS
from rrext.server.outbox import Outbox
from rrext.wire.framing import ContentLength

METHODS = sorted(
    method
    for method, (_, _, _, _) in types.METHOD_TO_TYPES.items()
    if method not in ("exit", "shutdown") and not method.startswith(("window/show", "client/"))
)
names = st.sampled_from(["jsonrpc", "id", "method", "params", "textDocument", "uri", "position", "line", "character", "text"])
texts = st.one_of(st.sampled_from([URI, "2.0", "{", "\ud83d", "$/x", "rrext"]), st.text(max_size=6))
numbers = st.one_of(st.integers(), st.floats(), st.integers(-2, 3))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(names, texts), inner, max_size=4)),
    max_leaves=12,
)
positions = st.fixed_dictionaries({"line": numbers, "character": numbers})
documents = st.fixed_dictionaries({"uri": st.sampled_from([URI, URI, "file:///other.pipe", "::", ""])})
usual_params = st.fixed_dictionaries(
    {"textDocument": documents, "position": positions},
    optional={
        "range": st.fixed_dictionaries({"start": positions, "end": positions}),
        "context": st.fixed_dictionaries({"diagnostics": st.just([]), "includeDeclaration": st.booleans()}),
        "newName": texts,
        "command": texts,
        "arguments": json_values,
        "contentChanges": st.lists(st.fixed_dictionaries({"text": texts}, optional={"range": json_values}), max_size=2),
    },
)
messages = st.one_of(
    json_values,
    st.fixed_dictionaries(
        {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", None]), "method": st.one_of(st.sampled_from(METHODS), texts)},
        optional={
            "id": st.one_of(st.integers(), st.just("request"), json_values),
            "params": st.one_of(usual_params, json_values),
        },
    ),
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": json_values}, optional={"result": json_values, "error": json_values}
    ),
)


def is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def named(message: Any, number: int) -> tuple[Any, Any]:
    """The message with an id of its own in place of a usable one, and the id under which it is to be answered, if it is.

    `...` says that it is not to be answered, and None that it is to be answered without an id.
    """
    if not isinstance(message, dict):
        return message, None
    if "method" not in message and ("result" in message or "error" in message):
        return message, ...
    if "method" in message and "id" not in message:
        return message, ...
    if not is_id(message.get("id")):
        return message, None
    request_id = f"request {number}" if isinstance(message["id"], str) else number
    return {**message, "id": request_id}, request_id


async def assert_works(editor: Editor) -> None:
    uri = "file:///project/afterwards.pipe"
    editor.open('{"components": [{"id": "in", "provider": "webhok", "config": {}}]}', uri)
    assert (await editor.diagnostics(uri))[0]["code"] == "unknown_provider"


def answered(editor: Editor) -> Counter[Any]:
    return Counter(message["id"] for message in editor.messages if "method" not in message)


@pytest.mark.promise("editor:answer:exactly-one")
@given(st.lists(messages, max_size=12), st.sampled_from([{}, {"trusted": True}]))
async def test_any_messages_are_answered_as_they_should_and_do_no_harm(sent: list[Any], options: dict[str, Any]) -> None:
    editor = Editor()
    await editor.start(options)
    editor.open("{}")
    expected = Counter([1])
    for number, message in enumerate(sent, 1000):
        named_message, request_id = named(message, number)
        editor.server.protocol.receive(named_message)
        if request_id is not ...:
            expected[request_id] += 1
    await editor.server.protocol.idle()
    assert answered(editor) == expected
    await assert_works(editor)
    shown = [message for message in editor.messages if message.get("method") == "window/showMessage"]
    assert not [
        message for message in shown if message["params"]["type"] == 1 and "lost track" not in message["params"]["message"]
    ]


@pytest.mark.promise("editor:answer:exactly-one")
@settings(max_examples=30)
@given(st.lists(messages, max_size=6))
async def test_before_initialize_and_after_shutdown_any_request_is_refused(sent: list[Any]) -> None:
    for prepare in ("before", "after"):
        editor, expected = Editor(), Counter[Any]()
        if prepare == "after":
            await editor.start()
            await editor.request("shutdown")
            expected.update([1, 2])
        for number, message in enumerate(sent, 1000):
            if isinstance(message, dict) and message.get("method") == "initialize":
                continue
            named_message, request_id = named(message, number)
            editor.server.protocol.receive(named_message)
            if request_id is not ...:
                expected[request_id] += 1
        assert answered(editor) == expected
        refused = [message for message in editor.messages if "method" not in message and message["id"] not in (1, 2)]
        assert all("error" in message for message in refused)


class Wire:
    """A server that reads from a pipe; what it writes is kept."""

    def __init__(self, editor: Editor) -> None:
        self.read_fd, self.write_fd = os.pipe()
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str | None] = loop.create_future()
        outbox: Any = Outbox(self, 1 << 20, loop)  # type: ignore[arg-type]
        framer: ContentLength[Any] = ContentLength(DEFAULTS)
        self.incoming = MessageReader(self.read_fd, framer, loop, editor.server, outbox, DEFAULTS, self._end)

    def _end(self, failure: str | None) -> None:
        if not self.ended.done():
            self.ended.set_result(failure)

    async def feed(self, data: bytes) -> str | None:
        """Send bytes and then the end; with which failure reading ended."""
        self.incoming.start()
        await asyncio.to_thread(self._write, data)
        failure = await self.ended
        await asyncio.to_thread(self.incoming.join)
        os.close(self.read_fd)
        return failure

    def _write(self, data: bytes) -> None:
        with open(self.write_fd, "wb") as pipe:
            pipe.write(data)


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def call(request_id: int) -> bytes:
    return framed(b'{"jsonrpc":"2.0","id":%d,"method":"test/echo","params":{"n":%d}}' % (request_id, request_id))


async def echo(params: Any) -> Any:
    return params


async def with_echo() -> Editor:
    editor = Editor()
    await editor.start()
    editor.server.protocol.raw["test/echo"] = echo
    return editor


bodies = st.one_of(
    st.binary(max_size=30),
    st.builds(lambda value: json.dumps(value).encode(), messages),
    st.builds(lambda value, at: json.dumps(value).encode()[:at], messages, st.integers(0, 60)),
)


@given(st.lists(bodies, max_size=6))
async def test_any_bodies_in_frames_leave_the_next_request_its_answer(sent: list[bytes]) -> None:
    editor = await with_echo()
    assert await Wire(editor).feed(b"".join(map(framed, sent)) + call(12345)) is None
    await editor.server.protocol.idle()
    assert [message["result"] for message in editor.messages if message.get("id") == 12345] == [{"n": 12345}]
    await assert_works(editor)


@given(st.binary(max_size=60), st.booleans())
async def test_any_bytes_at_all_end_reading_at_worst(data: bytes, after_a_frame: bool) -> None:
    editor = await with_echo()
    failure = await Wire(editor).feed((call(12345) if after_a_frame else b"") + data + b"\r\n\r\n" + call(12346))
    await editor.server.protocol.idle()
    seen = answered(editor)
    assert not after_a_frame or seen[12345] == 1
    assert failure is None or seen[None] == 1
    await assert_works(editor)


@pytest.mark.parametrize("head", ["Content-Length", "content-length", "CONTENT-LENGTH"])
@pytest.mark.parametrize("more", ["", "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"])
async def test_a_header_may_be_written_in_any_case(head: str, more: str) -> None:
    editor = await with_echo()
    body = b'{"jsonrpc":"2.0","id":7,"method":"test/echo","params":[1]}'
    assert await Wire(editor).feed(f"{more}{head}: {len(body)}\r\n\r\n".encode() + body) is None
    assert (await editor.answer(7))["result"] == [1]


async def test_a_descriptor_that_cannot_be_read_is_an_end(caplog: pytest.LogCaptureFixture) -> None:
    editor = await with_echo()
    wire = Wire(editor)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, wire.read_fd)
    os.close(null)
    assert await wire.feed(b"") is None
    assert "stdin cannot be read" in caplog.text


async def test_a_request_is_answered_from_the_text_as_it_was_when_it_was_asked() -> None:
    """All of it arrives at once: the question, and the edit after it."""
    editor = Editor()
    await editor.start()
    seen: list[str] = []

    async def see(params: Any) -> None:
        _, text, analysis = await editor.server.analysis_of(URI)
        seen.append(f"{text.content} {analysis.text}")

    editor.server.protocol.raw["test/see"] = see
    editor.open("{}")
    change = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"text": "[]"}]}
    sent = [
        {"jsonrpc": "2.0", "id": 8, "method": "test/see"},
        {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": change},
        {"jsonrpc": "2.0", "id": 9, "method": "test/see"},
    ]
    await Wire(editor).feed(b"".join(framed(json.dumps(message).encode()) for message in sent))
    await editor.server.protocol.idle()
    assert seen == ["{} {}", "[] []"]
