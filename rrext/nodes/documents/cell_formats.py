"""The formats of numbers in a workbook: which of them are dates, times, durations and amounts, and the text of each.

The codes are those of ISO/IEC 29500-1, 18.8.30 and 18.8.31: `yyyy-mm-dd`, `[h]:mm`, `0.0%`, `#,##0.00 "€"`.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import isfinite
from typing import Final, Literal, TypeAlias

import msgspec

DAY_MS: Final = 86_400_000
"""Milliseconds of a day, to which Excel rounds times."""
LAST_DAY: Final = 2_958_466
"""How many days a workbook counts: up to the end of the year 9999."""
YEAR_DAYS: Final = 366
"""How many days a number in a format for times may have as a duration; larger ones are moments, whose date is not shown."""
SURE_DIGITS: Final = 15
"""How many digits a double keeps always; files have up to 17, the last of which may tell its rounding."""
WHOLE_DIGITS: Final = 24
"""How many digits of a whole number are written out: those of all identifiers and amounts."""
LONGEST_NUMBER: Final = 28
"""Characters of a number that is understood; programs write up to 24."""
LONGEST_FORMAT: Final = 255
"""Characters of the format of a cell; Excel takes no more."""
FORMATS_KEPT: Final = 1024
"""How many formats are kept for all workbooks; one has a few dozen."""
TEXTS_KEPT: Final = 4096
"""How many texts of numbers are kept: dates and amounts come again in a sheet."""


Kind: TypeAlias = Literal["number", "date", "moment", "time", "duration"]

_KNOWN: Final = {
    **dict.fromkeys((9, 10), "0%"),
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), *range(34, 37), *range(50, 59)), "d"),
    **dict.fromkeys((18, 19, 20, 21, 32, 33, 45, 47), "h"),
    22: "d h",
    46: "[h]",
}
"""Formats that a file names by number alone. What the numbers from 27 on mean depends on the language; the value decides."""
_PARTS: Final = re.compile(
    r'"(?P<text>[^"]*)"?'
    r"|\\(?P<escaped>.)"
    r"|[_*](?:.|$)"  # the width of a character, and one that fills the cell
    r"|\[(?P<elapsed>h+|m+|s+)\]"
    r"|\[\$(?P<currency>[^\]-]*)[^\]]*\]"
    r"|\[[^\]]*\]"  # a colour, a condition, a language
    r"|(?P<general>General)"
    r"|[ap]m?/[ap]m?"
    r"|(?P<exponent>e[+-])"
    r"|(?P<calendar>[ymdhsgeb])"
    r"|(?P<digits>[0#?.,]+)"
    r"|(?P<percent>%)"
    r"|(?P<end>;)"
    r"|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_SIGNS: Final = "$€£¥₩₹₽₺₴₪฿ "
_PLAIN: Final = re.compile(r"(?!-0$)-?(?=.{1,15}$)(?:0|[1-9][0-9]*+)(?:\.[0-9]*[1-9])?")
"""Numbers that stay as they are; most are such."""
_PADDED: Final = re.compile("0{2,}")


class CellFormat(msgspec.Struct, frozen=True):
    """What a number in a cell is, and what stands around it; zeros fill a whole number up to `width` digits."""

    kind: Kind = "number"
    before: str = ""
    after: str = ""
    is_percent: bool = False
    width: int = 0


GENERAL: Final = CellFormat()


@lru_cache(FORMATS_KEPT)
def format_of(code: str | None, number: int = 0) -> CellFormat:
    """The format of a code, or of a number that means one without a code. The format of positive numbers counts."""
    parts: list[tuple[str, str]] = []
    for found in _PARTS.finditer((_KNOWN.get(number, "") if code is None else code)[:LONGEST_FORMAT]):
        kind = found.lastgroup or ""
        if kind == "end":
            break
        parts.append((kind, found[kind] if kind else ""))
    kinds = {kind for kind, _ in parts}
    if "elapsed" in kinds:
        return CellFormat("duration")
    letters = {text.lower() for kind, text in parts if kind == "calendar"}
    if letters and "general" not in kinds:
        has_time = bool(letters & {"h", "s"})
        has_date = bool(letters - {"h", "s", "m"}) or not has_time
        return CellFormat("moment" if has_date and has_time else "date" if has_date else "time")
    return _amount_format(parts)


def _amount_format(parts: list[tuple[str, str]]) -> CellFormat:
    """The format of a number: what stands around its digits, unless it stands for digits of the number itself."""
    around = ["", ""]
    digits = [text for kind, text in parts if kind == "digits"]
    is_behind = False
    for kind, text in parts:
        is_behind = is_behind or kind == "digits"
        if kind in ("text", "escaped", "currency") or (kind == "other" and text in _SIGNS):
            around[is_behind] += text
    percent = any(kind == "percent" for kind, _ in parts)
    is_plain = len(digits) == 1 and not digits[0].endswith(",") and not any(kind == "exponent" for kind, _ in parts)
    if not is_plain:  # a fraction, a scale of thousands, digits in groups
        return CellFormat(is_percent=percent)
    width = len(digits[0]) if _PADDED.fullmatch(digits[0]) and not percent else 0
    return CellFormat("number", around[0].lstrip(), around[1].rstrip(), percent, width)


@lru_cache(TEXTS_KEPT)
def shown(raw: str, style: CellFormat, *, is_1904: bool = False) -> str:
    """The text of a number as it stands in a file: an ISO date or time, hours, minutes and seconds, or its digits."""
    if style == GENERAL and _PLAIN.fullmatch(raw) is not None:
        return raw
    try:
        value = Decimal(raw) if len(raw) <= LONGEST_NUMBER else None
    except InvalidOperation:
        value = None
    if value is None or not (value.is_finite() and isfinite(float(value))):
        return raw
    if style.kind == "number" or abs(value) >= LAST_DAY:
        return _amount(value, style)
    whole = round(value * DAY_MS)
    days, rest = divmod(whole, DAY_MS)
    if style.kind == "duration" or (style.kind == "time" and (days < 0 or 1 <= days < YEAR_DAYS)):
        return _clock(whole)
    if not days and (style.kind == "time" or (rest and not is_1904)):
        return f"{_clock(rest):0>8}"
    day = _day(days, is_1904=is_1904)
    if day is None:
        return _amount(value, GENERAL)
    return day if style.kind == "date" and not rest else f"{day}T{_clock(rest):0>8}"


def _clock(milliseconds: int) -> str:
    """Hours of any number, minutes and seconds."""
    seconds, rest = divmod(abs(milliseconds), 1000)
    text = f"{'-' if milliseconds < 0 else ''}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:03}" if rest else text


def _day(days: int, *, is_1904: bool) -> str | None:
    """The date of a number of days; None if it is before or behind all dates of a workbook."""
    if is_1904:
        begin = date(1904, 1, 1)
    elif days == 60:
        return "1900-02-29"  # there was none, but each workbook counts it
    else:
        begin = date(1899, 12, 31 if days < 60 else 30)
        if days < 1:
            return None
    try:
        return (begin + timedelta(days)).isoformat()
    except OverflowError:
        return None


def _amount(value: Decimal, style: CellFormat) -> str:
    """The digits of a number, with what its format puts around them."""
    exact = _without_noise(value)
    text = _digits(abs(exact.scaleb(2) if style.is_percent else exact))
    if text.isdecimal():
        text = text.zfill(style.width)
    return f"{'-' if exact < 0 else ''}{style.before}{text}{'%' * style.is_percent}{style.after}"


def _without_noise(value: Decimal) -> Decimal:
    """The number without the digits that only tell how a double rounds it: files have 0.10000000000000001 for 0.1."""
    if value == value.to_integral_value() or _length(value) <= SURE_DIGITS:
        return value
    short = Decimal(repr(float(value)))
    return short if _length(short) <= SURE_DIGITS else value


def _length(value: Decimal) -> int:
    return len("".join(map(str, value.as_tuple().digits)).rstrip("0"))


def _digits(value: Decimal) -> str:
    """All digits of a positive number; very large and small ones with an exponent."""
    if value and not -SURE_DIGITS <= value.adjusted() < WHOLE_DIGITS:
        return repr(float(value))
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
