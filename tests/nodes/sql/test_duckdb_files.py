"""Files of `files`: patterns of names, which never leave the root, tables that follow their files, and files of any size."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from sql_contract import opened

from rrext.errors import Unavailable
from rrext.nodes.sql.duckdb.instance import DuckdbInstance
from rrext.nodes.sql.duckdb.messages import MEMORY, DuckdbSettings, Ok, SqlFetch, SqlLoad, SqlRollback, SqlRows, SqlRun
from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.duckdb.worker import DuckdbSession

WRITER = {"allow_execute": True, "memory_limit": "200MB", "threads": 1}


def parquet(path: Path, select: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({select}) TO '{path}'")


async def test_a_pattern_is_one_table_of_all_files_that_it_fits(tmp_path: Path) -> None:
    parquet(tmp_path / "data" / "a.parquet", "SELECT 1 AS n, 'a' AS t")
    parquet(tmp_path / "data" / "b.parquet", "SELECT 'b' AS t, 2 AS n")
    parquet(tmp_path / "data" / "deep" / "er" / "c.parquet", "SELECT 3 AS n")
    files = {"flat": "data/*.parquet", "deep": "data/**/*.parquet", "one": "data/?.parquet"}
    async with opened(DuckdbNode, {"files": files}, root=str(tmp_path)) as db:
        for table, expected in (("flat", ["1a", "2b"]), ("one", ["1a", "2b"]), ("deep", ["1a", "2b", "3"])):
            answer = await db("query", sql=f"SELECT concat(n, t) AS v FROM {table} ORDER BY n")
            assert [row["v"] for row in answer["rows"]] == expected


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("data/*.csv", "no file has such a name"),
        ("../*.parquet", "leads out of the root"),
        ("data/*", "cannot be loaded"),
        ("*/*.json*", "several kinds"),
    ],
)
async def test_a_pattern_that_cannot_be_a_table_is_told(tmp_path: Path, pattern: str, says: str) -> None:
    parquet(tmp_path / "secret.parquet", "SELECT 1 AS n")
    root = tmp_path / "root"
    parquet(root / "data" / "a.parquet", "SELECT 1 AS n")
    (root / "data" / "notes.md").write_text("x")
    (root / "mixed").mkdir()
    (root / "mixed" / "a.json").write_text("{}")
    (root / "mixed" / "a.json.csv").write_text("a\n1\n")
    async with opened(DuckdbNode, {"files": {"t": pattern}}, root=str(root)) as db:
        error = await db.refusal("query", sql="SELECT * FROM t")
        assert isinstance(error, Unavailable)
        assert says in error.message


@pytest.mark.parametrize("pattern", ["*.csv", "**/*.csv", "in/*.csv", "i*/secret.csv", "link.csv"])
async def test_no_link_leads_a_pattern_out_of_the_root(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.csv").write_text("a\n42\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "in").symlink_to(tmp_path / "outside")
    (root / "link.csv").symlink_to(tmp_path / "outside" / "secret.csv")
    async with opened(DuckdbNode, {"files": {"t": pattern}}, root=str(root)) as db:
        error = await db.refusal("query", sql="SELECT * FROM t")
        assert isinstance(error, Unavailable)
        assert "leads out of the root" in error.message


async def test_tables_follow_their_files(tmp_path: Path) -> None:
    async with opened(DuckdbNode, {"files": {"t": "*.csv"}}, root=str(tmp_path)) as db:
        (tmp_path / "a.csv").write_text("n\n1\n")

        async def numbers() -> list[int]:
            return [row["n"] for row in (await db("query", sql="SELECT n FROM t ORDER BY n"))["rows"]]

        assert await numbers() == [1]
        (tmp_path / "b.csv").write_text("n\n2\n")  # added
        assert await numbers() == [1, 2]
        (tmp_path / "a.csv").write_text("n\n11\n")  # changed
        assert await numbers() == [2, 11]
        os.replace(tmp_path / "b.csv", tmp_path / "c.csv")  # of another name
        assert await numbers() == [2, 11]
        (tmp_path / "c.csv").unlink()  # removed
        assert await numbers() == [11]
        (tmp_path / "a.csv").write_text("n,more\n1,2\n")  # with another column
        assert (await db("query", sql="SELECT * FROM t"))["rows"] == [{"n": 1, "more": 2}]
        assert [c["column"] for c in (await db("refresh_schema"))["tables"]["t"]["columns"]] == ["n", "more"]
        (tmp_path / "a.csv").unlink()
        assert isinstance(await db.refusal("query", sql="SELECT n FROM t"), Unavailable)
        (tmp_path / "a.csv").write_text("n\n5\n")
        assert await numbers() == [5]


async def test_what_was_written_beside_the_tables_of_files_stays_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    async with opened(DuckdbNode, {**WRITER, "files": {"t": "a.csv"}}, root=str(tmp_path)) as db:
        await db("execute", sql="CREATE TABLE mine AS SELECT n + 1 AS n FROM t")
        await db("execute", sql="CREATE VIEW all_of_it AS SELECT n FROM t UNION ALL SELECT n FROM mine")
        session = (await db("begin"))["session_id"]
        assert (await db("execute", sql="SELECT n FROM t", session_id=session))["rows"] == [{"n": 1}]
        (tmp_path / "a.csv").write_text("n\n10\n")
        assert (await db("query", sql="SELECT list(n ORDER BY n) AS l FROM all_of_it"))["rows"] == [{"l": [2, 10]}]
        assert (await db("execute", sql="SELECT n FROM t", session_id=session))["rows"] == [{"n": 1}]  # as it began
        await db("rollback", session_id=session)


async def test_a_file_that_is_broken_now_fails_calls_until_it_is_whole(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", "SELECT 1 AS n")
    whole = (tmp_path / "a.parquet").read_bytes()
    async with opened(DuckdbNode, {"files": {"t": "a.parquet"}}, root=str(tmp_path)) as db:
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 1}]
        (tmp_path / "a.parquet").write_bytes(whole[:-10])
        error = await db.refusal("query", sql="SELECT n FROM t")
        assert isinstance(error, Unavailable)
        assert str(tmp_path) not in error.message
        (tmp_path / "a.parquet").write_bytes(whole)
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 1}]


SMALL = {"memory_limit": "100MB", "threads": 1}
"""A copy of `LARGE` rows has no room in it."""
LARGE = 2_000_000


def large(path: Path, rows: int = LARGE) -> None:
    select = f"SELECT range AS n, 'a text that takes some room in memory, number ' || range AS t FROM range({rows})"
    duckdb.execute(f"COPY ({select}) TO '{path}'")


@pytest.mark.promise("data:files:any-size")
@pytest.mark.parametrize("name", ["large.csv", "large.parquet", "large.csv.gz"])
async def test_files_that_are_too_large_to_copy_are_read_where_they_are(tmp_path: Path, name: str) -> None:
    large(tmp_path / name)
    (tmp_path / "small.csv").write_text("n\n999999\n2000000\n")
    config = {**SMALL, "files": {"large": name, "small": "small.csv"}}
    async with opened(DuckdbNode, config, root=str(tmp_path)) as db:
        joined = await db("query", sql="SELECT count(*) AS c, max(t) AS t FROM large JOIN small USING (n)")
        assert joined["rows"] == [{"c": 1, "t": "a text that takes some room in memory, number 999999"}]
        assert (await db("query", sql="SELECT count(*) AS c FROM large"))["rows"] == [{"c": LARGE}]
        assert [c["column"] for c in (await db("get_schema"))["tables"]["large"]["columns"]] == ["n", "t"]


@pytest.mark.promise("data:files:any-size")
async def test_large_tables_follow_their_files_and_what_is_being_read_goes_on(tmp_path: Path) -> None:
    large(tmp_path / "a.csv")
    (tmp_path / "small.csv").write_text("n\n1\n")
    config = {**SMALL, "files": {"t": "?.csv", "small": "small.csv"}}
    async with opened(DuckdbNode, config, root=str(tmp_path)) as db:

        async def count() -> int:
            return (await db("query", sql="SELECT count(*) AS c FROM t, small"))["rows"][0]["c"]

        assert await count() == LARGE
        large(tmp_path / "b.csv", 10)  # one that the instance may not read yet
        assert await count() == LARGE + 10
        (tmp_path / "small.csv").write_text("n\n1\n2\n")
        assert await count() == 2 * (LARGE + 10)
        (tmp_path / "a.csv").write_text("n,t\n1,x\n")  # small now
        assert await count() == 2 * 11
        large(tmp_path / "a.csv")
        assert await count() == 2 * (LARGE + 10)
        (tmp_path / "a.csv").unlink()
        (tmp_path / "b.csv").unlink()
        error = await db.refusal("query", sql="SELECT * FROM t")
        assert isinstance(error, Unavailable)


@pytest.mark.promise("data:files:any-size")
def test_an_instance_reads_the_large_files_alone_and_writes_none(tmp_path: Path) -> None:
    large(tmp_path / "large.csv")
    written = (tmp_path / "large.csv").stat().st_mtime_ns
    (tmp_path / "other.csv").write_text("secret\n42\n")
    settings = DuckdbSettings(MEMORY, "", False, False, "100MB", 1, folder=str(tmp_path))
    session = DuckdbSession(DuckdbInstance(settings))
    here = os.getcwd()
    try:
        assert session.do(1, SqlLoad({"large": [str(tmp_path / "large.csv")]})) == Ok()
        for statement in (
            f"FROM read_csv('{tmp_path / 'other.csv'}')",
            "FROM read_text('other.csv')",
            "FROM glob('*')",
            "COPY (SELECT 1) TO 'other.csv'",
            "COPY (SELECT 1) TO 'large.csv' (USE_TMP_FILE false)",
            "ATTACH 'new.db'",
        ):
            with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)):
                session.do(2, SqlRun("read", statement, [], False, 10))
            session.do(3, SqlRollback(is_answered=True))
    finally:
        session.close()
        os.chdir(here)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.csv", "other.csv"]
    assert (tmp_path / "large.csv").stat().st_mtime_ns == written


@pytest.mark.promise("data:files:any-size")
def test_rows_that_are_being_read_and_copies_of_servers_outlive_the_next_instance(tmp_path: Path) -> None:
    large(tmp_path / "large.csv")
    settings = DuckdbSettings(MEMORY, "", False, False, "100MB", 1, attached=("crm",), folder=str(tmp_path))
    instance = DuckdbInstance(settings)
    reader, loader = DuckdbSession(instance), DuckdbSession(instance)
    made = instance.connection().cursor
    made.execute("CREATE SCHEMA crm.sales")
    made.execute("CREATE TABLE crm.sales.customer AS SELECT 7 AS id, 1.50::DECIMAL(30, 2) AS paid, NULL::UUID AS key")
    here = os.getcwd()
    try:
        first = reader.do(1, SqlRun("read", "SELECT range AS n FROM range(10000)", [], False, 5000))
        loader.do(1, SqlLoad({"large": [str(tmp_path / "large.csv")]}))
        rest = reader.do(2, SqlFetch(10_000))
        reader.rest()
        assert isinstance(first, SqlRows)
        assert isinstance(rest, SqlRows)
        assert [n for (n,) in first.rows + rest.rows] == list(range(10_000))
        sql = "SELECT id, paid, key, typeof(key), count(n) FROM crm.sales.customer, large GROUP BY ALL"
        there = reader.do(3, SqlRun("read", sql, [], False, 10))
        assert isinstance(there, SqlRows)
        assert there.rows == [[7, "1.50", None, "UUID", LARGE]]
    finally:
        os.chdir(here)
        for session in (reader, loader):
            session.close()


@pytest.mark.promise("data:files:any-size")
async def test_large_files_are_read_by_any_name_and_in_a_folder_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "there [1]").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "there [1]")
    names = {"a": "sales [2026].csv", "b": "b*.csv", "c": "~c.csv", "d": "it's.csv"}
    large(tmp_path / "large.csv")
    for name in names.values():
        os.link(tmp_path / "large.csv", tmp_path / "root" / name)
    async with opened(DuckdbNode, {**SMALL, "files": names}, root=str(tmp_path / "root")) as db:
        for table in names:
            answer = await db("query", sql=f"SELECT max(n) AS n FROM {table}")
            assert answer["rows"] == [{"n": LARGE - 1}]


async def test_a_view_in_a_schema_of_a_file_is_not_taken_for_a_table_of_the_same_name(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "crm.db")) as crm:
        crm.executescript("CREATE TABLE t (n); INSERT INTO t VALUES (1); CREATE VIEW orders AS SELECT * FROM absent")
    (tmp_path / "orders.csv").write_text("n\n1\n")
    async with opened(DuckdbNode, {"files": {"crm": "crm.db", "orders": "orders.csv"}}, root=str(tmp_path)) as db:
        for number in (1, 2):
            (tmp_path / "orders.csv").write_text(f"n\n{number}\n")
            assert (await db("query", sql="SELECT orders.n FROM orders, crm.t"))["rows"] == [{"n": number}]


@pytest.mark.promise("data:files:any-size")
async def test_a_long_statement_tells_how_far_it_is() -> None:
    told: list[float] = []

    def report(value: float, *_: object) -> None:
        told.append(value)

    async with opened(DuckdbNode, {"threads": 1}) as db:
        sql = "SELECT max(hash(range::varchar || 'x')) AS h FROM range(2000000000)"
        asked = asyncio.create_task(db.client.tool(tool="query", node_id="db", input={"sql": sql}, progress=report))
        while not told:
            await asyncio.sleep(0.01)
            assert not asked.done(), "the statement is too short"
        asked.cancel()
    assert 0 <= told[0] <= 100
