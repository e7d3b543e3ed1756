"""Cypher cut into tokens, strictly: what could be read in two ways is refused, so that nothing can hide between two readings.

Databases disagree about Unicode escapes, fancy dashes and letters that fold to ASCII: Neo4j, for one, reads `\\u0027` as a
quote even within a string. A text that depends on such things is refused, and a string with an escape is written anew
with the character itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

import msgspec

from rrext.errors import InvalidArguments

__all__ = ["Kind", "Token", "rendered", "tokens"]

Kind = Literal["word", "name", "string", "number", "parameter", "symbol"]

SYMBOLS: Final = frozenset("()[]{},.:;|+-*/%^=<>!&?~")
BLANKS: Final = frozenset(" \t\r\n\f")
ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "`": "`", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WRITTEN: Final = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
HEX4: Final = re.compile(r"[0-9a-fA-F]{4}")
PARAMETER: Final = re.compile(r"(?:[0-9]+|[A-Za-z_][A-Za-z0-9_]*)(?!\w)")  # `$1SET` may be two tokens elsewhere
WORD: Final = re.compile(r"[^\W\d]\w*")
LINE_ENDS: Final = re.compile(r"[\r\n]")


class Token(msgspec.Struct, frozen=True):
    """A piece of Cypher. `value` is what it means: a name without its backticks, a string without its quotes.

    `text` is how it is written when the statement is put together again; `position` is where it began, in characters;
    `is_apart` says that blanks or a comment stood before it.
    """

    kind: Kind
    value: str
    text: str
    position: int
    is_apart: bool

    @property
    def keyword(self) -> str:
        """In capital letters, if it may be a keyword; else empty."""
        return self.value.upper() if self.kind == "word" else ""


def tokens(cypher: str, path: str = "/input/query") -> list[Token]:
    """All tokens of a text. Raises `InvalidArguments` at `path`, naming line and column, for what is no clear Cypher."""
    found: list[Token] = []
    reader = _Reader(cypher, path)
    while (token := reader.next()) is not None:
        found.append(token)
    return found


def rendered(pieces: list[Token]) -> str:
    """The statement, written anew from its tokens: comments are gone, and each string is written in one way."""
    parts: list[str] = []
    for token in pieces:
        if token.is_apart and parts:
            parts.append(" ")
        parts.append(token.text)
    return "".join(parts)


class _Reader:
    """Reads a text from front to back."""

    __slots__ = ("at", "path", "text")

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.at = 0

    def next(self) -> Token | None:
        start = self.at
        self._skip()
        if self.at >= len(self.text):
            return None
        is_apart = self.at > start
        position = self.at
        kind, value, written = self._token()
        return Token(kind, value, written, position, is_apart)

    def _skip(self) -> None:
        """Go past blanks and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in BLANKS:
                self.at += 1
            elif text.startswith("//", self.at):
                end = LINE_ENDS.search(text, self.at)
                self.at = end.start() if end else len(text)
            elif text.startswith("/*", self.at):
                end_of_comment = text.find("*/", self.at + 2)
                if end_of_comment < 0:
                    raise self._error("a comment begins here and never ends")
                self.at = end_of_comment + 2
            else:
                return

    def _token(self) -> tuple[Kind, str, str]:
        character = self.text[self.at]
        if character in "'\"":
            value = self._string(character)
            return "string", value, self._written(value)
        if character == "`":
            name = self._name()
            return "name", name, _quoted(name)
        if character == "$":
            self.at += 1
            return self._parameter()
        if character.isascii() and character.isdigit():
            number = self._number()
            return "number", number, number
        if WORD.match(self.text, self.at):
            word = self._word()
            return "word", word, word
        if character in SYMBOLS:
            self.at += 1
            return "symbol", character, character
        raise self._error(f"the character U+{ord(character):04X} is no part of Cypher here")

    def _string(self, quote: str) -> str:
        start = self.at
        self.at += 1
        pieces: list[str] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == quote:
                self.at += 1
                return _joined("".join(pieces), self)
            if character == "\\":
                pieces.append(self._escape())
            else:
                pieces.append(character)
                self.at += 1
        self.at = start
        raise self._error("a string begins here and never ends")

    def _escape(self) -> str:
        code = self.text[self.at + 1 : self.at + 2]
        if code in ESCAPES and code:
            self.at += 2
            return ESCAPES[code]
        digits = HEX4.match(self.text, self.at + 2) if code == "u" else None
        if digits is None:
            raise self._error("this escape is not known: a backslash stands before \\ ' \" b f n r t, or u and four hex digits")
        self.at = digits.end()
        return chr(int(digits[0], 16))

    def _written(self, value: str) -> str:
        text = "".join(WRITTEN.get(character, character) for character in value)
        if "\\u" in text.lower():  # Neo4j looks for escapes before it looks for strings
            raise self._error("a backslash before a u cannot be written without doubt: give this string as a parameter")
        return "'" + text.replace("'", "\\'") + "'"

    def _name(self) -> str:
        start = self.at
        self.at += 1
        pieces: list[str] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\":
                raise self._error("a name may hold no backslash")
            if character == "`":
                if not self.text.startswith("``", self.at):
                    self.at += 1
                    return "".join(pieces)
                self.at += 1
            pieces.append(character)
            self.at += 1
        self.at = start
        raise self._error("a name in backticks begins here and never ends")

    def _parameter(self) -> tuple[Kind, str, str]:
        if self.text.startswith("`", self.at):
            name = self._name()
            return "parameter", name, "$" + _quoted(name)
        name = PARAMETER.match(self.text, self.at)
        if name is None:
            raise self._error("a parameter is $ and a name, or a number")
        self.at = name.end()
        return "parameter", name[0], "$" + name[0]

    def _number(self) -> str:
        number = NUMBER.match(self.text, self.at)
        assert number is not None  # begins with a digit
        rest = self.text[number.end() : number.end() + 2]
        if rest[:1].isalnum() or rest[:1] == "_" or (rest[:1] == "." and rest != ".."):
            raise self._error("after a number a blank is missing here", number.end())
        self.at = number.end()
        return number[0]

    def _word(self) -> str:
        word = WORD.match(self.text, self.at)
        assert word is not None
        value = word[0]
        if not value.isascii() and _folded_differs(value):
            raise self._error("this word has letters that some databases take for others: put it in backticks")
        self.at = word.end()
        return value

    def _error(self, what: str, position: int | None = None) -> InvalidArguments:
        at = self.at if position is None else position
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return InvalidArguments.at(self.path, f"line {line}, column {column}: {what}")


def _joined(value: str, reader: _Reader) -> str:
    """The string with pairs of surrogates as the characters that they mean."""
    if not any("\ud800" <= character <= "\udfff" for character in value):
        return value
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise reader._error("a string with half a character ends before this") from None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _folded_differs(word: str) -> bool:
    """Whether another form of a letter is in ASCII, as the Kelvin sign becomes a k and the long s an S."""
    for letter in word:
        if letter.isascii():
            continue
        forms = (letter.upper(), letter.lower(), letter.casefold(), unicodedata.normalize("NFKC", letter))
        if forms[3] != letter or any(len(form) == 1 and form.isascii() for form in forms):
            return True
    return False
