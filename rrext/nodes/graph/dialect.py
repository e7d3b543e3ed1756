"""`CypherDialect`: the record of all that the gate knows about the Cypher of one kind of database."""

from __future__ import annotations

import msgspec

from rrext.nodes.graph.vocabulary import FUNCTIONS


class CypherDialect(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One dialect of Cypher, made once by the module of its database. Names are in small letters."""

    name: str
    """The answer of the tool `dialect`."""
    procedures: frozenset[str]
    """Procedures that only tell what the graph holds."""
    functions: frozenset[str] = FUNCTIONS
    """Functions that only compute."""
    options: bool = False
    """Whether `CYPHER 25 runtime=slotted` may stand before a statement."""
    shows: bool = False
    """Whether there is SHOW."""
    logical_plans: bool = False
    """Whether there is EXPLAIN LOGICAL."""
