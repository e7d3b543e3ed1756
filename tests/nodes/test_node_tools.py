"""The tools of the built-in nodes as callers see them: descriptions, and what their schemas refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rrext.errors import InvalidArguments
from rrext.limits import DEFAULTS
from rrext.nodes.base.node import Node
from rrext.nodes.basic.memory import MemoryNode
from rrext.nodes.files.filesystem import FilesystemNode
from rrext.nodes.llm.scripted import ScriptedNode

from fake_pipe import context, made  # isort: skip

OWNERS: tuple[type[Node], ...] = (FilesystemNode, MemoryNode, ScriptedNode)
TOOLS = [pytest.param(cls, name, id=f"{cls.provider}.{name}") for cls in OWNERS for name in cls.tools]


def test_the_names_of_the_tools_are_the_reference_s_and_list_files_lists_what_hosts_are_offered() -> None:
    assert {cls.provider: tuple(cls.tools) for cls in OWNERS} == {
        "tool_filesystem": (
            "read_file",
            "list_directory",
            "stat_file",
            "write_file",
            "delete_file",
            "create_directory",
            "list_files",
        ),
        "memory_internal": ("put", "get", "list", "clear"),
        "llm_scripted": ("ask",),
    }


@pytest.mark.parametrize(("cls", "name"), TOOLS)
def test_a_tool_says_what_it_does_and_what_each_argument_means(cls: type[Node], name: str) -> None:
    described = cls.tools[name].describe(None)
    assert described["description"]
    properties = described["inputSchema"].get("properties", {})
    assert "ctx" not in properties
    assert [key for key, schema in properties.items() if not schema.get("description")] == []


@pytest.mark.parametrize(
    ("cls", "name", "given", "pointer"),
    [
        (FilesystemNode, "read_file", {}, "/input/path"),
        (FilesystemNode, "read_file", {"path": 1}, "/input/path"),
        (FilesystemNode, "read_file", {"path": "f", "maxBytes": 0}, "/input/maxBytes"),
        (FilesystemNode, "read_file", {"path": "f", "maxBytes": 4 * 1024 * 1024 + 1}, "/input/maxBytes"),
        (FilesystemNode, "read_file", {"path": "f", "offset": -1}, "/input/offset"),
        (FilesystemNode, "read_file", {"path": "f", "max_bytes": 1}, "/input/max_bytes"),
        (FilesystemNode, "list_directory", {"maxEntries": 10_001}, "/input/maxEntries"),
        (FilesystemNode, "write_file", {"path": "f"}, "/input/content"),
        (MemoryNode, "put", {"key": " ", "value": 1}, "/input/key"),
        (MemoryNode, "put", {"key": "k"}, "/input/value"),
        (MemoryNode, "get", {"key": ""}, "/input/key"),
        (ScriptedNode, "ask", {"question": 1}, "/input/question"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_its_place(
    cls: type[Node], name: str, given: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        cls.tools[name].structure(made(cls), given, DEFAULTS)
    assert pointer in {error["path"] for error in caught.value.data["errors"]}


@pytest.mark.parametrize("key", [None, "", "k"])
def test_clear_takes_every_way_of_saying_all_of_them(key: str | None) -> None:
    node = made(MemoryNode)
    tool = MemoryNode.tools["clear"]
    arguments = tool.structure(node, {"key": key}, DEFAULTS)
    assert tool.call(node, arguments, context()) == {"ok": True, "cleared": []}


@pytest.mark.parametrize(("cls", "name"), TOOLS)
def test_results_of_tools_that_only_look_are_marked_so(cls: type[Node], name: str) -> None:
    looks = {"read_file", "list_directory", "list_files", "stat_file", "get", "list"}
    annotations = cls.tools[name].annotations or {}
    assert annotations.get("readOnlyHint", False) == (name in looks)
