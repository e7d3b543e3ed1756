"""Whole pipelines as tools: a text or a question goes in, the result of its object comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rrext.engine.local_engine import LocalEngine
from rrext.errors import UsageError, near_matches

TOKEN: Final = "--as-tool"
"""The token of the pipeline that offers the others: no file is called so."""
LANES: Final = ("text", "tags", "questions")


def offer(engine: LocalEngine, offered: Sequence[str], tokens: Sequence[str]) -> None:
    """Load a pipeline whose tools are other pipelines: `NAME` for the only one, `TOKEN=NAME` or `TOKEN` for one of several.

    Raises `UsageError` for a pipeline that is not there or takes no text and for a name that is taken, and `InvalidPipeline`
    for a name that is none.
    """
    meant = [_meant(text, tokens) for text in offered]
    taken: dict[str, str] = {}
    for token in tokens:
        for part in engine.task(token).components.values():
            taken |= dict.fromkeys(part.node_class.tools, f'a tool of "{token}"')
    for token, name in meant:
        if name in taken:  # else both would get other names than those that the operator knows
            raise UsageError(
                f"--as-tool {name}: {taken[name]} has this name", hint=f"choose another one: --as-tool {token}=NAME"
            )
        taken[name] = "another pipeline"
    tools = [_reference(engine, token, name) for token, name in meant]
    source = {"id": "tools_1", "provider": "tools", "config": {"tools": tools}}
    engine.load({"components": [source], "source": "tools_1"}, token=TOKEN, name="pipelines")


def _meant(text: str, tokens: Sequence[str]) -> tuple[str, str]:
    """The token of a pipeline and the name of the tool. Raises `UsageError`."""
    token, equals, name = text.rpartition("=")
    if not equals:
        token = tokens[0] if len(tokens) == 1 else text
    if token not in tokens:
        near = near_matches(token, tokens)
        hint = f"did you mean {near[0]}={name}?" if near else f"TOKEN=NAME, with one of {', '.join(tokens)}"
        raise UsageError(f"--as-tool {text}: no file has the token (stem) {token!r}", hint=hint)
    return token, name


def _reference(engine: LocalEngine, token: str, name: str) -> dict[str, Any]:
    task = engine.task(token)
    plan = task.plan_from(None)
    if not any(map(plan.listens, LANES)):
        raise UsageError(f'--as-tool {name}: nothing in "{token}" takes texts or questions from its source "{plan.source}"')
    described = {"description": task.spec.description} if task.spec.description else {}
    return {"type": "pipeline", "pipeline": token, "name": name, **described}
