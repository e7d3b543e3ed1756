"""Who may call over HTTP: tokens, hosts and origins."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest
from http_server import ACCEPT, HttpServer, request
from mcp_host import HELLO, PATIENCE

from rrext.errors import UsageError
from rrext.faces.http.address import Address
from rrext.faces.http.tokens import UserTokens

HERE = Path(__file__).resolve().parent
TOKENS = {"ada-secret-token-1": "ada", "bob-secret-token-2": "bob"}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """A server of this machine, without tokens."""
    with HttpServer() as server:
        yield server


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file of tokens."""
    path = tmp_path / "tokens.toml"
    path.write_text("".join(f'{token} = "{user}"\n' for token, user in TOKENS.items()))
    path.chmod(0o600)
    return path


@pytest.mark.promise("mcp:http:access")
def test_without_tokens_a_request_must_name_this_machine_and_come_from_its_pages(server: HttpServer) -> None:
    for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert server.ask("ping", Host=host)[0] in (200, 404), host
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        assert server.ask("tools/list", Host=host)[0] == 421, host
    for origin in ("http://localhost:6274", "https://127.0.0.1"):
        assert server.ask("tools/list", Origin=origin)[0] == 200, origin
    for origin in ("http://evil.example", "http://localhost.evil.example", "null", "file://localhost", "localhost"):
        assert server.ask("tools/list", Origin=origin)[0] == 403, origin


@pytest.mark.promise("mcp:http:access")
def test_a_page_of_an_allowed_origin_can_ask_and_others_cannot() -> None:
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
    with HttpServer("--allow-origin", "https://app.example") as server:
        status, headers, _ = server.send("OPTIONS", headers={"Origin": "https://app.example", **preflight})
        assert (status, headers["access-control-allow-origin"]) == (200, "https://app.example")
        assert server.ask("tools/list", Origin="https://app.example")[0] == 200
        assert server.send("OPTIONS", headers={"Origin": "https://other.example", **preflight})[0] == 400
        assert server.ask("tools/list", Origin="https://other.example")[0] == 403
        assert server.ask("tools/list", Host="app.example")[0] == 200


@pytest.mark.promise("mcp:http:access")
def test_a_token_stands_for_its_user_and_nothing_else_is_let_in(tokens: Path) -> None:
    with HttpServer("--tokens", str(tokens), "--user", "cora", "--space", "s", "--audit", "--log-level", "debug") as server:
        for token, user in TOKENS.items():
            listed = server.result("tools/list", Authorization=f"Bearer {token}")["tools"]
            assert (f"for_{user}" in {tool["name"] for tool in listed}) == (user in ("ada", "bob"))
            who = server.result("tools/call", {"name": "who", "arguments": {}}, Authorization=f"bearer {token}")
            assert (who["structuredContent"]["user"], who["structuredContent"]["space"]) == (user, "s")
            assert token not in msgspec.json.encode(who).decode()
        for wrong in ("Bearer", "Bearer ", "Bearer ada", "Basic ada-secret-token-1", "ada-secret-token-1", "Bearer ä"):
            assert server.ask("tools/list", Authorization=wrong.encode("latin-1").decode("latin-1"))[0] == 401, wrong
        status, headers, _ = server.send("POST", *request("tools/list"))
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        body, given = request("tools/call", {"name": "echo", "arguments": {"value": next(iter(TOKENS))}})
        server.send("POST", body, {**given, "Authorization": f"Bearer {next(iter(TOKENS))}"})
        assert server.end() == 0
        for token in TOKENS:
            assert token not in server.log


@pytest.mark.promise("ws:strangers")
def test_wrong_tokens_of_a_client_behind_a_proxy_are_too_many_and_a_right_one_gets_in(tokens: Path) -> None:
    first = "from rrext.faces.http import door\ndoor.WRONG_KEY_DELAY = 0.001"
    with HttpServer("--tokens", str(tokens), "--behind-proxy", "127.0.0.1", "--audit", first=first) as server:
        client = {"X-Forwarded-For": "203.0.113.7, 192.0.2.7"}
        statuses = [server.ask("tools/list", Authorization="Bearer wrong", **client)[0] for _ in range(25)]
        assert (statuses[:20], statuses[-1]) == ([401] * 20, 429)
        right = {"Authorization": f"Bearer {next(iter(TOKENS))}"}
        assert server.result("tools/call", {"name": "who", "arguments": {}}, **right, **client)
        assert server.ask("tools/list", Authorization="Bearer wrong")[0] == 401  # of the proxy itself
        server.end()
    told = [line for line in server.log.splitlines() if "wrong keys: " in line]
    assert all(line.endswith((" of 192.0.2.7", " of 127.0.0.1")) for line in told)
    assert len(told) < 20
    assert " address=192.0.2.7" in next(line for line in server.log.splitlines() if "tool=who" in line)


@pytest.mark.promise("mcp:http:access")
def test_a_session_belongs_to_the_user_who_began_it(tokens: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**HELLO, "protocolVersion": "2025-11-25"}}
    ping = msgspec.json.encode({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    with HttpServer("--tokens", str(tokens)) as server:
        ada, bob = ({**ACCEPT, "Authorization": f"Bearer {token}"} for token in TOKENS)
        status, headers, _ = server.send("POST", msgspec.json.encode(hello), ada)
        assert status == 200
        session = {"Mcp-Session-Id": headers["mcp-session-id"]}
        assert server.send("POST", ping, {**ada, **session})[0] == 200
        assert server.send("POST", ping, {**bob, **session})[0] == 404


@pytest.mark.promise("ws:reload")
@pytest.mark.parametrize("shakes_hands", [True, False])
def test_after_a_hang_up_signal_calls_streams_and_sessions_of_a_token_that_is_gone_end(
    tokens: Path, shakes_hands: bool
) -> None:
    with HttpServer("--tokens", str(tokens)) as server, ExitStack() as opened:
        ada, bob = ({"Authorization": f"Bearer {token}"} for token in TOKENS)
        if shakes_hands:
            session = {**ACCEPT, **ada, "MCP-Protocol-Version": "2025-11-25"}
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**HELLO, "protocolVersion": "2025-11-25"}}
            session["Mcp-Session-Id"] = server.send("POST", msgspec.json.encode(hello), session)[1]["mcp-session-id"]
            params = {"name": "wait", "arguments": {"key": "gone"}}
            call = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), session
            stream = "GET", "/mcp", None, session
        else:
            call = request("tools/call", {"name": "wait", "arguments": {"key": "gone"}}, **ada)
            listen = {"notifications": {"toolsListChanged": True}}
            stream = "POST", "/mcp", *request("subscriptions/listen", listen, **ada)
        waiting, listening = (opened.enter_context(closing(server.connect())) for _ in range(2))
        waiting.request("POST", "/mcp", *call)
        listening.request(*stream)
        events = listening.getresponse()
        assert events.status == 200

        def noted(key: str) -> list[str]:
            params = {"name": "journal", "arguments": {"key": key}}
            return server.result("tools/call", params, **bob)["structuredContent"]["result"]

        while not noted("gone began"):
            pass
        tokens.write_text(f'{list(TOKENS)[1]} = "bob"\n')
        server.process.send_signal(signal.SIGHUP)
        events.read()  # to its end
        waiting.getresponse().read()
        while noted("gone") != ["unwound"]:
            pass
        assert server.ask("tools/list", **ada)[0] == 401
        tokens.write_text("".join(f'{token} = "{user}"\n' for token, user in TOKENS.items()))
        server.process.send_signal(signal.SIGHUP)
        while server.ask("tools/list", **ada)[0] != 200:
            pass
        if shakes_hands:
            assert server.send("POST", *call)[0] == 404
        assert server.end() == 0
    assert server.log.count(" ERROR ") == 1, server.log  # the tool whose condition fails


def refused(*options: str) -> str:
    """What a server says that does not begin."""
    command = [sys.executable, "-m", "rrext", "mcp", str(HERE / "changing.pipe"), "--nodes", str(HERE / "changing_nodes.py")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.promise("mcp:http:access")
def test_other_machines_need_tokens() -> None:
    assert "--tokens FILE" in refused("--http", "0.0.0.0:0")
    assert "--tokens FILE" in refused("--http", "127.0.0.1:0", "--behind-proxy", "10.0.0.7")
    for address in ("[::]:0", "192.0.2.1:80", "example.org:80", "localhost.example.org:80"):
        with pytest.raises(UsageError, match="need tokens"):
            Address.of(address).require_tokens()
    for address in ("127.0.0.1:0", "127.8.8.8:1", "[::1]:80", "localhost:65535"):
        Address.of(address).require_tokens()


@pytest.mark.parametrize("address", ["8080", "127.0.0.1", "127.0.0.1:x", "::1:80", "127.0.0.1:70000", ":80"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        Address.of(address)


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen" in refused("--http", f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.promise("mcp:http:access")
@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ('secret-token-that-is-long = "ada"', 0o644, "others may use"),
        ('secret-token-that-is-long = "ada"', 0o620, "others may use"),
        ("", 0o600, "no token"),
        ("secret-token-that-is-long = ", 0o600, 'token = "user"'),
        ("secret-token-that-is-long: ada", 0o600, 'token = "user"'),
        ('secret-token-that-is-long = ""', 0o600, "no user"),
        ("secret-token-that-is-long = 7", 0o600, "no user"),
        ('secret-token = "ada"', 0o600, "fewer than 16"),
        ("secret-token = " + "1" * 5000, 0o600, "expected lines token"),
        ("[secret-token]\n[secret-token]", 0o600, "expected lines token = .* .at line 2, column 14.$"),
        (None, 0, "No such file"),
    ],
)
def test_a_file_of_tokens_that_cannot_be_used_is_refused_and_not_repeated(
    text: str | None, mode: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.toml"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(UsageError, match=reason) as caught:
        UserTokens.of_file(str(path))
    assert "secret-token" not in str(caught.value)


def test_a_file_of_too_many_tokens_is_refused(tokens: Path) -> None:
    tokens.write_text("".join(f'a-token-of-many-{number} = "ada"\n' for number in range(501)))
    with pytest.raises(UsageError, match="501 tokens"):
        UserTokens.of_file(str(tokens))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
def test_a_file_of_tokens_of_another_user_is_refused(tokens: Path) -> None:
    os.chown(tokens, 65534, -1)
    with pytest.raises(UsageError, match="another user"):
        UserTokens.of_file(str(tokens))
