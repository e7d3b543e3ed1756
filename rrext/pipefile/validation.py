"""The check of a whole pipeline document: all its problems, or the pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rrext.pipefile.edges import EdgeCheck
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.reachability import ReachabilityCheck, choose_sources
from rrext.pipefile.reference_check import ReferenceCheck
from rrext.pipefile.shape import report_same_ids
from rrext.pipefile.spec import ComponentSpec, PipelineSpec
from rrext.pipefile.text.problems import Problems


class PipelineOutline(msgspec.Struct, frozen=True):
    """The readable parts of a document, right or wrong: for editors, and for `rrext_validate`.

    `source` is empty if none is chosen among several `sources`.
    """

    components: tuple[ComponentSpec, ...] = ()
    source: str = ""
    chain: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Validation:
    """Checks the document at `base` as a whole, after its components were read.

    `pause` is called between the steps; its exception ends the check.
    """

    def __init__(self, problems: Problems, near: NearNames, *, base: str = "", pause: Callable[[], None]) -> None:
        self._problems = problems
        self._near = near
        self._base = base
        self._pause = pause
        self.outline = PipelineOutline()

    def run(
        self, document: Mapping[str, Any], drafts: Sequence[ComponentSpec], source: str | None = None
    ) -> PipelineSpec | None:
        """Report every problem; the pipeline if there is no error among them. `source` replaces the document's own."""
        report_same_ids(drafts, self._problems)
        self._pause()
        edges = EdgeCheck(drafts, self._problems, self._near)
        edges.run()
        ReferenceCheck(drafts, edges.by_id, self._problems, self._near).run()
        named = source if source is not None else document.get("source")
        named = named if isinstance(named, str) else ""
        starts = choose_sources(named, drafts, edges.by_id, self._base, self._problems, self._near)
        self._pause()
        whole = ReachabilityCheck(starts, drafts, edges, self._problems)
        whole.run()
        source = starts[0].id if len(starts) == 1 else ""
        self.outline = PipelineOutline(tuple(drafts), source, whole.chain, tuple(whole.chains))
        if self._problems.errors or any(draft.node is None and not draft.missing for draft in drafts):
            return None  # a node that is not known here may be no error, but cannot run
        return self._spec(document, drafts, whole, source)

    def _spec(
        self, document: Mapping[str, Any], drafts: Sequence[ComponentSpec], whole: ReachabilityCheck, source: str
    ) -> PipelineSpec:
        return PipelineSpec(
            source=source,
            components=tuple(drafts),
            chain=whole.chain if whole.chains else whole.chain_without_source(),
            project_id=document.get("project_id") or str(uuid.uuid4()),
            name=document.get("name") or "",
            description=document.get("description") or "",
            version=document.get("version") or 1,
            chains={} if source else whole.chains,
        )
