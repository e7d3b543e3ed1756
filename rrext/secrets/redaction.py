"""Redaction: `Redactor` takes the values of variables out of texts that people and programs read, `ResultRedactor` out of
data.

The second half finds the spellings of a secret in a text. Those that programs write are known beforehand, as forms. In
others each character may be escaped or not: there the escapes of the text are replaced by their characters, also in more
than one layer, before the forms are searched again.

Programs that escape a letter or a digit escape nearly all of them. So a text has a run of letters and digits of each form
that stands in it, or an escape of such a character. The search looks for these two, and reads only what is around them.
"""

from __future__ import annotations

import atexit
import os.path
import re
import sys
import threading
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from heapq import nlargest
from itertools import islice
from typing import Any, Final, TextIO

import msgspec

from rrext.errors import RrextError
from rrext.limits import (
    MANY_SPELLINGS,
    MAX_KEPT_CHARACTERS,
    MAX_KEPT_SECRETS,
    MAX_SECRET_PARTS,
    MIN_SECRET,
    MIN_SECRET_IN_WORD,
    MIN_SECRET_PART,
    QUICK_SEARCH,
)
from rrext.secrets.names import MOST_KEPT, secrets_within

MAX_BEGUN: Final = 65_536
"""Characters at the end of a line that goes on in which a value may begin: longer values are found line by line."""


MOST_CLEAN: Final = 1024
"""Short texts that are known to have no secret; a server has not many more names."""


class _Secret:
    """A value that was learned: the texts that are looked for, and their spellings once something is to be told."""

    __slots__ = ("forms", "texts")

    def __init__(self, texts: frozenset[str]) -> None:
        self.texts = texts
        self.forms: frozenset[Form] | None = None


class Redactor:
    """Knows the values that were put in for variables, and replaces them by `${NAME}` wherever a text has them.

    A value is found as it is, in either case of its letters, in each spelling that `rrext.secrets.redaction` knows, and where
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
        known = self._known()
        if text in known.clean:
            return text
        found = known.spans(fold(text), cut=True)
        if not found and len(text) <= MOST_KEPT and len(known.clean) < MOST_CLEAN:
            known.clean.add(text)
        return _replaced(text, found)

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


MAX_UNFINISHED: Final = 8192
"""Characters of a line that wait for its end: more than one write of a tool's line has; a longer one goes out in pieces."""


class RedactedStream:
    """A text stream that passes texts without secrets to another stream, wherever the texts are cut.

    An unfinished line of a thread waits for its end, for `flush` or `end`, so that lines of two threads do not mix. Its end
    waits on if it may be the beginning of a secret.
    """

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._rest = ""
        self._unfinished: dict[int, str] = {}
        """The unfinished lines, by thread."""
        self._lock = threading.RLock()  # a signal may print between two lines of ours

    def write(self, text: str, /) -> int:
        """Write a text; returns its length, as streams do."""
        with self._lock:
            thread = threading.get_ident()
            whole = self._unfinished.pop(thread, "") + text
            end = len(whole) if len(whole) > MAX_UNFINISHED else whole.rfind("\n") + 1
            if end < len(whole):
                self._unfinished[thread] = whole[end:]
            if end or not text:
                self._write_redacted(whole[:end])
        return len(text)

    def _write_redacted(self, text: str) -> None:
        told, self._rest = self._redactor.piece(self._rest + text)
        self._stream.write(told)

    def writelines(self, lines: Any, /) -> None:
        """Write texts, one by one."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the line of this thread, and the other stream. What may begin a secret waits on."""
        with self._lock:
            line = self._unfinished.pop(threading.get_ident(), "")
            if line:
                self._write_redacted(line)
        self._stream.flush()

    def end(self) -> None:
        """Write what waits."""
        with self._lock:
            rest, self._rest = "".join([self._rest, *self._unfinished.values()]), ""
            self._unfinished.clear()
            if rest:
                self._stream.write(self._redactor.text(rest))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_streams(redactor: Redactor) -> None:
    """Hide secrets in all output of this process, to its end."""
    for name in ("stdout", "stderr"):
        stream = RedactedStream(getattr(sys, name), redactor)
        setattr(sys, name, stream)
        atexit.register(stream.end)


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
        self.clean: set[str] = set()
        """Short texts in which none of them stands, as names of members, which come again and again."""
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
