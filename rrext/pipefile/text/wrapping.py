"""Text around a pipeline: a Markdown fence, prose of a letter or a model, an assignment, a `#!` line."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rrext.pipefile.text import tokens
from rrext.pipefile.text.problems import CODES, Problem, Related, Span

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
    """What stands before the pipeline, or None if it begins with the text, or if there is none."""
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
