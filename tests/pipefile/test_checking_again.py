"""Checking a pipeline again after an edit finds exactly what checking it for the first time finds."""

from __future__ import annotations

import functools
import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keystrokes import Edit, edited, edits, flat, map_of
from sample_nodes import ALL, catalog, component, echo, pipeline

from rrext.errors import Cancelled
from rrext.limits import DEFAULTS, Limits
from rrext.pipefile import pipeline_loader
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.pipeline_loader import check_pipeline, load_pipeline
from rrext.pipefile.shape import ComponentDraft
from rrext.pipefile.text.source import ParsedText

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NODES = catalog()
VALUES = Environment({"ROCKETRIDE_A": "small", "ROCKETRIDE_B": "text", "ROCKETRIDE_C": "small"})
IDS = ["w", "a", "b", "node_1", "node_2", "Node-1"]
PROVIDERS = [*(node.provider for node in ALL), "tool_weather", "tool_hamer", "wether", "response_texd", ""]
VALUES_OF_KEYS: list[Any] = [
    1,
    "x",
    "${ROCKETRIDE_A}",
    "${ROCKETRIDE_NO}",
    "a${PATH}b",
    {"model": 1},
    [],
    None,
    "small",
    "large",
]
KEYS = ["days", "dayz", "units", "tags", "profile", "small", "large", "mode", "parameters", "lanes", "x"]

configs = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES_OF_KEYS), max_size=3)
ids = st.sampled_from(IDS)
input_edges = st.fixed_dictionaries(
    {"lane": st.sampled_from(["text", "questions", "answers", "texd", "${ROCKETRIDE_B}"]), "from": ids}, optional={"form": ids}
)
control_edges = st.fixed_dictionaries({"classType": st.sampled_from(["tool", "llm", "tol"]), "from": ids})
components = st.fixed_dictionaries(
    {"id": ids, "provider": st.sampled_from(PROVIDERS), "config": configs},
    optional={
        "input": st.lists(input_edges, max_size=2),
        "control": st.lists(control_edges, max_size=2),
        "inputs": st.just([]),
        "nme": st.just("x"),
        "ui": st.just({"position": {"x": 1}}),
    },
)
documents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"components": st.lists(components, max_size=5), "project_id": st.sampled_from(["p", "${ROCKETRIDE_A}"])},
    optional={"source": ids, "version": st.sampled_from([1, 2]), "name": st.just("${X}"), "sorce": ids},
).flatmap(lambda document: st.sampled_from([document, {"pipeline": document}]))
formats = st.sampled_from([None, 1])


def check(
    text: str | bytes, before: LoadedPipeline | None = None, *, nodes: Catalog = NODES, limits: Limits = DEFAULTS
) -> LoadedPipeline:
    return check_pipeline(text, nodes, VALUES, positions=True, limits=limits, before=before)


def shown(draft: ComponentDraft) -> tuple[Any, ...]:
    own = {name: getattr(draft, name) for name in ComponentDraft.__struct_fields__ if name != "settings"}
    made = draft.settings if isinstance(draft.settings, dict | None) else vars(draft.settings)
    return repr(own), repr(made)


def everything(loaded: LoadedPipeline) -> dict[str, Any]:
    """All that a check gave, but for the project's id, which may be a new one each time."""
    spec = loaded.spec
    where = map_of(ParsedText(None, map=loaded.source_map))
    return {
        "problems": loaded.problems,
        "components": [shown(draft) for draft in loaded.outline.components],
        "source": loaded.outline.source,
        "chain": loaded.outline.chain,
        "base": loaded.base,
        "unresolved": repr(loaded.unresolved),
        "runs": None if spec is None else (spec.source, spec.chain, repr(spec.components), spec.name, spec.version),
        "places": flat(where.root),
    }


def assert_like_the_first_time(texts: list[str], limits: Limits = DEFAULTS) -> None:
    """Check texts one after the other; the earlier results must stay as they were."""
    found: list[LoadedPipeline] = []
    for text in texts:
        found.append(check(text, found[-1] if found else None, limits=limits))
    for text, loaded in reversed(list(zip(texts, found, strict=True))):
        assert everything(loaded) == everything(check(text, limits=limits))


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    """A pipeline, what becomes of it while somebody types, and the whole again with one component changed or gone."""
    document = draw(documents)
    texts = [json.dumps(document, indent=draw(formats))]
    for edit in draw(edits):
        texts.append(edited(texts[-1], edit))
        if draw(st.booleans()):
            texts.append(texts[-2])  # undone
    changed = document.get("pipeline", document)["components"]
    if changed:
        changed[draw(st.integers(0, len(changed) - 1))] = draw(components)
        texts.append(json.dumps(document, indent=1))
        del changed[draw(st.integers(0, len(changed) - 1))]
        texts.append(json.dumps(document, indent=1))
    return texts


@given(histories(), st.sampled_from([DEFAULTS, Limits(max_problems=2), Limits(max_components=2), Limits(max_depth=5)]))
def test_checking_again_finds_what_checking_for_the_first_time_finds(texts: list[str], limits: Limits) -> None:
    assert_like_the_first_time(texts, limits)


@given(histories(), st.integers(0, 60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_names_that_are_near_depend_on_the_whole_text_as_before(
    monkeypatch: pytest.MonkeyPatch, texts: list[str], budget: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(pipeline_loader, "NearNames", functools.partial(NearNames, budget))
        assert_like_the_first_time(texts)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.pipe")), ids=lambda path: path.name)
def test_typing_in_the_examples_finds_what_checking_for_the_first_time_finds(file: Path) -> None:
    nodes = Catalog(installed=False)

    @settings(max_examples=30)
    @given(edits)
    def typed(changes: list[Edit]) -> None:
        text = file.read_text(encoding="utf-8")
        before = check(text, nodes=nodes)
        for edit in changes:
            for state in (edited(text, edit), text):
                before = check(state, before, nodes=nodes)
                assert everything(before) == everything(check(state, nodes=nodes))
            text = edited(text, edit)

    typed()


STEPS = json.dumps(
    pipeline(
        component("w", "webhook"),
        *(component(f"s{n}", "weather", f"text:{f's{n - 1}' if n else 'w'}", days=3) for n in range(300)),
        project_id="p",
    ),
    indent=1,
)


def made(loaded: LoadedPipeline) -> list[Any]:
    """The settings of the nodes: they are made anew for each component that is looked at again."""
    return [draft.settings for draft in loaded.outline.components]


def kept(before: LoadedPipeline, after: LoadedPipeline) -> int:
    return sum(any(one is other for other in made(after)) for one in made(before))


def test_a_component_that_was_not_touched_is_not_looked_at_again() -> None:
    before = check(STEPS)
    after = check(STEPS.replace('"days": 3', '"days": 33', 1), before)
    assert kept(before, after) == 300
    assert [problem.code for problem in after.problems if problem not in before.problems] == ["invalid_config"]


def test_components_that_move_are_not_looked_at_again() -> None:
    before = check(STEPS)
    new = json.dumps(component("new", "weather", days=33))
    after = check(STEPS.replace('"components": [', f'"components": [{new},'), before)
    assert kept(before, after) == 301
    assert everything(after) == everything(check(after.source_map.text if after.source_map else ""))


def test_what_stood_behind_a_mistake_that_ended_reading_is_not_looked_at_again() -> None:
    before = check(STEPS)
    broken = check(STEPS.replace("{\n   ", "\n   ", 1), before)
    assert len(broken.outline.components) < 301
    assert kept(before, check(STEPS, broken)) == 301


@pytest.mark.parametrize(
    "other",
    [
        {"catalog": catalog()},
        {"environment": Environment({"ROCKETRIDE_A": "other"})},
        {"limits": Limits(max_problems=7)},
        {"unknown_provider": "information"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_with_other_nodes_variables_or_limits_everything_is_looked_at_again(other: dict[str, Any]) -> None:
    text = json.dumps(
        echo(project_id="p") | {"components": [component("w", "webhook"), component("x", "no", a="${ROCKETRIDE_A}")]}
    )
    around: dict[str, Any] = {"catalog": NODES, "environment": VALUES, "limits": DEFAULTS, "unknown_provider": "error"}
    before = check_pipeline(text, **around, positions=True)
    after = check_pipeline(text, **around | other, positions=True, before=before)
    assert not any(one is other for one in made(before) for other in made(after))
    assert everything(after) == everything(check_pipeline(text, **around | other, positions=True))


def test_what_was_found_without_positions_or_in_no_text_is_not_used() -> None:
    document = pipeline(component("w", "webhook"), component("x", "weather"))
    text = json.dumps(document)
    for first, second, positions in [(text, text, False), (document, document, True), (text, document, True)]:
        before = check_pipeline(first, NODES, VALUES, positions=positions)
        after = check_pipeline(second, NODES, VALUES, positions=positions, before=before)
        assert kept(before, after) == 0


def test_node_code_that_could_not_be_imported_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    nodes = Catalog(builtin={"late": "late_node_of_a_test:Late"}, installed=False)
    text = json.dumps(pipeline(component("l", "late")))
    before = check(text, nodes=nodes)
    assert [problem.code for problem in before.problems] == ["provider_unavailable"]
    code = "from rrext import Node\n\nclass Late(Node):\n    provider = 'late'\n    lanes = {'_source': ()}\n"
    (tmp_path / "late_node_of_a_test.py").write_text(code)
    importlib.invalidate_caches()
    assert check(text, before, nodes=nodes).problems == ()


def test_one_result_serves_many_checks_at_once() -> None:
    before = check(STEPS)
    texts = [STEPS.replace(f'"id": "s{n}"', f'"id": "t{n}",') for n in range(0, 300, 20)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: check(text, before), texts))
    assert [loaded.problems for loaded in found] == [check(text).problems for text in texts]


@pytest.mark.parametrize("times", [0, 1, 3, 5])
def test_a_check_that_nobody_wants_any_more_ends(times: int) -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > times

    with pytest.raises(Cancelled):
        check_pipeline(STEPS, NODES, VALUES, positions=True, stop=stop)
    assert len(asked) == times + 1


def test_a_check_that_is_still_wanted_asks_now_and_then_whether_it_is() -> None:
    asked: list[None] = []
    loaded = check_pipeline(STEPS, NODES, VALUES, positions=True, stop=lambda: asked.append(None) is not None)
    assert loaded.problems == check(STEPS).problems
    assert len(asked) >= 6


def test_a_mistake_that_is_not_listed_any_more_still_counts() -> None:
    wrong = component("x", "weather", "text:w", days=99, a=1, b=1, c=1)
    text = json.dumps(pipeline(component("w", "webhook"), wrong, component("o", "response_text", "text:w")))
    limits = Limits(max_problems=2)
    loaded = load_pipeline(text, NODES, VALUES, limits=limits)
    assert [problem.code for problem in loaded.problems] == ["unknown_config_key", "unknown_config_key", "too_many_problems"]
    assert loaded.spec is None


def test_one_problem_too_many_in_one_component_is_said() -> None:
    wrong = component("x", "weather", "questions:w", a=1, b=1, c=1)
    text = json.dumps(pipeline(component("w", "webhook"), wrong))
    found = load_pipeline(text, NODES, VALUES).problems
    alone = [problem for problem in found if problem.path.startswith("/components/1/config")]
    limited = load_pipeline(text, NODES, VALUES, limits=Limits(max_problems=len(alone) - 1)).problems
    assert limited[-1].code == "too_many_problems"
