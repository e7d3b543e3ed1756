"""The statements that PostgreSQL, MariaDB and SQLite test themselves with: `query` answers what the driver alone answers.

Each script runs in a database of its own, by the driver; each of its reading statements is asked of both. A refusal has a
reason that stands here.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from comparison import Comparison, mysql_alone, postgres_alone, sqlite_alone
from corpus_scripts import READING, TEMPORARY, mysqltest, psql, tcl
from mariadb_server import running_mariadb
from postgres_server import DEBIAN_POSTGRES, Database, running_postgres
from sql_contract import opened

from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.mysql import MysqlBackend, MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.nodes.sql.sqlite import SqliteNode, _text_or_bytes

pytestmark = [pytest.mark.system, pytest.mark.timeout(600), pytest.mark.promise("data:statement:as-written")]

POSTGRES: Final = sorted(
    words("""
alter_table arrays bit boolean box case char circle date domain enum expressions float4 float8 groupingsets horology inet
int2 int4 int8 interval json json_encoding jsonb jsonb_jsonpath limit macaddr money multirangetypes name numeric numerology
oid oidjoins path pg_lsn point polygon privileges rangefuncs rangetypes regex regproc rowtypes select select_distinct
select_having strings subselect sysviews text time timestamp timestamptz timetz tsdicts tstypes tsrf txid unicode union
updatable_views uuid varchar window with xid xml
""")
)
MARIADB: Final = sorted(
    words("""
brackets case cast compare cte_recursive date_formats derived except func_bit func_date_add func_extract func_if func_json
func_like func_math func_op func_regexp func_set func_str func_time func_timestamp having intersect null_key parser
precedence type_bit type_date type_datetime type_decimal type_float type_newdecimal type_num type_time type_timestamp
type_year union varbinary win_lead_lag
""")
)
STRIDE: Final = 12
"""Of SQLite's scripts one is taken of so many."""
EVERY: Final = max(1, int(os.environ.get("RREXT_SQL_EVERY", "5")))
"""Of the scripts of the servers one is taken of so many: all of them take minutes."""

SETTINGS: Final = {
    "PostgreSQL's own": ("Postgres, MDY", "PST8PDT", "postgres_verbose"),
    "a new server's": ("ISO, MDY", "UTC", "postgres"),
}
"""DateStyle, TimeZone and IntervalStyle of the session."""

REASONS: Final[Mapping[str, str]] = {
    r"lo_\w+|loread|lowrite": "works on large objects",
    r"pg_(?:try_)?advisory_\w+|get_lock|release_lock|release_all_locks": "takes or frees locks",
    r"nextval|currval|lastval|setval|setseed|set_config": "is of the session, or changes it",
    r"pg_sleep\w*|sleep|benchmark": "holds a connection up",
    r"\w+_to_xml\w*|ts_stat|ts_rewrite": "runs a text as a statement",
    r"pg_ls_\w+|pg_read_\w+|pg_stat_file|load_file": "reads files",
    r"txid_current|pg_current_xact_id|pg_stat_(?:reset\w*|force_next_flush|clear_snapshot)": "moves the server's state on",
    r"pg_notify|pg_log_backend_memory_contexts|pg_cancel_backend|pg_terminate_backend|pg_reload_conf": "tells others something",
    r"brin_\w+|gin_\w+|pg_import_system_collations|pg_switch_wal|pg_create_restore_point": "changes what the server stores",
    r"\w+in|\w+_in|\w+_recv|amvalidate|currtid2|pg_nextoid|binary_upgrade_\w+": "is for the server's own use",
    r"master_\w+|binlog_\w+|wsrep_\w+": "waits for other servers",
}
"""Functions of the server itself that are refused, and why."""
OTHERS: Final[Mapping[str, str]] = {
    r"function \"(?:\w+\.)?\"?\w": "a function that the script made, of which nothing is known",
    'function "oj"': "a join in ODBC's braces",
    "is no query|UPDATE writes|DELETE writes": "a statement that is no query, behind WITH or EXPLAIN",
    "INTO writes": "SELECT … INTO makes a table or sets a variable",
    "take locks|takes locks|LOCK": "takes locks",
    "assigns a variable": ":= in MySQL",
    "asks who runs it": "what the user is shown beside what a user made, where statements run as pg_read_all_data",
    "read in two ways|sql_mode": "a comment or a number that servers read otherwise",
}
"""Parts of a message, and why."""
CHANGING: Final = re.compile(
    r"\b(?:now|random|rand|clock_timestamp|timeofday|current_\w+|localtime\w*|statement_timestamp|transaction_timestamp|pg_backend_pid|"
    r"txid_\w+|pg_current_\w+|gen_random_uuid|uuid\w*|ctid|xmin|cmin|tableoid|pg_stat\w*|pg_locks|age|oid|\w+_size|curdate|curtime|sysdate|"
    r"unix_timestamp|connection_id|utc_\w+|found_rows|row_count|last_insert_id|changes|total_changes|last_insert_rowid|sqlite_\w+|date|"
    r"time|datetime|julianday|strftime|default)\s*\(|\b(?:current_\w+|localtime\w*|ctid|xmin|tableoid|pg_stat\w*|pg_locks|sqlite_stmt|"
    r"information_schema|\w*relfilenode|fts3_tokenizer|pg_cursors)\b|@|2147483647|reg(?:class|proc|type|oper)",
    re.IGNORECASE,
)
"""What another session, or another moment, answers otherwise."""


@pytest.fixture(scope="module")
def corpora() -> Path:
    """The folder with the scripts, as .ci/run gets them from Debian's packages."""
    folder = Path(os.environ.get("RREXT_SQL_CORPORA", ""))
    if not (folder / "postgresql").is_dir():
        pytest.skip("set RREXT_SQL_CORPORA to a folder with the test suites of PostgreSQL, MariaDB and SQLite")
    return folder


class Corpus:
    """What came of all scripts of an engine."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.different: list[str] = []
        self.unexplained: list[str] = []

    def add(self, script: str, text: str, comparison: Comparison) -> None:
        self.counts += comparison.counts
        del self.counts["refused"]  # each is counted with its reason
        self.different += [f"{script}: {said}" for said in comparison.different if not CHANGING.search(said)]
        for sql, message in comparison.refused:
            found = re.search(r'function "(?:\w+\.)?([^"]*)"', message)
            named = found[1] if found else ""
            kinds = f"{re.escape(named)}|{re.escape(named.replace('multirange', 'range'))}"  # a type of ranges brings the other
            made = named and re.search(rf"\bcreate\b[^;]*\b(?:{kinds})\b", text, re.IGNORECASE)
            own = next((why for name, why in REASONS.items() if re.fullmatch(name, named, re.IGNORECASE)), None)
            others = OTHERS if made else dict(list(OTHERS.items())[1:])
            other = next((why for part, why in others.items() if re.search(part, message)), None)
            self.counts[f"refused: {own or other}"] += 1
            if own is None and other is None:
                self.unexplained.append(f"{script}: {sql}: {message}")

    def check(self, least: int) -> None:
        print(*sorted(self.counts.items()), sep="\n")
        assert not self.different, "\n".join(self.different)
        assert not self.unexplained, "\n".join(self.unexplained)
        assert self.counts["same"] >= least, self.counts


def text_of(script: Path) -> str:
    return script.read_text(errors="replace")


def scripts_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.test"))


def make_postgres(connection: Any, statements: Iterator[tuple[str, str]]) -> None:
    """Run statements, and go on after one that fails."""
    import psycopg

    for sql, rows in statements:
        with suppress(psycopg.Error):
            if rows:
                with connection.cursor().copy(sql.encode()) as copy:
                    copy.write(rows.encode())
            elif not sql.lower().startswith("copy"):
                connection.execute(TEMPORARY.sub(r"\1", sql).encode())


async def replay_postgres(script: Path, database: Database, corpus: Corpus) -> None:
    import psycopg

    from rrext.nodes.sql.postgres.rows import adapters  # how values are read: rrext's, with the driver alone

    text = text_of(script.with_name("test_setup.sql")) + text_of(script)
    with (
        psycopg.connect(database.url, autocommit=True) as maker,
        psycopg.connect(database.url, autocommit=True, context=adapters(), prepare_threshold=None) as driver,
    ):
        driver.execute("SET default_transaction_read_only = on")
        async with opened(PostgresNode, {**database.settings, "statement_timeout": 5}) as desk:
            comparison = Comparison(desk, postgres_alone(driver, database), psycopg.Error, in_order=False)
            for sql, rows in psql(text_of(script), script.parents[1]):
                if READING.match(sql) and not re.search(r":['\"]|(?<![:\w]):[a-z]", re.sub(r"'(?:[^']|'')*'", "''", sql)):
                    await comparison.ask(sql)
                make_postgres(maker, iter([(sql, rows)]))
    corpus.add(script.stem, text, comparison)


@pytest.mark.parametrize("settings", SETTINGS)
async def test_postgresqls_own_tests_are_answered_as_the_driver_answers_them(corpora: Path, settings: str) -> None:
    folder = corpora / "postgresql/src/test/regress/sql"
    corpus = Corpus()
    with running_postgres(DEBIAN_POSTGRES, statement_timeout="5s", lock_timeout="300ms") as server:
        base = server.create_database("base")
        with base.connect() as maker:
            make_postgres(maker, psql(text_of(folder / "test_setup.sql"), folder.parent))
        for script in POSTGRES[:: EVERY if settings == "PostgreSQL's own" else 3 * EVERY]:
            server._administer("DROP DATABASE IF EXISTS corpus WITH (FORCE)", "CREATE DATABASE corpus TEMPLATE base")
            for name, value in zip(("DateStyle", "TimeZone", "IntervalStyle"), SETTINGS[settings], strict=True):
                server._administer(f"ALTER DATABASE corpus SET {name} = '{value}'")
            await replay_postgres(folder / f"{script}.sql", server.database("corpus"), corpus)
    corpus.check(800 if settings == "PostgreSQL's own" else 100)


async def test_mariadbs_own_tests_are_answered_as_the_driver_answers_them(corpora: Path) -> None:
    import pymysql

    corpus = Corpus()
    limits = {"innodb-lock-wait-timeout": "1", "lock-wait-timeout": "1", "max-statement-time": "5"}
    with running_mariadb(**limits) as server:
        for script in MARIADB[::EVERY]:
            text = text_of(corpora / "mariadb/main" / f"{script}.test")
            settings = server.create_database(f"corpus_{script}").settings
            conversions = MysqlBackend(dict(settings), statement_timeout=0)._options["conv"]
            place: dict[str, Any] = {**settings, "autocommit": True, "charset": "utf8mb4"}
            with pymysql.connect(**place) as maker, pymysql.connect(**place, conv=conversions) as driver:
                async with opened(MysqlNode, {**settings, "statement_timeout": 5}) as desk:
                    comparison = Comparison(desk, mysql_alone(driver), (pymysql.MySQLError, UnicodeError), in_order=False)
                    for sql in mysqltest(text):
                        if READING.match(sql):
                            with suppress(pymysql.MySQLError):
                                maker.commit()
                            await comparison.ask(sql)
                        elif not re.match(
                            r"(?i)\s*(?:set\s+(?:@@)?global|shutdown|kill|flush|use\b|reset|lock|xa\b|handler)", sql
                        ):
                            with suppress(pymysql.MySQLError, RuntimeError), maker.cursor() as cursor:
                                cursor.execute(TEMPORARY.sub(r"\1", sql))
            corpus.add(script, text, comparison)
    corpus.check(800)


async def test_sqlites_own_tests_are_answered_as_the_driver_answers_them(corpora: Path, tmp_path: Path) -> None:
    corpus = Corpus()
    for number, script in enumerate(scripts_of(corpora / "sqlite")[::STRIDE]):
        text, path = text_of(script), tmp_path / f"{number}.db"
        maker = sqlite3.connect(path, isolation_level=None, timeout=0.1)
        driver = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=0.1)
        driver.text_factory = _text_or_bytes
        for connection in (maker, driver):
            connection.set_progress_handler(iter([0] * 5000).__next__, 100_000)  # fails when there are no more
        async with opened(SqliteNode, {"path": str(path), "statement_timeout": 5, "lock_timeout": 0.1}) as desk:
            comparison = Comparison(desk, sqlite_alone(driver), (sqlite3.Error, UnicodeError), in_order=False)
            for sql in tcl(text):
                if READING.match(sql):
                    await comparison.ask(sql)
                elif not re.match(r"(?i)\s*(?:attach|detach|vacuum|pragma(?!\s+(?:encoding|page_size|auto_vacuum)))", sql):
                    with suppress(sqlite3.Error, sqlite3.Warning):
                        maker.execute(TEMPORARY.sub(r"\1", sql)).fetchall()
        maker.close()
        driver.close()
        corpus.add(script.stem, text, comparison)
    corpus.check(500)
