"""Connections are found by name and provider, or three different errors say why not."""

from __future__ import annotations

import pytest

from rrext.connections import Connections
from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown
from rrext.secrets.redaction import Redactor

GIVEN = {
    "github": {"provider": "mcp", "command": ["server"], "env": {"TOKEN": "env:GITHUB_TOKEN"}},
    "docs": {"provider": "mcp", "url": "https://docs.example/mcp", "active": False, "headers": {"A": "env:NOT_SET"}},
    "broken": {"provider": "mcp", "command": "server", "timeout": float("inf"), "enf": {}, "env": {"K": "env:MISSING"}},
    "shop": {"provider": "http", "url": "https://shop.example/{id}"},
}
CONNECTIONS = Connections.of(GIVEN, {"GITHUB_TOKEN": "ghp-1234567890"})


def test_a_connection_has_its_settings_and_its_secrets() -> None:
    found = CONNECTIONS.find("github", "mcp")
    assert (found.name, found.provider, found.active, found.forward_authorization) == ("github", "mcp", True, False)
    assert found.settings.env["TOKEN"].reveal() == "ghp-1234567890"  # pyright: ignore[reportAttributeAccessIssue]
    assert "ghp" not in repr(found)
    assert CONNECTIONS.variables == {"GITHUB_TOKEN", "NOT_SET", "MISSING"}


def test_a_name_that_is_not_there_has_near_matches_of_the_provider() -> None:
    with pytest.raises(ConnectionUnknown, match='Did you mean "github"') as raised:
        CONNECTIONS.find("git-hub", "mcp")
    assert raised.value.data == {"near": ["github"], "connection": "git-hub"}
    with pytest.raises(ConnectionUnknown, match="it is for http"):
        CONNECTIONS.find("shop", "mcp")


def test_a_connection_that_is_switched_off_says_so() -> None:
    with pytest.raises(ConnectionInactive, match="switched off"):
        CONNECTIONS.find("docs", "mcp")


def test_a_table_with_problems_makes_only_its_connection_invalid_and_tells_all() -> None:
    with pytest.raises(ConnectionInvalid) as raised:
        CONNECTIONS.find("broken", "mcp")
    assert [problem.path for problem in CONNECTIONS.problems] == [entry["path"] for entry in raised.value.data["errors"]]
    assert {problem.path for problem in CONNECTIONS.problems} == {
        "/broken/command",
        "/broken/timeout",
        "/broken/enf",
        "/broken/env/K",
    }
    assert CONNECTIONS.names() == ("broken", "docs", "github", "shop")


@pytest.mark.promise("secrets:never-leave")
def test_the_address_of_a_document_has_secrets_too() -> None:
    table = {"provider": "http", "openapi": "https://shop.example/a/openapi.json?key=0123456789abcdef"}
    redactor = Redactor()
    Connections.of({"shop": table}).known_to(redactor)
    assert redactor.text("GET /a/openapi.json?key=0123456789abcdef") == "GET /a/openapi.json?key=${shop.url}"
    with_password = Connections.of({"shop": {"provider": "http", "openapi": "https://me:s3cretpass@shop.example/a.json"}})
    assert [str(problem) for problem in with_password.problems] == [
        "/shop/openapi: a name or password in a URL is not sent: use headers"
    ]


def test_a_redactor_learns_the_secrets() -> None:
    redactor = Redactor()
    CONNECTIONS.known_to(redactor)
    assert redactor.text("sent ghp-1234567890") == "sent ${github.env.TOKEN}"


@pytest.mark.promise("secrets:never-leave")
@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("DEBUG", "true", False),
        ("USE_TOKEN", "False", False),
        ("MODE", "fast", False),
        ("LOG_LEVEL", "verbose", False),
        ("LOG_LEVEL", "eight888", True),
        ("API_KEY", "abc123", True),
        ("password", "fish", True),
        ("MODE", "env:FISH", True),
        ("DEBUG", "env:FLAG", False),
    ],
)
def test_a_setting_is_a_secret_by_its_name_its_place_or_its_length(name: str, value: str, is_secret: bool) -> None:
    variables = {"FISH": "fish", "FLAG": "true"}
    found = Connections.of({"s": {"provider": "mcp", "command": ["x"], "env": {name: value}}}, variables)
    redactor = Redactor()
    found.known_to(redactor)
    value = variables.get(value.removeprefix("env:"), value)
    assert redactor.text(f"it is {value}.") == (f"it is ${{s.env.{name}}}." if is_secret else f"it is {value}.")
