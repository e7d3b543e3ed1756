"""`summarization` and `dictionary`: what they ask the model bound to them, and what becomes of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rrext.errors import RrextError, ToolError
from rrext.testing import run_pipeline

from model_server import ModelServer, Say, serving  # isort: skip
from text_pipelines import bound, component, pipeline  # isort: skip

pytest.importorskip("httpx2", reason="the extra `llm` is not installed")

SUMMARY = {
    "summary": "A library.",
    "keyPoints": ["It is open.", {"title": "Fees", "summary": "There are some."}],
    "entities": ["Ada"],
}
TERMS = {"terms": [{"term": "Red  Loan", "description": "60 days late."}, {"term": "CPMD", "description": "A division."}]}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as found:
        yield found


def asked(server: ModelServer, provider: str, lanes: tuple[str, ...] = ("text", "documents"), **config: Any) -> dict[str, Any]:
    """A pipeline whose second node asks the model of the server."""
    return pipeline(
        component("in_1", "webhook"),
        component("node_1", provider, "text:in_1", **config),
        component(
            "model_1",
            "llm_openai_api",
            control=bound("node_1"),
            base_url=server.address,
            model="m",
            apikey="x",
            retryDelay=0.001,
        ),
        component("out_1", "response", *(f"{lane}:node_1" for lane in lanes)),
    )


def sent(server: ModelServer, provider: str, text: str, *answers: Any, **config: Any) -> dict[str, Any]:
    server.next(*(Say(answer if isinstance(answer, str) else json.dumps(answer)) for answer in answers))
    lanes = ("documents",) if provider == "dictionary" else ("text", "documents")
    return run_pipeline(asked(server, provider, lanes, **config), text, mimetype="text/plain")


def contents(body: dict[str, Any]) -> list[str]:
    return [document["page_content"] for document in body["documents"]]


def prompts(server: ModelServer) -> list[str]:
    return ["\n".join(message["content"] for message in asked.body["messages"]) for asked in server.asked]


def test_a_summary_goes_out_as_one_text_and_as_a_document_for_each_part_of_it(server: ModelServer) -> None:
    body = sent(server, "summarization", "The library is open.", SUMMARY)
    points = "- It is open.\n- Fees: There are some."
    assert body["text"] == [f"Summary:\nA library.\n\nKey Points:\n{points}\n\nEntities:\n- Ada\n\n"]
    assert contents(body) == ["Summary:\nA library.", f"Key Points:\n{points}", "Entities:\n- Ada"]
    assert [document["metadata"]["chunkId"] for document in body["documents"]] == [0, 1, 2]
    assert body["documents"][0]["metadata"]["objectId"] == body["objectId"]
    assert "metadata" not in body


def test_the_numbers_of_the_settings_are_asked_for_and_zero_asks_for_nothing(server: ModelServer) -> None:
    body = sent(server, "summarization", "Text.", SUMMARY, numberOfSummaryWords=33, numberOfKeyPointWords=0, numberOfEntities=0)
    assert contents(body) == ["Summary:\nA library."]
    (prompt,) = prompts(server)
    assert "at most 33 words" in prompt
    assert "important statements" not in prompt
    assert "material that others wrote" in prompt


def test_nothing_is_asked_about_nothing(server: ModelServer) -> None:
    for text, config in (
        (" \n ", {}),
        ("Text.", {"numberOfSummaryWords": 0, "numberOfKeyPointWords": 0, "numberOfEntities": 0}),
    ):
        assert "text" not in sent(server, "summarization", text, **config)
    assert "documents" not in sent(server, "dictionary", " ")
    assert server.asked == []


def test_a_long_text_is_summarised_in_parts_and_the_result_says_what_was_left_out(server: ModelServer) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 100 for number in range(12))
    body = sent(server, "summarization", text, SUMMARY, {**SUMMARY, "summary": "More."}, chunkCharacters=1500)
    assert body["metadata"] == {"summarized": {"parts": 6, "asked": 2}}
    assert body["text"][0].startswith("Summary:\nA library.\nMore.\n\nKey Points:\n- It is open.")
    assert body["text"][0].count("- Ada") == 1
    assert ["Paragraph 0" in prompt for prompt in prompts(server)] == [True, False]


def test_all_parts_are_summarised_if_the_operator_says_so(server: ModelServer) -> None:
    text = "\n\n".join("word " * 180 for _ in range(3))
    body = sent(server, "summarization", text, *[SUMMARY] * 3, chunkCharacters=1000, numberOfSummaries=0)
    assert len(server.asked) == 3
    assert "metadata" not in body


@pytest.mark.parametrize("answers", [(TERMS,), (TERMS["terms"],), (f"```json\n{json.dumps(TERMS)}\n```",)])
def test_each_term_becomes_a_document(server: ModelServer, answers: tuple[Any, ...]) -> None:
    body = sent(server, "dictionary", "A red loan is …", *answers)
    assert [json.loads(content) for content in contents(body)] == TERMS["terms"]


def test_a_term_counts_once_with_its_first_description(server: ModelServer) -> None:
    text = "\n\n".join("word " * 150 for _ in range(2))
    again = {"terms": [{"term": "red loan", "description": "other"}, {"term": " ", "description": "blank"}]}
    body = sent(server, "dictionary", text, TERMS, again, chunkCharacters=1000)
    assert [json.loads(content)["term"] for content in contents(body)] == ["Red  Loan", "CPMD"]


@pytest.mark.parametrize("provider", ["summarization", "dictionary"])
@pytest.mark.parametrize(
    "answer", [{"summary": 1, "terms": 1}, {"keyPoints": "none", "terms": [{"term": "x"}]}, "[1]", '"text"']
)
def test_json_of_another_form_fails_the_object(server: ModelServer, provider: str, answer: Any) -> None:
    with pytest.raises(RrextError) as caught:
        sent(server, provider, "Text.", answer)
    assert caught.value.code == "model_bad_answer"


@pytest.mark.parametrize("provider", ["summarization", "dictionary"])
def test_a_failure_of_the_model_is_the_failure_of_the_object(server: ModelServer, provider: str) -> None:
    with pytest.raises(ToolError) as caught:
        sent(server, provider, "Text.", "no JSON", "no JSON again")
    assert caught.value.code == "answer_not_json"


@pytest.mark.parametrize("provider", ["summarization", "dictionary"])
def test_a_node_without_a_model_says_so(provider: str) -> None:
    alone = pipeline(component("in_1", "webhook"), component("node_1", provider, "text:in_1"))
    with pytest.raises(RrextError, match='"node_1" has no language model'):
        run_pipeline(alone, "Text.", mimetype="text/plain")


def test_a_scripted_model_serves_offline() -> None:
    text = pipeline(
        component("in_1", "webhook"),
        component("node_1", "summarization", "text:in_1"),
        component("model_1", "llm_scripted", control=bound("node_1"), default=SUMMARY),
        component("out_1", "response_text", "text:node_1"),
    )
    assert run_pipeline(text, "Words.", mimetype="text/plain")["text"][0].startswith("Summary:\nA library.")
