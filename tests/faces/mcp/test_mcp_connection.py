"""A connection of the Model Context Protocol by itself: no line makes it raise, and every request can be answered."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments, Unavailable
from rrext.faces.mcp.connection import McpConnection
from rrext.faces.mcp.host_offers import Folder, HostOffers, OfferedPrompt
from rrext.server.commands import COMMANDS
from rrext.wire.framing import Lines
from rrext.wire.messages import Batch, Ignored, Malformed, Request

BODIES = {"rrext_process": b'{"result":7}', "tools": b'{"tools":[]}'}
ASKS = b'{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}'
LINES = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1},"_meta":{"progressToken":1}}}',
    b'{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{"cursor":"250"}}',
    b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"x","clientInfo":{"name":"x"}}}',
    b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}',
    b'[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","id":9,"method":"tools/list"},{"id":10}]',
    b'{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","id":4,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","inputResponses":{"x":1},"_meta":%b}}' % ASKS,
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","requestState":"x","_meta":%b}}' % ASKS,
    b'{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"allow":true}}}',
    b'{"jsonrpc":"2.0","id":6,"method":"prompts/get","params":{"name":"poem","arguments":{"question":"Why?"}}}',
    b'{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"rrext:///a/f/b%20c%2f"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"resources/list","params":{"cursor":"0:a/b"}}',
    b'{"jsonrpc":"2.0","id":9,"method":"resources/templates/list"}',
]
OFFERS = HostOffers(
    {"poem": OfferedPrompt("", "", ["Rhyme."])},
    [Folder("a", "f", "tool_filesystem", "")],
)
VALUES = {"resources/list": b'{"result":{"files":[],"next":null}}', "resources/read": b'{"result":{"content":"","size":0}}'}
QUESTIONS = {
    "rrext_permission": b'{"request":%b,"permission":1,"tool":"a","nodeId":"n","arguments":{}}',
    "rrext_question": b'{"request":%b,"question":2,"tool":"a","nodeId":"n","params":{"message":""}}',
}


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
    connection.offers = OFFERS
    read = connection.framer.receive_data(b"".join(lines))
    for event in [each for one in read for each in (one.events if isinstance(one, Batch) else [one])]:
        if isinstance(event, Request):
            assert event.command in COMMANDS
            if event.id is not None:
                written: list[bytes] = []
                for name, question in QUESTIONS.items():
                    if event.arguments.get("permits"):
                        written += connection.event(name, question % msgspec.json.encode(event.id))
                body = VALUES.get(getattr(event.command, "method", ""), BODIES.get(event.command, b"{}"))
                written += connection.result(event.id, event.command, body)
                said = [msgspec.json.decode(line) for line in b"".join(written).splitlines()]
                assert [each["id"] for each in said if "method" not in each] == [event.id], "a call may end with its question"
                for error in (InvalidArguments.at("/x", "wrong"), Unavailable("no")):
                    refusal = connection.error(event.id, event.command, error)
                    assert msgspec.json.decode(b"".join(refusal))["id"] == event.id
        elif isinstance(event, Malformed):
            assert "error" in msgspec.json.decode(b"".join(connection.error(event.id, "", event.error)))
        else:
            assert isinstance(event, Ignored)
