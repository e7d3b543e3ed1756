"""One tool of one owner: how it is described, how its input is checked, how it is called, how its result leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from rrext.errors import ResultTooLarge
from rrext.limits import Limits
from rrext.tools.context import ToolContext
from rrext.tools.decorator import Kind, ThreadChoice, ToolOptions, check_name, kind_of

__all__ = ["ToolSpec"]


class ToolSpec:
    """A tool, ready to be called. Schemas are derived when they are first needed, and kept."""

    __slots__ = ("_doubted", "_plan", "bound", "function", "kind", "name", "options", "owner", "static")

    def __init__(self, function: Callable[..., Any], options: ToolOptions, *, owner: type | None, bound: bool) -> None:
        self.function = function
        self.options = options
        self.owner = owner
        self.bound = bound
        self.name: str = options.name
        self.kind: Kind = kind_of(function)
        self.static: bool = not any(callable(part) for part in (options.description, options.input_schema, options.output_schema))
        self._plan: Any = None
        self._doubted = False

    @property
    def thread(self) -> ThreadChoice:
        return self.options.thread

    @property
    def timeout(self) -> float | None:
        return self.options.timeout

    @property
    def group(self) -> str | None:
        return self.options.group

    @property
    def annotations(self) -> Any:
        return self.options.annotations

    @property
    def has_predicate(self) -> bool:
        return self.options.available is not None

    @property
    def origin(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def wants_context(self) -> bool:
        return self._context() is not None

    def _context(self) -> str | None:
        import inspect

        if self._plan is None:
            hit = [p.name for p in inspect.signature(self.function).parameters.values() if "ToolContext" in str(p.annotation)]
            self._plan = (hit[0] if hit else None,)
        return self._plan[0]

    def describe(self, node: Any) -> dict[str, Any]:
        return {"name": self.name, "description": self.function.__doc__ or "", "inputSchema": {"type": "object"}}

    def structure(self, node: Any, input: Any, limits: Limits) -> dict[str, Any]:
        return dict(input or {})

    def call(self, node: Any, kwargs: dict[str, Any], ctx: ToolContext | None) -> Any:
        context = self._context()
        if context is not None:
            kwargs[context] = ctx
        return self.function(node, **kwargs) if self.bound else self.function(**kwargs)

    def is_available(self, node: Any, ctx: ToolContext | None) -> bool:
        predicate = self.options.available
        if predicate is None:
            return True
        try:
            return bool(predicate(ctx))
        except Exception:
            if not self._doubted:
                self._doubted = True
                logging.getLogger(__name__).exception("available of tool %s failed: it is hidden", self.name)
            return False

    def encode(self, node: Any, value: Any, limits: Limits) -> bytes:
        raw = msgspec.json.encode(value)
        if len(raw) > limits.max_result:
            raise ResultTooLarge("too large")
        return raw

    def encode_chunk(self, node: Any, value: Any, limits: Limits, *, checked: bool) -> bytes:
        return self.encode(node, value, limits)

    def replace(self, *, name: str | None = None, description: str | None = None) -> ToolSpec:
        options = msgspec.structs.replace(
            self.options,
            name=self.name if name is None else check_name(name),
            description=self.options.description if description is None else description,
        )
        return ToolSpec(self.function, options, owner=self.owner, bound=self.bound)

    def __repr__(self) -> str:
        return f"<ToolSpec {self.name} of {self.origin}>"
