"""Whether a generator function returns a value besides its chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints


def returns_value(function: Callable[..., Any]) -> bool:
    """Whether a generator returns a value, by its annotation: `Generator[chunk, sent, value]` does, `Iterator[chunk]` does not.
    Without annotation, whether its code has a `return` with a value."""
    said = function.__annotations__.get("return")
    if isinstance(said, str):
        said = _evaluated(function)
    if said is None:
        return _code_returns_value(function)
    args = get_args(said)
    if getattr(get_origin(said) or said, "__name__", "") == "Generator" and len(args) == 3:
        return args[2] not in (None, type(None))
    return bool(not args and getattr(said, "__name__", "") == "Generator" and _code_returns_value(function))


def _evaluated(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(function).get("return")
    except Exception:
        return None  # a name that only type checkers see: the code decides


def _code_returns_value(function: Callable[..., Any]) -> bool:
    import dis
    import inspect

    before = None
    for step in dis.get_instructions(inspect.unwrap(function)):
        nothing = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "RETURN_VALUE" and not nothing:
            return True
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        before = step
    return False
