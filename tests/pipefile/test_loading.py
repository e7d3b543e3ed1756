"""From text or JSON to a pipeline that can run, and the answer of `rrext_validate`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from sample_nodes import Hammer, catalog, component, echo, load, pipeline

from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline, validate

COMMENTED = """
// A pipeline with a comment
{
  "components": [
    {"id": "w", "provider": "webhook", "config": {},},
    {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]}, /* the end */
  ],
}
"""


@pytest.mark.parametrize(
    "text", [json.dumps(echo()), json.dumps({"pipeline": echo()}), COMMENTED, COMMENTED.encode(), "\ufeff" + COMMENTED]
)
def test_text_bytes_wrapper_and_comments_give_the_same_pipeline(text: str | bytes) -> None:
    spec = load(text).require()
    assert (spec.source, spec.chain) == ("w", ("out",))
    assert [node.id for node in spec.components] == ["w", "out"]


def test_a_pipeline_keeps_what_it_says_of_itself() -> None:
    spec = load(echo(name="n", description="d", project_id="p", version=1)).require()
    assert (spec.name, spec.description, spec.project_id, spec.version) == ("n", "d", "p", 1)


def test_a_missing_project_id_is_a_new_one_for_each_run() -> None:
    first, second = load(echo()).require().project_id, load(echo()).require().project_id
    assert len(first) == 36
    assert first != second


def test_components_have_their_class_settings_and_edges() -> None:
    spec = load(pipeline(component("w", "webhook"), component("t", "weather", control="tool:w", days=5))).require()
    node = spec.component("t")
    assert node.node_class.provider == "weather"
    assert (node.settings.days, node.settings.units) == (5, "metric")
    assert [(edge.class_type, edge.source_id) for edge in node.controls] == [("tool", "w")]
    assert spec.component("w").settings == {"mode": "Source", "type": "webhook"}
    with pytest.raises(KeyError):
        spec.component("x")


def test_the_source_map_is_there_for_text_and_made_when_it_is_asked_for() -> None:
    text = json.dumps(echo())
    where = load(text).source_map
    assert where is not None
    assert text[slice(*where.span("/source"))] == '"w"'
    assert load(echo()).source_map is None
    assert load(text, positions=True).source_map is not None


def test_a_broken_pipeline_still_has_an_outline() -> None:
    whole = json.dumps(pipeline(component("w", "webhook"), component("o", "nope", "text:w")))
    loaded = load(whole[:-2] + ", ")
    assert loaded.spec is None
    assert [draft.id for draft in loaded.outline.components] == ["w", "o"]
    assert (loaded.outline.source, loaded.outline.chain) == ("w", ("o",))


def test_validating_answers_the_pipeline_with_its_chain() -> None:
    body = validate(echo(name="n"), catalog(), Environment())
    assert body["pipeline"] == {**echo(name="n"), "chain": ["out"]}
    assert (body["errors"], body["warnings"], body["problems"]) == ([], [], [])
    document = echo()
    del document["source"]
    assert validate(document, catalog(), Environment())["pipeline"]["source"] == "w"


def test_validating_names_problems_as_the_reference_does_and_as_we_do() -> None:
    document = {"pipeline": pipeline(component("w", "webhook"), component("x", "upperr", "text:w"), component("u", "upper"))}
    body = validate(document, catalog(), Environment())
    (error,) = body["errors"]
    assert error == {
        "id": "x",
        "ccode": "unknown_provider",
        "path": "/pipeline/components/1/provider",
        "message": 'There is no node "upperr". Did you mean "upper"?',
    }
    assert [entry["id"] for entry in body["warnings"]] == ["u"]
    assert body["problems"][0] == {
        "code": "unknown_provider",
        "severity": "error",
        "message": error["message"],
        "path": error["path"],
        "related": [],
        "near": ["upper"],
    }
    assert body["pipeline"]["components"] == document["pipeline"]["components"]
    assert json.loads(json.dumps(body)) == body


def test_validating_something_that_is_no_pipeline_is_an_answer_too() -> None:
    body = validate({"pipeline": 3}, catalog(), Environment())
    assert body["pipeline"] == {"chain": []}
    assert body["errors"][0]["ccode"] == "wrong_type"


def test_validating_begins_where_the_caller_says() -> None:
    document = pipeline(component("a", "webhook"), component("b", "webhook"), component("o", "response_text", "text:b"))
    assert validate(document, catalog(), Environment(), "b")["pipeline"]["chain"] == ["o"]


@pytest.mark.promise("start:cold:light")
def test_a_pipeline_of_bare_nodes_loads_without_heavy_libraries() -> None:
    program = """
import sys
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.nodes.base.node import Node

class Begin(Node):
    provider = "begin"
    lanes = {"_source": ("text",)}

class Step(Node):
    provider = "step"
    lanes = {"text": ("text",)}

text = '''{"components": [
  {"id": "b", "provider": "begin", "config": {"mode": "Source", "type": "begin"}},
  {"id": "s", "provider": "step", "config": {"x": 1}, "input": [{"lane": "text", "from": "b"}]},
  {"id": "t", "provider": "step", "config": {}, "input": [{"lane": "text", "from": "s"}]}]}'''
load_pipeline(text, Catalog([Begin, Step]), Environment.of_process()).require()
heavy = {"cattrs", "attr", "attrs", "jsonschema_rs", "dataclasses", "anyio", "importlib.metadata", "json"}
heavy |= {f"rrext.pipefile.text.{name}" for name in ("scanner", "tokens", "tree", "fast_objects")}
heavy -= {"dataclasses"} if sys.version_info >= (3, 14) else set()  # Python's own traceback brings it
heavy |= {"rrext.pipefile.catalog.settings", "rrext.pipefile.catalog.services", "rrext.tools.grammar"}
print(*(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"components":[' + '{"id":"a"' * 200_000,
        "/*" * 1_000_000,
        '"' * 1_000_000,
        '"\\' * 500_000,
        "'" * 1_000_000,
        "@,\n" * 500_000,
        '{"a" ' * 300_000,
        "1 " * 1_000_000,
        '"a" /* */ ' * 200_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text: str) -> None:
    """What is not linear would not end within the time limit of a test."""
    assert load(text).spec is None


def test_thousands_of_wrong_names_take_no_long_comparisons() -> None:
    names = [
        component(f"node_number_{n}", "tool_hamer", f"texd:nod_number_{n}", control=f"tol:nod_number_{n}") for n in range(3_000)
    ]
    loaded = load_pipeline(pipeline(component("w", "webhook"), *names, source="w"), catalog(), Environment())
    assert loaded.problems[-1].code == "too_many_problems"


def test_ten_thousand_components_in_a_row_are_loaded() -> None:
    steps = [component(f"n{n}", "upper", f"text:{f'n{n - 1}' if n else 'w'}") for n in range(9_000)]
    document = pipeline(component("w", "webhook"), *steps, component("o", "response_text", "text:n8999"))
    loaded = load_pipeline(document, catalog(), Environment())
    assert len(loaded.require().chain) == 9_001


def test_every_tool_of_a_component_can_be_reached_through_its_class() -> None:
    spec = load(pipeline(component("w", "webhook"), component("t", "tool_hammer", control="tool:w"))).require()
    assert spec.component("t").node_class is Hammer
    assert list(Hammer.tools) == ["hit"]


def test_loading_never_changes_what_was_given() -> None:
    document: dict[str, Any] = {"pipeline": echo(name="${ROCKETRIDE_A}")}
    before = json.dumps(document)
    load(document, environment=Environment({"ROCKETRIDE_A": "x"})).require()
    validate(document, catalog(), Environment())
    assert json.dumps(document) == before
