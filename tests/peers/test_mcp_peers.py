"""Official clients of the Model Context Protocol that pip cannot install beside the tests' own drive a spawned server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from mcp_server import COMMAND, HERE, RREXT, served_by_http

pytestmark = pytest.mark.system


@contextmanager
def served(transport: str) -> Iterator[list[str]]:
    """The words by which a peer finds the server: its command, or its URL."""
    with nullcontext() if transport == "stdio" else served_by_http() as url:
        yield COMMAND if url is None else [url]


def drive(transport: str, *peer: str) -> None:
    """Run a peer; what it asserts is in its script."""
    with served(transport) as server:
        done = subprocess.run(
            [*peer, *server], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("done\n"), done.stdout


def node_module(package: str) -> Path:
    """The folder of a package of Node.js; the test is skipped without it."""
    found = Path(os.environ.get("RREXT_NODE_MODULES", ""), package)
    if shutil.which("node") is None or not found.is_dir():
        pytest.skip(f"install Node.js 20 or later, and set RREXT_NODE_MODULES to a node_modules folder with {package}")
    return found


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("package", ["@modelcontextprotocol/sdk", "@modelcontextprotocol/client"])
def test_a_typescript_client_drives_the_server(package: str, transport: str) -> None:
    node_module(package)
    drive(transport, "node", str(HERE / "mcp_peer.mjs"), package)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_first_python_client_drives_the_server(transport: str) -> None:
    if "RREXT_MCP_1" not in os.environ:
        pytest.skip("set RREXT_MCP_1 to a Python that has mcp 1.30")
    drive(transport, os.environ["RREXT_MCP_1"], str(HERE / "mcp_peer_1.py"))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_lists_and_uses_tools_prompts_and_resources(transport: str) -> None:
    node_module("@modelcontextprotocol/inspector")
    inspector = Path(os.environ["RREXT_NODE_MODULES"], ".bin", "mcp-inspector")

    def answer(*words: str) -> dict[str, object]:
        how = ["--transport", "http"] if transport == "http" else []
        command = [str(inspector), "--cli", *server, *how, *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    with served(transport) as server:
        tools = answer("--method", "tools/list")["tools"]
        assert isinstance(tools, list)
        assert "add" in {tool["name"] for tool in tools}
        called = answer("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2")
        assert called["structuredContent"] == {"sum": 3}
        assert answer("--method", "tools/call", "--tool-name", "add", "--tool-arg", "b=2")["isError"] is True
        assert answer("--method", "tools/call", "--tool-name", "shout", "--tool-arg", "text=hi")["structuredContent"]
        assert "greeting" in json.dumps(answer("--method", "prompts/list"))
        prompt = answer("--method", "prompts/get", "--prompt-name", "greeting", "--prompt-args", "question=Who?")
        assert "Greet the person." in json.dumps(prompt)
        assert "judge.pipe" in json.dumps(answer("--method", "resources/list"))
        read = answer("--method", "resources/read", "--uri", "rrext:///judge/files_1/judge.pipe")
        assert "What official clients drive" in json.dumps(read)
        assert "files_1" in json.dumps(answer("--method", "resources/templates/list"))


def test_the_conformance_suite_passes_but_for_what_is_not_here(tmp_path: Path) -> None:
    suite = node_module("@modelcontextprotocol/conformance") / "dist" / "index.js"
    node = os.environ.get("RREXT_NODE", "node")
    if int(subprocess.check_output([node, "--version"], text=True).lstrip("v").partition(".")[0]) < 22:
        pytest.skip("install Node.js 22 or later, or set RREXT_NODE to one: the suite needs it")
    connections = tmp_path / "connections.toml"
    server = [sys.executable, str(HERE / "conformance_server.py")]
    connections.write_text(f'[suite]\nprovider = "mcp"\ncommand = {json.dumps(server)}\n')
    connections.chmod(0o600)
    options = ["--nodes", str(HERE / "conformance_nodes.py"), "--connections", str(connections)]
    with served_by_http([*RREXT, str(HERE / "conformance.pipe"), *options]) as url:
        done = subprocess.run(
            [node, str(suite), "server", "--url", url, "--suite", "all"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
    passed, failed = (set(re.findall(rf"^{sign} ([\w-]+):", done.stdout, re.MULTILINE)) for sign in "✓✗")
    assert failed == NOT_HERE.keys(), done.stdout
    assert len(passed) == 28, done.stdout


NOT_HERE = {
    "tools-call-with-logging": "a tool tells its host nothing but progress",
    "tools-call-sampling": "no tool asks for the model of its host",
    "resources-subscribe": "no resource tells of its changes",
    "resources-unsubscribe": "the same",
}
"""Scenario that fails → what the face does not do."""
