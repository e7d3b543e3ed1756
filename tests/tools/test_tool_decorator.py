"""`@tool_function` and the registry: what is marked, collected, refused, called."""

from __future__ import annotations

import asyncio
import functools
import math
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from rrext import InvalidArguments, Node, ToolContext, tool_function
from rrext.limits import DEFAULTS
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.spec import ToolRegistry, ToolSpec, collect_tools

if TYPE_CHECKING:
    import rrext
    from rrext import Limits as OnlyForCheckers


def run(spec: ToolSpec, node: Any, input: Any, ctx: ToolContext | None = None) -> Any:
    return spec.call(node, spec.structure(node, input, DEFAULTS), ctx)


class Greeter(Node):
    @tool_function
    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"Hello {name} from {self.node_id}"

    @tool_function(
        name="say-bye", description="Part.", group="talk", annotations={"readOnlyHint": True}, timeout=5, thread="same"
    )
    def bye(self) -> str:
        return "Bye"

    @tool_function
    async def later(self, ctx: ToolContext) -> str:
        return f"later {ctx.user_id}"

    @tool_function
    def count(self, n: int):
        yield from range(n)

    @tool_function
    async def count_later(self, n: int):
        for k in range(n):
            yield k

    @staticmethod
    @tool_function
    def alone(n: int) -> int:
        return n + 1

    def no_tool(self) -> None: ...


def greeter() -> Greeter:
    node = Greeter()
    node.node_id = "g_1"
    return node


def test_a_decorated_method_stays_the_method_that_it_was() -> None:
    assert greeter().greet("Ada") == "Hello Ada from g_1"
    assert Greeter.alone(1) == 2


def test_a_class_knows_its_tools_in_the_order_of_their_definition() -> None:
    assert list(Greeter.tools) == ["greet", "say-bye", "later", "count", "count_later", "alone"]
    kinds = {name: spec.kind for name, spec in Greeter.tools.items()}
    assert kinds == {
        "greet": "sync", "say-bye": "sync", "later": "async", "count": "generator", "count_later": "async_generator",
        "alone": "sync",
    }  # fmt: skip


def test_options_are_on_the_spec_and_in_the_description() -> None:
    spec = Greeter.tools["say-bye"]
    assert (spec.thread, spec.timeout, spec.group, spec.owner) == ("same", 5.0, "talk", Greeter)
    described = spec.describe(None)
    assert described["description"] == "Part."
    assert described["group"] == "talk"
    assert described["annotations"] == {"readOnlyHint": True}


def test_a_call_gives_what_the_function_gives() -> None:
    node, tools = greeter(), Greeter.tools
    assert run(tools["greet"], node, {"name": "Ada"}) == "Hello Ada from g_1"
    assert run(tools["alone"], node, {"n": 1}) == 2
    assert list(run(tools["count"], node, {"n": 2})) == [0, 1]
    assert asyncio.run(run(tools["later"], node, {}, ToolContext(user_id="u"))) == "later u"

    async def collect() -> list[int]:
        return [k async for k in run(tools["count_later"], node, {"n": 2})]

    assert asyncio.run(collect()) == [0, 1]


def test_a_free_function_is_a_tool_too() -> None:
    @tool_function
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    registry = ToolRegistry()
    spec = registry.add(add)
    assert registry["add"] is spec
    assert run(spec, None, {"a": 1.0}) == 3
    with pytest.raises(TypeError, match="no tool"):
        registry.add(len)


# context


def context_tools() -> dict[str, Any]:
    def plain(n: int, ctx: ToolContext):
        return ctx

    def optional(ctx: Optional[ToolContext] = None):  # noqa: UP045 - the old spelling too
        return ctx

    def quoted(ctx: "ToolContext | None"):  # noqa: UP037 - quoted twice, as the module's annotations are strings
        return ctx

    def noted(*, ctx: Annotated[ToolContext, "x"]):
        return ctx

    def checked(ctx: rrext.ToolContext):
        return ctx

    return {function.__name__: function for function in (plain, optional, quoted, noted, checked)}


@pytest.mark.parametrize("name", list(context_tools()))
@pytest.mark.parametrize("given", [False, True])
def test_the_context_is_injected_and_hidden_however_it_is_annotated(name: str, given: bool) -> None:
    options = {"input_schema": {"properties": {"n": {"type": "integer"}}}} if given else {}
    spec = ToolRegistry().add(tool_function(**options)(context_tools()[name]))
    assert spec.wants_context
    assert "ctx" not in spec.describe(None)["inputSchema"].get("properties", {})
    ctx = ToolContext(request_id=7)
    assert run(spec, None, {"n": 1} if name == "plain" else {}, ctx) is ctx
    with pytest.raises(InvalidArguments, match="ctx"):
        spec.structure(None, {"n": 1, "ctx": {}} if name == "plain" else {"ctx": {}}, DEFAULTS)


def test_a_tool_without_context_parameter_gets_none() -> None:
    assert not Greeter.tools["greet"].wants_context
    assert run(Greeter.tools["greet"], greeter(), {"name": "x"}, ToolContext()) == "Hello x from g_1"


def test_a_name_that_only_checkers_import_is_a_clear_error() -> None:
    def take(limits: OnlyForCheckers):
        return limits

    with pytest.raises(ToolDefinitionError, match=r'"limits" of .*take names "OnlyForCheckers"'):
        ToolRegistry().add(tool_function(take)).describe(None)


def test_a_class_inside_the_node_may_be_named_in_annotations() -> None:
    import msgspec

    class Holder(Node):
        class Choice(msgspec.Struct):
            n: int

        @tool_function
        def list(self, choice: Choice, more: list[int]) -> list[int]:
            """Its name hides a builtin, and the annotation still means the builtin."""
            return [choice.n, *more]

    assert run(Holder.tools["list"], Holder(), {"choice": {"n": 1}, "more": [2]}) == [1, 2]


# what is refused


def var_args(*parts: int): ...


def var_keywords(**parts: int): ...


def positional_only(first: int, /): ...


def two_contexts(a: ToolContext, b: ToolContext): ...


@pytest.mark.parametrize(
    ("function", "says"),
    [(var_args, "parts"), (var_keywords, "parts"), (positional_only, "first"), (two_contexts, "a and b")],
)
def test_a_parameter_that_no_caller_can_give_is_named(function: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        ToolRegistry().add(tool_function(function)).describe(None)


@pytest.mark.parametrize("name", ["", " a", "a ", "a.b", "ä", "a" * 65, "a b", "a\n"])
def test_a_name_that_some_caller_refuses_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a tool"):
        tool_function(name=name)(lambda: None)
    assert tool_function(name="a" * 64)(lambda: None)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": 0}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": math.nan}, ValueError),
        ({"timeout": math.inf}, ValueError),
        ({"timeout": DEFAULTS.max_timeout + 1}, ValueError),
        ({"timeout": True}, TypeError),
        ({"timeout": "30"}, TypeError),
        ({"thread": "elsewhere"}, ValueError),
        ({"available": 5}, TypeError),
        ({"input_schema": []}, TypeError),
        ({"output_schema": True}, TypeError),
        ({"description": 5}, TypeError),
        ({"name": 5}, TypeError),
    ],
    ids=str,
)
def test_an_option_that_can_never_be_right_is_refused_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tool_function(**options)(var_args)


def test_async_tools_and_predicates_are_refused_where_they_cannot_work() -> None:
    async def later(): ...

    with pytest.raises(ValueError, match="event loop"):
        tool_function(thread="main")(later)
    with pytest.raises(TypeError, match="at once"):
        tool_function(available=later)(var_args)
    with pytest.raises(TypeError, match="marks functions"):
        tool_function(name="x")(functools.partial(var_args))


# names and inheritance


@pytest.mark.promise("names:unique-and-exportable")
def test_two_methods_of_one_tool_name_are_refused_naming_both() -> None:
    with pytest.raises(ToolDefinitionError, match=r'"search" .*Twice\.first and by .*Twice\.second'):

        class Twice(Node):
            @tool_function(name="search")
            def first(self): ...

            @tool_function(name="search")
            def second(self): ...


@pytest.mark.promise("names:unique-and-exportable")
def test_a_method_may_not_take_the_tool_name_of_another_method_of_its_base() -> None:
    with pytest.raises(ToolDefinitionError, match=r"Sub\.hello and by .*Greeter\.greet"):

        class Sub(Greeter):
            @tool_function(name="greet")
            def hello(self): ...


@pytest.mark.promise("names:unique-and-exportable")
def test_a_registry_gives_a_name_once() -> None:
    registry = ToolRegistry()
    registry.add(tool_function(name="x")(var_args))
    with pytest.raises(ToolDefinitionError, match=r"var_args and by .*var_keywords"):
        registry.add(tool_function(name="x")(var_keywords))


def test_a_list_of_tools_begins_with_those_of_the_class_and_ends_with_those_of_its_bases() -> None:
    class Longer(Greeter):
        @tool_function
        def last(self): ...

    assert list(Longer.tools) == ["last", *Greeter.tools]


def test_an_override_replaces_the_tool_and_keeps_its_place() -> None:
    class Loud(Greeter):
        @tool_function(description="Shout.")
        def greet(self, name: str) -> str:
            return f"HELLO {name}"

    assert list(Loud.tools) == list(Greeter.tools)
    assert run(Loud.tools["greet"], Loud(), {"name": "x"}) == "HELLO x"
    assert Loud.tools["greet"].describe(None)["description"] == "Shout."
    assert run(Greeter.tools["greet"], greeter(), {"name": "x"}) == "Hello x from g_1"


def test_an_override_without_decorator_stays_the_tool() -> None:
    class Quiet(Greeter):
        def bye(self, softly: bool = True) -> str:
            return "bye"

    spec = Quiet.tools["say-bye"]
    assert (spec.timeout, spec.owner) == (5.0, Quiet)
    assert list(spec.describe(None)["inputSchema"]["properties"]) == ["softly"]
    assert run(spec, Quiet(), {}) == "bye"


def test_an_override_without_docstring_keeps_the_text() -> None:
    class Silent(Greeter):
        @tool_function
        def greet(self, name: str) -> str:
            return name

    assert Silent.tools["greet"].describe(None)["description"] == "Greet somebody."


def test_a_tool_is_taken_away_by_none() -> None:
    class Mute(Greeter):
        greet = None

    assert "greet" not in Mute.tools
    assert "say-bye" in Mute.tools


def anything(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def test_a_method_that_takes_no_node_is_refused_when_its_class_is_made() -> None:
    def price(sku: str) -> int: ...
    def none() -> int: ...
    async def only(*, self: Any) -> int: ...

    for function in (price, none, only, anything(price)):
        with pytest.raises(ToolDefinitionError, match=r"Shop\.price takes no self"):
            type("Shop", (Node,), {"provider": "shop", "price": tool_function(function)})


def test_a_method_takes_its_node_as_self_also_behind_a_decorator() -> None:
    def price(self: Any, sku: str) -> int: ...

    for marked in (tool_function(price), tool_function(anything(price)), staticmethod(tool_function(name="a")(lambda sku: 1))):
        type("Shop", (Node,), {"provider": "shop", "price": marked})


def test_a_class_method_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="class method"):

        class Wrong(Node):
            @classmethod
            @tool_function
            def f(cls): ...


def test_the_nearest_base_wins_as_in_python() -> None:
    class Other:
        def greet(self, name: str) -> str:
            return "other"

    class Mixed(Other, Greeter): ...

    assert run(Mixed.tools["greet"], Mixed(), {"name": "x"}) == Mixed().greet("x") == "other"


def test_a_wrapped_method_is_called_through_its_wrapper() -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    class Wrapped(Node):
        @doubled
        @tool_function
        async def later(self, n: int) -> int:
            return n * 2

        @tool_function
        @doubled
        def now(self, n: int) -> int:
            return n * 2

    assert Wrapped.tools["later"].kind == "async"
    assert asyncio.run(run(Wrapped.tools["later"], Wrapped(), {"n": 2})) == 4
    assert list(Wrapped.tools["now"].describe(None)["inputSchema"]["properties"]) == ["n"]
    assert run(Wrapped.tools["now"], Wrapped(), {"n": 2}) == 4


def test_a_copy_has_its_own_name_and_text_and_the_same_parameters() -> None:
    spec = Greeter.tools["greet"]
    copy = spec.replace(name="hello", description="Say hello.")
    original, changed = spec.describe(None), copy.describe(None)
    assert (original["name"], changed["name"], changed["description"]) == ("greet", "hello", "Say hello.")
    assert changed["inputSchema"] == original["inputSchema"]
    assert run(copy, greeter(), {"name": "x"}) == "Hello x from g_1"
    assert spec.replace().describe(None) == original
    schema = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}
    strict = spec.replace(input_schema=schema)
    assert strict.describe(None)["inputSchema"] == schema
    with pytest.raises(InvalidArguments, match="at least 2"):
        run(strict, greeter(), {"name": "x"})
    assert run(spec, greeter(), {"name": "x"}) == "Hello x from g_1"
    with pytest.raises(ValueError, match="no name"):
        spec.replace(name="a.b")


def test_class_creation_looks_into_no_signature() -> None:
    """A tool that cannot be described is found out when it is asked for, not when its module is imported."""

    class Lazy(Node):
        @tool_function
        def broken(self, x: DoesNotExist): ...  # noqa: F821

    assert list(collect_tools(Lazy)) == ["broken"]
    with pytest.raises(ToolDefinitionError, match="DoesNotExist"):
        Lazy.tools["broken"].describe(Lazy())
