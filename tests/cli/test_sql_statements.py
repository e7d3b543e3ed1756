"""Where a statement of a text ends, in the words of each dialect."""

from __future__ import annotations

import sqlite3
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pace import is_within

from rrext.cli.commands.calls.sql_database import Statement, statements

DIALECTS = ("sqlite", "duckdb", "postgres", "mysql", "ladybug")


def cut(text: str, dialect: str = "postgres") -> list[str]:
    return [statement.text for statement in statements(text, dialect)]


def test_statements_end_at_a_semicolon_and_know_their_line() -> None:
    assert list(statements("select 1;\n\n select\n2 ;select 3", "sqlite")) == [
        Statement("select 1", 1, True),
        Statement("select\n2", 3, True),
        Statement("select 3", 4, False),
    ]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", "select ';', \";\", $$;$$, $a$;$$;$a$, E'\\';'"),
        ("postgres", "select 1 /* ; /* ; */ ; */ -- ;\n + 1"),
        ("duckdb", "select 'it''s;'"),
        ("mysql", "select 'it\\'s;', \"a\\\";\", `;` # ;\n, 1"),
        ("sqlite", 'select [;], `;`, ";" /* /* ; */'),
        ("ladybug", "match (n) where n.x = ';\\';' return n // ;\n"),
    ],
)
def test_what_stands_in_literals_names_and_comments_ends_nothing(dialect: str, text: str) -> None:
    assert cut(f"{text}; select 2", dialect) == [text.strip(), "select 2"]


def test_a_backslash_is_a_character_where_the_dialect_has_no_escapes() -> None:
    assert cut("select '\\'; select 2") == ["select '\\'", "select 2"]


@pytest.mark.parametrize(
    "body",
    [
        "create trigger t after insert on a begin update b set x = case when 1 then 2 end; delete from c; end",
        "CREATE OR REPLACE PROCEDURE p() BEGIN IF x THEN SELECT 1; END IF; CASE x WHEN 1 THEN SELECT 2; END CASE; END",
        "create trigger t when case new.a when 1 then 0 end begin select 1; end",
    ],
)
def test_the_body_of_what_is_created_is_no_statement_of_its_own(body: str) -> None:
    assert cut(f"{body}; select 2", "mysql") == [body, "select 2"]


def test_begin_and_end_of_a_transaction_are_statements() -> None:
    assert cut("begin; create view v as select case when 1 then 2 end; end;") == [
        "begin",
        "create view v as select case when 1 then 2 end",
        "end",
    ]


def test_comments_alone_are_no_statement_but_those_that_are_executed_are() -> None:
    assert cut("-- a\n; /* b */ ;; ", "mysql") == []
    assert cut("/*! set a = 1 */; /*M! set b = 1 */", "mysql") == ["/*! set a = 1 */", "/*M! set b = 1 */"]
    assert cut("???") == ["???"]


WORDS = ["select", "create", "trigger", "begin", "end", "if", "case", "x", "E"]
MARKS = [";", "'", '"', "`", "\\", "$$", "$a$", "--", "/*", "*/", "//", "#", "[", "]", "\n", " "]
PIECES = st.lists(st.sampled_from([*WORDS, *MARKS]), max_size=30)


@given(PIECES, st.sampled_from(DIALECTS))
def test_any_text_is_cut_into_parts_that_stand_there_in_order(pieces: list[str], dialect: str) -> None:
    text = "".join(pieces)
    found = list(statements(text, dialect))
    rest = text
    for statement in found:
        lines = text.split("\n")[statement.line - 1 :]
        assert statement.text in "\n".join(lines)
        _, there, rest = rest.partition(statement.text)
        assert there
    assert all(statement.is_ended for statement in found[:-1])


@given(st.lists(st.sampled_from(["select 1", "';'", '";"', "/* ; */", "[;]", "`;`", "-- ;\n", " "]), min_size=1, max_size=8))
def test_sqlite_agrees_where_a_statement_is_complete(pieces: list[str]) -> None:
    text = " ".join(["select 0", *pieces])
    assert sqlite3.complete_statement(f"{text};") == list(statements(f"{text};", "sqlite"))[-1].is_ended


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "piece", ["a", "'", "\\'", "/*", "begin ", "create begin ", "-- a\n", "$a$", "end if ", "x;", "/* */", "\n"]
)
def test_much_of_anything_is_read_in_linear_time(piece: str, dialect: str) -> None:
    text = piece * (150_000 // len(piece))

    def seconds() -> float:
        begun = thread_time()
        assert len(list(statements(text, dialect))) <= 75_000
        return thread_time() - begun

    assert is_within(0.5, seconds), "quadratic reading takes a second of the processor"
