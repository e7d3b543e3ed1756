"""The references that clients have resolved, by connection: what a `call_ref` or a name means to `rrext_tools_call`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrext.limits import MAX_KEPT_REFERENCES
from rrext.references import CallRef, CallRefNames

if TYPE_CHECKING:
    from rrext.engine.tasks.route import Route
    from rrext.engine.tasks.task import Task


class KeptReferences:
    """The resolved references of one connection. The oldest is dropped when there are too many."""

    def __init__(self) -> None:
        self._names = CallRefNames()
        self._refs: dict[CallRef, tuple[Task, Route]] = {}
        self._offered: dict[str, CallRef] = {}

    def keep(self, ref: CallRef, task: Task, route: Route) -> str:
        """Keep a reference under the name that it offers and its own two names; the text of its call ref."""
        self._refs.pop(ref, None)
        self._refs[ref] = task, route
        self._offered[route.spec.name] = ref
        if len(self._refs) > MAX_KEPT_REFERENCES:
            self._drop(next(iter(self._refs)))
        return self._names.add(ref)[0]

    def find(self, name: str, *, offered: bool) -> tuple[Task, Route] | None:
        """The tool of a call ref or of a function name, or of an offered name if that may be meant."""
        ref = self._offered.get(name) if offered else None
        found = self._refs.get(ref or self._names.find(name))  # pyright: ignore[reportArgumentType, reportCallIssue]
        return None if found is None or found[0].stopping else found

    def forget(self, task: Task) -> None:
        """Drop the tools of a pipeline that has ended."""
        for ref in [ref for ref, (kept, _) in self._refs.items() if kept is task]:
            self._drop(ref)

    def _drop(self, ref: CallRef) -> None:
        _, route = self._refs.pop(ref)
        self._names.discard(ref)
        if self._offered.get(route.spec.name) == ref:
            del self._offered[route.spec.name]

    @property
    def call_refs(self) -> list[str]:
        """The texts of all call refs that are kept."""
        return [self._names.add(ref)[0] for ref in self._refs]

    def __len__(self) -> int:
        return len(self._refs)
