"""Fixes of literals: quotes, escapes, numbers, and spellings of other languages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Candidate, Fix, certain, tried
from rrext.editor.style import quoted
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Problem, shown

MAX_NUMBER_LENGTH: Final = 100
"""Characters of a number that a fix rewrites; longer ones are other text."""

_RUN: Final = re.compile(r"[^,\]}\[{:\"'\r\n]++")
_SINGLE_QUOTED: Final = re.compile(r"'(?:[^'\\\r\n]++|\\.)*+'")
_NOTE: Final = re.compile(r"[ \t](?://|/\*)")
_HEX: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F]{1,16}")
_BYTE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")
_SHORT_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def unterminated_string(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The closing quote: at the end, or before the first colon if the string is a key."""
    start, end = context.span(problem)
    inside = context.text[start + 1 : end]
    candidates: list[Candidate] = []
    note = _NOTE.search(inside)
    if note is not None:
        at = start + 1 + len(inside[: note.start()].rstrip(" \t,]}"))
        candidates.append(("Insert the missing quote before the comment", (Edit(at, at, '"'),)))
    candidates.append(("Insert the missing quote", (Edit(end, end, '"'),)))
    if inside.endswith("\\"):
        candidates.append(("Insert the missing quote", (Edit(end - 1, end, '\\\\"'),)))
    for sign in (":", ","):
        before = inside.partition(sign)[0].rstrip()
        if sign in inside:
            at = start + 1 + len(before)
            candidates.append((f'Insert the missing quote after "{before}', (Edit(at, at, '"'),)))
    yield from tried(context, problem, candidates)


def single_quotes(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The string in double quotes; if its end is missing, up to the first structural character."""
    start, end = context.span(problem)
    piece = context.text[start:end]
    is_curly = piece[0] in tokens.CURLY or piece[-1] in tokens.CURLY
    if _SINGLE_QUOTED.fullmatch(piece) or (is_curly and len(piece) > 1 and piece[-1] in f"\"'{tokens.CURLY}"):
        yield from certain(problem, [("Use double quotes", (Edit(start, end, _in_double_quotes(piece[1:-1])),))])
        return
    pieces = (piece, piece.rstrip(" \t,]}"), piece.partition(":")[0].rstrip(), piece.partition(",")[0].rstrip())
    yield from tried(
        context,
        problem,
        [("Use double quotes", (Edit(start, start + len(bare), _in_double_quotes(bare[1:])),)) for bare in pieces],
    )


def unquoted_text(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """Quotes around one word, or around all words up to the next punctuation."""
    start, end = context.span(problem)
    word = context.text[start:end]
    run = _RUN.match(context.text, start)
    words = word if run is None else run[0].partition("//")[0].partition("/*")[0].rstrip()
    stands_alone = tokens.COLON.match(context.text, end) is not None or tokens.CLEAN_END.match(context.text, end) is not None
    quoting = [
        (f"Put quotes around {_short(piece)}", (Edit(start, start + len(piece), quoted(piece)),))
        for piece in dict.fromkeys((words, word))
        if any(letter.isalnum() for letter in piece)
    ]
    if stands_alone and words == word and not word.endswith(";"):
        yield from certain(problem, quoting)
    else:
        yield from tried(
            context, problem, [*_with_first_quote(context, start, end), *_without_semicolon(context, end), *quoting]
        )


def invalid_escape(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The intended escape: of a byte, a quote, a control character, or the backslash itself."""
    start, end = context.span(problem)
    piece, letter = context.text[start:end], context.text[start + 1 : end]
    candidates: list[Candidate] = []
    byte = _BYTE.match(context.text, start)
    if byte is not None:
        candidates.append((f"Replace {byte[0]} with \\u00{byte[1]}", (Edit(start, byte.end(), f"\\u00{byte[1]}"),)))
    if len(piece) == 6:
        candidates.append((f"Replace {piece} with \\ufffd", (Edit(start, end, "\\ufffd"),)))
    if len(letter) == 1 and letter < " ":
        escape = _escape_of(letter)
        yield from certain(problem, [(f"Write it as {escape}", (Edit(start, end, escape),))])
        return
    removed: Candidate = ("Remove the backslash", (Edit(start, start + 1, ""),))
    escaped: Candidate = ("Escape the backslash", (Edit(start, start + 1, "\\\\"),))
    candidates += [removed, escaped] if letter == "'" else [escaped, removed]
    yield from certain(problem, candidates)


def control_character(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The escape of the character."""
    start, end = context.span(problem)
    escape = _escape_of(context.text[start:end])
    yield from certain(problem, [(f"Write it as {escape}", (Edit(start, end, escape),))])


def _escape_of(sign: str) -> str:
    return _SHORT_ESCAPES.get(sign) or f"\\u{ord(sign):04x}"


def invalid_number(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The number in JSON notation, or a string."""
    start, end = context.span(problem)
    word = context.text[start:end]
    number = _number_in(word)
    candidates: list[Candidate] = []
    if number and number != word:
        candidates.append((f"Replace {word} with {number}", (Edit(start, end, number),)))
    candidates.append((f"Put quotes around {_short(word)}", (Edit(start, end, quoted(word)),)))
    semicolon = _without_semicolon(context, end)
    yield from tried(context, problem, [*semicolon, *candidates]) if semicolon else certain(problem, candidates)


def not_finite(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """Null, or a string."""
    start, end = context.span(problem)
    word = context.text[start:end]
    yield from certain(
        problem,
        [
            (f"Replace {word} with null", (Edit(start, end, "null"),)),
            (f"Put quotes around {word}", (Edit(start, end, quoted(word)),)),
        ],
    )


def unexpected_text(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The intended literal, a comma for a semicolon, or nothing."""
    start, end = context.span(problem)
    piece = context.text[start:end]
    if problem.near:
        yield from certain(problem, [(f"Replace {piece} with {name}", (Edit(start, end, name),)) for name in problem.near])
        return
    candidates = _with_first_quote(context, start, end)
    if piece == ";":
        candidates.append(("Replace the semicolon with a comma", (Edit(start, end, ","),)))
    candidates.append((f"Remove {shown(piece)}", (Edit(start, end, ""),)))
    yield from tried(context, problem, candidates)


def _short(piece: str) -> str:
    return piece if len(piece) <= 60 else "this text"


def _with_first_quote(context: FixContext, start: int, end: int) -> list[Candidate]:
    """The missing quote before a word that a quote follows, perhaps after more words.

    If a quote precedes the word directly, it began the word, and the string before lacks its closing quote.
    """
    if context.text[start - 1 : start] == '"':
        first = context.text.rfind('"', 0, start - 1)
        before = context.text[first + 1 : start - 1].rstrip(" ,:[{")
        at = first + 1 + len(before)
        title = f'Insert the missing quote after "{_short(before)}'
        return [(title, (Edit(at, at, '"'),))] if first >= 0 and before and at < start - 1 else []
    last = context.text.find('"', end)
    if last < 0 or not context.text[start:last].isprintable():
        return []
    return [("Insert the missing quote", (Edit(start, start, '"'),))]


def _without_semicolon(context: FixContext, end: int) -> list[Candidate]:
    """A comma in place of a semicolon at the end of a word."""
    if context.text[end - 1 : end] != ";":
        return []
    return [("Replace the semicolon with a comma", (Edit(end - 1, end, ","),))]


def _in_double_quotes(inside: str) -> str:
    return quoted(tokens.unescape(inside)[0])


def _number_in(word: str) -> str:
    """A number in JSON notation; empty if the word holds none."""
    if len(word) > MAX_NUMBER_LENGTH:
        return ""
    if _HEX.fullmatch(word):
        return str(int(word, 16))
    bare = word.replace("_", "")
    sign, digits = ("-" if bare[:1] == "-" else ""), bare.lstrip("+-")
    whole, point, rest = digits.partition(".")
    if point and whole.isdecimal() | (not whole) and rest[:1] in ("", "e", "E"):
        rest = "0" + rest
    number = sign + (whole.lstrip("0") or "0") + (f".{rest}" if point else "")
    is_one = tokens.NUMBER.fullmatch(number) is not None and any(letter in "0123456789" for letter in word)
    return number if is_one and math.isfinite(float(number)) else ""
