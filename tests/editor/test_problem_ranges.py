"""What a problem marks, character by character, and the other places that it names.

In the documents here `«…»` is what the problem marks and `‹…›` is a place that it names; neither is part of the text.
"""

from __future__ import annotations

import pytest
from editor.fixing import REAL, SAMPLE, codes, look
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.analysis import AnalysisSettings
from rrext.faces.lsp.diagnostics import Manual
from rrext.pipefile.text.problems import CODES, Problem, Severity, Span, related_places

MARKS = {"«": "»", "‹": "›"}


def unmarked(text: str) -> tuple[str, Span, list[Span]]:
    """The text without marks, what is marked, and the other places in their order."""
    clean, opened, marked, others = "", list[tuple[str, int]](), list[Span](), list[Span]()
    for sign in text:
        if sign in MARKS:
            opened.append((sign, len(clean)))
        elif sign in MARKS.values():
            kind, start = opened.pop()
            (marked if kind == "«" else others).append((start, len(clean)))
        else:
            clean += sign
    (span,) = marked
    return clean, span, sorted(others)


def found(text: str, code: str, around: AnalysisSettings = SAMPLE) -> tuple[str, Problem, Span, list[Span]]:
    clean, _, _ = unmarked(text)
    analysis = look(clean, around)
    problem = next((problem for problem in analysis.problems if problem.code == code), None)
    assert problem is not None, codes(analysis)
    return clean, problem, analysis.map.span_of(problem), sorted(span for _, span in related_places(problem, analysis.map))


W = '{"id": ‹"w"›, "provider": "webhook", "config": {}}'
PLAIN_W = '{"id": "w", "provider": "webhook", "config": {}}'
OUT = '{"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]}'
U = '{"id": ‹"u"›, "provider": "upper", "config": {}, '

AGENT = '{"id": «"a"», "provider": "agent", "config": {}, "input": [{"lane": "questions", "from": "c"}]}'


def doc(*components: str, more: str = "") -> str:
    return '{"components": [' + ", ".join(components) + "]" + more + "}"


CLASSIC = [
    # control on the wrong node, key beside its section, response key that nobody reads, lane that nobody offers
    (
        "control_on_invoker",
        doc(
            '{"id": ‹"w"›, "provider": "webhook", "config": {}, "control": [«{"classType": "tool", "from": "t"}»]}',
            '{"id": ‹"t"›, "provider": "tool_hammer", "config": {}}',
        ),
        "error",
    ),
    (
        "beside_profile",
        doc('{"id": "l", "provider": "llm", "config": {"profile": ‹"small"›, «"apikey"»: 1, "small": {}}}'),
        "warning",
    ),
    ("profile_not_selected", doc('{"id": "l", "provider": "llm", "config": {«"large"»: {}}}'), "warning"),
    (
        "response_key_unread",
        doc(
            PLAIN_W,
            '{"id": "r", "provider": "response", "config": {"lanes": [{"laneId": «"answers"», "laneName": "a"}]}, '
            '"input": [‹{"lane": "text", "from": "w"}›]}',
        ),
        "warning",
    ),
    ("unknown_lane", doc(W, U + '"input": [{"lane": «"txt"», "from": "w"}]}'), "error"),
    ("lane_not_offered", doc(W, U + '"input": [{"lane": «"table"», "from": "w"}]}'), "error"),
    ("lane_not_accepted", doc(W, U + '"input": [{"lane": «"questions"», "from": "w"}]}'), "error"),
    ("from_not_found", doc('{"id": ‹"hook"›, "provider": "webhook", "config": {}}', OUT.replace('"w"', '«"hok"»')), "error"),
    ("duplicate_edge", doc(PLAIN_W, OUT.replace("[", "[‹").replace("}]", '}›, «{"lane": "text", "from": "w"}»]')), "warning"),
    (
        "class_type_not_served",
        doc(W, '{"id": ‹"t"›, "provider": "tool_hammer", "config": {}, "control": [{"classType": «"llm"», "from": "w"}]}'),
        "error",
    ),
    # not connected, circles, variables
    (
        "not_connected",
        doc(W, OUT, '{"id": «"t"», "provider": "tool_hammer", "config": {}}', more=', "source": "w"'),
        "warning",
    ),
    (
        "cycle",
        doc(
            PLAIN_W,
            '{"id": "u", "provider": "upper", "config": {}, '
            '"input": [{"lane": "text", "from": "w"}, «{"lane": "text", "from": "v"}»]}',
            '{"id": "v", "provider": "upper", "config": {}, "input": [‹{"lane": "text", "from": "u"}›]}',
        ),
        "error",
    ),
    (
        "control_cycle",
        doc(
            '{"id": "a", "provider": "agent", "config": {}, "control": [«{"classType": "tool", "from": "b"}»]}',
            '{"id": "b", "provider": "agent", "config": {}, "control": [‹{"classType": "tool", "from": "a"}›]}',
        ),
        "error",
    ),
    (
        "unresolved_variable",
        doc('{"id": "t", "provider": "weather", "config": {"units": "a «${ROCKETRIDE_NO}» b"}}'),
        "warning",
    ),
    ("variable_not_allowed", doc('{"id": "t", "provider": "weather", "config": {"units": "«${HOME}»"}}'), "warning"),
    ("variable_in_name", doc('{"id": «"${ROCKETRIDE_KEY}"», "provider": "webhook", "config": {}}', PLAIN_W, OUT), "error"),
    ("variable_in_project_id", doc(PLAIN_W, OUT, more=', "project_id": «"${ROCKETRIDE_KEY}"»'), "error"),
    # what comes out
    ("source_unread", doc('{"id": «"c"», "provider": "chat", "config": {}}'), "warning"),
    (
        "no_response",
        doc('{"id": «"w"», "provider": "webhook", "config": {}}', U + '"input": [{"lane": "text", "from": "w"}]}'),
        "warning",
    ),
    (
        "output_unread",
        doc(PLAIN_W, OUT, '{"id": «"u"», "provider": "upper", "config": {}, "input": [{"lane": "text", "from": "w"}]}'),
        "warning",
    ),
    (
        "invoke_missing",
        doc(
            '{"id": "c", "provider": "chat", "config": {}}',
            AGENT,
        ),
        "warning",
    ),
    (
        "invoke_excess",
        doc(
            '{"id": "c", "provider": "chat", "config": {}}',
            AGENT,
            '{"id": ‹"l"›, "provider": "llm", "config": {}, "control": [{"classType": "llm", "from": "a"}]}',
            '{"id": ‹"m"›, "provider": "llm", "config": {}, "control": [{"classType": "llm", "from": "a"}]}',
        ),
        "warning",
    ),
    # where it begins
    ("no_source", '{«"components"»: []}', "error"),
    (
        "multiple_sources",
        '{«"components"»: [' + W + ', {"id": ‹"c"›, "provider": "webhook", "config": {}}]}',
        "warning",
    ),
    ("source_not_found", doc(PLAIN_W, OUT, more=', "source": «"x"»'), "error"),
    ("not_a_source", doc(PLAIN_W, OUT.replace('"out"', '‹"out"›'), more=', "source": «"out"»'), "error"),
    (
        "other_source",
        doc(W, OUT, '{"id": «"c"», "provider": "chat", "config": {}}', more=', "source": "w"'),
        "information",
    ),
    # names and settings
    ("unknown_provider", doc('{"id": "w", "provider": «"webhok"», "config": {}}'), "error"),
    ("duplicate_id", doc(W, OUT.replace('"out"', '«"w"»')), "error"),
    ("missing_key", doc('«{»"id": "w"}'), "error"),
    ("missing_key", "«{»}", "error"),
    ("unknown_key", doc(PLAIN_W, OUT, more=', «"versoin"»: 1'), "warning"),
    ("profile_not_found", doc('{"id": "l", "provider": "llm", "config": {"profile": «"smal"»}}'), "error"),
    ("unknown_config_key", doc('{"id": "t", "provider": "weather", "config": {«"unit"»: 1}}'), "warning"),
    ("invalid_config", doc('{"id": "t", "provider": "weather", "config": {"tags": ["a", «1»]}}'), "error"),
    ("wrong_type", doc('{"id": «3», "provider": "webhook", "config": {}}'), "error"),
]


@pytest.mark.parametrize(("code", "text", "severity"), CLASSIC, ids=[f"{n}-{row[0]}" for n, row in enumerate(CLASSIC)])
def test_a_mistake_is_marked_where_it_is_with_all_that_belongs_to_it(code: str, text: str, severity: Severity) -> None:
    clean, problem, span, others = found(text, code)
    _, marked, places = unmarked(text)
    assert clean[slice(*span)] == clean[slice(*marked)]
    assert span == marked
    assert others == places
    assert problem.severity == severity
    assert all(other.message for other in problem.related)


@pytest.mark.parametrize(("code", "text", "severity"), CLASSIC, ids=[f"{n}-{row[0]}" for n, row in enumerate(CLASSIC)])
def test_it_is_marked_as_exactly_while_something_else_is_typed(code: str, text: str, severity: Severity) -> None:
    """Further down the file is broken; in front of it there is a comment with an emoji."""
    if '"components"' not in text or code in ("no_source", "missing_key"):
        return
    broken = "// \U0001f600 e\u0301\r\n" + text[:-1] + ', "name": "x" "description": }'
    clean, problem, span, others = found(broken, code)
    _, marked, places = unmarked(broken)
    assert (span, others, problem.severity) == (marked, places, severity)
    assert "expected_comma" in codes(look(clean))


BROKEN = [
    ("expected_comma", '{"a": 1«» "b": 2}'),
    ("expected_value", '{"a": «»}'.replace(": «»", ":«» ")),
    ("expected_colon", '{«"a"» 1}'),
    ("expected_key", '{"a": 1, «[»1]}'),
    ("extra_comma", '{"a": [1,«,» 2]}'),
    ("missing_bracket", '{"components": «{»"id": 1}, {}]}'),
    ("missing_brace", '{"components": [«"id"»: 1]}'),
    ("unclosed", '{"a": «[»1‹}›'),
    ("unclosed", '{"a": «[»1, ‹"›b": 2}'),
    ("unexpected_closer", "[1«}»]"),
    ("unexpected_text", '{"a": «Nul»l}'.replace("«Nul»l", "«None»")),
    ("trailing_text", '{"a": 1}«}»'),
    ("unterminated_string", '{"a": «"b»}'),
    ("unterminated_comment", '{"a": 1} «/*» b'),
    ("unquoted_text", "{«a»: 1}"),
    ("single_quotes", "{«'a'»: 1}"),
    ("invalid_escape", '{"a": "b«\\x»41"}'),
    ("control_character", '{"a": "b«\t»"}'),
    ("invalid_number", '{"a": «01»}'),
    ("not_finite", '{"a": «NaN»}'),
    ("duplicate_key", '{‹"a"›: 1, «"a"»: 2}'),
    ("not_utf8", '{"a": "«\ud800»"}'),
    ("too_deep", "[" * 128 + "«[»"),
]


@pytest.mark.parametrize(("code", "text"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_mistake_in_the_text_is_marked_to_the_character(code: str, text: str) -> None:
    _, _, span, others = found(text, code)
    _, marked, places = unmarked(text)
    assert span == marked
    assert others == places


def test_what_is_open_at_the_end_names_the_brackets_around_it() -> None:
    _, _, span, others = found('‹{›"a": ‹[›«{»"b": 1', "unclosed")
    assert (span, others) == ((7, 8), [(0, 1), (6, 7)])


def test_a_source_that_chat_cannot_use_says_so() -> None:
    _, problem, _, _ = found(doc('{"id": «"c"», "provider": "chat", "config": {}}'), "source_unread")
    assert problem.message == 'Nothing reads what "c" (chat) sends (questions): chat() would have no effect.'


def test_a_source_that_send_cannot_use_says_so() -> None:
    _, problem, _, _ = found(doc('{"id": «"w"», "provider": "dropper", "config": {}}'), "source_unread", REAL)
    assert problem.message == 'Nothing reads what "w" (dropper) sends (tags): send() would have no effect.'


def test_a_circle_is_spelt_out() -> None:
    text = next(text for code, text, _ in CLASSIC if code == "cycle")
    assert found(text, "cycle")[1].message == "Data would run in a circle: u-[text]->v-[text]->u."


def test_two_variables_in_one_text_are_marked_each() -> None:
    text = doc('{"id": "t", "provider": "weather", "config": {"units": "${ROCKETRIDE_A} ${ROCKETRIDE_B} ${ROCKETRIDE_A}"}}')
    analysis = look(text)
    spans = [text[slice(*analysis.map.span_of(problem))] for problem in analysis.problems if "variable" in problem.code]
    assert spans == ["${ROCKETRIDE_A}", "${ROCKETRIDE_B}"]


def test_a_misspelt_variable_names_the_one_that_there_is() -> None:
    text = doc('{"id": "t", "provider": "weather", "config": {"units": "«${ROCKETRIDE_KY}»"}}')
    assert found(text, "unresolved_variable")[1].near == ("ROCKETRIDE_KEY",)
    text = doc('{"id": "t", "provider": "weather", "config": {"units": "«${KEY}»"}}')
    assert found(text, "variable_not_allowed")[1].near == ("ROCKETRIDE_KEY",)


# consequences are no problems of their own


def test_edges_under_a_misspelt_key_are_not_missed() -> None:
    text = doc(PLAIN_W, OUT.replace('"input"', '"inputs"'), more=', "source": "w"')
    assert codes(look(text)) == ["unknown_key"]


def test_edges_that_are_in_no_list_are_not_missed() -> None:
    text = doc(PLAIN_W, OUT.replace("[", "").replace("]", ""), more=', "source": "w"')
    assert codes(look(text)) == ["wrong_type"]


def test_a_source_without_id_is_not_missed() -> None:
    assert codes(look('{"components": [{"provider": "webhook", "config": {}}]}')) == ["missing_key"]


def test_a_component_whose_id_is_taken_is_no_other_source() -> None:
    text = doc(PLAIN_W, PLAIN_W, OUT, more=', "source": "w"')
    assert codes(look(text)) == ["duplicate_id"]


# all of them


def test_every_code_is_explained_in_the_manual() -> None:
    manual = Manual()
    assert [code for code in CODES if manual.link(code) is None] == []


@given(st.text("{}[]:,\"'ab01\n/*\\\u00e9\U0001f600", max_size=60))
def test_whatever_is_marked_is_in_the_text(text: str) -> None:
    analysis = look(text)
    for problem in analysis.problems:
        spans = [analysis.map.span_of(problem), *(span for _, span in related_places(problem, analysis.map))]
        assert all(0 <= start <= end <= len(text) for start, end in spans)
