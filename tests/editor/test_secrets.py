"""Which values are not for showing."""

from __future__ import annotations

from typing import Any

import pytest

from rrext.secrets.names import HIDDEN, is_secret, masked


@pytest.mark.parametrize(
    "key",
    [
        "apikey",
        "apiKey",
        "API_KEY",
        "X-API-Key",
        "openaiKey",
        "token",
        "accessToken",
        "PASSWORD",
        "client_secret",
        "Authorization",
        "key",
        "privateKey",
        "connectionString",
        "dbPassword",
        "awsCredentials",
        "secureParameters",
    ],
)
def test_what_opens_something_is_secret(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key", ["maxTokens", "max_tokens", "tokenizer", "author", "primaryKey", "laneKey", "monkey", "keyboard", "model", ""]
)
def test_what_only_sounds_like_it_is_none(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"apikey": "k"}, {"apikey": HIDDEN}),
        ({"apikey": ""}, {"apikey": ""}),
        ({"apikey": "${ROCKETRIDE_KEY}"}, {"apikey": "${ROCKETRIDE_KEY}"}),
        ({"apikey": "${ROCKETRIDE_KEY}x"}, {"apikey": HIDDEN}),
        ({"credentials": {"user": "u", "tries": 3}}, {"credentials": {"user": HIDDEN, "tries": 3}}),
        ({"tokens": 5, "token": 5}, {"tokens": 5, "token": 5}),
        ({"secureParameters": {"n": 5, "a": [True, None]}}, {"secureParameters": {"n": HIDDEN, "a": [HIDDEN, None]}}),
        (["postgres://u:p@h/d?x=1"], [f"postgres://u:{HIDDEN}@h/d?x=1"]),
        (("https://h:80/a@b",), ["https://h:80/a@b"]),
    ],
)
def test_secrets_are_hidden_and_the_rest_is_not(value: Any, shown: Any) -> None:
    assert masked(value) == shown


def test_a_value_is_hidden_by_the_key_that_it_stands_under() -> None:
    assert masked("k", "apikey") == HIDDEN
    assert masked("k", "name") == "k"
    assert masked(["k"], "name", everything=True) == [HIDDEN]
