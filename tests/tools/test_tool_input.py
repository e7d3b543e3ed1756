"""Bad input is refused with the place and the reason, and never repeated; good input arrives as arguments."""

from __future__ import annotations

import dataclasses
import enum
import json
import threading
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from rrext import InvalidArguments, Node, ToolContext, tool_function
from rrext.limits import DEFAULTS, Limits
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.spec import ToolRegistry, ToolSpec


def tool(function: Any, **options: Any) -> ToolSpec:
    return ToolRegistry().add(tool_function(**options)(function) if options else tool_function(function))


def problems(spec: ToolSpec, input: Any, limits: Limits = DEFAULTS) -> list[tuple[str, str]]:
    with pytest.raises(InvalidArguments) as caught:
        spec.structure(None, input, limits)
    return [(problem["path"], problem["message"]) for problem in caught.value.data["errors"]]


class Kind(enum.Enum):
    A = "a"
    B = "b"


@dataclasses.dataclass
class Inner:
    n: int
    kind: Kind = Kind.A


def forecast(city: str, days: int = 3, inner: Inner | None = None, names: list[str] | None = None):
    return city, days, inner, names


FORECAST = tool(forecast)


@pytest.mark.parametrize(
    ("input", "found"),
    [
        ({}, [("/input/city", "required property missing: city")]),
        (None, [("/input/city", "required property missing: city")]),
        ([], [("/input", "expected object, got array")]),
        ("x", [("/input", "expected object, got string")]),
        ({"city": 1}, [("/input/city", "expected string, got integer")]),
        ({"city": None}, [("/input/city", "expected string, got null")]),
        ({"city": "x", "days": "3"}, [("/input/days", "expected integer, got string")]),
        ({"city": "x", "days": 1.5}, [("/input/days", "expected integer, got number")]),
        ({"city": "x", "days": True}, [("/input/days", "expected integer, got boolean")]),
        (
            {"citty": "x"},
            [
                ("/input/citty", 'unexpected property "citty": did you mean "city"?'),
                ("/input/city", "required property missing: city"),
            ],
        ),
        ({"city": "x", "zzz": 1}, [("/input/zzz", 'unexpected property "zzz"')]),
        ({"city": "x", "a/b~c": 1}, [("/input/a~1b~0c", 'unexpected property "a/b~c"')]),
        ({"city": "x", "inner": 5}, [("/input/inner", "expected object or null, got integer")]),
        ({"city": "x", "inner": {"n": "1"}}, [("/input/inner/n", "expected integer, got string")]),
        ({"city": "x", "inner": {"n": 1, "kind": "c"}}, [("/input/inner/kind", 'expected "a" or "b"')]),
        (
            {"city": "x", "inner": {"n": 1, "kin": "a"}},
            [("/input/inner/kin", 'unexpected property "kin": did you mean "kind"?')],
        ),
        (
            {"city": "x", "names": ["a", 1, None]},
            [("/input/names/1", "expected string, got integer"), ("/input/names/2", "expected string, got null")],
        ),
    ],
)
def test_each_problem_has_its_place_and_a_sentence(input: Any, found: list[tuple[str, str]]) -> None:
    assert problems(FORECAST, input) == found


def test_the_message_leads_with_the_first_problem_and_counts_the_others() -> None:
    with pytest.raises(InvalidArguments) as caught:
        FORECAST.structure(None, {"citty": "x"}, DEFAULTS)
    assert caught.value.message == '/input/citty: unexpected property "citty": did you mean "city"? (and 1 more)'


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Annotated[int, Meta(ge=1)], 0, "expected at least 1"),
        (Annotated[int, Meta(lt=5)], 5, "expected less than 5"),
        (Annotated[float, Meta(multiple_of=2)], 3, "expected a multiple of 2"),
        (Annotated[str, Meta(min_length=2)], "x", "expected at least 2 characters"),
        (Annotated[str, Meta(pattern="^a+$")], "b", "does not match the pattern ^a+$"),
        (Annotated[list[int], Meta(max_length=1)], [1, 2], "expected at most 1 item"),
        (tuple[int, int], [1, 2, 3], "expected at most 2 items"),
        (Literal["x", 3], "y", 'expected "x" or 3'),
        (int | str, [], "expected integer or string, got array"),
        (bytes, "?", "expected base64 (RFC 4648, with padding)"),
    ],
)
def test_each_rule_says_what_it_wants(hint: Any, value: Any, message: str) -> None:
    def take(x):
        return x

    take.__annotations__ = {"x": hint}
    assert (("/input/x", message)) in problems(tool(take), {"x": value})


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x4FFF), min_size=4, max_size=40))
def test_no_value_is_ever_repeated(secret: str) -> None:
    def take(
        a: int = 0,
        b: Literal["x"] = "x",
        c: Annotated[str, Meta(pattern="^a$", max_length=2)] = "a",
        d: bytes = b"",
        e: list[int] | None = None,
        f: Inner | None = None,
    ):
        return a, b, c, d, e, f

    sent = {"a": secret, "b": secret, "c": secret, "d": secret, "e": [secret], "f": {"n": secret, "kind": secret}}
    with pytest.raises(InvalidArguments) as caught:
        tool(take).structure(None, sent, DEFAULTS)
    told = json.dumps([caught.value.message, caught.value.hint, caught.value.data], ensure_ascii=False)
    assert secret not in told
    assert len(caught.value.data["errors"]) >= 7


def test_at_most_the_limit_of_problems_is_listed() -> None:
    def take(xs: list[int]):
        return xs

    found = problems(tool(take), {"xs": ["a"] * 1000})
    assert len(found) == DEFAULTS.max_errors
    assert found[-1][0] == f"/input/xs/{DEFAULTS.max_errors - 1}"


def test_of_a_large_input_the_first_problem_is_named() -> None:
    def take(xs: list[int], text: str = ""):
        return xs

    large = {"xs": ["a", "b"], "text": "x" * (DEFAULTS.all_errors_input + 1)}
    assert problems(tool(take), large) == [("/input/xs/0", "expected integer, got string")]


def test_a_name_of_a_megabyte_is_cut_in_the_answer() -> None:
    [(path, message)] = problems(FORECAST, {"city": "x", "n" * 2**20: 1})
    assert len(path) < 200
    assert len(message) < 200


@pytest.mark.parametrize("value", [{1: 2}, {"city": object()}, {"city": b"x"}, {"city": "x", "names": {"a"}}])
def test_what_is_no_json_is_refused_too(value: Any) -> None:
    assert problems(FORECAST, value)[0][0].startswith("/input")


def test_input_nested_beyond_all_measure_is_refused() -> None:
    @dataclasses.dataclass
    class Chain:
        next: Any = None

    Chain.__annotations__["next"] = Chain | None

    def take(chain: Any):
        return chain

    take.__annotations__ = {"chain": Chain}
    sent: dict[str, Any] = {}
    for _ in range(5000):
        sent = {"next": sent}
    assert problems(tool(take), {"chain": sent})[0][0].startswith("/input")


def test_arguments_are_a_dict_of_their_own() -> None:
    sent = {"city": "x"}
    kwargs = FORECAST.structure(None, sent, DEFAULTS)
    kwargs["city"] = "y"
    assert sent == {"city": "x"}


# classes that refuse by themselves


@attrs.define
class Chosen:
    mode: str = attrs.field(validator=attrs.validators.in_(["a", "b"]))


@dataclasses.dataclass
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class Even(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("n is odd")


def test_what_a_class_refuses_is_invalid_input_at_its_place() -> None:
    def take(ranges: list[Range], chosen: Chosen | None = None, even: Even | None = None):
        return ranges, chosen, even

    found = problems(
        tool(take),
        {"ranges": [{"low": 1, "high": 2}, {"low": 2, "high": 1}], "chosen": {"mode": "secret!"}, "even": {"n": 3}},
    )
    assert found == [
        ("/input/ranges/1", "refused: low is above high"),
        ("/input/chosen/mode", "refused: 'mode' must be in ['a', 'b']"),
        ("/input/even", "refused: n is odd"),
    ]


# schemas that the author gives


def by_name(query: str, limit: int = 5, raw: bytes = b""):
    return query, limit, raw


GIVEN = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1},
        "limit": {"type": "integer"},
        "raw": {"type": "string", "contentEncoding": "base64"},
    },
    "required": ["query"],
}


def test_a_given_schema_is_published_and_checked_and_the_annotations_still_convert() -> None:
    spec = tool(by_name, input_schema=GIVEN)
    assert spec.describe(None)["inputSchema"] == GIVEN
    assert spec.structure(None, {"query": "x", "limit": 2.0, "raw": "QQ=="}, DEFAULTS) == {
        "query": "x",
        "limit": 2,
        "raw": b"A",
    }
    assert problems(spec, {"query": ""}) == [("/input/query", "expected at least 1 character")]
    assert problems(spec, {"query": "x", "other": 1}) == [("/input/other", 'unexpected property "other"')]


def test_a_given_schema_that_forgets_a_parameter_never_calls_without_it() -> None:
    spec = tool(by_name, input_schema={"properties": {"query": {"type": "string"}}})
    assert problems(spec, {}) == [("/input/query", "required property missing: query")]


def test_a_single_parameter_that_is_no_property_takes_the_whole_object() -> None:
    def run(args: dict, ctx: ToolContext):
        return args

    spec = tool(run, input_schema=GIVEN)
    sent = {"query": "x", "other": [1]}
    kwargs = spec.structure(None, sent, DEFAULTS)
    assert kwargs == {"args": sent}
    assert kwargs["args"] is not sent
    assert spec.describe(None)["inputSchema"] == GIVEN


def test_the_whole_object_is_structured_as_its_parameter_says() -> None:
    def any_dict(args: dict[str, Any]):
        return args

    def typed(args: Inner, ctx: ToolContext):
        return args

    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert tool(any_dict, input_schema=schema).structure(None, {"n": 1}, DEFAULTS) == {"args": {"n": 1}}
    assert tool(typed, input_schema=schema).structure(None, {"n": 1.0}, DEFAULTS) == {"args": Inner(1)}
    [(path, message)] = problems(tool(typed, input_schema=schema), {"n": 1, "m": 2})
    assert path == "/input/m"
    assert "unexpected" in message


def test_a_given_schema_that_shuts_a_parameter_out_is_the_authors_error() -> None:
    with pytest.raises(ToolDefinitionError, match='no property for the parameter "query"'):
        tool(by_name, input_schema={"properties": {"limit": {}}, "additionalProperties": False}).describe(None)


@pytest.mark.parametrize(
    "schema",
    [{"type": "array"}, {"properties": {"query": {"type": "strin"}}}, {"$ref": "https://example.com/schema.json"}, {"x": {1}}],
)
def test_an_unusable_schema_is_the_authors_error(schema: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="by_name"):
        tool(by_name, input_schema=schema).structure(None, {"query": "x"}, DEFAULTS)


class Configured(Node):
    """Its schema depends on its config."""

    @tool_function(
        description=lambda self: f"Finds up to {self.config['most']}.",
        input_schema=lambda self: {
            "properties": {"n": {"type": "integer", "maximum": self.config["most"]}},
            "required": ["n"],
        },
        output_schema=lambda self: {"type": "integer", "maximum": self.config["most"]},
    )
    def find(self, n: int) -> int:
        return n


def configured(most: int) -> Configured:
    node = Configured()
    node.config = {"most": most}
    node.tool_description = "For the library."
    return node


def test_schemas_and_texts_may_depend_on_the_node() -> None:
    spec, small, large = Configured.tools["find"], configured(3), configured(10)
    assert not spec.static
    assert spec.describe(small)["description"] == "For the library.\n\nFinds up to 3."
    assert spec.describe(large)["inputSchema"]["properties"]["n"]["maximum"] == 10
    assert spec.structure(large, {"n": 5}, DEFAULTS) == {"n": 5}
    with pytest.raises(InvalidArguments, match="at most 3"):
        spec.structure(small, {"n": 5}, DEFAULTS)
    assert spec.encode(large, 5, DEFAULTS) == b"5"
    with pytest.raises(Exception, match="output_schema"):
        spec.encode(small, 5, DEFAULTS)


def test_a_callable_that_fails_is_the_authors_error() -> None:
    with pytest.raises(ToolDefinitionError, match="description of tool find"):
        Configured.tools["find"].describe(None)


def test_many_threads_may_use_a_tool_for_the_first_time_at_once() -> None:
    for _ in range(20):
        spec, gate, seen = tool(forecast), threading.Barrier(8), []

        def use(spec: ToolSpec = spec, gate: threading.Barrier = gate, seen: list[Any] = seen) -> None:
            gate.wait()
            seen.append((spec.structure(None, {"city": "x", "inner": {"n": 1.0}}, DEFAULTS), spec.describe(None)))

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [({"city": "x", "inner": Inner(1)}, FORECAST.describe(None))] * 8
