"""`@tool_function`: marks a function or method as a tool. Signature and docstring are read at the tool's first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Literal, TypeVar, overload

import msgspec

from rrext.errors import ToolError
from rrext.limits import DEFAULTS

F = TypeVar("F", bound=Callable[..., Any])
Schema = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]
Text = str | Callable[[Any], str]
ThreadChoice = Literal["pool", "same", "main"]
Kind = Literal["sync", "async", "generator", "async_generator"]

MARK = "__rrext_tool__"
"""The attribute of a marked function that has its options."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# The flags of a code object, as `inspect` has them; importing `inspect` costs more than the rest of this module.
_CO_GENERATOR, _CO_COROUTINE, _CO_ITERABLE_COROUTINE, _CO_ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200


class ToolDefinitionError(ToolError):
    """An invalid tool definition: the tool can be neither described nor called. The message says what is wrong."""


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `@tool_function`. Callables take the node, or None for a free function."""

    name: str
    description: Text | None = None
    input_schema: Schema | None = None
    output_schema: Schema | None = None
    available: Callable[..., Any] | None = None
    timeout: float | None = None
    thread: ThreadChoice = "pool"
    group: str | None = None
    annotations: Mapping[str, Any] | None = None
    for_models: bool = True
    takes_input: bool = False
    """Of a tool with a schema from outside: its one parameter takes the whole input, whatever the names in the schema."""


@overload
def tool_function(function: F, /) -> F: ...


@overload
def tool_function(
    *,
    name: str | None = None,
    description: Text | None = None,
    input_schema: Schema | None = None,
    output_schema: Schema | None = None,
    available: Callable[..., Any] | None = None,
    timeout: float | None = None,
    thread: ThreadChoice = "pool",
    group: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    for_models: bool = True,
) -> Callable[[F], F]: ...


def tool_function(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: Text | None = None,
    input_schema: Schema | None = None,
    output_schema: Schema | None = None,
    available: Callable[..., Any] | None = None,
    timeout: float | None = None,
    thread: ThreadChoice = "pool",
    group: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    for_models: bool = True,
) -> Any:
    """Make a method of a `Node`, or a free function, callable as a tool. The function itself stays as it is.

    `name` is the function's own by default. `description` and `input_schema` come from docstring and signature by default; they
    and `output_schema` may be callables of the node, called each time. `available` decides per request whether the tool is
    shown and callable: it takes the context, or the node and the context. `timeout` is in seconds. `thread` says where a `def`
    tool runs: in the `pool`, always in the `same` thread of its node, or in the `main` thread. `group` and `annotations` help
    people and programs to choose among tools. Without `for_models` it is a tool for programs alone, such as one that fills a
    store: agents and lists in the formats of models leave it out; who knows its name may still call it.

    Raises `ValueError` or `TypeError` for an option that can never be right.
    """

    def mark(target: Any) -> Any:
        code = getattr(target, "__code__", None)
        if code is None:
            raise TypeError(f"@tool_function marks functions, and {target!r} is none (put it below @staticmethod)")
        options = ToolOptions(
            name=check_name(name if name is not None else target.__name__),
            description=_text_or_callable(description),
            input_schema=_schema_or_callable("input_schema", input_schema),
            output_schema=_schema_or_callable("output_schema", output_schema),
            available=_predicate(available),
            timeout=_seconds(timeout),
            thread=_thread(thread, kind_of(target)),
            group=group,
            annotations=dict(annotations) if annotations is not None else None,
            for_models=for_models,
        )
        setattr(target, MARK, options)
        return target

    return mark if function is None else mark(function)


def options_of(function: Any) -> ToolOptions | None:
    """The options of a marked function; None for a function that is not a tool."""
    return getattr(function, MARK, None)


def kind_of(function: Any) -> Kind:
    """The way in which a function is called; for a plain wrapper, the kind of the wrapped function."""
    while function is not None:
        flags: int = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & (_CO_COROUTINE | _CO_ITERABLE_COROUTINE):
            return "async"
        if flags & _CO_ASYNC_GENERATOR:
            return "async_generator"
        if flags & _CO_GENERATOR:
            return "generator"
        function = getattr(function, "__wrapped__", None)
    return "sync"


def check_name(name: Any) -> str:
    """A valid tool name, unchanged: letters, digits, `_` and `-`, at most 64 characters. Raises for any other."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a tool is a string, not {type(name).__name__}")
    if not is_tool_name(name):
        raise ValueError(f'"{name}" is no name for a tool: use 1 to 64 of the characters a-z A-Z 0-9 _ -')
    return name


def is_tool_name(name: str) -> bool:
    """Whether a text is a valid tool name."""
    return _NAME.fullmatch(name) is not None


def _text_or_callable(value: Any) -> Any:
    if value is None or isinstance(value, str) or callable(value):
        return value
    raise TypeError(f"description is a string or a callable of the node, not {type(value).__name__}")


def _schema_or_callable(option: str, value: Any) -> Any:
    if value is None or isinstance(value, Mapping) or callable(value):
        return value
    raise TypeError(f"{option} is a JSON Schema object or a callable of the node, not {type(value).__name__}")


def _predicate(value: Any) -> Callable[..., Any] | None:
    if value is None:
        return None
    if not callable(value):
        raise TypeError(f"available is a callable of the context, not {type(value).__name__}")
    if kind_of(value) != "sync":
        raise TypeError("available is a plain function: it answers at once, for every listing")
    return value


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"timeout is a number of seconds, not {type(value).__name__}")
    if not isfinite(value) or not 0 < value <= DEFAULTS.max_timeout:
        raise ValueError(f"timeout is a finite number of seconds, above 0 and at most {DEFAULTS.max_timeout:g}, not {value}")
    return float(value)


def _thread(value: Any, kind: Kind) -> ThreadChoice:
    if value not in ("pool", "same", "main"):
        raise ValueError(f'thread is "pool", "same" or "main", not {value!r}')
    if value != "pool" and kind in ("async", "async_generator"):
        raise ValueError(f'thread="{value}" is for def tools: an async tool runs on the event loop')
    return value
