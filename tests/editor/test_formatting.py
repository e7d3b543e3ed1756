"""Formatting changes blanks alone: the meaning, the comments and their places stay, and twice is once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrext.editor.formatting import formatted
from rrext.editor.text import applied
from rrext.pipefile.text.source import parse

EXAMPLES = Path(__file__).parents[1] / "examples"
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL)


def done(text: str, indent: str = "  ") -> str:
    return applied(text, formatted(text, indent))


# any text with comments


blanks = st.sampled_from(["", "", "", " ", "\n", "\n\n\n", "\t", "\r\n", "  \n  "])
comments = st.sampled_from(["// a\n", "//\r\n", "/* b */", "/* c\n   d */", "/**/", '// "x": {\n', "/* } */"])
gaps = st.lists(st.one_of(blanks, blanks, comments), max_size=3).map("".join)
texts = st.sampled_from(['"a"', '"b c"', '"\\"// no"', '"é字"', '"' + "long " * 12 + '"'])
scalars = st.one_of(texts, st.sampled_from(["1", "-2.5e3", "true", "null"]))


@st.composite
def values(draw: st.DrawFn, depth: int = 3) -> str:
    kind = draw(st.sampled_from(["scalar", "list", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(scalars)
    pieces: list[str] = []
    for place in range(draw(st.integers(0, 4))):
        key = f'"k{place}"{draw(gaps)}:{draw(gaps)}' if kind == "object" else ""
        pieces.append(f"{draw(gaps)}{key}{draw(values(depth - 1))}{draw(gaps)}")
    inside = ",".join(pieces) or draw(gaps)
    if pieces and draw(st.booleans()):
        inside += f",{draw(gaps)}"
    return f"{{{inside}}}" if kind == "object" else f"[{inside}]"


@pytest.mark.promise("editor:format:blanks-alone")
@given(gaps, values(), gaps, st.sampled_from(["  ", "    ", "\t"]))
@settings(max_examples=300, deadline=None)
def test_formatting_changes_blanks_alone_and_twice_is_once(before: str, value: str, after: str, indent: str) -> None:
    text = before + value + after
    once = done(text, indent)
    assert TOKEN.findall(once) == TOKEN.findall(text)
    assert parse(once).value == parse(text).value
    assert not [problem for problem in parse(once).problems if problem.code != "duplicate_key"]
    assert done(once, indent) == once
    assert once.endswith(("\n", "\r"))
    assert not re.search(r"[ \t][\r\n]", re.sub(r"(?s)//[^\r\n]*|/\*.*?\*/", "x", once)), "no blanks at the end of a line"


@given(gaps, values(), gaps, st.data())
@settings(max_examples=100, deadline=None)
def test_formatting_a_range_changes_blanks_of_its_lines_alone(before: str, value: str, after: str, data: st.DataObject) -> None:
    text = before + value + after
    lines = text.splitlines(keepends=True) or [""]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    span = len("".join(lines[:first])), len("".join(lines[: last + 1]))
    edits = formatted(text, "  ", span)
    assert all(span[0] <= edit.end <= span[1] for edit in edits)
    once = applied(text, edits)
    assert TOKEN.findall(once) == TOKEN.findall(text)
    assert parse(once).value == parse(text).value
    if span == (0, len(text)):
        assert once == done(text)


@given(st.text('{}[]:,"/* \n\\a1', max_size=30))
@settings(deadline=None)
def test_a_text_with_a_mistake_stays_as_it_is(text: str) -> None:
    if parse(text).problems:
        assert formatted(text, "  ") == []


# how it looks


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":1,"b":[1,2 ]}', '{"a": 1, "b": [1, 2]}\n'),
        ('{\n"a":1,"b":[1,2 ]}', '{\n  "a": 1,\n  "b": [1, 2]\n}\n'),
        ('{"a": {\n}, "b" : [ ]}', '{\n  "a": {},\n  "b": []\n}\n'),
        ("[1,\n2,]", "[\n  1,\n  2,\n]\n"),
        ("// head\n\n\n\n{} // tail", "// head\n\n{} // tail\n"),
        ('{ // first\n\n\n"a":1, // one\n\n\n// two\n"b":2 }', '{ // first\n\n  "a": 1, // one\n\n  // two\n  "b": 2\n}\n'),
        ('{\n"a": /* x */1, /* y */ "b":2}', '{\n  "a": /* x */ 1,\n  /* y */ "b": 2\n}\n'),
        ('{"a"://why\n1}', '{\n  "a": //why\n    1\n}\n'),
        ("[1\r\n,2]", "[\r\n  1,\r\n  2\r\n]\r\n"),
        ('{ "a":{"b":1},  "c":{ "d":[ 1] } }', '{ "a": { "b": 1 }, "c": { "d": [1] } }\n'),
        ("", ""),
        ("{", "{"),
    ],
)
def test_a_text_is_formatted_so(text: str, shown: str) -> None:
    assert done(text) == shown


def test_a_long_line_is_spread_and_its_components_keep_theirs() -> None:
    part = '{"id":"x","provider":"webhook","config":{}}'
    shown = done(f'{{"components":[{",".join([part] * 4)}]}}')
    line = '    {"id": "x", "provider": "webhook", "config": {}}'
    assert shown == '{\n  "components": [\n' + ",\n".join([line] * 4) + "\n  ]\n}\n"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.pipe")), ids=lambda path: path.name)
def test_the_examples_are_formatted_already(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert done(text) == text


def test_a_large_text_takes_no_more_than_linear_work() -> None:
    assert done("[" * 50 + "]" * 50).count("\n") == 1
    wide = "[" + ",".join(["[[[1]]]"] * 20_000) + "]"
    assert len(done(wide).splitlines()) == 20_002
