"""`Pattern`: a literal or a regular expression of RE2, compiled to search the bytes of texts."""

from __future__ import annotations

import re
from typing import Final

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.text_search.trigrams import match_of, match_of_regex

LONGEST_PATTERN: Final = 2000
"""Characters of a pattern."""
MOST_INSTRUCTIONS: Final = 5000
"""Instructions that RE2 makes of a pattern: at worst each byte of a text takes time in proportion."""
MEMORY: Final = 8 << 20
"""Bytes that RE2 may use for a pattern."""
WINDOW: Final = (1 << 16, 1 << 20)
"""Bytes of a text that are searched between two looks at the clock; less for patterns of more instructions."""
WORK: Final = WINDOW[0] * MOST_INSTRUCTIONS
"""Bytes times instructions in a window."""
LONG_LITERAL: Final = 4
"""Bytes from which on a literal is searched without RE2, which finds shorter literals faster."""

Span = tuple[int, int]
"""The bytes at which a hit begins and ends."""


class Pattern:
    """A compiled pattern, and the query for the texts that it may fit."""

    def __init__(self, pattern: str, *, is_regex: bool, ignores_case: bool) -> None:
        """Raises `InvalidArguments` for what is no pattern, `ToolError` (`pattern_too_expensive`) for a costly one."""
        import re2

        at = "/input/pattern"
        if not pattern or len(pattern) > LONGEST_PATTERN:
            raise InvalidArguments.at(at, f"expected 1 to {LONGEST_PATTERN:,} characters")
        try:
            encoded = pattern.encode()
        except UnicodeEncodeError:
            raise InvalidArguments.at(at, "holds half of a surrogate pair, which is no text") from None
        if "\n" in pattern:
            raise InvalidArguments.at(at, "holds the end of a line", hint="A hit is within one line: search for one of them.")
        options = re2.Options()
        options.log_errors = False
        options.never_nl = True
        options.never_capture = True
        options.max_mem = MEMORY
        options.case_sensitive = not ignores_case
        options.literal = not is_regex
        try:
            compiled = re2.compile(encoded, options)
            if is_regex:
                self._check(pattern)
                compiled = re2.compile(b"(?m)" + encoded, options)
            instructions = compiled.programsize
        except re2.error as error:
            told = reason_of(error)
            if "too large" in told:
                raise _too_expensive(told) from None
            raise InvalidArguments.at(at, told, hint="The syntax is that of RE2, without look-around and \\1.") from None
        if instructions > MOST_INSTRUCTIONS:
            raise _too_expensive(f"{instructions:,} instructions, at most {MOST_INSTRUCTIONS:,}")
        self._compiled = compiled
        self._literal = encoded if len(encoded) >= LONG_LITERAL and not is_regex and not ignores_case else None
        self.match = match_of_regex(pattern) if is_regex else match_of([pattern])
        self.window = min(WINDOW[1], max(WINDOW[0], WORK // max(1, instructions)))

    def spans(self, data: bytes, first: int, stop: int, most: int) -> list[Span]:
        """The first hits, at most `most`, that begin from `first` on and end by `stop`. No two of them overlap."""
        found: list[Span] = []
        literal = self._literal
        if literal is not None:
            size = len(literal)
            at = data.find(literal, first, stop)
            while at >= 0:
                found.append((at, at + size))
                if len(found) == most:
                    break
                at = data.find(literal, at + size, stop)
            return found
        last = None
        for hit in self._compiled.finditer(data, first, stop):
            span: Span = hit.span()
            start, end = span
            if start == end and (span == last or (start < len(data) and data[start] & 0xC0 == 0x80)):
                continue  # empty hits come twice, and within characters too
            found.append(span)
            if len(found) == most:
                break
            last = span
        return found

    def count(self, data: bytes, first: int, stop: int) -> int | None:
        """How many hits `spans` would find, for a pattern whose hits are counted faster than found; else None."""
        return None if self._literal is None else data.count(self._literal, first, stop)

    @staticmethod
    def _check(pattern: str) -> None:
        escapes = {found[1] for found in re.finditer(r"\\Q.*?(?:\\E|\Z)|\\(.)", pattern, re.DOTALL)}
        if strange := escapes & {"A", "z", "C"}:
            raise InvalidArguments.at(
                "/input/pattern", f'"\\{min(strange)}" is not supported', hint="^ and $ are the ends of a line."
            )
        if re.search(r"\(\?[a-zA-Z]*-[a-zA-Z]*m", pattern):
            raise InvalidArguments.at("/input/pattern", "^ and $ are always the ends of a line: leave out the flag -m")


def reason_of(error: Exception) -> str:
    """What RE2 says of a pattern that is none, which comes as bytes for some patterns."""
    told = error.args[0] if error.args else ""
    return str(told, "utf-8", "replace") if isinstance(told, bytes) else str(told)


def _too_expensive(why: str) -> ToolError:
    return ToolError(
        f"The pattern is too expensive: {why}",
        code="pattern_too_expensive",
        hint="Use smaller repetitions and fewer classes such as \\pL.",
        data={"limit": "MOST_INSTRUCTIONS", "maximum": MOST_INSTRUCTIONS},
    )
