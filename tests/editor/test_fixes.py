"""Every problem has fixes that say what they do and do it; or a reason why there are none."""

from __future__ import annotations

import json

import pytest
from editor.fix_cases import CASES, Case, doc
from editor.fixing import REAL, breach, fixes, look, mended_by, titles, untouched
from pipefile.sample_nodes import component

from rrext.editor.fixes.fix import FixContext
from rrext.editor.fixes.table import MAKERS, NO_FIX, fixes_for
from rrext.editor.text import applied
from rrext.pipefile.text.problems import CODES

W = component("w", "webhook")
OUT = component("out", "response_text", "text:w")

each_case = pytest.mark.parametrize("case", CASES, ids=[f"{index}-{case.code}" for index, case in enumerate(CASES)])


def test_every_code_has_fixes_or_a_reason_why_not() -> None:
    assert set(MAKERS) | set(NO_FIX) == set(CODES)
    assert not set(MAKERS) & set(NO_FIX)
    assert all(NO_FIX.values())


def test_every_code_with_fixes_is_shown_here() -> None:
    shown_elsewhere = {"other_source", "invoke_excess", "control_cycle", "variable_in_project_id", "literal_secret"}
    assert {case.code for case in CASES} | shown_elsewhere == set(MAKERS)


@each_case
def test_the_first_fix_of_a_problem_is_the_obvious_one(case: Case) -> None:
    found = fixes(case.text, case.code, case.around)
    assert tuple(fix.title for fix in found) == case.titles
    assert applied(case.text, found[0].edits) == case.after
    assert found[0].preferred
    assert not any(fix.preferred for fix in found[1:])


@each_case
def test_every_fix_of_every_problem_mends_it_and_nothing_else(case: Case) -> None:
    analysis = look(case.text, case.around)
    bench = FixContext(analysis)
    for problem in analysis.problems:
        for fix in fixes_for(bench, problem):
            assert breach(analysis, problem, fix) == "", fix.title
            after = look(applied(case.text, fix.edits), case.around)
            kept = after.map.find(f"{after.base}/components")
            values = [child.value for child in kept.children] if kept is not None else []
            if analysis.loaded.spec is not None or after.loaded.spec is not None:
                assert all(value in values for value in untouched(analysis, fix)), fix.title


@pytest.mark.parametrize("code", sorted(NO_FIX))
def test_what_has_a_reason_has_no_fix(code: str) -> None:
    analysis = look("{}")
    (problem,) = analysis.problems
    from msgspec.structs import replace

    assert fixes_for(FixContext(analysis), replace(problem, code=code)) == []


# where there is a choice


def test_a_source_that_is_not_used_can_begin_or_go() -> None:
    text = doc(W, component("c", "chat"), OUT, component("r", "response", "questions:c"), source="w")
    assert titles(text, "other_source") == ['Begin at "c" instead', 'Remove "c", with every edge from it']
    assert mended_by(text, 'Begin at "c" instead', "other_source") == text.replace('"source": "w"', '"source": "c"')
    after = mended_by(text, 'Remove "c", with every edge from it', "other_source")
    assert after == doc(W, OUT, component("r", "response"), source="w")


def test_too_many_helpers_are_unbound_one_by_one() -> None:
    text = doc(
        component("c", "chat"),
        component("a", "agent", "questions:c"),
        component("l", "llm", control="llm:a"),
        component("m", "llm", control="llm:a"),
        component("o", "response_answers", "answers:a"),
    )
    assert titles(text, "invoke_excess") == ['Unbind "l" from "a"', 'Unbind "m" from "a"']
    after = mended_by(text, 'Unbind "m" from "a"', "invoke_excess")
    assert after == text.replace(', "control": [{"classType": "llm", "from": "a"}]}, {"id": "o"', '}, {"id": "o"')


def test_a_circle_can_be_opened_at_each_of_its_edges() -> None:
    text = doc(
        W,
        component("u", "upper", "text:w", "text:v"),
        component("v", "upper", "text:u"),
        component("o", "response_text", "text:v"),
    )
    assert titles(text, "cycle") == ["Remove the edge v-[text]->u", "Remove the edge u-[text]->v"]
    after = mended_by(text, "Remove the edge v-[text]->u", "cycle")
    assert look(after).problems == ()
    assert not any(fix.preferred for fix in fixes(text, "cycle"))


def test_a_circle_of_control_can_be_opened_too() -> None:
    text = doc(
        component("c", "chat"),
        component("a", "agent", "questions:c", control="tool:b"),
        component("b", "agent", control="tool:a"),
    )
    assert titles(text, "control_cycle") == ["Remove the edge b-[tool]->a", "Remove the edge a-[tool]->b"]


def test_a_project_id_is_written_out_or_left_to_each_run() -> None:
    text = doc(W, OUT, project_id="${ROCKETRIDE_KEY}")
    assert titles(text, "variable_in_project_id") == ["Write a new project id", 'Remove "project_id"']
    new = json.loads(mended_by(text, "Write a new project id", "variable_in_project_id"))["project_id"]
    assert len(new) == 36
    assert new != json.loads(mended_by(text, "Write a new project id", "variable_in_project_id"))["project_id"]


def test_of_several_near_names_the_one_that_was_mistyped_is_preferred() -> None:
    found = fixes(doc(W, component("o", "response_txt", "text:w")), "unknown_provider")
    assert [fix.title for fix in found] == [
        'Replace "response_txt" with "response_text"',
        'Replace "response_txt" with "response"',
    ]
    assert [fix.preferred for fix in found] == [True, False]


def test_the_only_component_that_could_be_meant_is_offered_but_not_preferred() -> None:
    found = fixes(doc(W, component("o", "response_text", "text:nobody")), "from_not_found")
    assert [(fix.title, fix.preferred) for fix in found] == [
        ('Replace "nobody" with "w"', False),
        ('Remove the edge from "nobody"', False),
    ]


def test_several_names_that_are_as_near_leave_the_choice() -> None:
    found = fixes(
        doc(W, component("t_1", "upper"), component("o", "response_text", "text:t"), component("t_2", "upper")),
        "from_not_found",
    )
    assert len(found) > 2
    assert not any(fix.preferred for fix in found)


def test_an_edge_is_not_made_the_same_as_another_one() -> None:
    text = doc(W, component("u", "upper", "text:w", "txt:w"), component("o", "response_text", "text:u"))
    assert titles(text, "unknown_lane") == ['Remove the edge from "w"']


def test_an_id_that_stands_twice_takes_its_edges_along_if_that_is_chosen() -> None:
    text = doc(W, component("u", "upper", "text:w"), component("u", "ask", "text:w"), component("o", "response", "text:u"))
    after = mended_by(text, 'Rename this "u" to "ask_1", with every edge from it', "duplicate_id")
    ids = [each["id"] for each in json.loads(after)["components"]]
    assert ids == ["w", "u", "ask_1", "o"]
    assert json.loads(after)["components"][3]["input"] == [{"lane": "text", "from": "ask_1"}]


def test_a_new_id_is_one_that_nothing_uses() -> None:
    text = doc(
        component("c", "chat"), component("a", "agent", "questions:c"), component("llm_1", "response_answers", "answers:a")
    )
    assert titles(text, "invoke_missing") == ['Add "llm_2", bound to "a" (llm)']


def test_a_node_that_others_lead_to_is_connected_at_its_head() -> None:
    text = doc(
        W,
        OUT,
        component("u", "upper"),
        component("v", "upper", "text:u"),
        component("o", "response_text", "text:v"),
        source="w",
    )
    assert [fix.title for fix in fixes(text, "not_connected")] == [
        'Connect it to "w" (text)',
        'Remove "u", with every edge from it',
    ]
    analysis = look(text)
    last = analysis.problems[-1]
    assert [fix.title for fix in fixes_for(FixContext(analysis), last)] == ['Remove "o"']


def test_no_circle_is_closed_by_connecting() -> None:
    text = doc(
        W, component("u", "upper", "text:w", "text:v"), component("v", "upper"), component("o", "response_text", "text:u")
    )
    assert [fix.title for fix in fixes(text, "not_connected")] == [
        'Connect it to "w" (text)',
        'Remove "v", with every edge from it',
    ]


# in the text of a person

WIDE = """{
\t// what begins
\t"components": [
\t\t{
\t\t\t"id": "chat_1", // people ask here
\t\t\t"provider": "chat",
\t\t\t"config": {},
\t\t\t"control": [
\t\t\t\t// bound the wrong way round
\t\t\t\t{ "classType": "tool", "from": "files_1" },
\t\t\t],
\t\t},
\t\t{
\t\t\t"id": "files_1",
\t\t\t"provider": "tool_filesystem",
\t\t\t"config": {}, /* the current folder */
\t\t}, // the files
\t\t{ "id": "llm_1", "provider": "llm_scripted", "config": {}, "input": [{ "lane": "questions", "from": "chat_1" }] },
\t],
\t"source": "chat_1",
}
""".replace("\n", "\r\n")


def test_an_edge_moves_to_the_other_component_as_that_is_written() -> None:
    after = mended_by(WIDE, 'Move this edge to "files_1", which is invoked', "control_on_invoker", REAL)
    expected = WIDE.replace('\t\t\t\t{ "classType": "tool", "from": "files_1" },\r\n', "").replace(
        '"config": {}, /* the current folder */\r\n',
        '"config": {}, /* the current folder */\r\n\t\t\t"control": [{ "classType": "tool", "from": "chat_1" }],\r\n',
    )
    assert after == expected


def test_a_component_is_added_as_the_others_are_written() -> None:
    text = mended_by(WIDE, 'Move this edge to "files_1", which is invoked', "control_on_invoker", REAL)
    after = mended_by(text, 'Add response_answers after "llm_1"', "no_response", REAL)
    row = (
        '\t\t{ "id": "response_answers_1", "provider": "response_answers", "config": {}, '
        '"input": [{ "lane": "answers", "from": "llm_1" }] },\r\n'
    )
    assert after == text.replace('\t],\r\n\t"source"', row + '\t],\r\n\t"source"')
    assert look(after, REAL).problems == ()


def test_a_component_goes_with_every_edge_from_it() -> None:
    text = mended_by(WIDE, 'Remove the edge from "files_1"', "control_on_invoker", REAL)
    after = mended_by(text, 'Remove "files_1"', "not_connected", REAL)
    start = text.index('\t\t{\r\n\t\t\t"id": "files_1"')
    end = text.index('\t\t{ "id": "llm_1"')
    assert after == text[:start] + text[end:]


def test_a_comment_on_the_line_of_a_setting_moves_with_it() -> None:
    text = """{
  "components": [
    { "id": "c", "provider": "chat", "config": {} },
    {
      "id": "l",
      "provider": "llm",
      "config": {
        "profile": "small",
        "apikey": "k", // from the vault
        "small": {
          "model": "m"
        }
      },
      "input": [{ "lane": "questions", "from": "c" }]
    },
    { "id": "o", "provider": "response_answers", "config": {}, "input": [{ "lane": "answers", "from": "l" }] }
  ]
}
"""
    after = mended_by(text, 'Move "apikey" into "small"', "beside_profile")
    assert after == text.replace('        "apikey": "k", // from the vault\n', "").replace(
        '"model": "m"\n', '"model": "m",\n          "apikey": "k" // from the vault\n'
    )
