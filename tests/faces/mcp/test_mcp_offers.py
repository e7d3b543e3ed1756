"""Pipelines offer prompts and files to hosts, if their settings say so: both eras, on stdio and over HTTP."""

from __future__ import annotations

import os
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from mcp_host import Host

HERE = Path(__file__).resolve().parent
URI = "rrext:///offering/files_1/"
LISTS = {"prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}

pytestmark = pytest.mark.promise("mcp:offers")


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline with a shelf of files beside it."""
    folder = tmp_path_factory.mktemp("offering")
    shelf = folder / "shelf"
    (shelf / "a b" / "deep").mkdir(parents=True)
    (shelf / ".git").mkdir()
    for name, data in {
        "welcome.md": "Wëlcome".encode(),
        "a b/ü?#%.md": b"odd",
        "a b/deep/raw.bin": b"\x00\xff",
        "empty.txt": b"",
        "no.html": b"<p>",
        ".hidden.md": b"hidden",
        ".git/x.md": b"hidden",
    }.items():
        (shelf / name).write_bytes(data)
    (folder / "secret.md").write_text("outside")
    (shelf / "link.md").symlink_to(folder / "secret.md")
    (shelf / "loop").symlink_to(shelf)
    shutil.copy(HERE / "offering.pipe", folder)
    return folder / "offering.pipe"


@pytest.fixture(scope="module")
def legacy(pipeline: Path) -> Iterator[Host]:
    """A host after a handshake."""
    with Host(files=[pipeline], shakes_hands=True) as host:
        yield host


@pytest.fixture(scope="module")
def modern(pipeline: Path) -> Iterator[Host]:
    """A host without a handshake."""
    with Host(files=[pipeline]) as host:
        yield host


@pytest.fixture(scope="module")
def http(pipeline: Path) -> Iterator[HttpServer]:
    """A server of HTTP, asked without a handshake."""
    with HttpServer(files=[pipeline]) as server:
        yield server


@pytest.fixture(params=["legacy", "modern", "http"])
def host(request: pytest.FixtureRequest) -> Host | HttpServer:
    """A host of each kind."""
    return request.getfixturevalue(request.param)


def refusal(host: Host | HttpServer, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The error of a request; over HTTP one whose header cannot name what it asks for has a number of its own."""
    if isinstance(host, Host):
        return host.failure(method, params)
    error = host.ask(method, params)[1]["error"]
    return {**error, "code": -32602} if error["code"] == -32020 else error


def test_what_is_offered_is_announced(legacy: Host, modern: Host, http: HttpServer) -> None:
    announced = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
    assert legacy.initialized["capabilities"] == announced
    assert modern.result("server/discover")["capabilities"] == announced
    over_http = http.result("server/discover")["capabilities"]
    assert {key: {name: yes for name, yes in value.items() if yes} for key, value in over_http.items()} == announced


def test_prompts_are_listed_and_put_together(host: Host | HttpServer) -> None:
    (prompt,) = host.result("prompts/list")["prompts"]
    assert (prompt["name"], prompt["title"], prompt["description"]) == ("poem", "Poem", "Writes a poem.")
    assert [argument["name"] for argument in prompt["arguments"]] == ["question", "context"]
    (message,) = host.result("prompts/get", {"name": "poem"})["messages"]
    assert message["role"] == "user"
    assert "Write four lines." in message["content"]["text"]
    assert "Rhyme them." in message["content"]["text"]
    given = {"question": "About what?", "context": "The sea is blue."}
    (message,) = host.result("prompts/get", {"name": "poem", "arguments": given})["messages"]
    text = message["content"]["text"]
    assert text.index("Rhyme them.") < text.index("The sea is blue.") < text.index("About what?")


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"name": "poen"}, "did you mean poem"),
        ({"name": "prompt_2"}, "no prompt has this name"),
        ({}, "no prompt has this name"),
        ({"name": ["poem"]}, "no prompt has this name"),
        ({"name": "poem", "arguments": {"question": 1}}, "expected texts by name"),
        ({"name": "poem", "arguments": {"subject": "sea"}}, "takes question and context"),
        ({"name": "poem", "arguments": ["sea"]}, "expected texts by name"),
    ],
)
def test_a_prompt_that_is_not_there_or_not_filled_is_refused(
    params: dict[str, Any], reason: str, host: Host | HttpServer
) -> None:
    error = refusal(host, "prompts/get", params)
    assert error["code"] == -32602
    assert reason in error["message"] or isinstance(host, HttpServer)  # where the SDK may refuse it before


def test_files_are_listed_that_fit_a_pattern_and_are_neither_hidden_nor_links(host: Host | HttpServer) -> None:
    found = host.result("resources/list")
    assert [each["title"] for each in found["resources"]] == ["a b/deep/raw.bin", "a b/ü?#%.md", "empty.txt", "welcome.md"]
    assert "nextCursor" not in found
    welcome = found["resources"][-1]
    assert welcome == {
        "uri": f"{URI}welcome.md", "name": "welcome.md", "title": "welcome.md", "mimeType": "text/markdown", "size": 8
    }  # fmt: skip
    assert found["resources"][1]["uri"] == f"{URI}a%20b/%C3%BC%3F%23%25.md"
    (template,) = host.result("resources/templates/list")["resourceTemplates"]
    assert template == {"uriTemplate": f"{URI}{{+path}}", "name": "files_1", "description": "Notes of the library."}


def test_every_listed_file_is_read(host: Host | HttpServer) -> None:
    contents: dict[str, Any] = {}
    for each in host.result("resources/list")["resources"]:
        (content,) = host.result("resources/read", {"uri": each["uri"]})["contents"]
        assert (content["uri"], content["mimeType"]) == (each["uri"], each["mimeType"])
        contents[each["title"]] = content["text"] if "text" in content else b64decode(content["blob"])
    assert contents == {"a b/deep/raw.bin": b"\x00\xff", "a b/ü?#%.md": "odd", "empty.txt": "", "welcome.md": "Wëlcome"}


PATHS = (
    "no such.md", "../secret.md", "%2e%2e/secret.md", "..%2fsecret.md", "/etc/passwd", "link.md", "loop/welcome.md", "a b",
    "a%00b", "",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_is_not_below_the_folder_is_not_read(path: str, host: Host | HttpServer) -> None:
    error = refusal(host, "resources/read", {"uri": URI + path})
    assert error["code"] == (-32002 if hasattr(host, "initialized") else -32602)
    assert "outside" not in error["message"]


@pytest.mark.parametrize("uri", ["rrext:///offering/silent_1/welcome.md", "rrext:///other/files_1/welcome.md", "file:///x", 7])
def test_a_uri_of_nothing_that_is_offered_is_refused(uri: Any, host: Host | HttpServer) -> None:
    assert refusal(host, "resources/read", {"uri": uri})["code"] == -32602


@pytest.mark.parametrize("cursor", ["x", "9:", "-1:", "0", 7, {"0": 1}, "1" * 5000 + ":", "²:", "0:../.."])
def test_a_cursor_of_no_page_is_refused(cursor: Any, host: Host | HttpServer) -> None:
    assert refusal(host, "resources/list", {"cursor": cursor})["code"] == -32602


def test_results_of_2026_tell_how_long_they_may_be_kept(modern: Host, legacy: Host) -> None:
    for method, params in (("prompts/list", {}), ("resources/list", {}), ("resources/read", {"uri": f"{URI}welcome.md"})):
        assert modern.result(method, params).keys() >= {"resultType", "ttlMs", "cacheScope"}
        assert not legacy.result(method, params).keys() & {"resultType", "ttlMs", "cacheScope"}
    assert "ttlMs" not in modern.result("prompts/get", {"name": "poem"})


def test_pages_have_all_files_of_all_nodes_once(tmp_path: Path) -> None:
    parts: list[dict[str, Any]] = [{"id": "tools_1", "provider": "tools", "config": {}}]
    expected: list[str] = []
    for node in ("one", "two", "none"):
        (tmp_path / node).mkdir()
        for number in range(600 if node != "none" else 0):
            folder = tmp_path / node / f"{number % 7}"
            folder.mkdir(exist_ok=True)
            (folder / f"{number}.md").touch()
            expected.append(f"rrext:///many/{node}/{number % 7}/{number}.md")
        control = [{"classType": "tool", "from": "tools_1"}]
        config = {"root": node, "resources": ["*"]}
        parts.append({"id": node, "provider": "tool_filesystem", "config": config, "control": control})
    from json import dumps

    path = tmp_path / "many.pipe"
    path.write_text(dumps({"components": parts, "source": "tools_1"}))
    with Host(files=[path]) as host:
        found: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = host.result("resources/list", params)
            found += [each["uri"] for each in page["resources"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(expected)


def test_several_pipelines_offer_under_names_that_are_unique(pipeline: Path, tmp_path: Path) -> None:
    shutil.copytree(pipeline.parent / "shelf", tmp_path / "shelf", symlinks=True)
    shutil.copy(pipeline, tmp_path / "other.pipe")
    (tmp_path / "shelf" / "welcome.md").write_text("the other one")
    with Host(files=[pipeline, tmp_path / "other.pipe"]) as host:
        assert [prompt["name"] for prompt in host.result("prompts/list")["prompts"]] == ["offering__poem", "other__poem"]
        (content,) = host.result("resources/read", {"uri": "rrext:///other/files_1/welcome.md"})["contents"]
        assert content["text"] == "the other one"


@pytest.mark.parametrize("kind", [Host, HttpServer])
def test_pipelines_that_offer_nothing_announce_nothing_and_answer(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "plain.pipe"
    path.write_text('{"components": [{"id": "tools_1", "provider": "tools", "config": {}}], "source": "tools_1"}')
    with kind(files=[path]) as host:
        assert list(host.result("server/discover")["capabilities"]) == ["tools"]
        for method, member in LISTS.items():
            assert host.result(method)[member] == []
            assert refusal(host, method, {"cursor": "5:"})["code"] == -32602
        if isinstance(host, Host):  # over HTTP, 2026-07-28 does not have it
            assert host.result("logging/setLevel", {"level": "debug"}) == {"resultType": "complete"}
        assert refusal(host, "prompts/get", {"name": "poem"})["code"] == -32602
        assert refusal(host, "resources/read", {"uri": "rrext:///plain/x/y"})["code"] == -32602
        ref = {"type": "ref/prompt", "name": "poem"}
        asked = {"ref": ref, "argument": {"name": "question", "value": ""}}
        assert refusal(host, "completion/complete", asked)["code"] == -32602
        assert refusal(host, "resources/subscribe", {"uri": "rrext:///plain/x/y"})["code"] == -32601


def test_a_prompt_and_a_template_of_our_own_take_any_value(host: Host | HttpServer) -> None:
    argument = {"name": "question", "value": "W"}
    refs = ({"type": "ref/prompt", "name": "poem"}, {"type": "ref/resource", "uri": f"{URI}{{+path}}"})
    for ref in refs:
        completed = host.result("completion/complete", {"ref": ref, "argument": argument})
        assert completed["completion"] == {"values": []}


def test_files_of_a_node_that_nothing_reaches_are_not_offered_and_prompts_need_no_source(tmp_path: Path) -> None:
    path = tmp_path / "apart.pipe"
    path.write_text(
        """{"components": [
          {"id": "tools_1", "provider": "tools", "config": {}},
          {"id": "files_1", "provider": "tool_filesystem", "config": {"resources": ["*"]}},
          {"id": "poem", "provider": "prompt", "config": {"instructions": ["Rhyme."], "offer": true}}
        ], "source": "tools_1"}"""
    )
    with Host(files=[path]) as host:
        assert "resources" not in host.result("server/discover")["capabilities"]
        assert [prompt["name"] for prompt in host.result("prompts/list")["prompts"]] == ["poem"]


def test_files_of_tools_that_are_not_among_the_allowed_ones_are_not_offered(pipeline: Path) -> None:
    with Host("--tools", "stat_file", files=[pipeline]) as host:
        assert host.result("server/discover")["capabilities"] == {"tools": {"listChanged": True}, "prompts": {}}
        assert host.failure("resources/read", {"uri": f"{URI}welcome.md"})["code"] == -32602
        assert host.result("resources/list")["resources"] == []


def test_a_list_that_is_cancelled_is_not_answered(modern: Host) -> None:
    modern.write(
        b'{"jsonrpc":"2.0","id":"l","method":"resources/list","params":{}}\n'
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}\n'
    )
    modern.notes.clear()
    modern.result("ping")
    assert all(note.get("id") != "l" or "result" in note for note in modern.notes)


def test_a_folder_that_goes_away_is_an_error_and_comes_back(pipeline: Path, tmp_path: Path) -> None:
    shutil.copytree(pipeline.parent / "shelf", tmp_path / "shelf", symlinks=True)
    shutil.copy(pipeline, tmp_path)
    with Host(files=[tmp_path / "offering.pipe"]) as host:
        os.rename(tmp_path / "shelf", tmp_path / "gone")
        assert "cannot be used" in host.failure("resources/list")["message"]
        os.rename(tmp_path / "gone", tmp_path / "shelf")
        assert host.result("resources/list")["resources"]
