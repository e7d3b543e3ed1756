"""The sheets of an Excel workbook (.xlsx, .xlsm) as Markdown tables, each cell as the value that the file holds.

kreuzberg, which reads other formats, shows a time as a moment of 1899, 30 hours as one of 1900, and rounds numbers of 17
digits; and what is hidden, and a formula that was never calculated, cannot be told from the rest in its answers.

The format is SpreadsheetML of ISO/IEC 29500-1. Elements are compared without namespaces, since its strict form has others.
The code of a number's format (18.8.30 and 18.8.31: `yyyy-mm-dd`, `[h]:mm`, `0.0%`, `#,##0.00 "€"`) says whether it is a date,
a time, a duration or an amount, and how its text looks.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from io import BytesIO
from math import isfinite
from posixpath import dirname, join, normpath
from typing import Any, Final, Literal, TypeAlias
from xml.etree import ElementTree

import msgspec

from rrext.nodes.documents.formats import COLUMNS, ROWS, table_of
from rrext.nodes.documents.records import DocumentPiece, corrupt, too_large

_WORKBOOK: Final = "xl/workbook.xml"
_LETTERS: Final = re.compile("[A-Z]{1,3}")
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
_FACTS: Final = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "created": "created",
    "modified": "modified_at",
    "language": "language",
}
"""Element of a file's core properties -> the name that `facts_of` knows."""

_TRUE: Final = ("1", "true")


class _Sheet(msgspec.Struct):
    """A sheet: its name, the part of the archive with its cells, and whether people do not see it."""

    name: str
    part: str
    is_hidden: bool


class _Rows(msgspec.Struct):
    """The cells of a sheet that are not empty, with their columns, row by row, and the rows and columns that are hidden."""

    rows: list[tuple[int, dict[int, str]]] = []
    hidden_rows: set[int] = set()
    hidden_columns: list[tuple[int, int]] = []
    uncalculated: int = 0

    def hides(self, column: int) -> bool:
        """Whether a column is hidden."""
        return any(first <= column <= last for first, last in self.hidden_columns)


def read_workbook(data: bytes, max_characters: int) -> tuple[list[DocumentPiece], dict[str, Any]]:
    """The sheets with cells, each a heading and a table, and the metadata for `facts_of`. Raises `ToolError`.

    What people do not see is marked: sheets in their heading, columns in their first cell, rows in a column of their own.
    """
    with zipfile.ZipFile(BytesIO(data)) as archive:
        try:
            return _read(archive, max_characters)
        except ElementTree.ParseError as error:
            raise corrupt(f"One of its parts is damaged: {error}") from None
        except (KeyError, IndexError, ValueError) as error:
            raise corrupt(f"It is no workbook that can be read: {error}") from None


def _read(archive: zipfile.ZipFile, max_characters: int) -> tuple[list[DocumentPiece], dict[str, Any]]:
    sheets, is_1904 = _sheets(archive)
    texts, formats = _shared_texts(archive), _formats(archive)
    pieces: list[DocumentPiece] = []
    uncalculated = 0
    for sheet in sheets:
        found = _SheetReader(texts, formats, is_1904=is_1904).read(archive, sheet.part)
        uncalculated += found.uncalculated
        table = table_of(_table_rows(found, max_characters))
        if table:
            title = " ".join(sheet.name.split()) + (" (hidden)" if sheet.is_hidden else "")
            pieces.append(DocumentPiece("text", f"{chr(10) if pieces else ''}## {title}\n\n"))
            pieces.append(DocumentPiece("table", table))
    facts = {**_core_facts(archive), "sheet_names": [sheet.name for sheet in sheets]}
    if uncalculated:
        facts["warnings"] = [f"Formulas without a value, as the program that wrote the file did not calculate: {uncalculated}"]
    return pieces, facts


def _table_rows(found: _Rows, max_characters: int) -> Iterator[list[str]]:
    """The rows with all columns that are used; one empty row stands for several."""
    columns = sorted({column for _, cells in found.rows for column in cells})
    if len(found.rows) * len(columns) > max_characters:
        raise too_large(
            f"A sheet has {len(found.rows):,} rows of {len(columns):,} columns, more cells than characters are allowed "
            f"(maxCharacters: {max_characters:,})"
        )
    marks = [found.hides(column) for column in columns]
    has_hidden = any(number in found.hidden_rows for number, _ in found.rows)
    before = found.rows[0][0] - 1 if found.rows else 0
    for place, (number, cells) in enumerate(found.rows):
        if number > before + 1:
            yield [""] * (len(columns) + has_hidden)
        before = number
        texts = [cells.get(column, "") for column in columns]
        is_hidden = number in found.hidden_rows
        if place == 0:
            texts = [f"{text} (hidden)".lstrip() if mark else text for text, mark in zip(texts, marks, strict=True)]
        if has_hidden:
            texts.append("hidden" if is_hidden else "" if place else "(hidden)")
        yield texts


class _SheetReader:
    """Reads the cells of a sheet, row by row."""

    def __init__(self, texts: Sequence[str], formats: Sequence[CellFormat], *, is_1904: bool) -> None:
        self._texts = texts
        self._formats = formats
        self._is_1904 = is_1904
        self._found = _Rows()
        self._columns: dict[str, int] = {}

    def read(self, archive: zipfile.ZipFile, part: str) -> _Rows:
        """The cells that are not empty. Raises `ToolError`."""
        row, found = 0, self._found
        with archive.open(part) as file:
            for _, element in ElementTree.iterparse(file):
                tag = element.tag
                if tag.endswith("}row"):
                    row = int(element.get("r", row + 1))
                    self._add(row, element, tag[:-3])
                    element.clear()
                elif tag.endswith("}col") and element.get("hidden") in _TRUE:
                    found.hidden_columns.append((int(element.get("min", 1)), int(element.get("max", COLUMNS))))
        return found

    def _add(self, row: int, element: ElementTree.Element, namespace: str) -> None:
        cells: dict[int, str] = {}
        column, columns = 0, self._columns
        for cell in element:
            letters = cell.get("r", "").rstrip("0123456789")
            column = (columns.get(letters) or self._column(letters)) if letters else column + 1
            if text := self._text(cell, namespace).strip():
                cells[column] = text
        if not cells:
            return
        if not (max(cells) <= COLUMNS and 0 < row <= ROWS):
            raise corrupt(f"It has a cell outside of the sheet: row {row}, column {max(cells)}")
        self._found.rows.append((row, cells))
        if element.get("hidden") in _TRUE:
            self._found.hidden_rows.add(row)

    def _column(self, letters: str) -> int:
        """The number of a column, which is kept for the other rows."""
        if _LETTERS.fullmatch(letters) is None:
            raise corrupt(f'It has a cell in a column "{letters[:10]}"')
        number = 0
        for letter in letters:
            number = number * 26 + ord(letter) - 64
        self._columns[letters] = number
        return number

    def _text(self, cell: ElementTree.Element, namespace: str) -> str:
        kind, value = cell.get("t", "n"), cell.findtext(f"{namespace}v")
        if kind == "s":
            return self._texts[int(value)] if value else ""
        if kind == "inlineStr":
            inside = cell.find(f"{namespace}is")
            return "" if inside is None else _joined(inside)
        if not value and not (kind == "str" and value is not None):
            formula = cell.find(f"{namespace}f")
            if formula is None:
                return ""
            self._found.uncalculated += 1
            return f"={formula.text}" if formula.text else "(formula)"
        if kind == "n":
            style = int(cell.get("s", 0))
            return shown(value or "", self._formats[style] if style < len(self._formats) else GENERAL, is_1904=self._is_1904)
        if kind == "b":
            return "true" if value in _TRUE else "false"
        return _unescaped(value or "")  # a text of a formula, an error as #DIV/0!, a date of the strict form


def _sheets(archive: zipfile.ZipFile) -> tuple[list[_Sheet], bool]:
    """The sheets with cells in their order, and whether dates are counted from 1904."""
    book, parts = _parsed(archive, _WORKBOOK), _related(archive, _WORKBOOK)
    sheets: list[_Sheet] = []
    is_1904 = False
    for element in book.iter():
        if _name(element) == "workbookPr":
            is_1904 = element.get("date1904") in _TRUE
        elif _name(element) == "sheet":
            related = next((value for key, value in element.attrib.items() if key.endswith("}id")), "")
            kind, part = parts.get(related, ("", ""))
            if kind == "worksheet":  # others are charts and dialogs
                sheets.append(_Sheet(element.get("name", ""), part, element.get("state", "visible") != "visible"))
    return sheets, is_1904


def _related(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """The parts to which a part refers: id -> kind and name."""
    found: dict[str, tuple[str, str]] = {}
    folder = dirname(part)
    for element in _parsed(archive, f"{folder}/_rels/{part.removeprefix(f'{folder}/')}.rels"):
        kind, target = element.get("Type", "").rpartition("/")[2], element.get("Target", "")
        found[element.get("Id", "")] = kind, normpath(join("/", folder, target)).lstrip("/")
    return found


def _part_of(archive: zipfile.ZipFile, kind: str) -> ElementTree.Element | None:
    """The part of the workbook of a kind that it has once, if it is there."""
    part = next((name for found, name in _related(archive, _WORKBOOK).values() if found == kind), None)
    return None if part is None or part not in archive.namelist() else _parsed(archive, part)


def _shared_texts(archive: zipfile.ZipFile) -> list[str]:
    root = _part_of(archive, "sharedStrings")
    return [] if root is None else [_joined(item) for item in root if _name(item) == "si"]


def _formats(archive: zipfile.ZipFile) -> list[CellFormat]:
    """The formats of cells, by the number that cells name."""
    root = _part_of(archive, "styles")
    if root is None:
        return []
    codes: dict[int, str] = {}
    found: list[CellFormat] = []
    for group in root:
        for element in group:
            if _name(element) == "numFmt":
                codes[int(element.get("numFmtId", 0))] = element.get("formatCode", "")
            elif _name(group) == "cellXfs" and _name(element) == "xf":
                number = int(element.get("numFmtId", 0))
                found.append(format_of(codes.get(number), number))
    return found


def _core_facts(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The properties of the document, from its own record."""
    try:
        root = _parsed(archive, "docProps/core.xml")
    except (KeyError, ElementTree.ParseError):
        return {}
    return {_FACTS[name]: element.text for element in root if (name := _name(element)) in _FACTS and element.text}


def _parsed(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part))


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _joined(item: ElementTree.Element) -> str:
    """The text of a cell, of all its runs; not how it is pronounced."""
    parts = (run for part in item for run in (part if _name(part) == "r" else (part,)))
    return _unescaped("".join(part.text or "" for part in parts if _name(part) == "t"))


def _unescaped(text: str) -> str:
    """The text with its control characters, which the format writes as `_x000D_`; without null characters."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\0", "") if "_x" in text else text


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
    """The form of a number in a cell: its kind, and the text around it; zeros fill a whole number up to `width` digits."""

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
