"""`RegularExpression`: a pattern of RE2 from the settings of a node, searched and replaced in whole texts, in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import ToolError
from rrext.nodes.text_search.pattern import LONGEST_PATTERN, MEMORY, MOST_INSTRUCTIONS, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

WORK: Final = 5_000_000_000
"""Bytes of a text times instructions of a pattern: at worst half a minute, and mostly less than a second."""
BETWEEN_CHECKS: Final = 1024
"""Hits between two looks whether the call is still wanted; some milliseconds."""
CONTINUES: Final = range(0x80, 0xC0)
"""Bytes of UTF-8 that continue a character."""


class RegularExpression:
    """A compiled pattern. `^` and `$` are the ends of lines. It works on UTF-8, which RE2 searches ten times as fast."""

    def __init__(self, pattern: str, *, is_regex: bool = True, ignores_case: bool = False, is_measured: bool = False) -> None:
        """Raises `ValueError` with the reason for what is no pattern, or one that is too expensive.

        `is_measured`: the pattern is one of this package, and quick in texts of any size.
        """
        import re2

        if not pattern or len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"expected a pattern of 1 to {LONGEST_PATTERN:,} characters")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY
        options.case_sensitive = not ignores_case
        options.literal = not is_regex
        try:
            encoded = pattern.encode()
            re2.compile(encoded, options)  # alone: what is put before it must not hide a fault
            compiled = re2.compile(b"(?m)" + encoded if is_regex else encoded, options)
        except UnicodeEncodeError:
            raise ValueError("holds half of a surrogate pair, which is no text") from None
        except re2.error as error:
            raise ValueError(f'"{pattern[:80]}" is no regular expression of RE2: {reason_of(error)}') from None
        self._compiled = compiled
        self._instructions: int = compiled.programsize
        if self._instructions > MOST_INSTRUCTIONS:
            raise ValueError(f"is too expensive: {self._instructions:,} instructions, at most {MOST_INSTRUCTIONS:,}")
        self._is_measured = is_measured
        self.groups: int = compiled.groups

    def hits(self, data: bytes, check: Callable[[], object]) -> Iterator[Any]:
        """The matches, which do not overlap. Raises `ToolError` (`pattern_too_expensive`), and what `check` raises."""
        self._require_cheap(data)
        last = None
        for number, hit in enumerate(self._compiled.finditer(data)):
            if number % BETWEEN_CHECKS == 0:
                check()
            start, end = span = hit.span()
            if start == end and (span == last or (start < len(data) and data[start] in CONTINUES)):
                continue  # empty hits come behind each hit, and within characters too
            last = (end, end)
            yield hit

    def lines(self, data: bytes, check: Callable[[], object], *, keeps: bool) -> bytes:
        """The lines of a text in which the pattern is found, or those in which it is not. Raises as `hits`."""
        self._require_cheap(data)
        found: list[bytes] = []
        for number, line in enumerate(data.splitlines(keepends=True)):
            if number % BETWEEN_CHECKS == 0:
                check()
            if (self._compiled.search(line.rstrip(b"\r\n")) is not None) is keeps:
                found.append(line)
        return b"".join(found)

    def replaced(self, data: bytes, by: Replacement, limit: int, check: Callable[[], object]) -> bytes:
        """The text with each hit replaced, up to some more than `limit` bytes: then its receiver refuses it."""
        pieces: list[bytes] = []
        size = end = 0
        for hit in self.hits(data, check):
            start = hit.start()
            pieces.append(data[end:start])
            pieces.append(by.of(hit))
            size += len(pieces[-2]) + len(pieces[-1])
            end = hit.end()
            if size > limit:
                break
        pieces.append(data[end:])
        return b"".join(pieces)

    def _require_cheap(self, data: bytes) -> None:
        if not self._is_measured and len(data) * self._instructions > WORK:
            raise ToolError(
                f"The pattern is too expensive for a text of {len(data):,} bytes: it has {self._instructions:,} instructions",
                code="pattern_too_expensive",
                hint="Use smaller repetitions and fewer classes such as \\pL, or send less text in one object.",
            )


class Replacement:
    r"""What stands in place of a hit: a text, in which `\1` to `\9` are groups, `\0` the whole hit, `\n` the end of a line."""

    def __init__(self, text: str, groups: int) -> None:
        """`groups` is their number in the pattern; -1 takes the text as it is. Raises `ValueError`."""
        self._parts: Sequence[bytes | int] = [text.encode("utf-8", "replace")] if groups < 0 else _parts(text, groups)

    def of(self, hit: Any) -> bytes:
        """The replacement of a hit; a group without a part in it is empty."""
        return b"".join(part if isinstance(part, bytes) else hit.group(part) or b"" for part in self._parts)


ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def _parts(text: str, groups: int) -> list[bytes | int]:
    found: list[bytes | int] = []
    for plain, escaped in re.findall(r"([^\\]+)|\\(.?)", text, re.DOTALL):
        if plain or escaped in ESCAPES:
            found.append((plain or ESCAPES[escaped]).encode("utf-8", "replace"))
        elif escaped.isascii() and escaped.isdigit() and int(escaped) <= groups:
            found.append(int(escaped))
        else:
            raise ValueError(f'"\\{escaped}" in the replacement is neither a group of the pattern nor \\n, \\t, \\r or \\\\')
    return found
