"""Fixes of brackets and of extra text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Candidate, Fix, tried
from rrext.editor.layout import Edits
from rrext.editor.style import BLANKS, line_start, margin_of
from rrext.pipefile.text.pointer import below, parts_of
from rrext.pipefile.text.problems import Problem, shown
from rrext.pipefile.text.tree import Located
from rrext.pipefile.text.wrapping import is_assignment, is_fence

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
