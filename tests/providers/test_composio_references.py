"""References to actions of Composio, resolved and called: the connection is checked before any action runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_server import api_host
from composio_api import KEY, ComposioApi, tool

from rrext.connections import Connections
from rrext.engine.interface.operations import CallTool, ResolveTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionUnknown, InvalidArguments
from rrext.nodes.basic.sources import ToolsNode
from rrext.pipefile.catalog.catalog import Catalog

pytestmark = pytest.mark.anyio

ACCOUNTS = {"tvn": "ca_1", "old": "ca_2", "off": "ca_3", "gone": "ca_9"}


def reference(connection: str, **more: str) -> dict[str, str]:
    found = {"type": "composio", "integration": "github", "action": "LIST_STARGAZERS", "connection": connection}
    return {**found, "name": connection, **more}


@pytest.mark.promise("provider:composio:accounts")
async def test_an_action_is_resolved_and_called_and_each_bad_connection_is_an_error_of_its_own() -> None:
    api = ComposioApi(tool("GITHUB_LIST_STARGAZERS"))
    api.accounts |= {"ca_2": api.account("ca_2", "EXPIRED"), "ca_3": api.account("ca_3", "INACTIVE")}
    with api_host(api) as host:
        table = {"provider": "composio", "integration": "github", "key": "env:K", "url": host.url + "/api/v3"}
        tables = {name: {**table, "account": account} for name, account in ACCOUNTS.items()}
        engine = LocalEngine(connections=Connections.of(tables, {"K": KEY}))

        async def ask(operation: Any) -> Any:
            body, _ = await engine.ask(operation)
            return json.loads(body)

        try:
            (found,) = (await ask(ResolveTools(tools=[reference("tvn")])))["custom"]
            assert found["call_ref"] == "tools.composio.github.LIST_STARGAZERS.tvn"
            assert found["input_schema"]["required"] == ["owner"]
            called = await ask(CallTool(call_ref=found["call_ref"], arguments={"owner": "me"}))
            assert called["result"]["connected_account_id"] == "ca_1"
            bad = [reference(name) for name in ("old", "off", "gone", "nope")]
            bad += [reference("tvn", integration="gmail"), reference("tvn", action="LIST_STARGAZER", name="x")]
            with pytest.raises(InvalidArguments) as caught:
                await ask(ResolveTools(tools=bad))
        finally:
            await engine.aclose()
    assert [(error["path"], error["code"]) for error in caught.value.data["errors"]] == [
        ("/tools/0/connection", "connection_invalid"),
        ("/tools/1/connection", "connection_inactive"),
        ("/tools/2/connection", "connection_unknown"),
        ("/tools/3/connection", "connection_unknown"),
        ("/tools/4/connection", "connection_unknown"),
        ("/tools/5/action", "tool_not_found"),
    ]
    assert len([asked for asked in api.asked if asked.method == "POST"]) == 1


@pytest.mark.promise("provider:composio:accounts")
@pytest.mark.parametrize("others_first", [False, True])
async def test_a_pipeline_gets_no_action_of_another_integration_by_the_connection_of_this_one(others_first: bool) -> None:
    api = ComposioApi(tool("GITHUB_LIST_STARGAZERS"))
    with api_host(api) as host:
        table = {"provider": "composio", "integration": "github", "key": KEY, "url": host.url + "/api/v3", "account": "ca_1"}
        engine = LocalEngine(catalog=Catalog([ToolsNode]), connections=Connections.of({"tvn": table}))
        references = [reference("tvn", name="good"), reference("tvn", name="bad", integration="gmail")]
        tools = {"tools": references[::-1] if others_first else references}
        engine.load({"components": [{"id": "tools_1", "provider": "tools", "config": tools}]}, token="t")
        try:
            body, _ = await engine.ask(Tool(tool="good", node_id="tools_1", input={"owner": "me"}))
            assert json.loads(body)["result"]["connected_account_id"] == "ca_1"
            with pytest.raises(ConnectionUnknown, match='"tvn" is for github, not for gmail'):
                await engine.ask(Tool(tool="bad", node_id="tools_1", input={"owner": "me"}))
        finally:
            await engine.aclose()
    assert len([asked for asked in api.asked if asked.method == "POST"]) == 1
