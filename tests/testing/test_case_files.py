"""Files of cases: how they are read, what is wrong with them, and what an update leaves as it was."""

from __future__ import annotations

import json

import pytest

from rrext.testing.case_file import SCHEMA, CaseFile, cases_path
from rrext.tools.validation import SchemaValidator


def problems(text: str | bytes) -> list[tuple[int, str, str]]:
    """Line, path and message of each problem."""
    file = CaseFile("a.cases.json", text.encode() if isinstance(text, str) else text)
    assert file.cases == [] or all(problem.severity != "error" for problem in file.problems)
    return [(file.place(problem)[0], problem.path, problem.message) for problem in file.problems]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("", "", "a file of cases is"),
        ("[]", "", "expected object, got array"),
        ("{}", "/cases", "required property missing: cases"),
        ('{"cases": [{"name": "a", "tol": "x"}]}', "/cases/0/tol", 'did you mean "tool"?'),
        ('{"cases": [{"tool": "x"}]}', "/cases/0/name", "required property missing"),
        ('{"cases": [{"name": "a"}]}', "/cases/0", "a tool or a lane"),
        ('{"cases": [{"name": "a", "tool": "x", "lane": "text"}]}', "/cases/0", "a tool or a lane"),
        ('{"cases": [{"name": "a", "lane": "txt"}]}', "/cases/0/lane", 'expected "tags", "text"'),
        ('{"cases": [{"name": "a", "lane": "text", "node": "b"}]}', "/cases/0/node", "belongs to a case with a tool"),
        ('{"cases": [{"name": "a", "tool": "x", "source": "b"}]}', "/cases/0/source", "belongs to a case with a lane"),
        ('{"cases": [{"name": "a", "tool": "x", "expect": 1, "error": "y"}]}', "/cases/0/error", "a result or an error"),
        ('{"cases": [{"name": "a", "tool": "x", "timeout": 0}]}', "/cases/0/timeout", "expected more than 0"),
        ('{"cases": [{"name": "a", "tool": "x", "expect": {"$pattern": "("}}]}', "/cases/0/expect/$pattern", "no regular"),
        (
            '{"cases": [{"name": "a", "tool": "x", "expect": [{"$patern": "("}]}]}',
            "/cases/0/expect",
            "did you mean $pattern or",
        ),
        (
            '{"cases": [{"name": "a", "tool": "x", "stub": {"b": {"tols": {}}}}]}',
            "/cases/0/stub/b/tols",
            'did you mean "tools"?',
        ),
        ('{"cases": [{"name": "a", "tool": "x"}, {"name": "a", "tool": "y"}]}', "/cases/1/name", "case 1 has this name too"),
        ('{"cases": [{"name": "a", "lane": "text", "input": {"$file": 5}}]}', "/cases/0/input/$file", "the path of a file"),
        (
            '{"cases": [{"name": "a", "tool": "x", "stub": {"b": {"tools": {"x": {"$error": [1]}}}}}]}',
            "/cases/0/stub/b/tools/x/$error",
            "expected a code",
        ),
        (b'{"cases": [{"name": "\xff", "tool": "x"}]}', "", "is no UTF-8"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str | bytes, path: str, words: str):
    assert [(place, words in message) for _, place, message in problems(text)] == [(path, True)]


def test_a_problem_has_the_line_of_its_text():
    text = '{"cases": [\n  // one\n  {"name": "a", "tool": "x"},\n  {"name": "b",\n   "tol": "x"},\n]}'
    assert [line for line, _, _ in problems(text)] == [5]


def test_the_schema_is_one_and_names_every_member_of_a_case():
    SchemaValidator(SCHEMA).compile()
    file = CaseFile("a.cases.json", json.dumps({"cases": [{"name": "a", "lane": "text"}]}).encode())
    (case,) = file.cases
    assert {*SCHEMA["$defs"]["case"]["properties"]} == {*case.__struct_fields__} - {"index"}


def test_an_update_writes_expectations_and_nothing_else():
    text = """// all of it
{"cases": [
  {"name": "one", "tool": "x", "expect": 1, "timeout": 3}, // stays
  {
    "name": "two", // a comment
    "tool": "x",
  },
  {"name": "three", "tool": "x", /* here too */ "expect": {"a": 1}}
]}
"""
    file = CaseFile("a.cases.json", text.encode())
    one, two, three = file.cases
    assert file.with_expectations([(one, [2]), (three, "3")]) == text.replace('"expect": 1', '"expect": [\n    2\n  ]').replace(
        '{"a": 1}', '"3"'
    )
    new = file.with_expectations([(two, {"b": None})])
    assert '"tool": "x",\n    "expect": {\n      "b": null\n    },\n  },' in new
    assert [case.expect for case in CaseFile("a.cases.json", new.encode()).cases] == [1, {"b": None}, {"a": 1}]


def test_the_cases_of_a_pipeline_stand_beside_it():
    assert cases_path("some/a.pipe") == "some/a.cases.json" == cases_path("some/a.cases.json")
    assert CaseFile("some/a.cases.json", b"").pipeline == "some/a.pipe"
