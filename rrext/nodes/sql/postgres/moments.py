"""Dates, times and intervals as PostgreSQL writes them, in ISO 8601, and dates of ISO 8601 as PostgreSQL reads them.

How the server writes them is a setting of the session (DateStyle, IntervalStyle). It is the caller's: `interval::text` and
`to_json` follow it too, so it is never changed; each of the forms is read here.

Years before 1 and after 9999 have a sign in ISO 8601, which counts a year 0: `-0043-03-15` is in 44 BC. PostgreSQL reads no
such years. The texts of `infinity`, which ISO 8601 does not have, stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Final

from rrext.nodes.databases.cells import iso_year

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME: Final = r"(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?"
_NUMBERS: Final = r"(?P<first>\d+)(?P<sign>[-/.])(?P<second>\d\d)(?P=sign)(?P<third>\d+)"
_ZONE: Final = r"(?: ?(?P<zone>[-+][\d:]+|(?!BC\b)[A-Za-z]\w*))?"
_PLAIN: Final = re.compile(rf"{_NUMBERS}(?: {_TIME}{_ZONE})?(?P<bc> BC)?")
_WORDY: Final = re.compile(
    rf"[A-Z][a-z]{{2}} (?:(?P<month>[A-Z][a-z]{{2}}) (?P<day>\d\d)|(?P<day_first>\d\d) (?P<month_last>[A-Z][a-z]{{2}})) "
    rf"{_TIME} (?P<year>\d+){_ZONE}(?P<bc> BC)?"
)
"""`Fri Jan 02 10:00:00 2026 CET`, of the style "Postgres"."""
_OFFSET: Final = re.compile(r"[-+]\d\d\Z")

_SPAN: Final = re.compile(
    r"(?P<verbose>@ )?(?:(?P<years>[-+]?\d+) years? ?)?(?:(?P<months>[-+]?\d+) mons? ?)?(?:(?P<days>[-+]?\d+) days? ?)?"
    r"(?:(?P<hours>[-+]?\d+) hours? ?)?(?:(?P<minutes>[-+]?\d+) mins? ?)?(?:(?P<seconds>[-+]?\d+(?:\.\d+)?) secs? ?)?"
    r"(?:(?P<sign>[-+]?)(?P<clock>\d+:\d\d:\d\d(?:\.\d+)?))?(?P<ago>ago)?"
)
"""The styles "postgres" and "postgres_verbose"."""
_SQL_SPAN: Final = re.compile(
    r"(?:(?P<of_months>[-+]?)(?P<years>\d+)-(?P<months>\d+) ?)?(?:(?P<of_days>[-+]?)(?P<days>\d+) (?=[-+\d]))?"
    r"(?:(?P<sign>[-+]?)(?P<clock>\d+:\d\d:\d\d(?:\.\d+)?))?"
)
"""The style "sql_standard"."""

SIGNED: Final = re.compile(r"(0000|[-+]\d{4,})(-\d\d-\d\d)(?:[T ](.+))?", re.DOTALL)


def iso_moment(style: str, zone: Callable[[], tzinfo]) -> Callable[[str], str]:
    """The function that makes ISO 8601 of a date or a timestamp. `style` is the session's DateStyle; `zone` gives its time
    zone, which says what an abbreviation in the text means."""
    order = _order(style)

    def convert(text: str) -> str:
        if len(text) == 10 and text[4] == "-":
            return text
        if len(text) == 19 and text[4] == "-":
            return f"{text[:10]}T{text[11:]}"
        if len(text) == 22 and text[4] == "-" and text[19] in "+-":
            return f"{text[:10]}T{text[11:]}:00"
        if (found := _PLAIN.fullmatch(text)) is not None:
            numbers = found.group("first", "second", "third")
            year, month, day = numbers if found["sign"] == "-" and len(numbers[0]) > 2 else [numbers[place] for place in order]
        elif (found := _WORDY.fullmatch(text)) is not None:
            month = f"{_MONTHS.index(found['month'] or found['month_last']) + 1:02}"
            year, day = found["year"], found["day"] or found["day_first"]
        else:
            return text
        year = iso_year(int(year), is_bc=found["bc"] is not None)
        date = f"{year}-{month}-{day}"
        if found["time"] is None:
            return date
        time = f"{found['time']}.{found['fraction']:0<6}" if found["fraction"] else found["time"]
        offset = found["zone"] or ""
        if offset[:1].isalpha():
            known = _offset(int(year), f"-{month}-{day}T{time}", offset, zone())
            if known is None:
                return text
            offset = known
        return f"{date}T{time}{offset}:00" if _OFFSET.match(offset) else f"{date}T{time}{offset}"

    return convert


def _order(style: str) -> Sequence[int]:
    """The places of year, month and day in a date of numbers that does not begin with the year."""
    return (2, 1, 0) if style.startswith("German") or style.endswith("DMY") else (2, 0, 1)


def _offset(year: int, rest: str, abbreviation: str, zone: tzinfo) -> str | None:
    """The offset that an abbreviation means at that time of the zone; None if Python does not know it."""
    if not 0 < year <= 9999:  # beyond Python's years; every 400 have the same calendar, and the rules of the first or the last
        year = year % 400 + 9600 if year > 0 else year % 400 or 400
    local = datetime.fromisoformat(f"{year:04}{rest}")
    for fold in (0, 1):
        at = local.replace(tzinfo=zone, fold=fold)
        if at.tzname() == abbreviation:
            return at.isoformat()[4 + len(rest) :]
    return None


def iso_time(text: str) -> str:
    """ISO 8601 of a time, with microseconds as Python writes them."""
    return text if len(text) == 8 or "." not in text else f"{text:0<15}"


def iso_interval(text: str) -> str:
    """ISO 8601 of an interval in any of the four styles, exactly as the style "iso_8601" writes it."""
    if text.startswith(("P", "inf", "-inf")):
        return text
    if (found := _SPAN.fullmatch(text)) is not None:
        turn = -1 if found["ago"] else 1
        date = [turn * int(found[unit] or 0) for unit in ("years", "months", "days")]
        parts = [found[unit] or "0" for unit in ("hours", "minutes", "seconds")] if found["clock"] is None else _clock(found)
        time = [_turned(part) for part in parts] if turn < 0 else parts
    elif (found := _SQL_SPAN.fullmatch(text)) is not None:
        of_months, of_days, sign = (found[name] or "" for name in ("of_months", "of_days", "sign"))
        date = [int(f"{of_months}{found['years'] or 0}"), int(f"{of_months}{found['months'] or 0}"), 0]
        date[2] = int(f"{of_days}{found['days'] or 0}")
        time = _clock(found, sign or of_days)
    else:
        return "PT0S" if text in ("0", "@ 0") else text
    days = "".join(f"{number}{unit}" for number, unit in zip(date, "YMD", strict=True) if number)
    clock = "".join(f"{number}{unit}" for part, unit in zip(time, "HMS", strict=True) if (number := _bare(part)) != "0")
    return f"P{days}{'T' if clock else ''}{clock}" if days or clock else "PT0S"


def _clock(found: re.Match[str], sign: str | None = None) -> list[str]:
    """Hours, minutes and seconds of `-04:05:06.7`, each with the sign of all."""
    sign = found["sign"] if sign is None else sign
    return [f"{sign}{part}" for part in (found["clock"] or "0:0:0").split(":")]


def _turned(number: str) -> str:
    return number[1:] if number.startswith("-") else f"-{number.removeprefix('+')}"


def _bare(number: str) -> str:
    """The number without `+`, zeros before it, and zeros at the end of its fraction."""
    sign = "-" if number.startswith("-") else ""
    whole, _, fraction = number.lstrip("+-").partition(".")
    digits = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{sign}{digits}.{fraction}" if fraction else "0" if digits == "0" else f"{sign}{digits}"


def readable(text: str) -> str:
    """A date or timestamp of ISO 8601 with a sign before its year, or in year 0, as PostgreSQL reads it; else the text."""
    found = SIGNED.fullmatch(text)
    if found is None:
        return text
    year = int(found[1])
    said, bc = (f"{year:04}", "") if year > 0 else (f"{1 - year:04}", " BC")
    return f"{said}{found[2]}{' ' + found[3] if found[3] else ''}{bc}"
