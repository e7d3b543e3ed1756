"""The check of a whole pipeline document: all its problems, or the pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.pipefile.edges import EdgeCheck
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.reachability import ReachabilityCheck, choose_sources
from rrext.pipefile.reference_check import ReferenceCheck
from rrext.pipefile.shape import report_same_ids
from rrext.pipefile.spec import ComponentSpec, PipelineSpec, offered_references
from rrext.pipefile.text.problems import Problems

if TYPE_CHECKING:
    from rrext.references import KnownConnection


class PipelineOutline(msgspec.Struct, frozen=True):
    """The readable parts of a document, right or wrong: for editors, and for `rrext_validate`.

    `source` is empty if none is chosen among several `sources`.
    """

    components: tuple[ComponentSpec, ...] = ()
    source: str = ""
    chain: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def validated(
    document: Mapping[str, Any],
    drafts: Sequence[ComponentSpec],
    base: str,
    problems: Problems,
    near: NearNames,
    *,
    source: str | None,
    connections: Sequence[KnownConnection] | None = None,
    pause: Callable[[], None],
) -> tuple[PipelineOutline, PipelineSpec | None]:
    """Report every problem of the document at `base`; its readable parts, and the pipeline if there is no error.

    `source` replaces the document's own. `pause` is called between the steps; its exception ends the check.
    """
    report_same_ids(drafts, problems)
    pause()
    offered = offered_references(drafts)
    edges = EdgeCheck(drafts, problems, near, offered)
    edges.run()
    ReferenceCheck(drafts, edges.by_id, connections, problems, near, offered).run()
    named = source if source is not None else document.get("source")
    named = named if isinstance(named, str) else ""
    starts = choose_sources(named, drafts, edges.by_id, base, problems, near)
    pause()
    whole = ReachabilityCheck(starts, drafts, edges, problems)
    whole.run()
    chosen = starts[0].id if len(starts) == 1 else ""
    outline = PipelineOutline(tuple(drafts), chosen, whole.chain, tuple(whole.chains))
    if problems.errors or any(draft.node is None and not draft.missing for draft in drafts):
        return outline, None  # a node that is not known here may be no error, but cannot run
    return outline, PipelineSpec(
        source=chosen,
        components=tuple(drafts),
        chain=whole.chain if whole.chains else whole.chain_without_source(),
        project_id=document.get("project_id") or str(uuid.uuid4()),
        name=document.get("name") or "",
        description=document.get("description") or "",
        version=document.get("version") or 1,
        chains={} if chosen else whole.chains,
    )
