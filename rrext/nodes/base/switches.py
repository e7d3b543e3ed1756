"""Switches in a node's settings that make a tool available."""

from __future__ import annotations

from typing import Any

from rrext.errors import Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext


class Switch:
    """An availability rule: a switch in the node's settings is on.

    `refusal` is the first sentence of the error for a tool that is off, if the switch has its own; `missing` names the
    setting to change. `instead` names another tool of the node, which serves some of these calls; `otherwise`
    is a sentence about these calls.
    """

    by_settings = True
    """The settings alone decide, so that the engine need not check each call."""

    def __init__(self, switch: str, *, refusal: str | None = None, instead: str | None = None, otherwise: str = "") -> None:
        self.switch = switch
        self.refusal = refusal
        self.instead = instead
        set_it = f'The operator of this pipeline has to set "{switch}": true in the settings of the node.'
        self.missing = f"{otherwise} {set_it}".lstrip()

    def __call__(self, node: Any, ctx: ToolContext | None) -> bool:
        return node is not None and getattr(node.config, self.switch)

    def require(self, node: Node, tool: str) -> None:
        """Raise `Unavailable` if the switch is off."""
        if not self(node, None):
            message = self.refusal or f'"{tool}" of node "{node.node_id}" is off: "{self.switch}" is not set'
            raise Unavailable(message, hint=self.missing)
