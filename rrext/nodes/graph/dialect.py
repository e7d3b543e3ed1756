"""`CypherDialect`, the properties of one database's Cypher, and the words that a read-only statement may use.

The gate refuses all other words.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.nodes.databases.word_lists import words, words_of

WRITING: Final = words("""
    CREATE INSERT MERGE SET DELETE DETACH NODETACH REMOVE DROP FOREACH LOAD COPY TRANSACTIONS
""")
"""Words that are refused wherever they could be a clause, even where the gate reads them as a name."""

CLAUSES: Final = words("""
    MATCH OPTIONAL WHERE WITH UNWIND RETURN ORDER SKIP OFFSET LIMIT UNION CALL YIELD LET FILTER FINISH NEXT
""")
"""Words that begin a clause."""

AFTER_OPERAND: Final = CLAUSES | words("""
    AND OR XOR NOT IN IS STARTS ENDS CONTAINS AS ASC ASCENDING DESC DESCENDING WHEN THEN ELSE END BY PATH PATHS
    GROUP GROUPS FROM TYPED NFC NFD NFKC NFKD HINT JOIN MULTI_JOIN
""")
"""Words that may follow a complete expression or pattern."""

TYPES: Final = words("""
    BOOLEAN BOOL STRING TEXT VARCHAR INTEGER INT FLOAT DOUBLE INT8 INT16 INT32 INT64 INT128 UINT8 UINT16 UINT32 UINT64
    UINT128 SERIAL DECIMAL BLOB UUID DATE TIME DATETIME TIMESTAMP TIMESTAMP_NS TIMESTAMP_MS TIMESTAMP_SEC TIMESTAMP_TZ
    INTERVAL DURATION ZONED LOCAL WITHOUT TIMEZONE ZONE POINT NODE VERTEX RELATIONSHIP EDGE PATH MAP LIST ARRAY STRUCT
    UNION VALUE ANY NOTHING NORMALIZED JSON VECTOR
""") - {"UNION", "PATH"}
"""Words after other words in the name of a type, or after the name of a field."""

HINTS: Final = words("""
    INDEX SEEK SCAN JOIN ON TEXT RANGE POINT BTREE
""")
"""Words of a hint, after USING."""

SHOWN_KINDS: Final = words("""
    INDEX INDEXES CONSTRAINT CONSTRAINTS PROCEDURE PROCEDURES FUNCTION FUNCTIONS DATABASE DATABASES
""")
"""Objects that SHOW may list: the graph's content, and none of its users, settings and transactions."""

SHOWN: Final = SHOWN_KINDS | words("""
    ALL FULLTEXT TEXT POINT RANGE VECTOR TOKEN LOOKUP BTREE BRIEF VERBOSE OUTPUT UNIQUE UNIQUENESS NODE RELATIONSHIP REL
    PROPERTY EXIST EXISTS EXISTENCE KEY TYPE BUILT IN USER DEFINED EXECUTABLE BY CURRENT HOME DEFAULT
""")
"""Words between SHOW and its next part."""

OPERANDS: Final = words("""
    NULL TRUE FALSE END ASC ASCENDING DESC DESCENDING
""")
"""Words that are a complete expression themselves, or complete one."""

PATH_MODES: Final = words("""
    SHORTEST WSHORTEST TRAIL ACYCLIC WALK REPEATABLE DIFFERENT ELEMENT ELEMENTS RELATIONSHIPS
""")
"""Words before a pattern or a quantifier that select the matching paths."""

FUNCTIONS: Final = words_of(__file__, "functions.txt")
"""Functions of every dialect that only compute. None reads a file, reaches a network or advances a sequence."""


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
