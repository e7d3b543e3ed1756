"""Fixes of keys and types: missing, misnamed and duplicate keys, values of a wrong type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rrext.editor.analysis import member
from rrext.editor.fixes.config import edge_of, fresh_id, remove_edge
from rrext.editor.fixes.edges import names_for, sources_for
from rrext.editor.fixes.fix import Fix, FixContext, fix, replacements
from rrext.editor.formatting import Edits, begin_of, quoted
from rrext.editor.text import Edit
from rrext.pipefile.shape import COMPONENT_KEYS, EDGE_KEYS, ROOT_KEYS, VERSION
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.problems import Problem, below, parts_of, pointer, shown
from rrext.pipefile.text.tree import Located

_LISTS: Final = ("components", "input", "control")
_OPTIONAL: Final = ("source", "project_id", "name", "description")


def unknown_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A known key, or none."""
    yield from replacements(context, problem)
    key = parts_of(problem.path)[-1]
    yield fix(problem, f"Remove {shown(key)}", context.remove(problem.path))


def invalid_version(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The supported version."""
    yield fix(problem, f"Set version to {VERSION}", context.replace(problem.path, VERSION), preferred=True)


def duplicate_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of the first of equal keys (the last one counts, so the meaning stays), or of this one.

    The first one is preferred unless an object or list is lost with it: nobody meant a second `components` to end the first.
    """
    start = context.span(problem)[0]
    holder = context.find(pointer(*parts_of(problem.path)[:-1]))
    key = parts_of(problem.path)[-1] if problem.path else ""
    places = [] if holder is None else [index for index, child in enumerate(holder.children) if child.key == key]
    if holder is None or len(places) < 2:
        return
    first, last = holder.children[places[0]], holder.children[places[-1]]
    kept = not first.children or context.text[first.start : first.end] == context.text[last.start : last.end]
    this = next((place for place in places if begin_of(holder.children[place]) == start), None)
    yield fix(
        problem,
        f"Remove the first {shown(key)}, which does not count",
        context.layout.remove(holder, places[:1]),
        preferred=kept,
    )
    if this is not None:
        yield fix(problem, f"Remove this {shown(key)}", context.layout.remove(holder, [this]))


def duplicate_id(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """Another id for this component; edges stay with the first component, or go with this one."""
    draft = context.draft(problem.path)
    located = context.find(problem.path)
    if draft is None or located is None or located.kind != "string":
        return
    old = draft.id
    new = fresh_id(context, draft.provider)
    renamed = context.replace(problem.path, new)
    uses = _uses_of(context, draft, old)
    stay = f"Rename this {shown(old)} to {shown(new)}"
    yield fix(problem, f"{stay}; edges stay with the first one" if uses else stay, renamed, preferred=True)
    if uses:
        moved = tuple(Edit(*span, quoted(new)) for span in uses)
        yield fix(problem, f"{stay}, with every edge from it", renamed, moved)
    yield fix(problem, f"Remove this {shown(old)}", context.remove(draft.path))


def _uses_of(context: FixContext, draft: ComponentSpec, old: str) -> list[tuple[int, int]]:
    """The spans that use an id, except the ids themselves and the edges of this component."""
    written = context.written
    edges = written.edges_from.get(old, ())
    places = [member(written.components[edge.holder].edge(edge), "from") for edge in edges if edge.holder != draft.index]
    if written.source is not None and written.source.value == old:
        places.append(written.source)
    return [(place.start, place.end) for place in places if place is not None]


# keys that are missing


def missing_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The key, with a value that the context suggests; or the renamed misspelt key."""
    *around, key = parts_of(problem.path)
    path, parts = pointer(*around), context.parts(problem.path)
    for other in context.analysis.loaded.problems:
        if other.code == "unknown_key" and key in other.near and pointer(*parts_of(other.path)[:-1]) == path:
            misspelt = parts_of(other.path)[-1]
            yield fix(problem, f"Replace {shown(misspelt)} with {shown(key)}", context.rename(other.path, key), preferred=True)
            return
    kind = context.find(below(path, "type")) if len(parts) == 3 and key == "provider" else None
    if kind is not None and isinstance(kind.value, str):
        known = context.known_nodes.node(kind.value) is not None
        yield fix(problem, 'Replace "type" with "provider"', context.rename(below(path, "type"), key), preferred=known)
    values = _values_for(context, context.draft(problem.path), parts)
    order = (
        ROOT_KEYS
        if len(parts) == 1
        else COMPONENT_KEYS
        if len(parts) == 3
        else EDGE_KEYS["input" if parts[2] == "input" else "control"]
    )
    for value in values:
        title = f'Add "{key}": {context.layout.style.flat(value)}'
        yield fix(problem, title, context.set(path, key, value, order), preferred=len(values) == 1)
    if len(parts) == 5:
        yield fix(problem, "Remove this edge", remove_edge(context, path))


def _values_for(context: FixContext, draft: ComponentSpec | None, parts: list[str]) -> list[Any]:
    """The probable values of a key."""
    key = parts[-1] if parts else ""
    if key in ("components", "input", "control"):
        return [[]]
    if draft is None:
        return []
    if key == "id":
        return [fresh_id(context, draft.provider)]
    if key == "provider":
        name = draft.id
        written = draft.config.get("type")
        if isinstance(written, str) and context.known_nodes.node(written) is not None:
            return [written]
        guess = name.rstrip("0123456789").rstrip("_-")
        return [name for name in (name, guess) if context.known_nodes.node(name) is not None][:1]
    return _edge_values(context, draft, parts) if len(parts) == 5 else []


def _edge_values(context: FixContext, draft: ComponentSpec, parts: list[str]) -> list[Any]:
    kind: EdgeKind = "input" if parts[2] == "input" else "control"
    located = context.at(*parts[:-1])
    if located is None or not isinstance(located.value, dict):
        return []
    edge: dict[str, Any] = located.value
    name, source = (edge.get(key) for key in EDGE_KEYS[kind])
    if parts[-1] == "from":
        return sources_for(context, draft, kind, name) if isinstance(name, str) else []
    return names_for(kind, context.analysis.by_id.get(source), draft) if isinstance(source, str) else []


# values of the wrong type


def wrong_type(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The value converted to the expected type without loss; or none."""
    located = context.find(problem.path)
    if located is None or located.kind == "hole":
        return
    parts = context.parts(problem.path)
    if not parts:
        yield _wrapped_root(context, problem, located)
        return
    key = parts[-1]
    in_config = len(parts) > 3 and parts[2] == "config"
    if in_config:
        yield from _in_config(context, problem, parts)
    elif key.isdecimal():
        yield from _element(context, problem, located, parts)
    elif key in _LISTS:
        yield _listed(context, problem, located, key)
    elif key == "config":
        empty = located.value in (None, "", [])
        yield fix(problem, f"Replace {_old(context, located)} with {{}}", context.replace(problem.path, {}), preferred=empty)
    elif key == "version":
        yield fix(problem, f"Set version to {VERSION}", context.replace(problem.path, VERSION), preferred=True)
    else:
        yield from _text(context, problem, located, parts)


def _wrapped_root(context: FixContext, problem: Problem, located: Located) -> Fix | None:
    if located.kind != "array" or not all(child.kind == "object" for child in located.children):
        return None
    key = f'{{"components"{context.layout.style.colon}'
    return fix(
        problem,
        "Make this list the components of a pipeline",
        (Edit(located.start, located.start, key), Edit(located.end, located.end, "}")),
        preferred=True,
    )


def _in_config(context: FixContext, problem: Problem, parts: list[str]) -> Iterator[Fix | None]:
    draft = context.draft(problem.path)
    if parts[3:] == ["profile"] and draft is not None and draft.node is not None:
        known = list(draft.node.profiles)
        default = draft.node.default_profile or (known[0] if len(known) == 1 else None)
        for name in known[:6]:
            edits = context.replace(problem.path, name)
            yield fix(problem, f"Choose the profile {shown(name)}", edits, preferred=name == default)
    yield fix(problem, f"Remove {shown(parts[-1])}", context.remove(problem.path))


def _element(context: FixContext, problem: Problem, located: Located, parts: list[str]) -> Iterator[Fix | None]:
    if len(parts) == 2:
        yield fix(problem, "Remove what is no component", context.remove(problem.path))
        return
    draft = context.draft(problem.path)
    kind: EdgeKind = "input" if parts[2] == "input" else "control"
    if draft is not None and isinstance(located.value, str):
        names = names_for(kind, context.analysis.by_id.get(located.value), draft)
        for name in names:
            edge = context.layout.style.flat(edge_of(kind, name, located.value))
            edits: Edits = (Edit(located.start, located.end, edge),)
            yield fix(problem, f"Replace {shown(located.value)} with {edge}", edits, preferred=len(names) == 1)
    yield fix(problem, "Remove what is no edge", remove_edge(context, problem.path))


def _listed(context: FixContext, problem: Problem, located: Located, key: str) -> Fix | None:
    if located.kind == "object":
        edits = (Edit(located.start, located.start, "["), Edit(located.end, located.end, "]"))
        return fix(problem, "Put brackets around it: a list is expected", edits, preferred=True)
    if located.value in (None, ""):
        return fix(problem, f"Replace {_old(context, located)} with []", context.replace(problem.path, []), preferred=True)
    return fix(problem, f"Remove {shown(key)}", context.remove(problem.path)) if key != "components" else None


def _text(context: FixContext, problem: Problem, located: Located, parts: list[str]) -> Iterator[Fix | None]:
    """Fixes where a string is expected."""
    path, key = problem.path, parts[-1]
    if located.kind == "number":
        old = context.text[located.start : located.end]
        yield fix(problem, f"Put quotes around {shown(old)[1:-1]}", context.replace(path, old), preferred=True)
        return
    draft = context.draft(path)
    values = [] if draft is None else _values_for(context, draft, parts)
    for value in values:
        title = f"Replace {_old(context, located)} with {shown(str(value))}"
        yield fix(problem, title, context.replace(path, value), preferred=len(values) == 1)
    if len(parts) == 5:
        yield fix(problem, "Remove this edge", remove_edge(context, below("", *parts_of(path)[:-1])))
    elif (len(parts) == 1 and key in _OPTIONAL) or (len(parts) == 3 and key in ("name", "description")):
        yield fix(problem, f"Remove {shown(key)}", context.remove(path))


def _old(context: FixContext, located: Located) -> str:
    text = context.text[located.start : located.end]
    return text if len(text) <= 20 and "\n" not in text else "this"
