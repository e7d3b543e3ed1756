"""`rrext tools`: the list for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import EXAMPLES, NODES, call, component, here, pipeline

from rrext.cli.commands.calls.tools import signature

FILES = str(EXAMPLES / "filesystem.pipe")


def test_the_list_has_names_nodes_parameters_and_first_lines(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tools", FILES)
    head, *rows = done.out.decode().splitlines()
    assert (done.code, done.err) == (0, "")
    assert head.split() == ["TOOL", "NODE", "PARAMETERS", "DESCRIPTION"]
    assert [row.split()[:2] for row in rows] == [
        ["read_file", "files_1"],
        ["list_directory", "files_1"],
        ["stat_file", "files_1"],
    ]
    assert rows[0].split("  ")[-2:] == [
        'path: string, encoding: string = "utf-8", maxBytes: integer = 262144, offset?: integer',
        "Read a file. Answers `{path, content, size}`, `size` being the file's bytes.",
    ]
    assert "\x1b" not in done.out.decode()


def test_json_has_the_whole_descriptors(capfd: pytest.CaptureFixture[str]) -> None:
    (tool, *_) = here(capfd, "tools", FILES, "--json").value["tools"]
    assert {"nodeId", "name", "description", "inputSchema"} <= tool.keys()
    assert tool["inputSchema"]["properties"]["path"]["description"]


def test_the_tools_of_one_node_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [component(name, "lending", control="w") for name in ("a", "b")]
    path = pipeline(tmp_path, component("w", "webhook"), *parts)
    listed = here(capfd, "tools", path, "--node", "b", "--json", "--nodes", NODES).value["tools"]
    assert {tool["nodeId"] for tool in listed} == {"b"}
    assert len(here(capfd, "tools", path, "--json", "--nodes", NODES).value["tools"]) == 2 * len(listed)


def test_a_format_has_the_tools_for_a_model_and_calls_accept_their_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [component(name, "lending", control="w") for name in ("a", "b")]
    path = pipeline(tmp_path, component("w", "webhook"), *parts)
    listed = here(capfd, "tools", path, "--format", "openai-strict", "--nodes", NODES).value["tools"]
    assert listed[0].keys() == {"type", "function"}
    own = here(capfd, "tools", path, "--json", "--nodes", NODES).value["tools"]
    assert [tool["function"]["name"] for tool in listed] == [f"{tool['nodeId']}__{tool['name']}" for tool in own]


def test_words_for_an_exported_name_have_the_types_of_its_schema(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    databases = [component(name, "db_sqlite", control="w", path=f"{name}.db", create=True) for name in ("a", "b")]
    path = pipeline(tmp_path, component("w", "webhook"), *databases)
    done = here(capfd, "tool", path, "b__query", "sql=select $1 as n", "params=[7]", "limit=1", "--json")
    assert done.value["rows"] == [{"n": 7}]
    given = '{"sql": "select 1 as n", "params": null, "limit": null, "explain": null, "row_mode": null}'
    assert here(capfd, "tool", path, "a__query", given, "--json").value["rows"] == [{"n": 1}]


def test_an_unknown_format_names_the_near_one(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tools", FILES, "--format", "antropic")
    assert (done.code, done.out) == (2, b"")
    assert '--format: unknown format "antropic"; did you mean "anthropic"?' in done.err


def test_an_unknown_node_names_near_ones(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tools", FILES, "--node", "files")
    assert (done.code, done.out) == (2, b"")
    assert 'Did you mean "files_1"?' in done.err


def test_a_pipeline_without_tools_says_so_to_people_and_lists_nothing_to_programs(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "echo.pipe")
    done = here(capfd, "tools", path)
    assert (done.code, done.out, done.err) == (0, b"", f"rrext: {path} has no tool that can be called\n")
    assert here(capfd, "tools", path, "--json").value == {"tools": []}
    assert 'node "files_1"' not in here(capfd, "tools", FILES, "--node", "webhook_1").out.decode()


def test_why_tools_are_not_there_is_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [component(name, name, control="w") for name in ("broken", "missing", "lending")]
    path = pipeline(tmp_path, component("w", "webhook"), *parts)
    done = here(capfd, "tools", path, "--json", "--nodes", NODES)
    assert done.code == 0
    assert {tool["nodeId"] for tool in done.value["tools"]} == {"lending"}
    assert "ConnectionError: no database" in done.err
    assert "no camera; install one" in done.err
    assert done.err.endswith("given back\n")


def test_an_invalid_pipeline_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "p.pipe").write_text("{")
    done = call("tools", "p.pipe", cwd=tmp_path)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("p.pipe:1:")


def test_a_wide_name_keeps_the_columns_straight(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("本", "lending", control="w"))
    head, read, park = here(capfd, "tools", path, "--nodes", NODES).out.decode().splitlines()
    assert (head.index("NODE"), read.index("本")) == (6, 6)
    assert head.index("DESCRIPTION") == read.index("What") + 1 == park.index("Wait") + 1


@pytest.mark.parametrize(
    ("properties", "required", "shown"),
    [
        ({}, [], ""),
        ({"a": {"type": "string"}}, ["a"], "a: string"),
        ({"a": {"type": "integer", "default": 3}}, [], "a: integer = 3"),
        ({"a": {"type": "integer", "default": None}}, [], "a?: integer"),
        ({"a": {"type": "array", "items": {"type": "number"}}}, ["a"], "a: number[]"),
        (
            {"a": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}},
            ["a"],
            "a: (number | string)[]",
        ),
        ({"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, [], "a?: string"),
        ({"a": {"type": ["string", "null"]}}, [], "a?: string"),
        ({"a": {"enum": ["x", 1]}}, ["a"], 'a: "x" | 1'),
        ({"a": {"enum": list(range(9))}}, ["a"], "a: 0 | 1 | 2 | 3 | 4 | …"),
        ({"a": {"const": "x"}}, ["a"], 'a: "x"'),
        ({"a": {"$ref": "#/$defs/Tree"}}, ["a"], "a: Tree"),
        ({"a": {}, "b": True}, ["a"], "a: any, b?: any"),
        ({"a": {"type": "string", "default": "x" * 50}}, [], "a: string = " + '"' + "x" * 38 + "…"),
    ],
)
def test_a_signature_says_names_types_and_defaults(properties: dict[str, Any], required: list[str], shown: str) -> None:
    assert signature({"type": "object", "properties": properties, "required": required}) == shown


def test_a_signature_can_be_made_of_any_schema() -> None:
    assert signature({}) == ""
    assert signature({"type": "array", "items": {"type": "string"}}) == "string[]"
    assert json.loads(json.dumps(signature({"type": "object"}))) == ""


UNDESCRIBED = """
from rrext import Node, tool_function

def no_schema(node):
    raise ValueError("no schema \\x1b[31mtoday")

def leave(node):
    raise SystemExit(3)

class Moody(Node):
    provider = "moody"

    @tool_function(input_schema=no_schema)
    def vague(self, word: str = "") -> str:
        return word

    @tool_function(description=leave)
    def leaving(self) -> str:
        return ""

    @tool_function
    def odd(self, x: complex) -> str:
        return ""

    @tool_function
    def clear(self, x: int) -> str:
        "Clear."
        return ""
"""


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_tool_that_cannot_be_described_is_named_and_the_others_are_listed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    nodes, path = tmp_path / "moody.py", tmp_path / "a.pipe"
    nodes.write_text(UNDESCRIBED)
    control = [{"classType": "tool", "from": "in"}]
    source = {"id": "in", "provider": "webhook", "config": {}}
    path.write_text(json.dumps({"components": [source, {"id": "m", "provider": "moody", "config": {}, "control": control}]}))
    done = here(capfd, "tools", str(path), "--nodes", str(nodes), *form)
    assert done.code == 1
    *_, first, second, third = done.err.splitlines()
    assert first.startswith('rrext: tool "vague" of node "m" is not listed: input_schema of tool vague')
    assert first.endswith("ValueError: no schema \\u001b[31mtoday [tool_failed]")
    assert second.startswith('rrext: tool "leaving" of node "m" is not listed: ')
    assert 'parameter "x": complex has no form in JSON' in third
    assert str(Path("rrext", "engine")) not in done.err, "lines of the author's code alone"
    if form:
        assert [tool["name"] for tool in done.value["tools"]] == ["clear"]
        assert [tool["name"] for tool in done.value["undescribed"]] == ["vague", "leaving", "odd"]
    else:
        assert [line.split()[0] for line in done.out.decode().splitlines()[1:]] == ["clear"]
