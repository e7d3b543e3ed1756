"""`search_exa`: what it asks of the service, by a key and by a connection, and what becomes of the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rrext.errors import RrextError
from rrext.nodes.base.lanes import new_question
from rrext.testing import open_pipeline

from running import component, pipeline  # isort: skip
from search_service import FOUND, SearchService, searching  # isort: skip

pytest.importorskip("httpx2", reason="the extra `http` is not installed")

KEY = "exa-key-4711-secret"


@pytest.fixture
def service() -> Iterator[SearchService]:
    with searching() as found:
        yield found


async def searched(question: Any, connections: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """The result of one question."""
    text = pipeline(
        component("chat_1", "chat"),
        component("search_1", "search_exa", "questions:chat_1", **config),
        component("out_1", "response", "answers:search_1", "text:search_1"),
    )
    async with open_pipeline(text, connections=connections, env={}) as client:
        asked = question if isinstance(question, dict) else new_question(question)
        return await client.send(json.dumps(asked), mimetype="application/rocketride-question")


async def test_a_question_is_one_search_and_its_results_are_the_answer(service: SearchService) -> None:
    body = await searched("What is the rent?", base_url=service.address, apikey=KEY)
    said = json.loads(body["answers"][0])
    assert said.pop("material").startswith("Others wrote this")
    assert said == FOUND
    assert json.loads(body["text"][0]) == json.loads(body["answers"][0])
    ((path, headers, request),) = service.asked
    assert (path, headers["x-api-key"]) == ("/search", KEY)
    assert request == {
        "query": "What is the rent?",
        "type": "auto",
        "numResults": 5,
        "contents": {"highlights": {"maxCharacters": 600}},
    }


async def test_rocketrides_files_have_the_key_beside_the_section_of_the_profile(service: SearchService) -> None:
    section = {"type": "neural", "numResults": 3, "includeHighlights": False, "highlightChars": 600}
    config = {"apikey": KEY, "profile": "default", "default": {**section, "base_url": service.address}}
    await searched("rent", **config)
    ((_, headers, request),) = service.asked
    assert headers["x-api-key"] == KEY
    assert request == {"query": "rent", "type": "neural", "numResults": 3}


async def test_the_key_may_stand_in_a_connection_of_the_operator(service: SearchService) -> None:
    tables = {"exa": {"provider": "http", "url": service.address, "headers": {"x-api-key": KEY}}}
    body = await searched("rent", tables, connection="exa")
    assert json.loads(body["answers"][0])["results"] == FOUND["results"]
    ((path, headers, _),) = service.asked
    assert (path, headers["x-api-key"]) == ("/search", KEY)


async def test_a_question_for_json_gets_the_value(service: SearchService) -> None:
    body = await searched({**new_question("rent"), "expectJson": True}, base_url=service.address, apikey=KEY)
    assert body["answers"][0]["results"] == FOUND["results"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((401, {"error": f"bad key {KEY}"}), "search_unauthorized"),
        ((400, {"error": "bad type"}), "search_bad_request"),
        ((200, b"<html>"), "search_bad_answer"),
        ((200, []), "search_bad_answer"),
        ((200, {"results": "none"}), "search_bad_answer"),
    ],
)
async def test_a_failure_of_the_service_fails_the_question_and_shows_no_key(
    service: SearchService, answer: tuple[int, Any], code: str
) -> None:
    service.answer = answer
    with pytest.raises(RrextError) as caught:
        await searched("rent", base_url=service.address, apikey=KEY)
    assert caught.value.code == code
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("question", [" \n", "x" * 2001])
async def test_a_question_without_words_or_with_too_many_is_no_search(service: SearchService, question: str) -> None:
    with pytest.raises(RrextError) as caught:
        await searched(question, base_url=service.address, apikey=KEY)
    assert caught.value.code == "invalid_question"
    assert service.asked == []


async def test_without_a_key_or_with_an_unknown_connection_the_node_says_what_to_set() -> None:
    with pytest.raises(RrextError, match="no key for Exa"):
        await searched("rent")
    with pytest.raises(RrextError, match='no connection "exo"'):
        await searched("rent", {"exa": {"provider": "http", "url": "http://127.0.0.1:1"}}, connection="exo")
