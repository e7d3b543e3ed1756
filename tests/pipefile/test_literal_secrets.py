"""A secret that stands in a file is a warning that does not repeat it; a name, a placeholder and a variable are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.component_reader import literal_secrets
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

CATALOG = Catalog(installed=False)
BODY = "Zq7Rk2Lm9Xw4Tb6Yh1Nc8Vd3Pf5Gj0SaQeUi"
KEYS = [
    f"sk-ant-api03-{BODY}",
    f"sk-or-v1-{BODY}",
    f"sk-proj-{BODY}",
    "sk-" + "0123456789abcdef" * 2,
    "AKIA" + "Q7RK2LM9XW4TB6YH",
    "AIza" + BODY[:35],
    f"ghp_{BODY}",
    f"github_pat_{BODY}{BODY}",
    f"glpat-{BODY}",
    f"xoxb-{BODY}",
    f"sk_live_{BODY}",
    f"hf_{BODY}",
    f"gsk_{BODY}{BODY}",
    f"tvly-dev-{BODY}",
    f"SG.{BODY}.{BODY}",
]


def pipeline(config: dict[str, Any], provider: str = "llm_openai") -> str:
    return json.dumps({"components": [{"id": "a", "provider": provider, "config": config}]})


def found(text: str) -> list[Any]:
    problems = load_pipeline(text, CATALOG, Environment(), strict_env=False, positions=True).problems
    return [problem for problem in problems if problem.code == "literal_secret"]


@pytest.mark.promise("check:secrets:not-repeated")
@pytest.mark.parametrize("secret", KEYS)
@pytest.mark.parametrize("around", ["{}", "Bearer {}", "Use the key {}, please."])
def test_a_key_of_a_known_form_is_found_in_any_setting_and_not_repeated(secret: str, around: str) -> None:
    text = pipeline({"notes": {"any": [around.format(secret)]}})
    (problem,) = found(text)
    assert (problem.severity, problem.path) == ("warning", "/components/0/config/notes/any/0")
    assert "${ROCKETRIDE_LLM_OPENAI_ANY}" in problem.message
    shown = repr(problem) + json.dumps(problem.as_json())
    assert secret not in shown
    assert BODY[:8] not in shown


@pytest.mark.parametrize("key", ["apikey", "api_key", "apiKey", "password", "client_secret", "accessToken", "private-key"])
def test_the_value_of_a_setting_that_holds_a_secret_is_found(key: str) -> None:
    (problem,) = found(pipeline({key: "tr0ub4dor-three"}))
    assert problem.path == f"/components/0/config/{key}"
    assert "tr0ub4dor" not in problem.message


@pytest.mark.parametrize(
    "config",
    [
        {"apikey": "${ROCKETRIDE_KEY}"},
        {"apikey": "Bearer ${ROCKETRIDE_KEY}12345678"},
        {"apikey": "your-api-key-1234"},
        {"apikey": "<put 1 key here>"},
        {"apikey": "not-needed-12"},
        {"apikey": "ollama"},
        {"password": "xxxxxxxx1"},
        {"model": "gpt-4o-mini-2024-07-18", "maxTokens": "1234567890ab"},
        {"primary_key": "customer_id_2024", "sort_key": "customer_id_2024"},
        {"text": "sk-learn-classification-pipeline-2, risk-management-report-2024-v2-final"},
        {"text": "sk-" + "x" * 30 + "1", "digest": "0123456789abcdef" * 4},
        {"secureParameters": {"token": BODY}},
        {"url": "postgres://user:${ROCKETRIDE_PASSWORD}@host/db", "other": "https://host:8080/a@b"},
    ],
)
def test_what_is_no_secret_is_left_alone(config: dict[str, Any]) -> None:
    assert found(pipeline(config)) == []


def test_a_password_in_an_address_and_a_private_key_are_found() -> None:
    config = {"url": "postgres://me:tr0ub4dor3@host/db", "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n"}
    assert {problem.path[-3:] for problem in found(pipeline(config))} == {"url", "pem"}


def test_a_pipeline_that_is_no_file_has_no_such_warning() -> None:
    loaded = load_pipeline(json.loads(pipeline({"apikey": KEYS[0]})), CATALOG, Environment())
    assert "literal_secret" not in {problem.code for problem in loaded.problems}


def test_no_text_of_an_object_has_the_secret() -> None:
    (secret,) = literal_secrets({"apikey": KEYS[0]}, "")
    assert KEYS[0] not in repr(secret)
