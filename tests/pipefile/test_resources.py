"""What a pipeline asks of its machine."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.pipeline_schema import pipeline_schema
from rrext.pipefile.resources import NO_RESOURCES, Resources, size_in_bytes

GIB = 1 << 30
COMPONENTS = [
    {"id": "webhook_1", "provider": "webhook", "config": {}},
    {"id": "out_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
]


def loaded(resources: Any) -> LoadedPipeline:
    text = json.dumps({"components": COMPONENTS, "resources": resources})
    return load_pipeline(text, Catalog(), Environment({}))


GOOD = [
    (None, NO_RESOURCES),
    ({}, NO_RESOURCES),
    ({"cpu": None, "node": None}, NO_RESOURCES),
    ({"cpu": 2, "gpu": 1, "memory": "4 GiB"}, Resources(cpu=2, gpu=1, memory=4 * GIB)),
    ({"cpu": 0.5, "memory": 64 << 20}, Resources(cpu=0.5, memory=64 << 20)),
    ({"memory": "1.5g"}, Resources(memory=3 * GIB // 2)),
    ({"node": "sun"}, Resources(node="sun")),
]
BAD = [
    ([], "wrong_type", "/resources"),
    ({"cpus": 1}, "invalid_resources", "/resources/cpus"),
    ({"cpu": "2"}, "invalid_resources", "/resources/cpu"),
    ({"cpu": True}, "invalid_resources", "/resources/cpu"),
    ({"cpu": -1}, "invalid_resources", "/resources/cpu"),
    ({"gpu": 1.5}, "invalid_resources", "/resources/gpu"),
    ({"gpu": 1e300}, "invalid_resources", "/resources/gpu"),
    ({"cpu": 1e-9}, "invalid_resources", "/resources/cpu"),
    ({"memory": "much"}, "invalid_resources", "/resources/memory"),
    ({"memory": "-1 GiB"}, "invalid_resources", "/resources/memory"),
    ({"memory": 1000}, "invalid_resources", "/resources/memory"),
    ({"memory": 1.5}, "invalid_resources", "/resources/memory"),
    ({"memory": "999999999999999T"}, "invalid_resources", "/resources/memory"),
    ({"node": ""}, "invalid_resources", "/resources/node"),
    ({"node": 3}, "invalid_resources", "/resources/node"),
]


@pytest.mark.parametrize(("given", "meant"), GOOD)
def test_resources_are_numbers_sizes_and_a_name(given: Any, meant: Resources) -> None:
    found = loaded(given)
    assert not found.problems
    assert found.outline.resources == meant


@pytest.mark.parametrize(("given", "code", "path"), BAD)
def test_resources_that_no_machine_has_are_a_problem_at_their_place(given: Any, code: str, path: str) -> None:
    (problem,) = loaded(given).problems
    assert (problem.code, problem.severity, problem.path) == (code, "error", path)


def test_a_misspelt_resource_has_near_names() -> None:
    (problem,) = loaded({"memori": "4 GiB"}).problems
    assert problem.near == ("memory",)


def test_the_schema_accepts_all_resources_that_the_check_accepts() -> None:
    judge = jsonschema.Draft202012Validator(pipeline_schema(Catalog(), closed=True))
    for given, _ in GOOD:
        judge.validate({"components": COMPONENTS, "resources": given})
    assert not judge.is_valid({"components": COMPONENTS, "resources": {"cpus": 1}})
    assert not judge.is_valid({"components": COMPONENTS, "resources": {"cpu": "2"}})


@pytest.mark.parametrize(
    ("text", "size"), [("4 GiB", 4 * GIB), ("512M", 512 << 20), ("2t", 2 << 40), ("7", 7), ("4 gib G", None)]
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int | None) -> None:
    assert size_in_bytes(text) == size
