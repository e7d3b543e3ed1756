"""A tool that needs a permit asks the user of the host by an elicitation: during the call after a handshake, else by a result
after which the host repeats the call with the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import msgspec
import pytest
from http_server import ACCEPT, HttpServer, two_users
from hypothesis import given
from hypothesis import strategies as st
from mcp_host import META, Host

from rrext.errors import InvalidArguments, TooManyRequests
from rrext.faces.mcp.questions import MAX_SHOWN_ARGUMENTS, MAX_SUSPENDED, SuspendableCall, SuspendedCalls, modes_of, question

HERE = Path(__file__).resolve().parent
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
ASKS = {"io.modelcontextprotocol/clientCapabilities": FORM}
ALLOW = {"action": "accept", "content": {"allow": True}}
SOON = "import msgspec, rrext.limits as all\nall.DEFAULTS = msgspec.structs.replace(all.DEFAULTS, permission_timeout=0.05)"
"""Lines after which a question has an answer soon, or none."""
OTHERS: list[Any] = [
    {"action": "accept", "content": {"allow": False}},
    {"action": "accept", "content": {"allow": "true"}},
    {"action": "accept", "content": [True]},
    {"action": "accept"},
    {"action": "decline"},
    {"action": "cancel", "content": {"allow": True}},
    {},
    [],
]

pytestmark = pytest.mark.promise("mcp:permits")


@pytest.fixture(scope="module")
def legacy() -> Iterator[Host]:
    """A host after a handshake, whose user can be asked."""
    with Host(files=[HERE / "asking.pipe"], shakes_hands=True, capabilities=FORM) as host:
        yield host


@pytest.fixture(scope="module")
def modern() -> Iterator[Host]:
    """A host without a handshake."""
    with Host(files=[HERE / "asking.pipe"]) as host:
        yield host


@pytest.fixture(scope="module")
def http() -> Iterator[HttpServer]:
    """A server of HTTP."""
    with HttpServer(files=[HERE / "asking.pipe"]) as server:
        yield server


def write_down(key: str, **more: Any) -> dict[str, Any]:
    return {"name": "write_down", "arguments": {"key": key}, **more}


def written(host: Host | HttpServer, key: str) -> list[str]:
    return host.call("journal", key=key)["structuredContent"]["result"]


def reason(result: dict[str, Any]) -> str:
    assert result["isError"]
    assert result["_meta"]["rrext/error"]["code"] == "unavailable"
    return result["content"][0]["text"]


# during the call


def asked(host: Host, key: str) -> tuple[int, dict[str, Any]]:
    """The id of a call that needs a permit, and the question of the server."""
    call = host.ask("tools/call", write_down(key))
    asking = host.message()
    assert asking["method"] == "elicitation/create"
    return call, asking


def test_a_host_is_asked_during_the_call_and_its_answer_decides(legacy: Host) -> None:
    call, asking = asked(legacy, "allowed")
    assert "write_down of tools_1" in asking["params"]["message"]
    assert '"key":"allowed"' in asking["params"]["message"]
    assert asking["params"]["requestedSchema"]["required"] == ["allow"]
    assert written(legacy, "allowed") == []
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": ALLOW})
    assert not legacy.answer(call)["result"].get("isError")
    assert written(legacy, "allowed") == ["ran"]


@pytest.mark.parametrize("answer", OTHERS)
def test_every_other_answer_denies(answer: Any, legacy: Host) -> None:
    call, asking = asked(legacy, "denied")
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": answer})
    assert "it was denied" in reason(legacy.answer(call)["result"])
    assert written(legacy, "denied") == []


def test_an_error_denies_and_only_the_first_answer_counts(legacy: Host) -> None:
    call, asking = asked(legacy, "denied")
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "error": {"code": -32601, "message": "no"}})
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": ALLOW})
    assert "it was denied" in reason(legacy.answer(call)["result"])


def test_answers_that_nobody_waits_for_allow_nothing(legacy: Host) -> None:
    call, asking = asked(legacy, "careful")
    for other in (asking["id"] + 1, str(asking["id"]), None, True, [1]):
        legacy.send({"jsonrpc": "2.0", "id": other, "result": ALLOW})
    legacy.result("ping")
    assert written(legacy, "careful") == []
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": {"action": "decline"}})
    assert "it was denied" in reason(legacy.answer(call)["result"])


def test_a_question_is_taken_back_when_its_call_is_cancelled_or_late(legacy: Host) -> None:
    call, asking = asked(legacy, "dropped")
    legacy.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
    taken_back = legacy.message()
    assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", asking["id"])
    late = legacy.ask("tools/call", write_down("late", _meta={"rrext/timeout": 0.05}))
    asking = legacy.message()
    taken_back = legacy.message()
    assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", asking["id"])
    assert legacy.answer(late)["result"]["_meta"]["rrext/error"]["code"] == "tool_timeout"
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": ALLOW})
    assert (written(legacy, "dropped"), written(legacy, "late")) == ([], [])


def test_a_tool_within_a_tool_asks_during_the_call(legacy: Host) -> None:
    inner = {"node": "tools_1", "tool": "write_down", "input": {"key": "inner"}}
    call = legacy.ask("tools/call", {"name": "ask_async", "arguments": inner})
    asking = legacy.message()
    assert "which nest_1.ask_async wants to call" in asking["params"]["message"]
    legacy.send({"jsonrpc": "2.0", "id": asking["id"], "result": ALLOW})
    assert not legacy.answer(call)["result"].get("isError")
    assert written(legacy, "inner") == ["ran"]


def test_a_host_that_ends_while_it_is_asked_leaves_nothing_running() -> None:
    with Host(files=[HERE / "asking.pipe"], shakes_hands=True, capabilities=FORM) as host:
        asked(host, "left")
        assert host.end() == 0


class HttpSession:
    """A session of the handshake era over HTTP, whose user can be asked."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._headers = dict(ACCEPT)
        hello = {"protocolVersion": "2025-11-25", "capabilities": FORM, "clientInfo": {"name": "host", "version": "1"}}
        status, headers, _ = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        assert status == 200
        self._headers |= {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return self._server.send("POST", msgspec.json.encode(message), self._headers)

    @contextmanager
    def asked(self, key: str) -> Iterator[tuple[int, HTTPResponse]]:
        """The id of the question of a call, and the stream of the call."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": write_down(key)}
        with closing(self._server.connect()) as connection:
            connection.request("POST", "/mcp", msgspec.json.encode(call), self._headers)
            with connection.getresponse() as stream:
                while b"elicitation/create" not in (line := stream.readline()):
                    pass
                yield msgspec.json.decode(line.partition(b": ")[2])["id"], stream


def test_over_http_only_the_session_that_is_asked_can_answer(http: HttpServer) -> None:
    asked, other = HttpSession(http), HttpSession(http)
    with asked.asked("mine") as (question_id, stream):
        answer = {"jsonrpc": "2.0", "id": question_id, "result": ALLOW}
        other.post(answer)
        assert http.result("tools/list")
        assert written(http, "mine") == []
        asked.post(answer)
        assert b'"isError":true' not in stream.read()
    assert written(http, "mine") == ["ran"]


def test_a_server_of_http_ends_although_a_user_is_asked() -> None:
    with HttpServer("--drain", "0.1", files=[HERE / "asking.pipe"]) as server, HttpSession(server).asked("left") as (_, stream):
        assert server.end() == 0
        assert b"shutting_down" in stream.read()


# by a result


@pytest.fixture(params=["modern", "http"])
def host(request: pytest.FixtureRequest) -> Host | HttpServer:
    """A host without a handshake, on stdio and over HTTP."""
    return request.getfixturevalue(request.param)


def asked_by_result(
    host: Host | HttpServer, key: str, name: str = "write_down", headers: Mapping[str, str] = {}, **meta: Any
) -> dict[str, Any]:
    """The parameters of a call that needs a permit, as it is repeated with a yes."""
    params = {**write_down(key, _meta=ASKS | meta), "name": name}
    result = host.result("tools/call", params, **headers)
    assert result["resultType"] == "input_required"
    ((question_name, asking),) = result["inputRequests"].items()
    assert asking["method"] == "elicitation/create"
    assert key in asking["params"]["message"]
    return {**params, "inputResponses": {question_name: ALLOW}, "requestState": result["requestState"]}


def answered(host: Host | HttpServer, params: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The answer to a call."""
    if isinstance(host, HttpServer):
        return host.ask("tools/call", params, **headers)[1]
    return host.answer(host.ask("tools/call", params))


def repeated(host: Host | HttpServer, params: dict[str, Any], **headers: str) -> str:
    """Whether a repeated call was `complete`, or `refused` because no call waits for its answers."""
    answer = answered(host, params, **headers)
    if "error" in answer:
        assert answer["error"]["code"] == -32602
        assert "/requestState" in answer["error"]["message"]
        return "refused"
    assert not answer["result"].get("isError")
    return answer["result"]["resultType"]


def test_a_call_ends_with_the_question_and_is_repeated_with_the_answer(host: Host | HttpServer) -> None:
    key = f"repeated {type(host).__name__}"
    params = asked_by_result(host, key)
    assert written(host, key) == []
    assert repeated(host, params) == "complete"
    assert written(host, key) == ["ran"]


@pytest.mark.parametrize("other", OTHERS)
def test_every_other_answer_denies_and_a_later_yes_changes_nothing(other: Any, host: Host | HttpServer) -> None:
    key = f"denied {type(host).__name__}"
    params = asked_by_result(host, key)
    again = {**params, "inputResponses": dict.fromkeys(params["inputResponses"], other)}
    answer = answered(host, again)
    if "error" not in answer:  # over HTTP what is no answer is refused before
        assert "it was denied" in reason(answer["result"])
        assert repeated(host, params) == "refused"
    assert written(host, key) == []


@pytest.mark.promise("mcp:permits:once")
def test_a_permit_is_for_one_call(host: Host | HttpServer) -> None:
    key = f"once {type(host).__name__}"
    params = asked_by_result(host, key)
    assert [repeated(host, params) for _ in range(4)] == ["complete", *["refused"] * 3]
    assert written(host, key) == ["ran"]
    assert repeated(host, asked_by_result(host, key)) == "complete"
    assert written(host, key) == ["ran", "ran"]


@pytest.mark.promise("mcp:permits:once")
def test_a_permit_is_for_its_tool_its_arguments_and_its_process_alone(host: Host | HttpServer) -> None:
    key = f"own {type(host).__name__}"
    params = asked_by_result(host, key)
    changes = ({"arguments": {"key": f"{key} 2"}}, {"arguments": {"key": key, "text": "more"}}, {"name": "write_more"})
    for change in changes:
        assert repeated(host, {**params, **change}) == "refused"
    with type(host)(files=[HERE / "asking.pipe"]) as other:
        assert repeated(other, params) == "refused"
        assert written(other, key) == []
    assert (written(host, key), written(host, f"{key} 2")) == ([], [])
    assert repeated(host, params) == "complete"


@pytest.mark.promise("mcp:permits:once")
def test_of_two_calls_with_one_answer_at_the_same_time_one_runs(host: Host | HttpServer) -> None:
    key = f"race {type(host).__name__}"
    params = asked_by_result(host, key)
    if isinstance(host, Host):
        params["_meta"] = META | ASKS
        calls = [{"jsonrpc": "2.0", "id": f"race {n}", "method": "tools/call", "params": params} for n in range(8)]
        host.write(b"".join(msgspec.json.encode(call) + b"\n" for call in calls))
        answers = [host.message() for _ in calls]
    else:
        with ThreadPoolExecutor(8) as pool:
            answers = [answer for _, answer in pool.map(lambda _: host.ask("tools/call", params), range(8))]
    assert sorted("result" in answer for answer in answers) == [*[False] * 7, True]
    assert written(host, key) == ["ran"]


@pytest.mark.promise("mcp:permits:once")
def test_over_http_a_permit_is_for_its_user_alone(tmp_path: Path) -> None:
    ada, bob, options = two_users(tmp_path)
    with HttpServer(*options, files=[HERE / "asking.pipe"]) as server:
        params = asked_by_result(server, "mine", headers=ada)
        assert repeated(server, params, **bob) == "refused"
        assert repeated(server, params, **ada) == "complete"


@pytest.mark.promise("mcp:permits:once")
@pytest.mark.parametrize(("first", "meta"), [(SOON, {}), ("", {"rrext/timeout": 0.05})], ids=["nobody answered", "late"])
@pytest.mark.parametrize("face", [Host, HttpServer])
def test_an_answer_that_comes_when_its_call_has_ended_runs_nothing(
    face: type[Host | HttpServer], first: str, meta: dict[str, Any]
) -> None:
    with face(files=[HERE / "asking.pipe"], first=first) as host:
        params = asked_by_result(host, "ended", **meta)
        while True:
            again = answered(host, {**params, "inputResponses": {}})
            if again.get("result", {}).get("resultType") != "input_required":
                break
            params["requestState"] = again["result"]["requestState"]
        assert "error" in again or again["result"]["isError"]
        assert repeated(host, params) == "refused"
        assert written(host, "ended") == []


def test_calls_that_wait_for_answers_of_one_user_delay_no_other(tmp_path: Path) -> None:
    ada, bob, options = two_users(tmp_path)
    with HttpServer(*options, "--threads", "1", files=[HERE / "asking.pipe"]) as server:
        for number in range(20):
            asked_by_result(server, f"key {number}", headers=ada)
        params = asked_by_result(server, "bobs", headers=bob)
        assert repeated(server, params, **bob) == "complete"


def test_a_tool_within_a_tool_asks_by_the_result_of_the_outer_one_which_runs_once(host: Host | HttpServer) -> None:
    key = f"nested {type(host).__name__}"
    inner = {"node": "tools_1", "tool": "write_down", "input": {"key": key}}
    params = {"name": "ask_async", "arguments": inner, "_meta": ASKS}
    result = host.result("tools/call", params)
    ((name, asking),) = result["inputRequests"].items()
    assert "which nest_1.ask_async wants to call" in asking["params"]["message"]
    again = {**params, "inputResponses": {name: ALLOW}, "requestState": result["requestState"]}
    assert repeated(host, again) == "complete"
    assert written(host, key) == ["ran"]


def test_a_call_that_is_repeated_without_an_answer_asks_again(host: Host | HttpServer) -> None:
    key = f"again {type(host).__name__}"
    params = asked_by_result(host, key)
    result = host.result("tools/call", {**params, "inputResponses": {}})
    assert result["resultType"] == "input_required"
    assert result["inputRequests"].keys() == params["inputResponses"].keys()
    assert repeated(host, params) == "refused", "each state is good once"
    assert repeated(host, {**params, "requestState": result["requestState"]}) == "complete"
    assert written(host, key) == ["ran"]


def test_several_questions_of_one_call_are_asked_together_or_one_after_the_other(host: Host | HttpServer) -> None:
    params = {"name": "ask_many", "arguments": {"number": 3, "tool": "sum"}, "_meta": ASKS}
    seen: set[str] = set()
    result = host.result("tools/call", params)
    while result["resultType"] == "input_required":
        assert not seen & result["inputRequests"].keys(), "no question is asked twice"
        seen |= result["inputRequests"].keys()
        answers = dict.fromkeys(result["inputRequests"], ALLOW)
        result = host.result("tools/call", {**params, "inputResponses": answers, "requestState": result["requestState"]})
    assert len(seen) == 3
    assert not result.get("isError")


# calls that wait


MAX_BYTES = 1000


def suspendable(text: str = "x", user: str | None = "ada", nbytes: int = 1) -> SuspendableCall:
    call = SuspendableCall(user, {"tool": "t", "input": {"text": text}}, nbytes)
    call.questions[1] = "rrext_question", {"message": "?"}
    return call


@pytest.mark.promise("mcp:permits:once")
def test_a_state_is_for_its_user_and_its_input() -> None:
    calls = SuspendedCalls(MAX_BYTES)
    call = suspendable("secret 1")
    state = calls.suspend(call)["requestState"]
    for text, user in (("secret 2", "ada"), ("secret 1", "bob"), ("secret 1", None)):
        with pytest.raises(InvalidArguments, match="/requestState"):
            calls.resume(state, user, {"tool": "t", "input": {"text": text}})
    assert calls.resume(state, "ada", {"tool": "t", "input": {"text": "secret 1"}}) is call


def test_a_user_with_too_many_calls_that_wait_is_refused_and_others_are_not() -> None:
    calls = SuspendedCalls(MAX_BYTES)
    first = suspendable()
    calls.suspend(first)
    for _ in range(MAX_SUSPENDED - 1):
        calls.suspend(suspendable())
    with pytest.raises(TooManyRequests):
        calls.suspend(suspendable())
    calls.suspend(suspendable(user="bob"))
    calls.forget(first)
    calls.suspend(suspendable())


def test_calls_of_a_user_that_wait_have_a_limit_of_bytes() -> None:
    calls = SuspendedCalls(MAX_BYTES)
    first = suspendable(nbytes=MAX_BYTES - 1)
    for call in (first, suspendable(), suspendable(user="bob", nbytes=MAX_BYTES)):
        calls.suspend(call)
    with pytest.raises(TooManyRequests, match="max_inflight_bytes"):
        calls.suspend(suspendable())
    calls.forget(first)
    calls.suspend(suspendable(nbytes=MAX_BYTES - 1))


@pytest.mark.promise("mcp:permits:once")
@given(st.data())
def test_no_other_text_than_that_of_the_question_goes_on_with_anything(data: st.DataObject) -> None:
    calls = SuspendedCalls(MAX_BYTES)
    state = calls.suspend(suspendable())["requestState"]
    changed = list(state)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(state) - 1))] = data.draw(st.sampled_from("0123456789abcdef \u0660g"))
    cut = data.draw(st.integers(0, len(state)))
    other = data.draw(st.sampled_from(["".join(changed), state[:cut], state[cut:], f"{state}0", f" {state}", None, 7, [state]]))
    if other != state:
        with pytest.raises(InvalidArguments):
            calls.resume(other, "ada", {"tool": "t", "input": {"text": "x"}})
    calls.resume(state, "ada", {"tool": "t", "input": {"text": "x"}})


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": 7}, {"elicitation": None}, 7])
def test_a_host_that_shows_no_forms_is_not_asked(capabilities: Any, modern: Host) -> None:
    assert "form" not in modes_of(capabilities, "2025-11-25")
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    answer = modern.answer(modern.ask("tools/call", write_down("quiet", _meta=meta)))
    assert "did not offer to answer" in reason(answer["result"])


def test_a_host_that_names_no_kind_of_elicitation_shows_forms() -> None:
    assert modes_of({"elicitation": {}}, "2025-06-18") == ["form"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_a_host_of_a_version_without_elicitation_is_not_asked(version: str) -> None:
    assert modes_of(FORM, version) == []


def test_pages_are_shown_since_2025_11_25() -> None:
    both: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    assert modes_of(both, "2025-06-18") == ["form"]
    assert modes_of(both, "2025-11-25") == ["form", "url"]


# the text of the question


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\u202eb\u200b", "\\u202e"),
        ("line\nline", "line\\nline"),
        ("x" * (MAX_SHOWN_ARGUMENTS + 7), "more characters"),
        ("\U000e0041", "\\ue0041"),
    ],
)
def test_a_question_shows_what_cannot_be_seen_and_tells_what_it_leaves_out(value: str, shown: str) -> None:
    text = question("rrext_permission", {"tool": "t", "nodeId": "n", "arguments": {"value": value}})["message"]
    assert shown in text
    assert all(each.isprintable() or each == "\n" for each in text)
    assert text.count("\n") == 1
    assert len(text) < MAX_SHOWN_ARGUMENTS + 100
