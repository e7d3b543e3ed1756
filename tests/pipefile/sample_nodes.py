"""Nodes and pipelines that the tests of pipeline files share."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any

import msgspec
from jsonschema import Draft202012Validator

from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.pipeline_schema import pipeline_schema
from rrext.pipefile.text.problems import Problem
from rrext.tools.decorator import tool_function


class Webhook(Node):
    provider = "webhook"
    class_types = ("source",)
    lanes = {"_source": ("tags", "text", "questions")}
    accepts = ("send",)


class Chat(Node):
    provider = "chat"
    class_types = ("source",)
    lanes = {"_source": ("questions",)}
    accepts = ("chat",)


class Upper(Node):
    provider = "upper"
    lanes = {"text": ("text",), "table": ("table",)}


class Ask(Node):
    provider = "ask"
    lanes = {"text": ("questions",)}


class Agent(Node):
    """Invokes others, and is a tool itself."""

    provider = "agent"
    class_types = ("agent", "tool")
    lanes = {"questions": ("answers",)}
    invoke = {"llm": {"description": "thinks", "min": 1, "max": 1}, "tool": {"description": "acts", "min": 0}}


class Llm(Node):
    provider = "llm"
    class_types = ("llm",)
    lanes = {"questions": ("answers",)}
    profiles = {
        "small": {"model": "s-1", "limits": {"tokens": 100, "calls": 5}},
        "large": {"model": "l-1", "limits": {"tokens": 900}},
    }
    default_profile = "small"


class Hammer(Node):
    provider = "tool_hammer"

    @tool_function
    def hit(self, nail: str) -> dict[str, Any]:
        """Hit a nail."""
        return {"hit": nail}


class Weather(Node):
    """Current weather."""

    provider = "weather"
    aliases = ("tool_weather",)

    class Config:
        """Settings of the weather.

        Args:
            station: Where it is measured.
        """

        units: Annotated[str, "metric or imperial"] = "metric"
        days: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
        tags: list[str] = []
        station: str | None = None

    @tool_function
    def forecast(self, city: str, days: int = 3) -> dict[str, Any]:
        """Forecast for a city.

        Args:
            city: Name of the city.
        """
        return {}


class Out(Node):
    provider = "response_text"
    lanes = {"text": ()}


class Answers(Node):
    provider = "response_answers"
    lanes = {"answers": ()}


class Response(Node):
    provider = "response"
    lanes = {"text": (), "answers": (), "questions": ()}


ALL = (Webhook, Chat, Upper, Ask, Agent, Llm, Hammer, Weather, Out, Answers, Response)


def catalog() -> Catalog:
    """A catalog of these nodes and nothing else."""
    return Catalog(ALL, builtin={}, installed=False)


def component(id_: str, provider: str, *inputs: str, control: str = "", **config: Any) -> dict[str, Any]:
    """A component. An input is `lane:from`, a control edge `classType:from`."""
    made: dict[str, Any] = {"id": id_, "provider": provider, "config": config}
    if inputs:
        made["input"] = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in inputs]
    if control:
        made["control"] = [dict(zip(("classType", "from"), edge.split(":"), strict=True)) for edge in control.split()]
    return made


def pipeline(*components: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pipeline of these components."""
    return {"components": list(components), **more}


def echo(**more: Any) -> dict[str, Any]:
    """The smallest pipeline with a result."""
    return pipeline(component("w", "webhook"), component("out", "response_text", "text:w"), source="w", **more)


def load(document: Any, **options: Any) -> LoadedPipeline:
    """Load a document with these nodes. A document that is no text is loaded as text too, and must give the same."""
    environment = options.pop("environment", Environment())
    loaded = load_pipeline(document, catalog(), environment, **options)
    if isinstance(document, dict):
        again = load_pipeline(json.dumps(document), catalog(), environment, **options)
        assert sorted(map(repr, again.problems)) == sorted(map(repr, loaded.problems))
        if not options and "pipeline" not in document:
            compare_with_schema(document, loaded)
    return loaded


SEEN = {
    "wrong_type",
    "missing_key",
    "invalid_version",
    "too_many_components",
    "unknown_provider",
    "foreign_provider",
    "variable_in_name",
    "variable_in_project_id",
    "profile_not_found",
    "invalid_config",
    "unknown_lane",
    "lane_not_accepted",
    "class_type_not_served",
    "no_source",
}
"""Problems that the JSON Schema of pipelines refuses too."""


@cache
def schema_validator() -> Draft202012Validator:
    """A validator of the schema of pipelines with these nodes."""
    return Draft202012Validator(pipeline_schema(catalog()))


def compare_with_schema(document: dict[str, Any], loaded: LoadedPipeline) -> None:
    """The schema accepts what loads, and refuses what has a problem that one value shows."""
    errors = {problem.code for problem in loaded.errors}
    refused = [error.message for error in schema_validator().iter_errors(document)]
    if not errors:
        assert not refused
    if errors & SEEN:
        assert refused, errors


def found(document: Any, **options: Any) -> list[tuple[str, str]]:
    """(code, pointer) of every problem."""
    return [(problem.code, problem.path) for problem in load(document, **options).problems]


def only(document: Any, **options: Any) -> Problem:
    """The only problem."""
    (problem,) = load(document, **options).problems
    return problem
