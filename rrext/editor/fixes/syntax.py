"""Fixes of the text: brackets, commas, colons, quotes, escapes, numbers, and spellings of other languages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.fixes.fix import Candidate, Fix, FixContext, certain, tried
from rrext.editor.formatting import BLANKS, Edits, line_start, margin_of, quoted
from rrext.editor.text import Edit
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Problem, below, parts_of, shown
from rrext.pipefile.text.tree import Located, is_assignment, is_fence

_CLOSERS: Final = {"object": "}", "array": "]"}
_NO_CAUSES: Final = frozenset(
    {
        *("unclosed", "unexpected_closer", "trailing_text", "unterminated_comment"),
        *("single_quotes", "invalid_escape", "control_character", "invalid_number", "not_finite"),
        *("wrapped", "expected_comma", "duplicate_key", "not_utf8", "empty_file"),
    }
)
"""Errors that leave no bracket open, and errors that only report an open bracket."""

_LINE_START: Final = re.compile(r"\r\n|\r|\n")
_REST_OF_LINE: Final = re.compile(r"[ \t]*+(?=[\r\n]|//)")
_LINE: Final = re.compile(r"(?:\r\n|\r|\n)(?:([ \t]*+)[^ \t\r\n][^\r\n]*+|[ \t]*+(?=[\r\n]|\Z))")
"""A line end with the text of the next line; the group is its indentation, if the line is not empty."""


def missing_bracket(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The opening bracket of a list."""
    start = context.span(problem)[0]
    yield from tried(context, problem, [("Insert the missing [", (Edit(start, start, "["),))])


def missing_brace(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """Braces around the members, or an opening brace alone if the closing one exists."""
    start = context.span(problem)[0]
    holder = context.find(problem.path)
    found = [] if holder is None else [holder, *holder.children]
    implied = next((each for each in found if each.kind == "object" and each.start == start), None)
    if holder is None or implied is None:
        return
    yield from tried(
        context,
        problem,
        [
            ("Insert braces around these members", (Edit(start, start, "{"), Edit(implied.end, implied.end, "}"))),
            ("Insert the missing {", (Edit(start, start, "{"),)),
            *_ended_before(holder, start),
        ],
    )


def _ended_before(holder: Located, offset: int) -> list[Candidate]:
    """The closing bracket of a list before a member that does not belong into it."""
    last = next((child for child in reversed(holder.children) if child.end < offset), None)
    if holder.kind != "array" or last is None:
        return []
    return [("Insert the missing ]", (Edit(last.end, last.end, "]"),))]


def unclosed(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The closing bracket at the end of the value or of the text; or the removal of a bracket that closed another value."""
    start = context.span(problem)[0]
    opened = _opened_at(context.map.root, start)
    if opened is None:
        return
    closer = _CLOSERS[opened.kind]
    candidates = [_below(context, other) for other in _closed_further_out(context, opened)]
    at_end: Candidate = ("Insert the missing closing brackets at the end", _closed_at_end(context, problem))
    if not context.text[opened.end :].strip(BLANKS):
        candidates.append(at_end)
    candidates.append(_below(context, opened))
    _, following, at = context.token(opened.end)
    if following in ("}", "]"):
        if following == "]" and opened.children:
            begin = opened.children[-1].start
            candidates.append(("Insert the missing [", (Edit(begin, begin, "["),)))
        candidates.append((f"Remove the {following} that does not belong here", (Edit(at, at + 1, ""),)))
        candidates.append((f"Replace {following} with {closer}", (Edit(at, at + 1, closer),)))
    candidates.append((f"Insert the missing {closer}", (Edit(opened.end, opened.end, closer),)))
    candidates.append(at_end)
    yield from _unless_a_consequence(context, tried(context, problem, candidates))


def unexpected_closer(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The other bracket, or none."""
    start, end = context.span(problem)
    sign = context.text[start:end]
    other = "]" if sign == "}" else "}"
    replaced: Candidate = (f"Replace {sign} with {other}", (Edit(start, end, other),))
    removed: Candidate = (f"Remove the extra {sign}", (Edit(start, end, ""),))
    yield from _unless_a_consequence(context, tried(context, problem, [replaced, removed]))


def trailing_text(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of the bracket that ended the value too early, or of the text after it."""
    start, end = context.span(problem)
    root = context.map.root
    sign = context.text[root.end - 1 : root.end]
    candidates: list[Candidate] = []
    if sign in ("}", "]"):
        candidates.append((f"Remove the {sign} that ends the value too early", (Edit(root.end - 1, root.end, ""),)))
    rest = context.text[start:end]
    what = shown(rest) if len(rest) <= 20 and "\n" not in rest else "the text after the end of the value"
    candidates.append((f"Remove {what}", (Edit(start, end, ""),)))
    for found in _unless_a_consequence(context, tried(context, problem, candidates)):
        harmless = not rest.strip(BLANKS + ",}]")
        yield Fix(found.title, found.edits, problem, found.preferred and (harmless or found.title != f"Remove {what}"))


def wrapped(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The pipeline alone. Prose may be worth keeping elsewhere, so its removal is not preferred."""
    start, end = context.span(problem)
    text, root = context.text, context.map.root
    if text.startswith("#!", start) and root.start > end and not problem.related:
        line = next(_LINE_START.finditer(text, end), None)
        edits: tuple[Edit, ...] = (Edit(start, end if line is None else line.end(), ""),)
        head, tail = "", ""
    else:
        head, tail = text[start : root.start], text[root.end :] if problem.related else ""
        edits = (Edit(start, root.start, ""), *((Edit(root.end, len(text), context.layout.style.newline),) if tail else ()))
    alone = not head or is_fence(head, tail) or is_assignment(head, tail)
    yield Fix("Remove what stands around the pipeline", edits, problem, alone)


def unterminated_comment(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The end of the comment, at the end of its line or of the text."""
    start, text = context.span(problem)[0], context.text
    ends = [found for found in (text.find("\n", start), text.find("\r", start)) if found >= 0]
    line_end = min(ends, default=len(text))
    yield from tried(
        context,
        problem,
        [
            ("End the comment at the end of its line", (Edit(line_end, line_end, " */"),)),
            ("End the comment at the end of the text", (Edit(len(text), len(text), " */"),)),
        ],
    )


def _unless_a_consequence(context: FixContext, fixes: Iterator[Fix]) -> Iterator[Fix]:
    """The fixes; none is preferred if another error may have caused the bracket error."""
    codes = {other.code for other in context.syntax}
    is_consequence = not codes <= _NO_CAUSES
    for fix in fixes:
        yield Fix(fix.title, fix.edits, fix.problem, fix.preferred and not is_consequence)


def _opened_at(root: Located, offset: int) -> Located | None:
    """The object or list whose bracket stands at an offset."""
    located = root
    while located.start != offset or located.kind not in _CLOSERS:
        inner = next((child for child in reversed(located.children) if child.start <= offset), None)
        if inner is None:
            return None
        located = inner
    return located


def _closed_further_out(context: FixContext, opened: Located) -> list[Located]:
    """The values that, by indentation, are closed with the bracket of a value around them."""
    text, waiting, found = context.text, [opened], list[Located]()
    while waiting and len(found) < 3:
        located = waiting.pop()
        waiting.extend(child for child in located.children if child.kind in _CLOSERS)
        close = located.end - 1
        stands_alone = text[line_start(text, close) : close + 1].strip(" \t") == _CLOSERS[located.kind]
        if stands_alone and len(margin_of(text, close)) < len(margin_of(text, located.start)):
            found.append(located)
    return found


def _below(context: FixContext, opened: Located) -> Candidate:
    edits = _closed_by_indentation(context, opened)
    line = 0 if edits is None else context.map.position(edits[0].start)[0]
    return f"Insert the missing {_CLOSERS[opened.kind]} below line {line}", edits


def _closed_by_indentation(context: FixContext, opened: Located) -> Edits:
    """The closing bracket on its own line, before the first line that is not indented deeper than the opening bracket."""
    text, margin = context.text, margin_of(context.text, opened.start)
    if _REST_OF_LINE.match(text, opened.start + 1) is None:
        return None
    last = opened.start + 1
    for line in _LINE.finditer(text, last):
        if line[1] is not None and len(line[1]) <= len(margin):
            break
        if line[1] is not None:
            last = line.end()
    else:
        return None
    comma = "" if context.token(last)[1] in ("}", "]", "") else ","
    return (Edit(last, last, context.layout.style.newline + margin + _CLOSERS[opened.kind] + comma),)


def _closed_at_end(context: FixContext, problem: Problem) -> Edits:
    """The closing brackets of all values around a bracket, at the end of the text."""
    text, style, where = context.text, context.layout.style, context.map
    parts = parts_of(problem.path)
    path, around = "", [where.root]
    for part in parts:
        path = below(path, part)
        located = where.find(path)
        if located is None:
            return None
        around.append(located)
    end = len(text.rstrip(BLANKS))
    if not style.wide:
        newline = style.newline if "//" in text[line_start(text, end) : end] else ""
        return (Edit(end, end, newline + "".join(_CLOSERS.get(each.kind, "") for each in reversed(around))),)
    lines = (style.newline + margin_of(text, each.start) + _CLOSERS.get(each.kind, "") for each in reversed(around))
    return (Edit(end, end, "".join(lines)),)


_MEANT_AS_COLON: Final = re.compile(r"[ \t]*+(=>|=|;)")
_FIRST_VALUES: Final = {
    "config": "{}",
    **dict.fromkeys(("components", "input", "control"), "[]"),
    **dict.fromkeys(("id", "provider", "source", "from", "lane", "classType", "name", "description"), '""'),
}
"""The initial values of some keys; all others begin with null."""


def expected_comma(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A comma."""
    at = context.span(problem)[0]
    inserted: Candidate = ("Insert a comma", (Edit(at, at, ","),))
    if len(context.syntax) > 1:  # perhaps a quote is missing, and a comma would stand inside the string
        yield from tried(context, problem, [inserted])
    else:
        yield from certain(problem, [inserted])


def extra_comma(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of a comma; behind an opening bracket perhaps the missing closing one."""
    start, end = context.span(problem)
    removed: Candidate = ("Remove the extra comma", (Edit(start, end, ""),))
    before = context.text[:start].rstrip(BLANKS)[-1:]
    closer = {"{": "}", "[": "]"}.get(before)
    if closer is None:
        yield from certain(problem, [removed])
    else:
        yield from tried(context, problem, [(f"Insert the missing {closer}", (Edit(start, start, closer),)), removed])


def expected_colon(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A colon, perhaps in place of an equals sign; with a value if that is missing too."""
    start, end = context.span(problem)
    key = context.text[start:end]
    other = _MEANT_AS_COLON.match(context.text, end)
    candidates: list[Candidate] = []
    before = key[1:].partition(":")[0].rstrip()
    if key[:1] == '"' and ":" in key and before:
        at = start + 1 + len(before)
        candidates.append((f'Insert the missing quote after "{before}', (Edit(at, at, '"'),)))
    last = next((child for child in reversed(context.children(problem.path)) if child.end <= start), None)
    if last is not None and last.kind != "hole":
        candidates.append(("Insert the missing [", (Edit(last.start, last.start, "["),)))
    if other is not None:
        candidates.append((f"Replace {other[1]} with a colon", (Edit(end, other.end(), ":"),)))
    value = _FIRST_VALUES.get(key.strip("\"'"), "null")
    candidates.append((f"Insert a colon after {key}", (Edit(end, end, ":"),)))
    candidates.append((f"Give {key} the value {value}", (Edit(end, end, f"{context.layout.style.colon}{value}"),)))
    yield from tried(context, problem, candidates)


def expected_value(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The usual initial value of the key, or no key."""
    at = context.span(problem)[0]
    holder = context.find(problem.path)
    hole = next((child for child in context.children(problem.path) if child.kind == "hole" and child.start == at), None)
    if holder is None or hole is None or hole.key is None:
        return
    value = _FIRST_VALUES.get(hole.key, "null")
    candidates: list[Candidate] = []
    kind, following, begin = context.token(at)
    if kind == tokens.KEY or following in ("}", "]"):
        opener = "[" if following == "]" else "{"
        candidates.append((f"Insert the missing {opener}", (Edit(begin, begin, opener),)))
    colon = context.layout.style.colon.partition(":")[2]
    blank = "" if context.text[at - 1 : at].isspace() else colon
    end = len(context.text) - len(context.text[at:].lstrip(" \t"))
    end = end if context.text[end : end + 1] in (",", "}") else at
    place = next(index for index, child in enumerate(holder.children) if child is hole)
    candidates.append((f"Give {shown(hole.key)} the value {value}", (Edit(at, end, blank + value),)))
    candidates.append((f"Remove {shown(hole.key)}", context.layout.remove(holder, [place])))
    yield from tried(context, problem, candidates)


def expected_key(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The most likely key before the bracket; or the bracket of a list around this value and the value before it."""
    at = context.span(problem)[0]
    children = context.children(problem.path)
    candidates: list[Candidate] = []
    last = next((child for child in reversed(children) if child.end <= at and child.key), None)
    if last is not None and last.kind == "object":
        candidates.append(("Insert the missing [", (Edit(last.start, last.start, "["),)))
    taken = {child.key for child in children}
    for name in _keys_before(context, problem.path, context.text[at : at + 1]):
        if name not in taken:
            text = f'"{name}"{context.layout.style.colon}'
            candidates.append((f'Insert the key "{name}"', (Edit(at, at, text),)))
            break
    yield from tried(context, problem, candidates)


def _keys_before(context: FixContext, path: str, bracket: str) -> tuple[str, ...]:
    """The keys whose values begin with a bracket, in an object of the pipeline."""
    parts = context.parts(path)
    if path == context.analysis.base:
        return ("components",) if bracket == "[" else ()
    if len(parts) == 2 and parts[0] == "components":
        return ("input", "control") if bracket == "[" else ("config",)
    return ()


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
