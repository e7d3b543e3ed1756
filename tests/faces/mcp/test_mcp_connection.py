"""A connection of the Model Context Protocol by itself: no line makes it raise, and every request can be answered."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments
from rrext.faces.mcp.connection import McpConnection
from rrext.server.commands import COMMANDS
from rrext.wire.lines import Lines
from rrext.wire.messages import Ignored, Malformed, Request

BODIES = {"rrext_process": b'{"result":7}', "tools": b'{"tools":[]}'}
LINES = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1},"_meta":{"progressToken":1}}}',
    b'{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{"cursor":"250"}}',
    b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"x","clientInfo":{"name":"x"}}}',
    b'{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","id":4,"method":"ping"}',
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    line = bytearray(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 4))):
        line[draw(st.integers(0, len(line) - 1))] = draw(st.sampled_from(b'{}[]",:0an\xff\x00 \\'))
    return bytes(line) + b"\n"


@pytest.mark.promise("mcp:one-answer")
@given(lines=st.lists(mutated(), max_size=8))
def test_any_line_is_a_request_of_ours_that_can_be_answered_or_is_refused(lines: list[bytes]) -> None:
    connection = McpConnection(Lines())
    for event in connection.framer.receive_data(b"".join(lines)):
        if isinstance(event, Request):
            assert event.command in COMMANDS
            if event.id is not None:
                answer = connection.result(event.id, event.command, BODIES.get(event.command, b"{}"))
                assert msgspec.json.decode(b"".join(answer))["id"] == event.id
                refusal = connection.error(event.id, event.command, InvalidArguments.at("/x", "wrong"))
                assert msgspec.json.decode(b"".join(refusal))["id"] == event.id
        elif isinstance(event, Malformed):
            assert "error" in msgspec.json.decode(b"".join(connection.error(event.id, "", event.error)))
        else:
            assert isinstance(event, Ignored)
