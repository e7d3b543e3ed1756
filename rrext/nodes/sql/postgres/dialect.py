"""The SQL dialect of PostgreSQL, for the gate.

The list of allowed functions started from those that the catalog of PostgreSQL marks immutable or stable. Others of the
connected server are taken from its own catalog (`backend.FUNCTIONS`); the list has those of extensions, and volatile ones
that only look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.sql.dialect import (
    BLOCK,
    DOLLARS,
    KEYWORDS,
    LINE,
    LIST,
    NUMBERED,
    PLAIN_NUMBER,
    PLAIN_WORD,
    POSTGRES_LITERALS,
    QUERIES,
    SIGN,
    SPACES,
    STRAIGHT,
    TORN,
    SqlDialect,
    SqlToken,
    opening,
)

_KEYWORDS: Final = words("""
bernoulli bpchar columns empty explain keep materialized nested omit only ordinality passing path placing repeatable returning
tablesample unconditional conditional varbit xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
xmlroot xmlserialize xmltable json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
json_serialize json_table json_value collation second system
""")

_FUNCTIONS: Final = words_of(__file__, "functions.txt")

_ATTRIBUTES: Final = words_of(__file__, "attributes.txt")
"""PostgreSQL reads `x.f` as `f(x)` if `x` has no column `f`: names that are refused after a dot, beside `dblink…` and
unknown ones as `pg_…`. The names are those of functions that do more than compute; the catalog of PostgreSQL marks
some of these functions as harmless. Columns hardly ever have such names."""


def _shows(tokens: Sequence[SqlToken]) -> bool:
    first, second = opening(tokens)
    return first == "show" and bool(second)


POSTGRES: Final = SqlDialect(
    name="postgres",
    patterns=(
        SPACES, LIST, PLAIN_NUMBER, NUMBERED, TORN, LINE, BLOCK, r"(?P<escaped>[eE]')", r"(?P<unicode>[uU]&[\"'])", PLAIN_WORD,
        STRAIGHT, r'(?P<name>")', DOLLARS, SIGN,
    ),
    literals=POSTGRES_LITERALS,
    queries=QUERIES | {"table"},
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    own_schemas=frozenset({"pg_catalog", "information_schema", "public"}),
    exact_quotes=True,
    attributes=_ATTRIBUTES,
    shows=_shows,
    nested_comments=True,
)  # fmt: skip
