"""The signature of a tool's function: its parameters with evaluated hints, and the parameter for the context."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace, UnionType
from typing import Any, ForwardRef, Union, get_args, get_origin, get_type_hints

import msgspec

from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolDefinitionError

NO_DEFAULT: Any = object()
"""The default of a parameter without one."""


class Parameter(msgspec.Struct, frozen=True):
    """One argument of the caller. `hint` is evaluated; it is `Any` without annotation."""

    name: str
    hint: Any
    default: Any = NO_DEFAULT

    @property
    def required(self) -> bool:
        """Whether a call without it is refused."""
        return self.default is NO_DEFAULT


class Signature(msgspec.Struct, frozen=True):
    """The caller's parameters, and the name of the context parameter."""

    parameters: tuple[Parameter, ...]
    context: str | None = None
    optional_context: bool = False
    """Whether the context parameter has a default."""


def read_signature(function: Callable[..., Any], owner: type | None, *, bound: bool) -> Signature:
    """The signature of a function. Raises `ToolDefinitionError` for a parameter that callers cannot give by name."""
    import inspect

    taken: list[Parameter] = []
    context: inspect.Parameter | None = None
    declared = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    scope = _Scope(function, owner)
    for parameter in declared:
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f'Parameter "{parameter.name}" of {function.__qualname__} is {_kind_text(parameter.kind.name)}: '
                "a tool takes its arguments by name"
            )
        hint = Any if parameter.annotation is parameter.empty else scope.evaluate(parameter.name, parameter.annotation)
        if is_context(hint):
            if context is not None:
                twice = f"{context.name} and {parameter.name}"
                raise ToolDefinitionError(f"{function.__qualname__} asks for its context twice: {twice}")
            context = parameter
        else:
            default = NO_DEFAULT if parameter.default is parameter.empty else parameter.default
            taken.append(Parameter(parameter.name, hint, default))
    if context is None:
        return Signature(tuple(taken))
    return Signature(tuple(taken), context.name, context.default is not context.empty)


def returned_hint(function: Callable[..., Any], owner: type | None) -> Any:
    """The evaluated annotation of what a function returns; `Any` without one. Raises `ToolDefinitionError`."""
    annotation = function.__annotations__.get("return", Any)
    return _Scope(function, owner).evaluate("return", annotation)


def _kind_text(kind: str) -> str:
    return {"VAR_POSITIONAL": "*variable", "VAR_KEYWORD": "**variable", "POSITIONAL_ONLY": "positional-only"}[kind]


def is_context(hint: Any) -> bool:
    """Whether a hint is `ToolContext`, possibly optional or annotated."""
    hint = strip_annotated(hint)
    if hint is ToolContext:
        return True
    return ToolContext in [strip_annotated(part) for part in get_args(hint) if part is not type(None)] and _is_union(hint)


def strip_annotated(hint: Any) -> Any:
    """`Annotated[T, …]` → `T`."""
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def class_hint(cls: type, name: str) -> Any:
    """The evaluated annotation of a class's field, also an inherited one, with `Annotated`; `Any` if there is none."""
    from inspect import get_annotations

    for base in cls.__mro__:
        found = get_annotations(base)
        if name in found:
            return _Scope(base, base).evaluate(name, found[name])
    return Any


def annotations_of(cls: type) -> dict[str, Any]:
    """The evaluated annotations of a class and its bases, with `Annotated`, in the order of definition."""
    from inspect import get_annotations

    return {name: class_hint(cls, name) for base in reversed(cls.__mro__) for name in get_annotations(base)}


class _Scope:
    """The namespaces in which the annotations of one definition are evaluated."""

    __slots__ = ("_globals", "_in_class", "_local", "_owner", "_what")

    def __init__(self, defined: Any, owner: type | None) -> None:
        import inspect

        self._what: str = defined.__qualname__
        self._owner = owner
        self._in_class = isinstance(defined, type)
        bare = inspect.unwrap(defined)
        self._globals: dict[str, Any] = getattr(bare, "__globals__", None) or vars(sys.modules[bare.__module__])
        self._local: dict[str, Any] = {}

    def evaluate(self, name: str, annotation: Any) -> Any:
        """The value of an annotation, with strings inside it evaluated. Raises `ToolDefinitionError` for an unknown name."""
        if isinstance(annotation, str) and self._in_class:
            annotation = ForwardRef(annotation, is_argument=False, is_class=True)  # where ClassVar and Required are allowed
        holder = SimpleNamespace(__annotations__={name: annotation})
        while True:
            try:
                hints = get_type_hints(holder, globalns=self._globals, localns=self._local or None, include_extras=True)
                return hints[name]
            except NameError as error:
                missing = error.name or ""
                # Names that only a type checker imports are undefined at run time. Those of rrext are known
                # all the same, and so are classes nested in the owner. They come last: a module's own name wins.
                found = next(self._elsewhere(missing), None)
                if found is None or missing in self._local:
                    raise ToolDefinitionError(
                        f'The annotation of "{name}" of {self._what} names "{missing}", which is not defined there',
                        hint="Import it at run time, not under TYPE_CHECKING, and outside of functions.",
                    ) from None
                self._local[missing] = found
            except (TypeError, SyntaxError, AttributeError) as error:
                raise ToolDefinitionError(f'The annotation of "{name}" of {self._what} is no type: {error}') from None

    def _elsewhere(self, name: str) -> Iterator[Any]:
        if name == "ToolContext":
            yield ToolContext
        if name == "rrext":
            yield sys.modules["rrext"]
        for base in self._owner.__mro__ if self._owner is not None else ():
            if name in vars(base):
                yield vars(base)[name]
