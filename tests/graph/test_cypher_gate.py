"""The read-only gate and its lexer by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cypher_attacks import CHANGES, NESTED, OF_LADYBUG, OF_SERVERS, READS, nested
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.graph.gate import STATEMENT_MAX, read_only
from rrext.nodes.graph.lexer import rendered, tokens
from rrext.nodes.graph.writing import check_embedded

ANY_CYPHER = st.text(
    st.sampled_from("abSETCREATEn \n\t'\"`\\/*$(){}[].:,;-+<>=1u0027é\u00a0") | st.characters(codec="utf-8"), max_size=60
)


def test_there_are_attacks_enough() -> None:
    assert len({*CHANGES, *OF_SERVERS}) >= 60
    assert len({*CHANGES, *OF_LADYBUG}) >= 60


@pytest.mark.parametrize("cypher", [*CHANGES, *OF_SERVERS, *OF_LADYBUG])
@pytest.mark.parametrize("dialect", ["neo4j", "ladybug"])
def test_what_does_not_only_read_is_refused(cypher: str, dialect: str) -> None:
    with pytest.raises((ToolError, InvalidArguments)) as caught:
        read_only(cypher, dialect)
    assert caught.value.code in ("not_read_only", "invalid_arguments")


@pytest.mark.parametrize("cypher", READS)
def test_what_only_reads_is_let_through(cypher: str) -> None:
    read_only(cypher, "neo4j")


def test_comments_are_not_sent_and_strings_are_written_in_one_way() -> None:
    sent = read_only('MATCH (n) /* a */ WHERE n.x = "it\'s" // b\n RETURN n;', "neo4j")
    assert sent.text == "MATCH (n) WHERE n.x = 'it\\'s' RETURN n"


def test_an_escape_is_sent_as_the_character_that_it_means() -> None:
    """Neo4j reads escapes before it reads strings: this one would end the string there."""
    assert read_only("RETURN '\\u0027 OR 1' AS s", "neo4j").text == "RETURN '\\' OR 1' AS s"
    assert read_only("RETURN '\\ud83d\\ude00' AS s", "neo4j").text == "RETURN '😀' AS s"


@pytest.mark.parametrize("cypher", ["RETURN '\\\\u0041' AS s", "RETURN '\\ud83d' AS s", "RETURN '\\x41' AS s"])
def test_an_escape_that_can_be_read_in_two_ways_is_refused(cypher: str) -> None:
    with pytest.raises(InvalidArguments, match="line 1, column"):
        read_only(cypher, "neo4j")


def test_parameters_are_found_wherever_they_stand() -> None:
    assert read_only("MATCH (n {a: $a}) WHERE n.b IN $`b c` RETURN n LIMIT $a", "neo4j").parameters == ("a", "b c")
    assert read_only("RETURN '$a' AS s // $b", "neo4j").parameters == ()


def test_operators_of_the_pipeline_may_allow_more() -> None:
    cypher = "CALL apoc.path.expand($n) YIELD path RETURN apoc.text.join(['a'], path) AS x"
    with pytest.raises(ToolError, match=r"apoc\.path\.expand"):
        read_only(cypher, "neo4j")
    with pytest.raises(ToolError, match=r"apoc\.text\.join"):
        read_only(cypher, "neo4j", (), ("apoc.path.expand",))
    read_only(cypher, "neo4j", ("apoc.text.*",), ("apoc.path.expand",))
    with pytest.raises(ToolError):
        read_only("RETURN apoc.textual.join() AS x", "neo4j", ("apoc.text.*",))


def test_a_statement_is_refused_with_the_place_and_a_way_out() -> None:
    with pytest.raises(ToolError) as caught:
        read_only("MATCH (n)\nSET n.x = 1", "neo4j")
    assert caught.value.code == "not_read_only"
    assert caught.value.data == {"position": 10}
    assert "backticks" in (caught.value.hint or "")


@pytest.mark.parametrize("cypher", ["", "  ", "// nothing", ";", "RETURN 1; RETURN 2", "x" * (STATEMENT_MAX + 1)])
def test_what_is_not_one_statement_is_bad_input(cypher: str) -> None:
    with pytest.raises(InvalidArguments):
        read_only(cypher, "neo4j")


@pytest.mark.parametrize(("before", "after", "depth"), NESTED)
@pytest.mark.parametrize("check", [lambda cypher: read_only(cypher, "ladybug"), check_embedded], ids=["query", "execute"])
def test_what_is_nested_too_deeply_for_an_engine_is_bad_input(
    check: Callable[[str], object], before: str, after: str, depth: int
) -> None:
    """Some hundred calls within each other end the process that the embedded engine is in."""
    check(nested(before, after, depth))
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        check(nested(before, after, depth + 1))
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        check(nested(before, after, 3000))


def test_a_plan_of_a_plan_of_a_plan_is_looked_at_once() -> None:
    with pytest.raises(ToolError, match="INSTALL"):
        check_embedded("EXPLAIN " * 9000 + "INSTALL x")
    with pytest.raises(InvalidArguments, match="COMMIT is not run"):
        check_embedded("EXPLAIN EXPLAIN PROFILE COMMIT")


@given(ANY_CYPHER)
@example("RETURN '\\\\'")
def test_what_is_written_anew_has_the_same_tokens(cypher: str) -> None:
    """So nothing that the gate has looked at becomes another thing on its way to the database."""
    try:
        first = tokens(cypher)
    except InvalidArguments:
        return
    again = tokens(rendered(first))
    assert [(token.kind, token.value) for token in again] == [(token.kind, token.value) for token in first]
    assert rendered(again) == rendered(first)


@given(ANY_CYPHER)
def test_what_is_sent_has_no_comment_and_no_escape_outside_of_strings(cypher: str) -> None:
    try:
        sent = rendered(tokens(cypher))
    except InvalidArguments:
        return
    assert "\\u" not in sent.lower()
    position = 0
    for token in tokens(sent):  # between tokens stands a blank or nothing
        assert sent[position : token.position] in ("", " ")
        position = token.position + len(token.text)


@given(st.text(max_size=40))
def test_any_string_comes_through_as_it_is_or_is_refused(value: str) -> None:
    quoted = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        [token] = tokens(quoted)
    except InvalidArguments:
        assert "\\u" in value.lower() or any("\ud800" <= character <= "\udfff" for character in value)
        return
    assert token.value == value
    [again] = tokens(token.text)
    assert again.value == value


@given(st.sampled_from(sorted({"SET", "CREATE", "DELETE", "MERGE", "REMOVE", "LOAD", "INSERT"})), ANY_CYPHER, ANY_CYPHER)
def test_a_writing_word_never_passes_as_a_clause(word: str, before: str, after: str) -> None:
    cypher = f"MATCH (n) WHERE n.x = 1 {before} {word} {after}"
    try:
        sent = read_only(cypher, "neo4j")
    except (ToolError, InvalidArguments):
        return
    words = [token for token in tokens(sent.text) if token.keyword == word]
    for token in words:
        assert sent.text[: token.position].rstrip()[-1:] in ".:" or sent.text[: token.position].upper().split()[-1:] == ["AS"]
