"""Pieces of pipeline texts, right and wrong, edits of a text, and the tree of a text as a list to compare."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rrext.pipefile.text.source import ParsedText, SourceMap
from rrext.pipefile.text.tree import Located

Edit = tuple[float, int, str]
"""Where (0 to 1), how many characters go, and what comes."""

SPACES = ["", "", " ", "\n", "\r\n  ", '// } " {\n', "/* ] */", "// ,\r", "/**/"]
STRINGS = [
    '"a"',
    '"b"',
    '"id"',
    '"\\""',
    '"\\\\"',
    '"{"',
    '"]}"',
    '"//"',
    '"é😀"',
    '"x: y"',
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '""',
]
SCALARS = [*STRINGS, "1", "-2.5e3", "true", "null", "12345678901234567890123"]
WRONG = [
    '"',
    "'x'",
    '"\\x"',
    '"\\ud800"',
    '"\t"',
    "@",
    "@ @ {",
    "nul",
    "NaN",
    "01",
    "1e999",
    "'",
    "/*",
    "//",
    "tru",
    "\x0b",
    "\ud800",
]
MARKS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "\n",
    " ",
    "/",
    "*",
    "{}",
    "[]",
    ",,",
    "}}",
    '{"a":',
    '"a":1,',
    "{@},",
    '{"id":"a"},',
]


edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(["", *MARKS, *WRONG, *SCALARS]) | st.text(max_size=3)),
    min_size=1,
    max_size=6,
)


def edited(text: str, edit: Edit) -> str:
    at = round(edit[0] * len(text))
    return text[:at] + edit[2] + text[at + edit[1] :]


def map_of(source: ParsedText) -> SourceMap:
    assert source.map is not None
    return source.map


def flat(located: Located, depth: int = 0) -> list[tuple[Any, ...]]:
    """A tree as a list that can be compared; 1, 1.0 and true differ."""
    own = (depth, located.kind, repr(located.value), located.start, located.end, located.key, located.key_span)
    return [own, *(entry for child in located.children for entry in flat(child, depth + 1))]
