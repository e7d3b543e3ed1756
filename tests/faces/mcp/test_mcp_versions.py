"""Both eras of the protocol are spoken: with a handshake up to 2025-11-25, and without one since 2026-07-28."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mcp_host import HELLO, META, VERSION, Host

from rrext import __version__

SERVER = {"name": "rrext", "version": __version__}


@pytest.fixture
def host() -> Iterator[Host]:
    """A host of its own, which has said nothing."""
    with Host() as host:
        yield host


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_handshake_agrees_on_the_version_that_the_host_asks_for(version: str, host: Host) -> None:
    result = host.result("initialize", {**HELLO, "protocolVersion": version})
    assert result == {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": SERVER}


def test_a_handshake_with_an_unknown_version_is_offered_the_newest_that_has_one(host: Host) -> None:
    assert host.result("initialize", {**HELLO, "protocolVersion": "1999-01-01"})["protocolVersion"] == "2025-11-25"


def test_a_second_handshake_is_refused(legacy: Host) -> None:
    assert legacy.failure("initialize", {**HELLO, "protocolVersion": "2025-11-25"})["code"] == -32600


def test_discovery_takes_the_place_of_the_handshake(modern: Host) -> None:
    found = modern.result("server/discover")
    assert found["supportedVersions"][0] == VERSION
    assert found["capabilities"] == {"tools": {"listChanged": True}}
    assert found["_meta"] == {"io.modelcontextprotocol/serverInfo": SERVER}
    assert found["resultType"] == "complete"
    assert found["ttlMs"] == 0
    assert found["cacheScope"] == "private"


def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(modern: Host) -> None:
    error = modern.failure("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}})
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2031-01-01"
    assert VERSION in error["data"]["supported"]


def test_results_without_a_handshake_say_that_they_are_complete_and_others_do_not(modern: Host, legacy: Host) -> None:
    assert modern.result("ping") == {"resultType": "complete"}
    assert legacy.result("ping") == {}
