"""The words that every store indexes and searches: the same in a chunk and in a question, for every store.

The databases' own tokenizers disagree: one drops numbers, another takes `a.b`, `x@y` or `c/d` for one word and `4e1f` for two,
and folds only ASCII letters where the database's locale is C.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from string import ascii_letters, digits
from typing import Final
from unicodedata import normalize

MAX_QUERY_WORDS: Final = 500
"""Different words of a question that are searched for: the first ones. Each word slows the search down."""
MAX_WORD: Final = 500
"""Characters of a word that count: PostgreSQL indexes 2046 bytes of one."""
MAX_PARTS: Final = 16
"""Parts of an identifier. A word with more is a key or a checksum, whose parts say nothing."""
KNOWN_WORDS: Final = 16_384
"""Words whose forms are cached, a few megabytes: texts repeat their words."""


MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
"""Signs over, under and beside letters, which belong to the word: without them Hindi or Thai would fall into letters."""
NO_WORD: Final = re.compile(rf"(?:[^\w{MARKS}]|_)+")
UNSPACED: Final = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, kana, Han, and Hangul, whose words have
their particles with them."""
RUN: Final = re.compile(rf"[{UNSPACED}]+|[^{UNSPACED}]+")
HAS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")


ACCENTED: Final = re.compile("([a-z\u00df-\u02af\u0370-\u03ff])[\u0300-\u036f]+")
"""Latin and Greek letters with their accents. In other scripts, such signs make other letters."""
STRESSED: Final = re.compile(
    "([\u0430\u0435\u0438\u043e\u0443\u044b\u044d\u044e\u044f\u0454\u0456][\u0306\u0308]?)[\u0300\u0301]+"
)
"""Cyrillic vowels with the mark of their stress, which dictionaries and encyclopedias write."""
VOWELS: Final = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]+")
"""Signs that Hebrew and Arabic usually leave out."""
PLAIN: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ё": "е"}
)
"""Letters that Unicode does not take apart, and how they are typed without their strokes and dots."""
PART: Final = re.compile("0+|A+(?!a)|A?a+")
"""A part of an identifier, with `A` for a capital, `0` for a digit, and `a` for all else."""
NUMBERED: Final = re.compile("(?:A+a?|A?a+)0+")
"""A part with its number, as `SHA256` of `computeSHA256Hash`, and `IPv6` of `parseIPv6Address`."""
KINDS: Final = str.maketrans(ascii_letters + digits, "a" * 26 + "A" * 26 + "0" * 10)
CHANGES: Final = ("aA", "AAa", "a0", "A0", "0a", "0A")
"""Where parts meet."""


def stored_words(text: str) -> list[str]:
    """The indexed words of a chunk, with the parts of identifiers; of scripts without spaces, all letters and their pairs."""
    if text.isascii() and not _has_identifiers(text):  # as most texts, and a third of the time
        return [word[:MAX_WORD] for word in _split(text.lower())]
    return [form for word in _split(text) for form in _forms(word, True)]


def asked_words(text: str) -> list[str]:
    """The different words of a question, the first `MAX_QUERY_WORDS`."""
    return list(dict.fromkeys(form for word in _split(text) for form in _forms(word, False)))[:MAX_QUERY_WORDS]


def former_words(text: str) -> list[str]:
    """The words of a question in other forms that older versions of rrext stored: with accents, and not taken apart."""
    former = {} if text.isascii() else {_cased(word)[:MAX_WORD]: word for word in _split(text)}
    return [form for form, word in former.items() if form not in _forms(word, False)][:MAX_QUERY_WORDS]


def share_of_words(asked: Collection[str], stored: Collection[str]) -> float:
    """The share of the question's words that a hit contains."""
    return max(1, len(set(asked).intersection(stored))) / len(asked)


def _split(text: str) -> list[str]:
    """The words of a text in order, as they are written: letters, their marks, and digits only."""
    return NO_WORD.sub(" ", text if text.isascii() else normalize("NFKC", text)).split()


@lru_cache(maxsize=KNOWN_WORDS)
def _forms(word: str, is_stored: bool, /) -> tuple[str, ...]:
    """A word without case and accents, and pairs of letters of a script without spaces. If it is stored, also the parts of
    an identifier, and those letters: who asks for the whole does not mean its parts."""
    found: list[str] = []
    for run in RUN.findall(word):
        if HAS_UNSPACED.match(run):
            pairs = [run[n : n + 2] for n in range(len(run) - 1)]
            found += [*run, *pairs] if is_stored or not pairs else pairs
        else:
            found += [_folded(part) for part in (run, *(_parts(run) if is_stored else ()))]
    return tuple(found)


def _has_identifiers(text: str) -> bool:
    """Whether an ASCII text has a word that may have parts."""
    kinds = text.translate(KINDS)
    return any(change in kinds for change in CHANGES)


def _parts(word: str) -> list[str]:
    """`get`, `HTTP` and `Response` of `getHTTPResponse`, `api` and `V2` of `apiV2`; none of a plain word. Single letters and
    digits tell nothing."""
    if word.isalpha() and (word.islower() or word[1:].islower() or word.isupper()):
        return []
    kinds = "".join("0" if char.isdecimal() else "A" if char.isupper() else "a" for char in word)
    spans = [found.span() for found in PART.finditer(kinds)]
    if not 1 < len(spans) <= MAX_PARTS:
        return []
    spans += [found.span() for found in NUMBERED.finditer(kinds)]
    return [word[start:end] for start, end in spans if 1 < end - start < len(word)]


def _cased(word: str) -> str:
    return word.lower() if word.isascii() else normalize("NFKC", word.casefold())


def _folded(word: str) -> str:
    word = _cased(word)
    if not word.isascii():
        word = VOWELS.sub("", STRESSED.sub(r"\1", ACCENTED.sub(r"\1", normalize("NFD", word))))
        word = normalize("NFC", word).translate(PLAIN)
    return word[:MAX_WORD]
