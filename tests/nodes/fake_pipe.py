"""A node object as the engine makes it, in a pipe that only writes down what the node sends on."""

from __future__ import annotations

from typing import Any, TypeVar

from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext

N = TypeVar("N", bound=Node)


class Sent:
    """Takes the place of the engine's link: `payloads` lists (lane, value)."""

    def __init__(self) -> None:
        self.payloads: list[tuple[str, Any]] = []

    def emit(self, lane: str, value: Any) -> None:
        self.payloads.append((lane, value))


def made(cls: type[N], node_id: str = "node_1", **settings: Any) -> N:
    """A node object with its settings in place before `__init__` runs; each setting must be one that the class knows."""
    node = cls.__new__(cls)
    node.node_id = node_id
    config_class: Any = cls.Config
    config = config_class()
    for name, value in settings.items():
        assert hasattr(config_class, name), f"{cls.__name__} has no setting {name}"
        setattr(config, name, value)
    node.config = config
    node.__init__()
    return node


def sending(node: Node) -> list[tuple[str, Any]]:
    """Put the node into a fake pipe; the list fills with what it sends on."""
    sent = Sent()
    node._link = sent
    return sent.payloads


def context() -> ToolContext:
    """The context of a call of its own."""
    return ToolContext(node_id="node_1")
