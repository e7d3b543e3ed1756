"""Templates as plain text, and in the snippet syntax that editors read."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.completions.offer import Indent, Stop, Template, as_plain, as_snippet, block, deeper, literal

TEXTS = st.text(alphabet=st.sampled_from("ab$}{\\|,:\"'/ é"), max_size=8)
STOPS = st.builds(Stop, TEXTS, st.lists(TEXTS.filter(bool), max_size=3).map(tuple))
TEMPLATES = st.lists(st.one_of(TEXTS, STOPS), max_size=8).map(tuple)

TOKEN = re.compile(
    r"\\(?P<escaped>[\\$}])"
    r"|\$\{\d+:(?P<text>(?:[^\\}$]|\\.)*)\}"
    r"|\$\{\d+\|(?P<choices>(?:[^\\|]|\\.)*)\|\}"
    r"|\$\{\d+\}"
    r"|(?P<plain>[^\\$])",
    re.DOTALL,
)


def expanded(snippet: str) -> str:
    """What an editor makes of a snippet whose stops nobody changes (Language Server Protocol 3.17, snippet syntax)."""
    pieces: list[str] = []
    at = 0
    while at < len(snippet):
        token = TOKEN.match(snippet, at)
        assert token is not None, f"no snippet: {snippet[at:]!r}"
        at = token.end()
        if token["choices"] is not None:
            first = re.match(r"(?:[^\\,]|\\.)*", token["choices"])
            assert first is not None
            pieces.append(re.sub(r"\\(.)", r"\1", first[0]))
        elif token["text"] is not None:
            pieces.append(re.sub(r"\\(.)", r"\1", token["text"]))
        else:
            pieces.append(token["escaped"] or token["plain"] or "")
    return "".join(pieces)


@given(TEMPLATES)
def test_a_snippet_that_nobody_changes_is_the_plain_text(template: Template) -> None:
    assert expanded(as_snippet(template, Indent())) == as_plain(template, Indent())


def test_stops_are_numbered_in_their_order() -> None:
    template: Template = ("{", Stop("a"), ": ", Stop(), ", ", Stop(choices=("true", "false")), "}")
    assert as_snippet(template, Indent()) == "{${1:a}: ${2}, ${3|true,false|}}"
    assert as_plain(template, Indent()) == "{a: , true}"


def test_a_choice_of_one_is_none() -> None:
    assert as_snippet((Stop(choices=("only",)),), Indent()) == "${1:only}"


def test_lines_begin_with_the_margin_and_a_step_for_each_level() -> None:
    assert as_plain(("{\n\t", Stop("x"), "\n\t\ty\n}"), Indent("  ", "    ")) == "{\n      x\n          y\n  }"


def test_members_stand_in_lines_of_their_own_inside_of_what_is_asked_for() -> None:
    members: list[Template] = [('"a": 1',), ('"b": {\n\t"c": 2\n}',)]
    assert as_plain(block(members, "braces"), Indent()) == '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}'
    assert as_plain(block(members, "lines"), Indent()) == '\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n'
    assert as_plain(block(members, "none"), Indent()) == '"a": 1,\n"b": {\n  "c": 2\n}'
    assert deeper(("a\nb", Stop("x\ny")), 2) == ("a\n\t\tb", Stop("x\ny"))


def test_what_json_has_no_form_for_is_null() -> None:
    assert [literal(value) for value in (float("nan"), object(), {1: object()}, "é\n")] == ["null", "null", "null", '"é\\n"']
