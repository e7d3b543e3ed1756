"""A new SQL dialect is one module: its record, its backend and its node. No other module of rrext names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_contract import opened
from sql_dialects import DIALECTS

from rrext.cli.commands.calls.sql_database import statements
from rrext.errors import ToolError
from rrext.nodes import BUILTIN
from rrext.nodes.sql.dialect import KEYWORDS, SqlDialect
from rrext.nodes.sql.gate import read_only
from rrext.nodes.sql.sqlite import SQLITE
from rrext.pipefile.catalog.plugins import load_nodes

ROOT = Path(__file__).parents[3]

MODULE = """
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.sql.dialect import SqlDialect
from rrext.nodes.sql.sqlite import SQLITE
from rrext.nodes.sql.sqlite import SqliteBackend, SqliteNode

LIBSQL = SqlDialect(name="libsql", patterns=SQLITE.patterns, queries=SQLITE.queries, quote="`", open_comments=True)

class LibsqlBackend(SqliteBackend):
    dialect = LIBSQL

class LibsqlNode(SqliteNode):
    provider = "db_libsql"
    title = "libSQL"

    @classmethod
    def backend(cls, config, ctx: SetupContext) -> LibsqlBackend:
        return LibsqlBackend(config.path, create=True, lock_timeout=1.0, foreign_keys=True, shown="")
"""


async def test_a_dialect_of_one_module_is_gated_and_takes_parameters_and_rows(tmp_path: Path) -> None:
    (tmp_path / "libsql.py").write_text(MODULE)
    (node,) = load_nodes(str(tmp_path / "libsql.py"))
    async with opened(node, {"allow_execute": True, "path": str(tmp_path / "new.db")}) as db:
        assert await db("dialect") == {"dialect": "libsql"}
        await db("execute", sql="CREATE TABLE t (a INTEGER)")
        await db("execute", sql="INSERT INTO t VALUES ($1)", params=[7])
        assert (await db("query", sql="SELECT a FROM t WHERE a = $1 /* open", params=[7]))["rows"] == [{"a": 7}]
        with pytest.raises(ToolError, match="DELETE is no query"):
            await db("query", sql="DELETE FROM t")


def test_a_record_says_which_functions_and_catalog_statements_only_read() -> None:
    dialect = SqlDialect(
        name="new",
        patterns=SQLITE.patterns,
        functions=frozenset({"lower"}),
        keywords=KEYWORDS,
        shows=lambda tokens: tokens[0].text == "show",
    )
    assert read_only("SELECT lower('A') FROM t", dialect).tables == ("t",)
    assert read_only("SHOW tables", dialect).kind == "show"
    for refused in ("SELECT upper('a')", "DROP TABLE t"):
        with pytest.raises(ToolError, match="may do more than read"):
            read_only(refused, dialect)


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgres", "mysql"])
def test_the_gate_names_no_dialect(name: str) -> None:
    gate = ROOT / "rrext" / "nodes" / "sql" / "gate"
    assert not [path.name for path in gate.glob("*.py") if f'"{name}"' in path.read_text(encoding="utf-8")]


def test_a_dialect_is_one_file_and_one_line_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new_database.py").write_text(
        "from rrext.nodes.sql.dialect import SqlDialect\n"
        "from rrext.nodes.sql.node import SqlNode\n"
        "class NewNode(SqlNode):\n"
        "    provider = 'db_new'\n"
        "    sql_dialect = SqlDialect(name='new', patterns=(), literals=r'<[^>]*>')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BUILTIN, "db_new", "new_database:NewNode")
    assert [statement.text for statement in statements("SELECT <a;b>; SELECT 'a", "new")] == ["SELECT <a;b>", "SELECT 'a"]


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_is_found_by_its_name(name: str) -> None:
    assert DIALECTS[name].name == name
