"""Pipelines with servers outside, and the ways in which the official Python client reaches them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ERAS = ("legacy", "modern")
WAYS = [("stdio", "legacy"), ("stdio", "modern"), ("http", "modern"), ("ws", "legacy")]
"""The transport and the era of a host: each transport, and both eras where we speak the protocol ourselves."""
MODES = {"legacy": "legacy", "modern": "2026-07-28"}


def pipeline_words(folder: Path, servers: Mapping[str, Sequence[str]], whole: Sequence[str] = ()) -> list[str]:
    """The words of a command that name a pipeline with a node `NAME_1` for each server, for the `whole` ones a reference."""
    tables = [f'[{name}]\nprovider = "mcp"\ncommand = {json.dumps([*words])}\n' for name, words in servers.items()]
    connections = folder / "connections.toml"
    connections.write_text("".join(tables))
    connections.chmod(0o600)
    source = {"id": "tools_1", "provider": "tools", "config": {"tools": [{"type": "mcp", "server": name} for name in whole]}}
    control = [{"classType": "tool", "from": "tools_1"}]
    nodes = [
        {"id": f"{name}_1", "provider": "tool_mcp_client", "config": {"server": name}, "control": control}
        for name in servers
        if name not in whole
    ]
    pipeline = folder / "outside.pipe"
    pipeline.write_text(json.dumps({"components": [source, *nodes], "source": "tools_1", "project_id": "p"}))
    return [str(pipeline), "--connections", str(connections)]


@contextmanager
def served_by_ws(words: Sequence[str]) -> Iterator[str]:
    """The URL beside WebSockets, where each pipeline has a process of its own."""
    command = [sys.executable, "-m", "rrext", "serve", "--ws", "127.0.0.1:0", *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"listening at" not in (line := process.stderr.readline()):
            assert line
        yield line.decode().split()[-1].replace("ws://", "http://") + "/mcp"
        process.terminate()


def stdio(words: Sequence[str]) -> Any:
    """What the client takes in place of a URL."""
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    return stdio_client(StdioServerParameters(command=sys.executable, args=["-m", "rrext", "mcp", *words]))
