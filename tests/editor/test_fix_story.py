"""A broken pipeline is repaired by what is offered for it, and by nothing else."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from editor.fix_cases import CASES
from editor.fixing import REAL, SAMPLE, codes, look, mistakes, preferred
from editor.test_fix_promises import FLAT, LINES, places, spoil
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis, AnalysisSettings
from rrext.editor.fixes.fix import Changes, FixContext
from rrext.editor.fixes.table import fix_all_edits, fixes_any, fixes_for, is_safe
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.text import Edit, applied
from rrext.pipefile.text.source import parse

BROKEN = """{
  // Answers questions about a small library.
  "components": [
    {
      "id": "chat_1",
      "provider": "chatt", // where people ask
      "config": { "mode": "Source", "type": "chat" }
      "control": [{ "classType": "tool", "from": "files_1" }]
    },
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "library", }
    },
    { "id": "old_1", "provider": "response_video", "config": {} },
    {
      "id": 'llm_1',
      "provider": "llm_scripted",
      "config": {
        "script": [{ "match": "open", "answer": True }],
        "defualt": "I only know about the library."
      },
      "inputs": [{ "lane": "question", "from": "chat" }]
    }
  ],
  "source": "chat_l",
  "verison": 1
"""

REPAIRED = """{
  // Answers questions about a small library.
  "components": [
    {
      "id": "chat_1",
      "provider": "chat", // where people ask
      "config": { "mode": "Source", "type": "chat" }
    },
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "library", },
      "control": [{ "classType": "tool", "from": "chat_1" }]
    },
    {
      "id": "llm_1",
      "provider": "llm_scripted",
      "config": {
        "script": [{ "match": "open", "answer": true }],
        "default": "I only know about the library."
      },
      "input": [{ "lane": "questions", "from": "chat_1" }]
    },
    {
      "id": "response_answers_1",
      "provider": "response_answers",
      "config": {},
      "input": [{ "lane": "answers", "from": "llm_1" }]
    }
  ],
  "source": "chat_1",
  "version": 1
}
"""

PROFILES = """{"components": [
  {"id": "w", "provider": "webhook", "config": {}},
  {"id": "a", "provider": "ask", "config": {}, "input": [{"lane": "text", "from": "w"}]},
  {"id": "agent", "provider": "agent", "config": {}, "input": [{"lane": "questions", "from": "a"}]},
  {"id": "l", "provider": "llm", "config": {"profile": "lrge", "model": "x"}},
  {"id": "r", "provider": "response", "config": {"lanes": [{"laneId": "text", "laneName": "t"}]},
   "input": [{"lane": "answers", "from": "agent"}, {"lane": "answers", "from": "agent"}]},
  {"id": "t", "provider": "weather", "config": {"dys": "3"}, "control": [{"classType": "tol", "from": "agnt"}]}
]}
"""


def repaired(text: str, around: AnalysisSettings) -> tuple[Analysis, list[str]]:
    """A document after the preferred fix of the first problem that has one, again and again; and what was done."""
    analysis, done = look(text, around), list[str]()
    while (fix := preferred(analysis)) is not None:
        done.append(fix.title)
        analysis = look(applied(analysis.text, fix.edits), around)
        assert len(done) < 50, done
    return analysis, done


def test_a_broken_pipeline_is_repaired_by_the_preferred_fixes_alone() -> None:
    analysis, done = repaired(BROKEN, REAL)
    assert analysis.text == REPAIRED
    assert done == [
        'Replace "chatt" with "chat"',
        "Insert a comma",
        'Move this edge to "files_1", which is invoked',
        "Use double quotes",
        "Replace True with true",
        "Insert the missing closing brackets at the end",
        'Replace "defualt" with "default"',
        'Replace "inputs" with "input"',
        'Replace "chat" with "chat_1"',
        'Replace "question" with "questions"',
        'Replace "chat_l" with "chat_1"',
        'Add response_answers after "llm_1"',
        'Remove "old_1"',
        'Replace "verison" with "version"',
    ]
    assert codes(analysis) == []
    assert analysis.loaded.require().source == "chat_1"


def test_a_pipeline_of_an_agent_is_repaired_by_the_preferred_fixes_alone() -> None:
    analysis, _ = repaired(PROFILES, SAMPLE)
    assert codes(analysis) == []
    assert parse(analysis.text).value == {
        "components": [
            {"id": "w", "provider": "webhook", "config": {}},
            {"id": "a", "provider": "ask", "config": {}, "input": [{"lane": "text", "from": "w"}]},
            {"id": "agent", "provider": "agent", "config": {}, "input": [{"lane": "questions", "from": "a"}]},
            {
                "id": "l",
                "provider": "llm",
                "config": {"profile": "large", "large": {"model": "x"}},
                "control": [{"classType": "llm", "from": "agent"}],
            },
            {
                "id": "r",
                "provider": "response",
                "config": {"lanes": [{"laneId": "answers", "laneName": "t"}]},
                "input": [{"lane": "answers", "from": "agent"}],
            },
            {"id": "t", "provider": "weather", "config": {"days": 3}, "control": [{"classType": "tool", "from": "agent"}]},
        ]
    }


def test_from_an_empty_file_to_a_pipeline() -> None:
    analysis, done = repaired("", REAL)
    assert done == ["Begin with a pipeline that sends back a text"]
    assert analysis.loaded.spec is not None


# all at once


def test_all_safe_fixes_of_a_document_are_one_change() -> None:
    analysis = look(BROKEN, REAL)
    edits = fix_all_edits(analysis, is_safe)
    after = look(applied(BROKEN, edits), REAL)
    assert mistakes(after) == 0
    assert set(codes(after)) == {"control_on_invoker", "not_connected"}
    assert all(one.end < other.start for one, other in pairwise(edits))
    assert "where people ask" in after.text


def test_a_file_in_the_way_of_python_becomes_json() -> None:
    text = str(parse(LINES).value)
    after = applied(text, fix_all_edits(look(text), is_safe))
    assert parse(after).problems == ()
    assert json.loads(after) == parse(LINES).value


def test_more_mistakes_than_are_told_are_mended_too() -> None:
    text = "{" + ", ".join(f"'k{number}': {number}" for number in range(2500)) + "}"
    analysis = look(text)
    assert "too_many_problems" in codes(analysis)
    assert applied(text, fix_all_edits(analysis, is_safe)) == text.replace("'", '"')
    (fix,) = fixes_for(FixContext(analysis), next(problem for problem in analysis.problems if problem.code == "single_quotes"))
    assert fix.preferred


def test_nothing_is_changed_where_nothing_is_wrong() -> None:
    assert fix_all_edits(look(LINES), is_safe) == ()


def test_only_what_is_wanted_is_mended() -> None:
    text = "{'components': [], 'version': 2}"
    after = applied(text, fix_all_edits(look(text), lambda problem: problem.code == "single_quotes"))
    assert after == '{"components": [], "version": 2}'


@pytest.mark.parametrize("code", ["trailing_text", "not_connected", "beside_profile", "unresolved_variable", "source_unread"])
def test_what_takes_something_out_or_is_a_choice_is_not_done_unasked(code: str) -> None:
    found = next(case for case in CASES if case.code == code)
    problem = next(problem for problem in look(found.text).problems if problem.code == code)
    assert not is_safe(problem)


@given(st.data())
def test_all_safe_fixes_leave_no_text_more_broken(data: st.DataObject) -> None:
    document = json.loads(FLAT)
    for _ in range(data.draw(st.integers(0, 3))):
        if places(document):
            spoil(document, data)
    text = str(document) if data.draw(st.booleans()) else json.dumps(document, indent=2)
    at = data.draw(st.integers(0, len(text) - 1))
    text = text[:at] + data.draw(st.sampled_from(["", '"', ",", "}", "x"])) + text[at + 1 :]
    analysis = look(text)
    edits = fix_all_edits(analysis, is_safe)
    after = look(applied(text, edits))
    assert mistakes(after) <= mistakes(analysis)
    assert not edits or after.text != text
    assert fixes_any(analysis, is_safe, KnownNodes(SAMPLE.catalog)) == bool(edits)


def test_it_is_known_beforehand_whether_anything_would_be_fixed() -> None:
    for case in CASES:
        analysis = look(case.text, case.around)
        for wanted in (is_safe, lambda problem, code=case.code: problem.code == code):
            assert fixes_any(analysis, wanted, KnownNodes(case.around.catalog)) == bool(fix_all_edits(analysis, wanted))


# one change of several


ROUNDS = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.text("xy", max_size=3)), max_size=4))


@given(st.text("ab\n", max_size=20), ROUNDS)
def test_changes_of_changes_are_one_change(text: str, rounds: list[list[tuple[int, int, str]]]) -> None:
    changes, now = Changes(text), text
    for wanted in rounds:
        edits: list[Edit] = []
        at = 0
        for start, length, new in sorted(wanted):
            begin = min(max(start, at), len(now))
            end = min(begin + length, len(now))
            edits.append(Edit(begin, end, new))
            at = end + 1
        edits = [edit for place, edit in enumerate(edits) if not place or edit.start > edits[place - 1].end]
        changes.add(edits)
        now = applied(now, edits)
    assert applied(text, changes.edits()) == now
    assert all(one.end < other.start for one, other in pairwise(changes.edits()))
