"""The gate alone: every attack is refused or loses its sting, and every refusal says what is wrong and where."""

from __future__ import annotations

import threading

import pytest
from reading_statements import READING
from sql_attacks import attacks

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.sql import gate as gate_module
from rrext.nodes.sql.gate import Gate, read_only
from rrext.nodes.sql.grammar import MAX_NESTING, MAX_STATEMENT, MAX_TOKENS

DIALECTS = ("sqlite", "duckdb", "postgres", "mysql")
STINGLESS = {
    "SELECT 1 /*! ; DELETE FROM victim */": "SELECT 1",
    "SELECT 1 /*!50000 INTO OUTFILE '/d/out' */": "SELECT 1",
    "SELECT 1 /*! INTO OUTFILE '/d/out' */": "SELECT 1",
    "SELECT 1 /*M! INTO OUTFILE '/d/out' */": "SELECT 1",
    "SELECT 1 /*! FROM victim FOR UPDATE */": "SELECT 1",
    "SELECT /*! LOAD_FILE('/d/secret') */": "SELECT",
    "SELECT * FROM secret_frame": "SELECT * FROM secret_frame",
    "SELECT (v).destroy_row FROM victim v": "SELECT (v).destroy_row FROM victim AS v",
}
"""Attacks that pass without what was in their comments. The last two are for the database alone to hold: a name is as good
as a table's for the gate, and `(v).f` as good as a column's, unless `f` is one of PostgreSQL's own functions."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_attack_is_refused_or_passes_without_its_sting(dialect: str) -> None:
    gate = Gate(dialect)
    passed = {}
    codes: set[str] = set()
    for attack in attacks(dialect):
        sql = attack.sql.replace("{secret}", "/d/secret").replace("{out}", "/d/out").replace("{folder}", "/d")
        try:
            passed[sql] = gate.read_only(sql).sql
        except (ToolError, InvalidArguments) as error:
            codes.add(error.code)
    assert codes <= {"not_read_only", "invalid_arguments"}
    assert passed.items() <= STINGLESS.items()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_there_are_at_least_sixty_attacks_and_eighty_statements_that_read(dialect: str) -> None:
    assert len(attacks(dialect)) >= 60
    assert len(READING[dialect]) >= 80


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_passed_once_passes_again_unchanged(dialect: str) -> None:
    gate = Gate(dialect)
    for sql in READING[dialect]:
        try:
            sent = gate.read_only(sql).sql
        except RrextError:
            continue
        assert gate.read_only(sent).sql == sent
        assert "--" not in sent or "'--" in sent or "- -" in sent


def test_comments_are_never_sent() -> None:
    sql = "SELECT /* a */ 1 -- b\n, /*! 2 */ 3 # c"
    assert read_only(sql, "mysql").sql == "SELECT 1, 3"
    assert read_only("SELECT /*+ SET_VAR(max_execution_time=0) */ 1", "mysql").sql == "SELECT 1"


@pytest.mark.parametrize(("sql", "sign"), [("SELECT\n 'abc", "'"), ('SELECT\n "abc', '"'), ("SELECT 1\n 'a''", "'")])
def test_what_is_not_closed_is_named(sql: str, sign: str) -> None:
    with pytest.raises(InvalidArguments, match=f"line 2: {sign} is not closed"):
        read_only(sql, "postgres")


def test_a_syntax_error_names_line_and_column() -> None:
    with pytest.raises(InvalidArguments) as caught:
        read_only("SELECT a\nFROM t WHERE (", "postgres")
    assert caught.value.data["errors"][0]["path"] == "/input/sql"
    assert caught.value.data["line"] == 2
    assert "line 2" in caught.value.message
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("postgres", "SELECT * INTO x FROM t", "INTO"),
        ("postgres", "SELECT * FROM t FOR UPDATE", "locks"),
        ("postgres", "SELECT pg_read_file('x')", '"pg_read_file"'),
        ("mysql", "SELECT @a := 1", ":="),
        ("duckdb", "FROM 'a.csv'", "file"),
        ("sqlite", "PRAGMA query_only = OFF", "PRAGMA"),
    ],
)
def test_a_refusal_says_why(dialect: str, sql: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_only(sql, dialect)
    assert caught.value.code == "not_read_only"
    assert said in caught.value.message


def test_functions_of_the_operator_pass_by_name_or_pattern() -> None:
    for allowed in ("my_total", "my_*", "sales.my_total"):
        sql = "SELECT sales.my_total(1)" if "." in allowed else "SELECT my_total(1)"
        assert read_only(sql, "postgres", [allowed]).sql == sql
    with pytest.raises(ToolError) as caught:
        read_only("SELECT my_total(1)", "postgres")
    assert "allowed_functions" in (caught.value.hint or "")


def test_the_schema_of_a_known_function_has_to_be_the_systems_own() -> None:
    assert read_only("SELECT pg_catalog.lower('A')", "postgres").sql == "SELECT pg_catalog.lower('A')"
    with pytest.raises(ToolError):
        read_only("SELECT evil.lower('A')", "postgres")


def test_the_tables_are_named_without_those_of_with() -> None:
    sql = 'WITH a AS (SELECT * FROM s.t) SELECT * FROM a JOIN "U" ON true JOIN s.t ON true'
    assert sorted(read_only(sql, "postgres").tables) == ["U", "s.t"]


def test_placeholders_stay_what_they_are() -> None:
    for dialect in DIALECTS:
        assert read_only("SELECT $1, $12 FROM t WHERE a = $2", dialect).sql == "SELECT $1, $12 FROM t WHERE a = $2"
    for sql in ("SELECT ?", "SELECT :a"):
        with pytest.raises(InvalidArguments):
            read_only(sql, "sqlite")


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        ("SELECT " + "1, " * (MAX_STATEMENT // 3) + "1", "MAX_STATEMENT"),
        ("SELECT " + "1," * MAX_TOKENS + "1", "MAX_TOKENS"),
        ("SELECT " + "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1), "MAX_NESTING"),
        ("SELECT * FROM " + "(SELECT * FROM " * 20_000 + "t" + ")" * 20_000, "MAX_STATEMENT"),
        ("SELECT " + "NOT " * 9_000 + "a", "MAX_NESTING"),
        ("SELECT " + "- " * 9_000 + "1", "MAX_NESTING"),
        ("SELECT a" + "::int" * 9_000, "MAX_NESTING"),
    ],
    ids=["long", "many", "brackets", "subqueries", "not", "minus", "casts"],
)
def test_statements_are_bounded_by_named_limits(sql: str, limit: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        read_only(sql, "postgres")
    assert caught.value.data["limit"] == limit


def test_characters_that_the_gate_uses_itself_are_refused() -> None:
    for odd in "\0\ue000\ue001\ue002":
        with pytest.raises(InvalidArguments):
            read_only(f"SELECT 'a{odd}'", "sqlite")


def test_what_is_remembered_is_bounded_in_number_and_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "CACHE_ENTRIES", 3)
    gate = Gate("sqlite")
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
    gate = Gate("sqlite")
    for _ in range(2):
        with pytest.raises(ToolError):
            gate.read_only("DELETE FROM t")
    assert repr(gate) == "<Gate sqlite, 0 statements>"


def test_many_threads_may_use_one_gate() -> None:
    gate = Gate("duckdb")
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
