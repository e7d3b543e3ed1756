"""Prompts, resources, templates and completions of servers behind a node and a reference reach the official Python client, in
each era and over each transport.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from mcp_server import HERE, RREXT, served_by_http
from outside_servers import MODES, WAYS, pipeline_words, served_by_ws, stdio

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.promise("mcp:passes-on")

PREFIXES = {"node": "node_1", "whole": "whole"}
OWN = ("own://one", "own://two?a=b#c")
URIS = {"node": "rrext:///outside/node_1/", "whole": "rrext:///outside/mcp%3Awhole/"}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    server = [sys.executable, str(HERE / "offering_server.py")]
    servers = {name: [*server, name] for name in PREFIXES}
    return pipeline_words(tmp_path_factory.mktemp("offering"), servers, whole=["whole"])


@pytest.fixture(scope="module")
def over_http(words: list[str]) -> Iterator[str]:
    with served_by_http([*RREXT, *words]) as url:
        yield url


@pytest.fixture(scope="module")
def over_ws(words: list[str]) -> Iterator[str]:
    with served_by_ws(words) as url:
        yield url


@pytest.fixture(params=WAYS, ids="-".join)
async def client(request: pytest.FixtureRequest, words: list[str]) -> AsyncIterator[Client]:
    from mcp import Client

    transport, era = request.param
    server = stdio(words) if transport == "stdio" else request.getfixturevalue(f"over_{transport}")
    async with Client(server, mode=MODES[era]) as connected:
        yield connected


async def everything(ask: Any, member: str) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await ask(cursor=cursor)
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_all_servers_offer_all_under_names_and_uris_of_their_own(client: Client) -> None:
    prompts = await everything(client.list_prompts, "prompts")
    assert [each.name for each in prompts] == [
        f"{prefix}__{name}" for prefix in PREFIXES.values() for name in ("greet", "b__c")
    ]
    assert prompts[0].arguments[0].required
    resources = await everything(client.list_resources, "resources")
    assert [each.uri for each in resources] == [
        f"{uri}{own}" for uri in URIS.values() for own in ("own://one", "own://two?a=b#c")
    ]
    templates = await everything(client.list_resource_templates, "resource_templates")
    assert [each.uri_template for each in templates] == [f"{uri}own://{{+path}}" for uri in URIS.values()]


@pytest.mark.parametrize("server", PREFIXES)
async def test_what_is_asked_for_is_that_of_its_server(server: str, client: Client) -> None:
    from mcp import MCPError
    from mcp_types import PromptReference, ResourceTemplateReference

    prefix, uri = PREFIXES[server], URIS[server]
    for name in ("greet", "b__c"):
        (message,) = (await client.get_prompt(f"{prefix}__{name}", {"who": "Ada"})).messages
        assert (message.role, message.content.text) == ("assistant", f"{server} {name} Ada")  # type: ignore[union-attr]
    for own in OWN:
        (content,) = (await client.read_resource(f"{uri}{own}")).contents
        assert (content.uri, content.mime_type) == (f"{uri}{own}", "text/x-own")
        assert content.text == f"{server} {own}"  # type: ignore[union-attr]
    argument = {"name": "who", "value": "A"}
    of_prompt = await client.complete(PromptReference(name=f"{prefix}__greet"), argument)
    assert (of_prompt.completion.values, of_prompt.completion.has_more) == ([f"{server} greet"], True)
    of_template = await client.complete(ResourceTemplateReference(uri=f"{uri}own://{{+path}}"), argument)
    assert of_template.completion.values == [f"{server} own://{{+path}}"]
    for failing in (client.get_prompt(f"{prefix}__none", {}), client.read_resource(f"{uri}own://none")):
        with pytest.raises(MCPError) as caught:
            await failing
        assert caught.value.code == -32602
