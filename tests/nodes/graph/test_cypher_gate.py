"""The read-only gate and its lexer by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import thread_time

import pytest
from cypher_attacks import CHANGES, NESTED, OF_LADYBUG, OF_SERVERS, READS, nested
from cypher_dialects import DIALECTS
from hypothesis import given
from hypothesis import strategies as st
from pace import is_within

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.graph.dialect import TOKEN, tokens
from rrext.nodes.graph.gate import STATEMENT_MAX, read_only
from rrext.nodes.graph.ladybug_rules import check_embedded

ANY_CYPHER = st.text(
    st.sampled_from("abSETCREATEn \n\t'\"`\\/*$(){}[].:,;-+<>=1u0027é\u00a0") | st.characters(codec="utf-8"), max_size=60
)

BETWEEN = re.compile(r"[ \t\r\n\f]+|//[^\r\n]*|/\*.*?\*/", re.S)


def test_there_are_attacks_enough() -> None:
    assert len({*CHANGES, *OF_SERVERS}) >= 60
    assert len({*CHANGES, *OF_LADYBUG}) >= 60


def judged(cypher: str, dialect: str) -> str:
    try:
        read_only(cypher, DIALECTS[dialect])
    except (ToolError, InvalidArguments) as error:
        return error.code
    return "passed"


@pytest.mark.parametrize("dialect", ["neo4j", "ladybug"])
def test_what_does_not_only_read_is_refused(dialect: str) -> None:
    codes = {cypher: judged(cypher, dialect) for cypher in (*CHANGES, *OF_SERVERS, *OF_LADYBUG)}
    assert {cypher: code for cypher, code in codes.items() if code not in ("not_read_only", "invalid_arguments")} == {}


def test_what_only_reads_is_let_through() -> None:
    codes = {cypher: judged(cypher, "neo4j") for cypher in READS}
    assert {cypher: code for cypher, code in codes.items() if code != "passed"} == {}


def test_the_statement_that_is_sent_is_the_callers_text() -> None:
    cypher = 'MATCH (n) /* a */ WHERE n.x = "it\'s" // b\n RETURN n;  '
    assert read_only(cypher, DIALECTS["neo4j"]).text is cypher


@pytest.mark.parametrize("text", ["\\u00e9\\ud83d\\ude00", "\\U0001F600", "C:\\\\users", "\\d+\\.", "\\x41", "\\u0041"])
def test_an_escape_that_ends_no_string_anywhere_is_let_through(text: str) -> None:
    read_only(f"RETURN '{text}' AS s", DIALECTS["neo4j"])


@pytest.mark.parametrize(
    "cypher",
    [
        "RETURN '\\u0027 OR 1' AS s",  # Neo4j reads escapes before it reads strings: this one would end the string there
        'RETURN "\\u0022 OR 1" AS s',
        "RETURN '\\u005c' AS s",
        "RETURN '\\\\u0041' AS s",
        "RETURN '\\\\uu0041' AS s",
        "RETURN '\\u41' AS s",
        "RETURN '\ud83d' AS s",
        "RETURN '\0' AS s",
        "RETURN 1 // \\u000a SET",
        "RETURN 1 /* \\u002a\\u002f SET */",
        "RETURN 1 // a\rRETURN 2",
        "RETURN 1 // a\u2028RETURN 2",
        "RETURN 1 /* a /* b */ */",
        "RETURN `a\\u0060` AS s",
        "RETURN 1 AS \\u0061",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(cypher: str) -> None:
    with pytest.raises(InvalidArguments, match="line 1, column"):
        read_only(cypher, DIALECTS["neo4j"])


TEXTS = {
    "brackets": "RETURN " + "[" * 100_000,
    "a list": "RETURN [" + "1," * 49_000 + "1] AS x",
    "maps": "RETURN [" + "{a: 1, b: 'x'}, " * 6_000 + "1] AS x",
    "strings": "RETURN " + "'a'," * 24_000 + "1",
    "a long string": "RETURN '" + "a" * 99_000 + "'",
    "an open string": "RETURN '" + "a" * 99_000,
    "escapes": "RETURN '" + "\\n" * 49_000 + "'",
    "Unicode escapes": "RETURN '" + "\\u0041" * 16_000 + "'",
    "comments": "RETURN " + "/*a*/" * 19_000 + "1",
    "lines": "//a\n" * 24_000,
    "open comment": "RETURN " + "/" * 2 + "*" * 99_000,
    "a long name": "RETURN " + "a" * 99_000,
    "letters": "RETURN " + "\u00e9" * 99_000,
    "backticks": "RETURN `" + "``" * 49_000 + "`",
    "open backticks": "RETURN " + "`" * 99_001,
    "parameters": "RETURN " + "$a+" * 33_000 + "1",
    "clauses": "MATCH (a) " * 9_900 + "RETURN 1",
    "dots": "RETURN a" + ".b" * 49_000,
    "a call with dots": "RETURN a" + ".b" * 19_000 + "()",
    "a procedure": "CALL " + "a." * 19_000 + "b()",
    "calls": "RETURN " + "size(" * 19_000,
    "not": "RETURN " + "NOT " * 24_000 + "true",
    "hints": "MATCH (n) " + "USING INDEX n:P(a) " * 5_000 + "RETURN n",
    "blanks": " " * 100_000,
    "semicolons": ";" * 100_000,
    "numbers": "RETURN " + "1" * 99_000,
    "too long": "RETURN 1 + " * 100_000,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("dialect", ["neo4j", "ladybug"])
def test_any_text_is_judged_at_once(name: str, dialect: str) -> None:
    """What the gate takes grows with the length of the text, and with nothing else; no step of it holds the others up."""

    blanks = count()

    def seconds() -> float:
        text = TEXTS[name] + " " * next(blanks)
        since = thread_time()
        with suppress(ToolError, InvalidArguments):
            read_only(text, DIALECTS[dialect])
        return thread_time() - since

    assert is_within(0.1, seconds)


@pytest.mark.parametrize("name", TEXTS)
def test_no_step_of_the_lexer_holds_others_up(name: str) -> None:
    """One match of its pattern is all that Python does not interrupt."""

    def longest() -> float:
        found, position = 0.0, 0
        for _ in range(5):
            since = thread_time()
            if (piece := TOKEN.match(TEXTS[name], position)) is None:
                break
            position = piece.end()
            found = max(found, thread_time() - since)
        return found

    assert is_within(0.01, longest)


def test_parameters_are_found_wherever_they_stand() -> None:
    assert read_only("MATCH (n {a: $a}) WHERE n.b IN $`b c` RETURN n LIMIT $a", DIALECTS["neo4j"]).parameters == ("a", "b c")
    assert read_only("RETURN '$a' AS s // $b", DIALECTS["neo4j"]).parameters == ()


def test_operators_of_the_pipeline_may_allow_more() -> None:
    cypher = "CALL apoc.path.expand($n) YIELD path RETURN apoc.text.join(['a'], path) AS x"
    with pytest.raises(ToolError, match=r"apoc\.path\.expand"):
        read_only(cypher, DIALECTS["neo4j"])
    with pytest.raises(ToolError, match=r"apoc\.text\.join"):
        read_only(cypher, DIALECTS["neo4j"], (), ("apoc.path.expand",))
    read_only(cypher, DIALECTS["neo4j"], ("apoc.text.*",), ("apoc.path.expand",))
    with pytest.raises(ToolError):
        read_only("RETURN apoc.textual.join() AS x", DIALECTS["neo4j"], ("apoc.text.*",))


def test_a_statement_is_refused_with_the_place_and_a_way_out() -> None:
    with pytest.raises(ToolError) as caught:
        read_only("MATCH (n)\nSET n.x = 1", DIALECTS["neo4j"])
    assert caught.value.code == "not_read_only"
    assert caught.value.data == {"position": 10}
    assert "backticks" in (caught.value.hint or "")


@pytest.mark.parametrize("cypher", ["", "  ", "// nothing", ";", "RETURN 1; RETURN 2", "x" * (STATEMENT_MAX + 1)])
def test_what_is_not_one_statement_is_bad_input(cypher: str) -> None:
    with pytest.raises(InvalidArguments):
        read_only(cypher, DIALECTS["neo4j"])


@pytest.mark.parametrize(("before", "after", "depth"), NESTED)
@pytest.mark.parametrize(
    "check", [lambda cypher: read_only(cypher, DIALECTS["ladybug"]), check_embedded], ids=["query", "execute"]
)
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
def test_tokens_blanks_and_comments_are_the_whole_text(cypher: str) -> None:
    """So nothing stands between two tokens that the gate has not looked at."""
    try:
        found = tokens(cypher)
    except InvalidArguments:
        return
    if not found:
        assert not BETWEEN.sub("", cypher)
        return
    ends = [*(token.position for token in found[1:]), len(cypher)]
    assert not BETWEEN.sub("", cypher[: found[0].position])
    for token, end in zip(found, ends, strict=True):
        text = cypher[token.position : end]
        assert text.startswith(token.value[:1]) or token.kind in ("name", "parameter")
        assert len(tokens(text)) == 1  # with the blanks and comments behind it


@given(st.text(max_size=40))
def test_any_string_is_one_token_or_is_refused(value: str) -> None:
    quoted = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    try:
        [token] = tokens(quoted)
    except InvalidArguments:
        assert "\\u" in value or "\0" in value or any("\ud800" <= character <= "\udfff" for character in value)
        return
    assert token.value == quoted


@given(st.sampled_from(sorted({"SET", "CREATE", "DELETE", "MERGE", "REMOVE", "LOAD", "INSERT"})), ANY_CYPHER, ANY_CYPHER)
def test_a_writing_word_never_passes_as_a_clause(word: str, before: str, after: str) -> None:
    cypher = f"MATCH (n) WHERE n.x = 1 {before} {word} {after}"
    try:
        sent = read_only(cypher, DIALECTS["neo4j"])
    except (ToolError, InvalidArguments):
        return
    assert sent.text == cypher
    words = [token for token in tokens(sent.text) if token.keyword == word]
    for token in words:
        text = BETWEEN.sub(" ", sent.text[: token.position]).rstrip()
        assert text[-1:] in ".:" or text.upper().split()[-1:] == ["AS"]
