"""Predicates of tools: whether a context may see and call a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rrext.tools.context import ToolContext

Predicate: TypeAlias = "Callable[[Any, ToolContext], bool]"


def predicate_of(available: Any) -> Predicate:
    """A function of node and context, from a predicate that takes the context, or the node and the context."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(available).parameters.values() if p.kind in kinds and p.default is p.empty]
    if len(places) == 2:
        return lambda node, ctx: bool(available(node, ctx))
    return lambda _, ctx: bool(available(ctx))


def both(own: Callable[..., Any] | None, other: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The predicate that asks two predicates, of which either may be missing."""
    return BothPredicates(own, other) if own is not None and other is not None else own or other


class BothPredicates:
    """Two predicates that must both agree."""

    def __init__(self, own: Callable[..., Any], other: Callable[..., Any]) -> None:
        self._rules = (own, other)
        self._asked = (predicate_of(own), predicate_of(other))
        self.by_settings = all(getattr(rule, "by_settings", False) for rule in self._rules)

    def __call__(self, node: Any, ctx: ToolContext) -> bool:
        return all(asked(node, ctx) for asked in self._asked)

    def refusing(self, node: Any, ctx: ToolContext) -> Any:
        """The first predicate that does not agree, which may have a text for people."""
        refusing = (rule for rule, asked in zip(self._rules, self._asked, strict=True) if not asked(node, ctx))
        rule = next(refusing, self)
        return rule.refusing(node, ctx) if isinstance(rule, BothPredicates) and rule is not self else rule
