"""`Redactor`: takes the values of variables out of texts that people and programs read; `ResultRedactor` does so in data."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rrext.errors import RrextError
from rrext.limits import (
    MANY_SPELLINGS,
    MAX_KEPT_CHARACTERS,
    MAX_KEPT_SECRETS,
    MIN_SECRET,
    MIN_SECRET_IN_WORD,
    MIN_SECRET_PART,
    QUICK_SEARCH,
)

_BETWEEN_PARTS: Final = re.compile(r"[/\\:@?&=#;,\r\n]+")
_ELLIPSIS: Final = re.compile(r"…|\.\.\.")
_SCHEME: Final = re.compile(r"(?i)(?:basic|bearer|bot|digest|key|negotiate|token)\s+(?=\S{8})")
"""The beginning of an authorization: its rest is a secret by itself."""
_NOT_YET: Final[frozenset[str]] = frozenset()

Span = tuple[int, int, str]
"""Start and end in a text, and the name of the variable whose value stands there."""


class Redactor:
    """Knows the values that were put in for variables, and replaces them by `${NAME}` wherever a text has them.

    A value is found as it is, in either case of its letters, escaped for JSON, Python, SQL and URLs, in base64 and hex,
    and where an ellipsis or the end of the text cuts it. Any thread may use it.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], frozenset[str]] = {}
        self._always: dict[tuple[str, str], frozenset[str]] = {}
        self._change = object()  # a new one whenever a value is learned
        self._places: tuple[object, dict[str, list[int]]] = (None, {})
        self._known_forms: tuple[object, tuple[tuple[str, str], ...]] = (self._change, ())

    def learn(self, name: str, value: str, *, always: bool = False) -> None:
        """Remember a value, for as long as the redactor lives if `always`; else clients that send many others replace it."""
        values = self._always if always else self._values
        if len(value) >= MIN_SECRET and (name, value) not in values:
            values[name, value] = _NOT_YET
            kept = list(self._values)
            size = sum(len(other) for _, other in kept)
            for position, oldest in enumerate(kept[:-1]):
                if len(kept) - position <= MAX_KEPT_SECRETS and size <= MAX_KEPT_CHARACTERS:
                    break
                self._values.pop(oldest, None)
                size -= len(oldest[1])
            self._change = object()

    @property
    def knows_any(self) -> bool:
        """Whether any value is known."""
        return bool(self._values or self._always)

    def text(self, text: str) -> str:
        """Replace each known value in a text by the name of its variable."""
        forms = self._known()
        if not forms or not text:
            return text
        folded = text.lower()
        if len(folded) != len(text):  # a few letters have two in the other case: places would not fit
            folded = text
        if len(forms) > MANY_SPELLINGS:
            forms = self._likely(folded, forms)
        found = sorted(self._spans(folded, forms), key=lambda span: (span[0], -span[1]))
        if not found:
            return text
        pieces: list[str] = []
        done = 0
        for start, end, name in found:
            if start >= done:
                pieces += (text[done:start], f"${{{name}}}")
            done = max(done, end)
        return "".join((*pieces, text[done:]))

    def value(self, value: Any) -> Any:
        """Replace known values in every text and key of a JSON value."""
        if not self._known():
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def error(self, error: RrextError) -> None:
        """Remove known values from an error before it is sent."""
        if not self._known():
            return
        error.message = self.text(error.message)
        error.args = (error.message,)
        error.hint = None if error.hint is None else self.text(error.hint)
        try:
            error.data = self.value(error.data)
        except RecursionError:  # such data cannot travel either
            error.data = {}

    def _known(self) -> tuple[tuple[str, str], ...]:
        """Every form of every value, with the name of the variable; the longest first."""
        change, forms = self._known_forms
        if change is not self._change:
            change = self._change  # read before the values: a value that comes meanwhile is a further change
            found = dict(self._all_forms())
            forms = tuple(sorted(found.items(), key=lambda item: -len(item[0])))
            self._known_forms = (change, forms)
        return forms

    def _all_forms(self) -> Iterator[tuple[str, str]]:
        for values in (self._values, self._always):
            for (name, value), forms in list(values.items()):
                if forms is _NOT_YET:
                    forms = frozenset(form.lower() for form in _forms(value))
                    if (name, value) in values:
                        values[name, value] = forms
                for form in forms:
                    yield form, name

    def _likely(self, text: str, forms: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Those of many forms whose first or last characters stand in a text: a search for each of them would take seconds."""
        known, places = self._places
        if known is not forms:
            places = {}
            for place, (form, _) in enumerate(forms):
                for end in (form[:MIN_SECRET], form[-MIN_SECRET:]):
                    places.setdefault(end, []).append(place)
            self._places = (forms, places)
        found: set[int] = set()
        for begin in range(0, len(text), QUICK_SEARCH):
            piece = text[begin : begin + QUICK_SEARCH + MIN_SECRET - 1]
            for end in places.keys() & {piece[at : at + MIN_SECRET] for at in range(len(piece) - MIN_SECRET + 1)}:
                found.update(places[end])
        return tuple(forms[place] for place in sorted(found))

    def _spans(self, text: str, forms: tuple[tuple[str, str], ...]) -> Iterator[Span]:
        for form, name in forms:
            start = text.find(form)
            while start >= 0:
                end = start + len(form)
                if len(form) >= MIN_SECRET_IN_WORD or _stands_alone(text, start, end):
                    yield start, end, name
                start = text.find(form, start + 1)
        cuts = [(match.start(), match.end()) for match in _ELLIPSIS.finditer(text)]
        for form, name in forms:  # after those that are whole: of equal places the first one counts
            if len(form) > MIN_SECRET_IN_WORD and form[:MIN_SECRET_IN_WORD] in text:
                yield from _cut_before(text, form, name, [*(start for start, _ in cuts), len(text)])
            if len(form) > MIN_SECRET_IN_WORD and form[-MIN_SECRET_IN_WORD:] in text:
                yield from _cut_behind(text, form, name, [end for _, end in cuts])

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._values) + len(self._always)} values>"


class ResultRedactor:
    """Knows the secrets of one server outside, and replaces them by `${NAME}` in the results that it sends.

    Results are data. So a secret is found as a whole, in each of the spellings that `Redactor` knows: not parts of it, and
    not where it is cut.
    """

    def __init__(self) -> None:
        self._secrets: dict[str, tuple[str, tuple[str, ...]]] = {}

    def learn(self, name: str, value: str, *, always: bool = True) -> None:
        """Remember a secret. Shorter ones than `MIN_SECRET_IN_WORD` are in data by chance."""
        if len(value) >= MIN_SECRET_IN_WORD and value not in self._secrets:
            forms = {form.lower() for text in _alone(value) for form in _spellings(text)}
            self._secrets[value] = (name, tuple(sorted(forms, key=len, reverse=True)))

    @property
    def knows_any(self) -> bool:
        """Whether any secret is known."""
        return bool(self._secrets)

    def value(self, value: Any, folded: str | None) -> Any:
        """Replace each secret in a JSON value, or in bytes, of which `folded` has all texts."""
        for name, forms in list(self._secrets.values()):
            if folded is None or any(form in folded for form in forms):
                secret = re.compile("|".join(map(re.escape, forms)), re.IGNORECASE)
                value = _replaced(value, secret, f"${{{name}}}")
        return value


def folded(value: Any) -> str | None:
    """All texts of a JSON value, or of bytes, in small letters; None if the value is no JSON, which another will tell."""
    try:
        data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return data.decode("utf-8", "surrogateescape").lower()


def _replaced(value: Any, secret: re.Pattern[str], name: str) -> Any:
    """A JSON value, or bytes, with a name in the place of a secret."""
    if isinstance(value, str):
        return secret.sub(lambda _: name, value)
    if isinstance(value, bytes):
        text = value.decode("utf-8", "surrogateescape")
        return secret.sub(lambda _: name, text).encode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {_replaced(key, secret, name): _replaced(item, secret, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, secret, name) for item in value]
    return value


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


def is_authorization(value: str) -> bool:
    """Whether a value has the form of an authorization: a scheme and credentials."""
    return _SCHEME.match(value) is not None


def _alone(value: str) -> set[str]:
    """A value, and what is a secret of it by itself: the credentials of an authorization, without their scheme."""
    scheme = _SCHEME.match(value)
    return {value} if scheme is None else {value, value[scheme.end() :]}


def _forms(value: str) -> set[str]:
    """The spellings of a value in a text, and of its parts."""
    plain = _alone(value) | {part for part in _BETWEEN_PARTS.split(value) if len(part) >= MIN_SECRET_PART}
    if os.sep in value:
        normal = os.path.normpath(value)
        plain |= {normal, normal.lstrip("./")}  # a path that begins elsewhere ends so
    return {form for text in plain for form in _spellings(text)}


def _spellings(text: str) -> set[str]:
    """A text as it is, and as it is written in JSON, Python, SQL, URLs, base64 and hex."""
    import json  # these are for pipelines that have variables, once something is to be told
    from urllib.parse import quote, quote_plus

    data = text.encode("utf-8", "surrogateescape")
    found = {text, quote(data), quote(data, safe=""), quote_plus(data), data.hex()}
    found |= {text.replace("'", "''"), text.replace('"', '""'), repr(data)[2:-1]}
    found |= set(_base64(data))
    once = {json.dumps(text), json.dumps(text, ensure_ascii=False), repr(text), ascii(text)}
    escaped = {form[1:-1] for form in once}
    found |= escaped | {json.dumps(form)[1:-1] for form in escaped}  # as in a text that holds JSON
    return {form for form in found if len(form) >= MIN_SECRET}


def _base64(data: bytes) -> Iterator[str]:
    """The characters that stand for the bytes in base64, wherever in a group of three they begin."""
    from base64 import b64encode

    for shift in range(3):
        bits = 8 * (shift + len(data))
        coded = b64encode(bytes(shift) + data).decode()[-(-8 * shift // 6) : bits // 6]
        yield coded
        yield coded.replace("+", "-").replace("/", "_")
