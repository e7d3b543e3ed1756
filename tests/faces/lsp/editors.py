"""An editor in this process: what it sends is taken at once, what the server says is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from rrext.faces.lsp.features.table import language_server
from rrext.faces.lsp.options import Options

URI = "file:///project/test.pipe"

SHOWN: dict[str, Any] = {
    "versionSupport": True,
    "relatedInformation": True,
    "codeDescriptionSupport": True,
    "tagSupport": {"valueSet": [1, 2]},
}
"""What this editor can show of a diagnostic, unless a test says otherwise."""


class Editor:
    """A client of one `PipeServer`. To be made and used inside a running asyncio loop."""

    def __init__(self, given: Options | None = None) -> None:
        self.server = language_server(given or Options())
        self.server.protocol.sink = self._take
        self.messages: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        """What this editor answers to requests of the server, by method."""
        self._arrived = asyncio.Event()
        self._last_id = 0
        self._version = 0

    def _take(self, body: bytes) -> None:
        message = json.loads(body)
        self.messages.append(message)
        if "method" in message and "id" in message:
            answer = self.answers.get(message["method"], lambda _: None)
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message.get("params"))}
            asyncio.get_running_loop().call_soon(self.server.protocol.receive, reply)
        self._arrived.set()

    def post(self, method: str, params: Any = None) -> int:
        """Send a request without waiting for its answer; its id."""
        self._last_id += 1
        self.server.protocol.receive({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def answer(self, request_id: int) -> dict[str, Any]:
        """The whole answer to a request."""
        return await self.until(lambda message: message.get("id") == request_id and "method" not in message)

    async def request(self, method: str, params: Any = None) -> Any:
        """The result of a request; fails on an error."""
        answer = await self.answer(self.post(method, params))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def failure(self, method: str, params: Any = None) -> dict[str, Any]:
        """The error of a request; fails on a result."""
        answer = await self.answer(self.post(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.server.protocol.receive({"jsonrpc": "2.0", "method": method, "params": params})

    async def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that fits, of those that came and those that will."""
        seen = 0
        while True:
            for message in self.messages[seen:]:
                seen += 1
                if fits(message):
                    return message
            self._arrived.clear()
            await self._arrived.wait()

    async def start(
        self,
        options: Any = None,
        capabilities: dict[str, Any] | None = None,
        units: list[str] | None = None,
        root: str | None = None,
    ) -> dict[str, Any]:
        """Introduce this editor; the server's capabilities. `root` is the URI of the workspace."""
        general = {"general": {"positionEncodings": units}} if units else {}
        said = {**(capabilities or {}), **general}
        said["textDocument"] = {"publishDiagnostics": SHOWN, **said.get("textDocument", {})}
        params = {"processId": None, "rootUri": root, "capabilities": said, "initializationOptions": options}
        result = await self.request("initialize", params)
        self.notify("initialized", {})
        return result["capabilities"]

    def open(self, text: str, uri: str = URI) -> None:
        """Open a document."""
        self._version += 1
        item = {"uri": uri, "languageId": "rocketride-pipe", "version": self._version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, *changes: dict[str, Any], uri: str = URI) -> int:
        """Edit a document; the new version."""
        self._version += 1
        document = {"uri": uri, "version": self._version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})
        return self._version

    async def diagnostics(self, uri: str = URI, version: int | None = None) -> list[dict[str, Any]]:
        """What was published for the newest version of a document, or for the given one."""
        wanted = self._version if version is None else version

        def fits(message: dict[str, Any]) -> bool:
            params = message.get("params") or {}
            published = message.get("method") == "textDocument/publishDiagnostics"
            return published and params["uri"] == uri and params.get("version") == wanted

        return (await self.until(fits))["params"]["diagnostics"]
