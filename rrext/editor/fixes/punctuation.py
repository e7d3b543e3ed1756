"""Fixes of punctuation: commas, colons, and missing keys and values beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Candidate, Fix, certain, tried
from rrext.editor.style import BLANKS
from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import Problem, shown

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
