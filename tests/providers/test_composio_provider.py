"""Tools of Composio over a server that speaks its documented API and nothing else."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from api_server import ApiHost, Reply, api_host
from composio_api import KEY, ComposioApi, tool
from outside import answered, provider_of

from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown, ToolError, ToolNotFound
from rrext.providers.http.composio import CATALOG_TTL
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio

STARS = tool("GITHUB_LIST_STARGAZERS", tags=["important", "readOnlyHint"])
WHO = tool("GITHUB_GET_THE_AUTHENTICATED_USER", input_parameters={})


def of(host: ApiHost, **more: Any) -> dict[str, Any]:
    return {"integration": "github", "key": "env:COMPOSIO_API_KEY", "account": "ca_1", "url": host.url + "/api/v3", **more}


def composio(host: ApiHost, key: str = KEY, **more: Any) -> Any:
    return provider_of("composio", of(host, **more), variables={"COMPOSIO_API_KEY": key}, name="github-tvn")


@pytest.mark.promise("provider:composio")
async def test_the_tools_of_an_integration_have_the_names_of_their_actions() -> None:
    with api_host(ComposioApi(STARS, tool("GMAIL_SEND_EMAIL", "gmail"), WHO)) as host:
        async with composio(host) as provider:
            stars, who = await provider.tools()
    assert (stars.name, stars.description) == ("LIST_STARGAZERS", "Does GITHUB_LIST_STARGAZERS.")
    assert stars.input_schema["required"] == ["owner"]
    assert stars.input_schema["properties"]["owner"]["type"] == ["string", "null"]
    assert stars.annotations == {"title": "List stargazers", "readOnlyHint": True}
    assert (who.name, who.input_schema) == ("GET_THE_AUTHENTICATED_USER", {"type": "object"})


@pytest.mark.promise("provider:composio")
async def test_an_action_is_executed_for_the_account_in_the_version_of_the_catalog() -> None:
    api = ComposioApi(STARS)
    with api_host(api) as host:
        async with composio(host) as provider:
            found = await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
    assert found == {
        "did": "GITHUB_LIST_STARGAZERS",
        "arguments": {"owner": "me"},
        "connected_account_id": "ca_1",
        "version": "20251027_00",
    }
    assert api.violations == []


async def test_a_user_may_stand_for_the_account() -> None:
    with api_host(ComposioApi(STARS)) as host:
        table = {key: value for key, value in of(host, user="user-1").items() if key != "account"}
        async with provider_of("composio", table, variables={"COMPOSIO_API_KEY": KEY}) as provider:
            found = await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
    assert found["user_id"] == "user-1"
    assert "connected_account_id" not in found


async def test_all_pages_of_a_catalog_are_read() -> None:
    api = ComposioApi(*(tool(f"GITHUB_ACTION_{number}") for number in range(250)))
    with api_host(api) as host:
        async with composio(host) as provider:
            assert [found.name for found in await provider.tools()] == [f"ACTION_{number}" for number in range(250)]
    assert [asked.path for asked in api.asked] == ["/api/v3/connected_accounts/ca_1", *["/api/v3/tools"] * 3]


async def test_a_version_may_be_chosen() -> None:
    old = tool("GITHUB_OLD", available_versions=["20250101_00"])
    with api_host(ComposioApi(STARS, old)) as host:
        async with composio(host, version="20250101_00") as provider:
            assert [found.name for found in await provider.tools()] == ["OLD"]


async def test_a_tool_that_cannot_be_used_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[Any] = [
        None,
        {"toolkit": {"slug": "github"}},
        tool("GITHUB_../X"),
        tool("GITHUB_A", input_parameters={"type": "array"}),
        tool("GITHUB_B", input_parameters={"properties": {"x": {"$ref": "https://elsewhere.example"}}}),
        tool("GITHUB_C", input_parameters=[]),
    ]
    api = ComposioApi(STARS)
    page = {"items": [*broken, STARS], "next_cursor": None}
    with api_host(lambda asked: Reply(page) if asked.path.endswith("/tools") else api(asked)) as host:
        async with composio(host) as provider:
            with caplog.at_level(logging.WARNING):
                assert [found.name for found in await provider.tools()] == ["C", "LIST_STARGAZERS"]
    assert len(caplog.messages) == 5
    assert "connection github-tvn: the tool GITHUB_A is left out: its input is no object" in caplog.messages


# the catalog is kept


async def test_the_catalog_is_asked_for_once_until_it_is_old() -> None:
    api = ComposioApi(STARS)
    with api_host(api) as host:
        async with composio(host) as provider:
            changes: list[int] = []
            provider.watch(lambda: changes.append(1))
            for _ in range(3):
                await provider.tools()
                await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
            assert len([asked for asked in api.asked if asked.method == "GET"]) == 2
            provider.services.clock.time = CATALOG_TTL
            await provider.tools()
            assert changes == []
            api.tools.append(WHO)
            provider.services.clock.time = 2 * CATALOG_TTL
            assert len(await provider.tools()) == 2
            assert changes == [1]


async def test_a_catalog_without_end_ends() -> None:
    api = ComposioApi(STARS)
    page = {"items": [STARS], "next_cursor": "again"}
    with api_host(lambda asked: Reply(page) if asked.path.endswith("/tools") else api(asked)) as host:
        async with composio(host) as provider:
            assert len(await provider.tools()) == 1
        assert len(host.asked) == 51


# accounts


@pytest.mark.promise("provider:composio:accounts")
@pytest.mark.parametrize(
    ("account", "error", "why"),
    [
        (None, ConnectionUnknown, 'Composio does not know the account "ca_1"'),
        (ComposioApi.account("ca_1", "INACTIVE"), ConnectionInactive, "switched off at Composio"),
        (ComposioApi.account("ca_1", "ACTIVE", is_disabled=True), ConnectionInactive, "switched off at Composio"),
        (ComposioApi.account("ca_1", "EXPIRED"), ConnectionInvalid, "has expired"),
        (ComposioApi.account("ca_1", "INITIATED"), ConnectionInvalid, "has not authorized it yet"),
        (ComposioApi.account("ca_1", "INITIALIZING"), ConnectionInvalid, "has not authorized it yet"),
        (ComposioApi.account("ca_1", "FAILED"), ConnectionInvalid, "failed"),
        (ComposioApi.account("ca_1", "REVOKED"), ConnectionInvalid, "was revoked"),
        (ComposioApi.account("ca_1", "ACTIVE", "gmail"), ConnectionInvalid, "is one of gmail, not of github"),
    ],
)
async def test_an_account_that_cannot_be_used_is_one_of_three_errors(
    account: dict[str, Any] | None, error: type[Exception], why: str
) -> None:
    api = ComposioApi(STARS)
    api.accounts = {} if account is None else {"ca_1": account}
    with api_host(api) as host:
        async with composio(host) as provider:
            with pytest.raises(error, match=why) as caught:
                await provider.tools()
            api.accounts["ca_1"] = ComposioApi.account("ca_1", "ACTIVE")
            assert len(await provider.tools()) == 1, "an account that works again is seen at once"
    assert caught.value.data["connection"] == "github-tvn"  # type: ignore[attr-defined]


async def test_a_key_that_is_refused_makes_the_connection_invalid_and_is_not_told() -> None:
    with api_host(ComposioApi(STARS)) as host:
        async with composio(host, key="ak_falsch_gluon") as provider:
            with pytest.raises(ConnectionInvalid, match="refuses its key: .* answered 401: Invalid API key") as caught:
                await provider.tools()
    assert "gluon" not in caught.value.message


async def test_an_account_that_expires_fails_its_calls() -> None:
    api = ComposioApi(STARS)
    with api_host(api) as host:
        async with composio(host) as provider:
            await provider.tools()
            api.accounts["ca_1"] = ComposioApi.account("ca_1", "EXPIRED")
            with pytest.raises(ToolError, match="Connected account is not active") as caught:
                await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
    assert caught.value.code == "composio_bad_request"


# failures


async def test_a_tool_that_failed_is_a_failure_though_the_status_is_200() -> None:
    api = ComposioApi(STARS)
    api.results["GITHUB_LIST_STARGAZERS"] = {
        "data": {"status_code": 404}, "error": f"Not\nFound, said {KEY}", "successful": False, "log_id": "log_7"
    }  # fmt: skip
    with api_host(api) as host:
        async with composio(host) as provider:
            with pytest.raises(ToolError, match="the tool failed: Not Found, said") as caught:
                await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
        assert len([asked for asked in api.asked if asked.method == "POST"]) == 1
    assert caught.value.code == "composio_failed"
    assert caught.value.data == {"data": {"status_code": 404}, "log_id": "log_7"}
    assert KEY not in caught.value.message


@pytest.mark.parametrize("said", [{}, [], {"data": 1}, {"successful": "yes", "data": 1}, None])
async def test_an_answer_that_does_not_say_whether_it_worked_is_a_failure(said: Any) -> None:
    api = ComposioApi(STARS)
    with api_host(lambda asked: Reply(said) if asked.method == "POST" else api(asked)) as host:
        async with composio(host) as provider:
            with pytest.raises(ToolError) as caught:
                await provider.call("LIST_STARGAZERS", {"owner": "me"}, ToolContext())
    assert caught.value.code == "composio_bad_answer"


async def test_an_unknown_action_is_not_found_with_its_near_matches() -> None:
    with api_host(ComposioApi(STARS)) as host:
        async with composio(host) as provider:
            with pytest.raises(ToolNotFound, match="LIST_STARGAZERS"):
                await provider.call("GITHUB_LIST_STARGAZERS", {}, ToolContext())


async def test_the_key_comes_back_in_no_result_and_the_callers_authorization_goes_along() -> None:
    api = ComposioApi(STARS)

    def echo(asked: Any) -> Reply:
        return Reply({"data": asked.headers, "successful": True}) if asked.method == "POST" else api(asked)

    with api_host(echo) as host:
        async with composio(host, forward_authorization=True) as provider:
            ctx = ToolContext(authorization="Bearer caller")
            said = await answered(provider, "LIST_STARGAZERS", {"owner": "me"}, ctx)
        (asked,) = [asked for asked in host.asked if asked.method == "POST"]
    assert asked.headers["authorization"] == "Bearer caller"
    assert said["x-api-key"] == "${github-tvn.key}"
    assert said["authorization"] == "${authorization}"
    assert KEY not in json.dumps(said)
