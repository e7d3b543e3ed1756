"""Published MCP servers give a host of `rrext mcp` the same content as a client that asks them directly, byte for byte."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from plain_client import plain_client

pytestmark = [pytest.mark.system, pytest.mark.promise("mcp:passes-on")]

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
MOMENT = re.compile(r"\d\d?:\d\d:\d\d( [AP]M)?(\+00:00| GMT\S*)?")
"""A time of day, which is another one in each run."""
GIT = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
GIT |= {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}

Call = tuple[str, dict[str, Any]]


class Published(msgspec.Struct):
    """A server: its command, whose paths are below the work folder, and the calls that are compared."""

    command: Callable[[Path], list[str]]
    calls: Callable[[str], list[Call]]


def node(package: str, *words: str) -> Callable[[Path], list[str]]:
    def command(work: Path) -> list[str]:
        program = Path(os.environ.get("RREXT_NODE_MODULES", ""), ".bin", f"mcp-server-{package}")
        if shutil.which("node") is None or not program.exists():
            pytest.skip(f"install Node.js, and set RREXT_NODE_MODULES to a folder with @modelcontextprotocol/server-{package}")
        return [str(program), *(word.format(work) for word in words)]

    return command


def python(package: str, *words: str) -> Callable[[Path], list[str]]:
    def command(work: Path) -> list[str]:
        if "RREXT_MCP_SERVERS" not in os.environ:
            pytest.skip("set RREXT_MCP_SERVERS to a Python that has mcp-server-time, mcp-server-git and mcp-server-fetch")
        program = Path(os.environ["RREXT_MCP_SERVERS"]).with_name(f"mcp-server-{package}")
        return [str(program), *(word.format(work) for word in words)]

    return command


def everything(work: str) -> list[Call]:
    zipped = {"name": "x.gz", "data": "data:text/plain,hello"}
    return [
        ("echo", {"message": "hi"}),
        ("get-sum", {"a": 1, "b": 2}),
        ("get-tiny-image", {}),
        ("get-annotated-message", {"messageType": "error"}),
        ("get-annotated-message", {"messageType": "success", "includeImage": True}),
        ("get-annotated-message", {"messageType": "debug", "includeImage": False}),
        ("get-resource-links", {"count": 3}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
        ("get-structured-content", {"location": "New York"}),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        ("gzip-file-as-resource", {**zipped, "outputType": "resource"}),
        ("gzip-file-as-resource", {**zipped, "outputType": "resourceLink"}),
        ("toggle-simulated-logging", {}),
    ]


def filesystem(work: str) -> list[Call]:
    files = f"{work}/files"
    edit = {"oldText": "new", "newText": "old"}
    return [
        ("list_allowed_directories", {}),
        ("read_text_file", {"path": f"{files}/a.txt"}),
        ("read_text_file", {"path": f"{files}/a.txt", "head": 1}),
        ("read_file", {"path": f"{files}/a.txt"}),
        ("read_media_file", {"path": f"{files}/p.png"}),
        ("read_multiple_files", {"paths": [f"{files}/a.txt", f"{files}/none"]}),
        ("list_directory", {"path": files}),
        ("list_directory_with_sizes", {"path": files}),
        ("directory_tree", {"path": files}),
        ("search_files", {"path": files, "pattern": "**/*.md"}),
        ("get_file_info", {"path": f"{files}/a.txt"}),
        ("write_file", {"path": f"{files}/n.txt", "content": "new"}),
        ("edit_file", {"path": f"{files}/n.txt", "edits": [edit], "dryRun": True}),
        ("create_directory", {"path": f"{files}/d"}),
        ("move_file", {"source": f"{files}/n.txt", "destination": f"{files}/d/n.txt"}),
        ("read_text_file", {"path": f"{files}/none"}),
        ("read_text_file", {"path": "/etc/hostname"}),
    ]


def memory(work: str) -> list[Call]:
    relation = {"from": "Ada", "to": "Ada", "relationType": "is"}
    return [
        ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote"]}]}),
        ("create_relations", {"relations": [relation]}),
        ("add_observations", {"observations": [{"entityName": "Ada", "contents": ["counted"]}]}),
        ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}),
        ("read_graph", {}),
        ("search_nodes", {"query": "ada"}),
        ("open_nodes", {"names": ["Ada"]}),
        ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["counted"]}]}),
        ("delete_relations", {"relations": [relation]}),
        ("delete_entities", {"entityNames": ["Ada"]}),
    ]


def times(work: str) -> list[Call]:
    return [
        ("get_current_time", {"timezone": "UTC"}),
        ("convert_time", {"source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo"}),
        ("convert_time", {"source_timezone": "Nowhere", "time": "10:00", "target_timezone": "UTC"}),
        ("convert_time", {"source_timezone": "UTC", "time": "25:61", "target_timezone": "UTC"}),
    ]


def git(work: str) -> list[Call]:
    calls: list[Call] = [
        ("git_status", {}),
        ("git_diff_unstaged", {}),
        ("git_diff_staged", {}),
        ("git_log", {}),
        ("git_show", {"revision": "HEAD"}),
        ("git_add", {"files": ["f.txt"]}),
        ("git_diff_staged", {}),
        ("git_create_branch", {"branch_name": "b"}),
        ("git_checkout", {"branch_name": "b"}),
        ("git_branch", {"branch_type": "local"}),
        ("git_checkout", {"branch_name": "none"}),
        ("git_diff", {"target": "main"}),
        ("git_reset", {}),
    ]
    return [*((tool, {"repo_path": f"{work}/repo", **given}) for tool, given in calls), ("git_status", {"repo_path": "/"})]


def fetch(work: str) -> list[Call]:
    url = Path(work, "url").read_text()
    page = f"{url}/page.html"
    return [
        ("fetch", {"url": page}),
        ("fetch", {"url": page, "raw": True}),
        ("fetch", {"url": page, "max_length": 5}),
        ("fetch", {"url": page, "start_index": 9999}),
        ("fetch", {"url": f"{url}/data.json"}),
        ("fetch", {"url": f"{url}/none"}),
    ]


DEPARTMENT = {"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "E"}}
ASKED: list[Call] = [
    ("prompts/get", {"name": "simple-prompt"}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo", "state": "?"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "1"}}),
    ("completion/complete", DEPARTMENT),
    ("resources/read", {"uri": "demo://resource/static/document/architecture.md"}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/2"}),
]
"""What the first server has beside tools."""

SERVERS = {
    "everything": Published(node("everything", "stdio"), everything),
    "filesystem": Published(node("filesystem", "{}/files"), filesystem),
    "memory": Published(lambda work: ["env", f"MEMORY_FILE_PATH={work}/memory.jsonl", *node("memory")(work)], memory),
    "time": Published(python("time", "--local-timezone", "Europe/Oslo"), times),
    "git": Published(python("git", "-r", "{}/repo"), git),
    "fetch": Published(python("fetch", "--allow-private-ips"), fetch),
}


def prepare(work: Path) -> None:
    """The same folder as before any other run."""
    shutil.rmtree(work, ignore_errors=True)
    files, repo, served = work / "files", work / "repo", work / "served"
    for folder in (files / "sub", repo, served):
        folder.mkdir(parents=True)
    (files / "a.txt").write_text("one\ntwo\nthree\n")
    (files / "p.png").write_bytes(PNG)
    (files / "sub" / "c.md").write_text("# C\n")
    (served / "page.html").write_text("<html><head><title>T</title></head><body><h1>Hi</h1><p>Some <a href='/x'>link</a></p>")
    (served / "data.json").write_text('{"a": 1}')
    (served / "robots.txt").write_text("")

    def run(*words: str) -> None:
        subprocess.run(["git", "-C", str(repo), *words], check=True, capture_output=True, env={**os.environ, **GIT, **DATES})

    run("init", "-b", "main")
    for number in (1, 2, 3):
        (repo / "f.txt").write_text(f"{number}\n")
        if number < 3:
            run("add", ".")
            run("commit", "-m", f"number {number}")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a folder on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def through(command: list[str], work: Path) -> list[str]:
    """The command of a server of rrext before this server."""
    connections, pipeline = work / "connections.toml", work / "outside.pipe"
    connections.write_text(f'[outside]\nprovider = "mcp"\ncommand = {json.dumps(command)}\n')
    connections.chmod(0o600)
    source = {"id": "tools_1", "provider": "tools", "config": {}}
    node = {"id": "mcp_1", "provider": "tool_mcp_client", "config": {"server": "outside"}}
    node["control"] = [{"classType": "tool", "from": "tools_1"}]
    pipeline.write_text(json.dumps({"components": [source, node], "source": "tools_1", "project_id": "p"}))
    return [sys.executable, "-m", "rrext", "mcp", str(pipeline), "--connections", str(connections)]


def answers(name: str, work: Path, url: str, *, directly: bool) -> list[Any]:
    """The names of the tools, then the content and the structured content of each call, or its error."""
    prepare(work)
    (work / "url").write_text(url)
    command = SERVERS[name].command(work)
    with plain_client(command if directly else through(command, work), cwd=work) as client:
        found: list[Any] = [[tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]]
        for tool, given in SERVERS[name].calls(str(work)):
            answer = client.call(tool, **given)
            members = answer.get("result", answer)
            found.append([members.get(key) for key in ("content", "structuredContent", "error")])
        for method, params in ASKED if name == "everything" else ():
            answer = client.ask(method, **params).get("result", {})
            found.append([answer.get("messages") or answer.get("contents") or answer.get("completion"), None, None])
    return found


@pytest.mark.parametrize("name", SERVERS)
def test_a_host_gets_the_content_that_a_direct_client_gets(name: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (tmp_path / "work" / "served").mkdir(parents=True)
    with served(work / "served") as url:
        said, passed_on = (answers(name, work, url, directly=directly) for directly in (True, False))
    calls = ["tools/list", *SERVERS[name].calls(str(work)), *(ASKED if name == "everything" else ())]
    pairs = zip(calls, said, passed_on, strict=True)
    texts = [(call, MOMENT.sub("…", json.dumps(one)), MOMENT.sub("…", json.dumps(other))) for call, one, other in pairs]
    assert [each for each in texts if each[1] != each[2]] == []
    assert all(content for content, _, _ in said[1:]), "a server that answers nothing is compared with nothing"
