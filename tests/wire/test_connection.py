"""Two connections driven against each other, without any I/O."""

from __future__ import annotations

import pytest

from rrext.errors import ToolNotFound
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.dialect import DialectName
from rrext.wire.messages import Event, Request, Response

DIALECTS: tuple[DialectName, ...] = ("dap", "jsonrpc")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_and_its_answer_cross_in_both_dialects(dialect: DialectName) -> None:
    client, server = ClientConnection(dialect), ServerConnection()
    number, frames = client.request("rrext_process", {"subcommand": "tool", "input": {"a": 1}})
    (request,) = server.receive_data(b"".join(frames))
    assert isinstance(request, Request)
    assert (request.id, request.command, request.arguments["input"]) == (number, "rrext_process", {"a": 1})
    assert server.dialect == dialect
    (response,) = client.receive_data(b"".join(server.result(number, "rrext_process", b'{"result":3}')))
    assert isinstance(response, Response)
    assert (response.id, response.body, response.error) == (number, {"result": 3}, None)
    (event,) = client.receive_data(b"".join(server.event("rrext_progress", b'{"progress":1}')))
    assert event == Event("rrext_progress", {"progress": 1})
    failed = ToolNotFound("Tool x was not found", hint="see y", data={"near": ["y"]})
    (response,) = client.receive_data(b"".join(server.error(number, "rrext_process", failed)))
    assert isinstance(response, Response)
    assert isinstance(response.error, ToolNotFound)
    assert (response.error.message, response.error.hint, response.error.data) == (failed.message, failed.hint, failed.data)
