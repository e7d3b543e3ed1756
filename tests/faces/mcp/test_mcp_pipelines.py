"""Several pipelines are offered as one: the names of their tools are unique."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_host import PIPELINE, Host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of three pipelines, two of which have the same tools."""
    folder = tmp_path_factory.mktemp("several")
    face = PIPELINE.read_text(encoding="utf-8")
    for name in ("east", "west wing"):
        (folder / f"{name}.pipe").write_text(face, encoding="utf-8")
    alone = json.loads(face)
    alone["components"] = [part for part in alone["components"] if part["id"] in ("webhook_1", "files_1")]
    (folder / "notes.txt").write_text("a note", encoding="utf-8")
    tool = {"id": "files_1", "provider": "tool_filesystem", "config": {"root": "."}}
    alone["components"].append({**tool, "control": [{"classType": "tool", "from": "webhook_1"}]})
    (folder / "files.pipe").write_text(json.dumps(alone), encoding="utf-8")
    files = [folder / f"{name}.pipe" for name in ("east", "west wing", "files")]
    with Host("--root", str(folder), files=files) as several:
        yield several


def test_a_call_before_the_first_list_finds_its_pipeline(host: Host) -> None:
    assert host.call("read_file", path="notes.txt")["structuredContent"]["content"] == "a note"


def test_a_tool_of_one_pipeline_has_its_own_name_and_others_have_the_name_of_their_pipeline(host: Host) -> None:
    tools = {tool["name"]: tool for tool in host.result("tools/list")["tools"]}
    assert "read_file" in tools
    assert "add" not in tools
    assert tools["east__add"]["title"] == "Add (east)"
    west = next(name for name in tools if name.startswith("west_wing__add__"))  # a space is no character of a name
    assert len(tools) == len(host.result("tools/list")["tools"])
    assert host.value("east__add", a=1) == host.value(west, a=1) == {"sum": 2}


def test_a_name_in_no_pipeline_is_an_error_with_near_names(host: Host) -> None:
    error = host.failure("tools/call", {"name": "east_add"})
    assert error["code"] == -32602
    assert "east__add" in error["data"]["near"]


def test_a_call_reaches_the_pipeline_of_its_name(host: Host) -> None:
    assert host.value("east__who")["node"] == "probe_1"
    host.call("east__note", key="several", text="east")
    assert host.call("east__journal", key="several")["content"][0]["text"] == '["east"]'


def test_two_files_of_one_stem_are_refused(tmp_path: Path) -> None:
    (tmp_path / "face.pipe").write_text(PIPELINE.read_text(encoding="utf-8"), encoding="utf-8")
    with Host(files=[PIPELINE, tmp_path / "face.pipe"]) as twice:
        assert twice.process.wait(30) == 2
