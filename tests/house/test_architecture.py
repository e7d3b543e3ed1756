"""The pages for people who change rrext stay true: their paths exist, and the rooms are those of the import table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from promises import PROMISES
from test_layers import ANYTHING, GROUND, ROOMS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "rrext" / "ARCHITECTURE.md").read_text(encoding="utf-8")
MAX_LINES = 180
PAGES = ["rrext/ARCHITECTURE.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", ".github/CHANGELOG.md"]

QUOTED = re.compile(r"`([^`\n]+)`")


def rows(title: str) -> list[list[str]]:
    """The cells of each row of the table whose first column has that title."""
    table = PAGE.partition(f"\n| {title} |")[2].partition("\n\n")[0]
    assert table, f"ARCHITECTURE.md has no table `{title}`"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def paths(page: str) -> list[str]:
    """Every path in backquotes or in a command."""
    text = (ROOT / page).read_text(encoding="utf-8")
    said = set(re.findall(r"(?:tests|\.ci)/[\w/.]*\w", text))
    for words in QUOTED.findall(text):
        said |= {word for word in words.split() if re.fullmatch(r"[\w./]+", word) and ("/" in word or word.endswith(".py"))}
    return sorted(said)


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_a_page_exists(page: str) -> None:
    places = [ROOT, *([ROOT / "rrext"] if page == PAGES[0] else [])]
    assert [path for path in paths(page) if not any((place / path).exists() for place in places)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_every_promise_that_a_page_names_is_one() -> None:
    text = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+:[\w:-]+)`", text))
    assert told
    assert told <= set(PROMISES)


def test_the_rooms_of_the_architecture_are_those_of_the_import_table() -> None:
    told = {name: imports(cells[2]) for cells in rows("room") for name in QUOTED.findall(cells[0])}
    assert told == ROOMS


def imports(cell: str) -> set[str]:
    """The rooms that the last column allows."""
    if cell == "anything":
        return ANYTHING
    return set(QUOTED.findall(cell)) | (GROUND if cell.startswith("ground") else set())


def test_a_word_of_the_glossary_has_one_meaning() -> None:
    words = [word for cells in rows("word") for word in cells[0].split(", ")]
    assert len(words) == len(set(words))


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(PAGE.splitlines()) <= MAX_LINES
