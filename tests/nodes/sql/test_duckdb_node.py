"""What is DuckDB's own: files as tables, the closed door to everything outside, and its types."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sql_contract import opened

from rrext.errors import RrextError, Unavailable
from rrext.nodes.sql.duckdb.node import DuckdbBackend, DuckdbError, DuckdbNode

pytestmark = pytest.mark.usefixtures("forked_children")

WRITER = {"allow_execute": True, "memory_limit": "200MB", "threads": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cities.csv").write_text("name,people\nBern,134000\nBasel,173000\n")
    (tmp_path / "it's [1]*.csv").write_text("a;b\n1;2\n")
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.write('{"id": 1, "tags": ["a", "b"]}\n{"id": 2, "tags": []}\n')
    duckdb.execute(f"COPY (SELECT 7 AS seven, DATE '2026-01-02' AS day) TO '{tmp_path}/p.parquet'")
    return tmp_path


async def test_files_are_tables(folder: Path) -> None:
    files = {"cities": "cities.csv", "rows": "rows.jsonl.gz", "odd one": "it's [1]*.csv", "p": "p.parquet"}
    async with opened(DuckdbNode, {"files": files}, root=str(folder)) as db:
        assert (await db("query", sql="SELECT sum(people) AS people FROM cities"))["rows"] == [{"people": 307000}]
        assert (await db("query", sql="SELECT id, tags FROM rows ORDER BY id"))["rows"][0] == {"id": 1, "tags": ["a", "b"]}
        assert (await db("query", sql='SELECT * FROM "odd one"'))["rows"] == [{"a": 1, "b": 2}]
        assert (await db("query", sql="SELECT * FROM p"))["rows"] == [{"seven": 7, "day": "2026-01-02"}]
        assert set((await db("get_schema"))["tables"]) == set(files)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a": "none.csv"}, "no such file"),
        ({"a": "cities.docx"}, "cannot be loaded"),
        ({"a": "."}, "cannot be loaded"),
        ({"a": "../x.csv"}, "leads out of the root"),
        ({"a": "broken.parquet"}, "cannot be made"),
        ({"a": "https://example.org/a.csv"}, "no such file"),
    ],
)
async def test_a_file_that_cannot_be_loaded_is_told(folder: Path, files: dict[str, str], says: str) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 nothing")
    async with opened(DuckdbNode, {"files": files}, root=str(folder)) as db:
        error = await db.refusal("query", sql="SELECT 1")
        assert isinstance(error, Unavailable)
        assert says in error.message


async def test_the_node_recovers_when_a_missing_file_comes(folder: Path) -> None:
    async with opened(DuckdbNode, {"files": {"later": "later.csv"}}, root=str(folder)) as db:
        assert isinstance(await db.refusal("query", sql="SELECT * FROM later"), Unavailable)
        (folder / "later.csv").write_text("a\n1\n")
        assert (await db("query", sql="SELECT * FROM later"))["rows"] == [{"a": 1}]


async def test_files_and_a_path_are_not_given_together(folder: Path) -> None:
    async with opened(DuckdbNode, {"files": {"c": "cities.csv"}, "path": "a.duckdb"}, root=str(folder)) as db:
        assert isinstance(await db.refusal("query", sql="SELECT 1"), Unavailable)


OUTSIDE = [
    "SELECT * FROM '{folder}/cities.csv'",
    "SELECT * FROM read_csv('{folder}/cities.csv')",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM glob('{folder}/*')",
    "COPY cities TO '{folder}/out.csv'",
    "COPY cities FROM '{folder}/cities.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "IMPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/b.duckdb' AS b",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "SET temp_directory = '{folder}'",
    "SET autoinstall_known_extensions = true",
    "PRAGMA enable_profiling",
    "SELECT * FROM hidden_python_variable",
]


async def test_no_statement_of_any_kind_reaches_outside(folder: Path) -> None:
    hidden_python_variable = [1, 2]
    assert hidden_python_variable
    before = sorted(os.listdir(folder))
    async with opened(DuckdbNode, {**WRITER, "files": {"cities": "cities.csv"}}, root=str(folder)) as db:
        for sql in OUTSIDE:
            for tool in ("execute", "query"):
                assert isinstance(await db.refusal(tool, sql=sql.format(folder=folder)), RrextError)
            assert (await db("query", sql="SELECT count(*) AS c FROM cities"))["rows"] == [{"c": 2}], sql
            assert sorted(os.listdir(folder)) == before, sql


WRITES = [
    "INSERT INTO t VALUES (1)",
    "DELETE FROM t",
    "UPDATE t SET a = 2",
    "CREATE TABLE u (a INTEGER)",
    "CREATE SCHEMA s",
    "CREATE VIEW v AS SELECT 1",
    "CREATE SEQUENCE s",
    "CREATE MACRO m() AS 1",
    "DROP TABLE t",
    "ALTER TABLE t ADD COLUMN b INTEGER",
    "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (1)",
    "SELECT nextval('seq')",
]


@pytest.mark.parametrize("writes", [True, False])
def test_the_database_itself_keeps_a_reader_from_writing(tmp_path: Path, writes: bool) -> None:
    path = str(tmp_path / "a.duckdb")
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a")
        made.execute("CREATE SEQUENCE seq")
    backend = DuckdbBackend(path, files={}, create=False, writes=writes, memory_limit="200MB", threads=1)
    link = backend.connect(read_only=False)
    try:
        for sql in WRITES:
            backend.begin(link, read_only=True)
            with pytest.raises(DuckdbError) as caught:
                backend.run(link, sql, (), read_only=True)
            failure = backend.failure(caught.value)
            assert failure is not None
            backend.rollback(link)
            backend.begin(link, read_only=True)
            assert backend.run(link, "SELECT a FROM t", (), read_only=True).fetchmany(5) == [[1]], sql
            backend.rollback(link)
    finally:
        link.close()
        backend.close()


async def test_a_missing_file_is_told_and_a_new_one_made_where_it_may_be(tmp_path: Path) -> None:
    path = str(tmp_path / "a.duckdb")
    for config in ({"path": path}, {"path": path, "create": True}, {**WRITER, "path": path}):
        async with opened(DuckdbNode, config) as db:
            assert isinstance(await db.refusal("query", sql="SELECT 1"), Unavailable)
    assert os.listdir(tmp_path) == []
    async with opened(DuckdbNode, {**WRITER, "path": path, "create": True}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS a")
    async with opened(DuckdbNode, {"path": path}) as db:
        assert (await db("query", sql="SELECT * FROM t"))["rows"] == [{"a": 1}]


async def test_a_corrupt_file_is_told_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "bad.duckdb"
    path.write_bytes(b"this is no database" * 1000)
    async with opened(DuckdbNode, {**WRITER, "path": str(path)}) as db:
        error = await db.refusal("query", sql="SELECT 1")
        assert isinstance(error, Unavailable)
    assert path.read_bytes() == b"this is no database" * 1000


HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


async def test_a_file_that_another_process_has_is_told_and_used_when_it_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "a.duckdb")
    duckdb.connect(path).close()
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        async with opened(DuckdbNode, {**WRITER, "path": path}) as db:
            error = await db.refusal("query", sql="SELECT 1 AS a")
            assert isinstance(error, Unavailable)
            assert error.message == 'The database cannot be used: another process has "a.duckdb" open'
            holder.communicate()
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]


TYPES: list[tuple[str, Any]] = [
    ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
    ("12.50::DECIMAL(10, 2)", 12.5),
    ("0.1234567890123456789::DECIMAL(38, 19)", "0.1234567890123456789"),
    ("'NaN'::DOUBLE", "NaN"),
    ("'-inf'::FLOAT", "-Infinity"),
    ("DATE '2026-01-02'", "2026-01-02"),
    ("TIMESTAMP '2026-01-02 03:04:05.006'", "2026-01-02T03:04:05.006000"),
    ("TIMESTAMPTZ '2026-01-02 03:04:05+00'", "2026-01-02T03:04:05+00:00"),
    ("TIME '03:04:05'", "03:04:05"),
    ("INTERVAL 90 MINUTE", "PT1H30M"),
    ("'12345678-1234-5678-1234-567812345678'::UUID", "12345678-1234-5678-1234-567812345678"),
    ("'\\xFF'::BLOB", {"base64": "/w=="}),
    ("[1, NULL, 3]", [1, None, 3]),
    ("{'a': 1.5, 'b': ['x', NULL]}", {"a": 1.5, "b": ["x", None]}),
    ("MAP {1: 'one'}", {"1": "one"}),
    ("'101'::BIT", "101"),
    ("NULL", None),
]


async def test_types_come_as_documented() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        for expression, expected in TYPES:
            answer = await db("execute", sql=f"SELECT {expression} AS v", row_mode="array")
            got = answer["rows"][0][0]
            if isinstance(expected, list) or (isinstance(expected, dict) and "base64" not in expected):
                assert isinstance(got, str)  # nested values are JSON text in execute
                await db("execute", sql=f"CREATE OR REPLACE TABLE v AS SELECT {expression} AS v")
                got = (await db("query", sql="SELECT v FROM v"))["rows"][0]["v"]
            assert got == expected, expression


async def test_lists_and_objects_may_be_parameters() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        answer = await db("query", sql="SELECT len($1) AS n, $2 AS s", params=[[1, 2, 3], "x"])
        assert answer["rows"] == [{"n": 3, "s": "x"}]


async def test_memory_is_bounded_and_the_node_goes_on() -> None:
    async with opened(DuckdbNode, {**WRITER, "memory_limit": "50MB"}) as db:
        sql = "SELECT list(range ORDER BY hash(range)) AS a FROM range(50000000)"
        error = await db.refusal("query", sql=sql)
        assert error.code == "sql_failed"
        assert "memory_limit" in str(error.hint)
        assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]


async def test_large_rows_are_not_all_made_values_of_python() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        error = await db.refusal("query", sql="SELECT repeat('x', 10000000) FROM range(12)")
        assert (error.code, error.data["size"] < 21_000_000) == ("result_too_large", True)


async def test_two_sessions_that_change_one_row_conflict_and_nothing_is_lost() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS id, 0 AS n")
        first, second = [(await db("begin"))["session_id"] for _ in range(2)]
        await db("execute", sql="UPDATE t SET n = n + 1", session_id=first)
        error = await db.refusal("execute", sql="UPDATE t SET n = n + 10", session_id=second)
        assert error.code == "database_locked"
        await db("rollback", session_id=second)
        await db("commit", session_id=first)
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 1}]


async def test_a_commit_that_fails_ends_the_session_and_keeps_nothing() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE t (id INTEGER PRIMARY KEY)")
        first, second = [(await db("begin"))["session_id"] for _ in range(2)]
        for session in (first, second):
            await db("execute", sql="INSERT INTO t VALUES (1)", session_id=session)
        await db("commit", session_id=first)
        assert (await db.refusal("commit", session_id=second)).message.startswith("SQL execution failed: ")
        error = await db.refusal("execute", sql="INSERT INTO t VALUES (2)", session_id=second)
        assert error.code == "session_not_found"
        assert (await db("query", sql="SELECT id FROM t"))["rows"] == [{"id": 1}]


@pytest.mark.parametrize(
    "failing",
    ["INSERT INTO t VALUES (1)", "SELECT 1 / CAST('x' AS INTEGER)", "SELECT error('no')"],
)
async def test_a_transaction_in_which_a_statement_failed_is_not_committed(failing: str) -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE t (id INTEGER PRIMARY KEY)")
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO t VALUES (1)", session_id=session)
        assert (await db.refusal("execute", sql=failing, session_id=session)).code == "sql_failed"
        error = await db.refusal("execute", sql="INSERT INTO t VALUES (2)", session_id=session)
        assert error.hint == "A statement in this transaction failed: roll it back."
        assert (await db.refusal("commit", session_id=session)).code == "transaction_aborted"
        assert await db("rollback", session_id=session) == {"ok": True}
        assert (await db("query", sql="SELECT id FROM t"))["rows"] == []


async def test_a_session_goes_on_after_a_statement_that_never_began() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE t (id INTEGER PRIMARY KEY)")
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO t VALUES (1)", session_id=session)
        for sql in ("SELEC 1", "SELECT 1; SELECT 2"):
            assert isinstance(await db.refusal("execute", sql=sql, session_id=session), RrextError)
        assert await db("commit", session_id=session) == {"ok": True}
        assert (await db("query", sql="SELECT id FROM t"))["rows"] == [{"id": 1}]


async def test_statements_that_change_one_row_at_once_are_run_again() -> None:
    async with opened(DuckdbNode, {**WRITER, "pool_size": 20}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS id, 0 AS n")
        await asyncio.gather(*(db("execute", sql="UPDATE t SET n = n + $1", params=[1]) for _ in range(40)))
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 40}]


async def test_a_row_that_a_session_holds_is_locked_in_the_end() -> None:
    async with opened(DuckdbNode, {**WRITER, "statement_timeout": 1.0}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS id, 0 AS n")
        session = (await db("begin"))["session_id"]
        await db("execute", sql="UPDATE t SET n = 7", session_id=session)
        codes = {"statement_timeout"}  # of a machine that is so busy that the last try itself is late
        while codes == {"statement_timeout"}:
            codes = {(await db.refusal("execute", sql="UPDATE t SET n = n + 1")).code}
        assert codes == {"database_locked"}
        await db("commit", session_id=session)
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 7}]


async def test_a_dynamic_pivot_answers_its_rows_everywhere() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE s AS FROM (VALUES ('a', 1, 2026), ('b', 2, 2025)) AS s(k, v, y)")
        sql = "PIVOT s ON k USING sum(v) ORDER BY y"
        expected = [{"y": 2025, "a": None, "b": 2}, {"y": 2026, "a": 1, "b": None}]
        session = (await db("begin"))["session_id"]
        for tool, input in (("query", {}), ("execute", {}), ("execute", {"session_id": session})):
            answer = await db(tool, sql=sql, **input)
            assert (answer["columns"], answer["rows"]) == (["y", "a", "b"], expected)
        await db("commit", session_id=session)
        chunks: list[Any] = []
        await db.client.tool(tool="query_stream", node_id="db", input={"sql": sql}, on_chunk=chunks.extend)
        assert chunks == expected


async def test_a_plan_is_lines_that_a_person_can_read() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS n")
        answer = await db("query", sql="SELECT n FROM t WHERE random() > n ORDER BY n", explain=True)
        assert answer["plan"][0].startswith("PROJECTION")
        assert answer["plan"][1].startswith("  ")
        assert "SEQ_SCAN" in answer["plan"][-1]


async def test_a_temporary_table_is_gone_with_its_call() -> None:
    async with opened(DuckdbNode, {**WRITER, "pool_size": 1}) as db:
        await db("execute", sql="CREATE TEMP TABLE mine (a INTEGER)")
        assert (await db.refusal("execute", sql="SELECT * FROM mine")).code == "sql_failed"


@pytest.mark.parametrize("limit", ["", "much", "9f3a57be8217a4", "1 GB more", "-1GB"])
async def test_a_limit_of_memory_that_is_none_is_told_without_its_text(limit: str) -> None:
    async with opened(DuckdbNode, {"memory_limit": limit}) as db:
        error = await db.refusal("query", sql="SELECT 1")
    assert isinstance(error, Unavailable)
    assert error.message == '"memory_limit" of the node "db" is no amount of memory'


@pytest.mark.parametrize("limit", ["200MB", "1.5 GiB", "30%", "1000000000 bytes", "512m"])
async def test_limits_of_memory_are_written_as_for_duckdb(limit: str) -> None:
    async with opened(DuckdbNode, {"memory_limit": limit}) as db:
        assert (await db("query", sql="SELECT 1 AS n"))["rows"] == [{"n": 1}]
