"""`CypherDialect`: the properties of one database's Cypher, for the gate."""

from __future__ import annotations

import msgspec

from rrext.nodes.graph.vocabulary import FUNCTIONS


class CypherDialect(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One dialect of Cypher, made once by the module of its database. Names are in small letters."""

    name: str
    """The answer of the tool `dialect`."""
    procedures: frozenset[str]
    """Procedures that only report the content of the graph."""
    functions: frozenset[str] = FUNCTIONS
    """Functions that only compute."""
    options: bool = False
    """Whether `CYPHER 25 runtime=slotted` may stand before a statement."""
    shows: bool = False
    """Whether the dialect has SHOW."""
    logical_plans: bool = False
    """Whether the dialect has EXPLAIN LOGICAL."""
