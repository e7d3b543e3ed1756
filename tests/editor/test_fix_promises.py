"""Whatever somebody types, the fixes that are offered keep their promises."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from editor.fix_cases import CASES
from editor.fixing import SAMPLE, SECRET, breach, look, mistakes, preferred
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.fixes.fix import FixContext
from rrext.editor.fixes.table import fixes_for
from rrext.editor.text import applied
from rrext.pipefile.text.source import parse

LINES = """{
  // a pipeline of everybody
  "components": [
    {
      "id": "chat_1", // the first
      "provider": "chat",
      "config": { "mode": "Source", "type": "chat" }
    },
    /* thinks */
    {
      "id": "agent_1",
      "provider": "agent",
      "config": {},
      "input": [{ "lane": "questions", "from": "chat_1" }]
    },
    {
      "id": "llm_1",
      "provider": "llm",
      "config": {
        "profile": "small",
        "small": { "model": "m", "limits": { "tokens": 1 } },
      },
      "control": [{ "classType": "llm", "from": "agent_1" }]
    },
    {
      "id": "weather_1",
      "provider": "weather",
      "config": { "units": "${ROCKETRIDE_KEY}", "days": 2, "tags": ["a", "b"] },
      "control": [{ "classType": "tool", "from": "agent_1" }]
    },
    // what comes back
    {
      "id": "response_1",
      "provider": "response",
      "config": { "lanes": [{ "laneId": "answers", "laneName": "reply" }] },
      "input": [{ "lane": "answers", "from": "agent_1" }]
    }
  ],
  "source": "chat_1",
  "version": 1
}
"""
FLAT = json.dumps(parse(LINES).value)
WRAPPED = '{"pipeline":' + json.dumps(parse(LINES).value, separators=(",", ":")) + "}"
BASES = [LINES, FLAT, WRAPPED, LINES.replace("\n", "\r\n").replace("  ", "\t"), *(case.text for case in CASES)]

WORDS = [
    *("chat_1", "chat", "agent", "webhook", "webhok", "response_text", "response", "llm_1", "text", "questions", "txt"),
    *("llm", "tool", "input", "inputs", "control", "config", "id", "provider", "profile", "small", "large", "lanes", "lane"),
    *(
        "from",
        "classType",
        "",
        "${ROCKETRIDE_KY}",
        "${ROCKETRIDE_KEY}",
        "${HOME}",
        "\u00e9\U0001f600",
        "days",
        "unit",
        "components",
        "source",
    ),
]
SIGNS = ["", "", '"', "'", "{", "}", "[", "]", ",", ":", ";", "\n", " ", "\\", "//", "/*", "x", "01", "\t", "None"]
VALUES: list[Any] = [None, True, 0, 3, 1.5, "3", [], {}, ["a"], {"id": "x"}, [[]], {"lane": "text", "from": "chat_1"}]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key or index) of a document."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += [(value, key), *places(item)]
    return found


def spoil(document: Any, data: st.DataObject) -> None:
    """Change one thing of a document."""
    holder, key = data.draw(st.sampled_from(places(document)))
    match data.draw(st.integers(0, 4)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        case 1 | 2:
            holder[key] = data.draw(st.sampled_from(WORDS))
        case 3 if isinstance(holder, dict):
            holder[data.draw(st.sampled_from(WORDS))] = holder.pop(key)
        case _:
            holder[key] = deepcopy(data.draw(st.sampled_from(VALUES)))


def check(text: str, data: st.DataObject) -> None:
    """Some fixes of some problems of a text keep their promises."""
    analysis = look(text, SAMPLE)
    bench = FixContext(analysis)
    problems = list(analysis.problems)
    for problem in problems if len(problems) <= 6 else data.draw(st.lists(st.sampled_from(problems), min_size=1, max_size=6)):
        found = fixes_for(bench, problem)
        assert sum(fix.preferred for fix in found) <= 1
        assert len({fix.edits for fix in found}) == len(found), "no fix is offered twice"
        for fix in found:
            assert breach(analysis, problem, fix) == "", (problem.code, fix.title)
            assert SECRET not in fix.title + "".join(edit.text for edit in fix.edits), "no variable's value is written"


@pytest.mark.promise("editor:fix:removes-problem")
@given(st.data())
def test_fixes_of_spoilt_pipelines_keep_their_promises(data: st.DataObject) -> None:
    document = json.loads(FLAT)
    for _ in range(data.draw(st.integers(1, 3))):
        if places(document):
            spoil(document, data)
    indent = data.draw(st.sampled_from([None, 2, "\t"]))
    check(json.dumps(document, indent=indent, ensure_ascii=data.draw(st.booleans())), data)


@pytest.mark.promise("editor:fix:removes-problem")
@given(st.data())
def test_fixes_of_broken_texts_keep_their_promises(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(BASES))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        length = data.draw(st.sampled_from([0, 1, 1, 1, 2, 10]))
        new = data.draw(st.sampled_from(SIGNS))
        text = text[:at] + new + text[at + length :]
    check(text, data)


@pytest.mark.promise("editor:fix:removes-problem")
def test_a_fix_removes_the_one_bracket_problem_that_is_shown_of_several() -> None:
    analysis = look('{"components": [{"id": "w", "provder":  "config"{', SAMPLE)
    (problem,) = (problem for problem in analysis.problems if problem.code == "unclosed")
    found = fixes_for(FixContext(analysis), problem)
    assert found
    assert [breach(analysis, problem, fix) for fix in found] == [""] * len(found)


@given(st.text("{}[]:,\"'ab01;= \n\\/*", max_size=40), st.data())
def test_fixes_of_any_text_keep_their_promises(text: str, data: st.DataObject) -> None:
    check(text, data)


@given(st.text(max_size=60), st.data())
def test_any_characters_are_survived(text: str, data: st.DataObject) -> None:
    check(text, data)
    check('{"components": [{"id": ' + json.dumps(text) + ', "provider": "upper", "config": {}}]}', data)


@given(st.data())
def test_preferred_fixes_come_to_an_end(data: st.DataObject) -> None:
    document = json.loads(FLAT)
    for _ in range(data.draw(st.integers(1, 3))):
        if places(document):
            spoil(document, data)
    analysis = look(json.dumps(document), SAMPLE)
    for _ in range(60):
        fix = preferred(analysis)
        if fix is None:
            return
        analysis = look(applied(analysis.text, fix.edits), SAMPLE)
    raise AssertionError(f"there is always one more: {analysis.text}")


# one sign is missing

SIGN = re.compile(r'[{}\[\]":,]')


def without_a_sign(data: st.DataObject, signs: str) -> str:
    found = [match.start() for match in SIGN.finditer(LINES) if match[0] in signs and not in_words(LINES, match.start())]
    at = data.draw(st.sampled_from(found))
    return LINES[:at] + LINES[at + 1 :]


@given(data=st.data())
def test_a_comma_or_colon_that_is_missing_is_put_back(data: st.DataObject) -> None:
    analysis = look(without_a_sign(data, ",:"))
    fix = preferred(analysis)
    after = applied(analysis.text, fix.edits) if fix is not None and mistakes(analysis) else analysis.text
    assert parse(after).value == parse(LINES).value


@given(data=st.data())
def test_a_bracket_or_quote_that_is_missing_is_put_back_somewhere(data: st.DataObject) -> None:
    analysis = look(without_a_sign(data, '{}[]"'))
    for _ in range(10):
        if not mistakes(analysis):
            return
        bench = FixContext(analysis)
        broken = [fixes_for(bench, problem) for problem in analysis.problems if problem.span is not None]
        fix = next(found[0] for found in broken if found and found[0].preferred)
        analysis = look(applied(analysis.text, fix.edits))
    raise AssertionError(analysis.text)


def test_nearly_every_sign_of_a_document_can_be_restored_where_it_was() -> None:
    """Brackets inside of one line are the exception: where they end, only their author knows."""
    signs = [match.start() for match in SIGN.finditer(LINES) if not in_words(LINES, match.start())]
    restored = sum(is_restored(LINES[:at] + LINES[at + 1 :]) for at in signs)
    assert restored >= 0.95 * len(signs)


def is_restored(text: str) -> bool:
    analysis = look(text)
    for _ in range(4):
        bench = FixContext(analysis)
        broken = [fixes_for(bench, problem) for problem in analysis.problems if problem.span is not None]
        fix = next((found[0] for found in broken if found and found[0].preferred), None)
        if fix is None:
            break
        analysis = look(applied(analysis.text, fix.edits))
    return analysis.map.root.value == parse(LINES).value


def in_words(text: str, at: int) -> bool:
    """Whether an offset is inside of a comment or a variable."""
    return any(match.start() <= at < match.end() for match in re.finditer(r"//.*|/\*.*?\*/|\$\{\w+\}", text))
