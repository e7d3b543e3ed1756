"""A pipeline is a tool itself: a text or a question goes in, the result of its object comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from mcp_host import NODES, PATIENCE, PIPELINE, Host

pytestmark = pytest.mark.promise("mcp:as-tool")


def write(folder: Path, name: str, source: str, lane: str, node: str, **more: Any) -> Path:
    """A pipeline of a source and a node that puts its lane into the result."""
    parts = [
        {"id": "in_1", "provider": source, "config": {}},
        {"id": "out_1", "provider": node, "config": {}, "input": [{"lane": lane, "from": "in_1"}]},
    ]
    path = folder / f"{name}.pipe"
    path.write_text(json.dumps({"components": parts, "source": "in_1", **more}), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """One that repeats texts, one that repeats questions."""
    return [
        write(tmp_path, "texts", "webhook", "text", "response_text", description="Repeats a text."),
        write(tmp_path, "chats", "chat", "questions", "response_questions"),
    ]


@pytest.fixture(params=["stdio", "http"])
def host(request: pytest.FixtureRequest, files: list[Path]) -> Iterator[Host | HttpServer]:
    """A host of both files as tools, one under another name."""
    options = ["--as-tool", "texts=repeat", "--as-tool", "chats"]
    with Host(*options, files=files) if request.param == "stdio" else HttpServer(*options, files=files) as host:
        yield host


def test_pipelines_are_listed_with_their_descriptions_and_give_the_result_of_their_object(host: Host | HttpServer) -> None:
    tools = {tool["name"]: tool for tool in host.result("tools/list")["tools"]}
    assert tools.keys() == {"repeat", "chats"}
    assert tools["repeat"]["description"] == "Repeats a text."
    assert tools["repeat"]["inputSchema"]["required"] == ["text"]
    result = host.call("repeat", text="hello", name="greeting")["structuredContent"]
    assert (result["name"], result["text"]) == ("greeting", ["hello\n\n"])
    asked = host.call("chats", text="Why?")["structuredContent"]["questions"]
    assert [question["text"] for question in asked[0]["questions"]] == ["Why?"]


@pytest.mark.promise("tools:allow-list:hides")
@pytest.mark.parametrize("kind", [Host, HttpServer])
def test_of_several_pipelines_the_allowed_tools_alone_are_there(files: list[Path], kind: type[Host | HttpServer]) -> None:
    with kind("--as-tool", "texts=repeat", "--as-tool", "chats", "--tools", "repeat", files=files) as few:
        assert [tool["name"] for tool in few.result("tools/list")["tools"]] == ["repeat"]
        assert few.call("repeat", text="hello")["structuredContent"]["text"] == ["hello\n\n"]
        for name in ("chats", "chat") if isinstance(few, Host) else ():
            error = few.failure("tools/call", {"name": name, "arguments": {"text": "x"}})
            assert (error["code"], error["data"]["near"]) == (-32602, [])


@pytest.mark.promise("references:pipeline:wrapped")
@pytest.mark.parametrize("kind", [Host, HttpServer])
def test_conditions_of_references_hold_for_the_user_and_the_space_of_the_command(
    tmp_path: Path, kind: type[Host | HttpServer]
) -> None:
    repeat = {"type": "pipeline", "pipeline": "texts"}
    conditions = {"ada": {"users": ["ada"]}, "eve": {"users": ["eve"]}, "space": {"space": "required"}, "off": {"when": "no"}}
    tools = [{**repeat, "name": name, "available": condition} for name, condition in conditions.items()]
    offering = tmp_path / "offering.pipe"
    offering.write_text(json.dumps({"components": [{"id": "t", "provider": "tools", "config": {"tools": tools}}]}))
    texts = write(tmp_path, "texts", "webhook", "text", "response_text")
    for options, names in ((["--user", "ada"], {"ada"}), (["--user", "eve", "--space", "s"], {"eve", "space"}), ([], set())):
        with kind(*options, files=[offering, texts]) as host:
            assert {tool["name"] for tool in host.result("tools/list")["tools"]} == names
            for name in names:
                assert host.call(name, text="x")["structuredContent"]["text"] == ["x\n\n"]
            for name in conditions.keys() - names if isinstance(host, Host) else ():
                assert host.failure("tools/call", {"name": name})["data"]["code"] == "tool_not_found"


@pytest.fixture(scope="module")
def face() -> Iterator[Host]:
    """A host of a pipeline whose node obeys orders in texts."""
    with Host("--as-tool", "obey", "--user", "ada", "--threads", "2") as host:
        yield host


@pytest.mark.parametrize(
    ("text", "reason"),
    [("fail:", "I do not like this text"), ("crash:", "ValueError: an accident"), ("spoil:", "is no JSON")],
)
def test_an_object_that_fails_is_a_failed_call(text: str, reason: str, face: Host) -> None:
    failed = face.call("obey", text=text)
    assert failed["isError"]
    assert reason in failed["content"][0]["text"]


def test_the_pipeline_sees_the_user_of_the_call(face: Host) -> None:
    assert face.value("obey", text="who:")["reply"] == ["ada\n\n"]


def test_a_call_that_is_late_or_cancelled_leaves_no_pipe_behind(face: Host) -> None:
    late = {"name": "obey", "arguments": {"text": "park:late"}, "_meta": {"rrext/timeout": 0.05}}
    assert face.result("tools/call", late)["_meta"]["rrext/error"]["code"] == "tool_timeout"
    face.call("open_gate", key="late")
    assert obeyed(face, "again") == ["AGAIN\n\n"]
    number = face.ask("tools/call", {"name": "obey", "arguments": {"text": "park:dropped"}})
    while face.value("journal", key="dropped") != {"result": ["in"]}:
        pass
    face.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    face.call("open_gate", key="dropped")
    assert obeyed(face, "again") == ["AGAIN\n\n"]


def obeyed(face: Host, text: str) -> list[str]:
    """The reply to a text, once the threads of earlier ones have left the places for pipes."""
    while (result := face.call("obey", text=text)).get("isError"):
        assert result["_meta"]["rrext/error"]["code"] == "unavailable"
    return result["structuredContent"]["reply"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing=x", "did you mean|no file has the token"),
        ("x", "TOKEN=NAME"),
        ("texts=a b", "no name for a tool"),
        ("pictures=look", "takes texts or questions"),
    ],
)
def test_a_pipeline_that_cannot_be_a_tool_is_refused(name: str, reason: str, files: list[Path], tmp_path: Path) -> None:
    files = [*files, write(tmp_path, "pictures", "webhook", "image", "response_image")]
    assert any(part in refusal(files, "--as-tool", name) for part in reason.split("|"))


def test_a_name_that_is_taken_is_refused_because_both_would_be_renamed(files: list[Path]) -> None:
    taken = refusal(files, "--as-tool", "texts=both", "--as-tool", "chats=both")
    assert "--as-tool both: another pipeline has this name" in taken
    taken = refusal([PIPELINE], "--as-tool", "add", *NODES)
    assert '--as-tool add: a tool of "face" has this name (choose another one: --as-tool face=NAME)' in taken.replace("\n", " ")


def refusal(files: list[Path], *options: str) -> str:
    """What a server says that does not start."""
    command = [sys.executable, "-m", "rrext", "mcp", *map(str, files), *options]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    return done.stderr
