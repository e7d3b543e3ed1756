"""Fixes of what stands between values: commas, colons, brackets, and text that is too much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.bench import Bench
from rrext.editor.fixes.fix import Fix
from rrext.editor.fixes.trial import Candidate, certain, tried
from rrext.editor.layout import Edits
from rrext.editor.style import BLANKS, line_start, margin_of
from rrext.engine import tokens
from rrext.engine.pointer import below, parts_of
from rrext.engine.problems import Problem, shown
from rrext.engine.tree import Located

__all__ = ["BRACKET_MAKERS"]

_CLOSERS: Final = {"object": "}", "array": "]"}
_MEANT_AS_COLON: Final = re.compile(r"[ \t]*+(=>|=|;)")
_REST_OF_LINE: Final = re.compile(r"[ \t]*+(?=[\r\n]|//)")
_LINE: Final = re.compile(r"(?:\r\n|\r|\n)(?:([ \t]*+)[^ \t\r\n][^\r\n]*+|[ \t]*+(?=[\r\n]|\Z))")
"""A line with what stands before; the group is its indentation, if anything stands on it."""
_FIRST_VALUES: Final = {
    "config": "{}",
    **dict.fromkeys(("components", "input", "control"), "[]"),
    **dict.fromkeys(("id", "provider", "source", "from", "lane", "classType", "name", "description"), '""'),
}
"""With what the values of some keys begin; all others with null."""


def expected_comma(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """A comma."""
    at = bench.span(problem)[0]
    yield from certain(problem, [("Insert a comma", (Edit(at, at, ","),))])


def extra_comma(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """One comma less."""
    start, end = bench.span(problem)
    yield from certain(problem, [("Remove the extra comma", (Edit(start, end, ""),))])


def expected_colon(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """A colon, perhaps in place of an equals sign; with a value if there is none either."""
    start, end = bench.span(problem)
    key = bench.text[start:end]
    other = _MEANT_AS_COLON.match(bench.text, end)
    candidates: list[Candidate] = []
    if other is not None:
        candidates.append((f"Replace {other[1]} with a colon", (Edit(end, other.end(), ":"),)))
    value = _FIRST_VALUES.get(key.strip("\"'"), "null")
    candidates.append((f"Insert a colon after {key}", (Edit(end, end, ":"),)))
    candidates.append((f"Give {key} the value {value}", (Edit(end, end, f"{bench.layout.style.colon}{value}"),)))
    yield from tried(bench, problem, candidates)


def expected_value(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The value with which such a key usually begins, or no key."""
    at = bench.span(problem)[0]
    holder = bench.find(problem.path)
    hole = next((child for child in _children(holder) if child.kind == "hole" and child.start == at), None)
    if holder is None or hole is None or hole.key is None:
        return
    value = _FIRST_VALUES.get(hole.key, "null")
    candidates: list[Candidate] = []
    following = tokens.TOKEN.match(bench.text, at)
    if following is not None and following.lastindex == tokens.KEY:
        begin = following.start(tokens.KEY)
        candidates.append(("Insert the missing {", (Edit(begin, begin, "{"),)))
    colon = bench.layout.style.colon.partition(":")[2]
    blank = "" if bench.text[at - 1 : at].isspace() else colon
    end = len(bench.text) - len(bench.text[at:].lstrip(" \t"))
    end = end if bench.text[end : end + 1] in (",", "}") else at
    place = next(index for index, child in enumerate(holder.children) if child is hole)
    candidates.append((f"Give {shown(hole.key)} the value {value}", (Edit(at, end, blank + value),)))
    candidates.append((f"Remove {shown(hole.key)}", bench.layout.remove(holder, [place])))
    yield from tried(bench, problem, candidates)


def expected_key(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The key that is missing most likely before such a bracket, if the place says which."""
    at = bench.span(problem)[0]
    holder = bench.find(problem.path)
    parts = bench.parts(problem.path)
    if holder is None or not (problem.path == bench.analysis.base or (len(parts) == 2 and parts[0] == "components")):
        return
    names = ["components"] if not parts else ["input", "control"]
    if bench.text[at : at + 1] == "{":
        names = [] if not parts else ["config"]
    for name in names:
        if all(child.key != name for child in holder.children):
            text = f'"{name}"{bench.layout.style.colon}'
            yield from tried(bench, problem, [(f'Insert the key "{name}"', (Edit(at, at, text),))])
            return


def missing_brace(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """Braces around the members, or the first one alone if the last one is there."""
    start = bench.span(problem)[0]
    holder = bench.find(problem.path)
    found = [holder, *_children(holder)]
    implied = next((each for each in found if each is not None and each.kind == "object" and each.start == start), None)
    if implied is None:
        return
    yield from tried(
        bench,
        problem,
        [
            ("Insert braces around these members", (Edit(start, start, "{"), Edit(implied.end, implied.end, "}"))),
            ("Insert the missing {", (Edit(start, start, "{"),)),
        ],
    )


def unclosed(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The closing bracket where the value ends or at the end of the text; or without what closed something else."""
    start = bench.span(problem)[0]
    opened = _opened_at(bench.map.root, start)
    if opened is None:
        return
    closer = _CLOSERS[opened.kind]
    candidates = _opened_elsewhere(bench)
    for other in (*_closed_further_out(bench, opened), opened):
        edits = _closed_by_indentation(bench, other)
        line = 0 if edits is None else bench.map.position(edits[0].start)[0]
        candidates.append((f"Insert the missing {_CLOSERS[other.kind]} below line {line}", edits))
    following = tokens.TOKEN.match(bench.text, opened.end)
    if following is not None and following[0][-1:] in ("}", "]"):
        at = following.end() - 1
        if bench.text[at] == "]" and opened.children:
            begin = opened.children[-1].start
            candidates.append(("Insert the missing [", (Edit(begin, begin, "["),)))
        candidates.append((f"Remove the {bench.text[at]} that does not belong here", (Edit(at, at + 1, ""),)))
        candidates.append((f"Replace {bench.text[at]} with {closer}", (Edit(at, at + 1, closer),)))
    candidates.append((f"Insert the missing {closer}", (Edit(opened.end, opened.end, closer),)))
    candidates.append(("Insert the missing closing brackets at the end", _closed_at_end(bench, problem)))
    yield from tried(bench, problem, candidates)


def unexpected_closer(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """No bracket, or the other one."""
    start, end = bench.span(problem)
    sign = bench.text[start:end]
    other = "]" if sign == "}" else "}"
    yield from tried(
        bench,
        problem,
        [(f"Replace {sign} with {other}", (Edit(start, end, other),)), (f"Remove the extra {sign}", (Edit(start, end, ""),))],
    )


def trailing_text(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """Without the bracket that ended the value too early, or without the text that follows it."""
    start, end = bench.span(problem)
    root = bench.map.root
    sign = bench.text[root.end - 1 : root.end]
    candidates: list[Candidate] = []
    if sign in ("}", "]"):
        candidates.append((f"Remove the {sign} that ends the value too early", (Edit(root.end - 1, root.end, ""),)))
    rest = bench.text[start:end]
    what = shown(rest) if len(rest) <= 20 and "\n" not in rest else "the text after the end of the value"
    candidates.append((f"Remove {what}", (Edit(start, end, ""),)))
    for found in tried(bench, problem, candidates):
        harmless = not rest.strip(BLANKS + ",}]")
        yield Fix(found.title, found.edits, problem, found.preferred and (harmless or found.title != f"Remove {what}"))


def unterminated_comment(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The end of the comment, where its line ends or where the text does."""
    start, text = bench.span(problem)[0], bench.text
    ends = [found for found in (text.find("\n", start), text.find("\r", start)) if found >= 0]
    line_end = min(ends, default=len(text))
    yield from tried(
        bench,
        problem,
        [
            ("End the comment at the end of its line", (Edit(line_end, line_end, " */"),)),
            ("End the comment at the end of the text", (Edit(len(text), len(text), " */"),)),
        ],
    )


def _children(located: Located | None) -> list[Located]:
    return [] if located is None else located.children


def _opened_at(root: Located, offset: int) -> Located | None:
    """The object or list whose bracket stands at an offset."""
    located = root
    while located.start != offset or located.kind not in _CLOSERS:
        inner = next((child for child in reversed(located.children) if child.start <= offset), None)
        if inner is None:
            return None
        located = inner
    return located


def _opened_elsewhere(bench: Bench) -> list[Candidate]:
    """The braces that are missing before keys: then what closes them closed what is open around them."""
    missing = [other for other in bench.analysis.loaded.problems if other.code == "missing_brace"]
    starts = [bench.span(other)[0] for other in missing[:3]]
    return [("Insert the missing { before a key", (Edit(start, start, "{"),)) for start in starts]


def _closed_further_out(bench: Bench, opened: Located) -> list[Located]:
    """What is closed, by its indentation, with the bracket of something around it."""
    text, waiting, found = bench.text, [opened], list[Located]()
    while waiting and len(found) < 3:
        located = waiting.pop()
        waiting.extend(child for child in located.children if child.kind in _CLOSERS)
        close = located.end - 1
        stands_alone = text[line_start(text, close) : close + 1].strip(" \t") == _CLOSERS[located.kind]
        if stands_alone and len(margin_of(text, close)) < len(margin_of(text, located.start)):
            found.append(located)
    return found


def _closed_by_indentation(bench: Bench, opened: Located) -> Edits:
    """The closing bracket on its own line, before the first one that is not indented more than that of the opening bracket."""
    text, margin = bench.text, margin_of(bench.text, opened.start)
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
    found = tokens.TOKEN.match(text, last)
    comma = "" if found is None or found[0][-1:] in ("}", "]", "") else ","
    return (Edit(last, last, bench.layout.style.newline + margin + _CLOSERS[opened.kind] + comma),)


def _closed_at_end(bench: Bench, problem: Problem) -> Edits:
    """The closing brackets of everything around a bracket, at the end of the text, as wide as it is written."""
    text, style, where = bench.text, bench.layout.style, bench.map
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
    margins = [text[line_start(text, each.start) :] for each in around]
    margins = [margin[: len(margin) - len(margin.lstrip(" \t"))] for margin in margins]
    lines = [
        style.newline + margin + _CLOSERS.get(each.kind, "")
        for each, margin in zip(reversed(around), reversed(margins), strict=True)
    ]
    return (Edit(end, end, "".join(lines)),)


BRACKET_MAKERS: Final = {
    "expected_comma": expected_comma,
    "extra_comma": extra_comma,
    "expected_colon": expected_colon,
    "expected_value": expected_value,
    "expected_key": expected_key,
    "missing_brace": missing_brace,
    "unclosed": unclosed,
    "unexpected_closer": unexpected_closer,
    "trailing_text": trailing_text,
    "unterminated_comment": unterminated_comment,
}
