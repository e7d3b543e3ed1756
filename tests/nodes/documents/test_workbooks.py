"""Cells of Excel workbooks are read as the values that the file holds, and what people do not see in them is marked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.datetime import CALENDAR_MAC_1904
from openpyxl.utils.datetime import to_excel as serial

from rrext.errors import ToolError
from rrext.nodes.documents import formats
from rrext.nodes.documents.conversion import read
from rrext.nodes.documents.records import DocumentRequest, ParsedDocument
from rrext.nodes.documents.workbook import GENERAL, format_of, shown


def saved(fill: Callable[[Any], object]) -> bytes:
    """A workbook as openpyxl writes it."""
    book, file = openpyxl.Workbook(), io.BytesIO()
    fill(book)
    book.save(file)
    return file.getvalue()


def parsed(data: bytes, **limits: Any) -> ParsedDocument:
    return read(data, DocumentRequest(name="a.xlsx", **limits))


def rows_of(document: ParsedDocument) -> list[list[str]]:
    """The rows of all tables, without their rules."""
    tables = [piece.content for piece in document.pieces if piece.kind == "table"]
    lines = [line for table in tables for number, line in enumerate(table.splitlines()) if number != 1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cell(value: Any, number_format: str | None = None, *, is_1904: bool = False) -> str:
    """The text of a cell."""

    def fill(book: Any) -> None:
        if is_1904:
            book.epoch = CALENDAR_MAC_1904
        place = book.active["A1"]
        place.value = value
        if number_format is not None:
            place.number_format = number_format

    ((text,),) = rows_of(parsed(saved(fill)))
    return text


def raw(*cells: str, styles: str = "", more: dict[str, str] | None = None, before: str = "", after: str = "") -> bytes:
    """A workbook of these elements for the cells of its one row."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    ids = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
    parts = {
        "xl/workbook.xml": f'<workbook {main} {ids}><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": (
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="r1" Type="{kinds}worksheet" Target="worksheets/sheet1.xml"/>'
            f'<Relationship Id="r2" Type="{kinds}sharedStrings" Target="/xl/sharedStrings.xml"/>'
            f'<Relationship Id="r3" Type="{kinds}styles" Target="styles.xml"/></Relationships>'
        ),
        "xl/worksheets/sheet1.xml": (
            f"<worksheet {main}>{before}<sheetData><row>{''.join(cells)}</row>{after}</sheetData></worksheet>"
        ),
        "xl/styles.xml": f"<styleSheet {main}>{styles}</styleSheet>",
        **{name: text.replace("MAIN", main) for name, text in (more or {}).items()},
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def number(text: str, kind: str = "n") -> str:
    return f'<c t="{kind}"><v>{text}</v></c>'


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (date(2026, 3, 1), None, "2026-03-01"),
        (date(2026, 3, 1), "dd.mm.yy", "2026-03-01"),
        (date(2026, 3, 1), "[Red]mmmm\\ d", "2026-03-01"),
        (date(2026, 3, 1), "yyyy", "2026-03-01"),
        (date(2026, 3, 1), "mmm", "2026-03-01"),
        (datetime(2026, 3, 1, 14, 30), None, "2026-03-01T14:30:00"),
        (datetime(2026, 3, 1), "yyyy-mm-dd hh:mm", "2026-03-01T00:00:00"),
        (datetime(2026, 3, 1, 14, 30), "yyyy-mm-dd", "2026-03-01T14:30:00"),
        (datetime(2026, 3, 1, 14, 30), "h:mm", "2026-03-01T14:30:00"),
        (datetime(2026, 3, 1, 14, 30, 5, 250_000), None, "2026-03-01T14:30:05.250"),
        (date(9999, 12, 31), None, "9999-12-31"),
        (date(1900, 1, 1), None, "1900-01-01"),
        (60, "yyyy-mm-dd", "1900-02-29"),
        (61, "yyyy-mm-dd", "1900-03-01"),
        (0, "yyyy-mm-dd", "0"),
        (-5, "yyyy-mm-dd", "-5"),
        (2_958_466, "yyyy-mm-dd", "2958466"),
        (time(14, 30, 5), None, "14:30:05"),
        (time(0, 0), None, "00:00:00"),
        (time(9, 5), "h:mm AM/PM", "09:05:00"),
        (0.604, "mm:ss", "14:29:45.600"),
        (timedelta(hours=30, minutes=15), "[h]:mm:ss", "30:15:00"),
        (timedelta(hours=30, minutes=15), "h:mm", "30:15:00"),
        (timedelta(minutes=90), "[mm]:ss", "1:30:00"),
        (timedelta(days=1000), "[hh]:mm", "24000:00:00"),
        (-0.0625, "[h]:mm", "-1:30:00"),
        (46082, None, "46082"),
        (46082, "0", "46082"),
        (46082, "General", "46082"),
        (0.5, "# ?/?", "0.5"),
        (1234567, "0.00E+00", "1234567"),
        (1234567, '0.0,,"M"', "1234567"),
        (0.125, "0.0%", "12.5%"),
        (0.07, "0%", "7%"),
        (-0.005, "0%", "-0.5%"),
        (1234.5, '"€"#,##0.00', "€1234.5"),
        (1234.5, '#,##0.00\\ "€"', "1234.5 €"),
        (-1234.5, "_-* #,##0.00 [$€-407]_-;-* #,##0.00 [$€-407]_-", "-1234.5 €"),
        (3, '0 "days"', "3 days"),
        (1234, "00000", "01234"),
        (123456789, "000-00-0000", "123456789"),
        (5, "@", "5"),
        (True, None, "true"),
        (False, None, "false"),
        ("00123", None, "00123"),
        ("30:15", None, "30:15"),
        ("#N/A", None, "#N/A"),
    ],
)
def test_a_cell_is_its_value(value: Any, number_format: str | None, text: str) -> None:
    assert cell(value, number_format) == text


def test_a_text_stays_within_its_cell() -> None:
    (piece,) = [piece for piece in parsed(saved(lambda book: book.active.append(["a|b\nc"]))).pieces if piece.kind == "table"]
    assert piece.content == "| a\\|b c |\n| --- |\n"


def test_dates_may_be_counted_from_1904() -> None:
    assert cell(date(2026, 3, 1), is_1904=True) == "2026-03-01"
    assert cell(datetime(1904, 1, 1, 6), "yyyy-mm-dd hh:mm", is_1904=True) == "1904-01-01T06:00:00"
    assert cell(time(6, 0), is_1904=True) == "06:00:00"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12345678901234567", "12345678901234567"),
        ("1.2345678901234567E+16", "12345678901234567"),
        ("12345678901234567890", "12345678901234567890"),
        ("1234567890123456.7", "1234567890123456.7"),
        ("0.10000000000000001", "0.1"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("1.1000000000000001", "1.1"),
        ("5.0", "5"),
        ("1E-3", "0.001"),
        ("1.5E-30", "1.5e-30"),
        ("1E+300", "1e+300"),
        ("1E+999999999", "1E+999999999"),
        ("-0", "0"),
        ("NaN", "NaN"),
        ("sNaN", "sNaN"),
        ("", ""),
        ("9" * 1000, "9" * 1000),
    ],
)
def test_a_number_keeps_its_digits(written: str, text: str) -> None:
    assert rows_of(parsed(raw(number("x", "str"), number(written)))) == [["x", text][: 1 + bool(text)]]


@given(st.datetimes(datetime(1901, 1, 1), datetime(9999, 12, 31)).map(lambda moment: moment.replace(microsecond=0)))
def test_a_moment_is_read_as_it_was_written(moment: datetime) -> None:
    assert shown(repr(serial(moment)), format_of("yyyy-mm-dd hh:mm:ss")) == moment.isoformat()


@given(st.text(max_size=40))
def test_any_format_gives_a_text(code: str) -> None:
    assert shown("46082.6", format_of(code))


@given(st.one_of(st.floats().map(repr), st.integers().map(str), st.text(max_size=30)))
def test_any_number_gives_a_text_without_loss(text: str) -> None:
    result = shown(text, GENERAL)
    try:
        value = float(text)
    except ValueError:
        assert result == text
    else:
        assert float(result) == value or value != value


def test_a_formula_without_a_value_is_shown_and_counted() -> None:
    document = parsed(
        raw("<c><f>A1+B1</f></c>", '<c><f t="shared" si="0"/><v></v></c>', '<c t="str"><f>""</f><v></v></c>', number("3"))
    )
    assert rows_of(document) == [["=A1+B1", "(formula)", "3"]]
    assert document.metadata["warnings"] == [
        "Formulas without a value, as the program that wrote the file did not calculate: 2"
    ]
    assert rows_of(parsed(raw("<c><f>1+1</f><v>2</v></c>", '<c t="e"><f>1/0</f><v>#DIV/0!</v></c>'))) == [["2", "#DIV/0!"]]


def hidden(book: Any) -> None:
    sheet = book.active
    for row in (["name", "pay", "note"], ["Ada", 1, "x"], ["Bob", 2, "y"], ["Cyd", 3, "z"]):
        sheet.append(row)
    sheet.row_dimensions[3].hidden = True
    sheet.column_dimensions["B"].hidden = True
    for title, state in (("Plan", "hidden"), ("Keys", "veryHidden"), ("Sum", "visible")):
        other = book.create_sheet(title)
        other.append([title])
        other.sheet_state = state


def test_what_people_do_not_see_is_marked() -> None:
    document = parsed(saved(hidden))
    assert rows_of(document) == [
        ["name", "pay (hidden)", "note", "(hidden)"],
        ["Ada", "1", "x", ""],
        ["Bob", "2", "y", "hidden"],
        ["Cyd", "3", "z", ""],
        ["Plan"],
        ["Keys"],
        ["Sum"],
    ]
    headings = [piece.content.strip() for piece in document.pieces if piece.kind == "text"]
    assert headings == ["## Sheet", "## Plan (hidden)", "## Keys (hidden)", "## Sum"]
    assert document.metadata["sheets"] == ["Sheet", "Plan", "Keys", "Sum"]
    assert document.mime_type == formats.XLSX


def test_a_first_row_that_is_hidden_is_marked() -> None:
    def fill(book: Any) -> None:
        for row in (["id", "a"], [1, 2]):
            book.active.append(row)
        book.active.row_dimensions[1].hidden = True

    assert rows_of(parsed(saved(fill))) == [["id", "a", "hidden"], ["1", "2", ""]]


def test_merged_cells_have_their_text_once_and_empty_rows_are_one() -> None:
    def fill(book: Any) -> None:
        sheet = book.active
        sheet["B3"], sheet["C3"], sheet["B4"], sheet["C4"], sheet["B9"] = "year", None, "a", "b", "end"
        sheet.merge_cells("B3:C3")

    assert rows_of(parsed(saved(fill))) == [["year", ""], ["a", "b"], ["", ""], ["end", ""]]


def test_texts_of_several_runs_and_escapes_are_whole() -> None:
    shared = (
        "<sst MAIN><si><r><t>Wa</t></r><r><t xml:space='preserve'>ter </t></r><r><t>mill</t></r>"
        "<rPh sb='0' eb='1'><t>read so</t></rPh></si><si><t>a_x000D_b_x005F_x0041_</t></si></sst>"
    )
    cells = (
        number("0", "s"), number("1", "s"), '<c t="inlineStr"><is><r><t>in</t></r><r><t>line</t></r></is></c>',
        number("2026-03-01", "d"),
    )  # fmt: skip
    rows = rows_of(parsed(raw(*cells, more={"xl/sharedStrings.xml": shared})))
    assert rows == [["Water mill", "a b_x0041_", "inline", "2026-03-01"]]


def test_the_strict_form_has_other_namespaces() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw(number("1"), number("a", "str")))) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            text = old.read(name).replace(
                b"http://schemas.openxmlformats.org/spreadsheetml/2006/", b"http://purl.oclc.org/ooxml/"
            )
            new.writestr(
                name, text.replace(b"http://schemas.openxmlformats.org/officeDocument/2006/", b"http://purl.oclc.org/")
            )
    assert rows_of(parsed(file.getvalue())) == [["1", "a"]]


def test_cells_far_apart_take_no_room_between_them() -> None:
    after = '<row r="1048576"><c r="XFD1048576" t="str"><v>end</v></c></row>'
    assert rows_of(parsed(raw('<c r="A1" t="str"><v>begin</v></c>', after=after))) == [["begin", ""], ["", ""], ["", "end"]]


def test_cells_in_a_diagonal_are_too_large() -> None:
    rows = "".join(f'<row r="{n}"><c r="{"AB"[n % 2]}{"ABCDEFGHIJ"[n % 10]}{n}"><v>1</v></c></row>' for n in range(2, 200))
    with pytest.raises(ToolError) as caught:
        parsed(raw(number("1"), after=rows), max_characters=1000)
    assert (caught.value.code, "maxCharacters: 1,000" in caught.value.message) == ("document_too_large", True)


@pytest.mark.parametrize(
    "data",
    [
        raw('<c r="XFE1"><v>1</v></c>'),
        raw('<c r="1A"><v>1</v></c>'),
        raw(number("7", "s")),
        raw(number("x", "s")),
        raw("<c><v>1</c>"),
        raw(after='<row r="1048577"><c><v>1</v></c></row>'),
        raw(after='<row r="x"><c><v>1</v></c></row>'),
        raw(number("1"), more={"xl/_rels/workbook.xml.rels": "<a/"}),
    ],
)
def test_a_damaged_workbook_is_no_success(data: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        parsed(data)
    assert caught.value.code == "document_corrupt"


def test_a_workbook_says_what_it_is() -> None:
    def fill(book: Any) -> None:
        book.active["A1"] = "x"
        book.properties.title, book.properties.creator, book.properties.keywords = "Plan", "Ada", "a, b"

    facts = parsed(saved(fill)).metadata
    assert {**facts, "created": "", "modified": ""} == {
        "title": "Plan", "author": "Ada", "keywords": "a, b", "created": "", "modified": "", "sheets": ["Sheet"],
    }  # fmt: skip
