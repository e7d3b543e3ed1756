"""Reads JSON with comments and trailing commas, and recovers from any error.

Broken text gives the best possible value, and a problem with an exact position for each mistake. The scanner reads the text
once and never raises.
"""

from __future__ import annotations

import re
from typing import Final

from rrext.pipefile.text import tokens
from rrext.pipefile.text.fast_objects import FastObjects
from rrext.pipefile.text.problems import Problems, shown
from rrext.pipefile.text.tree import AFTER_VALUE, ELEMENT, KEY, NOTHING, Located, Tree, wrapping_of

MAX_DIGITS: Final = 4300
"""Characters of an integer: Python's own limit for its digits, as the conversion is quadratic beyond it."""

AT_KEY: Final = (KEY, AFTER_VALUE)
KINDS: Final = {"{": "object", "}": "object", "[": "array", "]": "array"}


class Scanner:
    """Reads one text. `complete` says whether the value holds all of the text.

    `pieces` reads objects of strict JSON faster, with the same result.
    """

    def __init__(self, text: str, problems: Problems, max_depth: int, pieces: FastObjects | None = None) -> None:
        self._text = text
        self._wrapping = wrapping_of(text)
        self._tree = Tree(text, problems, max_depth, self._wrapping)
        self._pieces = pieces
        self._pos = 0
        self.complete = False

    def run(self) -> Located:
        """Read the text; the root of its tree."""
        match, text, handlers, tree = tokens.TOKEN.match, self._text, _HANDLERS, self._tree
        if self._wrapping is not None:
            self._pos = tree.last = self._wrapping.end
        elif text.startswith("\ufeff"):
            self._pos = tree.last = 1
        member = tokens.MEMBER.match
        while True:
            if tree.expect in AT_KEY:
                found = member(text, self._pos)
                if found is not None and (found.start(1) < found.end(1)) == (tree.expect == AFTER_VALUE):
                    self._on_member(found)
                    if tree.stopped:
                        break
                    continue
            found = match(text, self._pos)
            assert found is not None  # one alternative fits everywhere
            kind = found.lastindex
            if kind is None or kind == tokens.END:
                break
            start, end = found.span(kind)
            self._pos = tree.at = end
            handlers[kind - 1](self, start, end)
            if tree.stopped:
                break
        tree.at = len(text)
        self.complete = not tree.cut
        root = tree.finish()
        if self._wrapping is not None:
            tree.problems.append(self._wrapping.problem(text, tree.behind))
        return root

    def _on_member(self, found: re.Match[str]) -> None:
        """Add a key and its value, or the opening bracket of its value, with the comma before it."""
        tree = self._tree
        tree.expect = KEY
        start, end = found.span(2)
        kind = found.lastindex or 0
        begin, self._pos = found.span(kind)
        tree.at = end
        tree.key(self._text[start + 1 : end - 1], (start, end), end)
        tree.at = self._pos
        if kind == 3:
            self._on_string(begin, self._pos)
        elif kind == 4:
            self._take_word(self._text[begin : self._pos], begin, self._pos)
        else:
            tree.open(KINDS[self._text[begin]], begin, self._pos)

    def _on_key(self, start: int, end: int) -> None:
        close = self._text.index('"', start + 1)
        self._tree.key(self._text[start + 1 : close], (start, close + 1), end)

    def _on_string(self, start: int, end: int) -> None:
        curly = self._curly_end(start, end)
        if curly:
            self._pos = self._tree.at = curly
            self._on_single(start, curly)
        else:
            self._take_text(self._text[start + 1 : end - 1], start, end)

    def _curly_end(self, start: int, end: int) -> int:
        """The end of a string with a quote of typography, if its straight quote opens the next one; else 0."""
        if self._text[start:end].isascii():
            return 0
        found = tokens.CURLY_END.search(self._text, start + 1, end)
        if found is None or tokens.CLEAN_END.match(self._text, end) or tokens.COLON.match(self._text, end):
            return 0
        return found.end()

    def _on_quoted(self, start: int, end: int) -> None:
        closed = end - start > 1 and self._text[end - 1] == '"' and not self._is_escaped(end - 1, start)
        curly = None if closed else tokens.CURLY_END.search(self._text, start + 1, end)
        if curly is not None:
            self._pos = self._tree.at = curly.end()
            self._on_single(start, curly.end())
            return
        if not closed:
            # What ends the line is more likely structure than text.
            end = self._pos = self._tree.at = start + 1 + len(self._text[start + 1 : end].rstrip(" \t,]}"))
            self._tree.nonsense("unterminated_string", "This string has no closing quote.", (start, end))
            self._tree.quiet_line()
        value, wrong = tokens.unescape(self._text[start + 1 : end - closed])
        for code, first, last in wrong:
            self._report_in_string(code, start + 1 + first, start + 1 + last)
        self._take_text(value, start, end)

    def _on_single(self, start: int, end: int) -> None:
        sign, last = self._text[start], self._text[end - 1]
        message = "JSON has double quotes only."
        if sign in tokens.CURLY or last in tokens.CURLY:
            message = "JSON has straight double quotes only: these are curly."
        self._tree.nonsense("single_quotes", message, (start, end))
        closed = end - start > 1 and (last in "\"'" or last in tokens.CURLY) and not self._is_escaped(end - 1, start)
        value, _ = tokens.unescape(self._text[start + 1 : end - closed])
        self._take_text(value, start, end)

    def _take_text(self, text: str, start: int, end: int) -> None:
        """Add a string: as a key where a key is expected, else as a value."""
        tree = self._tree
        if tree.expect not in AT_KEY:
            tree.value("string", text, start, end)
            return
        colon = tokens.COLON.match(self._text, end)
        if colon is not None:
            self._pos = colon.end()
            tree.key(text, (start, end), self._pos)
        else:
            self._take_key_without_colon(text, start, end)

    def _take_key_without_colon(self, text: str, start: int, end: int) -> None:
        tree = self._tree
        tree.nonsense("expected_colon", f"A colon is missing after {shown(text)}.", (start, end))
        tree.key(text, (start, end), end)
        following = tokens.TOKEN.match(self._text, end)
        assert following is not None
        if following.lastindex not in tokens.VALUES and following[0][-1:] not in ("{", "["):
            tree.hole()

    def _on_word(self, start: int, end: int) -> None:
        word = self._text[start:end]
        if word[0] == "#":
            self._on_hash(start)
            return
        if self._tree.expect not in AT_KEY:
            self._take_word(word, start, end)
            return
        colon = tokens.COLON.match(self._text, end)
        if colon is None:
            self._unexpected(start, end)
            return
        self._tree.nonsense("unquoted_text", f"A key needs double quotes: {shown(word)}.", (start, end))
        self._pos = colon.end()
        self._tree.key(word, (start, end), self._pos)

    def _on_hash(self, start: int) -> None:
        """A comment of another language: the rest of its line."""
        message = 'JSON has no comments that begin with #. Did you mean "//"?'
        self._tree.report("unexpected_text", message, (start, start + 1), near="//")
        end = tokens.LINE_END.search(self._text, start)
        self._pos = self._tree.at = len(self._text) if end is None else end.start()

    def _take_word(self, word: str, start: int, end: int) -> None:
        """Add a word where a value belongs."""
        tree = self._tree
        if word[0] == "#":
            self._on_hash(start)
            return
        if word in tokens.WORDS:
            tree.value(word, tokens.WORDS[word], start, end)
            return
        number = tokens.NUMBER.fullmatch(word)
        if number is not None:
            self._take_number(word, number, start, end)
        elif tree.expect == NOTHING:
            tree.trailing(start)
        elif word.lstrip("+-").lower() in ("nan", "infinity", "inf"):
            tree.report("not_finite", "JSON has no NaN and no Infinity.", (start, end))
            tree.hole(end)
        elif word[0] in "+-.0123456789":
            tree.nonsense("invalid_number", f"{shown(word)} is no number of JSON.", (start, end))
            tree.hole(end)
        else:
            self._take_bare(word, start, end)

    def _take_bare(self, word: str, start: int, end: int) -> None:
        tree = self._tree
        meant = {"none": "null", "undefined": "null", "nil": "null"}.get(word.lower(), word.lower())
        if meant in tokens.WORDS:
            message = f'{shown(word)} is no JSON. Did you mean "{meant}"?'
            tree.report("unexpected_text", message, (start, end), near=meant)
            tree.value(meant, tokens.WORDS[meant], start, end)
            return
        tree.nonsense("unquoted_text", f"Text needs double quotes: {shown(word)}.", (start, end))
        if tokens.CLEAN_END.match(self._text, end) is None:
            tree.quiet_line()
        tree.value("string", word, start, end)

    def _take_number(self, word: str, number: re.Match[str], start: int, end: int) -> None:
        tree = self._tree
        whole = number[1] is None and number[2] is None
        value: int | float = 0
        if whole and len(word) <= MAX_DIGITS:
            value = int(word)
        elif not whole:
            value = float(word)
        if (whole and len(word) > MAX_DIGITS) or value - value != 0:  # only infinity differs from itself so
            tree.report("invalid_number", "This number is too large.", (start, end))
            tree.hole(end)
        else:
            tree.value("number", value, start, end)

    def _on_punctuation(self, start: int, end: int) -> None:
        sign = self._text[start]
        if sign == ",":
            self._tree.comma(start, end)
        elif sign == ":":
            self._unexpected(start, end)
        elif sign == "{" and self._tree.expect == ELEMENT and (element := self._piece(start)) is not None:
            self._tree.take(element)
            self._pos = self._tree.at
        elif sign in "{[":
            self._tree.open(KINDS[sign], start, end)
        else:
            self._tree.close(KINDS[sign], start, end)

    def _piece(self, start: int) -> Located | None:
        """The object that begins at an opening brace, if it is strict JSON."""
        return None if self._pieces is None else self._pieces.at(start, self._tree.depth)

    def _on_open_comment(self, start: int, end: int) -> None:
        self._tree.report("unterminated_comment", "This comment has no end: */ is missing.", (start, end))
        self._pos = len(self._text)

    def _unexpected(self, start: int, end: int) -> None:
        if self._tree.expect == NOTHING:
            self._tree.trailing(start)
            return
        self._tree.nonsense("unexpected_text", f"This is no JSON: {shown(self._text[start:end])}.", (start, end))
        self._tree.quiet_line()

    def _report_in_string(self, code: str, start: int, end: int) -> None:
        if code == "control_character":
            text = f"A character of code {ord(self._text[start])} must be written as an escape."
        else:
            text = f"JSON has no escape {self._text[start:end]}."
        self._tree.report(code, text, (start, end))

    def _is_escaped(self, at: int, start: int) -> bool:
        """Whether an odd number of backslashes precedes a character."""
        before = self._text[start + 1 : at]
        return (len(before) - len(before.rstrip("\\"))) % 2 == 1


_HANDLERS: Final = (
    Scanner._on_key,
    Scanner._on_string,
    Scanner._on_punctuation,
    Scanner._on_word,
    Scanner._on_quoted,
    Scanner._on_single,
    Scanner._on_open_comment,
    Scanner._unexpected,
)
"""By the number of the group in `TOKEN`. Bound methods inside of the scanner would make it a circle that holds the text."""
