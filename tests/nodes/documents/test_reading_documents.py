"""What documents say is read: text in order, tables, and what files say of themselves, whatever they are called."""

from __future__ import annotations

import io
import re
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ToolError
from rrext.nodes.documents import formats
from rrext.nodes.documents.conversion import flattened, read
from rrext.nodes.documents.formats import cut_tables, table_of
from rrext.nodes.documents.records import DocumentRequest, ParsedDocument

from hostile_files import plain_docx  # isort: skip
from paper_mill import WRITERS, write_paper  # isort: skip

TYPES = {
    ".docx": formats.DOCX,
    ".xlsx": formats.XLSX,
    ".pptx": formats.PPTX,
    ".pdf": formats.PDF,
    ".html": formats.HTML,
    ".md": formats.MARKDOWN,
    ".eml": formats.EML,
    ".csv": formats.CSV,
}


def parsed(data: bytes, name: str = "", mime_type: str = "", **limits: Any) -> ParsedDocument:
    return read(data, DocumentRequest(name=name, mime_type=mime_type, **limits))


def text_of(document: ParsedDocument) -> str:
    """All words in order."""
    return " ".join("".join(piece.content for piece in document.pieces).split())


def tables_of(document: ParsedDocument) -> list[str]:
    return [piece.content for piece in document.pieces if piece.kind == "table"]


def failure(data: bytes, name: str = "", mime_type: str = "", **limits: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        parsed(data, name, mime_type, **limits)
    return caught.value


# --- every format ---


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_was_written_is_read(suffix: str, tmp_path: Path) -> None:
    paper = write_paper(tmp_path / f"paper{suffix}", 7)
    document = parsed(paper.path.read_bytes(), paper.path.name)
    assert document.mime_type == TYPES[suffix]
    assert paper.body in text_of(document)
    assert paper.aside in text_of(document)
    if suffix != ".csv":
        assert paper.title in (document.metadata.get("title"), document.metadata.get("subject"))
    if suffix in (".docx", ".xlsx", ".pdf"):
        assert document.metadata["author"] == paper.author
    assert "script text" not in text_of(document)


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".pptx", ".pdf"])
@pytest.mark.parametrize("mime_type", ["", "application/octet-stream", "lane/tags", "application/x-unknown"])
def test_a_document_is_known_by_its_content_if_nothing_names_it(suffix: str, mime_type: str, tmp_path: Path) -> None:
    data = write_paper(tmp_path / f"paper{suffix}", 1).path.read_bytes()
    assert parsed(data, mime_type=mime_type).mime_type == TYPES[suffix]


@pytest.mark.parametrize("claimed", [formats.DOCX, formats.HTML, formats.TEXT, formats.EML, "image/png"])
def test_a_pdf_is_read_whatever_it_claims_to_be(claimed: str, tmp_path: Path) -> None:
    paper = write_paper(tmp_path / "paper.pdf", 3)
    document = parsed(paper.path.read_bytes(), "paper.txt", claimed)
    assert (document.mime_type, paper.body in text_of(document)) == (formats.PDF, True)
    assert document.metadata["pages"] == 2


def test_tables_of_a_workbook_stand_under_the_names_of_their_sheets(tmp_path: Path) -> None:
    paper = write_paper(tmp_path / "paper.xlsx", 2)
    document = parsed(paper.path.read_bytes(), "paper.xlsx")
    assert [piece.kind for piece in document.pieces] == ["text", "table", "text", "table"]
    assert [piece.content.strip() for piece in document.pieces[::2]] == ["## Purchases", "## Seals"]
    assert document.metadata["sheets"] == ["Purchases", "Seals"]


def test_plain_text_markdown_and_code_are_kept_to_the_letter() -> None:
    for name, text in {
        "a.txt": "Two  blanks\n\n\n\tand a tab \n",
        "a.py": "def f():\n    return '# no heading'\n",
        "a.md": "* not *normalised*\n+ at all\n",
        "a.json": '{"a": [1,  2]}',
    }.items():
        assert "".join(piece.content for piece in parsed(text.encode(), name).pieces) == text


def mail(subject: str, body: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject, "Ann <a@example.org>", "b@example.org, c@example.org"
    message.set_content(body)
    return message


def attach(message: EmailMessage, data: bytes, filename: str) -> None:
    message.add_attachment(data, maintype="application", subtype="octet-stream", filename=filename)


def test_a_mail_gives_the_text_of_what_is_attached_and_says_what_cannot_be_read() -> None:
    message = mail("Harvest", "See what is attached.\n")
    attach(message, plain_docx("The pears were ripe in May."), "a.docx")
    attach(message, b"\x00\x01\x02", "b.thing")
    attach(message, plain_docx("cut")[:3000], "c.docx")
    message.add_attachment(mail("Inner", "The apples came later.\n"))
    document = parsed(message.as_bytes(), "mail.eml")
    text = text_of(document)
    assert [text.count(part) for part in ("See what", "pears were", "apples came")] == [1, 1, 1]
    assert document.metadata["from"] == "Ann <a@example.org>"
    assert document.metadata["to"] == ["b@example.org", "c@example.org"]
    assert document.metadata["attachments"] == ["a.docx", "b.thing", "c.docx", "part 4"]
    assert [warning.split('"')[1] for warning in document.metadata["warnings"]] == ["b.thing", "c.docx"]


def test_of_two_ways_to_say_the_same_a_mail_gives_one() -> None:
    message = mail("Harvest", "The pears were ripe.\n")
    message.add_alternative("<p>The <b>pears</b> were ripe.</p>", subtype="html")
    assert text_of(parsed(message.as_bytes(), "mail.eml")).count("were ripe") == 1
    page = mail("Harvest", "")
    page.set_content("<p>The <b>pears</b> were ripe.</p>", subtype="html")
    assert "The **pears** were ripe." in text_of(parsed(page.as_bytes(), "mail.eml"))


def test_a_mail_that_is_nothing_but_another_one_gives_that() -> None:
    inner = mail("Inner", "The apples came later.\n").as_bytes()
    outer = b"Subject: Outer\nContent-Type: message/rfc822\n\n" + inner
    assert "The apples came later." in text_of(parsed(outer, "mail.eml"))


def test_a_report_on_delivery_is_read() -> None:
    report = b"""Subject: Failed
Content-Type: multipart/report; boundary=b

--b
Content-Type: text/plain

It did not arrive.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; example.org

Status: 5.1.1
--b--
"""
    text = text_of(parsed(report, "mail.eml"))
    assert "It did not arrive." in text
    assert "Status: 5.1.1" in text


def test_mails_in_mails_are_read_to_a_depth_and_no_further() -> None:
    message = mail("0", "The innermost.\n")
    for n in range(1, 8):
        outer = mail(str(n), f"Level {n}.\n")
        outer.add_attachment(message)
        message = outer
    document = parsed(message.as_bytes(), "mail.eml")
    assert "Level 3." in text_of(document)
    assert "Level 2." not in text_of(document)
    assert document.metadata["warnings"] == [
        'part 1: part 1: part 1: part 1: The attachment "part 1" was not read: it is deeper than 4 attachments in each other'
    ]


def test_a_mail_of_bytes_in_no_known_charset_is_read_and_can_be_sent_on() -> None:
    document = parsed(b"Subject: caf\xe9\nTo: \xe9 <\xe9@example.org>\n\nStill here.", "mail.eml")
    assert b"Still here." in msgspec.json.encode(document)
    assert document.metadata["to"] == ["?@example.org"]


@pytest.mark.parametrize("charset", ["utf-8", "koi8-r", "cp1251"])
def test_headers_that_name_no_charset_are_read_in_the_one_that_they_show(charset: str) -> None:
    subject = "Библиотека открыта с девяти утра до пяти вечера"
    document = parsed(f"Subject: {subject}\n\n".encode(charset) + b"Still here.", "mail.eml")
    assert document.metadata["subject"] == subject
    assert "Still here." in text_of(document)


@pytest.mark.parametrize("header", [b"Subject: caf\xe9", b"Subject: =?x-unknown?Q?caf=E9?="])
def test_headers_that_show_no_charset_have_a_sign_for_what_is_not_read(header: bytes) -> None:
    assert parsed(header + b"\n\nStill here.", "mail.eml").metadata["subject"] == "caf?"


def test_a_mail_whose_text_shows_no_charset_is_no_success() -> None:
    assert failure(b"Subject: s\n\ncaf\xe9.", "mail.eml").code == "document_charset"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?><a>мир</a>', "a.xml"),
        ("<?xml version='1.0' encoding='windows-1251'?><html><p>мир</p></html>", "a.xhtml"),
        ('<html><meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>мир</p></html>', "a.html"),
    ],
)
def test_a_declaration_in_the_text_names_its_charset(text: str, name: str) -> None:
    assert "мир" in text_of(parsed(text.encode("cp1251"), name))


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.md", "a.html", "a.tsv", "a.py"])
def test_every_kind_of_text_is_read_in_the_charset_that_it_shows(name: str) -> None:
    text = "図書館は午前九時から午後五時まで開いています。本をなくした場合は、十ユーロを払います。"
    for charset in ("shift_jis", "euc_jp"):
        assert text in text_of(parsed(text.encode(charset), name))
    assert failure("図書館".encode("shift_jis"), name).code == "document_charset"
    assert "図書館" in text_of(parsed("図書館".encode("shift_jis"), name, charset="shift_jis"))


def test_a_text_whose_charset_is_not_clear_says_how_to_name_it() -> None:
    message = failure("café".encode("cp1252"), "a.txt").message
    assert '"text/plain; charset=windows-1252"' in message
    assert '"charset" of the node' in message


def test_the_name_of_an_attachment_is_one_line() -> None:
    part = b"--b\nContent-Disposition: attachment; filename*=utf-8''a%0A%0A%23%20No%20heading.txt\n\nhello\n--b--"
    document = parsed(b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + part, "mail.eml")
    assert document.metadata["attachments"] == ["a # No heading.txt"]


# --- pages ---


def test_a_title_without_end_is_shortened_as_all_facts_are() -> None:
    assert len(parsed(b"<title>" + b"x" * 5000 + b"</title>text", "a.html").metadata["title"]) == 1000


NESTED = ("p", "div", "td", "li", "table", "b", "a", "ul", "blockquote", "dd", "option", "font", "h2", "span", "center")


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("end", ["", "</{}>"])
def test_a_page_of_many_open_or_nested_elements_loses_no_word(name: str, end: str) -> None:
    around = {"td": "<table><tr>", "option": "<select>"}.get(name, "")
    page = "<body>" + around + "".join(f"<{name}>word{n} " for n in range(200)) + end.format(name) * 200 + "the end"
    found = text_of(parsed(page.encode(), "a.html")).replace("|", " ").replace("*", " ").split()
    assert [f"word{n}" for n in range(200) if f"word{n}" not in found] == []


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NESTED)), max_size=120))
def test_a_page_of_any_tags_is_flattened_without_losing_a_word(tags: list[tuple[bool, str]]) -> None:
    page = "".join(f"<{'/' * is_end}{name}>word{n} " for n, (is_end, name) in enumerate(tags))
    flat = flattened(page)
    assert re.findall(r"word\d+", flat) == re.findall(r"word\d+", page)
    depth = deepest = 0
    for mark in re.finditer(r"<(/?)(\w+)>", flat):
        if mark[2] != "br":
            depth = max(depth + (-1 if mark[1] else 1), 0)
            deepest = max(depth, deepest)
    assert deepest <= 48


def test_a_page_that_is_well_formed_stays_as_it_is() -> None:
    page = "<p>One <b>two</b></p><ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><table><tr><td><p>x</p></td></tr></table>"
    assert flattened(page) == page


def test_what_nobody_sees_of_a_page_opens_and_closes_nothing() -> None:
    page = "<p>a<!-- <div> --><script>'<p><table>'</script>b<style>p > a {}</style>c"
    assert text_of(parsed(page.encode(), "a.html")) == "abc"


# --- text of any origin ---


@pytest.mark.parametrize(
    ("data", "mime_type", "text"),
    [
        ("grün".encode(), "", "grün"),
        ("grün".encode("utf-8-sig"), "", "grün"),
        ("grün".encode("utf-16"), "", "grün"),
        (
            "Der Wald ist grün, und die Straße führt über die Höhe.".encode("cp1252"),
            "",
            "Der Wald ist grün, und die Straße führt über die Höhe.",
        ),
        ("grün".encode("cp1252"), "text/plain; charset=iso-8859-1", "grün"),
        ("grün".encode(), "text/plain; charset=us-ascii", "grün"),
        ("né".encode(), "text/plain; charset=shift_jis", "nﾃｩ"),
        ("\u0433\u0440\u044e\u043d".encode("koi8-r"), "text/plain; charset=koi8-r", "\u0433\u0440\u044e\u043d"),
        ("grün".encode(), "text/plain; charset=nonsense", "grün"),
        ("\u6885".encode("iso2022_jp"), "text/plain; charset=iso-2022-jp", "\u6885"),
        ("grün \\ud800".encode(), "text/plain; charset=unicode_escape", "grün \\ud800"),
        ("hello\nworld".encode("utf-16-le"), "", "hello world"),
        ("図書館、本。".encode("utf-16-be"), "text/plain; charset=utf-16be", "図書館、本。"),
        ("\u6885".encode("iso2022_jp"), "", "\u6885"),
        (b"a\r\nb\rc", "", "a\nb\nc"),
    ],
)
def test_text_is_read_in_the_encoding_that_it_has(data: bytes, mime_type: str, text: str) -> None:
    assert text_of(parsed(data, "a.txt", mime_type)) == " ".join(text.split())


def test_a_page_is_read_in_the_encoding_that_it_declares() -> None:
    page = '<html><head><meta charset="iso-8859-2"><title>Przegl\u0105d</title></head><p>\u0141\u00f3d\u017a</p></html>'
    document = parsed(page.encode("iso-8859-2"), "a.html")
    assert (document.metadata["title"], text_of(document)) == ("Przegl\u0105d", "\u0141\u00f3d\u017a")


@pytest.mark.parametrize("delimiter", list(",;\t|"))
def test_fields_are_told_apart_by_what_the_first_line_has_most_of(delimiter: str) -> None:
    data = f'name{delimiter}price\n"a | b"{delimiter}"two\nlines"\n'.encode()
    assert tables_of(parsed(data, "a.csv")) == ["| name | price |\n| --- | --- |\n| a \\| b | two lines |\n"]


def test_what_stands_in_quotes_tells_no_fields_apart() -> None:
    table = tables_of(parsed(b'"Name, full, really";age\n"a, b";3\n', "a.csv"))
    assert table == ["| Name, full, really | age |\n| --- | --- |\n| a, b | 3 |\n"]


@pytest.mark.parametrize(
    ("name", "mime_type"), [("a.ts", "video/mp2t"), ("a.svg", "image/svg+xml"), ("a.php", "application/x-php")]
)
def test_source_code_is_text_whatever_type_its_extension_is_taken_for(name: str, mime_type: str) -> None:
    assert text_of(parsed(b"<a> const b = 1", name, mime_type)) == "<a> const b = 1"
    assert failure(bytes(range(256)), "a.ts", "video/mp2t").code == "document_unsupported"


@pytest.mark.parametrize(("data", "name"), [(b"", "a.pdf"), (b"", "a.bin"), (b" \n\n\t\n", "a.txt"), (b"\n", "a.docx")])
def test_a_file_in_which_nothing_stands_has_no_text(data: bytes, name: str) -> None:
    assert parsed(data, name).pieces == []


# --- what cannot be read ---


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".pptx", ".pdf"])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
def test_a_document_that_was_cut_off_is_corrupt(suffix: str, share: float, tmp_path: Path) -> None:
    data = write_paper(tmp_path / f"paper{suffix}", 1).path.read_bytes()
    error = failure(data[: int(len(data) * share)], f"paper{suffix}")
    assert error.code == "document_corrupt"


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".pptx"])
def test_a_damaged_part_is_named(suffix: str, tmp_path: Path) -> None:
    data = bytearray(write_paper(tmp_path / f"paper{suffix}", 1).path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = max(archive.infolist(), key=lambda info: info.compress_size)
    data[member.header_offset + len(member.filename) + 30 + member.compress_size // 2] ^= 0xFF
    error = failure(bytes(data), f"paper{suffix}")
    assert error.code == "document_corrupt"


def test_a_pdf_with_a_password_is_encrypted() -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, encrypt=StandardEncryption("sesame"))
    canvas.drawString(72, 720, "hidden")
    canvas.save()
    assert failure(out.getvalue(), "a.pdf").code == "document_encrypted"


def test_an_office_file_with_a_password_is_encrypted() -> None:
    # Word puts the encrypted file into a container of the old Office, as a stream of this name.
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000) + "EncryptedPackage".encode("utf-16-le") + bytes(1000)
    assert failure(data, "a.docx", formats.DOCX).code == "document_encrypted"


@pytest.mark.parametrize(
    ("data", "name", "mime_type", "code"),
    [
        (b"<html><body></body></html>", "a.html", formats.HTML, "document_empty"),
        (b"<html>404 not found</html>", "report.pdf", formats.PDF, "document_corrupt"),
        (b"hello", "a.docx", "", "document_corrupt"),
        (bytes(range(256)), "a.txt", "", "document_corrupt"),
        (bytes(range(256)), "a.html", formats.HTML, "document_corrupt"),
        (bytes(range(256)), "a.pdf", "", "document_corrupt"),
        (bytes(range(256)), "a.bin", "", "document_unsupported"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a.png", "image/png", "document_unsupported"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a.doc", "application/msword", "document_unsupported"),
        (b"a" * 70_000 + b"\x00", "a.txt", "", "document_corrupt"),
        (b'a,"b\nnever closed', "a.csv", "", "document_corrupt"),
        ("grün".encode("cp1252"), "a.txt", "text/plain; charset=ascii", "document_corrupt"),
        ("grün".encode("cp1252"), "a.txt", "text/plain; charset=utf-8", "document_corrupt"),
        ("grün".encode("cp1252"), "a.txt", "", "document_charset"),
        (b"\x81\x8d\x8f\x90\x9d" * 9, "a.txt", "", "document_charset"),
        ("図書館は九時に開く。".encode("shift_jis")[:-1], "a.txt", "text/plain; charset=shift_jis", "document_corrupt"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, name: str, mime_type: str, code: str) -> None:
    error = failure(data, name, mime_type)
    assert error.code == code
    assert len(error.message) < 300


@pytest.mark.parametrize("data", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf\n"])
def test_a_text_file_without_text_has_no_text_and_is_no_failure(data: bytes) -> None:
    for name in ("a.txt", "a.md", "a.csv", "a.py"):
        assert "".join(piece.content for piece in parsed(data, name).pieces).strip() == "", name


def test_a_scan_says_that_its_pages_are_pictures() -> None:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out)
    canvas.rect(100, 100, 50, 50)
    canvas.save()
    error = failure(out.getvalue(), "a.pdf")
    assert (error.code, error.message) == ("document_empty", "There is no text in it: pages that are pictures are not read")


def test_a_zip_archive_is_no_document() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "text")
    assert failure(out.getvalue(), "a.zip").code == "document_unsupported"


def test_limits_are_named() -> None:
    assert "maxCharacters" in failure(b"x" * 101, "a.txt", max_characters=100).message
    assert "maxUnpacked" in failure(plain_docx("x"), "a.docx", max_unpacked=1000).message
    assert {failure(b"x" * 101, "a.txt", max_characters=100).code, failure(plain_docx("x"), max_unpacked=9).code} == {
        "document_too_large"
    }


# --- tables ---


LINES = st.lists(st.sampled_from(["text", "| a | b |", "| --- | --- |", "|-|", "```", "~~~", "", "# head", "| c"]), max_size=30)


@given(LINES, st.booleans())
def test_a_document_put_together_again_is_the_document(lines: list[str], has_end: bool) -> None:
    markdown = "\n".join(lines) + ("\n" if has_end else "")
    pieces = cut_tables(markdown)
    assert "".join(piece.content for piece in pieces) == markdown
    assert all(piece.content.startswith("|") for piece in pieces if piece.kind == "table")


def test_a_table_in_fenced_code_is_code() -> None:
    assert [piece.kind for piece in cut_tables("```\n| a |\n| - |\n```\n| b |\n| - |\n")] == ["text", "table"]


@given(st.lists(st.lists(st.text("ab|\n \\", max_size=5), max_size=4), max_size=6))
def test_a_table_of_any_rows_is_one_table(rows: list[list[str]]) -> None:
    table = table_of(rows)
    if any(rows):
        assert [piece.kind for piece in cut_tables(table)] == ["table"]
    else:
        assert table == ""


# --- formats that no library here writes ---


def packed(*members: tuple[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def test_an_opendocument_text_is_read() -> None:
    names = "urn:oasis:names:tc:opendocument:xmlns"
    office = f'xmlns:office="{names}:office:1.0" xmlns:text="{names}:text:1.0"'
    content = f"<office:document-content {office}><office:body><office:text><text:h text:outline-level='1'>Pears</text:h>"
    content += "<text:p>They were ripe.</text:p></office:text></office:body></office:document-content>"
    document = parsed(packed(("mimetype", formats.ODT), ("content.xml", content)), "a.odt")
    assert (document.mime_type, text_of(document)) == (formats.ODT, "# Pears They were ripe.")


def test_an_electronic_book_is_read() -> None:
    container = '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Pears'
        '</dc:title></metadata><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>They were ripe.</p></body></html>'
    members = (("mimetype", formats.EPUB), ("META-INF/container.xml", container), ("b.opf", package), ("a.xhtml", page))
    document = parsed(packed(*members))
    assert (document.mime_type, "They were ripe." in text_of(document)) == (formats.EPUB, True)
    assert document.metadata["title"] == "Pears"


def test_rich_text_is_read() -> None:
    document = parsed(rb"{\rtf1\ansi\deff0{\fonttbl{\f0 Times;}}\f0 They were {\b ripe}.\par}", "a.txt")
    assert document.mime_type == formats.RTF
    assert "They were" in text_of(document)
    assert "ripe" in text_of(document)
