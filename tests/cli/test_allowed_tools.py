"""`--tools`: a server that offers only some tools, on every face."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from commands import command
from forked import completed

from rrext import Client, ToolNotFound
from rrext.cli.commands.servers.serve import allowed_tools

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


def test_a_name_that_no_pipeline_has_is_warned_of_at_the_start_with_near_names(tmp_path: Path) -> None:
    words = ["serve", str(EXAMPLES / "filesystem.pipe"), "--root", str(tmp_path)]
    names = ["read_fil", "files_1.read_file", "tools.mcp.github.x.default", "nothing-like-it", "write_file"]
    done = completed(command(*words, *(word for name in names for word in ("--tools", name))), stdin=b"")
    assert done.stderr.decode().splitlines() == [
        "rrext: warning: --tools nothing-like-it: no pipeline has this tool.",
        "rrext: warning: --tools read_fil: no pipeline has this tool. Did you mean read_file?",
    ]


def test_the_call_ref_of_a_node_is_its_tool_in_both_forms(tmp_path: Path) -> None:
    for name in ("tools.node.files_1.read_file.self", "tools__node__files_1__read_file__self"):
        assert allowed_tools(argparse.Namespace(tools=[name, "x"])) == {"files_1.read_file", "x"}
    assert allowed_tools(argparse.Namespace(tools=["tools__mcp__github__x__default"])) == {"tools.mcp.github.x.default"}
