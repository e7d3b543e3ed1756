"""What servers of each era ask is asked of the user of the official Python client, in each era and over each transport."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp_server import HERE, RREXT, served_by_http
from outside_servers import ERAS, MODES, WAYS, pipeline_words, served_by_ws, stdio

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.promise("mcp:questions")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words of a command that name a pipeline with a server of each era."""
    server = [sys.executable, str(HERE / "asking_server.py")]
    return pipeline_words(tmp_path_factory.mktemp("asking"), {era: [*server, era] for era in ERAS})


@pytest.fixture(scope="module")
def over_http(words: list[str]) -> Iterator[str]:
    with served_by_http([*RREXT, *words]) as url:
        yield url


@pytest.fixture(scope="module")
def over_ws(words: list[str]) -> Iterator[str]:
    with served_by_ws(words) as url:
        yield url


class User:
    """Answers, and remembers what was asked."""

    def __init__(self, action: Any = "accept", content: Any = None) -> None:
        self.asked: list[Any] = []
        self._action = action
        self._content = content

    async def __call__(self, context: object, params: Any) -> Any:
        from mcp_types import ElicitResult

        self.asked.append(params.model_dump(by_alias=True, exclude_none=True))
        return ElicitResult(action=self._action, content=self._content)


@pytest.fixture(params=WAYS, ids="-".join)
def connect(request: pytest.FixtureRequest, words: list[str]) -> Any:
    """Connects a client with a user, or without one."""
    from mcp import Client

    transport, era = request.param
    url = "" if transport == "stdio" else request.getfixturevalue(f"over_{transport}")

    def connect(user: User | None) -> Client:
        return Client(url or stdio(words), mode=MODES[era], elicitation_callback=user)

    return connect


@pytest.mark.parametrize(("action", "content"), [("accept", {"size": "L"}), ("decline", None)], ids=["accept", "decline"])
async def test_the_user_is_asked_and_the_server_gets_the_answer(action: str, content: Any, connect: Any) -> None:
    user = User(action, content)
    given = {"action": action} if content is None else {"action": action, "content": content}
    async with connect(user) as client:
        for server in ERAS:
            result = await client.call_tool(f"{server}_1__act", {})
            assert not result.is_error
            assert json.loads(result.content[0].text) == given
    asked, again = user.asked
    assert again["message"] == "Which size?"
    assert asked["message"] == "Which size?"
    assert asked["requestedSchema"]["properties"]["size"]["enum"] == ["S", "L"]


@pytest.mark.parametrize("server", ERAS)
async def test_a_client_that_has_no_user_is_not_asked(server: str, connect: Any) -> None:
    async with connect(None) as client:
        result = await client.call_tool(f"{server}_1__act", {})
    text = result.content[0].text
    assert "Elicitation not supported" in text if server == "legacy" else "which its caller cannot give" in text


async def test_a_call_that_is_cancelled_while_its_user_is_asked_ends(connect: Any) -> None:
    class Slow(User):
        async def __call__(self, context: object, params: Any) -> Any:
            self.asked.append(params)
            scope.cancel()
            await anyio.sleep_forever()

    async with connect(Slow()) as client:
        with anyio.CancelScope() as scope:
            await client.call_tool("legacy_1__act", {})
        assert scope.cancelled_caught
        assert len((await client.list_tools()).tools) == 2
