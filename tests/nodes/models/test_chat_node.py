"""`llm_openai_api` against a real HTTP server: what is asked, what is answered, and every way that it can go wrong."""

from __future__ import annotations

import gzip
import json
import logging

import anyio
import pytest

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.lanes import new_question
from rrext.nodes.llm.openai import OllamaNode, OpenAIApiNode, OpenAINode
from rrext.testing import call_tool, open_node, run_node

from chat_world import KEY, ask, failure, settings  # isort: skip
from model_server import Body, Hang, ModelServer, Reset, Say, Status, Step, WrongLength, serving  # isort: skip

NOW = {"retry-after": "0"}


# what is asked and answered


def test_a_question_is_asked_with_model_and_key_and_answered_with_its_tokens(server: ModelServer) -> None:
    assert ask(server) == {"answer": "You said: Hello", "expectJson": False, "tokens": 12}
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "test-model", "messages": [{"role": "user", "content": "Hello"}]}


def test_settings_that_are_given_go_into_the_request_and_others_do_not(server: ModelServer) -> None:
    ask(server, temperature=0.5, maxTokens=9, maxTokensName="max_completion_tokens", extraBody={"seed": 1})
    body = server.asked[0].body
    assert {key: body[key] for key in body if key not in ("model", "messages")} == {
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "seed": 1,
    }


def test_a_question_of_the_lane_becomes_an_answer_of_the_lane(server: ModelServer) -> None:
    question = new_question("Who?", context=["It was Ada."])
    emitted = run_node(OpenAIApiNode, "questions", question, config=settings(server))
    assert emitted == {"answers": [{"answer": "You said: Context:\nIt was Ada.\n\nWho?", "expectJson": False, "tokens": 12}]}


def test_a_server_without_keys_is_asked_without_one() -> None:
    with serving() as server:
        assert ask(server, apikey="")["answer"] == "You said: Hello"
        assert "authorization" not in server.asked[0].headers


def test_an_empty_question_is_refused_before_anybody_is_asked(server: ModelServer) -> None:
    with pytest.raises(InvalidArguments):
        ask(server, "  ")
    with pytest.raises(ToolError) as caught:
        run_node(OpenAIApiNode, "questions", new_question(""), config=settings(server))
    assert caught.value.code == "empty_question"
    assert server.asked == []


# JSON


def test_json_that_is_asked_for_comes_as_a_value(server: ModelServer) -> None:
    server.next(Say('```json\n{"a": [1]}\n```'))
    assert ask(server, expectJson=True) == {"answer": {"a": [1]}, "expectJson": True, "tokens": 12}
    body = server.asked[0].body
    assert body["response_format"] == {"type": "json_object"}
    assert "JSON" in body["messages"][0]["content"]


def test_a_model_that_answers_no_json_is_told_so_once(server: ModelServer) -> None:
    server.next(Say("Sure! Here it is."), Say("[1]"))
    assert ask(server, expectJson=True) == {"answer": [1], "expectJson": True, "tokens": 24}
    *_, said, told = server.asked[1].body["messages"]
    assert said == {"role": "assistant", "content": "Sure! Here it is."}
    assert told["role"] == "user"
    assert "JSON" in told["content"]


def test_a_model_that_insists_on_no_json_is_a_failure(server: ModelServer) -> None:
    server.next(Say("No."), Say("No!"))
    with pytest.raises(ToolError) as caught:
        ask(server, expectJson=True)
    assert caught.value.code == "answer_not_json"
    assert len(server.asked) == 2


def test_on_the_lane_a_json_answer_is_text_that_holds_it(server: ModelServer) -> None:
    server.next(Say('"a string"'))
    emitted = run_node(OpenAIApiNode, "questions", new_question("?", expectJson=True), config=settings(server, jsonMode=False))
    assert emitted["answers"][0]["answer"] == '"a string"'
    assert "response_format" not in server.asked[0].body


# answers that are not the whole answer


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Say("It begins", finish="length"), "answer_cut"),
        (Say("It is", finish="content_filter"), "answer_filtered"),
        (Say(None, refusal="I will not."), "answer_refused"),
    ],
)
def test_an_answer_that_is_not_all_of_it_is_a_failure(server: ModelServer, said: Say, code: str) -> None:
    error = failure(server, said)
    assert error.code == code
    assert error.data["answer"] == (said.text or "")


# failures that pass


@pytest.mark.parametrize("step", [Status(429, headers=NOW), Status(500), Status(503), Reset(), WrongLength(5000)], ids=repr)
def test_what_passes_is_tried_again(server: ModelServer, step: Step) -> None:
    server.next(step)
    assert ask(server)["answer"] == "You said: Hello"
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("step", "code"),
    [(Status(429, headers=NOW), "model_rate_limited"), (Status(502), "model_failed"), (Reset(), "model_unreachable")],
)
def test_what_does_not_pass_is_told_after_as_many_tries_as_the_settings_say(server: ModelServer, step: Step, code: str) -> None:
    error = failure(server, step, step, step, step, retries=2)
    assert (error.code, error.data["tries"]) == (code, 3)
    assert len(server.asked) == 3


def test_a_pause_that_is_longer_than_anybody_waits_is_told_and_not_kept(server: ModelServer) -> None:
    error = failure(server, Status(429, "slow down", {"retry-after": "3600"}))
    assert (error.code, error.data) == ("model_rate_limited", {"status": 429, "tries": 1, "retryAfter": 3600.0})
    assert "slow down" in error.message


def test_a_spent_account_is_not_asked_again(server: ModelServer) -> None:
    assert failure(server, Status(429, "You exceeded your quota", code="insufficient_quota")).data["tries"] == 1


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with serving() as gone:
        pass
    error = failure(gone, retries=1)
    assert (error.code, error.data) == ("model_unreachable", {"tries": 2})
    assert gone.address in error.message


async def test_a_pause_beyond_the_callers_deadline_is_told_and_not_kept(server: ModelServer) -> None:
    server.next(Status(429, headers={"retry-after": "50"}))
    async with open_node(OpenAIApiNode, settings(server)) as client:
        with pytest.raises(ToolError) as caught:
            await client.tool(tool="ask", input={"question": "?"}, timeout=40)
    assert caught.value.code == "model_rate_limited"


# failures that stay


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "model_bad_request"),
        (403, "model_unauthorized"),
        (404, "model_not_found"),
        (422, "model_bad_request"),
        (302, "model_redirected"),
        (501, "model_failed"),
    ],
)
def test_what_stays_is_told_at_once_in_the_servers_own_words(server: ModelServer, status: int, code: str) -> None:
    error = failure(server, Status(status, "the 'model' field is wrong", {"location": "http://127.0.0.1:1/"}))
    assert error.code == code
    assert f"answered {status}: the 'model' field is wrong" in error.message
    assert len(server.asked) == 1


def test_a_server_that_repeats_the_key_in_its_answer_does_not_show_it_to_anybody(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.key = "another"
    with caplog.at_level(logging.DEBUG):
        error = failure(server)
    assert error.code == "model_unauthorized"
    assert "Incorrect API key provided: Bearer ${apikey}" in error.message
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": [{"message": {}}]}', b"[" * 9000],
)
def test_an_answer_that_is_none_is_told_as_such(server: ModelServer, body: bytes) -> None:
    assert failure(server, Body(body)).code == "model_bad_answer"
    assert len(server.asked) == 1


def test_a_body_that_is_longer_than_it_says_harms_no_later_call(server: ModelServer) -> None:
    async def twice() -> None:
        server.next(WrongLength(5, b'{"choices": []}'))
        async with open_node(OpenAIApiNode, settings(server)) as client:
            with pytest.raises(ToolError) as caught:
                await client.tool(tool="ask", input={"question": "?"})
            assert caught.value.code == "model_bad_answer"
            assert (await client.tool(tool="ask", input={"question": "?"}))["answer"] == "You said: ?"

    anyio.run(twice)


def test_a_failure_that_a_router_tells_with_status_200_is_a_failure(server: ModelServer) -> None:
    error = failure(server, Body(b'{"error": {"message": "upstream is down"}}'))
    assert error.code == "model_failed"
    assert "upstream is down" in error.message


def test_an_answer_in_parts_is_put_together(server: ModelServer) -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "thinking"}, {"type": "text", "text": "lo"}]
    server.next(Body(json.dumps({"choices": [{"message": {"content": parts}}]}).encode()))
    assert ask(server) == {"answer": "Hello", "expectJson": False}


def test_an_answer_without_end_is_not_read_to_its_end(server: ModelServer) -> None:
    error = failure(server, Body(b" " * (33 * 1024 * 1024)))
    assert error.code == "model_answer_too_large"
    assert error.data["limit"] == "max_answer"


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


def test_an_answer_that_is_packed_over_and_over_is_not_unpacked(server: ModelServer) -> None:
    """A few kilobytes, packed twice, can hold gigabytes: nothing of them may be made."""
    packed = gzip.compress(gzip.compress(completion("Hello")))
    error = failure(server, Body(packed, headers={"content-encoding": "gzip, gzip"}))
    assert error.code == "model_bad_answer"
    error = failure(server, Status(401, "no", {"content-encoding": "gzip, gzip"}))
    assert error.code == "model_unauthorized"


def test_a_server_that_packs_its_answer_unasked_is_understood(server: ModelServer) -> None:
    server.next(Body(gzip.compress(completion("Hello")), headers={"content-encoding": "gzip"}))
    assert ask(server)["answer"] == "Hello"


def test_a_silent_server_is_given_up(server: ModelServer) -> None:
    error = failure(server, Hang(), timeout=2.0)
    assert (error.code, error.data["tries"]) == ("model_timeout", 1)
    assert server.lost.acquire(timeout=20), "the request was not closed"


def test_all_tries_together_have_a_limit(server: ModelServer) -> None:
    error = failure(server, Hang(), totalTimeout=0.05)
    assert error.code == "model_timeout"
    assert "totalTimeout" in error.message


# settings that can never work


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": ""},
        {"base_url": "localhost:11434"},
        {"base_url": "ftp://host/v1"},
        {"base_url": "http://[::1"},
        {"base_url": "http://ho\nst/v1"},
        {"base_url": "http://ho\u2028st/v1"},
        {"base_url": "http://user:hidden-word@host/v1"},
        {"apikey": "a\nb-hidden-word"},
        {"model": " "},
    ],
    ids=repr,
)
def test_settings_that_can_never_work_are_said_before_anything_is_sent(server: ModelServer, wrong: dict[str, str]) -> None:
    with pytest.raises(Unavailable) as caught:
        ask(server, **wrong)
    assert "hidden-word" not in caught.value.message
    assert server.asked == []


@pytest.mark.parametrize("node", [OpenAIApiNode, OpenAINode, OllamaNode])
def test_a_profile_names_the_model_unless_it_is_the_custom_one(node: type[OpenAIApiNode]) -> None:
    assert all(values["model"] for name, values in node.profiles.items() if name != "custom")
    with serving() as server:
        for profile in {"custom", node.default_profile or ""}:
            model = {"model": "mine"} if profile == "custom" else {}
            config = {"profile": profile, profile: {"serverbase": server.address, "apikey": "k", **model}}
            assert call_tool(node, "ask", {"question": "?"}, config=config)["answer"] == "You said: ?"
            assert server.asked.pop().body["model"] == (model.get("model") or node.profiles[profile]["model"])


# connections


async def test_calls_after_each_other_share_a_connection(server: ModelServer) -> None:
    async with open_node(OpenAIApiNode, settings(server)) as client:
        for _ in range(5):
            await client.tool(tool="ask", input={"question": "?"})
    assert (len(server.asked), server.connections) == (5, 1)


def test_a_proxy_of_the_environment_is_used(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.address.removesuffix("/v1"))
    assert failure(server, base_url="http://model.invalid/v1").code == "model_not_found"
    assert server.asked[0].path == "http://model.invalid/v1/chat/completions"


async def test_many_calls_at_once_share_the_pool(server: ModelServer) -> None:
    answers: dict[int, str] = {}
    async with open_node(OpenAIApiNode, settings(server)) as client, anyio.create_task_group() as group:

        async def call(n: int) -> None:
            answers[n] = (await client.tool(tool="ask", input={"question": f"number {n}"}))["answer"]

        for n in range(40):
            group.start_soon(call, n)
    assert answers == {n: f"You said: number {n}" for n in range(40)}
