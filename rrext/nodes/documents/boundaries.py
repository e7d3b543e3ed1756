"""Positions to cut a text: between paragraphs, lines, sentences, words or blocks of code, and never inside a character.

Every function gets a window of text and the last position allowed, and reads nothing else, so that cuts depend on
the text alone and not on how it arrived. `LOOKAHEAD` characters after the last position are enough for all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

LOOKAHEAD: Final = 256
"""Characters that are looked at behind a cut: the next word's begin, a heading's line."""


LONGEST_CLUSTER: Final = 64
"""Characters that may make up one that a person sees; a flag has 2, a family 11. Longer ones are cut."""

Cut: TypeAlias = Callable[[str, int], int]
"""(window, limit) -> position of the cut, from 1 to limit. The window is longer than limit: shorter texts are not cut."""

_JOINER: Final = "\u200d"
_SENTENCE_END: Final = re.compile(r"""[.!?…]{1,8}["'”’»)\]]{0,4}\s+|[。！？]{1,8}[」』”’）]{0,4}\s*|\n[ \t]{0,80}\n\s*""")
_BLOCK: Final = re.compile(r"\n[ \t]{0,80}\n(?=[^\s})\]])")
_BLANK_LINE: Final = re.compile(r"\n[ \t]{0,80}\n+")
_BLANK: Final = re.compile(r"\s(?=\S)")


def by_characters(window: str, limit: int) -> int:
    """Cut at the best position of the second half: after a paragraph, else a line, else a sentence, else a word."""
    least = max(limit // 2, 1)
    return (
        _last(_BLANK_LINE, window, least, limit)
        or _last_line(window, least, limit)
        or _last_sentence(window, least, limit)
        or by_words(window, limit)
    )


def by_sentences(window: str, limit: int) -> int:
    """Cut after the last sentence within the limit; a single longer sentence is cut between words."""
    return _last_sentence(window, 1, limit) or by_words(window, limit)


def by_code(window: str, limit: int) -> int:
    """Cut before an unindented line after a blank one, so between definitions; else as text, without sentences."""
    return (
        _last(_BLOCK, window, max(limit // 4, 1), limit)
        or _last(_BLANK_LINE, window, max(limit // 2, 1), limit)
        or _last_line(window, 1, limit)
        or by_words(window, limit)
    )


def by_words(window: str, limit: int) -> int:
    """Cut after the last blank of the second half, else between two characters."""
    return _last(_BLANK, window, max(limit // 2, 1), limit) or safe_cut(window, limit)


def safe_cut(window: str, limit: int) -> int:
    """The last position up to `limit` that is between two visible characters, if there is one near."""
    for cut in range(limit, max(limit - LONGEST_CLUSTER, 0), -1):
        if not _joins(window, cut):
            return cut
    return limit


def _joins(text: str, at: int) -> bool:
    """Whether the code points before and after a position form one visible character."""
    if not 0 < at < len(text):
        return False
    before, behind = text[at - 1], text[at]
    if behind < "\u0300":
        return before == "\r" and behind == "\n"
    if before == _JOINER or behind == _JOINER or unicodedata.category(behind) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= behind <= "\U0001f3ff":  # colours of skin
        return True
    return _is_regional(behind) and _regional_before(text, at) % 2 == 1


def _is_regional(character: str) -> bool:
    """Whether a code point is half of a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regional_before(text: str, at: int) -> int:
    count = 0
    while count < at and _is_regional(text[at - count - 1]):
        count += 1
    return count


def _last(pattern: re.Pattern[str], window: str, least: int, limit: int) -> int:
    """The end of the last match from `least` to `limit`; 0 if there is none."""
    found = 0
    for match in pattern.finditer(window, max(least - 2, 0), min(limit + 2, len(window))):
        if least <= match.end() <= limit:
            found = match.end()
    return found


def _last_line(window: str, least: int, limit: int) -> int:
    end = window.rfind("\n", least - 1, limit)
    return end + 1


def _last_sentence(window: str, least: int, limit: int) -> int:
    found = 0
    for end in _sentence_ends(window, limit):
        if least <= end <= limit:
            found = end
    return found


def _sentence_ends(window: str, limit: int) -> Iterator[int]:
    """The ends of sentences. A small letter after a dot shows that the dot belongs to an abbreviation."""
    for match in _SENTENCE_END.finditer(window, 0, min(limit + LOOKAHEAD, len(window))):
        end = match.end()
        if not (match[0][0] in ".…" and window[end : end + 1].islower()):
            yield end
