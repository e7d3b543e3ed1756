"""Regular expressions of tokens that several SQL dialects share. The name of a group tells the lexer the kind of the token."""

from __future__ import annotations

from typing import Final

SPACE: Final = r"[ \t\n\r\f\v]"
SPACES: Final = rf"(?P<space>{SPACE}++)"
LIST: Final = rf"(?P<list>(?:,{SPACE}*+(?:'[^'\\]*+'|\d++(?:\.\d++)?){SPACE}*+(?=[,)])){{1,1000}})"
"""The rest of a list of plain literals: `, 1, 'a'`."""
JUNK: Final = r"[\w$\x80-\U0010ffff]"
"""A letter, digit or sign that continues a word."""
NUMBER: Final = (
    r"(?P<number>(?>0[xX][\da-fA-F_]++|0[bB][01_]++|0[oO][0-7_]++|\d[\d_]*+(?:\.(?!\.)[\d_]*+)?(?:[eE][+-]?\d[\d_]*+)?)"
    rf"(?!{JUNK}))"
)
NUMBERED: Final = rf"(?P<placeholder>\$\d++(?!{JUNK}))"
RUN: Final = rf"(?P<placeholders>(?:[ \t\n\r\f\v(,)]*+\$\d++(?!{JUNK})){{2,1000}}+)"
"""Placeholders one after another, with blanks, commas and brackets between them: rows of values."""
WORD: Final = r"(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*+)"
STRAIGHT: Final = r"(?P<string>')"
DOLLARS: Final = r"(?P<dollars>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*+)?\$)"
LINE: Final = r"(?P<line>--[^\n\r]*+)"
BLOCK: Final = r"(?P<block>/\*)"
TORN: Final = r"(?P<torn>--[^\n\r]*+\r(?!\n)|\$?\d)"
"""Text with two readings: a carriage return that ends a comment or does not, a number with a word at its end."""
SIGN: Final = r"(?P<sign>::|:=|.)"

# Of scripts: text that is not closed goes on to the end.
LINE_COMMENT: Final = r"--[^\n]*"
LITERAL: Final = r"'(?:[^']|'')*(?:'|\Z)"
ESCAPED_LITERAL: Final = r"'(?:[^'\\]|\\(?:.|\Z)|'')*(?:'|\Z)"
QUOTED_NAME: Final = r'"(?:[^"]|"")*(?:"|\Z)'
BACKTICKED_NAME: Final = r"`(?:[^`]|``)*(?:`|\Z)"
DOLLAR_LITERAL: Final = r"\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)"
POSTGRES_LITERALS: Final = rf"{LINE_COMMENT}|[eE]{ESCAPED_LITERAL}|{LITERAL}|{QUOTED_NAME}|{DOLLAR_LITERAL}"
