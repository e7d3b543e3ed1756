"""`ToolSource`: shared state of a node whose tools are not those of its class, but known after `setup`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rrext.tools.spec import ToolSpec


class ToolSource(Protocol):
    """The shared state of a class with `has_dynamic_tools`. Its methods are called on the loop's thread."""

    prefix: str
    """What a caller may write before the name of a tool, as `connection.`; empty for nothing."""

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, now. A tool that did not change keeps its `ToolSpec`."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop's thread after each change of the tools."""
        ...
