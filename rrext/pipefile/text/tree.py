"""The tree of a JSON text, right or broken: values with their positions, built from the tokens of a scanner.

Text around a pipeline is recognised: a Markdown fence, prose of a letter or a model, an assignment, a `#!` line.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final, Protocol

import msgspec

from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import CODES, Problem, Problems, Related, Span, pointer, shown

# The expected next token. Plain integers, because they are compared for every token of the text.
ROOT, KEY, VALUE, AFTER_VALUE, ELEMENT, AFTER_ELEMENT, NOTHING = range(7)


class LazyChildren(Protocol):
    """The children of a value, built at first use: most are never used."""

    def children(self) -> list[Located]: ...


class Located(msgspec.Struct, eq=False, gc=False):  # no reference cycles: values do not reference their parents
    """A value with its position. `kind` is `hole` where the text has a place for a value but no usable value.

    `key` and `key_span` are set inside objects. Read-only after the tree is built.
    """

    kind: str
    value: Any
    start: int
    end: int
    key: str | None = None
    key_span: Span | None = None
    inside: list[Located] | LazyChildren | None = None

    @property
    def children(self) -> list[Located]:
        """The members of an object or a list, in the order of the text; a duplicate key has two."""
        inside = self.inside
        if isinstance(inside, list):
            return inside
        if inside is None:
            return []
        self.inside = found = inside.children()
        return found


_CLOSERS: Final = {"object": "}", "array": "]"}


def _never_closed(located: Located) -> str:
    closer = _CLOSERS[located.kind]
    return f"{'[' if closer == ']' else '{'} is never closed: {closer} is missing."


class Tree:
    """The tree of a JSON text, built from its keys, values, brackets and commas in the order of the text.

    A token at a wrong place is reported, and added at the most likely place. `at` is the end of the current token; the scanner
    sets it. `stopped`: the scanner need not read on. `cut`: the tree lacks the rest of the text.
    """

    def __init__(self, text: str, problems: Problems, max_depth: int, wrapping: Wrapping | None = None) -> None:
        self.text = text
        self.problems = problems
        self.behind: Span | None = None
        """The text behind a wrapped pipeline."""
        self._wrapping = wrapping
        self.at = 0
        self.last = 0
        self.expect = ROOT
        self.root: Located | None = None
        self.stopped = False
        self.cut = False
        self._max_depth = max_depth
        self._stack: list[Located] = []
        self._implied: list[Located] = []  # objects whose opening brace is missing
        self._key: tuple[str, Span] = ("", (0, 0))
        self._quiet = -1
        self._open_ends: tuple[int, int] | None = None

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self._stack)

    def key(self, key: str, span: Span, end: int) -> None:
        """Add a key; `end` is after its colon."""
        expect = self.expect
        if expect == VALUE:
            self._missing_value()
        elif expect == AFTER_VALUE:
            self._missing_comma()
        elif expect == NOTHING:
            return self.trailing(span[0])
        elif expect != KEY and not self._ends_lists(key, span[0]) and not self._imply_object(span):
            return None
        holder = self._stack[-1]
        if key in holder.value:
            self._duplicate(holder, key, span)
        self._key = (key, span)
        self.expect = VALUE
        self.last = end
        return None

    def value(self, kind: str, value: Any, start: int, end: int) -> Located | None:
        """Add a value, or an opened object or list; None if a value cannot stand at this place."""
        expect = self.expect
        if expect == NOTHING:
            self.trailing(start)
            return None
        located = Located(kind, value, start, end)
        if expect == VALUE:
            located.key, located.key_span = self._key
            holder = self._stack[-1]
            holder.value[located.key] = value
            holder.children.append(located)
            self.expect = AFTER_VALUE
        elif expect == ROOT:
            self.root = located
            self.expect = NOTHING
        else:
            if expect == AFTER_ELEMENT:
                self._missing_comma()
            holder = self._stack[-1]
            holder.value.append(value)
            holder.children.append(located)
            self.expect = AFTER_ELEMENT
        self.last = end
        return located

    def hole(self, end: int | None = None) -> None:
        """Add a hole: a place without a usable value."""
        end = self.last if end is None else end
        self.value("hole", None, self.last, end)

    def open(self, kind: str, start: int, end: int) -> bool:
        """Open an `object` or `array`; False if it cannot stand at this place."""
        if self.expect in (KEY, AFTER_VALUE):
            self._close_forgotten(start)
        if len(self._stack) >= self._max_depth:
            text = f"Nested deeper than {self._max_depth} levels (max_depth): nothing is read from here on."
            self.report("too_deep", text, (start, end))
            self.stopped = self.cut = True
            return False
        located = self.value(kind, {} if kind == "object" else [], start, end)
        if located is None:
            return False
        located.inside = []
        self._stack.append(located)
        self.expect = KEY if kind == "object" else ELEMENT
        return True

    def take(self, element: Located) -> None:
        """Add a complete object as the next element of a list."""
        holder = self._stack[-1]
        holder.value.append(element.value)
        holder.children.append(element)
        self.last = self.at = element.end
        self.expect = AFTER_ELEMENT

    def close(self, kind: str, start: int, end: int) -> None:
        """A closing bracket."""
        if self.expect == NOTHING:
            return self.trailing(start)
        if not self._stack or (self._stack[-1].kind != kind and not self._has_open(kind)):
            return self.nonsense("unexpected_closer", f"{self.text[start]} closes nothing here.", (start, end))
        while self._stack[-1].kind != kind:
            self._close_unasked(start)
        if not self._implied or self._stack[-1] is not self._implied[-1]:
            return self._close(end)
        # The brace of this object was never opened, so this one belongs to an object further out.
        self._close_unasked(start)
        return self.close(kind, start, end) if self._has_open(kind) else None

    def comma(self, start: int, end: int) -> None:
        """A comma."""
        expect = self.expect
        if expect == VALUE:
            self._missing_value()
            self.expect = KEY
        elif expect == AFTER_VALUE:
            self.expect = KEY
        elif expect == AFTER_ELEMENT:
            self.expect = ELEMENT
        elif expect == NOTHING:
            self.trailing(start)
        elif expect == KEY or not (found := tokens.NEXT_MEMBER.match(self.text, end)) or not self._ends_lists(found[1], start):
            self.nonsense("extra_comma", "Nothing stands before this comma.", (start, end))

    def finish(self) -> Located:
        """End the text, and return the root; a hole if the text has no value."""
        if self.root is None:
            if not self.problems.errors:
                self.report("empty_file", "There is nothing here: a pipeline is an object.", (self.last, self.at))
            return Located("hole", None, self.last, self.at)
        if self._stack and not self.stopped:
            if self.expect == VALUE:
                self._missing_value()
            self._report_open_end()
        while self._stack:
            self._close(max(self.last, self._stack[-1].start))
        return self.root

    def trailing(self, start: int) -> None:
        """Report text after the end of the root value, and stop."""
        end = max(len(self.text.rstrip()), start + 1)
        if self._wrapping is not None and self._wrapping.has_behind(self.text, start):
            self.behind, self.stopped = (start, end), True
            return
        self.report("trailing_text", "The value ended before this.", (start, end))
        self.stopped = True

    def nonsense(self, code: str, message: str, span: Span, related: tuple[Related, ...] = ()) -> None:
        """Report a problem, unless an earlier mistake in the same line may have caused it."""
        if self.at > self._quiet and not self.stopped:
            self.report(code, message, span, related=related)

    def quiet_line(self) -> None:
        """Treat further problems in this line as consequences of the current one."""
        if self.at > self._quiet:
            newline = self.text.find("\n", self.at)
            self._quiet = len(self.text) if newline < 0 else newline

    def report(
        self, code: str, message: str, span: Span, *, path: str | None = None, related: tuple[Related, ...] = (), near: str = ""
    ) -> None:
        """Add a problem at an exact place; its pointer is that of the innermost open bracket unless given."""
        if path is None:
            path = self._pointer_of(len(self._stack) - 1)
        names = (near,) if near else ()
        self.problems.append(Problem(code, CODES[code][0], message, path, related, names, "value", span))
        if self.problems.full:
            self.problems.cut = self.stopped = self.cut = True  # what has so many mistakes is something else

    # what was forgotten

    def _ends_lists(self, key: str | None, start: int) -> bool:
        """End the lists in which a key stands, or a comma before one, if rather their ] is missing than a { before the key.
        Without a key, an object ends behind the comma.
        """
        if not self._stack or not self._is_behind(key, start):
            return False
        has_comma = self.text[start] == "," or (self.expect == ELEMENT and self._stack[-1].children)
        while self._stack[-1].kind == "array":
            self._close_unasked(start)
        if not has_comma:
            self._missing_comma()
        self.expect = KEY
        return True

    def _is_behind(self, key: str | None, start: int) -> bool:
        """Whether a key belongs behind the list in which it stands: by the brackets of the whole text, the last element, the
        indentation."""
        outer = next((located for located in reversed(self._stack) if located.kind == "object"), None)
        if outer is None or (self._implied and self._implied[-1] is outer):
            return False
        brackets, braces = self._unpaired()
        if not braces and brackets > 0:
            return True
        children = self._stack[-1].children
        if not children or braces < 0 or (children[-1].kind == "object" and key in children[-1].value):
            return False
        line, opened = self._margin(start), self._margin(self._stack[-1].start)
        return brackets > 0 if line is None else opened is None or line <= opened

    def _unpaired(self) -> tuple[int, int]:
        """How many more brackets of lists and of objects the text opens than it closes."""
        if self._open_ends is None:
            signs = Counter(found[3] for found in tokens.TOKEN.finditer(self.text) if found[3])
            self._open_ends = signs["["] - signs["]"], signs["{"] - signs["}"]
        return self._open_ends

    def _margin(self, offset: int) -> int | None:
        """The indentation of the line of an offset; None if something else stands before a key or comma in it."""
        begin = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1
        return offset - begin if not self.text[begin:offset].strip() else None

    def _imply_object(self, span: Span) -> bool:
        """Open an object at a key where a value belongs: its brace is missing."""
        self.nonsense("missing_brace", "A key needs an object around it: { is missing before it.", span)
        if self.expect == AFTER_ELEMENT:
            self.expect = ELEMENT
        opened = self.open("object", span[0], span[0])
        if opened:
            self._implied.append(self._stack[-1])
        return opened

    def _close_forgotten(self, start: int) -> None:
        """Handle a bracket where a key belongs: in a list of objects, the object before lacks its brace."""
        if len(self._stack) > 1 and self._stack[-2].kind == "array":
            self._close_unasked(start)
            self.expect = ELEMENT
            return
        if self._imply_list(start):
            return
        self.nonsense("expected_key", "A key in double quotes is missing here.", (start, start + 1))
        self._key = ("", (start, start))
        self.expect = VALUE

    def _imply_list(self, start: int) -> bool:
        """Make the last value, an object, the first element of a list whose bracket is missing: another object follows, and the
        text closes more lists than it opens.
        """
        children = self._stack[-1].children if self._stack else []
        if not children or children[-1].kind != "object" or self.text[start] != "{" or self._unpaired()[0] >= 0:
            return False
        first = children[-1]
        message = f"{shown(first.key or '')} needs a list: [ is missing before its first element."
        self.nonsense("missing_bracket", message, (first.start, first.start + 1))
        opened = Located("array", [first.value], first.start, first.end, first.key, first.key_span, [first])
        first.key = first.key_span = None
        self._stack[-1].value[opened.key] = opened.value
        children[-1] = opened
        self._stack.append(opened)
        self.expect = ELEMENT
        return True

    def _close_unasked(self, before: int) -> None:
        """Close the innermost bracket, because the token that begins there belongs to an outer one."""
        located = self._stack[-1]
        if self._implied and self._implied[-1] is located:
            self._implied.pop()
        else:
            path, span = self._pointer_of(len(self._stack) - 1), (before, before + 1)
            related = (Related(path, f"{_CLOSERS[located.kind]} is missing before this.", span),)
            self.nonsense("unclosed", _never_closed(located), (located.start, located.start + 1), related)
        self._close(max(self.last, located.start))

    def _close(self, end: int) -> None:
        if self.expect == VALUE:
            self._missing_value()
        located = self._stack.pop()
        located.end = self.last = end
        if not self._stack:
            self.expect = NOTHING
        else:
            self.expect = AFTER_VALUE if self._stack[-1].kind == "object" else AFTER_ELEMENT

    def _has_open(self, kind: str) -> bool:
        return any(located.kind == kind for located in self._stack)

    def _missing_value(self) -> None:
        self.nonsense("expected_value", f"The value of {shown(self._key[0])} is missing.", (self.last, self.last))
        self.hole()

    def _missing_comma(self) -> None:
        self.nonsense("expected_comma", "A comma is missing here.", (self.last, self.last))

    def _report_open_end(self) -> None:
        """Report one problem for all brackets that are open at the end, at the innermost one, which is the likeliest
        mistake.
        """
        *outer, located = self._stack
        if self._implied and self._implied[-1] is located:
            return
        related = tuple(
            Related(self._pointer_of(depth), f"{self.text[other.start]} is open too.", (other.start, other.start + 1))
            for depth, other in enumerate(outer)
        )
        span = (located.start, located.start + 1)
        self.report("unclosed", _never_closed(located), span, related=related[-5:])

    def _duplicate(self, holder: Located, key: str, span: Span) -> None:
        first = next((child for child in holder.children[:1000] if child.key == key), None)
        path = self._pointer_of(len(self._stack) - 1, key)
        related = () if first is None else (Related(path, "It stands here already.", first.key_span),)
        message = f"The key {shown(key)} stands twice; the last one counts."
        self.report("duplicate_key", message, span, path=path, related=related)

    def _pointer_of(self, depth: int, *more: str) -> str:
        """The pointer of the bracket at a depth of the stack."""
        parts: list[str | int] = []
        for outer, inner in zip(self._stack[:depth], self._stack[1 : depth + 1], strict=False):
            parts.append(len(outer.children) - 1 if inner.key is None else inner.key)
        return pointer(*parts, *more)


_QUOTES: Final = f"\"'{tokens.CURLY}"
_START: Final = re.compile(rf"\ufeff?(?:{tokens.SKIP}#(?!!)[^\r\n]*+)*+{tokens.SKIP}")
_MEMBER: Final = re.compile(
    rf'"[^"\r\n]*+"{tokens.SKIP}:|(?:components|source|project_id|version|name|description){tokens.SKIP}:'
)

# Bounded, because it is tried at every brace of a text: unending comments would make that quadratic.
_GAP: Final = r"(?:[ \t\r\n]++|//[^\r\n]{0,200}+[\r\n]){0,8}+"
_OBJECT: Final = re.compile(rf"\{{{_GAP}(?:[{_QUOTES}][^{_QUOTES}\r\n]{{1,100}}[{_QUOTES}]|\w{{1,100}}+){_GAP}:")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)[^\r\n]*+\s*")
_ASSIGNMENT: Final = re.compile(r"\s*(?:[\w.:]++[ \t]++){0,3}[\w.]++[ \t]*+:?=[ \t\r\n]*+")
_CONTINUED: Final = ',]}[{"'


class Wrapping(msgspec.Struct, frozen=True):
    """The text before a pipeline: `start` is where it begins, `end` where the pipeline does. A `#!` line has nothing behind."""

    start: int
    end: int
    is_script: bool = False

    def has_behind(self, text: str, offset: int) -> bool:
        """Whether the text from an offset behind the pipeline belongs to what is around it, rather than to the pipeline."""
        return not self.is_script and text[offset] not in _CONTINUED

    def problem(self, text: str, behind: Span | None) -> Problem:
        """The problem that the pipeline does not stand alone."""
        head, tail = text[self.start : self.end], "" if behind is None else text[behind[0] :]
        what = "prose"
        if self.is_script:
            what = "a #! line"
        elif is_fence(head, tail):
            what = "a Markdown fence"
        elif is_assignment(head, tail):
            what = "an assignment"
        related = () if behind is None else (Related("", "What stands behind the pipeline.", behind),)
        end = self.start + len(head.rstrip())
        message = f"A pipeline file holds nothing but the pipeline: around it stands {what}."
        return Problem("wrapped", CODES["wrapped"][0], message, "", related, span=(self.start, end))


def wrapping_of(text: str) -> Wrapping | None:
    """The kind of text before the pipeline; None if the text begins with it, or holds none."""
    found = _START.match(text)
    at = 0 if found is None else found.end()
    if _is_begun(text, at):
        return None
    if text.startswith("#!", at):
        line = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)?").match(text, at)
        end = at if line is None else line.end()
        if _is_begun(text, end):
            return Wrapping(at, end, is_script=True)
    begin = _OBJECT.search(text, at)
    return None if begin is None else Wrapping(at, begin.start())


def _is_begun(text: str, offset: int) -> bool:
    """Whether the next characters, behind comments, begin a pipeline, or the members of one, or are none."""
    found = _START.match(text, offset)
    at = offset if found is None else found.end()
    return text[at : at + 1] in ("", "{", "[") or _MEMBER.match(text, at) is not None


def is_fence(head: str, tail: str) -> bool:
    """Whether the pipeline stands alone in a Markdown fence."""
    return _FENCE.fullmatch(head) is not None and (not tail or _FENCE.fullmatch(tail) is not None)


def is_assignment(head: str, tail: str) -> bool:
    """Whether the pipeline is the value of a variable, in a program."""
    return _ASSIGNMENT.fullmatch(head) is not None and not tail.strip("; \t\r\n)")
