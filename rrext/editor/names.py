"""The ids of components: their occurrences, the component that each names, and renaming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from rrext.editor.analysis import Analysis, WrittenPipeline, member
from rrext.editor.text import Edit
from rrext.pipefile.text.problems import Span, shown
from rrext.pipefile.text.tree import Located

Use: TypeAlias = Literal["id", "from", "source", "node"]


class NotRenamed(Exception):
    """A rename is refused; the text says why."""


class Name(msgspec.Struct, frozen=True):
    """One occurrence of an id. `span` is the text between the quotes, `outer` includes them.

    `component` is the index of the component that holds it; None for the pipeline's `source`. `sound`: it is a valid JSON
    string.
    """

    value: str
    use: Use
    span: Span
    outer: Span
    component: int | None
    sound: bool


class Names:
    """All ids in one state of a document, in file order.

    A duplicate id means the first component that has it, as in the engine; only its own `id` names the other component.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.written = analysis.written
        self._names = sorted(_names(self.written, analysis.text), key=lambda name: name.span)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._names)

    def at(self, offset: int) -> Name | None:
        """The id at an offset, quotes included."""
        for name in self._names:
            if name.outer[0] <= offset <= name.outer[1]:
                return name
        return None

    def declaration(self, name: Name) -> Name | None:
        """The `id` member that an occurrence refers to; None if no component has it."""
        if name.use == "id":
            return name
        component = self.written.by_id.get(name.value)
        index = None if component is None else component.index
        return next((other for other in self._names if other.use == "id" and other.component == index), None)

    def of_tool(self, offset: int) -> Name | None:
        """The component whose tool a reference at an offset means, as a name that stands there."""
        for reference in self.written.references():
            located = reference.located if not reference.kind else member(reference.located, "tool")
            if located is not None and located.start <= offset <= located.end:
                owner, span = self.written.owner_of(reference), (located.start, located.end)
                return None if owner is None else Name(owner.id, "node", span, span, reference.holder, False)
        return None

    def meaning(self, name: Name) -> list[Name]:
        """All occurrences that name the same component, its `id` included. For an undeclared id, all its uses."""
        declared = self.declaration(name)
        if declared is not None and not self._is_first(declared):
            return [declared]
        return [other for other in self._names if other.value == name.value and (other.use != "id" or other == declared)]

    def _is_first(self, declared: Name) -> bool:
        return self.written.by_id[declared.value].index == declared.component

    # renaming

    def renamed(self, name: Name, new: str) -> list[Edit]:
        """The edits that rename a component everywhere. Raises `NotRenamed`."""
        places = self.meaning(name)
        self._refuse(name, new, places)
        if new == name.value:
            return []
        text = json.dumps(new, ensure_ascii=False)[1:-1]
        return [Edit(*place.span, text) for place in places]

    def check_renameable(self, name: Name) -> None:
        """Raise `NotRenamed` if the id cannot be renamed at all."""
        self._refuse_text(self.meaning(name))

    def _refuse(self, name: Name, new: str, places: list[Name]) -> None:
        self._refuse_text(places)
        if not new.strip():
            raise NotRenamed("An id may not be empty.")
        if "${" in new:
            raise NotRenamed("An id must be literal: variables are replaced in config alone.")
        if new.encode("utf-8", "replace").decode("utf-8") != new:
            raise NotRenamed("This id is no Unicode: it holds half of a character.")
        if new == name.value:
            return
        if new in self.written.by_id:
            raise NotRenamed(f"The id {shown(new)} is taken: every component needs its own.")
        if any(other.value == new for other in self._names):
            raise NotRenamed(f"{shown(new)} is used already, as the id of no component: renaming would connect what is not.")

    def _refuse_text(self, places: list[Name]) -> None:
        broken = next((place for place in places if not place.sound), None)
        if broken is not None:
            raise NotRenamed(f"The id {self._where(broken)} has no proper quotes: mend that first.")

    def _where(self, name: Name) -> str:
        line, column = self._analysis.map.position(name.span[0])
        return f"in line {line}, column {column}"


def _names(written: WrittenPipeline, text: str) -> Iterator[Name]:
    if written.source is not None:
        yield from _name(written.source, "source", None, text)
    for component in written.components:
        yield from _name(member(component.located, "id"), "id", component.index, text)
        for edge in component.edges:
            yield from _name(member(component.edge(edge), "from"), "from", component.index, text)
    for reference in written.references():
        if reference.kind == "node":
            yield from _name(member(reference.located, "node"), "node", reference.holder, text)


def _name(located: Located | None, use: Use, component: int | None, text: str) -> Iterator[Name]:
    if located is None or not isinstance(located.value, str) or not located.value:
        return
    start, end = located.start, located.end
    raw = text[start:end]
    sound = len(raw) > 1 and raw[0] == raw[-1] == '"'
    if sound:
        try:
            sound = json.loads(raw) == located.value
        except ValueError:
            sound = False
    quoted = raw[:1] in ('"', "'")
    closed = quoted and len(raw) > 1 and raw[-1] == raw[0]
    yield Name(located.value, use, (start + quoted, end - closed), (start, end), component, sound)
