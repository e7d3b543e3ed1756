"""A folder of real documents, from files to answers: sent, parsed, split, embedded, searched, listed, read, deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rrext.client.client import Client
from rrext.testing import open_pipeline

from hostile_files import plain_docx  # isort: skip
from paper_mill import WRITERS, Paper, make_library  # isort: skip

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "tests" / "examples" / "documents.pipe"
INSTALLED = 25
FOUND_AMONG = 3


class Archive(msgspec.Struct, frozen=True):
    """The example's pipeline in a folder of its own, with documents below `library` and their store once they are sent."""

    folder: Path
    papers: list[Paper]
    installed: list[Path]

    @property
    def pipeline(self) -> Path:
        return self.folder / EXAMPLE.name


def installed_documents(folder: Path) -> list[Path]:
    """What people really wrote: the Markdown, reStructuredText and CSV that came with packages, copied into a folder."""
    found: list[Path] = []
    names = {
        str(path.locate())
        for package in distributions()
        for path in package.files or ()
        if path.suffix in (".md", ".rst", ".csv") and ".." not in path.parts
    }
    folder.mkdir()
    for name in sorted(names):
        source = Path(name)
        if len(found) < INSTALLED and source.is_file() and 200 < source.stat().st_size < 100_000:
            target = folder / f"{len(found):02} {source.name}"
            shutil.copyfile(source, target)
            found.append(target)
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = tmp_path_factory.mktemp("archive")
    shutil.copyfile(EXAMPLE, folder / EXAMPLE.name)
    library = folder / "library"
    papers = make_library(library)
    return Archive(folder, papers, installed_documents(library / "installed"))


@pytest.fixture(scope="module")
async def client(archive: Archive) -> AsyncIterator[Client]:
    """The pipeline with all documents in its store."""
    async with open_pipeline(archive.pipeline) as found:
        results = await found.send_files([archive.folder / "library"])
        assert [result.error for result in results if not result.ok] == []
        assert len(results) == len(archive.papers) + len(archive.installed)
        yield found


async def call(client: Client, tool: str, **input: Any) -> Any:
    return await client.tool(tool=tool, node_id="store_1", input=input)


def test_the_folder_is_large_and_mixed_enough_to_mean_something(archive: Archive) -> None:
    assert len(archive.papers) >= 50
    assert {paper.path.suffix for paper in archive.papers} == set(WRITERS)
    assert len(WRITERS) >= 6
    assert len(archive.installed) >= 10


async def test_every_known_sentence_is_found_in_its_document(client: Client, archive: Archive) -> None:
    missed: list[str] = []
    for paper in archive.papers:
        for sentence in (paper.body, paper.aside):
            found = await call(client, "search", query=sentence, top_k=FOUND_AMONG)
            if str(paper.path) not in [hit["metadata"]["parent"] for hit in found["results"]]:
                missed.append(f"{paper.path.name}: {sentence}")
    assert missed == []


async def test_a_hit_says_where_it_comes_from_and_what_the_file_said_of_itself(client: Client, archive: Archive) -> None:
    paper = next(paper for paper in archive.papers if paper.path.suffix == ".docx")
    hit = (await call(client, "search", query=paper.aside, top_k=1))["results"][0]
    about = hit["metadata"]
    assert (about["title"], about["author"], about["parent"]) == (paper.title, paper.author, str(paper.path))
    assert (about["isTable"], about["tableId"], about["headings"], about["nodeId"]) == (True, 0, [paper.title], "split_1")
    assert about["mimeType"].endswith("wordprocessingml.document")


async def test_every_document_is_listed_and_its_chunks_are_counted(client: Client, archive: Archive) -> None:
    listing = await call(client, "list", limit=10_000)
    documents = [*(paper.path for paper in archive.papers), *archive.installed]
    assert set(listing["paths"]) == {str(path) for path in documents}
    assert listing["total"] == len(documents)
    stats = await call(client, "stats")
    assert stats["count"] == sum(listing["counts"].values())
    assert (stats["objects"], stats["model"]) == (len(documents), "hashing-384")


async def test_the_chunks_of_a_text_are_the_text(client: Client, archive: Archive) -> None:
    listing = await call(client, "list", limit=10_000)
    for path in archive.installed:
        if path.suffix != ".rst":
            continue
        chunks = (await call(client, "get", object_id=listing["paths"][str(path)], limit=1000))["chunks"]
        assert [chunk["chunkId"] for chunk in chunks] == list(range(len(chunks)))
        text = path.read_text(encoding="utf-8")
        assert all(chunk["content"] in text for chunk in chunks)


async def test_what_is_sent_again_is_there_once(client: Client, archive: Archive) -> None:
    before = await call(client, "stats")
    results = await client.send_files([paper.path for paper in archive.papers[:3]])
    assert all(result.ok for result in results)
    after = await call(client, "stats")
    assert (after["objects"], after["count"]) == (before["objects"], before["count"])


async def test_deleted_documents_are_found_no_more(client: Client, archive: Archive) -> None:
    town = archive.papers[0].path.parent
    gone = [paper for paper in archive.papers if paper.path.parent == town]
    before = await call(client, "list", parent=str(town))
    answer = await call(client, "delete", prefix=str(town))
    assert answer["deleted_count"] == sum(before["counts"].values())
    assert (await call(client, "list", parent=str(town)))["total"] == 0
    for paper in gone:
        hits = (await call(client, "search", query=paper.body))["results"]
        assert str(paper.path) not in [hit["metadata"]["parent"] for hit in hits]


def test_the_command_line_sends_a_folder_and_says_what_failed(archive: Archive, tmp_path: Path) -> None:
    shutil.copyfile(EXAMPLE, tmp_path / EXAMPLE.name)
    inbox = tmp_path / "inbox"
    make_library(inbox, len(WRITERS))
    (inbox / "cut.docx").write_bytes(plain_docx("cut off")[:2000])
    (inbox / "empty.pdf").write_bytes(b"")
    done = rrext("send", EXAMPLE.name, "inbox", cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert {line["path"]: line["error"]["code"] for line in lines if "error" in line} == {
        "inbox/cut.docx": "document_corrupt",
    }
    assert len([line for line in lines if "error" not in line]) == len(WRITERS) + 1
    assert "9 done, 1 failed" in done.stderr
    searched = rrext(
        "tool", EXAMPLE.name, "search", "--input", '{"query": "lighthouse keeper of Ostend", "top_k": 1}', cwd=tmp_path
    )
    assert json.loads(searched.stdout)["results"][0]["metadata"]["title"] == "Report 0 of the year 1700"


def rrext(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "rrext", *args]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50)
