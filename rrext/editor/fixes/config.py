"""Fixes of settings: profiles and their sections, unknown keys, values that a schema refuses, and variables; and the insertion
and removal of complete components and edges, for other fixes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rrext.editor.analysis import member, text_of
from rrext.editor.fixes.fix import MAX_VALUE_FIXES, Fix, FixContext, fix, is_obvious, replacements
from rrext.editor.formatting import Edits, begin_of, joined
from rrext.editor.schemas import Field, Schema, choices_of, example_of, field_at, fields_of, kinds_of, schemas_at
from rrext.editor.text import Edit
from rrext.errors import near_matches
from rrext.nodes.base.node import Node, accepted_lanes
from rrext.pipefile.component_reader import variable_for
from rrext.pipefile.environment import NEVER, PREFIX
from rrext.pipefile.near_names import is_typing_mistake
from rrext.pipefile.shape import COMPONENT_KEYS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.problems import Problem, below, parts_of, pointer, shown
from rrext.secrets.names import secret_in
from rrext.tools.validation import InvalidSchema, SchemaValidator


def profile_not_found(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """An existing profile, or none."""
    yield from replacements(context, problem)
    draft = context.draft(problem.path)
    known = tuple(draft.node.profiles) if draft is not None and draft.node is not None else ()
    for name in known[:MAX_VALUE_FIXES]:
        if name not in problem.near:
            title = f"Choose the profile {shown(name)}"
            yield fix(problem, title, context.replace(problem.path, name))
    yield fix(problem, 'Remove "profile"', context.remove(problem.path), preferred=not known)


def beside_profile(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The key moved into the section of the profile, or removed."""
    *around, key = parts_of(problem.path)
    config = pointer(*around)
    profile = text_of(context.find(below(config, "profile")))
    if profile and "${" not in profile:  # a section never has the name of a variable
        edits = _moved(context, config, key, profile)
        yield fix(problem, f"Move {shown(key)} into {shown(profile)}", edits, preferred=True)
    yield fix(problem, f"Remove {shown(key)}", context.remove(problem.path))


def _moved(context: FixContext, path: str, key: str, profile: str) -> Edits:
    """A key of a config moved into a section, which is created around the key if it is missing."""
    config, section, layout = context.find(path), context.find(below(path, profile)), context.layout
    place = next((index for index, child in enumerate(context.children(path)) if child.key == key), None)
    if config is None or place is None:
        return None
    if section is None:
        child, pad = config.children[place], " " if layout.style.padded else ""
        start = begin_of(child)
        return (Edit(start, start, layout.style.member(profile, "{" + pad)), Edit(child.end, child.end, pad + "}"))
    taken = layout.take(config, place)
    if taken is None or any(child.key == key for child in section.children):
        return None
    put = layout.insert(section, [lambda margin: layout.moved(taken, margin)], note=taken.note)
    return None if put is None else (*taken.edits, *put)


def profile_not_selected(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The profile selected, or its section removed."""
    *around, key = parts_of(problem.path)
    config = context.find(pointer(*around))
    others = [
        other
        for other in context.analysis.loaded.problems
        if other.code == problem.code and pointer(*parts_of(other.path)[:-1]) == pointer(*around)
    ]
    if config is None:
        return
    selected = context.layout.insert(config, [lambda _: context.layout.style.member("profile", f'"{key}"')], 0)
    if any(child.key == "profile" for child in config.children):
        selected = context.replace(below(pointer(*around), "profile"), key)
    yield fix(problem, f"Select the profile {shown(key)}", selected, preferred=len(others) == 1)
    yield fix(problem, f"Remove {shown(key)}", context.remove(problem.path))


def unknown_config_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A known key, or none."""
    yield from replacements(context, problem)
    yield fix(problem, f"Remove {shown(parts_of(problem.path)[-1])}", context.remove(problem.path))


def invalid_config(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A valid value, or none, so that the default applies."""
    draft = context.draft(problem.path)
    root = _schema_of(context, draft)
    parts = context.parts(problem.path)[3:]
    if draft is None or root is None or not parts:
        return
    inside = parts[1:] if draft.config.get("profile") == parts[0] and "profile" not in root.get("properties", {}) else parts
    if not inside:
        return
    schemas, field = schemas_at(root, inside), field_at(root, inside)
    located = context.find(problem.path)
    if located is None:
        yield _added(context, problem, root, field)
        return
    values = allowed_near(located.value, schemas, root) if located.kind != "hole" else []
    old = context.text[located.start : located.end]
    for value in values[:MAX_VALUE_FIXES]:
        new = context.layout.style.flat(value)
        title = f"Replace {old} with {new}" if len(old) <= 40 else f"Replace it with {new}"
        preferred = len(values) == 1 and _is_meant(located.value, value)
        yield fix(problem, title, context.replace(problem.path, value), preferred=preferred)
    if field is None or not field.required:
        has_default = field is not None and field.default is not None
        default = f"; its default is {context.layout.style.flat(field.default)}" if field is not None and has_default else ""
        what = "this element" if parts[-1].isdecimal() and field is None else shown(parts[-1])
        yield fix(problem, f"Remove {what}{default if len(default) <= 80 else ''}", context.remove(problem.path))


def _is_meant(old: Any, value: Any) -> bool:
    """Whether a value is the intended one: a name only after a typing mistake."""
    return not (isinstance(old, str) and isinstance(value, str)) or is_typing_mistake(old, value)


def _added(context: FixContext, problem: Problem, root: Schema, field: Field | None) -> Fix | None:
    """A required setting that is missing."""
    if field is None or not field.required:
        return None
    value = example_of(root, field.schemas)
    title = f'Add "{field.name}": {context.layout.style.flat(value)}'
    return fix(problem, title, context.set(pointer(*parts_of(problem.path)[:-1]), field.name, value), preferred=True)


def _schema_of(context: FixContext, draft: ComponentSpec | None) -> Schema | None:
    return context.known_nodes.schema(draft.node) if draft is not None and draft.node is not None else None


def misplaced_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The key moved out of the config, unless the component has it already."""
    *around, key = parts_of(problem.path)
    path, layout = pointer(*around), context.layout
    config, component = context.find(path), context.find(pointer(*around[:-1]))
    place = next((index for index, child in enumerate(context.children(path)) if child.key == key), None)
    if config is None or component is None or place is None or any(child.key == key for child in component.children):
        return
    taken = layout.take(config, place)
    if taken is not None:
        put = layout.insert(component, [lambda margin: layout.moved(taken, margin)], note=taken.note)
        yield fix(problem, f"Move {shown(key)} out of config", taken.edits, put, preferred=True)


_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def allowed_near(value: Any, schemas: Sequence[Schema], root: Schema) -> list[Any]:
    """Valid values that an invalid one may stand for, the most likely first."""
    found: list[Any] = []
    for schema in schemas:
        fits = _validator(schema, root)
        for candidate in (*_meant(value, schema, root), *_near_choices(value, schema)):
            if fits is not None and fits(candidate) and not any(_same(candidate, other) for other in found):
                found.append(candidate)
    return found


def _validator(schema: Schema, root: Schema) -> Any:
    whole = {**schema, "$defs": root["$defs"]} if "$defs" in root else schema
    validator = SchemaValidator(whole)
    try:
        validator.compile()
    except InvalidSchema:
        return None
    return validator.fits


def _meant(value: Any, schema: Schema, root: Schema) -> Iterator[Any]:
    """The same value in the right type, or the nearest within its bounds."""
    kinds = kinds_of([schema])
    if isinstance(value, str):
        number = _number(value)
        if number is not None:
            yield int(number) if number == int(number) else number
        if value.strip().lower() in _WORDS:
            yield _WORDS[value.strip().lower()]
    elif isinstance(value, bool):
        yield str(value).lower()
        yield int(value)
    elif isinstance(value, int | float):
        yield str(value)
        if value in (0, 1) and "boolean" in kinds:
            yield bool(value)
        yield from _in_bounds(value, schema)
    if "array" in kinds and not isinstance(value, list | dict):
        yield [value]
    if isinstance(value, list) and len(value) == 1:
        yield value[0]
    if value in (None, "", [], {}):
        yield example_of(root, [schema])


def _number(text: str) -> float | None:
    try:
        number = float(text) if len(text) < 30 and text.isascii() else None
    except ValueError:
        return None
    return number if number is not None and number - number == 0 else None


def _in_bounds(value: float, schema: Schema) -> Iterator[Any]:
    if isinstance(value, float) and value.is_integer():
        yield int(value)
    if value - value == 0:
        yield round(value)
    for word, step in (("minimum", 0), ("maximum", 0), ("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        limit = schema.get(word)
        if isinstance(limit, int | float) and (value < limit + step) == word.endswith("inimum"):
            yield limit + step


def _near_choices(value: Any, schema: Schema) -> list[Any]:
    choices = choices_of(schema)
    if isinstance(value, str):
        near = near_matches(value[:100], [choice for choice in choices if isinstance(choice, str)])
        if near:
            return near
    return list(choices[:MAX_VALUE_FIXES])


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def wrong_variable(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A variable that has a value; for a forbidden name, the same name with the allowed prefix."""
    located = context.find(problem.path)
    if located is None or not problem.part:
        return
    start, end = context.span(problem)
    if context.text[start:end] != problem.part:
        return
    name = problem.part[2:-1]
    names = problem.near
    if problem.code == "variable_not_allowed" and not names and name not in NEVER:
        names = (PREFIX + name,)
    for other in names:
        title = f"Replace {problem.part} with ${{{other}}}"
        edits = _everywhere(context, located.start, located.end, problem.part, other)
        yield fix(problem, title, edits, preferred=other == PREFIX + name or is_obvious(name, other, names))


def _everywhere(context: FixContext, start: int, end: int, part: str, name: str) -> tuple[Edit, ...]:
    """The replacement of every occurrence of a variable in a string."""
    edits: list[Edit] = []
    at = context.text.find(part, start, end)
    while at >= 0:
        edits.append(Edit(at, at + len(part), f"${{{name}}}"))
        at = context.text.find(part, at + len(part), end)
    return tuple(edits)


def variable_in_project_id(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A literal id; or none, so that each run gets one."""
    yield fix(problem, "Write a new project id", context.replace(problem.path, str(uuid.uuid4())), preferred=True)
    yield fix(problem, 'Remove "project_id"', context.remove(problem.path))


def literal_secret(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A variable in the place of the secret. The title must not show it, and the author has to keep it elsewhere first."""
    located, draft = context.find(problem.path), context.draft(problem.path)
    if located is None or draft is None or not isinstance(located.value, str):
        return
    key = next((part for part in reversed(context.parts(problem.path)) if not part.isdecimal()), "")
    found = secret_in(located.value, key)
    if found is None:
        return
    start, name = context.text.find(found[1], located.start, located.end), variable_for(draft.provider, key)
    written = Edit(start, start + len(found[1]), f"${{{name}}}") if start >= 0 else None
    whole = context.replace(problem.path, f"${{{name}}}")
    yield fix(problem, f"Replace the secret with ${{{name}}}", whole if written is None else (written,))


def fresh_id(context: FixContext, provider: str, taken: Sequence[str] = ()) -> str:
    """An unused id in the usual form: `webhook_1`."""
    written = context.written
    used = {*written.by_id, *context.analysis.by_id, *written.edges_from, text_of(written.source), *taken}
    provider = provider if provider and "${" not in provider else "node"
    number = 1
    while f"{provider}_{number}" in used:
        number += 1
    return f"{provider}_{number}"


def edge_of(kind: EdgeKind, name: str, source: str) -> dict[str, str]:
    """An edge as it stands in a file."""
    return {"lane" if kind == "input" else "classType": name, "from": source}


def new_component(
    context: FixContext,
    provider: str,
    node: type[Node],
    *,
    node_id: str = "",
    inputs: Sequence[dict[str, str]] = (),
    controls: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """A component as it stands in a file, with its required settings."""
    component: dict[str, Any] = {
        "id": node_id or fresh_id(context, provider),
        "provider": provider,
        "config": _settings(context, node),
    }
    if inputs:
        component["input"] = list(inputs)
    if controls:
        component["control"] = list(controls)
    return component


def _settings(context: FixContext, node: type[Node]) -> dict[str, Any]:
    if node.is_source():
        return {"mode": "Source", "type": node.provider}
    schema = context.known_nodes.schema(node)
    if schema is None:
        return {}
    given = node.profiles.get(node.default_profile or "", {})
    fields = fields_of(schema, schemas_at(schema, ()))
    return {field.name: example_of(schema, field.schemas) for field in fields if field.required and field.name not in given}


def response_for(context: FixContext, lanes: Sequence[str]) -> tuple[str, type[Node]] | None:
    """The response node for lanes: a node for exactly these lanes, or a node for all lanes."""
    names = [f"response_{lanes[0]}"] if len(lanes) == 1 else []
    for provider in (*names, "response"):
        node = context.known_nodes.node(provider)
        if node is not None and set(lanes) <= set(accepted_lanes(node)):
            return provider, node
    return None


# edits
def add_components(context: FixContext, *components: dict[str, Any], first: bool = False) -> Edits:
    """Insert components at the end of the list, or at its beginning."""
    listed = context.at("components")
    if listed is None:
        holder = context.find(context.analysis.base)
        style = context.layout.style

        def write(margin: str) -> str:
            if not style.wide:
                return style.flat(list(components))
            inner = margin + style.indent
            lines = (style.newline + inner + style.block(component, inner) for component in components)
            return "[" + ",".join(lines) + style.newline + margin + "]"

        return None if holder is None else context.layout.add_member(holder, "components", write)
    return context.layout.add_elements(listed, components, 0 if first else None, wide=context.layout.style.wide)


def add_edges(context: FixContext, draft: ComponentSpec, kind: EdgeKind, edges: Sequence[dict[str, str]]) -> Edits:
    """Insert edges that end at a component; existing ones are not repeated."""
    holder = context.find(draft.path)
    listed = None if holder is None else member(holder, kind)
    if listed is None or listed.kind == "null":
        return context.set(draft.path, kind, list(edges), COMPONENT_KEYS)
    missing = [edge for edge in edges if all(child.value != edge for child in listed.children)]
    return context.layout.add_elements(listed, missing) if missing else ()


def remove_edge(context: FixContext, path: str) -> Edits:
    """Remove an edge; also its list, if the list has no other edge and no comment."""
    return _without_edges(context, path.rpartition("/")[0], [int(path.rpartition("/")[2])])


def _without_edges(context: FixContext, path: str, places: Sequence[int]) -> Edits:
    listed = context.find(path)
    if listed is None or listed.kind != "array":
        return None
    if len(places) == len(listed.children) and context.layout.is_bare(listed):
        return context.remove(path)
    return context.layout.remove(listed, places)


def remove_component(context: FixContext, draft: ComponentSpec) -> Edits:
    """Remove a component and every edge from it."""
    return joined(context.remove(draft.path), *_without_edges_from(context, draft))


def _without_edges_from(context: FixContext, draft: ComponentSpec) -> Iterator[Edits]:
    part = context.part(draft)
    if part is None or not context.written.is_first(part):
        return
    places: dict[str, list[int]] = {}
    for edge in context.written.edges_from.get(part.id, ()):
        if edge.holder != draft.index:
            path = below(context.analysis.base, "components", edge.holder, edge.kind)
            places.setdefault(path, []).append(edge.index)
    for path, indexes in places.items():
        yield _without_edges(context, path, indexes)
