"""The nodes of a catalog for offers and fixes: each loaded once, unusable ones with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rrext.errors import RrextError
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.tools.spec import ToolSpec


class KnownNode(msgspec.Struct, frozen=True):
    """A provider. `node` is None if its code cannot be imported; then `reason` says why."""

    name: str
    node: type[Node] | None
    aliases: tuple[str, ...] = ()
    reason: str = ""

    @property
    def title(self) -> str:
        """The name for people."""
        return (self.node.title if self.node is not None else "") or self.name

    @property
    def is_source(self) -> bool:
        """Whether pipelines begin at this node."""
        return self.node is not None and self.node.is_source()


class KnownNodes:
    """The nodes of a catalog. Listing them imports the code of every node, which may take long the first time.

    An exception of that code only makes the node unusable. One thread at a time may use this object.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._entries: tuple[KnownNode, ...] | None = None
        self._by_name: dict[str, KnownNode | None] = {}
        self._schemas: dict[type[Node], Mapping[str, Any] | None] = {}

    def entries(self) -> tuple[KnownNode, ...]:
        """All providers, by name."""
        if self._entries is None:
            found = (self.entry(name) for name in self.catalog.names())
            self._entries = tuple(entry for entry in found if entry is not None)
        return self._entries

    def entry(self, provider: str) -> KnownNode | None:
        """The node of a provider name or alias; None if the catalog does not know it."""
        if provider not in self._by_name:
            self._by_name[provider] = self._find(provider)
        return self._by_name[provider]

    def node(self, provider: str) -> type[Node] | None:
        """The class of a provider, if it is usable."""
        entry = self.entry(provider) if provider else None
        return None if entry is None else entry.node

    def schema(self, node: type[Node]) -> Mapping[str, Any] | None:
        """The JSON Schema of a node's settings; None if the node takes any, or if they cannot be described."""
        if node not in self._schemas:
            try:
                settings = self.catalog.settings_of(node)
            except (Exception, SystemExit):  # annotations are code of node authors
                settings = None
            self._schemas[node] = None if settings is None else settings.schema
        return self._schemas[node]

    def _find(self, provider: str) -> KnownNode | None:
        try:
            node = self.catalog.class_of(provider)
        except RrextError as error:
            known = provider in self.catalog.names()
            return KnownNode(provider, None, reason=error.message) if known else None
        except (Exception, SystemExit) as error:  # an import runs code of node authors
            return KnownNode(provider, None, reason=f"{type(error).__name__}: {error}")
        return KnownNode(node.provider, node, self.catalog.aliases_of(node.provider))


def input_schema(spec: ToolSpec) -> Mapping[str, Any] | None:
    """The schema of a tool's input; None if it needs a node object, or if it is broken."""
    if not spec.static:
        return None
    try:
        return spec.describe(None)["inputSchema"]
    except (Exception, SystemExit):  # descriptions are code of node authors
        return None
