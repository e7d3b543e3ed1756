"""The gate alone: every attack is refused or is the database's own to hold, and every refusal says what is wrong and where."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from time import thread_time
from typing import Any

import pytest
from pace import is_within
from reading_statements import READING
from sql_attacks import attacks
from sql_dialects import DIALECTS

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.sql import gate as gate_module
from rrext.nodes.sql.gate import MAX_STATEMENT, SqlGate, read_only
from rrext.nodes.sql.lexer import MAX_TOKENS

LEFT_TO_THE_DATABASE = {
    "SELECT * FROM secret_frame",  # a name is as good as a table's
    "SELECT (v).destroy_row FROM victim v",  # `(v).f` is as good as a column's, unless PostgreSQL itself has a function `f`
}


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "sqlite"])
def test_every_attack_is_refused_but_for_those_that_only_the_database_can_tell(dialect: str) -> None:
    gate = SqlGate(DIALECTS[dialect])
    passed: set[str] = set()
    codes: set[str] = set()
    for attack in attacks(dialect):
        sql = attack.sql.replace("{secret}", "/d/secret").replace("{out}", "/d/out").replace("{folder}", "/d")
        try:
            gate.read_only(sql)
            passed.add(sql)
        except (ToolError, InvalidArguments) as error:
            codes.add(error.code)
    assert codes <= {"not_read_only", "invalid_arguments"}
    assert passed <= LEFT_TO_THE_DATABASE


def test_sqlite_itself_judges_functions_and_pragmas_and_the_gate_the_rest() -> None:
    gate = SqlGate(DIALECTS["sqlite"])
    for attack in attacks("sqlite"):
        try:
            gate.read_only(attack.sql)
        except RrextError:
            continue
        assert "(" in attack.sql or attack.sql.startswith("PRAGMA"), attack.sql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_there_are_at_least_sixty_attacks_and_a_hundred_statements_that_read(dialect: str) -> None:
    assert len(attacks(dialect)) >= 60
    assert len(READING[dialect]) >= 100


@pytest.mark.promise("data:statement:as-written")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_passes_is_sent_as_it_was_written(dialect: str) -> None:
    gate = SqlGate(DIALECTS[dialect])
    for sql in READING[dialect]:
        assert gate.read_only(sql).sql == sql
        assert gate.read_only(f"\n {sql} -- the end\n ;").sql == f"\n {sql} -- the end\n ;"


def test_comments_and_hints_are_sent_unless_a_server_may_run_them() -> None:
    for sql in ("SELECT /* a */ 1 -- b\n, 3 # c", "SELECT /*+ MAX_EXECUTION_TIME(10) NO_INDEX_MERGE(t) */ 1"):
        assert read_only(sql, DIALECTS["mysql"]).sql == sql
    for sql in ("SELECT 1 /*! , 2 */", "SELECT 1 /*!50000 + 41 */", "SELECT 1 /*M!100100 + 1 */", "/*m!SELECT 1*/"):
        with pytest.raises(InvalidArguments, match="two ways"):
            read_only(sql, DIALECTS["mysql"])
    for dialect in ("mysql", "postgres"):
        with pytest.raises(InvalidArguments, match="setting"):
            read_only("SELECT /*+ SET_VAR(max_execution_time=0) */ 1", DIALECTS[dialect])


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("mysql", "SELECT 'a\\', LOAD_FILE(0x41), 'b'"),  # NO_BACKSLASH_ESCAPES: the first literal ends before the comma
        ("mysql", 'SELECT "a\\", LOAD_FILE(0x41), "b"'),  # and so does a name under ANSI_QUOTES
        ("mysql", "SELECT 1e5INTO OUTFILE '/x'"),
        ("mysql", 'SELECT "load_file"(0x41)'),
        ("mysql", "SELECT 1_0(2)"),
        ("postgres", "SELECT E'a'\n'\\', pg_read_file('x'), '"),  # the second literal goes on with escapes
        ("postgres", "SELECT 1--\rDELETE"),
        ("postgres", "SELECT 1.into"),
        ("postgres", "SELECT DISTINCT ON (a) pg_read_file('x') FROM t"),
        ("postgres", "SELECT 1 OPERATOR(pg_catalog.+) pg_read_file('x')"),
        ("postgres", "SELECT * FROM t, dblink_exec(a) AS (values int)"),
        ("postgres", "SELECT pg_catalog.pg_read_file FROM unnest(ARRAY['x']) pg_catalog"),
        ("postgres", "SELECT U&\"pg\\005fread_file\"('x')"),
        ("postgres", 'SELECT "LOWER"(a) FROM t'),
        ("postgres", "SELECT ('/x'::text).pg_read_file \"(\""),
        ("postgres", "SELECT pg_catalog.pg_read_file FROM lower('/x') AS U&\"pg_catalog\""),
        ("postgres", "SELECT * FROM (SELECT 'a' AS c) s, dblink(c, c) AS (\"select\" text)"),
        ("postgres", "SELECT 1 INTO name"),
        ("postgres", "SELECT (0.9::real).set_limit"),
        ("mysql", "SELECT @a. INTO OUTFILE '/x'"),
        ("mysql", "SELECT 1, @. INTO DUMPFILE '/x'"),
        ("mysql", "SELECT @a. LOCK IN SHARE MODE"),
        ("duckdb", "FROM t PIVOT (sum(x) FOR a IN (1, 2) sleep_ms(300) IN (1))"),
        ("duckdb", "WITH a AS (SELECT 1) delete\u200bFROM t"),
        ("duckdb", "SELECT x\u2028e'\\', read_text('y'), '"),
        ("duckdb", "SELECT * FROM `read_text`('x')"),
        ("duckdb", "SELECT ('x').read_text()"),
        ("duckdb", "SELECT * FROM read_text /* a */ ('x')"),
        ("duckdb", "SELECT trim('x' FROM 'y'), a FROM 'z'"),
    ],
)
def test_a_statement_is_refused_if_a_server_may_read_it_as_one_that_does_more(dialect: str, sql: str) -> None:
    with pytest.raises(RrextError) as caught:
        read_only(sql.replace("\\n", "\n").replace("\\r", "\r"), DIALECTS[dialect])
    assert caught.value.code in ("not_read_only", "invalid_arguments")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'it\\'s'",
        "SELECT 'it\\'s', 'that\\'s', \"a\\\"b\"",
        "SELECT 'a\\\\', upper('b')",
        "SELECT REPLACE(a, '\\\\', '/') FROM t",
    ],
)
def test_backslashes_of_mysql_are_no_reason_to_refuse(sql: str) -> None:
    assert read_only(sql, DIALECTS["mysql"]).sql == sql


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("duckdb", "PRAGMA table_info('t')"),
        ("duckdb", "EXPLAIN (FORMAT json) SELECT 1"),
        ("duckdb", "SELECT a FROM t WHERE a IS NOT DISTINCT FROM 'x'"),
        ("duckdb", "WITH RECURSIVE t(a, b) USING KEY (a) AS (SELECT 1, 2) FROM t"),
        ("duckdb", "UNPIVOT t ON a, b INTO NAME month VALUE sales"),
        ("postgres", "SELECT l.lo_revenue FROM lineorder l"),
        ("postgres", "SELECT calls FROM public.pg_stat_statements"),
        ("postgres", "SELECT lock FROM t WHERE lock IN ('a', 'b')"),
        ("postgres", "SELECT insert, update, delete FROM g"),
        ("postgres", "SELECT substring(s FOR key) FROM t"),
        ("mysql", "SHOW ENGINE innodb STATUS"),
        ("mysql", "DESCRIBE plan"),
        ("mysql", "DESCRIBE `load`"),
        ("mysql", "EXPLAIN FORMAT='json' SELECT 1"),
        ("mysql", "SELECT @update, @a.b FROM t"),
    ],
)
def test_words_that_only_look_like_writing_pass(dialect: str, sql: str) -> None:
    assert read_only(sql, DIALECTS[dialect]).sql == sql


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM a.", "SELECT * FROM a.b.", "FROM x.", "DESCRIBE x.", "EXPLAIN", "SHOW", "(", "PRAGMA"]
)
def test_a_statement_that_ends_too_early_is_left_to_the_database_or_refused(sql: str) -> None:
    for dialect in DIALECTS:
        with contextlib.suppress(InvalidArguments, ToolError):
            read_only(sql, DIALECTS[dialect])


@pytest.mark.parametrize(("sql", "sign"), [("SELECT\n 'abc", "'"), ('SELECT\n "abc', '"'), ("SELECT 1\n 'a''", "'")])
def test_what_is_not_closed_is_named(sql: str, sign: str) -> None:
    with pytest.raises(InvalidArguments, match=f"line 2, column 2: {sign} is not closed"):
        read_only(sql, DIALECTS["postgres"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_word_that_begins_no_statement_is_a_syntax_error_with_its_place(dialect: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        read_only("-- why\n  selct 1", DIALECTS[dialect])
    assert caught.value.message == '/input/sql: line 2, column 3: syntax error near "selct"'
    assert caught.value.hint == "Did you mean SELECT?"
    assert (caught.value.data["line"], caught.value.data["column"]) == (2, 3)
    assert caught.value.data["errors"][0]["path"] == "/input/sql"


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("postgres", "SELECT * INTO x FROM t", "INTO"),
        ("postgres", "SELECT * FROM t FOR UPDATE", "locks"),
        ("postgres", "SELECT pg_read_file('x')", '"pg_read_file"'),
        ("mysql", "SELECT @a := 1", ":="),
        ("duckdb", "FROM 'a.csv'", "file"),
        ("sqlite", "ATTACH 'x' AS y", "ATTACH"),
        ("mysql", "SELECT 1 INTO OUTFILE '/x'", "INTO"),
        ("postgres", "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", "DELETE"),
        ("postgres", "SELECT uper(a) FROM t", '"uper"'),
    ],
)
def test_a_refusal_says_why(dialect: str, sql: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_only(sql, DIALECTS[dialect])
    assert caught.value.code == "not_read_only"
    assert said in caught.value.message


def test_functions_of_the_operator_pass_by_name_or_pattern() -> None:
    for allowed in ("my_total", "my_*", "sales.my_total"):
        sql = "SELECT sales.my_total(1)" if "." in allowed else "SELECT my_total(1)"
        assert read_only(sql, DIALECTS["postgres"], [allowed]).sql == sql
    with pytest.raises(ToolError) as caught:
        read_only("SELECT my_total(1)", DIALECTS["postgres"])
    assert "allowed_functions" in (caught.value.hint or "")


def test_the_schema_of_a_known_function_has_to_be_the_systems_own() -> None:
    assert read_only("SELECT pg_catalog.lower('A')", DIALECTS["postgres"]).sql == "SELECT pg_catalog.lower('A')"
    with pytest.raises(ToolError):
        read_only("SELECT evil.lower('A')", DIALECTS["postgres"])


def test_the_tables_are_named_without_those_of_with() -> None:
    sql = 'WITH a AS (SELECT * FROM s.t) SELECT * FROM a JOIN "U" ON true JOIN s.t ON true'
    assert sorted(read_only(sql, DIALECTS["postgres"]).tables) == ["U", "s.t"]


def test_placeholders_stay_what_they_are() -> None:
    for dialect in DIALECTS:
        assert read_only("SELECT $1, $12 FROM t WHERE a = $2", DIALECTS[dialect]).sql == "SELECT $1, $12 FROM t WHERE a = $2"
    for sql in ("SELECT ?", "SELECT :a"):
        with pytest.raises(InvalidArguments, match="a parameter is written"):
            read_only(sql, DIALECTS["sqlite"])


def test_statements_are_bounded_by_named_limits() -> None:
    for sql, limit in (("SELECT " + " " * MAX_STATEMENT, "MAX_STATEMENT"), ("SELECT " + "a+" * MAX_TOKENS, "MAX_TOKENS")):
        with pytest.raises(InvalidArguments) as caught:
            read_only(sql, DIALECTS["postgres"])
        assert caught.value.data["limit"] == limit
    numbers = ", ".join(map(str, range(100_000)))
    assert read_only(f"SELECT * FROM t WHERE a IN ({numbers})", DIALECTS["postgres"]).kind == "select"


LONG = 300_000
"""Characters: steps that grow with the square of a text would take seconds for it."""
PIECES = {
    "joins": ("select * from a ", "join b "), "structs": ("select ", "struct("),
    "casts": ("select ", "cast(1 as decimal("), "brackets": ("select ", "("), "pairs": ("select ", "()"),
    "quotes": ("select ", "''"), "double quotes": ("select ", "\"\""), "escaped quotes": ("select '", "\\'"),
    "backslashes": ("select '", "\\\\"), "open": ("select '", "a"), "comments": ("select ", "/* */"),
    "comments that open": ("select ", "/*"), "stars": ("select /*", "*"),
    "comments in a comment": ("select /*", "/* */"), "lines": ("select ", "--\n"), "list": ("select 1 in (1", ",1"),
    "list with blanks": ("select 1 in (1", ",1 "), "literals": ("select 1 in (''", ",'abc'"), "dots": ("select ", "a."),
    "catalog": ("select ", "pg_catalog.x "), "commas": ("select ", ","), "blanks": ("select ", " "),
    "dollars": ("select ", "$"), "dollar quotes": ("select ", "$a$ "), "placeholders": ("select ", "$1,"),
    "signs": ("select ", "+-"), "calls": ("select ", "upper("), "queries": ("with ", "a(b),"),
    "queries in queries": ("with ", "a(b) as (select "), "escapes": ("select ", "e'a' "),
    "literals that go on": ("select ", "e'a'--\n "), "letters": ("select ", "é "), "backticks": ("select ", "``"),
    "quote in quote": ("select ", "'\""),
}  # fmt: skip
"""What → how a statement begins, and what it repeats up to a megabyte."""
SWALLOWED = {
    *("quotes", "double quotes", "escaped quotes", "backslashes", "open", "stars", "comments in a comment", "list"),
    *("list with blanks", "literals", "blanks", "letters", "backticks", "lines"),
}
"""Those of which one step of the scan may pass over much; the others are a step a word."""


@pytest.mark.promise("data:gate:linear")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_text_of_anything_is_judged_in_little_time_and_no_step_stops_other_threads(dialect: str) -> None:
    """Processor time of this thread alone; the longest call of a function in C is the longest time without other threads."""
    gate = SqlGate(DIALECTS[dialect])
    for name, (head, piece) in PIECES.items():
        sql = head + piece * ((LONG - len(head)) // len(piece))
        assert is_within(0.1, partial(_judging, gate, sql)), name
        if name in SWALLOWED:
            assert is_within(0.01, partial(_longest_step, gate, sql)), name


def _judging(gate: SqlGate, sql: str) -> float:
    began = thread_time()
    with contextlib.suppress(RrextError):
        gate.read_only(sql)
    gate._entries.clear()
    return thread_time() - began


def _longest_step(gate: SqlGate, sql: str) -> float:
    began = longest = 0.0

    def watch(frame: Any, event: str, argument: Callable[..., Any]) -> None:
        nonlocal began, longest
        if event == "c_call":
            began = thread_time()
        elif event == "c_return":
            longest = max(longest, thread_time() - began)

    sys.setprofile(watch)
    try:
        _judging(gate, sql)
    finally:
        sys.setprofile(None)
    return longest


def test_what_is_remembered_is_bounded_in_number_and_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "CACHE_ENTRIES", 3)
    gate = SqlGate(DIALECTS["sqlite"])
    first = gate.read_only("SELECT 0")
    assert gate.read_only("SELECT 0") is first
    for number in range(1, 4):
        gate.read_only(f"SELECT {number}")
    assert repr(gate) == "<Gate sqlite, 3 statements>"
    assert gate.read_only("SELECT 0") is not first
    monkeypatch.setattr(gate_module, "CACHE_BYTES", 40)
    gate.read_only(f"SELECT '{'x' * 100}'")
    assert repr(gate) == "<Gate sqlite, 0 statements>"


def test_a_refusal_is_not_remembered_as_a_statement() -> None:
    gate = SqlGate(DIALECTS["sqlite"])
    for _ in range(2):
        with pytest.raises(ToolError):
            gate.read_only("DELETE FROM t")
    assert repr(gate) == "<Gate sqlite, 0 statements>"


def test_many_threads_may_use_one_gate() -> None:
    gate = SqlGate(DIALECTS["duckdb"])
    wrong: list[str] = []

    def ask(thread: int) -> None:
        for number in range(40):
            sql = f"SELECT {number} + {thread % 2}"
            if gate.read_only(sql).sql != sql:
                wrong.append(sql)

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "mysql"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t i1(x, y)",
        "SELECT x FROM s.t i1(x), u AS a, v i2(y) WHERE x = y",
        "SELECT x FROM a JOIN t i1(x) ON a.x = i1.x, u i2(y), (SELECT 1) i3(z)",
        "SELECT x FROM (t i1(x) JOIN u i2(y) ON x = y), ((v i3(z)))",
        "SELECT x FROM (SELECT 1 FROM t i1(x)) s WHERE EXISTS (SELECT 1 FROM a, b i2(y)) ORDER BY x",
    ],
)
def test_a_table_is_named_with_its_columns_without_as(dialect: str, sql: str) -> None:
    assert read_only(sql, DIALECTS[dialect]).sql == sql


@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "mysql"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t act(x, y)",
        "SELECT a, key act(x)",
        "SELECT x FROM act(x, y)",
        "SELECT x FROM t, act(x, y)",
        "SELECT x FROM t, LATERAL act(x)",
        "SELECT x FROM t i1(act(x))",
        "SELECT x FROM t WHERE act(x)",
        "SELECT x FROM t WHERE y = t act(x)",
        "SELECT x FROM t GROUP BY y, t act(x)",
        "SELECT x FROM t ORDER BY y, t act(x)",
        "SELECT x FROM t LIMIT 1, key act(x)",
        "SELECT x FROM t UNION SELECT y, key act(x)",
        "SELECT substring('a' FROM x, key act(y))",
        "SELECT trim(x FROM key act(y))",
        "SELECT a IS DISTINCT FROM key act(x)",
        "SELECT a IS DISTINCT FROM b, key act(x)",
        "SELECT x FROM (a, key) WHERE b IN (c, key act(x))",
        "SELECT x FROM not act(x)",
        "SELECT x FROM (SELECT act(x)) s",
        "SELECT x FROM (t i1(x), act(y))",
        "SELECT substring('a' FROM (key act(y)))",
        "SELECT a IS DISTINCT FROM (key act(x))",
        "SELECT x FROM t JOIN u ON act(x)",
        "SELECT x FROM t JOIN u ON key act(x)",
    ],
)
def test_a_call_behind_a_word_is_no_name_of_a_table(dialect: str, sql: str) -> None:
    with pytest.raises(RrextError):
        read_only(sql, DIALECTS[dialect])


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_digits_have_underscores_in_every_part_of_a_number(dialect: str) -> None:
    for number in ("1_000.5", "1_000", "1_000.000_5", ".5_0", "1e1_0", "1_0.5e-1_0", "0x_ff"):
        sql = f"SELECT {number}, 1, {number}"
        assert read_only(sql, DIALECTS[dialect]).sql == sql
