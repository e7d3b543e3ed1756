"""`Redactor`: takes the values of variables out of texts that people and programs read; `ResultRedactor` does so in data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from rrext.errors import RrextError
from rrext.limits import MAX_KEPT_CHARACTERS, MAX_KEPT_SECRETS, MIN_SECRET, MIN_SECRET_IN_WORD
from rrext.secrets.names import secrets_within
from rrext.secrets.spellings import Form, Span, Spellings, fold, forms_of, spellings, texts_of

MAX_BEGUN: Final = 65_536
"""Characters at the end of a line that goes on in which a value may begin: longer values are found line by line."""


class _Secret:
    """A value that was learned: the texts that are looked for, and their spellings once something is to be told."""

    __slots__ = ("forms", "texts")

    def __init__(self, texts: frozenset[str]) -> None:
        self.texts = texts
        self.forms: frozenset[Form] | None = None


class Redactor:
    """Knows the values that were put in for variables, and replaces them by `${NAME}` wherever a text has them.

    A value is found as it is, in either case of its letters, in each spelling that `rrext.secrets.spellings` knows, and where
    an ellipsis or the end of the text cuts it. Any thread may use it.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], _Secret] = {}
        self._always: dict[tuple[str, str], _Secret] = {}
        self._learning = threading.Lock()
        self._texts = self._characters = 0  # of `_values`
        self._change = object()  # a new one whenever a value is learned
        self._spellings = (self._change, Spellings({}))

    def learn(self, name: str, value: str, *, always: bool = False) -> None:
        """Remember a value, for as long as the redactor lives if `always`; else clients that send many others replace it."""
        values = self._always if always else self._values
        value = value[:MAX_KEPT_CHARACTERS]
        if len(value) < MIN_SECRET:
            return
        with self._learning:
            if (name, value) in values:
                return
            secret = values[name, value] = _Secret(texts_of(value))
            if not always:
                self._texts += len(secret.texts)
                self._characters += len(value)
                while len(values) > 1 and (self._texts > MAX_KEPT_SECRETS or self._characters > MAX_KEPT_CHARACTERS):
                    oldest = next(iter(values))
                    self._texts -= len(values.pop(oldest).texts)
                    self._characters -= len(oldest[1])
            self._change = object()

    @property
    def knows_any(self) -> bool:
        """Whether any value is known."""
        return bool(self._values or self._always)

    def text(self, text: str) -> str:
        """Replace each known value in a text by the name of its variable."""
        if not text or not self.knows_any:
            return text
        return _replaced(text, self._known().spans(fold(text), cut=True))

    def begun(self, text: str) -> int:
        """Where in the last line of a text that goes on a value may begin: what is before can be told."""
        return self._begun(text, None)

    def piece(self, text: str) -> tuple[str, str]:
        """A text that goes on without known values, as far as it can be told, and the rest as it is."""
        if not text or not self.knows_any:
            return text, ""
        found = self._known().spans(fold(text), cut=True)
        begun = self._begun(text, found)
        return _replaced(text[:begun], [span for span in found if span[1] <= begun]), text[begun:]

    def _begun(self, text: str, found: list[Span] | None) -> int:
        begin = max(text.rfind("\n"), text.rfind("\r")) + 1
        if begin == len(text) or not self.knows_any:
            return len(text)
        begin = max(begin, len(text) - MAX_BEGUN)
        begun = begin + self._known().begun_in(fold(text[begin:]))
        if begun == len(text):
            return begun
        found = self._known().spans(fold(text), cut=True) if found is None else found
        return min((start for start, end, _ in found if start < begun < end), default=begun)  # nor is a whole value cut

    def value(self, value: Any) -> Any:
        """Replace known values in every text and key of a JSON value."""
        if not self.knows_any:
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
        if not self.knows_any:
            return
        error.message = self.text(error.message)
        error.args = (error.message,)
        error.hint = None if error.hint is None else self.text(error.hint)
        try:
            error.data = self.value(error.data)
        except RecursionError:  # such data cannot travel either
            error.data = {}

    def _known(self) -> Spellings:
        """Every form of every value."""
        change, spellings = self._spellings
        if change is not self._change:
            change = self._change  # read before the values: a value that comes meanwhile is a further change
            spellings = Spellings(dict(self._forms()))
            self._spellings = (change, spellings)
        return spellings

    def _forms(self) -> Iterator[tuple[Form, str]]:
        for values in (self._values, self._always):
            for (name, _), secret in list(values.items()):
                if secret.forms is None:
                    secret.forms = forms_of(secret.texts)
                for form in secret.forms:
                    yield form, name

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._values) + len(self._always)} values>"


class ResultRedactor:
    """Knows the secrets of one server outside, and replaces them by `${NAME}` in the results that it sends.

    Results are data. So a secret is found as a whole, in each of the spellings that `Redactor` knows: not parts of it, and
    not where it is cut.
    """

    def __init__(self) -> None:
        self._learned: set[str] = set()
        self._names: dict[Form, str] = {}
        self._spellings = Spellings({})

    def learn(self, name: str, value: str, *, always: bool = True) -> None:
        """Remember a secret. Shorter ones than `MIN_SECRET_IN_WORD` are in data by chance."""
        if len(value) >= MIN_SECRET_IN_WORD and value not in self._learned:
            plain = {value, *(each for each in secrets_within(value) if len(each) >= MIN_SECRET_IN_WORD)}
            forms = {form for text in plain for form in spellings(text)}
            self._learned.add(value)
            self._names = dict.fromkeys(forms, name) | self._names
            self._spellings = Spellings(self._names)

    @property
    def knows_any(self) -> bool:
        """Whether any secret is known."""
        return bool(self._names)

    def value(self, value: Any, folded: str | None) -> Any:
        """Replace each secret in a JSON value, or in bytes, of which `folded` has all texts."""
        spellings = self._spellings
        if folded is None or spellings.stand_in(folded):
            return _without(value, spellings)
        return value


@lru_cache(maxsize=16)
def authorization_redactor(authorization: str) -> ResultRedactor:
    """A redactor of the authorization of a caller. Callers send the same one with each call, and its spellings take longer
    than a search for them.
    """
    redactor = ResultRedactor()
    redactor.learn("authorization", authorization)
    return redactor


def folded(value: Any) -> str | None:
    """All texts of a JSON value, or bytes, in small letters: each byte is one character, which costs least.

    None if the value is no JSON, which another will tell.
    """
    try:
        try:
            data = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
        except OverflowError:  # only JSON has numbers beyond 64 bits
            data = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return data.lower().decode("latin-1")


def _without(value: Any, spellings: Spellings) -> Any:
    """A JSON value, or bytes, with names in the place of secrets."""
    if isinstance(value, str):
        return value if len(value) < spellings.shortest else _replaced(value, spellings.spans(fold(value), cut=False))
    if isinstance(value, bytes):
        return _without(value.decode("utf-8", "surrogateescape"), spellings).encode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {_without(key, spellings): _without(item, spellings) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without(item, spellings) for item in value]
    return value


def _replaced(text: str, found: list[Span]) -> str:
    """A text with names in the place of what was found."""
    if not found:
        return text
    pieces: list[str] = []
    done = 0
    for start, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
        if start >= done:
            pieces += (text[done:start], f"${{{name}}}")
        done = max(done, end)
    return "".join((*pieces, text[done:]))
