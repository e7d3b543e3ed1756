"""What the gate knows of each dialect, beside its functions: how reading statements begin, and words before a bracket."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["RULES", "Rules", "words"]


def words(text: str) -> frozenset[str]:
    """The words of a text, for lists that are easier to read so."""
    return frozenset(text.split())


class Rules(msgspec.Struct, frozen=True):
    """The words of one dialect, in small letters."""

    queries: frozenset[str]
    """How a query begins, beside a bracket."""
    no_calls: frozenset[str]
    """Words that stand before a bracket and call nothing: keywords, and types with a length."""
    own_schemas: frozenset[str] | None
    """Schemas in which a known function is the system's own; None: a function has its name in every schema."""
    exact_quotes: bool = False
    """Whether a quoted name is another one if its letters are large."""


_QUERIES: Final = frozenset({"select", "with", "values"})

_STANDARD: Final = """
all and any array as asc between by case cast check collate cross cube day desc distinct else end escape except exists extract
fetch filter first following for from full group grouping having if ilike in inner intersect interval is isnull join last
lateral left like limit local minus natural next not notnull null nulls of offset on only operator or order outer over overlay
partition position preceding qualify range recursive right rollup row rows select separator set sets similar some substring
symmetric table then to treat trim try_cast unbounded union unique unnest using value values variadic when where window with
within without zone
bigint binary bit blob bool boolean char character clob date datetime dec decimal double enum fixed float float4 float8 int
int2 int4 int8 integer long mediumint national nchar number numeric nvarchar precision real signed smallint text time
timestamp timestamptz timetz tinyint unsigned varbinary varchar varying year
"""

_POSTGRES: Final = """
bernoulli bpchar columns empty explain keep materialized nested omit only ordinality passing path placing repeatable returning
tablesample unconditional conditional varbit xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
xmlroot xmlserialize xmltable json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
json_serialize json_table json_value collation system
"""

_DUCKDB: Final = """
anti asof at bernoulli
explain key bitstring columns exclude ignore include lambda map materialized pivot positional rename replace
repeatable reservoir respect sample semi struct summarize system tablesample try union unpivot usmallint
"""

_MYSQL: Final = """
against columns convert default distinctrow div force ignore index json_table key keys mediumtext match mod path partitions
persistent regexp returning rlike sounds straight_join use xor system_time nested partition recursive
"""

RULES: Final = {
    "sqlite": Rules(_QUERIES | {"pragma"}, frozenset(), None),
    "duckdb": Rules(_QUERIES | {"from", "table", "pivot", "unpivot"}, words(_STANDARD) | words(_DUCKDB), None),
    "postgres": Rules(
        _QUERIES | {"table"},
        words(_STANDARD) | words(_POSTGRES),
        frozenset({"pg_catalog", "public"}),
        exact_quotes=True,
    ),
    "mysql": Rules(_QUERIES | {"table"}, words(_STANDARD) | words(_MYSQL), frozenset()),
}
"""Dialect → its words."""
