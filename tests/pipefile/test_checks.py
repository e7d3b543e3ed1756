"""A check of a pipeline: it can be stopped, counts all its problems, and sees code that has come meanwhile."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_nodes import catalog, component, pipeline

from rrext.errors import Cancelled, InvalidPipeline
from rrext.limits import Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline

NODES = catalog()
VALUES = Environment()
STEPS = json.dumps(
    pipeline(
        component("w", "webhook"),
        *(component(f"s{n}", "weather", f"text:{f's{n - 1}' if n else 'w'}", days=3) for n in range(300)),
        project_id="p",
    ),
    indent=1,
)


def check(text: str, nodes: Catalog = NODES) -> LoadedPipeline:
    return load_pipeline(text, nodes, VALUES, strict_env=False, positions=True)


def test_node_code_that_could_not_be_imported_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    nodes = Catalog(builtin={"late": "late_node_of_a_test:Late"}, installed=False)
    text = json.dumps(pipeline(component("l", "late")))
    first = check(text, nodes)
    assert [problem.code for problem in first.problems] == ["provider_unavailable"]
    code = "from rrext import Node\n\nclass Late(Node):\n    provider = 'late'\n    lanes = {'_source': ()}\n"
    (tmp_path / "late_node_of_a_test.py").write_text(code)
    importlib.invalidate_caches()
    assert check(text, nodes).problems == ()


@pytest.mark.parametrize("times", [0, 1, 3, 5])
def test_a_check_that_nobody_wants_any_more_ends(times: int) -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > times

    with pytest.raises(Cancelled):
        load_pipeline(STEPS, NODES, VALUES, strict_env=False, positions=True, stop=stop)
    assert len(asked) == times + 1


def test_a_check_that_is_still_wanted_asks_now_and_then_whether_it_is() -> None:
    asked: list[None] = []
    loaded = load_pipeline(STEPS, NODES, VALUES, strict_env=False, positions=True, stop=lambda: asked.append(None) is not None)
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


class Yields(Node):
    """Has a lane method whose body would never run."""

    provider = "yields"
    lanes = {"text": ("text",)}

    def write_text(self, text: str) -> Iterator[str]:
        yield text


def test_nodes_that_cannot_be_put_together_are_a_problem_of_a_check_and_of_a_run_alike() -> None:
    document = pipeline(
        component("w", "webhook"), component("y", "yields", "text:w"), component("r", "response_text", "text:y")
    )
    for strict in (False, True):
        loaded = load_pipeline(document, Catalog([Yields], installed=False), VALUES, strict_env=strict)
        assert [(problem.code, problem.path) for problem in loaded.problems] == [("cannot_run", "/components")]
        with pytest.raises(InvalidPipeline, match=r'Node "y": Yields.write_text is a generator') as caught:
            loaded.require()
        assert caught.value.data["problems"][0]["code"] == "cannot_run"


def test_a_node_that_cannot_look_at_its_settings_is_named_and_loaded() -> None:
    class Blind(Node):
        provider = "blind"
        lanes = {"text": ()}

        @classmethod
        def cautions(cls, config: Any) -> Any:
            raise KeyError("lost")

    parts = [{"id": "a", "provider": "webhook", "config": {}}, {"id": "b", "provider": "blind", "config": {}}]
    loaded = load_pipeline({"components": parts}, Catalog([Blind], installed=False), VALUES)
    [problem] = [each for each in loaded.problems if each.code == "caution"]
    loaded.require()
    assert problem.path == "/components/1/provider"
    assert problem.message == "Blind could not look at its settings: KeyError: 'lost'"
