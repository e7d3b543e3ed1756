"""A reference: which tool is meant, under which name, and how it is wrapped."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import structs

from rrext.limits import MAX_REFERENCE_CHAIN
from rrext.references.availability import Availability
from rrext.references.call_ref import DEFAULT, CallRef
from rrext.tools.names import SEPARATOR, NodeTool, joined_name
from rrext.tools.spec import ToolSpec

Kind: TypeAlias = Literal["builtin", "node", "pipeline", "mcp", "http", "composio"]
Permission: TypeAlias = Literal["allow", "ask", "deny"]
PIPELINE_TOOL: Final = "run"
"""The name of the tool that a pipeline is."""
NOTHING: Final[Mapping[str, Any]] = {}


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to one tool, or to those of a whole server. `path` is its JSON pointer.

    `integration` is the node, the token of the pipeline, the server or the integration; `action` is the tool. A builtin has
    an `action` alone: it is a tool of the pipeline at hand, by its name. Without an `action` the reference takes all tools of
    its server whose names fit a pattern of `include`, if there are any, and none of `exclude`.
    """

    path: str
    kind: Kind
    integration: str = ""
    action: str
    connection: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    given_name: str = ""
    description: str | None = None
    arguments: Mapping[str, Any] = NOTHING
    parameters: Mapping[str, Mapping[str, Any]] = NOTHING
    available: Availability | None = None
    permission: Permission = "allow"
    timeout: float | None = None

    @property
    def name(self) -> str:
        """The name under which the tool is offered, by default made of integration and action."""
        if self.kind == "builtin":
            return self.action
        return self.given_name or joined_name(self.integration, self.action)

    @property
    def call_ref(self) -> CallRef:
        """The name of the tool that is meant, as it is without this reference."""
        if self.kind in ("node", "pipeline"):
            return CallRef(self.kind, self.integration, self.action)
        return CallRef(self.kind, self.integration, self.action, self.connection or DEFAULT)

    def single(self, tools: Iterable[str]) -> Iterator[Reference]:
        """The references to one tool each that this one stands for. `tools` are the names of all tools of its server."""
        if self.action:
            yield self
            return
        for tool in tools:
            if (not self.include or _fits(tool, self.include)) and not _fits(tool, self.exclude):
                available = self.available and structs.replace(self.available, name=tool)
                yield structs.replace(self, action=tool, include=(), exclude=(), available=available)

    def offers(self, name: str) -> bool:
        """Whether a tool of this name is offered, as far as the reference says."""
        if self.action:
            return name == self.name
        head, _, tool = name.partition(self.integration + SEPARATOR)
        is_hashed = SEPARATOR in tool  # of which tool, only the server knows
        return not head and (is_hashed or any(self.single([tool])))

    @property
    def takes_all(self) -> bool:
        """Whether the reference takes all of an MCP server, for every caller: its prompts and resources, too."""
        is_whole = self.kind == "mcp" and not (self.action or self.include or self.exclude)
        return is_whole and self.permission == "allow" and self.available is None

    @property
    def is_wrapper(self) -> bool:
        """Whether a call through the reference differs from a call of the tool."""
        return bool(self.arguments or self.parameters or self.available or self.timeout or self.permission != "allow")

    def wrap(self, spec: ToolSpec) -> ToolSpec:
        """The tool as this reference offers it."""
        return spec.replace(
            name=self.name,
            description=self.description,
            arguments=self.arguments,
            parameters=self.parameters,
            available=Availability(name=self.name, is_denied=True) if self.permission == "deny" else self.available,
            timeout=self.timeout,
        )


class OfferedReferences:
    """The references of a pipeline, each with the node that offers it, by the names of the tools that they offer.

    `own` has the tools that nodes have by themselves, which come before.
    """

    def __init__(self, listed: Iterable[tuple[str, Reference]], own: Mapping[str, Container[str]]) -> None:
        self._own = own
        self.single: dict[NodeTool, Reference] = {}
        """The references to a single tool, by node id and tool name."""
        self._whole: dict[str, list[Reference]] = {}
        for node_id, reference in listed:
            if reference.kind == "builtin":
                continue  # offered by the node that has it
            if reference.action:
                self.single.setdefault((node_id, reference.name), reference)
            else:
                self._whole.setdefault(node_id, []).append(reference)

    @property
    def nodes(self) -> set[str]:
        """The ids of the nodes that offer something."""
        return {node_id for node_id, _ in self.single} | self._whole.keys()

    def find(self, node_id: str, name: str) -> Reference | None:
        """The reference with which a node offers a tool of this name, or may do so; None for a tool of its own."""
        if name in self._own.get(node_id, ()):
            return None
        whole = self._whole.get(node_id, ())
        return self.single.get((node_id, name)) or next((each for each in whole if each.offers(name)), None)

    def names(self, node_id: str) -> list[str]:
        """The names that a node offers by references to one tool."""
        return [name for owner, name in self.single if owner == node_id]

    def chain(self, reference: Reference) -> list[Reference]:
        """The reference, the one whose tool it means, and so on; empty if there are too many, as in a circle."""
        found = list(islice(self._followed(reference), MAX_REFERENCE_CHAIN + 1))
        return found if len(found) <= MAX_REFERENCE_CHAIN else []

    def is_in_circle(self, reference: Reference) -> bool:
        """Whether the references that follow each other from this one have no end."""
        return len(list(islice(self._followed(reference), len(self.single) + 2))) > len(self.single) + 1

    def _followed(self, reference: Reference) -> Iterator[Reference]:
        inner: Reference | None = reference
        while inner is not None:
            yield inner
            inner = self.find(inner.integration, inner.action) if inner.kind == "node" else None


def _fits(tool: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
