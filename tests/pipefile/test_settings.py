"""From a component's config to `node.config`: profiles, defaults, and every way to write a Config class."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypedDict

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.plugins import PluginError
from rrext.pipefile.catalog.settings import Settings
from rrext.pipefile.config import ConfigCheck, merged
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.problems import Problems


class Plain:
    """What a plain class says.

    Args:
        city: Where.
    """

    kind: ClassVar[str] = "not a setting"
    _hidden: int = 1
    city: str
    units: Literal["metric", "imperial"] = "metric"
    days: Annotated[int, msgspec.Meta(ge=1)] = 3
    tags: list[str] = []
    extra: Mapping[str, Any] = {}


class Child(Plain):
    more: bool = False


@attrs.frozen
class WithAttrs:
    city: str = attrs.field(converter=str.strip)
    days: int = attrs.field(default=3, validator=attrs.validators.le(10))


@dataclasses.dataclass(frozen=True)
class Inner:
    name: str
    size: int = 1


@dataclasses.dataclass
class WithDataclass:
    city: str
    inner: Inner | None = None
    many: list[Inner] = dataclasses.field(default_factory=list)


class WithStruct(msgspec.Struct, frozen=True):
    city: str
    days: int = 3


class WithTypedDict(TypedDict, total=False):
    city: str
    days: int


def settings(config: type) -> Settings:
    return Settings(config, owner="a test")


def made(config: type, **values: Any) -> Any:
    form = settings(config)
    assert form.problems(values) == []
    instance, wrong = form.make(values)
    assert wrong == []
    return instance


def test_a_plain_class_becomes_an_instance_of_itself() -> None:
    instance = made(Plain, city="Bonn", days=2)
    assert type(instance) is Plain
    assert (instance.city, instance.units, instance.days, instance.tags) == ("Bonn", "metric", 2, [])


def test_a_plain_class_inherits_fields() -> None:
    assert vars(made(Child, city="Bonn"))["more"] is False
    assert settings(Child).names == ("city", "units", "days", "tags", "extra", "more")


def test_a_mutable_default_is_not_shared() -> None:
    first, second = made(Plain, city="a"), made(Plain, city="b")
    first.tags.append("x")
    assert second.tags == []
    assert Plain.tags == []


def test_an_init_of_a_plain_class_is_called_with_what_was_given() -> None:
    class Own:
        days: int = 3

        def __init__(self, days: int = 4) -> None:
            if days > 5:
                raise ValueError("too far ahead")
            self.days = days * 2

    assert made(Own).days == 8
    assert settings(Own).make({"days": 6}) == (None, [((), "refused: too far ahead")])


def test_an_attrs_class_has_its_converters_and_validators() -> None:
    assert made(WithAttrs, city=" Bonn ") == WithAttrs("Bonn")
    _, wrong = settings(WithAttrs).make({"city": "x", "days": 11})
    assert len(wrong) == 1


def test_a_dataclass_has_its_inner_classes() -> None:
    instance = made(WithDataclass, city="Bonn", inner={"name": "a"}, many=[{"name": "b", "size": 2}])
    assert instance == WithDataclass("Bonn", Inner("a"), [Inner("b", 2)])


def test_a_struct_and_a_typed_dict_work_too() -> None:
    assert made(WithStruct, city="Bonn") == WithStruct("Bonn")
    assert made(WithTypedDict, city="Bonn") == {"city": "Bonn"}


def test_the_schema_says_all_that_an_editor_needs() -> None:
    schema = settings(Plain).schema
    assert schema["required"] == ["city"]
    assert schema["properties"]["city"] == {"type": "string", "description": "Where."}
    assert schema["properties"]["units"] == {"type": "string", "enum": ["metric", "imperial"], "default": "metric"}
    assert schema["properties"]["days"] == {"type": "integer", "minimum": 1, "default": 3}
    assert "kind" not in schema["properties"]


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ({}, [("city",)]),
        ({"city": 1, "days": 0, "units": "other"}, [("city",), ("days",), ("units",)]),
        ({"city": "a", "tags": ["x", 2]}, [("tags", 1)]),
        ({"city": "a", "days": True}, [("days",)]),
        ({"city": "a", "days": 1.5}, [("days",)]),
        ({"city": "a", "extra": []}, [("extra",)]),
    ],
)
def test_all_problems_come_at_once_with_their_places(values: dict[str, Any], paths: list[tuple[str | int, ...]]) -> None:
    assert sorted(path for path, _ in settings(Plain).problems(values)) == sorted(paths)


def test_an_integral_number_is_an_integer() -> None:
    days = made(Plain, city="a", days=2.0).days
    assert days == 2
    assert type(days) is int


@given(
    st.dictionaries(
        st.sampled_from(["city", "days", "tags", "extra"]),
        st.sampled_from(["a", "", 1, 1.0, 0, True, None, [], ["a"], [1], {}, {"a": 1}]),
    )
)
def test_the_quick_check_lets_nothing_through_that_the_schema_refuses(values: dict[str, Any]) -> None:
    import jsonschema_rs

    form = settings(Plain)
    assert (form.problems(values) == []) == jsonschema_rs.is_valid(form.schema, values)


@dataclasses.dataclass
class Tree:
    name: str
    below: list[Tree] = dataclasses.field(default_factory=list)


def test_a_config_may_contain_itself() -> None:
    instance = made(Tree, name="a", below=[{"name": "b", "below": [{"name": "c"}]}])
    assert instance == Tree("a", [Tree("b", [Tree("c")])])
    assert settings(Tree).names == ("name", "below")
    _, unknown = settings(Tree).known({"name": "a", "below": [{"nam": "b"}]})
    assert [path for path, _ in unknown] == [("below", 0, "nam")]


def test_unknown_keys_are_found_inside_too() -> None:
    value, unknown = settings(WithDataclass).known(
        {"city": "a", "town": 1, "inner": {"name": "x", "nam": 1}, "many": [{"name": "y"}, {"size": 2, "sice": 3}]}
    )
    assert [path for path, _ in unknown] == [("town",), ("inner", "nam"), ("many", 1, "sice")]
    assert value == {"city": "a", "inner": {"name": "x"}, "many": [{"name": "y"}, {"size": 2}]}


@pytest.mark.parametrize("hint", [object, complex, "Nowhere", set[str]])
def test_a_type_that_json_cannot_hold_is_the_authors_mistake_and_says_so(hint: Any) -> None:
    config = type("Config", (), {"__annotations__": {"bad": hint}, "__module__": __name__})
    with pytest.raises(PluginError, match="Config of mine"):
        Settings(config, owner="mine")


# effective settings


class Bare(Node):
    provider = "bare"
    profiles = {"p": {"model": "m", "limits": {"a": 1, "b": 2}}, "q": {"model": "n"}}
    default_profile = "p"


class Typed(Node):
    provider = "typed"
    profiles = {"p": {"city": "Ulm", "days": 7}}
    Config = Plain


def configured(node: type[Node], config: dict[str, Any]) -> tuple[Any, list[tuple[str, str]]]:
    problems = Problems()
    form = None if node.Config is None else Settings(node.Config, owner="a test")
    result = ConfigCheck(node, node.provider, form, "/c", problems, NearNames()).run(config)
    return result, [(problem.code, problem.path) for problem in problems]


def test_without_a_profile_the_default_one_is_under_the_keys() -> None:
    assert configured(Bare, {"limits": {"b": 3}, "x": 1})[0] == {"model": "m", "limits": {"a": 1, "b": 3}, "x": 1}


def test_with_a_profile_only_its_section_counts() -> None:
    result, problems = configured(Bare, {"profile": "q", "q": {"limits": {"b": 3}}, "p": {"model": "x"}, "x": 1})
    assert result == {"model": "n", "limits": {"b": 3}}
    assert problems == [("beside_profile", "/c/x")]


def test_a_profile_needs_no_section() -> None:
    assert configured(Bare, {"profile": "q"}) == ({"model": "n"}, [])


def test_null_does_not_replace_a_default() -> None:
    assert configured(Bare, {"model": None, "other": None})[0] == {"model": "m", "limits": {"a": 1, "b": 2}, "other": None}
    assert configured(Typed, {"city": "a", "units": None})[0].units == "metric"
    assert configured(Typed, {"city": None})[1] == [("invalid_config", "/c/city")]


def test_problems_of_a_section_stand_in_the_section() -> None:
    result, problems = configured(Typed, {"profile": "p", "p": {"days": 0, "dayz": 1}})
    assert result is None
    assert problems == [("unknown_config_key", "/c/p/dayz"), ("invalid_config", "/c/p/days")]


def test_common_keys_are_no_settings_and_no_mistakes() -> None:
    common = {"mode": "x", "type": "y", "parameters": {}, "hideForm": True, "name": "n", "description": "d"}
    result, problems = configured(
        Typed, {"city": "a", "tool_description": "t", "secureParameters": {"secure": ["a"], "token": "t"}, **common}
    )
    assert problems == []
    assert set(vars(result)) == {"city", "units", "days", "tags", "extra"}


def test_a_class_may_claim_a_common_key_for_itself() -> None:
    class Named(Node):
        provider = "named"

        class Config:
            name: str
            profile: str = ""

    result, problems = configured(Named, {"name": "n", "profile": "mine"})
    assert problems == []
    assert (result.name, result.profile) == ("n", "mine")


def test_a_source_gets_mode_and_type() -> None:
    class Begin(Node):
        provider = "begin"
        lanes = {"_source": ("text",)}

    assert configured(Begin, {"x": 1})[0] == {"x": 1, "mode": "Source", "type": "begin"}


json_objects = st.recursive(
    st.none() | st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
).filter(lambda value: isinstance(value, dict))


@given(json_objects, json_objects)
def test_merging_keeps_every_default_that_is_not_replaced(defaults: Any, values: Any) -> None:
    before = repr((defaults, values))
    result = merged(defaults, values)
    assert repr((defaults, values)) == before
    assert set(result) == set(defaults) | set(values)
    for key in result:
        both = isinstance(defaults.get(key), dict) and isinstance(values.get(key), dict)
        if both:
            assert result[key] == merged(defaults[key], values[key])
        elif values.get(key) is not None:
            assert result[key] == values[key]
        else:
            assert result[key] == defaults.get(key)
