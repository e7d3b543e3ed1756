"""What a syntax tree may hold if its statement is only to read. What is not named here is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.sql.catalog import catalog_statement, explain_prefix
from rrext.nodes.sql.comparisons import check_comparisons
from rrext.nodes.sql.functions import ATTRIBUTES_REFUSED
from rrext.nodes.sql.grammar import Grammar, plain
from rrext.nodes.sql.placeholders import spaced_placeholders
from rrext.nodes.sql.statement import Statement

if TYPE_CHECKING:
    from sqlglot.expressions.core import Expr
    from sqlglot.tokenizer_core import Token

__all__ = ["Inspection", "refusal"]

_QUERIES: Final = frozenset(("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("))
"""How a query begins; in DuckDB also with PIVOT and UNPIVOT."""

_NODES: Final = """
    Select From Join Where Group Having Order Ordered Limit LimitOptions Offset Fetch Distinct Window WindowSpec Qualify
    Union Intersect Except RecursiveWithSearch Explode Subquery Table TableAlias TableSample CTE With Values Tuple Lateral
    Unnest Cube Rollup GroupingSets Pivot PivotAlias PivotAny UnpivotColumns Star Column Identifier Alias Aliases Dot
    Literal Null Boolean Paren Parameter Var RawString Heredoc Introducer IndexTableHint Add Sub Mul Div IntDiv Mod And Or
    Xor Not Neg BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift EQ NEQ GT GTE LT LTE
    NullSafeEQ NullSafeNEQ Is Like ILike SimilarTo Glob RegexpLike RegexpILike RegexpFullMatch Between In Exists Any All
    Escape DPipe Collate Operator Overlaps Adjacent ExtendsLeft ExtendsRight Pow ArrayContainsAll ArrayContainedBy
    ArrayOverlaps ArrayContains Distance DistanceNd Slice Bracket Array List Struct Map ToMap Lambda Comprehension Kwarg
    Variadic Match MatchAgainst StartsWith Opclass Sqrt Cbrt Factorial Abs JSONExtract JSONExtractScalar JSONBExtract
    JSONBExtractScalar JSONBContains JSONBContainedBy JSONBContainsAnyTopKeys JSONBContainsAllTopKeys JSONBDeleteAtPath
    JSONBPathExists JSONBPathMatch JSONBContainsTopKey JSONPath JSONPathFilter JSONPathKey JSONPathRecursive JSONPathRoot
    JSONPathScript JSONPathSelector JSONPathSlice JSONPathSubscript JSONPathUnion JSONPathWildcard JSONArrayContains Cast
    TryCast JSONCast Case If Extract Trim Substring StrPosition Overlay GroupConcat Normalize JSONObject JSONKeyValue
    JSONObjectAgg JSONTable JSONSchema JSONColumnDef JSONValue OnCondition FormatJson XMLElement XMLTable XMLNamespace
    Interval IntervalSpan AtTimeZone DataType DataTypeParam PseudoType ObjectIdentifier ColumnDef CharacterSet Chr
    WeightString CurrentDate CurrentTime CurrentTimestamp CurrentDatetime CurrentUser CurrentRole CurrentCatalog
    CurrentSchema SessionUser Localtime Localtimestamp UtcDate UtcTime UtcTimestamp Anonymous Filter WithinGroup IgnoreNulls
    RespectNulls HavingMax JSON
"""
"""Node types of sqlglot that only read, in every dialect."""

_MORE: Final = {
    "sqlite": "",
    "duckdb": "PropertyEQ PositionalColumn Columns PercentileCont PercentileDisc",
    "postgres": "PropertyEQ Concat",
    "mysql": "SessionParameter Values Concat",
}
"""Node types that only read in one dialect: `:=` names an argument here, and assigns a variable in MySQL."""

_WHY: Final = {
    "Into": "SELECT … INTO writes",
    "Lock": "FOR UPDATE and FOR SHARE take locks",
    "Insert": "INSERT writes",
    "Update": "UPDATE writes",
    "Delete": "DELETE writes",
    "Merge": "MERGE writes",
    "Create": "CREATE changes the database",
    "Drop": "DROP changes the database",
    "PropertyEQ": ":= assigns a variable",
    "NextValueFor": "NEXT VALUE FOR moves a sequence on",
}

_FILE: Final = re.compile(r"[/\\*?:]|\.\w+$")
"""How a name looks that DuckDB would take for a file: with a folder, a pattern, a protocol or an ending."""


def refusal(what: str, *, hint: str | None = None, **data: Any) -> ToolError:
    """The statement is none that only reads, for this reason."""
    return ToolError(f"The statement may do more than read: {what}", code="not_read_only", hint=hint, data=data or None)


class Inspection:
    """The rules of one dialect."""

    __slots__ = ("_functions", "_names", "_nodes", "_patterns", "_queries", "dialect")

    def __init__(self, dialect: str, functions: Iterable[str], allowed: Iterable[str]) -> None:
        from sqlglot import expressions

        self.dialect = dialect
        self._names = (expressions.Identifier, expressions.Var)
        self._functions = frozenset(functions)
        self._queries = _QUERIES | {"PIVOT", "UNPIVOT"} if dialect == "duckdb" else _QUERIES
        self._patterns = tuple(pattern.lower() for pattern in allowed)
        names = f"{_NODES} {_MORE[dialect]}".split()
        self._nodes: frozenset[type[Expr]] = frozenset(
            found for name in names if (found := getattr(expressions, name, None)) is not None
        )

    def statement(self, grammar: Grammar, sql: str) -> Statement:
        """The statement to send. Raises as `Gate.read_only` says."""
        sql = spaced_placeholders(sql, self.dialect)
        tokens = _one_statement(grammar.tokens(sql))
        shown = catalog_statement(self.dialect, tokens)
        if shown is not None:
            return Statement(shown, "show")
        prefix, rest = explain_prefix(self.dialect, tokens)
        if not rest or rest[0].text.upper() not in self._queries:
            word = (rest or tokens)[0].text.upper()[:40]
            raise refusal(f"{word} is no query", statement=word)
        if self.dialect == "mysql":
            _no_outfile(rest)
            check_comparisons(rest)
        tree = grammar.read(sql, rest)
        tables = self._inspected(tree)
        text = grammar.text(tree, sql, rest)
        self._reads_back(grammar, text)
        return Statement(prefix + text, "explain" if prefix else "select", tables)

    def _reads_back(self, grammar: Grammar, text: str) -> None:
        """Whether the text means the tree that it was made from: read again, it has to give itself."""
        spaced = spaced_placeholders(text, self.dialect)
        tokens = grammar.tokens(spaced)
        again = grammar.text(grammar.read(spaced, tokens), spaced, tokens)
        if again != text:
            raise InvalidArguments.at(
                "/input/sql",
                "this statement cannot be written from its syntax tree without a change",
                hint="Write it more plainly.",
            )

    def _inspected(self, tree: Expr) -> tuple[str, ...]:
        """The tables of a tree that only reads. Raises `ToolError`."""
        from sqlglot import expressions as exp

        tables: dict[str, None] = {}
        defined: set[str] = set()
        for node in tree.walk():
            kind = type(node)
            if kind is exp.Placeholder and self.dialect == "duckdb" and str(node.this).isdecimal():
                continue  # its `$1`; a `?` has no number
            if kind not in self._nodes:
                raise self._refused_node(node)
            if kind is exp.Anonymous:
                self._check_function(node)
            elif kind is exp.Table:
                name = self._table(node)
                if name:
                    tables[name] = None
            elif kind is exp.CTE:
                defined.add(node.alias)
            elif kind is exp.Dot or kind is exp.Column:
                self._check_attribute(node)
            elif kind is exp.Not:
                _check_not(node)
            else:
                _settle(node)
        return tuple(name for name in tables if name not in defined)

    def _refused_node(self, node: Expr) -> Exception:
        name = type(node).__name__
        if name == "Placeholder":
            return InvalidArguments.at("/input/sql", "a parameter is written $1, $2, …; its value stands in params")
        return refusal(_WHY.get(name, f"{name} is not known to only read"), node=name)

    def _check_function(self, node: Expr) -> None:
        name = plain(node.name).lower()
        schema = ""
        parent = node.parent
        if parent is not None and type(parent).__name__ == "Dot" and parent.expression is node:
            schema = self._qualifier(parent.this)
        if name in self._functions and schema in _SYSTEM:
            return
        full = f"{schema}.{name}" if schema else name
        if any(fnmatchcase(full, pattern) for pattern in self._patterns):
            return
        raise refusal(
            f'the function "{full}" is not known to only read',
            hint=f'If it is, the operator can add "{full}" to "allowed_functions" in the settings of the node.',
            function=full,
        )

    def _qualifier(self, owner: Expr) -> str:
        """The schema before the name of a function. DuckDB has `value.function()` too, which is no schema."""
        names = [part.name for part in owner.find_all(*self._names)]
        if self.dialect == "duckdb" and type(owner).__name__ not in ("Identifier", "Column", "Var"):
            return ""
        return plain(".".join(dict.fromkeys(names))).lower() or "?"

    def _table(self, node: Expr) -> str:
        parts = [
            part.name for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None and part.name
        ]
        if type(node.this).__name__ != "Identifier":
            return ""
        name = plain(".".join(parts))
        if self.dialect == "mysql" and name.upper() == "DUAL":
            return ""
        if self.dialect == "duckdb" and (_FILE.search(node.this.name) or type(node.this).__name__ == "Literal"):
            raise refusal(f'"{name[:80]}" names a file', table=name[:80])
        return name

    def _check_attribute(self, node: Expr) -> None:
        """PostgreSQL calls a function for `x.f` where there is no column `f`."""
        if self.dialect != "postgres":
            return
        last = node.expression if type(node).__name__ == "Dot" else node.this
        if type(last).__name__ != "Identifier" or (type(node).__name__ == "Column" and not node.args.get("table")):
            return
        name = last.name.lower()
        if name in ATTRIBUTES_REFUSED or name.startswith(("pg_", "lo_", "dblink")):
            raise refusal(f'".{name}" may call the function "{name}"', function=name)


_SYSTEM: Final = frozenset(("", "pg_catalog", "public", "main", "system.main"))
"""Where a known function's own name may say it is."""


def _one_statement(tokens: list[Token]) -> list[Token]:
    end = len(tokens)
    while end and tokens[end - 1].token_type.name == "SEMICOLON":
        end -= 1
    found = tokens[:end]
    if not found:
        raise InvalidArguments.at("/input/sql", "expected a statement")
    if any(token.token_type.name == "SEMICOLON" for token in found):
        raise InvalidArguments.at("/input/sql", "expected one statement, not several", hint="Send them one by one.")
    return found


def _settle(node: Expr) -> None:
    """Change what would be sent as something else than it is: hints are comments, and `-~` would be one operator."""
    from sqlglot import expressions as exp

    if type(node) is exp.Select and node.args.get("hint"):
        node.set("hint", None)
    elif type(node) is exp.Neg and type(node.this) is exp.BitwiseNot:
        node.set("this", exp.Paren(this=node.this))


def _check_not(node: Expr) -> None:
    """`a = b IS NOT NULL` would be written `a = NOT b IS NULL`, which the database may read in another way."""
    from sqlglot import expressions as exp

    parent = node.parent
    if isinstance(parent, (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Cast)) and not isinstance(
        parent, (exp.Connector, exp.Paren, exp.Not, exp.PropertyEQ, exp.Kwarg)
    ):
        raise InvalidArguments.at(
            "/input/sql", "NOT beside another operator can be read in two ways", hint="Put brackets around the part with NOT."
        )


def _no_outfile(tokens: list[Token]) -> None:
    """sqlglot does not parse `INTO OUTFILE` everywhere; a syntax error would be the wrong answer to it."""
    for index, token in enumerate(tokens[:-1]):
        if token.token_type.name == "INTO" and tokens[index + 1].text.upper() in ("OUTFILE", "DUMPFILE"):
            raise refusal("SELECT … INTO writes")
