"""The tokens of JSON with comments, as regular expressions that read each character at most a few times.

All loops are possessive (`++`, `*+`), so that no text can make them backtrack.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_COMMENT = r"//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/"
SKIP = rf"(?:[ \t\r\n]++|{_COMMENT})*+"
DOUBLE: Final = "\u201c\u201d\u201e\u201f\u2033"
SINGLES: Final = "\u2018\u2019\u201a\u201b\u2032"
CURLY: Final = DOUBLE + SINGLES
"""Quotes of typography, which word processors put in place of straight ones."""
_PLAIN = r"[^\"\\\x00-\x1f]*+"

KEY, STRING, PUNCTUATION, WORD, QUOTED, SINGLE, COMMENT, OTHER, END = range(1, 10)
VALUES: Final = (STRING, WORD, QUOTED, SINGLE)

TOKEN: Final = re.compile(
    SKIP + "(?:"
    rf'("{_PLAIN}"{SKIP}:)'  # KEY: a plain string and its colon
    rf'|("{_PLAIN}")'  # STRING: no escapes
    r"|([{}\[\],:])"  # PUNCTUATION
    rf"|((?![{CURLY}])[^ \t\r\n\"'{{}}\[\],:/]++)"  # WORD: numbers, true, and what is no JSON
    r'|("(?:[^"\\\r\n]++|\\[^\r\n])*+"?)'  # QUOTED: escapes, control characters, perhaps no end
    r"|('(?:[^'\\\r\n]++|\\[^\r\n])*+'?"  # SINGLE, and quotes of typography
    rf'|[{DOUBLE}](?:[^{DOUBLE}"\\\r\n]++|\\[^\r\n])*+[{DOUBLE}"]?'
    rf"|[{SINGLES}](?:[^{SINGLES}'\\\r\n]++|\\[^\r\n])*+[{SINGLES}']?)"
    r"|(/\*)"  # COMMENT without end
    r"|([^ \t\r\n])"  # OTHER: a stray slash
    r"|(\Z)"
    ")"
)
# What most of a file is made of, in one step: `, "key": "text"`, `, "key": 12`, `, "key": {`.
MEMBER: Final = re.compile(
    rf'{SKIP}(,?+){SKIP}("{_PLAIN}"){SKIP}:{SKIP}(?:("{_PLAIN}")(?!{SKIP}:)|((?![{CURLY}])[^ \t\r\n"\'{{}}\[\],:/]++)|([{{\[]))'
)
COMMENTS: Final = re.compile(_COMMENT)
"""Comments. Valid only for text that `TOKEN` skips; elsewhere it matches inside strings too."""
CURLY_END: Final = re.compile(rf"[{DOUBLE}](?=[ \t]*+(?:[:,}}\]]|\Z))")
"""A quote of typography where a string should end."""
LINE_END: Final = re.compile(r"[\r\n]|\Z")
COLON: Final = re.compile(SKIP + ":")
NEXT_MEMBER: Final = re.compile(rf'{SKIP}(?:"({_PLAIN})"{SKIP}:|\}})')
"""The next key of an object, or its end."""
CLEAN_END: Final = re.compile(SKIP + r"(?:[,}\]]|\Z)")
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][+-]?[0-9]++)?+")
WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z)|[\x00-\x1f]", re.DOTALL)
_SHORT: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


def unescape(body: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The text of a string literal without its quotes, and its problems as (code, start, end)."""
    try:
        return msgspec.json.decode(f'"{body}"', type=str), []
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _mended(body)


def _mended(body: str) -> tuple[str, list[tuple[str, int, int]]]:
    pieces: list[str] = []
    wrong: list[tuple[str, int, int]] = []
    done = 0
    high: tuple[int, int] | None = None  # the code and the place of a first half of a surrogate pair
    for match in _ESCAPE.finditer(body):
        start, end = match.span()
        if start > done:
            high = _lone(high, pieces, wrong)
        pieces.append(body[done:start])
        done = end
        code = int(match[1], 16) if match[1] else -1
        if high is not None and 0xDC00 <= code < 0xE000:
            pieces.append(chr(0x10000 + ((high[0] - 0xD800) << 10) + code - 0xDC00))
            high = None
            continue
        high = _lone(high, pieces, wrong)
        if 0xD800 <= code < 0xDC00:
            high = (code, start)
        else:
            pieces.append(_single(match, code, wrong))
    _lone(high, pieces, wrong)
    pieces.append(body[done:])
    return "".join(pieces), wrong


def _lone(high: tuple[int, int] | None, pieces: list[str], wrong: list[tuple[str, int, int]]) -> None:
    """A first half without its second."""
    if high is not None:
        pieces.append("\ufffd")
        wrong.append(("invalid_escape", high[1], high[1] + 6))


def _single(match: re.Match[str], code: int, wrong: list[tuple[str, int, int]]) -> str:
    start, end = match.span()
    if _CONTROL.match(match[0]):
        wrong.append(("control_character", start, end))
        return match[0]
    if 0xDC00 <= code < 0xE000:
        wrong.append(("invalid_escape", start, end))
        return "\ufffd"
    if code >= 0:
        return chr(code)
    letter = match[2] or ""
    if letter not in _SHORT:
        wrong.append(("invalid_escape", start, end))
        return letter
    return _SHORT[letter]
