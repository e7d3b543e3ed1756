"""A pipeline as data: its components, their edges and settings, and the order in which tools are searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from rrext.nodes.base.node import Node
from rrext.pipefile.text.problems import Related, below
from rrext.references import OfferedReferences, Reference

if TYPE_CHECKING:
    from rrext.pipefile.catalog.foreign_nodes import ForeignNode

EdgeKind: TypeAlias = Literal["input", "control"]
"""The key of a component under which edges stand."""


class DataEdge(msgspec.Struct, frozen=True, gc=False):
    """A data edge: payloads of `source_id` on `lane` go to the component that holds the edge."""

    lane: str
    source_id: str
    index: int = 0
    """Where the edge stands in the component's `input`."""


class ControlEdge(msgspec.Struct, frozen=True, gc=False):
    """`source_id` may invoke the component that holds the edge, as one of this class type."""

    class_type: str
    source_id: str
    index: int = 0
    """Where the edge stands in the component's `control`."""
    references: tuple[Reference, ...] = ()
    """The tools of the component that the invoker has under names of its own."""


class ComponentSpec(msgspec.Struct, eq=False, gc=False):
    """One component of a pipeline, as far as it can be read. An unusable `id` or `provider` is empty.

    `config` is the file's config with variables resolved. `settings` becomes `node.config`: an instance of the node's
    `Config`, or the effective settings as a dict if the node has no `Config`. `foreign` is what is known of a node of
    RocketRide's that rrext does not have. `broken` says that an edge or the provider is wrong, so that checks of the node's
    input are skipped. `missing` says why the component is unavailable, if the rest of the pipeline is loaded without it.
    """

    index: int = 0
    path: str = ""
    id: str = ""
    provider: str = ""
    node: type[Node] | None = None
    foreign: ForeignNode | None = None
    config: dict[str, Any] = {}
    settings: Any = None
    inputs: tuple[DataEdge, ...] = ()
    controls: tuple[ControlEdge, ...] = ()
    name: str = ""
    description: str = ""
    broken: bool = False
    missing: str = ""
    edge_tools: dict[int, Any] = {}
    """The lists of references on control edges, by the place of the edge, as they are written."""
    references: tuple[Reference, ...] = ()
    """The tools that the component has by its config."""

    @property
    def section(self) -> str:
        """The pointer of the object with its settings: the config, or the section of its profile."""
        config, profile = below(self.path, "config"), self.config.get("profile")
        return below(config, profile) if isinstance(profile, str) and isinstance(self.config.get(profile), dict) else config

    @property
    def node_class(self) -> type[Node]:
        """The class of its node; `Node` itself if that is missing."""
        return self.node or Node

    def edges(self, kind: EdgeKind) -> list[tuple[str, DataEdge | ControlEdge]]:
        """Its edges of a kind, each with its lane or class type."""
        if kind == "input":
            return [(edge.lane, edge) for edge in self.inputs]
        return [(edge.class_type, edge) for edge in self.controls]

    def here(self, message: str) -> Related:
        """Make the place of this component for a problem that is related to it."""
        return Related(below(self.path, "id"), message)

    def __repr__(self) -> str:
        return f"<ComponentSpec {self.id or self.index} {self.provider}>"  # settings may hold secrets


class PipelineSpec(msgspec.Struct, frozen=True):
    """A pipeline that can be run. `chain` has the ids of the components in chain order, without the source.

    A pipeline with several sources, of which none is chosen, has an empty `source`; `chains` maps each of them to its own
    chain, and `chain` has all their components. A pipeline that was loaded in part may have no source at all.
    """

    source: str
    components: tuple[ComponentSpec, ...]
    chain: tuple[str, ...]
    project_id: str
    name: str = ""
    description: str = ""
    version: int = 1
    chains: Mapping[str, tuple[str, ...]] = {}

    def component(self, node_id: str) -> ComponentSpec:
        """The component of an id. Raises `KeyError`."""
        for component in self.components:
            if component.id == node_id:
                return component
        raise KeyError(node_id)

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of the sources at which objects may enter."""
        return (self.source,) if self.source else tuple(self.chains)

    def beginning_at(self, source: str) -> PipelineSpec:
        """Choose one of the sources."""
        return self if source == self.source else replace(self, source=source, chain=self.chains[source], chains={})


def offered_references(components: Iterable[ComponentSpec]) -> OfferedReferences:
    """The tools that nodes offer by references; of two components with one id, calls reach the first."""
    components = tuple(components)
    own = {part.id: part.node_class.tools for part in reversed(components)}
    return OfferedReferences(listed_references(components), own)


def listed_references(components: Iterable[ComponentSpec]) -> list[tuple[str, Reference]]:
    """Each reference with the node that offers it: those of the configs first, then those of control edges."""
    components = tuple(components)
    return [
        *((part.id, each) for part in components for each in part.references),
        *((edge.source_id, each) for part in components for edge in part.controls for each in edge.references),
    ]
