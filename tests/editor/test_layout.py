"""Members and elements that are put in, taken out and moved: the rest of the text stays as somebody wrote it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.formatting import Edits, TextLayout, joined, style_of
from rrext.editor.text import applied
from rrext.pipefile.text.problems import below
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.text.tree import Located, wrapping_of

NOTE = re.compile(r"c\d{4}(?:\n \*/)?")


def read(text: str) -> SourceMap:
    where = parse(text).map
    assert where is not None
    return where


def place(text: str, path: str) -> Located:
    located = read(text).find(path)
    assert located is not None
    return located


def changed(text: str, edits: Edits) -> str:
    assert edits is not None
    return applied(text, edits)


def with_element(text: str, value: dict[str, Any], path: str = "/c", at: int | None = None, *, wide: bool = False) -> str:
    return changed(text, TextLayout(read(text)).add_elements(place(text, path), [value], at, wide=wide))


def with_member(text: str, key: str, value: Any, path: str = "", order: tuple[str, ...] = ()) -> str:
    layout = TextLayout(read(text))
    return changed(text, layout.add_member(place(text, path), key, lambda _: layout.style.flat(value), order))


def without(text: str, *places: int, path: str = "/c") -> str:
    return changed(text, TextLayout(read(text)).remove(place(text, path), places))


NEW = {"id": "n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"c":[]}', '{"c":[{"id":"n"}]}'),
        ('{"c": [ ]}', '{"c": [{"id": "n"}]}'),
        ('{"c": [{ "a": 1 }]}', '{"c": [{ "a": 1 }, { "id": "n" }]}'),
        ('{"c": [{"a": 1},]}', '{"c": [{"a": 1}, {"id": "n"},]}'),
        ('{"c": [\n  {"a": 1}\n]}', '{"c": [\n  {"a": 1},\n  {"id": "n"}\n]}'),
        ('{"c": [\r\n\t{"a": 1}\r\n]}', '{"c": [\r\n\t{"a": 1},\r\n\t{"id": "n"}\r\n]}'),
        ('{"c": [\r\t{"a": 1}\r]}', '{"c": [\r\t{"a": 1},\r\t{"id": "n"}\r]}'),
        ('{"c": [\n  {"a": 1},\n]}', '{"c": [\n  {"a": 1},\n  {"id": "n"},\n]}'),
        ('{"c": [\n  {"a": 1} // one\n]}', '{"c": [\n  {"a": 1}, // one\n  {"id": "n"}\n]}'),
        ('{"c": [\n  {"a": 1}, // one\n  // more\n]}', '{"c": [\n  {"a": 1}, // one\n  {"id": "n"},\n  // more\n]}'),
        ('{"c": [\n  // none\n]}', '{"c": [\n  // none\n  {"id": "n"}\n]}'),
        (
            '{\n  "c": [{\n    "a": 1\n  }, {\n    "a": 2\n  }]\n}',
            '{\n  "c": [{\n    "a": 1\n  }, {\n    "a": 2\n  }, {\n    "id": "n"\n  }]\n}',
        ),
        (
            '{\n  "c": [\n    {\n      "a": 1,\n    },\n  ],\n}',
            '{\n  "c": [\n    {\n      "a": 1,\n    },\n    {\n      "id": "n",\n    },\n  ],\n}',
        ),
    ],
)
def test_an_element_is_added_as_the_others_are_written(before: str, after: str) -> None:
    assert with_element(before, NEW) == after


def test_the_first_element_gets_lines_of_its_own_where_that_is_wanted() -> None:
    assert with_element('{\n    "c": []\n}', NEW, wide=True) == (
        '{\n    "c": [\n        {\n            "id": "n"\n        }\n    ]\n}'
    )


def test_an_element_may_come_first_or_between() -> None:
    assert with_element('{"c": [{"a": 1}, {"a": 2}]}', NEW, at=0) == '{"c": [{"id": "n"}, {"a": 1}, {"a": 2}]}'
    assert with_element('{"c": [{"a": 1}, {"a": 2}]}', NEW, at=1) == '{"c": [{"a": 1}, {"id": "n"}, {"a": 2}]}'
    lines = '{"c": [ // all\n  {"a": 1}, // one\n  {"a": 2}\n]}'
    assert with_element(lines, NEW, at=0) == '{"c": [ // all\n  {"id": "n"},\n  {"a": 1}, // one\n  {"a": 2}\n]}'
    assert with_element(lines, NEW, at=1) == '{"c": [ // all\n  {"a": 1}, // one\n  {"id": "n"},\n  {"a": 2}\n]}'


def test_a_member_stands_where_people_look_for_it() -> None:
    order = ("id", "provider", "config", "input")
    assert with_member('{"id": "a", "input": []}', "config", {}, order=order) == '{"id": "a", "config": {}, "input": []}'
    assert with_member('{"input": [], "x": 1}', "id", "a", order=order) == '{"id": "a", "input": [], "x": 1}'
    assert with_member('{"id": "a", "x": 1}', "input", [], order=order) == '{"id": "a", "input": [], "x": 1}'
    assert with_member("{}", "id", "a") == '{"id": "a"}'
    assert with_member('{"x": { }}', "id", "a", "/x") == '{"x": {"id": "a"}}'


def test_a_member_that_is_there_is_not_added_again() -> None:
    text = '{"id": 1}'
    assert TextLayout(read(text)).add_member(place(text, ""), "id", lambda _: "2") is None


@pytest.mark.parametrize(
    ("before", "places", "after"),
    [
        ('{"c": [1, 2, 3]}', [0], '{"c": [2, 3]}'),
        ('{"c": [1, 2, 3]}', [1], '{"c": [1, 3]}'),
        ('{"c": [1, 2, 3]}', [2], '{"c": [1, 2]}'),
        ('{"c": [ 1, 2 ]}', [1], '{"c": [ 1 ]}'),
        ('{"c": [1, 2, 3]}', [1, 2], '{"c": [1]}'),
        ('{"c": [1, 2, 3]}', [0, 2], '{"c": [2]}'),
        ('{"c": [1, 2, 3]}', [0, 1, 2], '{"c": []}'),
        ('{"c": [1, 2,]}', [1], '{"c": [1,]}'),
        ('{"c": [\n  1\n]}', [0], '{"c": []}'),
        ('{"c": [\n  1,\n  2\n]}', [1], '{"c": [\n  1\n]}'),
        ('{"c": [\n  1,\n  2,\n]}', [1], '{"c": [\n  1,\n]}'),
        ('{"c": [\n  1,\n  2\n]}', [0], '{"c": [\n  2\n]}'),
        ('{"c": [\r\n  1,\r\n  2\r\n]}', [0], '{"c": [\r\n  2\r\n]}'),
        ('{"c": [\n  // one\n  1, // first\n  2 // second\n]}', [1], '{"c": [\n  // one\n  1 // first\n]}'),
        ('{"c": [\n  // one\n  1, // first\n  2\n]}', [0], '{"c": [\n  // one\n  2\n]}'),
        ('{"c": [\n  // one\n  1\n]}', [0], '{"c": [\n  // one\n]}'),
        ('{"c": [1 /* x */, 2]}', [0], '{"c": [ /* x */ 2]}'),
        ('{"c": [{\n  "a": 1\n}, {\n  "a": 2\n}]}', [0], '{"c": [{\n  "a": 2\n}]}'),
        ('{"c": [{\n  "a": 1\n}, {\n  "a": 2\n}]}', [1], '{"c": [{\n  "a": 1\n}]}'),
    ],
)
def test_elements_are_taken_out_with_their_comma(before: str, places: list[int], after: str) -> None:
    assert without(before, *places) == after


def test_a_member_is_taken_out_with_its_key() -> None:
    assert without('{ "a": 1, "b": 2 }', 0, path="") == '{ "b": 2 }'
    assert without('{ "a": 1, "b": 2 }', 1, path="") == '{ "a": 1 }'
    assert without('{ "a": 1 }', 0, path="") == "{}"


@pytest.mark.parametrize("text", ['{"c": [1 2]}', '{"c": [1,, 2]}', '{"c": [1, 2', '{"c": [1 ; , 2]}', '{"c": [,1, 2]}'])
def test_nothing_is_changed_where_the_text_is_broken(text: str) -> None:
    layout, holder = TextLayout(read(text)), place(text, "/c")
    assert layout.remove(holder, [0]) is None
    assert layout.add_elements(holder, [NEW]) is None or "1 2" in text or "," in text


def test_what_is_moved_is_indented_anew_and_keeps_its_comment() -> None:
    text = '{\n    "a": {\n        "b": [\n            1\n        ]\n    }, // note\n    "z": 1\n}'
    layout = TextLayout(read(text))
    taken = layout.take(place(text, ""), 0)
    assert taken is not None
    assert (taken.note, taken.margin) == ("// note", "    ")
    assert layout.moved(taken, "  ") == '"a": {\n      "b": [\n          1\n      ]\n  }'
    assert changed(text, taken.edits) == '{\n    "z": 1\n}'


def test_what_is_broken_inside_is_not_moved() -> None:
    text = '{"a": [1 2], "b": 1}'
    assert TextLayout(read(text)).take(place(text, ""), 0) is None


def test_changes_that_touch_the_same_text_are_none() -> None:
    text = '{"c": [1, 2]}'
    layout, holder = TextLayout(read(text)), place(text, "/c")
    assert joined(layout.remove(holder, [0]), layout.remove(holder, [0])) is None
    assert joined(layout.remove(holder, [0]), None) is None


def test_a_style_is_read_off_the_document() -> None:
    style = style_of(read('{\r\n\t"a" : { "b" : 1 },\r\n\t"c" : [1,2],\r\n}'))
    assert (style.newline, style.indent, style.colon, style.comma) == ("\r\n", "\t", " : ", ",")
    assert (style.padded, style.trailing, style.wide) == (True, True, True)
    assert style_of(read("")).flat({"a": [1, {}]}) == '{"a": [1, {}]}'


# any document

blanks = st.sampled_from(["", "", "", " ", "\n", "\n  ", "\r\n    ", "\t"])
numbers = st.integers(1000, 9999)
comments = st.one_of(
    numbers.map(lambda n: f"// c{n}\n"), numbers.map(lambda n: f"/* c{n} */"), numbers.map(lambda n: f"/* c{n}\n */")
)
gaps = st.lists(st.one_of(blanks, blanks, blanks, comments), max_size=3).map("".join)
scalars = st.one_of(st.integers(0, 99), st.sampled_from(["", "a", 'b"', "// no", "[,]", "\u00e9\U0001f600"]), st.none())
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value with blanks and comments anywhere, and perhaps a comma after the last of something."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else [(None, item) for item in value]
        texts = [
            draw(gaps) + (f'"{key}"{draw(gaps)}:{draw(gaps)}' if key is not None else "") + draw(written(item)) + draw(gaps)
            for key, item in items
        ]
        last = draw(st.sampled_from(["", "", "," + draw(gaps)]))
        sign = "{}" if isinstance(value, dict) else "[]"
        return sign[0] + ",".join(texts) + last + sign[1]
    inside = draw(gaps) if isinstance(value, dict | list) else ""
    flat = style_of(read("")).flat(value)
    return flat[0] + inside + flat[1:] if isinstance(value, dict | list) else flat


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    value = {"c": draw(st.one_of(st.lists(trees, max_size=4), st.dictionaries(st.sampled_from("abcdef"), trees, max_size=4)))}
    return draw(gaps) + draw(written(value)) + draw(gaps), value["c"]


def notes(text: str) -> list[str]:
    """The comments of a text, wherever they stand; one of two lines has both."""
    return sorted(NOTE.findall(text))


def value_of(text: str) -> Any:
    source = parse(text)
    assert source.problems == ()
    return source.value["c"]


@given(documents(), st.data())
def test_something_can_be_put_into_any_document_and_nothing_else_changes(
    document: tuple[str, Any], data: st.DataObject
) -> None:
    text, value = document
    layout, holder = TextLayout(read(text)), place(text, "/c")
    at = data.draw(st.integers(0, len(value)))
    news = [NEW] * data.draw(st.integers(1, 2))
    if isinstance(value, dict):
        edits = layout.insert(
            holder, [lambda _: '"new": 1'], at, wide=data.draw(st.booleans()), note=data.draw(st.sampled_from(["", "// x"]))
        )
        items = list(value.items())
        expected: Any = dict([*items[:at], ("new", 1), *items[at:]])
    else:
        edits = layout.add_elements(holder, news, at, wide=data.draw(st.booleans()))
        expected = [*value[:at], *news, *value[at:]]
    after = changed(text, edits)
    assert value_of(after) == expected
    assert [*expected] == [*value_of(after)], "members keep their order"
    assert notes(after) == notes(text)


@given(documents(), st.data())
def test_something_can_be_taken_out_of_any_document_and_nothing_else_changes(
    document: tuple[str, Any], data: st.DataObject
) -> None:
    text, value = document
    holder = place(text, "/c")
    places = data.draw(st.sets(st.integers(0, len(value) - 1)) if value else st.just(set()))
    after = changed(text, TextLayout(read(text)).remove(holder, places))
    kept = [item for at, item in enumerate(value.items() if isinstance(value, dict) else value) if at not in places]
    assert value_of(after) == (dict(kept) if isinstance(value, dict) else kept)
    staying = Counter(notes(text))
    for at in places:
        child = holder.children[at]
        start = child.key_span[0] if child.key_span else child.start
        staying.subtract(notes(text[start : child.end]))
    lost = staying - Counter(notes(after))
    assert all("\n" not in note for note in lost), "only comments on the last line of what is taken out go with it"
    assert lost.total() <= 6 * len(places), "two gaps, three comments in each"


@given(documents(), st.data())
def test_something_can_be_moved_within_any_document(document: tuple[str, Any], data: st.DataObject) -> None:
    text, value = document
    if not isinstance(value, dict) or not value:
        return
    text = '{"to": {' + data.draw(gaps) + "}, " + text[text.index("{") + 1 :]
    layout, holder = TextLayout(read(text)), place(text, "/c")
    at = data.draw(st.integers(0, len(value) - 1))
    taken = layout.take(holder, at)
    assert taken is not None
    put = layout.insert(place(text, "/to"), [lambda margin: layout.moved(taken, margin)], note=taken.note)
    source = parse(applied(text, joined(taken.edits, put) or ()))
    key = [*value][at]
    assert source.problems == ()
    assert source.value == {"to": {key: value[key]}, "c": {other: item for other, item in value.items() if other != key}}


@given(st.text("{}[]:,\"'ab1 \n/*\\", max_size=60), st.data())
def test_any_text_is_survived_and_not_made_worse(text: str, data: st.DataObject) -> None:
    where = read(text)
    layout = TextLayout(where)
    paths = [""]
    for path in paths:
        located = where.find(path)
        if located is not None and len(paths) < 50:
            paths += [below(path, index if child.key is None else child.key) for index, child in enumerate(located.children)]
    located = where.find(data.draw(st.sampled_from(paths)))
    if located is None:
        return
    before = len(parse(text).problems)
    count = len(located.children)
    for edits in (
        layout.add_elements(located, [NEW]),
        layout.add_member(located, "new", lambda _: "1"),
        layout.insert(located, [lambda _: "1" if located.kind == "array" else '"new": 1'], data.draw(st.integers(0, count))),
        layout.remove(located, [data.draw(st.integers(0, count - 1))]) if count else None,
    ):
        after = text if edits is None else applied(text, edits)
        if wrapping_of(after) is None or wrapping_of(text) is not None:  # else the object is taken for the pipeline
            assert len(parse(after).problems) <= before
