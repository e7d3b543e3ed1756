"""The tools of one owner, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolDefinitionError, ToolOptions, options_of
from rrext.tools.spec import ToolSpec


class ToolRegistry(Mapping[str, ToolSpec]):
    """Tools by name, in the order of their addition. Each name is unique."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}

    def add(self, tool: ToolSpec | Callable[..., Any]) -> ToolSpec:
        """Add a tool or a marked free function. Raises `ToolDefinitionError` for a name that is taken."""
        spec = tool if isinstance(tool, ToolSpec) else _free_tool(tool)
        other = self._specs.get(spec.name)
        if other is not None:
            raise ToolDefinitionError(
                f'The tool name "{spec.name}" is taken twice: by {other.origin} and by {spec.origin}',
                hint="Rename one of them with @tool_function(name=...).",
            )
        self._specs[spec.name] = spec
        return spec

    def listing(self, node: Any, ctx: ToolContext | None) -> list[dict[str, Any]]:
        """Descriptions of the tools that this context may call now. Calls follow the same rule."""
        return [spec.describe(node) for spec in self._specs.values() if spec.is_available(node, ctx)]

    def __getitem__(self, name: str) -> ToolSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __repr__(self) -> str:
        return f"<ToolRegistry {', '.join(self._specs) or 'empty'}>"


def collect_tools(cls: type) -> ToolRegistry:
    """The tools of a class, inherited tools last: a list of tools begins with those that are the class's own.

    An override without decorator stays a tool, with the options of the overridden tool; `name = None` in the class body removes
    a tool. Raises `ToolDefinitionError` if two methods claim one name.
    """
    found: dict[str, tuple[type, Any, ToolOptions]] = {}
    ranks: dict[str, int] = {}
    for rank, base in enumerate(reversed(cls.__mro__)):
        for attribute, value in vars(base).items():
            bare = value.__func__ if type(value) is staticmethod else value
            options = options_of(bare) if type(bare) is FunctionType else None
            if options is None and attribute in found and type(bare) is FunctionType:
                options = found[attribute][2]
            if options is not None:
                found[attribute] = (base, value, options)
                ranks.setdefault(attribute, rank)
            elif attribute in found:
                del found[attribute]
            elif type(value) is classmethod and options_of(value.__func__) is not None:
                name = f"{base.__qualname__}.{attribute}"
                raise ToolDefinitionError(f"{name} is a class method: a tool is a method or a static method")
    registry = ToolRegistry()
    for attribute in sorted(found, key=ranks.__getitem__, reverse=True):
        owner, value, options = found[attribute]
        static = type(value) is staticmethod
        if not static and not _takes_self(value):
            name = f"{owner.__qualname__}.{attribute}"
            raise ToolDefinitionError(f"{name} takes no self: make it a method, or put @staticmethod above it")
        registry.add(ToolSpec(value.__func__ if static else value, options, owner=owner, bound=not static))
    return registry


def _takes_self(function: Any) -> bool:
    """Whether the first parameter of a method is its node."""
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:
        function = wrapped
    code = getattr(function, "__code__", None)
    return code is None or (code.co_argcount > 0 and code.co_varnames[0] == "self")


def _free_tool(function: Callable[..., Any]) -> ToolSpec:
    options = options_of(function)
    if options is None:
        raise TypeError(f"{function!r} is no tool: mark it with @tool_function")
    return ToolSpec(function, options, owner=None, bound=False)
