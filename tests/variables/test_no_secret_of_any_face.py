"""Nothing that any process of rrext or its children ever write has a secret: a search in all of it, for each face."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from everything import CALLER, CALLS, PIPELINE, SECRET, STRANGER, Everything, ToolCall, everything, outside
from listening import PATIENCE, found_in
from websockets.sync.client import connect

pytestmark = pytest.mark.promise("secrets:never-leave")

LOGS = ("--log-level", "debug", "--log-file", "log", "--audit")


def framed(message: Any) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


OPEN: dict[str, Any] = {"compression": None, "proxy": None, "max_size": None}
"""How WebSockets are opened."""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def answered(data: bytes) -> set[bytes]:
    """The ids of answers."""
    return set(re.findall(rb'"id": ?(\d+),', data))


LIGHT = [call for call in CALLS if call[0] not in ("p", "d")]
"""The calls without those that start further processes."""


def requests_of(calls: Sequence[ToolCall], token: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests of calls, and others that tell something."""
    context = {"authorization": CALLER, "userId": "ada"}
    for node, tool, given in calls:
        asked = {"subcommand": "tool", "nodeId": node, "tool": tool, "input": given, "context": context, "token": token}
        yield "rrext_process", {**asked, "progress": True, "stream": True, "events": True, "timeout": 20}
    yield "rrext_process", {"subcommand": "tool", "tool": "says", "token": token, "timeout": 0.001}
    for command in ("tools", "rrext_services", "rrext_get_tasks", "rrext_get_task_status", "no_such_command"):
        yield command, {"token": token}
    for tools in (["fail", outside("api", "echo")], [outside("act", "ECHO"), outside("remote", "x", "mcp")]):
        yield "rrext_tools_resolve", {"tools": tools, "token": token}
    yield "rrext_tools_call", {"call_ref": "tools.http.api.echo.default", "arguments": {}, "events": True}
    for name in (f"sk-{SECRET['variable']}", f"x {SECRET['header']}"):  # texts of clients that happen to be secrets
        for member in ("tool", "nodeId", "token"):
            asked = {"subcommand": "tool", "tool": "says", "token": token, member: name, "events": True}
            yield "rrext_process", {**asked, "context": {"userId": name, "spaceId": name}}
    yield "execute", {"pipeline": PIPELINE, "token": "again"}
    yield "execute", {"pipeline": {"components": [{"id": "${ROCKETRIDE_KEY}", "provider": "${ROCKETRIDE_KEY}"}]}}
    yield "rrext_validate", {"pipeline": PIPELINE}


def on_socket(place: Everything) -> None:
    """`rrext serve --listen`, ended by SIGTERM."""
    with TemporaryDirectory(prefix="rrext-") as folder:
        address = f"{folder}/s"
        words = ("--listen", f"unix:{address}", *LOGS, *place.options, str(place.pipeline))
        with place.start("serve", *words) as server, socket.socket(socket.AF_UNIX) as client:
            server.until(lambda: b"listening at" in server.err)
            client.connect(address)
            client.settimeout(PATIENCE)
            requests, came = list(requests_of(CALLS, "p")), b""
            for number, (command, arguments) in enumerate(requests, 1):
                client.sendall(framed({"jsonrpc": "2.0", "id": number, "method": command, "params": arguments}))
            client.sendall(b'Content-Length: 12\r\n\r\n{"method": }')
            while len(answered(came)) < len(requests):
                came += client.recv(65536)
            place.heard.append(came)
            with place.start("tool", "--at", f"unix:{address}", "tell", "--node", "m", "--events") as process:
                process.end()
            server.note_processes()
            server.end(signal.SIGTERM)


def on_websocket(place: Everything) -> None:
    """`rrext serve --ws` with keys; its port answers HTTP, too."""
    words = ("--ws", "127.0.0.1:0", "--trust-clients", "--keys", str(place.tokens), *LOGS, *place.options, str(place.pipeline))
    with place.start("serve", *words, forks=True) as server:
        port = int(server.until(lambda: re.search(rb"listening at ws://[^:]*:(\d+)", server.err))[1])
        keys = (STRANGER, SECRET["token"])
        for key in keys:
            with connect(f"ws://127.0.0.1:{port}", **OPEN, additional_headers=bearer(key)) as client:
                requests = [("auth", {"auth": key}), *requests_of(LIGHT, "p")]
                for number, (command, arguments) in enumerate(requests, 1):
                    client.send(json.dumps({"type": "request", "seq": number, "command": command, "arguments": arguments}))
                left = set(range(1, len(requests) + 1))
                while left:
                    place.heard.append(client.recv(PATIENCE, decode=False))
                    left.discard(json.loads(place.heard[-1]).get("request_seq"))
        web = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for key in keys:
            for method, path in (("GET", "/"), ("GET", "/metrics"), ("POST", "/webhook"), ("GET", f"/ping?key={key}")):
                web.request(method, path, b"text" if method == "POST" else None, bearer(key))
                place.heard.append(web.getresponse().read())
        web.close()
        server.end(signal.SIGTERM)


def ends_by_crash(place: Everything) -> None:
    """`rrext serve` on stdin and stdout, whose interpreter crashes during calls."""
    with place.start("serve", *LOGS, *place.options, str(place.pipeline)) as server:
        server.send(framed({"jsonrpc": "2.0", "id": 1, "method": "tools", "params": {}}))
        server.until(lambda: b'"id":1,' in server.out)
        asked = {"subcommand": "tool", "nodeId": "c", "tool": "crash", "input": {}}
        server.send(framed({"jsonrpc": "2.0", "id": 2, "method": "rrext_process", "params": asked}))
        server.end()
        assert server.process.returncode == -signal.SIGSEGV
        assert b"Segmentation fault" in place.written()


def is_killed(place: Everything) -> None:
    """`rrext serve` whose tool keeps the interpreter's lock: the watchdog lets it write its stacks, and kills it."""
    with place.start("serve", "--drain", "0.2", *LOGS, *place.options, str(place.pipeline)) as server:
        asked = {"subcommand": "tool", "nodeId": "c", "tool": "hang", "input": {}, "progress": True}
        server.send(framed({"jsonrpc": "2.0", "id": 2, "method": "rrext_process", "params": asked}))
        server.until(lambda: b"rrext_progress" in server.out)
        server.end(signal.SIGTERM)
        assert server.process.returncode == -signal.SIGKILL
        assert b"most recent call first" in place.written()


def mcp_messages() -> Iterator[dict[str, Any]]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked: list[tuple[str, dict[str, Any]]] = [("server/discover", {}), ("tools/list", {}), ("no/method", {})]
    for node, tool, given in LIGHT:
        name = f"{node}__{tool}" if node in ("v", "c") else tool
        asked.append(("tools/call", {"name": name, "arguments": given, "_meta": {"progressToken": 1}}))
    for number, (method, params) in enumerate(asked, 1):
        yield {
            "jsonrpc": "2.0",
            "id": number,
            "method": method,
            "params": {**params, "_meta": {**meta, **params.get("_meta", {})}},
        }


def mcp_on_stdio(place: Everything) -> None:
    """`rrext mcp` on stdin and stdout."""
    with place.start("mcp", *LOGS, *place.options, str(place.pipeline), forks=True) as server:
        messages = list(mcp_messages())
        for message in messages:
            server.send(json.dumps(message).encode() + b"\n")
        server.send(b'{"jsonrpc": "2.0", "id": }\n')
        server.until(lambda: len(answered(server.out)) == len(messages))
        server.end()


def mcp_over_http(place: Everything) -> None:
    """`rrext mcp --http` with tokens."""
    words = ("--http", "127.0.0.1:0", "--tokens", str(place.tokens), *LOGS, *place.options, str(place.pipeline))
    with place.start("mcp", *words) as server:
        port = int(server.until(lambda: re.search(rb"listening at http://[^:]*:(\d+)", server.err))[1])
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for message in mcp_messages():
            method = message["method"]
            own = {"Mcp-Name": message["params"]["name"]} if method == "tools/call" else {}
            own |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Content-Type": "application/json"}
            own |= {"Accept": "application/json, text/event-stream", **bearer(SECRET["token"])}
            client.request("POST", "/mcp", json.dumps(message), own)
            place.heard.append(client.getresponse().read())
        for more in ({"Authorization": f"Bearer {STRANGER}"}, {"Authorization": f"Basic {STRANGER}"}, {"Origin": STRANGER}):
            client.request(
                "POST", f"/mcp?token={SECRET['token']}", STRANGER, {"Authorization": f"Bearer {SECRET['token']}", **more}
            )
            place.heard.append(client.getresponse().read())
        client.close()
        server.note_processes()
        server.end(signal.SIGTERM)


def editor(place: Everything) -> None:
    """`rrext lsp`, which draws, completes and runs the pipeline."""
    uri = (place.run / "p.pipe").as_uri()
    text = place.pipeline.read_text()
    with place.start("lsp", "--log-level", "debug", "--log-file", "log", *place.options) as server:
        number = 0

        def ask(method: str, params: Any, *, wait: bool = True) -> None:
            nonlocal number
            number += 1
            server.send(framed({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            if wait:
                server.until(lambda: re.search(rb'"id": ?%d\b' % number, server.out))

        ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"trusted": True}})
        server.send(framed({"jsonrpc": "2.0", "method": "initialized", "params": {}}))
        item = {"uri": uri, "languageId": "rocketride-pipe", "version": 1, "text": text}
        server.send(framed({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}))
        for node, tool, given in LIGHT[::3]:
            asked = {"uri": uri, "node": node, "tool": tool, "input": given}
            ask("workspace/executeCommand", {"command": "rrext.runTool", "arguments": [asked]})
        ask("workspace/executeCommand", {"command": "rrext.listTools", "arguments": [{"uri": uri}]})
        token = re.findall(rb'"token": ?"([^"]*)"', server.out)[-1].decode()
        ask("workspace/executeCommand", {"command": "rrext.sendFile", "arguments": [{"uri": uri, "text": "a text"}]})
        ask("workspace/executeCommand", {"command": "rrext.showGraph", "arguments": [{"uri": uri, "form": "svg"}]})
        for at in (text.index("ROCKETRIDE_KEY"), text.index('"server"') + 12, text.index("api_echo"), text.index('"File"') + 2):
            place_of = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": at}}
            ask("textDocument/hover", place_of)
            ask("textDocument/completion", place_of)
        for command, arguments in requests_of(LIGHT, token):
            ask(command, arguments, wait=False)
        server.until(lambda: len(answered(server.out)) == number)
        server.note_processes(starts_engines=True)
        ask("workspace/executeCommand", {"command": "rrext.runTool", "arguments": [{"uri": uri, "node": "c", "tool": "crash"}]})
        ask("shutdown", None)
        server.send(framed({"jsonrpc": "2.0", "method": "exit"}))
        server.end()


def commands(place: Everything) -> None:
    """Commands that end by themselves."""
    (place.run / "o.txt").write_text("text")
    file = str(place.pipeline)
    lines: list[tuple[str, ...]] = [
        ("check", *place.options, file),
        ("send", *place.options, file, "o.txt"),
        ("show", *place.options[2:4], file),
        ("schema", *place.options[2:4]),
        *(
            ("tool", *place.options, "--events", file, "--node", *words)
            for words in (("c", "says"), ("m", "tell"), ("t", "api_fail"))
        ),
        ("mcp", *place.options, file, "--http", "127.0.0.1:1", "--tokens", str(place.tokens), "--print-config", "vscode"),
    ]
    with ExitStack() as stack:
        for process in [stack.enter_context(place.start(*line, forks=True)) for line in lines]:
            process.end()


FACES = [on_socket, on_websocket, mcp_on_stdio, mcp_over_http, editor, commands, ends_by_crash, is_killed]
PROVED = {
    on_socket: set(SECRET) - {"token", "stranger"},
    on_websocket: set(SECRET) - {"token", "stranger"},
    mcp_on_stdio: {"variable", "env", "file", "literal", "header", "query", "composio", "child", "named", "pairs"},
    mcp_over_http: {"variable", "env", "file", "literal", "header", "query", "composio", "child", "named", "pairs"},
    editor: set(SECRET) - {"token", "stranger"},
    commands: {"variable", "env", "file", "literal", "header", "query", "child", "named", "pairs"},
    ends_by_crash: {"file", "child", "named", "pairs"},
    is_killed: {"file"},
}
"""Face → the secrets that stand in its output where nothing takes them out. Tokens are never written."""


def found(place: Everything) -> dict[str, list[bytes]]:
    """The lines in which a secret stands, by its place."""
    data = b"\n".join([*place.heard, place.written()])
    lines = {name: found_in(data, [core]) for name, core in SECRET.items()}
    return {name: each for name, each in lines.items() if each}


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_no_secret_is_in_anything_that_is_written(face: Callable[[Everything], None], tmp_path: Path) -> None:
    with everything(tmp_path) as place:
        face(place)
    assert found(place) == {}


@pytest.mark.parametrize(
    "face",
    [pytest.param(face, marks=() if face is ends_by_crash else pytest.mark.system) for face in FACES],
    ids=lambda f: f.__name__,
)
def test_without_a_redactor_the_search_finds_the_secrets(face: Callable[[Everything], None], tmp_path: Path) -> None:
    with everything(tmp_path, blind=True) as place:
        face(place)
    assert set(found(place)) >= PROVED[face]
