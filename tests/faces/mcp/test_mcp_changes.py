"""A host is told when the list of tools changes: by itself after a handshake, by a subscription without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_host import Host

HERE = Path(__file__).resolve().parent
CHANGED = "notifications/tools/list_changed"
KEY = "io.modelcontextprotocol/subscriptionId"

pytestmark = pytest.mark.promise("mcp:list-changed")


def changing(*, shakes_hands: bool) -> Host:
    return Host("--nodes", str(HERE / "changing_nodes.py"), files=[HERE / "changing.pipe"], shakes_hands=shakes_hands)


@pytest.fixture
def legacy() -> Iterator[Host]:
    with changing(shakes_hands=True) as host:
        yield host


@pytest.fixture
def modern() -> Iterator[Host]:
    with changing(shakes_hands=False) as host:
        yield host


def names(host: Host) -> set[str]:
    """The tools, but those that do not change."""
    return {tool["name"] for tool in host.result("tools/list")["tools"]} - {"await_file", "connections_gone"}


def test_a_host_with_a_handshake_is_told_and_lists_the_new_tool(legacy: Host) -> None:
    assert legacy.initialized["capabilities"] == {"tools": {"listChanged": True}}
    assert names(legacy) == {"grow"}
    legacy.notes.clear()
    call = legacy.ask("tools/call", {"name": "grow", "arguments": {"name": "shrink"}})
    legacy.answer(call)
    told = legacy.notes or [legacy.message()]
    assert [note["method"] for note in told] == [CHANGED]
    assert names(legacy) == {"grow", "shrink"}
    assert legacy.value("shrink") == {"result": "shrink"}


def test_a_host_without_a_handshake_is_told_by_its_subscriptions_alone_until_it_cancels_them(modern: Host) -> None:
    names(modern)
    for wanted in ({"toolsListChanged": True, "promptsListChanged": True}, {}):
        modern.ask("subscriptions/listen", {"notifications": wanted})
    acknowledged = [modern.message() for _ in range(2)]
    assert [note["method"] for note in acknowledged] == ["notifications/subscriptions/acknowledged"] * 2
    first, second = (note["params"] for note in acknowledged)
    assert first["notifications"] == {"toolsListChanged": True}
    assert second["notifications"] == {}
    modern.call("grow", name="one")
    told = modern.notes.pop() if modern.notes else modern.message()
    assert (told["method"], told["params"]["_meta"]) == (CHANGED, {KEY: first["_meta"][KEY]})
    modern.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first["_meta"][KEY]}})
    modern.notes.clear()
    modern.call("grow", name="two")
    assert names(modern) == {"grow", "one", "two"}
    assert modern.notes == []


def test_a_subscription_that_is_cancelled_in_the_same_read_is_never_open(modern: Host) -> None:
    modern.write(
        b'{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}\n'
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}\n'
    )
    modern.call("grow", name="one")
    modern.result("ping")
    assert [note for note in modern.notes if note.get("method") == CHANGED] == []


def test_the_id_of_an_open_subscription_is_taken_and_a_wrong_filter_is_refused(modern: Host) -> None:
    assert modern.failure("subscriptions/listen", {"notifications": 7})["code"] == -32602
    listen = {"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": {"notifications": {}}}
    modern.send(listen)
    assert modern.message()["method"] == "notifications/subscriptions/acknowledged"
    modern.send({"jsonrpc": "2.0", "id": "l", "method": "ping"})
    assert modern.message()["error"]["code"] == -32600


def test_a_host_that_did_not_listen_is_told_nothing(modern: Host) -> None:
    modern.call("grow", name="one")
    modern.result("ping")
    assert modern.notes == []
