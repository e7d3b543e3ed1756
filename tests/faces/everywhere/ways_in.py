"""Every way in for people and programs, in one form: calls, lists, references."""

from __future__ import annotations

import json
import re
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from commands import Done, spawned, until
from faces.lsp.editors import Editor
from http_server import HttpServer
from mcp_host import Host
from whole_pipeline import Place, Row

import rrext.blocking
from rrext import Client
from rrext.cli.commands.calls.tool import CALL_IS_WRONG
from rrext.errors import RrextError
from rrext.faces.lsp.options import Options
from rrext.limits import DEFAULTS
from rrext.wire.connection import ClientConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Response

Answer = dict[str, Any]
"""`{"result": …}`, in which bytes are base64, or the members of an error that are told."""
ERROR = re.compile(
    r"^rrext: (?P<message>(?:(?!^rrext: ).)*) \[(?P<code>\w+)\]\n(?:  /.*\n)*(?:  hint: (?P<hint>.*)\n)?", re.M | re.S
)
"""An error on stderr."""
Run = Callable[..., Done]
"""Runs a command in this process."""


class WayIn:
    """A face. `tells` has the members of an error that it tells, `permits` says whether it permits what it calls."""

    tells: ClassVar[frozenset[str]] = frozenset(("code", "message", "hint", "data"))
    permits = False
    has_nodes = True
    has_references = True

    def call(self, row: Row) -> Answer:
        """The answer to a call."""
        raise NotImplementedError

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        """The tools, as they are listed; those of the protocols for models in one of their formats."""
        raise NotImplementedError

    def request(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer to `rrext_tools_resolve` or `rrext_tools_call`."""
        raise NotImplementedError

    def shown(self, answer: Answer) -> Answer:
        """An answer of another face, as far as this one shows it."""
        return answer if "result" in answer else {key: value for key, value in answer.items() if key in self.tells}


def failed(error: RrextError) -> Answer:
    return {"code": error.code, "message": error.message, "hint": error.hint, "data": plain(error.data)}


def plain(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return msgspec.json.decode(msgspec.json.encode(value))


def tool_arguments(row: Row) -> dict[str, Any]:
    return {"subcommand": "tool", "tool": row.tool, "input": row.input, **({"nodeId": row.node} if row.node else {})}


class Wire(WayIn):
    """Frames on the socket, in one of the dialects."""

    def __init__(self, dialect: Literal["dap", "jsonrpc"], path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(path)
        self._connection = ClientConnection(ContentLength(DEFAULTS), dialect)

    def close(self) -> None:
        self._socket.close()

    def call(self, row: Row) -> Answer:
        return self.request("rrext_process", tool_arguments(row))

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        return self._body("tools", {} if format is None else {"format": format})["tools"]

    def request(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        try:
            body = self._body(command, arguments)
        except RrextError as error:
            return failed(error)
        if command == "rrext_tools_resolve":
            return {"result": plain(body)}
        return {"result": plain(body["result"])}

    def _body(self, command: str, arguments: Mapping[str, Any]) -> Any:
        number, pieces = self._connection.request(command, dict(arguments))
        self._socket.sendall(b"".join(pieces))
        while True:
            count = self._socket.recv_into(self._connection.framer.get_buffer(65536))
            assert count, "the server closed the connection"
            for message in self._connection.framer.buffer_updated(count):
                assert isinstance(message, Response)
                assert message.id == number
                if message.error is not None:
                    raise message.error
                return message.body


class Sdk(WayIn):
    """A client, whose methods `run` calls."""

    def __init__(self, client: Any, run: Callable[..., Any]) -> None:
        self._client = client
        self._run = run

    def call(self, row: Row) -> Answer:
        return self._told(partial(self._client.tool, tool=row.tool, node_id=row.node, input=row.input))

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        return self._run(partial(self._client.tools, format=format))

    def request(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        method = self._client.tools_resolve if command == "rrext_tools_resolve" else self._client.tools_call
        return self._told(partial(method, **arguments))

    def _told(self, method: Callable[[], Any]) -> Answer:
        try:
            return {"result": plain(self._run(method))}
        except RrextError as error:
            return failed(error)


class Command(WayIn):
    """`rrext tool` and `rrext tools`, of a file or of a server.

    A command tells no data, no hint that its message has, and the list of tools as one if there is no other.
    """

    tells = frozenset(("code", "message", "hint"))
    permits = True
    has_references = False

    def __init__(self, run: Run, *where: str) -> None:
        self._run = run
        self._where = where
        self._pipeline = " ".join(where[:2]) if where[0] == "--at" else where[0]

    def call(self, row: Row) -> Answer:
        owner = row.node or row.owner
        node = ["--node", owner] if owner else []
        done = self._run("tool", *self._where, row.tool, *node, "--input", json.dumps(row.input))
        if done.code == 0:
            return {"result": done.value}
        assert done.out == b""
        found = ERROR.search(done.err)
        assert found is not None, done
        assert done.code == (2 if found["code"] in CALL_IS_WRONG else 1)
        return {"code": found["code"], "message": found["message"], "hint": found["hint"]}

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        form = ["--json"] if format is None else ["--format", format]
        return self._run("tools", *self._where, *form).rows["tools"]

    def shown(self, answer: Answer) -> Answer:
        told = super().shown(answer)
        if told.get("code") == "tool_not_found" and not told["hint"]:
            return {**told, "hint": f"`rrext tools {self._pipeline}` lists the tools"}
        return {**told, "hint": None} if told.get("hint") and told["hint"] in told["message"] else told


class InEditor(WayIn):
    """The commands of a language server for an open document, and its custom methods."""

    def __init__(self, editor: Editor, place: Place, portal: BlockingPortal) -> None:
        self._editor = editor
        self._uri = place.pipeline.as_uri()
        self._portal = portal

    def call(self, row: Row) -> Answer:
        node = {"node": row.node} if row.node else {}
        told = self._command("rrext.runTool", tool=row.tool, input=row.input, **node)
        if not told["ok"]:
            return {"hint": None, "data": {}, **told["error"]}
        if "result" not in told:
            with open(url2pathname(urlsplit(told["uri"]).path), "rb") as file:
                return {"result": plain(file.read())}
        return {"result": told["result"]}

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        listed = self._command("rrext.listTools")["result"]
        if format is None:
            return listed["tools"]
        return self._ask("tools", {"token": listed["token"], "format": format})["result"]["tools"]

    def request(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        token = self._command("rrext.listTools")["result"]["token"]
        answer = self._ask(command, {"token": token, **arguments})
        if "error" in answer:
            data = dict(answer["error"].get("data") or {})
            code, hint = data.pop("code"), data.pop("hint", None)
            return {"code": code, "message": answer["error"]["message"], "hint": hint, "data": data}
        return {"result": answer["result"] if command == "rrext_tools_resolve" else answer["result"]["result"]}

    def _command(self, name: str, **arguments: Any) -> Any:
        answer = self._ask("workspace/executeCommand", {"command": name, "arguments": [{"uri": self._uri, **arguments}]})
        assert "result" in answer, answer
        return answer["result"]

    def _ask(self, method: str, params: Any) -> Any:
        async def ask() -> Any:
            return await self._editor.answer(self._editor.post(method, params))

        return self._portal.call(ask)


class Mcp(WayIn):
    """A server of the Model Context Protocol, which has no nodes and no references. `ask` sends a request."""

    has_nodes = False
    has_references = False

    def __init__(self, ask: Callable[[str, dict[str, Any]], Any]) -> None:
        self._ask = ask

    def call(self, row: Row) -> Answer:
        answer = self._ask("tools/call", {"name": row.tool, "arguments": row.input})
        if "error" in answer:
            data = dict(answer["error"]["data"])
            code, hint = data.pop("code"), data.pop("hint", None)
            return {"code": code, "message": answer["error"]["message"], "hint": hint, "data": data}
        result = answer["result"]
        if result.get("isError"):
            return {"hint": None, "data": {}, **result["_meta"]["rrext/error"]}
        return {"result": value_of(result)}

    def shown(self, answer: Answer) -> Answer:
        """The blocks of a failure are the content of the result."""
        data = {key: value for key, value in answer.get("data", {}).items() if key != "content"}
        return {**answer, "data": data} if "data" in answer else answer

    def tools(self, format: str | None = None) -> list[dict[str, Any]]:
        return self._ask("tools/list", {})["result"]["tools"]


def value_of(result: dict[str, Any]) -> Any:
    """The value of a result, as its text and its structured content both have it."""
    (content,) = result["content"]
    if content["type"] == "image":
        return plain(b64decode(content["data"]))
    try:
        value = json.loads(content["text"])
    except ValueError:
        value = content["text"]
    assert result.get("structuredContent", value) in (value, {"result": value})
    return value


@contextmanager
def _portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as portal:
        yield portal


@contextmanager
def wire(place: Place, address: str, dialect: Literal["dap", "jsonrpc"]) -> Iterator[WayIn]:
    found = Wire(dialect, address.removeprefix("unix:"))
    try:
        yield found
    finally:
        found.close()


@contextmanager
def sdk(place: Place, address: str) -> Iterator[WayIn]:
    with _portal() as portal, portal.wrap_async_context_manager(Client.connect(address)) as client:
        yield Sdk(client, portal.call)


@contextmanager
def blocking_sdk(place: Place, address: str) -> Iterator[WayIn]:
    with rrext.blocking.Client.connect(address) as client:
        yield Sdk(client, lambda method: method())


@contextmanager
def on_websocket(place: Place, address: str) -> Iterator[WayIn]:
    with spawned("serve", "--ws", "127.0.0.1:0", "--trust-clients", *place.options, str(place.pipeline)) as process:
        assert process.stderr is not None
        found = re.search(r"ws://[^/\s]+", until(process.stderr, "ws://"))
        assert found is not None
        with _portal() as portal, portal.wrap_async_context_manager(Client.connect(found[0])) as client:
            yield Sdk(client, portal.call)


@contextmanager
def in_editor(place: Place, address: str) -> Iterator[WayIn]:
    async def opened() -> Editor:
        editor = Editor(Options(connections=str(place.connections), root=str(place.folder)))
        await editor.start({"trusted": True})
        editor.open(place.pipeline.read_text(), place.pipeline.as_uri())
        return editor

    with _portal() as portal:
        editor = portal.call(opened)
        try:
            yield InEditor(editor, place, portal)
        finally:
            portal.call(editor.server.aclose)


@contextmanager
def mcp_stdio(place: Place, address: str) -> Iterator[WayIn]:
    with Host(*place.options, files=[place.pipeline]) as host:
        yield Mcp(lambda method, params: host.answer(host.ask(method, params)))


@contextmanager
def mcp_http(place: Place, address: str) -> Iterator[WayIn]:
    with HttpServer(*place.options, files=[place.pipeline]) as server:
        yield Mcp(lambda method, params: server.ask(method, params)[1])


WAYS: dict[str, Callable[[Place, str], AbstractContextManager[WayIn]]] = {
    "DAP": partial(wire, dialect="dap"),
    "JSON-RPC": partial(wire, dialect="jsonrpc"),
    "rrext.Client": sdk,
    "rrext.blocking": blocking_sdk,
    "WebSocket": on_websocket,
    "editor": in_editor,
    "MCP stdio": mcp_stdio,
    "MCP HTTP": mcp_http,
}
