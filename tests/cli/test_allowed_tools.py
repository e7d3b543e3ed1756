"""`--tools`: a server that offers only some tools, on every face."""

from __future__ import annotations

from pathlib import Path

import pytest

from rrext import Client, ToolNotFound

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = [pytest.mark.anyio, pytest.mark.promise("tools:allow-list:hides")]


@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_a_server_offers_the_named_tools_alone(dialect: str, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "a.txt").write_text("hello", encoding="utf-8")
    options = ["--root", str(tmp_path), "--tools", "read_file"]
    client = Client.spawn(EXAMPLES / "filesystem.pipe", args=options, dialect=dialect)  # pyright: ignore[reportArgumentType]
    async with client:
        assert [tool["name"] for tool in await client.tools()] == ["read_file"]
        assert (await client.tool(tool="read_file", input={"path": "a.txt"}))["content"] == "hello"
        assert (await client.tools_call(name="read_file", arguments={"path": "a.txt"}))["content"] == "hello"
        for call in (client.tool(tool="list_directory"), client.tools_call(name="list_directory")):
            with pytest.raises(ToolNotFound):
                await call
