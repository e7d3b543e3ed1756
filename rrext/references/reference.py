"""A reference: which tool is meant, under which name, and how it is wrapped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.references.availability import Availability
from rrext.references.call_ref import DEFAULT, CallRef
from rrext.tools.names import joined_name
from rrext.tools.spec import ToolSpec

Kind: TypeAlias = Literal["builtin", "node", "pipeline", "mcp", "http", "composio"]
Permission: TypeAlias = Literal["allow", "ask", "deny"]
PIPELINE_TOOL: Final = "run"
"""The name of the tool that a pipeline is."""
NOTHING: Final[Mapping[str, Any]] = {}


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to one tool. `path` is its JSON pointer.

    `integration` is the node, the token of the pipeline, the server or the integration; `action` is the tool. A builtin has
    an `action` alone: it is a tool of the pipeline at hand, by its name.
    """

    path: str
    kind: Kind
    integration: str = ""
    action: str
    connection: str = ""
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
