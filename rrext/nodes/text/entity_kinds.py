"""Kinds of names and numbers that patterns find in texts: mail addresses, telephones, accounts, dates, amounts.

Patterns alone find what has a form. Names of people, organisations and places have none: these take a model.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from rrext.nodes.text.regular_expression import RegularExpression


class Entity(msgspec.Struct, frozen=True, order=True):
    """A place in a text, in characters from 0 on, and what stands there. `score` is 0 to 1; patterns are sure."""

    start: int
    end: int
    group: str
    score: float = 1.0


Length = Callable[[str], int]
"""How many characters of a hit are what they seem; 0: the hit is something else."""


class EntityKind(msgspec.Struct, frozen=True):
    """A kind. `label` names it as GLiNER's models do, `group` as models for named entities do.

    The hit is the first group of the pattern, or all of it. `is_private`: it is about one person or account. `stands_alone`: it
    is no part of a longer number, as those of books and orders.
    """

    label: str
    group: str
    pattern: str
    length: Length = len
    is_private: bool = True
    stands_alone: bool = False


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


TELEPHONE_DIGITS: Final = range(7, 16)
"""Digits of a telephone number: the longest is that of E.164, shorter ones are extensions."""
CARD_DIGITS: Final = range(12, 20)
"""Digits of the number of a card, by ISO/IEC 7812."""
ACCOUNT_LENGTH: Final = range(15, 35)
"""Characters of an IBAN, from Norway's to the longest that ISO 13616 allows."""
LETTER_A: Final = 10
"""The value of the letter A in the check of an IBAN."""
CHECKED: Final = (97, 1)
"""An IBAN as a number, divided by the first, leaves the second."""
LEAST_GROUPS: Final = 2
"""Groups of digits in an internet address; those with fewer mean no machine of anybody."""
MONTHS: Final = 12
"""The largest number of a month."""
DAYS: Final = 31
"""The largest number of a day."""
DOUBLED: Final = 9
"""The largest digit: a doubled one above it loses as much, in the check of Luhn."""


def _telephone(text: str) -> int:
    is_date = re.fullmatch(r"\d{1,4}[-/. ]\d{1,2}[-/. ]\d{1,4}", text) is not None
    return len(text) if len(_digits(text)) in TELEPHONE_DIGITS and not is_date else 0


def _card(text: str) -> int:
    digits = _digits(text)
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (1 + place % 2)
        total += value - DOUBLED if value > DOUBLED else value
    return len(text) if len(digits) in CARD_DIGITS and total % 10 == 0 and set(digits) != {"0"} else 0


def _account(text: str) -> int:
    """The IBAN at the beginning: words in capitals may follow it."""
    end = len(text)
    while end > 0:
        bare = text[:end].replace(" ", "")
        if len(bare) in ACCOUNT_LENGTH:
            number = "".join(char if char.isdigit() else str(ord(char) - ord("A") + LETTER_A) for char in bare[4:] + bare[:4])
            if int(number) % CHECKED[0] == CHECKED[1]:
                return end
        end = text.rfind(" ", 0, end)
    return 0


def _security_number(text: str) -> int:
    return 0 if text.startswith(("000", "666", "9")) else len(text)


def _internet_address(text: str) -> int:
    if not _digits(text) or sum(map(bool, text.replace(":", ".").split("."))) < LEAST_GROUPS:
        return 0  # as `a::b` in a program
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return 0
    return len(text)


def _day(text: str) -> int:
    """A date with a number in it; of numbers alone, one with a day and a month between the same signs."""
    numbers = re.fullmatch(r"(\d{1,2})([./-])(\d{1,2})([./-])\d{2,4}", text)
    if numbers is None:
        return _with_digit(text)
    first, second = int(numbers[1]), int(numbers[3])
    is_day = 0 < min(first, second) <= MONTHS and max(first, second) <= DAYS and numbers[2] == numbers[4]
    return len(text) if is_day else 0


def _with_digit(text: str) -> int:
    return len(text) if _digits(text) else 0


_LETTER: Final = r"A-Za-z\x{C0}-\x{24F}\x{370}-\x{1FFF}\x{3040}-\x{D7FF}"
"""Letters of most scripts, as ranges: `\\pL` makes a program that is a hundred times as large."""
_CAPITAL: Final = r"A-Z\x{C0}-\x{DE}"
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember)"
)
_DATE: Final = (
    r"\d{4}-\d{2}-\d{2}|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})"
    rf"|(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?{_MONTH}\.?(?: \d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,? \d{{4}})?"
)
_CURRENCY: Final = r"USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_STREET: Final = r"Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Place|Pl|Square|Sq"

KINDS: Final = (
    EntityKind("email", "EMAIL", rf"[{_LETTER}\d._%+-]+@(?:[{_LETTER}\d-]+\.)+[{_LETTER}]{{2,}}"),
    EntityKind("credit card number", "CREDIT_CARD", r"\b\d(?:[ -]?\d){11,18}\b", _card),
    EntityKind("bank account", "IBAN", r"\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){2,7}(?: ?[A-Z\d]{1,4})?\b", _account),
    EntityKind("social security number", "SSN", r"\b\d{3}-\d{2}-\d{4}\b", _security_number),
    EntityKind("mac address", "MAC", r"\b[\da-fA-F]{2}(?:[:-][\da-fA-F]{2}){5}\b"),
    EntityKind(
        "ip address",
        "IP",
        rf"\b{_OCTET}(?:\.{_OCTET}){{3}}\b|[\da-fA-F]{{0,4}}(?::[\da-fA-F]{{0,4}}){{2,7}}",
        _internet_address,
    ),
    EntityKind(
        "phone number",
        "PHONE",
        r"\+\d[\d ().-]{5,20}\d\b|\(?\b\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b|\b0\d{1,5}[ /-]{1,3}\d[\d -]{4,12}\d\b",
        _telephone,
    ),
    EntityKind(
        "date of birth",
        "BIRTH_DATE",
        rf"(?i)\b(?:born|date of birth|birth ?date|birthday|dob|geboren|geb\.)(?: on| am)?\W{{1,3}}({_DATE})",
        _with_digit,
    ),
    EntityKind("passport number", "PASSPORT", r"(?i)\bpassport(?: (?:no|nr|number))?\W{1,3}([A-Z\d]{6,9})\b", _with_digit),
    EntityKind(
        "driver license",
        "DRIVER_LICENSE",
        r"(?i)\bdriver'?s? licen[cs]e(?: (?:no|nr|number))?\W{1,3}([A-Z\d-]{5,20})\b",
        _with_digit,
    ),
    EntityKind(
        "address",
        "ADDRESS",
        rf"\b\d{{1,5}}[a-zA-Z]? (?:[{_CAPITAL}][{_LETTER}.'-]* ){{1,4}}(?:{_STREET})\b"
        rf"|[{_CAPITAL}][{_LETTER}-]*(?:stra(?:ß|ss)e|str\.|allee|gasse|weg|platz) \d{{1,4}}[a-z]?\b",
    ),
    EntityKind(
        "secret",
        "SECRET",
        r"\b(?:AKIA[A-Z\d]{16}|gh[pousr]_\w{36,}|github_pat_\w{40,}|glpat-[\w-]{20,}|xox[abprs]-[\w-]{10,}|sk-[\w-]{20,}"
        r"|AIza[\w-]{35}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[A-Za-z\d+/=\s]*-----END [A-Z ]*PRIVATE KEY-----)?",
    ),
    EntityKind("secret", "SECRET", r"\b[a-z][a-z\d+.-]{1,20}://[^\s/:@]*:([^\s/@]+)@"),
    EntityKind("date", "DATE", rf"\b(?:{_DATE})\b", _day, is_private=False, stands_alone=True),
    EntityKind("time", "TIME", r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\b(?: ?[AaPp]\.?[Mm]\b)?", is_private=False),
    EntityKind(
        "money",
        "MONEY",
        rf"(?:[$€£¥]|\b(?:{_CURRENCY})) ?\d[\d.,]*(?: (?:thousand|million|billion)\b)?"
        rf"|\b\d[\d.,]*(?: (?:thousand|million|billion))? ?(?:[$€£¥]|(?:{_CURRENCY}|dollars?|euros?|pounds?)\b)",
        is_private=False,
    ),
    EntityKind("percent", "PERCENT", r"\b\d+(?:[.,]\d+)? ?(?:%|percent\b)", is_private=False),
    EntityKind("url", "URL", r"\bhttps?://[^\s<>\"']+[^\s<>\"'.,;:!?)\]]", is_private=False),
)
"""All kinds. Where hits of two overlap, the kind that stands first counts."""


class PatternRecognizer:
    """Finds kinds in texts. From any thread."""

    def __init__(self, kinds: Iterable[EntityKind]) -> None:
        """Compile the patterns. Raises `ImportError`, and `ValueError` for a pattern that is none."""
        self._kinds = [(kind, RegularExpression(kind.pattern, is_measured=kind in KINDS)) for kind in kinds]

    def find(self, text: str, check: Callable[[], object]) -> list[Entity]:
        """The entities of a text by their places; none overlaps another. Raises what `check` raises."""
        data = text.encode("utf-8", "replace")  # as many characters as before
        found: list[tuple[int, int, str]] = []
        for kind, pattern in self._kinds:
            found = without_overlaps(found, _hits_of(kind, pattern, data, check))
        return _in_characters(data, found)


JOINTS: Final = (b"-", b"/")
"""Signs that join numbers to a longer one."""

Place = tuple[int, int, str]
"""Where something begins and ends, and what it is."""


def _hits_of(kind: EntityKind, pattern: RegularExpression, data: bytes, check: Callable[[], object]) -> Iterator[Place]:
    """The hits of a kind, in bytes."""
    for hit in pattern.hits(data, check):
        start, end = hit.span(1 if pattern.groups else 0)
        said = data[start:end].decode()
        length = kind.length(said) if said else 0
        if kind.stands_alone and (data[start - 1 : start] in JOINTS or data[end : end + 1] in JOINTS):
            continue
        if length:
            yield start, start + len(said[:length].encode()), kind.group


def without_overlaps(first: Sequence[Place], more: Iterable[Place]) -> list[Place]:
    """Two lists in the order of their places as one; of the second, what overlaps something in the first is left out."""
    found: list[Place] = []
    at = 0
    for start, end, group in more:
        while at < len(first) and first[at][1] <= start:
            found.append(first[at])
            at += 1
        if at == len(first) or first[at][0] >= end:
            found.append((start, end, group))
    return [*found, *first[at:]]


def _in_characters(data: bytes, found: Sequence[Place]) -> list[Entity]:
    entities: list[Entity] = []
    place = last = 0
    for start, end, group in found:
        place += len(data[last:start].decode())
        size = len(data[start:end].decode())
        entities.append(Entity(place, place + size, group))
        place, last = place + size, end
    return entities
