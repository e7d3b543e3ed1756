"""Connections of callers: a stranger names shared ones only, and an authorization reaches only servers that it is for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rrext import Node, ToolContext, tool_function
from rrext.connections import Connections
from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Caller
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionUnknown, InvalidArguments, ToolError
from rrext.pipefile.catalog.catalog import Catalog
from rrext.testing import pair

TOKEN = "Bearer 0a1b2c3d4e5f6789"
KEY = "9f8e7d6c5b4a3210"
TABLES: dict[str, Any] = {
    "own": {"provider": "http", "url": "https://own.example"},
    "shared": {"provider": "http", "url": "https://shared.example", "shared": True},
    "forwarding": {
        "provider": "http",
        "url": "https://fwd.example",
        "headers": {"Key": KEY},
        "forward_authorization": True,
        "shared": True,
    },
}


class Outside(Node):
    """Finds a connection in its setup, and what it would send."""

    provider = "outside"
    class_types = ("tool",)

    class Config:
        server: str = "own"

    config: Any
    shared: Any

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: Any) -> Any:
        yield ctx.connections.find(config.server, "http")

    @tool_function
    async def sent(self, ctx: ToolContext) -> str | None:
        """Say what the server would be sent."""
        return ctx.authorization_for(self.shared)

    @tool_function
    async def fails(self, ctx: ToolContext, said: str = "") -> None:
        """Fail with what the server was sent."""
        ctx.progress(1, 1, f"sending {ctx.authorization_for(self.shared)}")
        ctx.publish("sending", {"key": self.shared.settings.headers["Key"].reveal()})
        raise ToolError(f"refused: {ctx.authorization_for(self.shared)}", data={"sent": TOKEN.split()[1].encode().hex()})


def pipeline(server: str) -> dict[str, Any]:
    return {
        "components": [
            {"id": "w", "provider": "webhook"},
            {
                "id": "o",
                "provider": "outside",
                "config": {"server": server},
                "control": [{"classType": "tool", "from": "w"}],
            },
        ],
        "source": "w",
    }


@asynccontextmanager
async def engine_with(*servers: str) -> AsyncIterator[LocalEngine]:
    """An engine of these connections, and a pipeline of its owner for each server."""
    engine = LocalEngine(catalog=Catalog([Outside]), connections=Connections.of(TABLES, {}))
    for server in servers:
        engine.load(pipeline(server), token=server, remote=False)
    try:
        yield engine
    finally:
        await engine.aclose()


@pytest.mark.promise("connections:not-from-strangers")
async def test_the_pipeline_of_a_stranger_names_only_shared_connections() -> None:
    async with engine_with("own") as engine, pair(engine) as owner, pair(engine, trusted=False) as stranger:
        await owner.use(pipeline=pipeline("own"), token="owner's")
        for token in ("own", "owner's"):  # it is offered by its owner
            assert await stranger.tool(tool="sent", token=token) is None
        await stranger.use(pipeline=pipeline("shared"), token="a")
        assert await stranger.tool(tool="sent", token="a") is None
        await stranger.use(pipeline=pipeline("own"), token="b")
        for client in (stranger, owner):  # it is the stranger's pipeline, whoever calls
            with pytest.raises(ConnectionUnknown) as raised:
                await client.tool(tool="sent", token="b")
            assert raised.value.data["near"] == []


@pytest.mark.promise("connections:authorization")
async def test_an_authorization_reaches_only_servers_whose_connection_forwards_it() -> None:
    given = {"userId": "u", "authorization": TOKEN}
    async with (
        engine_with("shared", "forwarding") as engine,
        pair(engine, context=given) as client,
        pair(engine) as other,
    ):
        assert await client.tool(tool="sent", token="forwarding") == TOKEN
        assert await client.tool(tool="sent", token="shared") is None
        assert await other.tool(tool="sent", token="forwarding") is None
        assert await other.tool(tool="sent", token="forwarding", context={"authorization": "Basic eDp5"}) == "Basic eDp5"
        assert await client.tool(tool="sent", token="forwarding", context={"userId": "v"}) is None  # replaced as a whole


@pytest.mark.promise("connections:authorization")
@pytest.mark.promise("secrets:never-leave")
async def test_an_authorization_and_a_secret_are_in_no_failure_event_or_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[Any] = []
    async with engine_with("forwarding") as engine:
        engine.subscribe(Filter(data=True), told.append)
        async with pair(engine, context={"authorization": TOKEN}) as client:
            with pytest.raises(ToolError) as raised:
                await client.tool(
                    tool="fails", input={"said": f"the key is {KEY}"}, progress=lambda *progress: told.append(progress)
                )
    said = repr([raised.value.message, raised.value.data, told, caplog.text, Caller(authorization=TOKEN)])
    assert "sending ${authorization}" in said
    assert raised.value.message == "refused: ${authorization}"
    assert "'said': 'the key is ${forwarding.headers.Key}'" in said
    assert "{'key': '${forwarding.headers.Key}'}" in said
    assert [core for core in (TOKEN.split()[1], KEY) for form in (core, core.encode().hex()) if form in said] == []


@pytest.mark.parametrize("wrong", ["", "Bearer x\r\nHost: y", "ü", "x" * 16_385, 7])
async def test_an_authorization_that_no_header_can_have_is_refused(wrong: Any) -> None:
    async with engine_with("shared") as engine, pair(engine) as client:
        with pytest.raises(InvalidArguments) as raised:
            await client.tool(tool="sent", context={"authorization": wrong})
    assert raised.value.data["errors"][0]["path"] == "/context/authorization"
