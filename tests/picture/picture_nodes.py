"""Nodes as agents use them, so that a pipeline with an agent has nothing wrong with it."""

from __future__ import annotations

from rrext import Node, tool_function
from rrext.pipefile.catalog.catalog import Catalog

__all__ = ["catalog"]


class Model(Node):
    """A language model."""

    provider = "llm_hosted"
    lanes = {"questions": ("answers",)}
    class_types = ("llm",)


class Database(Node):
    """A database that asks a model."""

    provider = "db_internal"
    invoke = {"llm": {"min": 1}}

    @tool_function
    def execute(self, sql: str) -> None:
        """Run a statement."""


def catalog() -> Catalog:
    """The built-in nodes and these."""
    found = Catalog()
    for node in (Model, Database):
        found.add(node)
    return found
