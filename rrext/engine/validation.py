"""All that can be wrong with a pipeline document, found in one go; and the pipeline itself if nothing is."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rrext.engine.catalog import Catalog
from rrext.engine.config import Configuring
from rrext.engine.edges import EdgeCheck
from rrext.engine.plugins import PluginError
from rrext.engine.pointer import below
from rrext.engine.problems import NearNames, Problems, Severity, shown
from rrext.engine.shape import Draft, ShapeReader
from rrext.engine.spec import Component, PipelineSpec
from rrext.engine.whole import WholeCheck, choose_source
from rrext.errors import ProviderNotFound, Unavailable
from rrext.limits import Limits

__all__ = ["Outline", "Validation"]


class Outline(msgspec.Struct, frozen=True):
    """What could be made out of a document, right or wrong: for editors, and for `rrext_validate`."""

    components: tuple[Draft, ...] = ()
    source: str = ""
    chain: tuple[str, ...] = ()


class Validation:
    """One look at one document, whose variables are resolved. `base` is the pointer at which it stands.

    An unknown provider has the severity `unknown`: where no code of others may be loaded, it is no mistake.
    """

    __slots__ = ("_base", "_catalog", "_limits", "_near", "_problems", "_unknown", "outline")

    def __init__(
        self, catalog: Catalog, problems: Problems, limits: Limits, *, base: str = "", unknown: Severity = "error"
    ) -> None:
        self._catalog = catalog
        self._problems = problems
        self._limits = limits
        self._near = NearNames()
        self._base = base
        self._unknown: Severity = unknown
        self.outline = Outline()

    def run(self, document: Mapping[str, Any], source: str | None = None) -> PipelineSpec | None:
        """Report every problem; the pipeline if there is no error among them. `source` replaces the document's own."""
        drafts = ShapeReader(self._base, self._problems, self._near).root(document, self._limits)
        for draft in drafts:
            self._provider(draft)
            self._configure(draft)
        edges = EdgeCheck(drafts, self._problems, self._near)
        edges.run()
        named = source if source is not None else document.get("source")
        named = named if isinstance(named, str) else ""
        start = choose_source(named, drafts, edges.by_id, self._base, self._problems, self._near)
        chain: tuple[str, ...] = ()
        if start is not None and start.id:
            whole = WholeCheck(start, drafts, edges, self._problems)
            whole.run()
            chain = whole.chain
        self.outline = Outline(tuple(drafts), start.id if start is not None else "", chain)
        if self._problems.errors or start is None or any(draft.node is None for draft in drafts):
            return None  # a node that is not known here may be no error, but cannot run
        return self._spec(document, drafts, start.id, chain)

    def _provider(self, draft: Draft) -> None:
        if not draft.provider:
            return
        path = below(draft.path, "provider")
        try:
            draft.node = self._catalog.class_of(draft.provider)
        except ProviderNotFound:
            near = self._near.of(draft.provider, self._catalog.names())
            message = f"There is no node {shown(draft.provider)}."
            self._problems.add("unknown_provider", message, path, near=near, severity=self._unknown)
        except (Unavailable, PluginError) as error:
            self._problems.add("provider_unavailable", error.message, path)

    def _configure(self, draft: Draft) -> None:
        node = draft.node
        if node is None:
            draft.settings = draft.config
            return
        path = below(draft.path, "config")
        try:
            settings = self._catalog.settings_of(node)
        except PluginError as error:
            self._problems.add("provider_unavailable", error.message, below(draft.path, "provider"))
            return
        configuring = Configuring(node, draft.provider, settings, path, self._problems, self._near)
        draft.settings = configuring.run(draft.config)

    def _spec(self, document: Mapping[str, Any], drafts: Sequence[Draft], source: str, chain: tuple[str, ...]) -> PipelineSpec:
        return PipelineSpec(
            source=source,
            components=tuple(component_of(draft) for draft in drafts if draft.node is not None),
            chain=chain,
            project_id=document.get("project_id") or str(uuid.uuid4()),
            name=document.get("name") or "",
            description=document.get("description") or "",
            version=document.get("version") or 1,
        )


def component_of(draft: Draft) -> Component:
    """A component in which nothing is wrong."""
    assert draft.node is not None
    return Component(
        id=draft.id,
        provider=draft.provider,
        node_class=draft.node,
        config=draft.config,
        settings=draft.settings,
        inputs=draft.inputs,
        controls=draft.controls,
        name=draft.name,
        description=draft.description,
        index=draft.index,
    )
