"""`rrext init --template knowledge`: from an empty folder to answers out of documents, by the lines that it prints."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from threading import Semaphore

import pytest
from command_terminal import at_terminal
from commands import EXAMPLES, call, spawned
from model_server import Asked, Call, Hang, ModelServer, Say, serving

pytest.importorskip("re2", reason="the extra `knowledge` is not installed")
pytest.importorskip("qdrant_edge", reason="the extra `vector` is not installed")
pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")

OF_SPACES = {"list_sources", "list_folder_contents", "folder_tree"}
HOST = {"name": "host", "version": "1"}
SEVEN = {
    "search_documents", "grep_documents", "find_by_name", "document_info", "read_document", "analyze_document",
    "query_documents",
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, and the pipeline that `init` wrote, which has read them."""
    folder = tmp_path_factory.mktemp("recipe")
    shutil.copytree(EXAMPLES / "library", folder / "my documents")
    done = call("init", "--template", "knowledge", "library.pipe", "--folder", "my documents", cwd=folder)
    assert (done.code, done.out) == (0, b"")
    send, *others = [shlex.split(line) for line in done.err.splitlines()[1:]]
    assert [words[1] for words in (send, *others)] == ["send", "tool", "chat", "mcp"]
    checked = call("check", "library.pipe", cwd=folder)
    assert (checked.code, checked.err) == (0, "library.pipe: ok, 9 components\n")
    sent = call(*send[1:], cwd=folder)
    assert sent.code == 0
    assert sent.lines[-1]["summary"]["new"] == len([path for path in (folder / "my documents").rglob("*") if path.is_file()])
    (folder / "lines.json").write_text(json.dumps(others))
    return folder


def test_its_tools_find_and_read_documents_without_a_model(library: Path) -> None:
    found = call("tool", "library.pipe", "search_documents", "query=When is the library open?", cwd=library).value
    best = found["results"][0]
    assert best["path"] == "my documents/welcome.txt"
    read = call("tool", "library.pipe", "read_document", f'documents:=["{best["document"]}"]', cwd=library).value
    assert read["documents"][0]["text"] == (library / "my documents" / "welcome.txt").read_text()


def test_what_is_sent_again_is_unchanged(library: Path) -> None:
    sent = call("send", "--sync", "library.pipe", "my documents", cwd=library)
    assert {key: sent.lines[-1]["summary"][key] for key in ("new", "changed", "deleted", "failed")} == dict.fromkeys(
        ("new", "changed", "deleted", "failed"), 0
    )


def test_a_host_is_shown_the_tools_that_need_no_space_and_no_web_and_calls_them(library: Path) -> None:
    *_, mcp = json.loads((library / "lines.json").read_text())
    printed = call(*mcp[1:], cwd=library)
    ((_, server),) = json.loads(printed.out)["mcpServers"].items()
    messages = [
        {"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": HOST}},
        {"method": "tools/list"},
        {"method": "tools/call", "params": {"name": "find_by_name", "arguments": {"pattern": "*.txt"}}},
        {"method": "tools/call", "params": {"name": "list_sources", "arguments": {}}},
    ]  # fmt: skip
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **message}) for number, message in enumerate(messages)]
    answers = {}
    words = server["args"][server["args"].index("mcp") :]
    with spawned(*words, cwd=library, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        for line in lines:
            host.stdin.write(line.encode() + b"\n")
            host.stdin.flush()
            answer = json.loads(host.stdout.readline())
            answers[answer["id"]] = answer
        host.stdin.close()
    listed = {tool["name"] for tool in answers[1]["result"]["tools"]}
    assert listed >= SEVEN
    assert listed - SEVEN == {"find_similar"}
    assert not listed & OF_SPACES
    (document,) = answers[2]["result"]["structuredContent"]["documents"]
    assert document["name"] == "welcome.txt"
    assert answers[3]["result"]["isError"]


def test_a_question_is_answered_from_the_documents(library: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

    def play(asked: Asked) -> Say:
        if not asked.results:
            return Say("I look.", calls=[Call("search_documents", {"query": "When is the library open?"})])
        best = json.loads(asked.results[-1])["results"][0]
        return Say(f"{best['path']} says: {best['text'].splitlines()[2]}")

    with serving() as server:
        server.plays(play)
        done = call("chat", asked_pipeline(library, server), "When is the library open?", cwd=library)
    assert done.code == 0, done.err
    assert done.out.decode().startswith("my documents/welcome.txt says: ")
    offered = set(server.asked[0].tools)
    assert offered >= {"search_documents", "read_document"}
    assert not offered & {"delete", "move", "versions", "upsert"}, "a model changes no document"


def asked_pipeline(library: Path, server: ModelServer) -> str:
    """The recipe with the model of a test."""
    text = (library / "library.pipe").read_text()
    model = '"provider": "llm_ollama",\n      "config": { "model": "qwen3" }'
    assert model in text
    config = {"model": "test", "base_url": server.address, "apikey": "k" * 20}
    mine = f'"provider": "llm_openai_api", "config": {json.dumps(config)}'
    (library / "asked.pipe").write_text(text.replace(model, mine))
    return "asked.pipe"


@pytest.mark.promise("chat:terminal:live")
def test_an_analysis_is_watched_at_a_terminal_and_ended_half_way(library: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")
    thinking = Semaphore(0)

    def play(asked: Asked) -> Say | Hang:
        if "analyze_document" not in asked.tools:  # the one who reads the document
            if asked.results:
                thinking.release()
                return Hang()
            return Say("I read it.", calls=[Call("read", {"count": 50})])
        if not asked.results:
            return Say("I search.", calls=[Call("find_by_name", {"pattern": "welcome.txt"})])
        (document,) = json.loads(asked.results[0])["documents"]
        question = "When is it open?"
        return Say("It has the answer.", calls=[Call("analyze_document", {"document": document["id"], "question": question})])

    with serving() as server:
        server.plays(play)
        with at_terminal(["chat", asked_pipeline(library, server)], folder=library, NO_COLOR="1") as terminal:
            terminal.until("chat>")
            terminal.type("When is the library open?\r")
            terminal.until("I search.")
            terminal.until("It has the answer.")
            terminal.until("analyze_document")
            terminal.until("✓ read(count=50)")
            assert thinking.acquire(timeout=50)
            terminal.until_lines_are_read()
            terminal.type("\x03")
            terminal.until("cancelled")
            assert server.lost.acquire(timeout=50), "nobody waits for the model any more"
            terminal.until("chat>")
            terminal.type("\x04")
            assert terminal.ended() == 0


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = call("init", "--template", "knowledge", "--folder", "nowhere", cwd=tmp_path)
    assert (done.code, done.err) == (2, "rrext: --folder nowhere is no folder\n")
    done = call("init", "--folder", ".", cwd=tmp_path)
    assert (done.code, done.err) == (2, "rrext: --folder . belongs to --template knowledge\n")
    assert list(tmp_path.iterdir()) == []
