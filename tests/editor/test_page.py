"""A page is what somebody reads: whatever is put on it, none of it becomes markup, and all of it stays readable."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.editor.page import MAX_BLOCK, Code, Page

HOSTILE = st.lists(
    st.sampled_from(
        [
            "[a](http://x.example)",
            "![a](x)",
            "<img src=x>",
            "<http://x.example>",
            "https://x.example/(",
            "www.x.example",
            "me@x.example",
            "&lt;",
            "`",
            "``",
            "```",
            "~~~",
            "\\",
            "*b*",
            "_i_",
            "__u__",
            "# h",
            "> q",
            "- l",
            "1. n",
            "---",
            "===",
            "| a | b |",
            "    ",
            "\n",
            "\n\n",
            "\t",
            "a",
            " ",
            "[x]: http://y",
            "\u202e",
            "\x00",
        ]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)


def without_code(markdown: str) -> str:
    """What is left of one line of Markdown when its code spans are gone: read as CommonMark says, from left to right."""
    kept: list[str] = []
    at = 0
    while at < len(markdown):
        if markdown[at] == "\\":
            at += 2
            kept.append("§")
            continue
        run = re.match("`+", markdown[at:])
        if run is None:
            kept.append(markdown[at])
            at += 1
            continue
        close = re.search(rf"(?<!`){run[0]}(?!`)", markdown[at + len(run[0]) :])
        assert close is not None, f"a code span that does not end: {markdown!r}"
        at += 2 * len(run[0]) + close.start()
        kept.append("§")
    return "".join(kept)


def assert_is_only_text(markdown: str) -> None:
    left = without_code(markdown)
    assert not re.search(r"[\[\]<>*|~#`]", left), markdown
    assert not re.search(r"(?<![^\W_])_|_(?![^\W_])", left), markdown
    assert "//" not in left
    assert "@" not in left
    assert not re.search(r"(?i)www\.", left)
    assert not re.search(r"&[#A-Za-z]", left)
    assert not re.match(r"\s*([-+=]|\d+[.)])", left), markdown
    assert "\n" not in markdown


@given(HOSTILE)
@example("\\`[a](b)`")
@example("`a`[b](c)`")
def test_a_sentence_is_never_markup(text: str) -> None:
    assert_is_only_text(Page().text(text).markdown())
    assert_is_only_text(Page().title("x ", text).markdown().removeprefix("### "))


@given(HOSTILE, HOSTILE, HOSTILE)
def test_a_name_in_a_sentence_is_never_markup(before: str, name: str, after: str) -> None:
    assert_is_only_text(Page().text(before, Code(name), after, Code(name), Code(name)).markdown())


@given(HOSTILE)
def test_prose_is_paragraphs_lists_and_code_of_which_nothing_is_markup(text: str) -> None:
    for block in Page().prose(text).markdown().split("\n\n"):
        if block.startswith("```"):
            continue  # what stands in a block of code is tested below
        for line in block.split("\n"):
            if not block.startswith("   "):
                assert_is_only_text(re.sub(r"^- ", "", line))


@given(HOSTILE)
def test_a_block_of_code_ends_where_it_should(text: str) -> None:
    markdown = Page().block(text, "json").markdown()
    lines = markdown.split("\n")
    fence = re.match("`{3,}", lines[0])
    assert fence is not None
    assert lines[0] == f"{fence[0]}json"
    assert lines[-1] == fence[0]
    assert not any(re.match(rf"\s*{fence[0]}", line) for line in lines[1:-1])


@given(HOSTILE)
def test_plain_text_has_every_letter_and_no_sign_that_does_something(text: str) -> None:
    plain = Page().text(text).plain()
    assert "".join(plain.split()) == "".join(
        re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", "\ufffd", text).split()
    )


def test_markdown_reads_like_what_was_meant() -> None:
    page = Page().title(Code("a_b"), " · A *title*").prose("One `name`\nof two.\n\n- first\n  line\n- second\n\n    code()")
    page.items([(0, ["top"]), (1, [Code("x"), ", deep"])])
    assert page.markdown() == (
        "### `a_b` · A \\*title\\*\n\nOne `name` of two.\n\n- first line\n- second\n\n"
        "```\n    code()\n```\n\n- top\n  - `x`, deep"
    )
    assert page.plain() == "a_b · A *title*\n\nOne name of two.\n\n- first line\n- second\n\n    code()\n\n- top\n  - x, deep"


@pytest.mark.parametrize("name", ["snake_case", "a.b", "3.5", "C++", "it's (so)"])
def test_ordinary_words_are_left_alone(name: str) -> None:
    assert Page().text("x ", name).markdown() == f"x {name}"


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert Page().block("x" * (MAX_BLOCK + 7)).plain().endswith("… and 7 more characters")
    assert Page().text(Code("y" * 10_000)).plain().endswith("y…")
    assert len(Page().prose("word " * 10_000).plain()) < 5000
