"""Placeholders are found where they are, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_dialects import DIALECTS

from rrext.errors import InvalidArguments
from rrext.nodes.sql.dialect import PLACEHOLDER
from rrext.nodes.sql.lexer import readings, split_at_placeholders

OPAQUE = {
    "sqlite": [
        "'$1'",
        "'it''s $1'",
        '"$1"',
        '"a""$1"',
        "`$1`",
        "[$1]",
        "-- $1\n",
        "/* $1 */",
        "'\\'",
        "price$1",
        "$name",
        "$1a",
    ],
    "duckdb": ["'$1'", '"$1"', "-- $1\n", "/* $1 /* $2 */ $3 */", "E'\\'$1'", "$$ $1 $$", "$x$ $1 $$ $2 $x$", "'\\'"],
    "postgres": [
        "'$1'",
        '"$1"',
        "-- $1\n",
        "/* $1 /* $2 */ $3 */",
        "E'\\'$1'",
        "e'\\\\'",
        "$$ $1 $$",
        "$x$ $$ $1 $x$",
        "a$1",
        "'\\'",
    ],
    "mysql": ["'$1'", "'\\'$1'", "'a''$1'", '"$1"', '"\\"$1"', "`$1`", "`a``$1`", "-- $1\n", "# $1\n", "/* $1 */", "a$1"],
}
"""Texts in which nothing is a placeholder, whatever it looks like."""
PLAIN = [" ", ",", "+", "(", ")", " x ", " 7 ", "::int", "*", " is not null ", "\n", " %s ", " ? ", " :x "]


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str, list[str], list[int]]:
    """A dialect, a statement of it, and where it has to be split: made piece by piece, so that the answer is known."""
    dialect = draw(st.sampled_from(sorted(DIALECTS)))
    pieces = st.sampled_from(OPAQUE[dialect]) | st.sampled_from(PLAIN) | st.integers(1, 3)
    texts, numbers = [""], list[int]()
    for piece in draw(st.lists(pieces, max_size=12)):
        texts[-1] += " "
        if isinstance(piece, int):
            numbers.append(piece)
            texts.append("")
        else:
            texts[-1] += piece
        texts[-1] += " "
    sql = texts[0] + "".join(f"${number}{text}" for number, text in zip(numbers, texts[1:], strict=True))
    return dialect, sql, texts, numbers


@given(statements())
def test_a_statement_is_split_at_its_placeholders_alone(made: tuple[str, str, list[str], list[int]]) -> None:
    dialect, sql, texts, numbers = made
    count = max(numbers, default=0)
    if dialect == "mysql" and "\\" in sql and not _is_clear(sql):
        with pytest.raises(InvalidArguments, match="sql_mode"):
            split_at_placeholders(sql, DIALECTS[dialect], count)
    elif set(numbers) != {*range(1, count + 1)}:
        with pytest.raises(InvalidArguments, match="is used by no placeholder"):
            split_at_placeholders(sql, DIALECTS[dialect], count)
    else:
        assert split_at_placeholders(sql, DIALECTS[dialect], count) == (texts, numbers)


def _is_clear(sql: str) -> bool:
    """Whether MySQL's placeholders are the same in every sql_mode."""
    read = readings(sql, DIALECTS["mysql"], judging=False)
    found = [[token for token in tokens if token.kind == PLACEHOLDER] for tokens in read]
    return all(placeholders == found[0] for placeholders in found)


@given(st.text("$1'\"`[]-/*\\ eEx#\n"), st.sampled_from(sorted(DIALECTS)))
def test_any_text_is_split_without_loss(sql: str, dialect: str) -> None:
    try:
        texts, numbers = split_at_placeholders(sql, DIALECTS[dialect], 1)
    except InvalidArguments:
        return
    assert texts[0] + "".join(f"${number}{text}" for number, text in zip(numbers, texts[1:], strict=True)) == sql


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("opening", ["'", '"', "/*", "/* /*"])
def test_what_is_not_closed_is_named_with_its_place(dialect: str, opening: str) -> None:
    sql = f"$1\n {opening} $2"
    if dialect == "sqlite" and opening.startswith("/*"):  # the end of the text ends SQLite's comments
        assert split_at_placeholders(sql, DIALECTS[dialect], 1)[1] == [1]
        return
    with pytest.raises(InvalidArguments, match="line 2, column 2: .* is not closed"):
        split_at_placeholders(sql, DIALECTS[dialect], 1)


def test_the_end_of_the_text_ends_a_comment_of_a_line() -> None:
    for dialect in DIALECTS:
        assert split_at_placeholders("$1 -- $2", DIALECTS[dialect], 1)[1] == [1]


def test_a_long_statement_is_read_in_linear_time() -> None:
    sql = "SELECT " + ", ".join(["'a''b' /* c */ \"d\" $1 -- e\n"] * 20_000)
    assert len(split_at_placeholders(sql, DIALECTS["postgres"], 1)[1]) == 20_000
    for nasty in ("'" * 99_999, "/*" * 50_000, "$a" * 50_000 + "$$", "$" * 100_000 + "1", "-" * 100_000, "\\'" * 50_000):
        for dialect in DIALECTS:
            with pytest.raises(InvalidArguments):
                split_at_placeholders(f"{nasty} $9", DIALECTS[dialect], 1)


@pytest.mark.parametrize("number", ["0", "2", "99999999999999999999"])
def test_a_number_without_a_value_is_refused_with_the_references_words(number: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        split_at_placeholders(f"SELECT ${number}, $1", DIALECTS["postgres"], 1)
    assert caught.value.message.startswith("placeholder $")
    assert caught.value.message.endswith(" out of range for 1 param(s)")
    assert caught.value.data["errors"][0]["path"] == "/input/sql"
