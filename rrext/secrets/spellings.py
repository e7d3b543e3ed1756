"""How a secret is spelt in texts, and where one of these spellings stands in a text.

The spellings that programs write are known beforehand, as forms. In others each character may be escaped or not: there the
escapes of the text are replaced by their characters, also in more than one layer, before the forms are searched again.
"""

from __future__ import annotations

import os.path
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from heapq import nlargest
from itertools import islice
from typing import Final

from rrext.limits import MAX_SECRET_PARTS, MIN_SECRET, MIN_SECRET_IN_WORD, MIN_SECRET_PART
from rrext.secrets.names import secrets_within

Span = tuple[int, int, str]
"""Start and end in a text, and the name of the secret that stands there."""
Form = tuple[str, str]
"""A spelling in small letters, and the name of its secret."""

_BETWEEN_PARTS: Final = r"[/\\:@?&=#;,\r\n]+"
_ELLIPSIS: Final = r"…|\.\.\."
LAYERS: Final = 4
"""How many layers of escapes are looked through: one of a URL in an HTML page in a JSON text has three."""
_ENTITIES: Final = {
    "amp": "&", "apos": "'", "ast": "*", "bsol": "\\", "colon": ":", "comma": ",", "commat": "@", "dollar": "$", "equals": "=",
    "excl": "!", "grave": "`", "gt": ">", "hat": "^", "lbrace": "{", "lbrack": "[", "lcub": "{", "lowbar": "_", "lpar": "(",
    "lsqb": "[", "lt": "<", "num": "#", "percnt": "%", "period": ".", "plus": "+", "quest": "?", "quot": '"', "rbrace": "}",
    "rbrack": "]", "rcub": "}", "rpar": ")", "rsqb": "]", "semi": ";", "sol": "/", "verbar": "|", "vert": "|",
}  # fmt: skip
"""The named characters of HTML that are ASCII."""
_CODE: Final = "([2-7][0-9a-f])"


@cache
def _escape() -> re.Pattern[str]:
    """A character of ASCII as JSON, Python, URLs and HTML may write it. A backslash before any other character means nothing,
    and a further layer of an escape (`\\\\u0077`, `%2577`, `&amp;#119;`) is a part of it.

    Each alternative begins with a character, so that the search for them is fast.
    """
    return re.compile(
        rf"\\\\*(?:u00{_CODE}|u\{{0*{_CODE}\}}|x{_CODE})?|%(?:25)*{_CODE}"
        rf"|&(?:amp;)*(?:#x0*{_CODE};?|#0*(?P<decimal>3[2-9]|[4-9]\d|1[01]\d|12[0-6])(?!\d);?|(?P<name>{'|'.join(_ENTITIES)});)"
    )


_TELLING: Final = rf"\\(?:[^\\\"'bfnrt\s]|\\{{3}})|%[2-7][0-9a-f]|&(?:#|(?:{'|'.join(_ENTITIES)});)"
"""An escape that the forms do not have."""
_BEGUN: Final = r"(?:\\+(?:u0{0,2}[2-7]?|u\{[0-9a-f]*|x[2-7]?)?|%(?:25)*[2-7]?|&(?:amp;)*(?:#x?[0-9a-f]{0,8}|[a-z]{0,6}))\Z"
"""An escape that the end of a text may cut."""


def fold(text: str) -> str:
    """A text in small letters, of the same length: each character has its place."""
    return text.replace("İ", "i").lower().replace("ς", "σ")


def texts_of(value: str) -> frozenset[str]:
    """A value, and what is found by itself of it: the secrets within, and its longest parts."""
    parts = {part for part in re.split(_BETWEEN_PARTS, value) if len(part) >= MIN_SECRET_PART}
    plain = {value, *islice(secrets_within(value), MAX_SECRET_PARTS), *nlargest(MAX_SECRET_PARTS, parts, key=len)}
    if os.sep in value:
        normal = os.path.normpath(value)
        plain |= {normal, normal.lstrip("./")}  # a path that begins elsewhere ends so
    return frozenset(plain)


def forms_of(texts: frozenset[str]) -> frozenset[str]:
    """The spellings of texts."""
    return frozenset(form for text in texts for form in spellings(text))


def spellings(text: str) -> Iterator[str]:
    """A text in small letters as it is, and as it is written in JSON, Python, SQL, URLs, HTML, base64 and hex."""
    import json  # these are for pipelines that have variables, once something is to be told
    from html import escape
    from urllib.parse import quote, quote_plus

    data = text.encode("utf-8", "surrogateescape")
    found = {text, quote(data), quote(data, safe=""), quote_plus(data), data.hex()}
    found |= {text.replace("'", "''"), text.replace('"', '""'), repr(data)[2:-1]}
    found |= {escape(text), text.encode("ascii", "xmlcharrefreplace").decode()}
    once = {json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text), ascii(text)}
    escaped = {form[1:-1] for form in once}
    found |= escaped | {json.dumps(form)[1:-1] for form in escaped}  # as in a text that holds JSON
    for inner in {data, *(form.encode("utf-8", "surrogateescape") for form in escaped)}:
        found |= set(_base64(inner))
    folded = {fold(form) for form in found}
    yield from {form for each in folded for form in (each, plain_of(each)) if len(form) >= MIN_SECRET}


def _base64(data: bytes) -> Iterator[str]:
    """The characters that stand for the bytes in base64, wherever in a group of three they begin."""
    from base64 import b64encode

    for shift in range(3):
        bits = 8 * (shift + len(data))
        coded = b64encode(bytes(shift) + data).decode()[-(-8 * shift // 6) : bits // 6]
        yield coded
        yield coded.replace("+", "-").replace("/", "_")


def plain_of(text: str) -> str:
    """A text in small letters with characters in the place of their escapes."""
    for _ in range(LAYERS):
        before, text = text, _escape().sub(_character, text)
        if text == before:
            break
    return text


def _character(escape: re.Match[str]) -> str:
    return _meaning(escape[0])


@lru_cache(maxsize=4096)
def _meaning(written: str) -> str:
    """The character that an escape means."""
    escape = _escape().fullmatch(written)
    if escape is None or escape.lastindex is None:
        return ""
    code = escape[escape.lastindex]
    if escape["name"]:
        return _ENTITIES[code]
    return chr(int(code, 10 if escape["decimal"] else 16)).lower()


class _Places:
    """Where each character of `plain`, which is `plain_of(text)`, is written in the text.

    Of a text that `goes_on` it ends before the first escape that the end may cut, in whatever layer.
    """

    def __init__(self, text: str, *, goes_on: bool = False) -> None:
        self._layers: list[tuple[list[int], list[tuple[int, int, int]]]] = []
        for _ in range(LAYERS):
            text = _whole(text) if goes_on else text
            starts, escapes, shift = [0], [(0, 0, 0)], 0
            for escape in _escape().finditer(text):
                length = len(_character(escape))
                starts.append(escape.start() - shift)
                escapes.append((escape.start(), escape.end(), length))
                shift += escape.end() - escape.start() - length
            if len(starts) == 1:
                break
            self._layers.append((starts, escapes))
            text = _escape().sub(_character, text)
        self.plain = _whole(text) if goes_on else text

    def of(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the text of what stands there when it is plain."""
        for starts, escapes in reversed(self._layers):
            start, end = _place(starts, escapes, start)[0], _place(starts, escapes, end - 1)[1]
        return start, end


def _place(starts: list[int], escapes: list[tuple[int, int, int]], at: int) -> tuple[int, int]:
    """Start and end of one character in the layer before."""
    last = bisect_right(starts, at) - 1
    start, end, length = escapes[last]
    beyond = at - starts[last] - length
    return (start, end) if beyond < 0 else (end + beyond, end + beyond + 1)


def spans_in(text: str, forms: Sequence[Form], *, cut: bool) -> Iterator[Span]:
    """Where the forms stand in a folded text, in whatever spelling; with `cut` also where an ellipsis or the end cuts one."""
    yield from _written(text, forms, cut=cut)
    for begin, end in _windows(text, forms):
        window = text[begin:end]
        found = list(_written(plain_of(window), forms, cut=cut and end == len(text)))
        if found:
            places = _Places(window)
            for start, stop, name in found:
                start, stop = places.of(start, stop)
                yield begin + start, begin + stop, name


def stand_in(text: str, forms: Sequence[Form]) -> bool:
    """Whether one of the forms stands in a folded text, in whatever spelling."""
    for form, _ in forms:
        if form in text:
            return True
    for begin, end in _windows(text, forms):
        plain = plain_of(text[begin:end])
        if any(form in plain for form, _ in forms):
            return True
    return False


def _windows(text: str, forms: Sequence[Form]) -> Iterator[tuple[int, int]]:
    """The pieces of a text that have escapes, with what may belong to the same secret around them."""
    if "%" not in text and "&" not in text:
        slashes = text.count("\\")  # the next look takes time, and most backslashes are those before quotes and line ends
        if not slashes or slashes == text.count('\\"') + text.count("\\n"):
            return
    around = 2 * max((len(form) for form, _ in forms), default=0)
    begin = end = -1
    pattern = re.compile(_TELLING)
    escape = pattern.search(text)
    while escape is not None:
        if begin < 0 or escape.start() - around > end:
            if begin >= 0:
                yield begin, end
            begin = max(0, escape.start() - around)
        end = min(len(text), escape.end() + 2 * around)
        escape = pattern.search(text, escape.start() + max(1, around))  # those between have enough around them
    if begin >= 0:
        yield begin, end


def _written(text: str, forms: Sequence[Form], *, cut: bool) -> Iterator[Span]:
    for form, name in forms:
        start = text.find(form)
        while start >= 0:
            end = start + len(form)
            if len(form) >= MIN_SECRET_IN_WORD or _stands_alone(text, start, end):
                yield start, end, name
            start = text.find(form, start + 1)
    if not cut:
        return
    cuts, tail = [(match.start(), match.end()) for match in re.finditer(_ELLIPSIS, text)], text[-MIN_SECRET_IN_WORD:]
    for form, name in forms:  # after those that are whole: of equal places the first one counts
        if len(form) > MIN_SECRET_IN_WORD:
            if tail in form:
                yield from _cut_before(text, form, name, [len(text)])
            if cuts and form[:MIN_SECRET_IN_WORD] in text:
                yield from _cut_before(text, form, name, [start for start, _ in cuts])
            if cuts and form[-MIN_SECRET_IN_WORD:] in text:
                yield from _cut_behind(text, form, name, [end for _, end in cuts])


def _cut_before(text: str, form: str, name: str, ends: list[int]) -> Iterator[Span]:
    """The positions where the beginning of a value stands right before one of the cuts."""
    for end in ends:
        start = text.find(form[:MIN_SECRET_IN_WORD], max(0, end - len(form)), end)
        if start >= 0 and form.startswith(text[start:end]):
            yield start, end, name


def _cut_behind(text: str, form: str, name: str, starts: list[int]) -> Iterator[Span]:
    """The positions where the end of a value stands right behind one of the cuts."""
    for start in starts:
        found = text.rfind(form[-MIN_SECRET_IN_WORD:], start, start + len(form))
        if found >= 0 and form.endswith(text[start : found + MIN_SECRET_IN_WORD]):
            yield start, found + MIN_SECRET_IN_WORD, name


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (_in_word(text[start - 1 : start]) or _in_word(text[end : end + 1]))


def _in_word(character: str) -> bool:
    return character == "_" or character.isalnum()


class Beginnings:
    """The beginnings of forms, which may stand at the end of a text that goes on."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._heads: dict[str, list[str]] = {}
        self._short: set[str] = set()
        for form, _ in forms:
            if len(form) > MIN_SECRET_IN_WORD:
                self._heads.setdefault(form[:MIN_SECRET_IN_WORD], []).append(form)
            self._short.update(form[:length] for length in range(1, min(len(form), MIN_SECRET_IN_WORD + 1)))
        self._longest = max((len(form) for form, _ in forms), default=0)

    def begun_in(self, text: str) -> int:
        """Where at the end of a folded text a form may begin, in whatever spelling; the length of the text if none does."""
        begun = self._begun(text)
        if len(_whole(text)) < len(text) or re.search(_TELLING, text) is not None:
            places = _Places(text, goes_on=True)
            start = self._begun(places.plain)
            begun = min(begun, places.of(start, start + 1)[0])
        return begun

    def _begun(self, text: str) -> int:
        length = len(text)
        first = max(0, length - self._longest + 1)
        if length - first > len(self._heads):  # a search for each of them, or a look at each place
            found = {at for head in self._heads for at in _all(text, head, first)}
        else:
            size = MIN_SECRET_IN_WORD
            found = {at for at in range(first, length - size) if text[at : at + size] in self._heads}
        for at in sorted(found):
            rest = text[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._heads[rest[:MIN_SECRET_IN_WORD]]):
                return at
        for at in range(max(0, length - MIN_SECRET_IN_WORD), length):
            if text[at:] in self._short:
                return at
        return length


def _all(text: str, word: str, first: int) -> Iterator[int]:
    at = text.find(word, first)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _whole(text: str) -> str:
    """A text without the escape that its end may cut."""
    escape = re.search(_BEGUN, text[-_LONGEST_ESCAPE:])
    return text if escape is None else text[: escape.start() - min(len(text), _LONGEST_ESCAPE)]


_LONGEST_ESCAPE: Final = 64
"""Characters of the longest escape that may be cut: one of four layers has half of them."""
