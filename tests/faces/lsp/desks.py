"""Editors that run pipelines, with a real engine behind them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from faces.lsp.editors import Editor

NODES = Path(__file__).resolve().with_name("run_nodes.py")

EVERYTHING: dict[str, Any] = {
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {"applyEdit": True},
}
"""What an editor can do that can do everything."""


def components(source: str = "webhook") -> list[dict[str, Any]]:
    """A source, the bench, and a reply."""
    return [
        {"id": "in", "provider": source, "config": {}},
        {
            "id": "bench",
            "provider": "bench",
            "config": {},
            "input": [{"lane": "text", "from": "in"}] if source == "webhook" else [],
            "control": [{"classType": "tool", "from": "in"}],
        },
        {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "bench"}]},
    ]


def pipeline(**more: Any) -> str:
    """The bench as the text of a file."""
    return json.dumps({"components": components(), "source": "in", "project_id": "p", **more}, indent=2)


class Desk:
    """An editor with one document, `bench.pipe`, in a folder of its own."""

    def __init__(self, editor: Editor, folder: Path) -> None:
        self.editor = editor
        self.folder = folder
        self.uri = (folder / "bench.pipe").as_uri()

    def command(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> int:
        """Send a command without waiting; its id."""
        given = [{"uri": self.uri, **(arguments or {})}]
        return self.editor.post("workspace/executeCommand", {"command": name, "arguments": given, **more})

    async def run(self, tool: str, input: dict[str, Any] | None = None, **more: Any) -> Any:
        """The answer to a run of a tool."""
        answer = await self.editor.answer(self.command("rrext.runTool", {"tool": tool, "input": input or {}, **more}))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def ask(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """The result of a command."""
        answer = await self.editor.answer(self.command(name, arguments))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def refused(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """The error of a command."""
        answer = await self.editor.answer(self.command(name, arguments))
        assert "error" in answer, answer
        return answer["error"]

    def replace(self, text: str) -> None:
        """Type another text; it is not saved."""
        self.editor.change({"text": text}, uri=self.uri)

    def messages(self, method: str) -> list[Any]:
        """The parameters of what the server said so far."""
        return [message["params"] for message in self.editor.messages if message.get("method") == method]

    async def told(self, method: str, words: str = "") -> Any:
        """The parameters of the first such message that has these words."""
        found = await self.editor.until(lambda message: message.get("method") == method and words in json.dumps(message))
        return found["params"]

    async def noted(self, line: str) -> None:
        """Wait until the bench wrote a line into its journal: each of its tools reports right after that."""
        await self.told("$/progress", {"waiting": "parked", "blocking": "stuck"}[line])
        assert line in self.journal()

    def journal(self) -> list[str]:
        """What the bench wrote."""
        path = self.folder / "journal.txt"
        return path.read_text().splitlines() if path.exists() else []

    async def marks(self) -> list[dict[str, Any]]:
        """The newest diagnostics that tell of runs."""
        published = self.messages("textDocument/publishDiagnostics")
        return [found for found in published[-1]["diagnostics"] if found.get("source") == "rrext run"]


@asynccontextmanager
async def desk(
    folder: Path,
    text: str | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    root: str | None = None,
    **options: Any,
) -> AsyncIterator[Desk]:
    """A trusted editor with a document open, unless the options say otherwise. `root` is the URI of its workspace."""
    editor = Editor()
    editor.answers["window/showDocument"] = lambda _: {"success": True}
    found = Desk(editor, folder)
    try:
        given = {"trusted": True, "nodes": [str(NODES)], **options}
        await editor.start(given, EVERYTHING if capabilities is None else capabilities, root=root)
        editor.open(pipeline() if text is None else text, found.uri)
        yield found
    finally:
        await editor.server.aclose()
