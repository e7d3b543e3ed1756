"""What the forms of the status page make of schemas and numbers, by its own modules in Node.js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from form_nodes import ENDLESS, EVERY, HOSTILE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rrext.faces.page import status_page

pytestmark = [pytest.mark.system, pytest.mark.promise("ws:workbench")]

MODULES = Path(status_page.__file__).parent / "static" / "bench"
PROGRAM = """
import { createInterface } from "node:readline";
import { decode, encode, numberOf, same } from "./json.js";
import { kindOf, resolved, rulesOf, typeName, variantName, variants } from "./schema.js";

const told = (schema, root) => variants(schema, root).map((each) => [kindOf(each), variantName(each), rulesOf(each)]);
const acts = {
  again: (text) => encode(decode(text)),
  number: (text) => encode(numberOf(text)),
  same: (texts) => same(...texts.map(decode)),
  variants: ([schema, root]) => told(schema, root ?? schema),
  resolved: ([schema, root]) => resolved(schema, root ?? schema),
  all: (schema) => Object.fromEntries(Object.entries(schema.properties).map(([name, each]) => [name, told(each, schema)])),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { act, given } = decode(line);
  let answer;
  try {
    answer = { value: acts[act](given) };
  } catch (error) {
    answer = { error: error.name };
  }
  console.log(encode(answer));
}
"""
Ask: TypeAlias = Callable[[str, Any], Any]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a process of Node.js that has loaded the modules of the page."""
    program = shutil.which(os.environ.get("RREXT_NODE", "node"))
    if program is None:
        pytest.skip("Node.js is not installed; RREXT_NODE names its program")
    folder = tmp_path_factory.mktemp("modules")
    for name in ("json.js", "schema.js"):
        shutil.copy(MODULES / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(PROGRAM)
    with subprocess.Popen([program, "main.js"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        stdin, stdout = node.stdin, node.stdout

        def asked(act: str, given: Any) -> Any:
            stdin.write(json.dumps({"act": act, "given": given}) + "\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
            return answer["value"] if "error" not in answer else ValueError(answer["error"])

        yield asked
        stdin.close()


numerals = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,4})?", fullmatch=True)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text().map(json.dumps), numerals),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda each: f"[{', '.join(map(_text, each))}]"),
        st.dictionaries(st.text(max_size=9), inner, max_size=4).map(
            lambda each: "{" + ",\n".join(f"{json.dumps(name)}: {_text(value)}" for name, value in each.items()) + "}"
        ),
    ),
    max_leaves=12,
).map(lambda each: _text(each))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=documents)
def test_json_keeps_each_number_and_each_text(ask: Ask, text: str) -> None:
    assert exact(ask("again", text)) == exact(text)
    assert ask("same", [text, ask("again", text)])


def test_a_text_of_megabytes_beside_a_large_number_is_read(ask: Ask) -> None:
    words = 'a \\"1234567890123456789' * 100_000
    text = json.dumps({"text": words, "number": 2**80})
    assert json.loads(ask("again", text)) == {"text": words, "number": 2**80}


@pytest.mark.parametrize("text", ["01", "1.", ".5", "+1", "0x1", "1 2", "[1,]", "{'a': 1}", "-", "1e", "", "1_000", "NaN", '"'])
def test_what_is_no_json_is_refused(ask: Ask, text: str) -> None:
    assert isinstance(ask("again", text), ValueError)


def test_two_values_are_the_same_whatever_the_order_of_their_properties(ask: Ask) -> None:
    assert ask("same", ['{"a": 1, "b": [1.0]}', '{"b": [1], "a": 1}'])
    for one, other in (
        ("1", "2"),
        ('"1"', "1"),
        ("[]", "{}"),
        ("null", "0"),
        ('{"a": 1}', '{"a": 1, "b": 2}'),
        ("[1]", "[1, 2]"),
    ):
        assert not ask("same", [one, other]), (one, other)
    assert not ask("same", ["9007199254740993", "9007199254740992"])


def test_each_kind_of_schema_is_told_from_the_others(ask: Ask) -> None:
    told = ask("all", EVERY)
    kinds = {name: [kind for kind, _, _ in each] for name, each in told.items()}
    assert kinds == {
        "name": ["string"], "count": ["integer"], "share": ["number"], "flag": ["boolean"], "choice": ["enum"],
        "fixed": ["const"], "note": ["string", "const"], "maybe": ["integer", "const"], "day": ["string"], "mail": ["string"],
        "secret": ["string"], "blob": ["string"], "tags": ["array"], "pair": ["array"], "point": ["object"],
        "shape": ["object", "object"], "tree": ["object"], "limits": ["object"], "anything": ["json"], "loose": ["json"],
        "both": ["object"], "__proto__": ["integer"], "a/b~c": ["string"],
    }  # fmt: skip
    assert [name for _, name, _ in told["shape"]] == ["kind: circle", "kind: box"]
    assert [name for _, name, _ in told["note"]] == ["text", "null"]
    assert told["name"][0][2] == ["2 to 40 characters", "pattern ^[a-z]+$"]
    assert told["count"][0][2] == ["1 to 9223372036854775808", "default 3"]


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (True, ["json"]),
        (False, []),
        ({}, ["json"]),
        ("nonsense", ["json"]),
        ({"$ref": "#"}, ["json"]),
        ({"$ref": "https://elsewhere.example/schema"}, ["json"]),
        ({"$ref": "#/$defs/missing"}, ["json"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, ["json"]),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "integer"}}}, ["integer"]),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "boolean"}}}, ["boolean"]),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "string"}]}, None),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, ["json"]),
        ({"anyOf": [False, {"type": "string"}]}, ["string"]),
        ({"oneOf": [{"anyOf": [{"type": "null"}, {"type": "integer"}]}, {"type": "boolean"}]}, ["const", "integer", "boolean"]),
        ({"type": "string", "nullable": True}, ["string", "const"]),
        ({"type": ["array", "object"], "items": {}}, ["array", "json"]),
        ({"enum": ["a", 1, None], "type": ["string", "integer", "null"]}, ["enum"]),
        ({"enum": []}, ["json"]),
        ({"type": "object", "additionalProperties": False}, ["object"]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, ["object"]),
        ({"type": "object", "patternProperties": {"^x": {}}}, ["object"]),
        ({"properties": {"a": {}}}, ["object"]),
        ({"type": "file"}, ["json"]),
        ({"type": 7, "properties": 7, "required": "x", "enum": 7}, ["json"]),
    ],
)
def test_a_schema_has_its_kinds_and_one_without_a_form_is_json(ask: Ask, schema: Any, kinds: list[str] | None) -> None:
    found = [kind for kind, _, _ in ask("variants", [schema, schema])]
    if kinds is None:
        assert 1 <= len(found) <= 50
    else:
        assert found == kinds


def test_all_parts_of_a_schema_are_one(ask: Ask) -> None:
    part = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    whole = {"allOf": [part, {"properties": {"a": {"minLength": 1}, "b": {}}, "required": ["b"]}], "title": "both"}
    found = ask("resolved", [whole, whole])
    assert (found["title"], sorted(found["required"]), sorted(found["properties"])) == ("both", ["a", "b"], ["a", "b"])
    ((kind, _, rules),) = ask("variants", [found["properties"]["a"], whole])
    assert (kind, rules) == ("string", ["at least 1 characters"])


@pytest.mark.parametrize("schema", [ENDLESS, HOSTILE])
def test_a_hostile_schema_is_read_to_its_end(ask: Ask, schema: dict[str, Any]) -> None:
    assert [kind for kind, _, _ in ask("variants", [schema, schema])] == ["object"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["string", "object", "array", "#"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "const", "required", "default",
                         "additionalProperties", "prefixItems", "pattern", "title", "examples", "nullable", "minimum", "a"]),
        inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=json_values)
def test_no_schema_is_too_strange(ask: Ask, schema: Any) -> None:
    found = ask("variants", [schema, schema])
    assert not isinstance(found, ValueError), found
    assert {kind for kind, _, _ in found} <= {
        *("const", "enum", "boolean", "integer", "number", "string", "array", "object", "json"),
    }
