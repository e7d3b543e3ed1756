"""What is SQLite's own: its files, its locks, and the second wall of read-only, which is SQLite itself."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sql_contract import opened

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.databases.calls import ENCODED_ROWS
from rrext.nodes.sql.sqlite import MANY_VALUES, SqliteBackend, SqliteNode, with_values

WRITER = {"allow_execute": True}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
    connection.close()
    return path


async def test_a_missing_file_is_told_and_not_made(tmp_path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(tmp_path / "none.db")}) as db:
        for tool, input in (
            ("query", {"sql": "SELECT 1"}),
            ("execute", {"sql": "SELECT 1"}),
            ("begin", {}),
            ("get_schema", {}),
        ):
            error = await db.refusal(tool, **input)
            assert isinstance(error, Unavailable)
            assert "none.db" in error.message
        assert os.listdir(tmp_path) == []


async def test_the_node_recovers_when_the_file_comes(tmp_path: Path, path: Path) -> None:
    async with opened(SqliteNode, {"path": str(tmp_path / "b.db")}) as db:
        assert isinstance(await db.refusal("query", sql="SELECT 1"), Unavailable)
        os.rename(path, tmp_path / "b.db")
        assert (await db("query", sql="SELECT x FROM t"))["rows"] == [{"x": "a"}]


async def test_a_file_that_is_made_keeps_readers_and_writers_apart(tmp_path: Path) -> None:
    async with opened(SqliteNode, {"path": str(tmp_path / "new.db"), "create": True}) as db:
        assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]
    with sqlite3.connect(tmp_path / "new.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_file_that_is_made_gets_its_folder(tmp_path: Path) -> None:
    async with opened(SqliteNode, {"path": str(tmp_path / "a" / "b" / "new.db"), "create": True}) as db:
        assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]


async def test_a_file_of_others_keeps_its_journal(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path), "create": True}) as db:
        await db("execute", sql="INSERT INTO t VALUES (2, 'b')")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
async def test_a_corrupt_file_is_told_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.db"
    path.write_bytes(content)
    async with opened(SqliteNode, {**WRITER, "path": str(path), "create": True}) as db:
        for tool, input in (
            ("query", {"sql": "SELECT * FROM t"}),
            ("get_schema", {}),
            ("execute", {"sql": "CREATE TABLE t (a)"}),
        ):
            error = await db.refusal(tool, **input)
            assert isinstance(error, Unavailable)
            assert "bad.db" in error.message
    assert path.read_bytes() == content


async def test_a_file_that_is_replaced_is_opened_anew(tmp_path: Path, path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        await db("query", sql="SELECT x FROM t")
        await db("execute", sql="UPDATE t SET x = 'old'")
        other = tmp_path / "other.db"
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        connection.close()
        os.replace(other, path)
        await db("execute", sql="INSERT INTO t VALUES (7, 'new')")
        assert (await db("query", sql="SELECT x FROM t"))["rows"] == [{"x": "new"}]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [("new",)]
    connection.close()


async def test_somebody_elses_lock_is_a_clear_error_and_passes(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    async with opened(SqliteNode, {**WRITER, "path": str(path), "lock_timeout": 0.05}) as db:
        for tool in ("query", "execute"):
            error = await db.refusal(tool, sql="SELECT x FROM t")
            assert (error.code, error.message) == ("database_locked", "SQL execution failed: database is locked")
        other.execute("ROLLBACK")
        other.close()
        assert (await db("execute", sql="UPDATE t SET x = 'b'"))["affected_rows"] == 1


async def test_two_sessions_that_write_wait_for_each_other(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path), "lock_timeout": 20}) as db:
        first, second = [(await db("begin"))["session_id"] for _ in range(2)]
        await db("execute", sql="UPDATE t SET x = 'first'", session_id=first)
        waiting = asyncio.ensure_future(db("execute", sql="UPDATE t SET x = x || ' second'", session_id=second))
        await db("commit", session_id=first)
        await waiting
        await db("commit", session_id=second)
        assert (await db("query", sql="SELECT x FROM t"))["rows"] == [{"x": "first second"}]


async def test_a_path_does_not_lead_out_of_the_root(tmp_path: Path, path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link.db").symlink_to(path)
    for name in ("../a.db", str(path), "link.db"):
        async with opened(SqliteNode, {"path": name}, root=str(tmp_path / "root")) as db:
            assert isinstance(await db.refusal("query", sql="SELECT 1"), Unavailable)


REFUSED = [
    "ATTACH '{folder}/b.db' AS b",
    "DETACH main",
    "VACUUM INTO '{folder}/b.db'",
    "SELECT load_extension('x')",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA trusted_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA foreign_keys(0)",
]
WRITES = [
    "DELETE FROM t",
    "INSERT INTO t VALUES (9, 9)",
    "UPDATE t SET x = 1",
    "CREATE TABLE n (a)",
    "CREATE TEMP TABLE n (a)",
    "DROP TABLE t",
    "ALTER TABLE t RENAME TO u",
    "CREATE INDEX i ON t (x)",
    "ANALYZE",
    "PRAGMA user_version = 7",
    "WITH a AS (SELECT 1) INSERT INTO t SELECT 8, 8 FROM a",
]


@pytest.mark.parametrize("sql", REFUSED + WRITES)
def test_the_database_itself_keeps_a_reader_from_everything_else(path: Path, sql: str) -> None:
    before = path.read_bytes()
    backend = SqliteBackend(str(path), create=False, lock_timeout=1, foreign_keys=True)
    connection = backend.connect(read_only=True)
    try:
        for begins in (True, False):
            if begins:
                backend.begin(connection, read_only=True)
            with pytest.raises((sqlite3.Error, ToolError)) as caught:
                backend.run(connection, sql.format(folder=path.parent), (), read_only=True)
            if isinstance(caught.value, ToolError):
                assert caught.value.code == "not_read_only"
            else:
                assert backend.failure(caught.value) is not None
            if backend.in_transaction(connection):
                backend.rollback(connection)
    finally:
        connection.close()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["a.db"]


@pytest.mark.parametrize("sql", REFUSED)
async def test_a_writer_reaches_nothing_but_its_database(path: Path, sql: str) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        assert (await db.refusal("execute", sql=sql.format(folder=path.parent))).code == "sql_failed"
    assert os.listdir(path.parent) == ["a.db"]


async def test_a_temporary_table_is_gone_with_its_call(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path), "pool_size": 1}) as db:
        await db("execute", sql="CREATE TEMP TABLE mine (a)")
        assert (await db.refusal("execute", sql="SELECT * FROM mine")).code == "sql_failed"
        session = (await db("begin"))["session_id"]
        await db("execute", sql="CREATE TEMP TABLE mine (a)", session_id=session)
        assert (await db("execute", sql="SELECT * FROM mine", session_id=session))["columns"] == ["a"]
        await db("commit", session_id=session)
        assert (await db.refusal("execute", sql="SELECT * FROM mine")).code == "sql_failed"


@pytest.mark.parametrize(
    ("value", "where"), [([1], "/input/params/1"), ({"a": 1}, "/input/params/1"), (2**63, "/input/params/1")]
)
async def test_a_value_that_sqlite_cannot_hold_is_bad_input(path: Path, value: Any, where: str) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        error = await db.refusal("execute", sql="INSERT INTO t VALUES ($1, $2)", params=[5, value])
        assert isinstance(error, InvalidArguments)
        assert error.data["errors"][0]["path"] == where


async def test_values_come_back_as_they_are(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        sql = "SELECT 9007199254740993 AS a, -9223372036854775808 AS b, 9e999 AS c, x'FF00' AS d, x'6162' AS e, '' AS f"
        for tool in ("query", "execute"):
            assert (await db(tool, sql=sql))["rows"] == [
                {"a": 2**53 + 1, "b": -(2**63), "c": "Infinity", "d": {"base64": "/wA="}, "e": {"base64": "YWI="}, "f": ""}
            ]


async def test_a_result_larger_than_an_answer_may_be_is_refused_and_nothing_kept(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        huge = "hex(zeroblob(5000000))"
        assert (await db.refusal("query", sql=f"SELECT {huge} AS a, {huge} AS b")).code == "result_too_large"
        error = await db.refusal("execute", sql=f"INSERT INTO t VALUES (2, 'b') RETURNING {huge}, {huge}")
        assert error.code == "result_too_large"
        assert (await db("query", sql="SELECT count(*) AS c FROM t"))["rows"] == [{"c": 1}]
        assert (await db.refusal("query", sql="SELECT zeroblob(900000000)")).code == "sql_failed"


async def test_large_rows_take_little_memory(path: Path) -> None:
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        await db("execute", sql="INSERT INTO t SELECT value, value FROM json_each('[2, 3, 4, 5, 6, 7, 8, 9]')")
        huge = "hex(zeroblob({}))"
        error = await db.refusal("query", sql=f"SELECT {huge.format(10_000_000)} FROM t")
        assert error.data["size"] < 21_000_000, "one row was read, not a batch of them"
        assert "query_stream" in str(error.hint)
        columns = ", ".join(huge.format(20_000_000 + number) for number in range(30))
        for tool in ("query", "execute"):
            error = await db.refusal(tool, sql=f"SELECT {columns}")
            assert (error.code, "out of memory" in error.message) == ("sql_failed", True)
        assert (await db("query", sql="SELECT count(*) AS c FROM t"))["rows"] == [{"c": 9}]


async def test_foreign_keys_are_enforced_unless_switched_off(path: Path) -> None:
    for enforced in (True, False):
        async with opened(SqliteNode, {**WRITER, "path": str(path), "foreign_keys": enforced}) as db:
            await db("execute", sql="CREATE TABLE IF NOT EXISTS c (t REFERENCES t (id))")
            if enforced:
                error = await db.refusal("execute", sql="INSERT INTO c VALUES (99)")
                assert "FOREIGN KEY" in error.message
            else:
                await db("execute", sql="INSERT INTO c VALUES (99)")


KILLED = """
import asyncio, os, signal, sys
sys.path.insert(0, {tests!r})
from sql_contract import opened
from rrext.nodes.sql.sqlite import SqliteNode

async def main():
    async with opened(SqliteNode, {{"path": {path!r}, "allow_execute": True}}) as db:
        await db("execute", sql="INSERT INTO t VALUES (2, 'answered')")
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO t VALUES (3, 'half')", session_id=session)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_killed_process_keeps_what_was_answered_and_nothing_half(path: Path) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent), path=str(path))
    ended = subprocess.run([sys.executable, "-c", code], cwd=path.parent, timeout=50, check=False)  # noqa: ASYNC221
    assert ended.returncode == -9
    async with opened(SqliteNode, {"path": str(path)}) as db:
        assert (await db("query", sql="SELECT x FROM t ORDER BY id"))["rows"] == [{"x": "a"}, {"x": "answered"}]


async def test_a_database_in_memory_is_shared_by_calls_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        async with opened(SqliteNode, WRITER) as db:
            assert (await db("get_schema"))["tables"] == {}
            await db("execute", sql="CREATE TABLE t (a)")
            assert (await db("query", sql="SELECT * FROM t"))["columns"] == ["a"]
        assert os.listdir(tmp_path) == []


@pytest.mark.promise("data:values:there-and-back")
async def test_what_query_answers_is_written_back_as_it_was(tmp_path: Path) -> None:
    values = [
        "NULL", "0", "-9223372036854775808", "9223372036854775807", "0.1", "5.0", "-0.0", "1e300", "5e-324", "''", "'é😀'",
        "'5'", "'{\"a\": [1]}'", "x''", "x'616263'", "x'00ff'", "x'5c78'", "char(0)", "CAST(x'410042' AS TEXT)", "zeroblob(3)",
        "'{\"base64\": \"AA==\"}'", "CAST(x'efbbbf41' AS TEXT)",
    ]  # fmt: skip
    kinds = ["", "INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "ANY"]
    async with opened(SqliteNode, {**WRITER, "path": str(tmp_path / "a.db"), "create": True}) as db:
        for number, kind in enumerate(kinds):
            await db("execute", sql=f"CREATE TABLE t{number} (n int, v {kind})")
            for value in values:
                await db("execute", sql=f"DELETE FROM t{number}")
                await db("execute", sql=f"INSERT INTO t{number} VALUES (1, {value})")
                cell = (await db("query", sql=f"SELECT v FROM t{number}", row_mode="array"))["rows"][0][0]
                await db("execute", sql=f"INSERT INTO t{number} VALUES (2, $1)", params=[cell])
                same = f"SELECT a.v IS b.v AND typeof(a.v) = typeof(b.v) AS same FROM t{number} a JOIN t{number} b ON a.n < b.n"
                assert (await db("query", sql=same))["rows"] == [{"same": 1}], (kind, value, cell)


async def test_a_list_or_another_object_is_no_value_of_sqlite(path: Path) -> None:
    async with opened(SqliteNode, {"path": str(path)}) as db:
        for value, where in (([1], "/0"), ({"a": 1}, "/0"), ({"base64": "x", "a": 1}, "/0"), ({"base64": "?"}, "/0/base64")):
            error = await db.refusal("query", sql="SELECT $1", params=[value])
            assert error.data["errors"][0]["path"] == f"/input/params{where}"


async def test_types_are_those_that_the_columns_were_declared_with(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE u (a VARCHAR(40), b DECIMAL(10, 2), c, d date, e INT)")
        connection.execute("CREATE VIEW seen AS SELECT b AS price, d FROM u")
    connection.close()
    cases: list[tuple[str, list[object], list[str | None]]] = [
        ("SELECT * FROM u", [], ["VARCHAR(40)", "DECIMAL(10, 2)", None, "date", "INT"]),
        ("SELECT id, x AS y FROM t WHERE id = $1 -- why", [1], ["INTEGER", None]),
        ("SELECT price FROM seen;", [], ["DECIMAL(10, 2)"]),
        ("WITH w AS (SELECT d FROM u) SELECT a.d, b.a FROM w a, u b LIMIT $1", [2], ["date", "VARCHAR(40)"]),
        ("SELECT a FROM u UNION SELECT a FROM u ORDER BY 1", [], ["VARCHAR(40)"]),
        ("EXPLAIN QUERY PLAN SELECT a FROM u", [], [None] * 4),
        ("PRAGMA table_info(u)", [], [None] * 6),
    ]
    async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
        for sql, params, types in cases:
            for tool in ("query", "execute"):
                assert (await db(tool, sql=sql, params=params))["types"] == types, sql
        await db("execute", sql="ALTER TABLE u RENAME TO v")
        await db("execute", sql="CREATE TABLE u (a BOOLEAN)")
        assert (await db("query", sql="SELECT * FROM u"))["types"] == ["BOOLEAN"]
        session = (await db("begin"))["session_id"]
        await db("execute", sql="CREATE TABLE w (a text)", session_id=session)
        assert (await db("execute", sql="SELECT a FROM w", session_id=session))["types"] == [None]
        await db("rollback", session_id=session)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'described'").fetchall() == []
    connection.close()


VIRTUAL = """
CREATE TABLE kept (id INTEGER PRIMARY KEY, at TEXT, area REAL GENERATED ALWAYS AS (id * 2) VIRTUAL);
CREATE TABLE part (kept INTEGER REFERENCES kept, other INTEGER, FOREIGN KEY (other) REFERENCES kept (id));
CREATE VIRTUAL TABLE words USING fts5(title, body);
CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
CREATE TABLE gone (a);
CREATE VIEW broken AS SELECT a FROM gone;
CREATE VIEW whole AS SELECT id FROM kept;
DROP TABLE gone;
INSERT INTO kept (id, at) VALUES (1, 'now');
INSERT INTO words VALUES ('one', 'hello world');
INSERT INTO boxes VALUES (1, 0.0, 2.0);
"""


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    path = tmp_path / "virtual.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(VIRTUAL)
    connection.close()
    return path


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT key, value FROM json_each('[5]')", [[0, 5]]),
        ("SELECT fullkey FROM json_tree('{\"a\": 1}')", [["$"], ["$.a"]]),
        ("SELECT name FROM pragma_table_info('part')", [["kept"], ["other"]]),
        ("SELECT title FROM words WHERE words MATCH 'hello'", [["one"]]),
        ("SELECT highlight(words, 1, '[', ']'), bm25(words) < 0 FROM words('hello')", [["[hello] world", 1]]),
        ("SELECT id FROM boxes WHERE x0 < 1", [[1]]),
        ("PRAGMA table_info(part)", [[0, "kept", "INTEGER", 0, None, 0], [1, "other", "INTEGER", 0, None, 0]]),
        ("PRAGMA page_size", [[4096]]),
        ("PRAGMA foreign_key_check", []),
        ("SELECT id IS DISTINCT FROM 2, id IS NOT DISTINCT FROM 1 FROM kept", None),
        ("WITH a(x, y) AS (SELECT 1, 2), b(z) AS (SELECT x FROM a) SELECT z FROM b", [[1]]),
    ],
)
async def test_virtual_tables_and_pragmas_that_tell_something_are_read(virtual: Path, sql: str, rows: Any) -> None:
    if rows is None and sqlite3.sqlite_version_info < (3, 39):
        pytest.fail("this SQLite is older than IS DISTINCT FROM")
    async with opened(SqliteNode, {"path": str(virtual)}) as db:
        answer = await db("query", sql=sql, row_mode="array")
        assert answer["rows"] == (rows if rows is not None else [[1, 1]])


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("INSERT INTO words VALUES ('a', 'b')", "INSERT"),
        ("WITH a AS (SELECT 1) DELETE FROM boxes", "DELETE"),
        ("PRAGMA user_version = 5", "PRAGMA user_version with a value"),
        ("PRAGMA optimize", "PRAGMA optimize acts"),
        ("SELECT * FROM pragma_journal_mode('DELETE')", ""),
        ("SELECT load_extension('x')", "load_extension"),
    ],
)
async def test_what_sqlite_would_change_is_refused_with_the_reason(virtual: Path, sql: str, said: str) -> None:
    async with opened(SqliteNode, {"path": str(virtual)}) as db:
        error = await db.refusal("query", sql=sql)
        assert error.code in ("not_read_only", "sql_failed")
        assert said in error.message
        counts = "SELECT (SELECT count(*) FROM words), (SELECT count(*) FROM boxes), user_version FROM pragma_user_version"
        assert (await db("query", sql=counts, row_mode="array"))["rows"] == [[1, 1, 0]]


async def test_the_schema_of_a_file_has_virtual_tables_and_says_which_view_is_broken(virtual: Path) -> None:
    async with opened(SqliteNode, {"path": str(virtual)}) as db:
        tables = (await db("get_schema"))["tables"]
        assert sorted(tables) == ["boxes", "broken", "kept", "part", "whole", "words"]
        assert [column["column"] for column in tables["words"]["columns"]] == ["title", "body"]
        assert tables["broken"] == {"columns": [], "view": True, "problem": "no such table: main.gone"}
        assert tables["whole"] == {"columns": [{"column": "id", "type": "INTEGER"}], "view": True}
        assert tables["kept"]["primary_key"] == ["id"]
        assert [column["column"] for column in tables["kept"]["columns"]] == ["id", "at", "area"]
        assert tables["part"]["foreign_keys"] == [
            {"columns": ["kept"], "references": {"table": "kept", "columns": ["id"]}},
            {"columns": ["other"], "references": {"table": "kept", "columns": ["id"]}},
        ]


async def test_a_text_that_is_not_utf8_is_its_bytes_wherever_it_stands(path: Path) -> None:
    """And the rows before it and behind it are what they are."""
    texts = [b"plain", "é".encode(), b"\xff\x00A", b"\xed\xa0\x80", b"a\0b"]
    cells = ["plain", "é", {"base64": "/wBB"}, {"base64": "7aCA"}, "a\0b"]
    for bad_at in (0, 1, 70, 150):  # of the first batch, at its end, and of a later one
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM t")
            rows = [texts[0]] * bad_at + texts + [texts[0]] * 3
            connection.executemany("INSERT INTO t (x) VALUES (CAST(? AS TEXT))", [(text,) for text in rows])
        connection.close()
        wanted = [[cell] for cell in [cells[0]] * bad_at + cells + [cells[0]] * 3]
        async with opened(SqliteNode, {**WRITER, "path": str(path)}) as db:
            for tool in ("query", "execute", "query"):
                assert (await db(tool, sql="SELECT x FROM t ORDER BY id", row_mode="array"))["rows"] == wanted
            returned = await db("execute", sql="INSERT INTO t (x) VALUES (CAST(x'ff' AS TEXT)) RETURNING x", row_mode="array")
            assert returned["rows"] == [[{"base64": "/w=="}]]
            back = await db("query", sql="SELECT count(*) AS n FROM t WHERE x = CAST($1 AS TEXT)", params=[{"base64": "/wBB"}])
            assert back["rows"] == [{"n": 1}]


async def test_names_and_messages_that_are_not_utf_8_fail_a_statement_and_nothing_else(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE odd (x)")
        made.execute("PRAGMA writable_schema = ON")
        text = b'CREATE TABLE odd ("x\xff" TEXT)'.hex()
        made.execute(f"UPDATE sqlite_master SET sql = CAST(x'{text}' AS TEXT) WHERE name = 'odd'")
    made.close()
    async with opened(SqliteNode, {"path": str(path)}) as db:
        assert (await db("query", sql="SELECT CAST(x'ff' AS TEXT) AS a"))["rows"] == [{"a": {"base64": "/w=="}}]
        for sql in ("SELECT json_extract('{}', CAST(x'ff' AS TEXT))", "SELECT * FROM odd"):
            error = await db.refusal("query", sql=sql)
            assert (error.code, "not UTF-8" in error.message) == ("sql_failed", True)
        tables = (await db("get_schema"))["tables"]
        assert tables["odd"]["columns"] == []
        assert "UTF-8" in tables["odd"]["problem"]
        assert [column["column"] for column in tables["t"]["columns"]] == ["id", "x"]


async def test_many_rows_keep_a_name_that_has_quotes() -> None:
    async with opened(SqliteNode, {"path": ":memory:"}) as db:
        numbers = f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {ENCODED_ROWS})"
        rows = (await db("query", sql=f'{numbers} SELECT n AS "a""b" FROM t', limit=ENCODED_ROWS))["rows"]
        assert rows == [{'a"b': n + 1} for n in range(ENCODED_ROWS)]


async def test_many_values_go_where_few_do() -> None:
    rows = [[n, f"name {n}", None if n % 3 else {"base64": "AP8="}] for n in range(MANY_VALUES)]
    places = ", ".join(f"(${3 * n + 2}, ${3 * n + 1}, ${3 * n + 3})" for n in range(MANY_VALUES))
    params = [cell for row in rows for cell in row]
    async with opened(SqliteNode, {**WRITER, "path": ":memory:"}) as db:
        await db("execute", sql="CREATE TABLE t (name TEXT, id INTEGER, x BLOB)")
        for returning in ("", " RETURNING $1 + id"):
            answer = await db("execute", sql=f"INSERT INTO t VALUES {places}{returning}", params=params)
            assert answer["affected_rows"] == MANY_VALUES
            assert answer["columns"] == (["$1 + id"] if returning else [])
            assert (await db("query", sql="SELECT id, name, x FROM t", row_mode="array"))["rows"][:MANY_VALUES] == rows
            await db("execute", sql="DELETE FROM t")
        error = await db.refusal("execute", sql=f"INSERT INTO t VALUES {places}", params=[*params, 1])
        assert error.data["errors"][0]["path"] == f"/input/params/{len(params)}"
        error = await db.refusal("execute", sql=f"INSERT INTO t VALUES {places}", params=[*params[:-1], 2**63])
        assert error.data["errors"][0]["path"] == f"/input/params/{len(params) - 1}"


@pytest.mark.parametrize("verb", ["INSERT INTO t VALUES", "-- $1\nreplace INTO t VALUES"])
def test_many_values_go_without_names_which_sqlite_would_search(verb: str) -> None:
    places = ", ".join(f"(${n + 1}, '$1')" for n in range(MANY_VALUES))
    text, values = with_values(f"{verb} {places}", list(range(MANY_VALUES)))
    assert text == f"{verb} " + ", ".join(["(?, '$1')"] * MANY_VALUES)
    assert values == list(range(MANY_VALUES))
