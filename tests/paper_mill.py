"""A folder of documents of eight formats, written by the libraries that people write them with, and what is in them."""

from __future__ import annotations

import csv
import html
import random
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
from docx import Document
from openpyxl import Workbook
from pptx import Presentation
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

__all__ = ["WRITERS", "Paper", "make_library", "write_paper"]

TOWNS = ("Ostend", "Visby", "Lerwick", "Faro", "Kotor", "Bergen", "Cork", "Piran", "Nida", "Ghent")
TRADES = ("lighthouse keeper", "clockmaker", "ferryman", "beekeeper", "cartographer", "organ builder", "saddler")
THINGS = ("lanterns", "otters", "barometers", "rowing boats", "tulip bulbs", "church bells", "oyster baskets", "sundials")
FILLER = (
    "The archive of the town keeps letters, ledgers and drawings, and most of them were never read again.",
    "Whoever wants to see an original fills in a form, waits for a quarter of an hour, and brings no ink.",
    "Rain came in through the roof of the east wing twice, but the shelves along the wall stayed dry.",
)


class Paper(msgspec.Struct, frozen=True):
    """A document. `body` stands among its text, `aside` where readers like to forget to look: tables, notes, attachments."""

    path: Path
    title: str
    author: str
    body: str
    aside: str


def make_library(folder: Path, count: int = 64) -> list[Paper]:
    """So many documents below a folder, all formats in turn, each in the folder of its town."""
    papers: list[Paper] = []
    suffixes = list(WRITERS)
    for n in range(count):
        town = TOWNS[n % len(TOWNS)]
        path = folder / town.lower() / f"report {n:02}{suffixes[n % len(suffixes)]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        papers.append(write_paper(path, n))
    return papers


def write_paper(path: Path, n: int) -> Paper:
    """One document; its suffix says how it is written."""
    trade, things = TRADES[n % len(TRADES)], THINGS[n % len(THINGS)]
    paper = Paper(
        path=path,
        title=f"Report {n} of the year {1700 + n}",
        author=f"Secretary {n}",
        body=f"In {1700 + n} the {trade} of {TOWNS[n % len(TOWNS)]} bought {211 + 7 * n} {things} from widow {_name(n)}.",
        aside=f"{_name(n + 100)} {_name(n + 200)} owed {_name(n + 300)} {_name(n + 400)} {90_000 + n} guilders.",
    )
    WRITERS[path.suffix](paper)
    return paper


def _name(n: int) -> str:
    """A name that nobody else has, and that is like no other."""
    draw = random.Random(n)
    return "".join(draw.choice("bdfghjklmnprstvwz") + draw.choice("aeiou") for _ in range(4)).capitalize()


def _docx(paper: Paper) -> None:
    document: Any = Document()
    document.core_properties.title, document.core_properties.author = paper.title, paper.author
    document.add_heading(paper.title, 1)
    for text in (*FILLER, paper.body):
        document.add_paragraph(text)
    table = document.add_table(2, 2)
    for place, text in zip(table._cells, ("remark", "pages", paper.aside, "12"), strict=True):
        place.text = text
    document.save(str(paper.path))


def _xlsx(paper: Paper) -> None:
    book: Any = Workbook()
    book.properties.title, book.properties.creator = paper.title, paper.author
    book.active.title = "Purchases"
    for row in (("what", "price"), (paper.body, 12.5), (FILLER[0], 3)):
        book.active.append(row)
    book.create_sheet("Seals").append(("seal", paper.aside))
    book.save(paper.path)


def _pptx(paper: Paper) -> None:
    show: Any = Presentation()
    show.core_properties.title, show.core_properties.author = paper.title, paper.author
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = paper.title
    slide.placeholders[1].text = f"{FILLER[0]}\n{paper.body}"
    slide.notes_slide.notes_text_frame.text = paper.aside
    show.save(str(paper.path))


def _pdf(paper: Paper) -> None:
    style = getSampleStyleSheet()["BodyText"]
    first = [Paragraph(html.escape(text), style) for text in (paper.title, *FILLER, paper.body)]
    SimpleDocTemplate(str(paper.path), title=paper.title, author=paper.author).build(
        [*first, PageBreak(), Paragraph(html.escape(paper.aside), style)]
    )


def _html(paper: Paper) -> None:
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in (*FILLER, paper.body))
    paper.path.write_text(
        f"<!doctype html><html><head><title>{paper.title}</title><script>var no = 'script text';</script></head><body>"
        f"<h1>{paper.title}</h1>{paragraphs}<table><tr><th>seal</th></tr><tr><td>{paper.aside}</td></tr></table></body></html>",
        encoding="utf-8",
    )


def _markdown(paper: Paper) -> None:
    text = "\n\n".join((f"---\ntitle: {paper.title}\n---\n# {paper.title}", *FILLER, paper.body))
    paper.path.write_text(f"{text}\n\n## Seals\n\n| seal |\n|---|\n| {paper.aside} |\n", encoding="utf-8")


def _email(paper: Paper) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = paper.title, "secretary@example.org", "archive@example.org"
    message["Date"] = "Mon, 05 Feb 2024 10:00:00 +0000"
    message.set_content("\n\n".join((*FILLER, paper.body)) + "\n")
    message.add_attachment(paper.aside + "\n", subtype="plain", filename="seal.txt")
    paper.path.write_bytes(message.as_bytes())


def _csv(paper: Paper) -> None:
    with open(paper.path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("what", "seal"), (paper.body, paper.aside), (FILLER[0], "")])


WRITERS: dict[str, Callable[[Paper], None]] = {
    ".docx": _docx,
    ".xlsx": _xlsx,
    ".pptx": _pptx,
    ".pdf": _pdf,
    ".html": _html,
    ".md": _markdown,
    ".eml": _email,
    ".csv": _csv,
}
"""Suffix → what writes such a file."""
