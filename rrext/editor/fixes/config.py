"""Fixes of settings: profiles and their sections, unknown keys, invalid values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix, fix, replacements
from rrext.editor.fixes.values import allowed_near
from rrext.editor.layout import Edits
from rrext.editor.limits import MAX_VALUE_FIXES
from rrext.editor.schemas.examples import example_of
from rrext.editor.schemas.lookup import Field, Schema, field_at, schemas_at
from rrext.editor.style import begin_of
from rrext.editor.written_pipeline import text_of
from rrext.pipefile.near_names import is_typing_mistake
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.pointer import below, parts_of, pointer
from rrext.pipefile.text.problems import Problem, shown


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
