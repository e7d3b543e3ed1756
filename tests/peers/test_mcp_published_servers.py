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
from outside_servers import pipeline_words
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
        ("echo", {"message": "\u2028 \U0001f600 \\n"}),
        ("echo", {"message": ""}),
        ("get-sum", {"a": -1e-7, "b": 2}),
        ("get-resource-links", {"count": 10}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        ("get-structured-content", {"location": "Chicago"}),
        ("trigger-elicitation-request", {}),
        ("trigger-url-elicitation", {"url": "https://example.org/in", "message": "Sign in", "elicitationId": "e-1"}),
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
        ("read_text_file", {"path": f"{files}/a.txt", "tail": 1}),
        ("read_text_file", {"path": f"{files}/a.txt", "head": 1, "tail": 1}),
        ("list_directory_with_sizes", {"path": files, "sortBy": "size"}),
        ("directory_tree", {"path": files, "excludePatterns": ["sub"]}),
        ("search_files", {"path": files, "pattern": "none"}),
        ("read_media_file", {"path": f"{files}/a.txt"}),
        ("edit_file", {"path": f"{files}/a.txt", "edits": [{"oldText": "none", "newText": "x"}]}),
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
        ("create_entities", {"entities": []}),
        ("search_nodes", {"query": "\u00e6"}),
        ("open_nodes", {"names": ["Nobody"]}),
        ("delete_entities", {"entityNames": ["Ada"]}),
    ]


def times(work: str) -> list[Call]:
    return [
        ("get_current_time", {"timezone": "UTC"}),
        ("convert_time", {"source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo"}),
        ("get_current_time", {"timezone": "Nowhere"}),
        ("convert_time", {"source_timezone": "America/New_York", "time": "23:59", "target_timezone": "Asia/Kolkata"}),
        ("convert_time", {"source_timezone": "Nowhere", "time": "10:00", "target_timezone": "UTC"}),
        ("convert_time", {"source_timezone": "UTC", "time": "25:61", "target_timezone": "UTC"}),
    ]


def git(work: str) -> list[Call]:
    calls: list[Call] = [
        ("git_status", {}),
        ("git_diff_unstaged", {}),
        ("git_diff_staged", {}),
        ("git_log", {}),
        ("git_log", {"max_count": 1}),
        ("git_show", {"revision": "none"}),
        ("git_diff_unstaged", {"context_lines": 0}),
        ("git_show", {"revision": "HEAD"}),
        ("git_add", {"files": ["f.txt"]}),
        ("git_diff_staged", {}),
        ("git_create_branch", {"branch_name": "b"}),
        ("git_checkout", {"branch_name": "b"}),
        ("git_branch", {"branch_type": "local"}),
        ("git_checkout", {"branch_name": "none"}),
        ("git_diff", {"target": "main"}),
        ("git_branch", {"branch_type": "all"}),
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
SALES = {"department": "Sales"}
RESOURCE = {"name": "resourceId", "value": "1"}
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
ASKED: list[Call] = [
    ("prompts/get", {"name": "simple-prompt"}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo", "state": "?"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "1"}}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Oslo"}}),
    ("prompts/get", {"name": "args-prompt", "arguments": {}}),
    ("prompts/get", {"name": "completable-prompt", "arguments": {"department": "Sales", "name": "David"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Blob", "resourceId": "2"}}),
    ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Odd", "resourceId": "-1"}}),
    ("completion/complete", DEPARTMENT),
    ("completion/complete", {**DEPARTMENT, "argument": {"name": "name", "value": ""}, "context": {"arguments": SALES}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "resourceId", "value": "1"}},
    ),
    ("resources/read", {"uri": "demo://resource/static/document/architecture.md"}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/2"}),
    ("resources/read", {"uri": "demo://resource/dynamic/blob/2"}),
    ("resources/read", {"uri": "demo://resource/dynamic/text/none"}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
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


def through(command: list[str], work: Path, *, whole: bool) -> list[str]:
    """The command of a server of rrext before this server, which a node has, or a reference takes `whole`."""
    return [sys.executable, "-m", "rrext", "mcp", *pipeline_words(work, {"out": command}, ["out"] if whole else [])]


PREFIXES = re.compile(r"\bout(_1)?__|rrext:///outside/(out_1|mcp%3Aout)/")
"""What stands before the names and URIs of a server."""
BLOB = re.compile(r'"blob": "([^"]*)"')
USER = {"elicitation/create": lambda params: {"action": "accept"} | ({} if "url" in params else {"content": {"name": "Ada"}})}
"""The user of both clients."""


def answers(name: str, work: Path, url: str, before: Callable[[list[str]], list[str]] | None) -> list[Any]:
    """The names of the tools, then the content and the structured content of each call, or its error."""
    prepare(work)
    (work / "url").write_text(url)
    command = SERVERS[name].command(work)
    capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    with plain_client(before(command) if before else command, cwd=work, answers=USER, capabilities=capabilities) as client:
        tools = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
        full = {PREFIXES.sub("", tool): tool for tool in tools}
        found: list[Any] = [[*full]]
        for tool, given in SERVERS[name].calls(str(work)):
            answer = client.call(full[tool], **given)
            members = answer.get("result", answer)
            found.append([members.get(key) for key in ("content", "structuredContent", "error")])
        for method, params in ASKED if name == "everything" else ():
            answer = client.ask(method, **params)
            found.append(answer.get("result") or answer["error"]["code"])
    return found


def written(answer: Any) -> str:
    """An answer as JSON, without times of day, also in the bytes of a resource, and without prefixes."""
    text = PREFIXES.sub("", json.dumps(answer))
    text = BLOB.sub(lambda found: f'"blob": {base64.b64decode(found[1])!r}', text)
    return MOMENT.sub("…", text)


@pytest.mark.timeout(300)  # six servers, of which one starts a program for each call
@pytest.mark.parametrize(("name", "whole"), [*((name, False) for name in SERVERS), ("everything", True)])
def test_a_host_gets_the_content_that_a_direct_client_gets(name: str, whole: bool, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (tmp_path / "work" / "served").mkdir(parents=True)
    with served(work / "served") as url:
        said = answers(name, work, url, None)
        passed_on = answers(name, work, url, lambda command: through(command, work, whole=whole))
    calls = ["tools/list", *SERVERS[name].calls(str(work)), *(ASKED if name == "everything" else ())]
    pairs = zip(calls, said, passed_on, strict=True)
    texts = [(call, written(one), written(other)) for call, one, other in pairs]
    assert [each for each in texts if each[1] != each[2]] == []
    assert all(content for content in said), "a server that answers nothing is compared with nothing"
