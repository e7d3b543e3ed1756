"""Pipeline text: JSON with comments and trailing commas, read whatever is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.limits import Limits
from rrext.pipefile.text.problems import CODES, below
from rrext.pipefile.text.source import ParsedText, SourceMap, parse, read
from rrext.pipefile.text.tree import Located

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=5)
    ),
    max_leaves=20,
)
PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    '"b":',
    "a",
    "'",
    "'x'",
    "\\",
    "\\u",
    "\\ud800",
    "1",
    "-",
    "01",
    ".5",
    "1e999",
    "true",
    "nul",
    "NaN",
    "/",
    "//",
    "/*",
    "*/",
    "\n",
    "\r",
    " ",
    "\t",
    "\x0b",
    "\ufeff",
    "é",
    "😀",
    "\u2028",
    "\x00",
]
broken = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)


def codes(text: str | bytes) -> list[str]:
    return [problem.code for problem in parse(text).problems]


def map_of(source: ParsedText) -> SourceMap:
    assert source.map is not None
    return source.map


def places(located: Located, path: str = "") -> list[tuple[str, Located]]:
    found = [(path, located)]
    for index, child in enumerate(located.children):
        found += places(child, below(path, index if child.key is None else child.key))
    return found


@given(values)
def test_every_strict_document_is_read_the_same_both_ways(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert parse(text).problems == ()
    assert parse(text).value == read(text).value == value
    assert read(text).map is None


@given(values, st.data())
def test_the_fast_way_and_the_tolerant_way_agree_on_documents_with_one_mistake(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=data.draw(st.sampled_from([None, 1])))
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.sampled_from(["", *PIECES])) + text[at + data.draw(st.integers(0, 2)) :]
    assert_both_agree(text)


@given(broken)
@example('{"a": 1, "a": 2}')
@example("1" * 4301)
@example("-" + "1" * 4300)
@example('"\\ud83d\\ude00"')
@example('"\\ud83d \\ude00"')
@example("1e400")
@example('{"a":{"b":1,"b":1}}')
def test_the_fast_way_and_the_tolerant_way_agree_on_any_text(text: str) -> None:
    assert_both_agree(text)


def assert_both_agree(text: str) -> None:
    fast, tolerant = read(text), parse(text)
    assert fast.value == tolerant.value
    assert fast.problems == tolerant.problems
    try:
        strict = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        uses_more_than_json = re.search(r"//|/\*|,\s*[}\]]|^\ufeff", text)
        assert tolerant.problems or uses_more_than_json
    else:
        assert tolerant.value == strict
        assert {problem.code for problem in tolerant.problems} <= {"duplicate_key", "too_deep"}


@given(broken)
@example("[" * 5000)
@example('{"a":' * 5000)
@example('["a":' * 300)
@example('{"a"' * 300)
@example("'\\")
@example('"\\ud800\\ud800\\udc00')
def test_any_text_gives_a_value_and_places_inside_the_text(text: str) -> None:
    source = parse(text)
    where = map_of(source)
    for problem in source.problems:
        start, end = where.span_of(problem)
        assert 0 <= start <= end <= len(text)
        assert problem.code in CODES
        assert all(other.span is None or other.span[1] <= len(text) for other in problem.related)
    found = places(where.root)
    paths = [path for path, _ in found]
    for path, located in found:
        assert 0 <= located.start <= located.end <= len(text)
        assert where.find(path) is located or len(set(paths)) < len(paths), "only a key that stands twice hides a value"
    if source.value is None and where.root.kind == "hole":
        assert source.problems


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_problem(data: bytes) -> None:
    source = parse(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        assert "not_utf8" in [problem.code for problem in source.problems]
    assert read(data).value == source.value


@st.composite
def decorated(draw: st.DrawFn, value: Any) -> str:
    """A value written with comments and trailing commas at every place where they may stand."""
    space = lambda: draw(st.sampled_from(["", " ", "\n", "\r\n", "\t", "/* ] */", "// }\n", "/**/", "/***/"]))  # noqa: E731
    if isinstance(value, dict):
        members = [f"{space()}{json.dumps(key)}{space()}:{draw(decorated(item))}" for key, item in value.items()]
    elif isinstance(value, list):
        members = [draw(decorated(item)) for item in value]
    else:
        return f"{space()}{json.dumps(value)}{space()}"
    trailing = draw(st.sampled_from(["", ","])) if members else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{space()}{opening}{','.join(members)}{trailing}{space()}{closing}{space()}"


@given(values.flatmap(lambda value: st.tuples(st.just(value), decorated(value))))
def test_comments_and_trailing_commas_change_nothing(pair: tuple[Any, str]) -> None:
    value, text = pair
    assert parse(text).problems == ()
    assert parse(text).value == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{a: 1}", "unquoted_text"),
        ("{'a': 1}", "single_quotes"),
        ('{"a": NaN}', "not_finite"),
        ('{"a": -Infinity}', "not_finite"),
        ('{"a": 0x10}', "invalid_number"),
        ('{"a": .5}', "invalid_number"),
        ('{"a": 5.}', "invalid_number"),
        ('{"a": +1}', "invalid_number"),
        ('{"a": 01}', "invalid_number"),
        ('{"a": "b\\\nc"}', "unterminated_string"),
        ('{"a": "\\x41"}', "invalid_escape"),
        ('{"a": "\t"}', "control_character"),
        ('{"a": 1,, "b": 2}', "extra_comma"),
        ("[,]", "extra_comma"),
        ("# comment\n{}", "unexpected_text"),
        ('{"a": 1}\x0b', "trailing_text"),
    ],
)
def test_nothing_else_of_json5_is_json(text: str, code: str) -> None:
    assert codes(text)[0] == code


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ('{"a": 1, "b": }', {"a": 1, "b": None}, ["expected_value"]),
        ('{"a": , "b": 2}', {"a": None, "b": 2}, ["expected_value"]),
        ('{"a": "b": 2}', {"a": None, "b": 2}, ["expected_value"]),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, ["expected_comma"]),
        ('{"a" 1}', {"a": 1}, ["expected_colon"]),
        ('{"a": 1, "b"}', {"a": 1, "b": None}, ["expected_colon"]),
        ('{"a": 1, b}', {"a": 1}, ["unexpected_text"]),
        ('{"a": tru}', {"a": "tru"}, ["unquoted_text"]),
        ('{"a": True}', {"a": True}, ["unexpected_text"]),
        ('{"a": "text,\n "b": 2}', {"a": "text", "b": 2}, ["unterminated_string"]),
        ('{"a": "text}\n', {"a": "text"}, ["unterminated_string"]),
        ('{"list": [{"a": 1}, {"b": 2, \n {"c": 3}]}', {"list": [{"a": 1}, {"b": 2}, {"c": 3}]}, ["unclosed"]),
        ('{"list": [1, 2, "b": 3}', {"list": [1, 2], "b": 3}, ["unclosed"]),
        ('{"list": [, "b": 3}', {"list": [], "b": 3}, ["unclosed"]),
        ('{"list": [{"a": 1},\n,\n"b": 3}', {"list": [{"a": 1}], "b": 3}, ["unclosed"]),
        ('{"list": [[1, 2, "b": 3}', {"list": [[1, 2]], "b": 3}, ["unclosed", "unclosed"]),
        ('{"list": [{"a": 1}\n "b": 3}', {"list": [{"a": 1}], "b": 3}, ["unclosed", "expected_comma"]),
        ('{"list": {"a": 1}, {"b": 2}], "c": 3}', {"list": [{"a": 1}, {"b": 2}], "c": 3}, ["missing_bracket"]),
        ('{"x": {"list": {"a": []}, {"b": 2}]}, "c": 3}', {"x": {"list": [{"a": []}, {"b": 2}]}, "c": 3}, ["missing_bracket"]),
        ('{"list": {"a": 1}, {"b": 2}}', {"list": {"a": 1}, "": {"b": 2}}, ["expected_key"]),
        ('{"list": [{"id": "a"}, "id": "b"', {"list": [{"id": "a"}, {"id": "b"}]}, ["missing_brace"]),
        ('{"list": [{"a": 1},\n"b": 3, "c": {', {"list": [{"a": 1}], "b": 3, "c": {}}, ["unclosed", "unclosed"]),
        ('[1, "b": 2]', [1, {"b": 2}], ["missing_brace"]),
        (
            '{"input": ["lane": "text", "from": "a"], "b": 1}',
            {"input": [{"lane": "text", "from": "a"}], "b": 1},
            ["missing_brace"],
        ),
        ('"a": 1, "b": 2', {"a": 1, "b": 2}, ["missing_brace"]),
        ('{"a": [1, 2}', {"a": [1, 2]}, ["unclosed"]),
        ('{"a": 1]', {"a": 1}, ["unexpected_closer", "unclosed"]),
        ('{"a": [{"b": 1}', {"a": [{"b": 1}]}, ["unclosed"]),
        ('{"a": 1} {"b": 2}', {"a": 1}, ["trailing_text"]),
        ('{"a": 1 /* b', {"a": 1}, ["unterminated_comment", "unclosed"]),
        ("  // nothing\n", None, ["empty_file"]),
    ],
)
def test_a_text_in_the_middle_of_typing_gives_the_value_that_was_meant(text: str, value: Any, found: list[str]) -> None:
    assert parse(text).value == value
    assert codes(text) == found


def test_one_wrong_quote_is_one_problem() -> None:
    text = '{"components": [\n{"id": "a", "input": [{"lane": text", "from": "b"}]},\n{"id": "c", "config": {"d": NaN}}]}'
    assert codes(text)[0] == "unquoted_text"
    assert codes(text).count("unquoted_text") == 1
    assert "not_finite" in codes(text)
    assert parse(text).value["components"][-1]["id"] == "c"


def test_a_key_that_stands_twice_names_both_places() -> None:
    text = '{"a": {"k": 1, "k": 2}}'
    (problem,) = parse(text).problems
    assert problem.code == "duplicate_key"
    assert problem.path == "/a/k"
    assert text[slice(*map_of(parse(text)).span_of(problem))] == '"k"'
    assert problem.span == (15, 18)
    assert problem.related[0].span == (7, 10)
    assert parse(text).value == read(text).value == {"a": {"k": 2}}
    assert read(text).problems == (problem,)


def test_a_colon_inside_a_text_does_not_look_like_a_key() -> None:
    assert read('{"a": "\\": 1, \\"a\\":", "b": "x:"}').problems == ()


def test_nesting_is_bounded_for_both_ways() -> None:
    limits = Limits(max_depth=3)
    assert read("[[[]]]", limits=limits).value == [[[]]]
    assert [problem.code for problem in read("[[[[]]]]", limits=limits).problems] == ["too_deep"]
    assert not read("[[[[]]]]", limits=limits).complete


def test_a_text_over_the_limit_is_not_read() -> None:
    limits = Limits(max_pipeline=10)
    assert [problem.code for problem in read('{"a": 12345}', limits=limits).problems] == ["too_large"]


def test_a_file_full_of_mistakes_is_not_read_to_its_end() -> None:
    source = parse("[" + "@,\n" * 50_000)
    assert len(source.problems) <= 1001
    assert not source.complete


def test_bytes_that_are_no_utf8_are_named_and_the_rest_is_read() -> None:
    source = read(b'{"a": "\xc3\xa9\xff", "b": 1}')
    assert source.value == {"a": "é\ufffd", "b": 1}
    assert [(problem.code, problem.span) for problem in source.problems] == [("not_utf8", (8, 9))]


def test_a_lone_surrogate_in_a_text_is_named_and_replaced() -> None:
    source = read('{"a": "\ud800"}')
    assert source.value == {"a": "\ufffd"}
    assert [(problem.code, problem.span) for problem in source.problems] == [("not_utf8", (7, 8))]


def test_keys_and_values_have_their_exact_range() -> None:
    text = '{ "a/b" : [1, {"~": "😀x"}] /* c */ }'
    where = map_of(parse(text))
    assert text[slice(*where.span("/a~1b", key=True))] == '"a/b"'
    assert text[slice(*where.span("/a~1b/1"))] == '{"~": "😀x"}'
    assert text[slice(*where.span("/a~1b/1/~0"))] == '"😀x"'
    assert text[slice(*where.span("/a~1b/7"))] == "[", "what is not there marks the bracket around it"
    assert where.find("/a~1b/07x") is None


def test_an_offset_leads_to_the_innermost_value_or_key() -> None:
    text = '{"a": [10, {"b": "x"}], "c": }'
    where = map_of(parse(text))

    def at(offset: int) -> tuple[str, bool]:
        place = where.at(offset)
        return place.pointer, place.in_key

    assert at(0) == ("", False)
    assert at(text.index('"a"') + 1) == ("/a", True)
    assert at(text.index("10")) == ("/a/0", False)
    assert at(text.index('"b"')) == ("/a/1/b", True)
    assert at(text.index('"x"') + 3) == ("/a/1/b", False)
    assert at(text.index('"c": ') + 4) == ("/c", False)
    assert where.is_hole("/c")
    assert not where.is_hole("/a")


@given(st.text(st.sampled_from("ab\n\r😀\u0301"), max_size=30))
def test_line_and_column_lead_back_to_the_offset(text: str) -> None:
    where = map_of(parse(text))
    for offset in range(len(text) + 1):
        line, column = where.position(offset)
        assert line >= 1
        assert column >= 1
        inside_line_end = text[offset : offset + 1] in ("\n", "\r") or text[offset - 1 : offset + 1] == "\r\n"
        assert inside_line_end or where.offset(line, column) == offset
    assert where.offset(10_000, 1) == len(text)
    assert where.position(len(text))[0] == len(re.split("\r\n|\r|\n", text))


def test_a_line_is_shown_without_its_end() -> None:
    where = map_of(parse('{\r\n "a": 1\r\n}'))
    assert [where.line(number) for number in (1, 2, 3)] == ["{", ' "a": 1', "}"]


class CountedKey(str):
    """A key that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)


def test_looking_for_each_member_of_a_large_object_does_not_look_at_all_of_them_each_time() -> None:
    names = [f"k{number}" for number in range(1000)]
    members = [Located("true", True, at, at + 1, CountedKey(name), (at, at)) for at, name in enumerate(names)]
    where = SourceMap(" " * 1001, Located("object", {}, 0, 1001, inside=members))
    CountedKey.compared = 0
    assert [where.find(f"/{name}") for name in names] == members
    assert where.find("/k1000") is None
    assert CountedKey.compared <= 2 * len(names)


def test_of_a_key_that_stands_twice_in_a_large_object_the_last_one_is_found() -> None:
    text = "{" + ", ".join(f'"k{number % 30}": {number}' for number in range(60)) + "}"
    where = parse(text).map
    assert where is not None
    assert [found.value for number in range(30) if (found := where.find(f"/k{number}"))] == list(range(30, 60))
