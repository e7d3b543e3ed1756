"""What an MCP server asks during a call goes to the caller of that call, and to nobody else."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp_connections import PATIENCE, Connect, wait_for_text

from rrext.errors import ToolError, Unavailable
from rrext.providers.mcp.provider import McpProvider
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.promise("mcp:questions")

ByHand = Callable[..., McpProvider]
FORM = {
    "message": "How many?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "x-own": [None]}}, "x": 1},
    "_meta": {"org.example/k": 1},
}
PAGE = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "e-1"}

LEGACY = """
answers, waiting, numbers = {}, [], iter(range(1, 1000))

def ask(message):
    number, given = f"q{next(numbers)}", message["params"]["arguments"]
    answers[number] = message
    say({"id": number, "method": "elicitation/create", "params": given["params"]})
    if given.get("then") == "end":
        sys.exit(3)
    if given.get("then") == "withdraw":
        say({"method": "notifications/cancelled", "params": {"requestId": number}})
        answer(answers.pop(number), {"content": [{"type": "text", "text": '"never mind"'}]})

def handle(message):
    if message.get("method") == "tools/call":
        waiting.append(message)
        if len(waiting) == message["params"]["arguments"].get("together", 1):
            while waiting:
                ask(waiting.pop(0))
    elif "method" not in message and message["id"] in answers:
        said = message.get("result", message.get("error"))
        answer(answers.pop(message["id"]), {"content": [{"type": "text", "text": json.dumps(said)}]})

serve(handle)
"""
"""A server of 2025-11-25 that asks in each call, and gives what it was answered."""

MODERN = """
def handle(message):
    params = message.get("params", {})
    given = params.get("arguments", {})
    capabilities = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
    if message["method"] != "tools/call":
        return
    if "inputResponses" in params or not given["requests"]:
        said = {key: params.get(key) for key in ("inputResponses", "requestState")}
        text = json.dumps({**said, "capabilities": capabilities})
        answer(message, {"resultType": "complete", "content": [{"type": "text", "text": text}]})
    else:
        answer(message, {"resultType": "input_required", "inputRequests": given["requests"], "requestState": "s \u00e9"})

serve(handle, modern=True)
"""
"""One of 2026-07-28 that does the same."""


class User:
    """The user of a caller: who is asked, and what is answered."""

    def __init__(self, answer: Any = None, modes: Sequence[str] = ("form", "url")) -> None:
        self.modes = modes
        self.asked: list[Any] = []
        self.given_up = 0
        self._answer = answer

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        if self._answer is None:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up += 1
        answer = self._answer
        return answer(params) if callable(answer) else answer


def context(user: User | None, connection: str = "c") -> ToolContext:
    return ToolContext(connection_id=connection, questions=user)


def accepted(content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def said(provider: McpProvider, user: User | None, params: Any = FORM, connection: str = "c", **more: Any) -> Any:
    return json.loads(await provider.call("act", {"params": params, **more}, context(user, connection)))


# a server after a handshake


@pytest.mark.parametrize("params", [FORM, PAGE, {"message": "no schema"}, {**FORM, "requestedSchema": {"oneOf": [7]}}])
async def test_a_question_goes_to_the_caller_as_it_is_and_so_does_the_answer(params: Any, by_hand: ByHand) -> None:
    provider = by_hand(LEGACY)
    user = User(accepted({"n": 1, "own": [None, 1e300]}))
    assert await said(provider, user, params) == accepted({"n": 1, "own": [None, 1e300]})
    assert user.asked == [params]
    assert await said(provider, User({"action": "decline"}), params) == {"action": "decline"}


async def test_a_caller_who_cannot_be_asked_like_that_refuses(by_hand: ByHand) -> None:
    provider = by_hand(LEGACY)
    for user, params in ((None, FORM), (User(modes=["form"]), PAGE), (User(modes=["url"]), FORM)):
        refused = await said(provider, user, params)
        assert refused["code"] == -32600
        assert "Elicitation not supported" in refused["message"]
    assert (await said(provider, User(), {"message": 7}))["code"] == -32602


async def test_of_calls_of_several_callers_at_once_none_is_asked(by_hand: ByHand) -> None:
    provider = by_hand(LEGACY)
    users = {"ada": User(accepted({})), "bob": User(accepted({}))}
    calls = (said(provider, user, FORM, name, together=2) for name, user in users.items())
    for found in await asyncio.gather(*calls):
        assert "several callers" in found["message"]
    assert [user.asked for user in users.values()] == [[], []]


async def test_of_several_calls_of_one_caller_each_gets_its_answer(by_hand: ByHand) -> None:
    provider = by_hand(LEGACY)
    user = User(lambda params: accepted({"said": params["message"]}))
    questions = [{"message": str(number), "requestedSchema": {}} for number in range(8)]
    found = await asyncio.gather(*(said(provider, user, params) for params in questions))
    assert found == [accepted({"said": str(number)}) for number in range(8)]


async def test_a_question_that_no_call_is_about_is_refused(by_hand: ByHand, tmp_path: Path) -> None:
    told = tmp_path / "told"
    provider = by_hand(f"""
        def handle(message):
            if message.get("id") == "early":
                open({str(told)!r}, "w").write(message["error"]["message"])

        def listed(message):
            say({{"id": "early", "method": "elicitation/create", "params": {FORM!r}}})
            return {{"tools": TOOLS}}

        serve(handle, tools=listed)
    """)
    await provider.tools()
    await wait_for_text(told, "Elicitation not supported: no call runs whose caller could be asked")


async def until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not reached():
            await asyncio.sleep(0)


async def test_a_call_that_is_cancelled_takes_its_question_along(by_hand: ByHand) -> None:
    provider, user = by_hand(LEGACY), User()
    call = asyncio.create_task(said(provider, user))
    await until(lambda: user.asked)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: user.given_up)
    assert await said(provider, User(accepted({}))) == accepted({})


async def test_a_server_may_take_its_question_back(by_hand: ByHand) -> None:
    user = User()
    assert await said(by_hand(LEGACY), user, then="withdraw") == "never mind"
    await until(lambda: user.given_up == len(user.asked))


async def test_a_server_that_ends_while_it_asks_fails_its_call(by_hand: ByHand) -> None:
    user = User()
    with pytest.raises(ToolError, match="ended with exit code 3"):
        await said(by_hand(LEGACY), user, then="end")
    await until(lambda: user.given_up == len(user.asked))


async def test_a_question_has_no_secret_of_the_connection(by_hand: ByHand) -> None:
    secret = "a-secret-of-twenty-letters"
    provider = by_hand(LEGACY, env={"TOKEN": "env:TOKEN"}, variables={"TOKEN": secret})
    user = User(accepted({}))
    await said(provider, user, {"message": f"use {secret}", "requestedSchema": {"properties": {secret: {"title": secret}}}})
    assert secret not in str(user.asked)
    assert "${outside.env.TOKEN}" in str(user.asked)


# a server of 2026-07-28


def request(params: Any = FORM, method: str = "elicitation/create") -> dict[str, Any]:
    return {"method": method, "params": params}


async def answered(provider: McpProvider, requests: Any, user: User | None) -> Any:
    return json.loads(await provider.call("act", {"requests": requests}, context(user)))


async def test_a_result_that_needs_input_asks_the_caller_and_the_call_goes_on(by_hand: ByHand) -> None:
    provider, user = by_hand(MODERN), User(lambda params: accepted({"said": params["message"]}))
    found = await answered(provider, {"a": request(), "b": request(PAGE)}, user)
    assert found["inputResponses"] == {"a": accepted({"said": "How many?"}), "b": accepted({"said": "Sign in"})}
    assert found["requestState"] == "s é"
    assert user.asked == [FORM, PAGE]


@pytest.mark.parametrize("modes", [[], ["form"], ["form", "url"]])
async def test_the_server_is_told_what_the_caller_can_be_asked(modes: list[str], by_hand: ByHand) -> None:
    able = {"elicitation": {mode: {} for mode in modes}} if modes else {}
    assert (await answered(by_hand(MODERN), {}, User(modes=modes)))["capabilities"] == able


@pytest.mark.parametrize(
    "requests",
    [
        {"a": request(method="sampling/createMessage")},
        {"a": request(), "b": request(method="roots/list")},
        {"a": {"method": "elicitation/create"}},
        {"a": request(7)},
        {"a": 7},
        [1],
    ],
)
async def test_what_no_caller_can_give_fails_the_call_and_asks_nobody(requests: Any, by_hand: ByHand) -> None:
    user = User(accepted({}))
    with pytest.raises(ToolError, match="asks for more input"):
        await answered(by_hand(MODERN), requests, user)
    assert user.asked == []


async def test_a_caller_who_cannot_be_asked_fails_the_call(by_hand: ByHand) -> None:
    provider = by_hand(MODERN)
    with pytest.raises(ToolError, match=r"asks for more input \(elicitation/create\)"):
        await answered(provider, {"a": request()}, None)
    with pytest.raises(Unavailable, match="url"):
        await answered(provider, {"a": request(PAGE)}, User(modes=["form"]))


async def test_a_server_that_asks_for_ever_does_not_keep_its_caller(by_hand: ByHand) -> None:
    provider = by_hand(MODERN.replace('if "inputResponses" in params or', "if"))
    user = User(accepted({}))
    with pytest.raises(ToolError, match="asks for more input"):
        await answered(provider, {"a": request()}, user)
    assert len(user.asked) == 100


# over HTTP, where each question comes in the stream of a call


class Asking(BaseHTTPRequestHandler):
    """A server of the handshake era that asks in the stream of each call, and answers there."""

    answers: dict[str, queue.Queue[Any]] = {}

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            self._say({"id": number, "error": {"code": -32601, "message": "unknown"}})
        elif method == "initialize":
            able = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
            self._say({"id": number, "result": able})
        elif method == "tools/list":
            self._say({"id": number, "result": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}})
        elif method == "tools/call":
            self._call(message)
        else:
            if method is None:
                self.answers[number].put(message.get("result", message.get("error")))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _call(self, message: Any) -> None:
        params = message["params"]["arguments"]["params"]
        answer = self.answers[params["message"]] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._event({"id": params["message"], "method": "elicitation/create", "params": params})
        text = json.dumps(answer.get(timeout=PATIENCE))
        self._event({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})

    def _event(self, message: Any) -> None:
        self.wfile.write(f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode())
        self.wfile.flush()

    def _say(self, message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def asking() -> Iterator[str]:
    """The URL of such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Asking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


async def test_over_http_each_caller_is_asked_what_its_own_call_wants_to_know(asking: str, connect: Connect) -> None:
    provider = connect(url=asking)
    users = {f"user {number}": User(accepted({"number": number})) for number in range(6)}
    calls = (said(provider, user, {"message": name, "requestedSchema": {}}, name) for name, user in users.items())
    assert await asyncio.gather(*calls) == [accepted({"number": number}) for number in range(6)]
    assert [user.asked[0]["message"] for user in users.values()] == list(users)
