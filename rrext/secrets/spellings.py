"""How a secret is spelt in texts, and where one of these spellings stands in a text.

The spellings that programs write are known beforehand, as forms. In others each character may be escaped or not: there the
escapes of the text are replaced by their characters, also in more than one layer, before the forms are searched again.

Programs that escape a letter or a digit escape nearly all of them. So a text has a run of letters and digits of each form that
stands in it, or an escape of such a character. The search looks for these two, and reads only what is around them.
"""

from __future__ import annotations

import os.path
import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache, cached_property
from heapq import nlargest
from itertools import islice
from typing import Final

from rrext.limits import MANY_SPELLINGS, MAX_SECRET_PARTS, MIN_SECRET, MIN_SECRET_IN_WORD, MIN_SECRET_PART, QUICK_SEARCH
from rrext.secrets.names import secrets_within

Span = tuple[int, int, str]
"""Start and end in a text, and the name of the secret that stands there."""
Form = tuple[str, str]
"""A run of letters and digits, and the spelling in small letters that has it in each of its writings."""

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
_BEGIN: Final = 3
"""Characters of a word that choose it among very many: no run is shorter."""
_RUN: Final = f"[a-z0-9]{{{_BEGIN},64}}"
"""Letters and digits that a text likely has by intention: shorter ones are in all texts, longer ones are found no faster."""
_CODE: Final = "[2-7][0-9a-f]"
_PERCENT: Final = r"25}?(?=[2-7])"
_AMPERSAND: Final = r"26}?(?=[#%&\\]|amp|bsol|num|percnt)"
"""The codes of characters that begin an escape there."""
_TELLING_CODE: Final = rf"(?!3[a-f])(?:3\d|[46][1-9a-f]|[57][0-9a]|5c|{_PERCENT}|{_AMPERSAND})"
"""The code of a letter, of a digit, or of a character that begins an escape there."""
_NUMBER: Final = (
    r"x0*(?:2[356]|3\d|[46][1-9a-f]|[57][0-9ac])|0*(?:3[578]|4[89]|5[0-7]|6[5-9]|[78]\d|9[0-9]|1[01]\d|12[0-2])(?!\d)"
)
"""The same as a number of HTML."""
_TELLING: Final = {
    "\\": (rf"\\u(?:00|\{{0*){_TELLING_CODE}", rf"\\x{_TELLING_CODE}"),
    "%": (r"%[3-7](?:(?<=3)\d|(?<=[46])[1-9a-f]|(?<=[57])[0-9a]|(?<=5)c)", f"%{_PERCENT}", f"%{_AMPERSAND}"),
    "#": (rf"#(?!3[0-469])(?<=[&;\\]#)(?:{_NUMBER})",),
    ";": (r";[0-9ux](?<=(?:num|sol|cnt|emi|..\\);.)",),  # of a sign that a code follows; its own end may have a name, too
}
"""Character → the escapes with it that mean what `_TELLING_CODE` means. They begin with as many characters as can be, or
with a choice that most texts leave at once, so that the search for them is fast.
"""
_FEW: Final = 1000
"""Characters of a text for each sign that is looked at by itself: signs among binary numbers are rarer by chance."""
_BEGUN: Final = r"(?:\\+(?:u0{0,2}[2-7]?|u\{[0-9a-f]*|x[2-7]?)?|%(?:25)*[2-7]?|&(?:amp;)*(?:#x?[0-9a-f]{0,8}|[a-z]{0,6}))\Z"
"""An escape that the end of a text may cut."""
_LONGEST_ESCAPE: Final = 64
"""Characters of the longest escape that may be cut: one of four layers has half of them."""


@cache
def _escape() -> re.Pattern[str]:
    """A character of ASCII as JSON, Python, URLs and HTML may write it. A backslash before any other character means nothing,
    and a further layer of an escape (`\\\\u0077`, `%2577`, `&amp;#119;`) is a part of it.

    Each alternative begins with a character, so that the search for them is fast.
    """
    return re.compile(
        rf"(\\\\*(?:u00{_CODE}|u\{{0*{_CODE}\}}|x{_CODE})?|%(?:25)*{_CODE}"
        rf"|&(?:amp;)*(?:#x0*{_CODE};?|#0*(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])(?!\d);?|(?:{'|'.join(_ENTITIES)});))"
    )


@cache
def _telling(sign: str) -> tuple[re.Pattern[str], ...]:
    """The telling escapes with a character: all in one, which is fast at a place, and each, which are fast in a text."""
    return tuple(map(re.compile, ("|".join(_TELLING[sign]), *_TELLING[sign])))


def _telling_in(text: str, step: int) -> Iterator[int]:
    """Where telling escapes stand in a text; of those that are nearer to each other than the step, one is enough.

    Signs that are few in a long text are looked at one by one: to find a character takes a tenth of a search for an escape.
    """
    is_long = len(text) > _FEW
    for sign in _TELLING if "&" in text else "\\%":
        at, looked = text.find(sign), 0
        if at < 0:
            continue
        here, *each = _telling(sign)
        while is_long and at >= 0 and looked < 2 + at // _FEW:
            if here.match(text, at):
                yield at
            at, looked = text.find(sign, at + 1), looked + 1
        for pattern in (each if is_long else (here,)) if at >= 0 else ():
            escape = pattern.search(text, at)
            while escape is not None:
                yield escape.start()
                escape = pattern.search(text, escape.start() + step)


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


def forms_of(texts: frozenset[str]) -> frozenset[Form]:
    """The spellings of texts."""
    return frozenset(form for text in texts for form in spellings(text))


def spellings(text: str) -> Iterator[Form]:
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
    for written in set(map(fold, found)):
        plain = plain_of(written)
        steady = written if plain == written else _escape().sub(" ", written)
        run = max(re.findall(_RUN, steady), key=len, default="")
        yield from ((run, form) for form in {written, plain} if len(form) >= MIN_SECRET)


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
        pieces = _escape().split(text)
        if len(pieces) == 1:
            break
        pieces[1::2] = map(_MEANINGS.__getitem__, pieces[1::2])
        text = "".join(pieces)
    return text


class _Meanings(dict[str, str]):
    """Escape → the character that it means. The short ones are kept, since there are few of them."""

    def __missing__(self, escape: str) -> str:
        code = escape.rstrip(";}").rpartition("amp;")[2].lstrip("&")
        if not code.strip("\\"):
            character = ""
        elif code in _ENTITIES:
            character = _ENTITIES[code]
        else:
            character = chr(int(code.lstrip("#0")) if re.match(r"#\d", code) else int(code[-2:], 16)).lower()
        if len(escape) <= 8:
            self[escape] = character
        return character


_MEANINGS: Final = _Meanings()


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
                length = len(_MEANINGS[escape[0]])
                starts.append(escape.start() - shift)
                escapes.append((escape.start(), escape.end(), length))
                shift += escape.end() - escape.start() - length
            if len(starts) == 1:
                break
            self._layers.append((starts, escapes))
            text = _escape().sub(lambda escape: _MEANINGS[escape[0]], text)
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


class _Words:
    """Words, each with the forms that have it. Those that stand in a text are found soon."""

    def __init__(self, pairs: Iterable[Form]) -> None:
        self.forms: dict[str, list[str]] = {}
        for word, form in pairs:
            self.forms.setdefault(word, []).append(form)

    def within(self, text: str) -> list[str]:
        """The words that stand in a text."""
        if len(self.forms) <= MANY_SPELLINGS and len(self.forms) <= 2 * len(text) + 64:  # which is faster was measured
            return [word for word in self.forms if word in text]
        begun = {""}
        for begin in range(0, len(text), QUICK_SEARCH):
            piece = text[begin : begin + QUICK_SEARCH + _BEGIN - 1]
            begun |= self._begun.keys() & {piece[at : at + _BEGIN] for at in range(len(piece) - _BEGIN + 1)}
        return [word for start in begun for word in self._begun.get(start, ()) if word in text]

    @cached_property
    def _begun(self) -> dict[str, list[str]]:
        """The first characters of words → these words: a search for each of very many words would take seconds."""
        begun: dict[str, list[str]] = {}
        for word in self.forms:
            begun.setdefault(word[:_BEGIN], []).append(word)
        return begun


class Spellings:
    """The forms of known secrets, and the search for them in folded texts, in whatever spelling."""

    def __init__(self, names: Mapping[Form, str]) -> None:
        self._names = {form: name for (_, form), name in names.items()}
        self._runs = _Words(names)
        self._longest = max(map(len, self._names), default=0)
        self.shortest = min(map(len, self._names), default=0)
        """Characters of the shortest form: no text with fewer has a whole one, as escapes only lengthen it."""
        self._around = 8 * self._longest  # as much as other characters of a form may take, each in some layers

    def spans(self, text: str, *, cut: bool) -> list[Span]:
        """Where secrets stand in a text; with `cut` also where an ellipsis or the end cuts one."""
        runs = self._runs.within(text)
        found = [*self._written(text, runs, cut=cut)]
        for begin, end in self._windows(text, runs) if _has_signs(text) else ():
            window = text[begin:end]
            plain = plain_of(window)
            inner = [*self._written(plain, self._runs.within(plain), cut=cut and end == len(text))] if plain != window else []
            if inner:
                places = _Places(window)
                spans = ((places.of(start, stop), name) for start, stop, name in inner)
                found += [(begin + start, begin + stop, name) for (start, stop), name in spans]
        return found

    def stand_in(self, data: str) -> bool:
        """Whether a secret stands in bytes, of which each is a character here, in small letters."""
        runs = self._runs.within(data)
        if not (runs or "\\" in data or "%" in data or "&" in data):  # most results: as little as can be
            return False
        for begin, end in self._windows(data, runs):
            window = data[begin:end].encode("latin-1").decode("utf-8", "surrogateescape")
            if self.spans(fold(window), cut=False):
                return True
        return False

    def _windows(self, text: str, runs: Iterable[str]) -> list[tuple[int, int]]:
        """The pieces of a text around these runs and around telling escapes: what else belongs to the same secret is there."""
        step = max(1, self._around)  # what is nearer is in the same window
        places = [at for run in runs for at in _all(text, run, step=step)]
        if _has_signs(text):
            places += _telling_in(text, step)
        windows: list[tuple[int, int]] = []
        for place in sorted(places):
            begin, end = max(0, place - step), min(len(text), place + 2 * step)
            if windows and begin <= windows[-1][1]:
                begin, _ = windows.pop()
            windows.append((begin, end))
        return windows

    def _written(self, text: str, runs: Iterable[str], *, cut: bool) -> Iterator[Span]:
        for form in {form for run in runs for form in self._runs.forms[run]}:
            for start in _all(text, form):
                end = start + len(form)
                if len(form) >= MIN_SECRET_IN_WORD or _stands_alone(text, start, end):
                    yield start, end, self._names[form]
        if cut:  # after those that are whole: of equal places the first one counts
            yield from self._cut(text)

    def _cut(self, text: str) -> Iterator[Span]:
        """Where the beginning of a secret stands right before an ellipsis or the end, or its end right behind an ellipsis."""
        cuts = [*re.finditer(_ELLIPSIS, text)] if "…" in text or "..." in text else []
        ends = [cut.start() for cut in cuts]
        if len(self._names) > MANY_SPELLINGS or text[-MIN_SECRET_IN_WORD:] in self._inside:
            ends.append(len(text))
        for head in self._heads.within(text) if ends else ():
            for form in self._heads.forms[head]:
                for end in ends:
                    for start in _all(text, head, max(0, end - len(form)), end):
                        if form.startswith(text[start:end]):
                            yield start, end, self._names[form]
        for tail in self._tails.within(text) if cuts else ():
            for form in self._tails.forms[tail]:
                for start in [cut.end() for cut in cuts]:
                    for found in _all(text, tail, start, start + len(form)):
                        if form.endswith(text[start : found + len(tail)]):
                            yield start, found + len(tail), self._names[form]

    def begun_in(self, text: str) -> int:
        """Where at the end of a text a secret may begin, in whatever spelling; the length of the text if none does."""
        begun = self._begun(text)
        first = max(0, len(text) - 4 * self._around)  # 64 times a secret: escapes of escapes take 48
        text = text[first:]
        if _has_signs(text):
            places = _Places(text, goes_on=True)
            start = self._begun(places.plain)
            begun = min(begun, first + places.of(start, start + 1)[0])
        return begun

    def _begun(self, text: str) -> int:
        length = len(text)
        first = max(0, length - self._longest + 1)
        for at in sorted(at for head in self._heads.within(text[first:]) for at in _all(text, head, first)):
            rest = text[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._heads.forms[rest[:MIN_SECRET_IN_WORD]]):
                return at
        for at in range(max(0, length - MIN_SECRET_IN_WORD), length):
            if text[at:] in self._short:
                return at
        return length

    @cached_property
    def _heads(self) -> _Words:
        return _Words((form[:MIN_SECRET_IN_WORD], form) for form in self._names if len(form) > MIN_SECRET_IN_WORD)

    @cached_property
    def _tails(self) -> _Words:
        return _Words((form[-MIN_SECRET_IN_WORD:], form) for form in self._names if len(form) > MIN_SECRET_IN_WORD)

    @cached_property
    def _inside(self) -> Container[str]:
        """What is in forms, in pieces of the length of a head; of long ones in one text, which takes less memory."""
        joined = "\n".join(self._names)
        pieces = (joined[at : at + MIN_SECRET_IN_WORD] for at in range(len(joined)))
        return joined if len(joined) > QUICK_SEARCH else frozenset(pieces)

    @cached_property
    def _short(self) -> frozenset[str]:
        """Beginnings that are shorter than a head."""
        sizes = range(1, MIN_SECRET_IN_WORD + 1)
        return frozenset(form[:size] for form in self._names for size in sizes if size < len(form))


def _has_signs(text: str) -> bool:
    """Whether a text has characters that begin escapes."""
    return "\\" in text or "%" in text or "&" in text


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not (_in_word(text[start - 1 : start]) or _in_word(text[end : end + 1]))


def _in_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def _all(text: str, word: str, first: int = 0, end: int | None = None, *, step: int = 1) -> Iterator[int]:
    at = text.find(word, first, end)
    while at >= 0:
        yield at
        at = text.find(word, at + step, end)


def _whole(text: str) -> str:
    """A text without the escape that its end may cut."""
    escape = re.search(_BEGUN, text[-_LONGEST_ESCAPE:])
    return text if escape is None else text[: escape.start() - min(len(text), _LONGEST_ESCAPE)]
