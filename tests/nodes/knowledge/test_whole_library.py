"""The tools over a folder of documents of eight formats that `rrext send --sync` has read: few documents, and two thousand."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from knowledge_world import PIPELINE, KnowledgePipeline, knowledge_pipeline
from model_server import Asked, Call, Say, serving
from paper_mill import TOWNS, WRITERS, Paper, make_library

pytest.importorskip("re2", reason="the extra `knowledge` is not installed")
pytest.importorskip("qdrant_edge", reason="the extra `vector` is not installed")
pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")
pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Library:
    """A folder of papers, the pipeline that has read them, and the model that it asks."""

    def __init__(self, folder: Path, papers: list[Paper], pipeline: dict[str, Any]) -> None:
        self.folder = folder
        self.papers = papers
        self.pipeline = pipeline

    def of_kind(self, suffix: str) -> Paper:
        """The last paper of a format."""
        return [paper for paper in self.papers if paper.path.suffix == suffix][-1]

    def name_of(self, paper: Paper) -> str:
        """The path of a paper, as the tools tell it."""
        return paper.path.relative_to(self.folder).as_posix()


@pytest.fixture(scope="module", params=[64, pytest.param(2000, marks=pytest.mark.system)])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("library")
    papers = make_library(folder / "papers", request.param)

    def play(asked: Asked) -> Say:
        """A model that greps its document, and quotes what it found, and one sentence that is not there."""
        if not asked.results:
            return Say(calls=[Call("grep", {"pattern": "widow"})])
        found = json.loads(asked.results[-1])["matches"][0]["text"] if "matches" in asked.results[-1] else asked.results[-1]
        sentence = next(paper.body for paper in papers if paper.body.split(" bought ")[0] in found)
        quotes = ["The moon is made of cheese.", sentence]
        return Say(calls=[Call("final_result", {"answer": "From a widow.", "quotes": quotes})])

    with serving() as server:
        server.plays(play)
        pipeline = deepcopy(PIPELINE)
        bound = [{"classType": "llm", "from": "knowledge_1"}]
        config = {"base_url": server.address, "model": "test", "apikey": "k" * 20}
        pipeline["components"].append({"id": "model_1", "provider": "llm_openai_api", "config": config, "control": bound})
        (folder / "papers.pipe").write_text(json.dumps(pipeline))
        command = [sys.executable, "-m", "rrext", "send", "--sync", "papers.pipe", "papers"]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        summary = json.loads(done.stdout.splitlines()[-1])["summary"]
        assert (summary["new"], summary["failed"]) == (len(papers), 0)
        yield Library(folder, papers, pipeline)


async def walk(pipeline: KnowledgePipeline, tool: str, key: str, **given: Any) -> list[Any]:
    """All entries of all pages."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await pipeline.tool(tool, **given, **({"cursor": cursor} if cursor else {}))
        found += page[key]
        cursor = page["cursor"]
        if cursor is None:
            return found


async def id_of(pipeline: KnowledgePipeline, library: Library, paper: Paper) -> str:
    (found,) = (await pipeline.tool("find_by_name", pattern=library.name_of(paper)))["documents"]
    return found["id"]


async def test_each_document_is_found_by_its_name_and_read_whole(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        found = await walk(pipeline, "find_by_name", "documents", pattern="report*", limit=1000)
        assert sorted(one["path"] for one in found) == sorted(map(library.name_of, library.papers))
        for suffix in WRITERS:
            paper = library.of_kind(suffix)
            ids = [await id_of(pipeline, library, paper)]
            (read,) = (await pipeline.tool("read_document", documents=ids))["documents"]
            words = " ".join(read["text"].split())
            assert paper.body in words
            assert paper.aside in words
            info = await pipeline.tool("document_info", document=ids[0])
            assert (info["source"], info["folder"]) == ("papers", paper.path.parent.name)
            assert info["characters"] == len(read["text"])


async def test_what_one_document_alone_says_is_found_in_it_by_each_way_of_search(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        for suffix in WRITERS:
            paper = library.of_kind(suffix)
            path, year = library.name_of(paper), paper.body.split()[1]
            found = await pipeline.tool("grep_documents", pattern=f"In {year} the")
            assert [hit["path"] for hit in found["hits"]] == [path]
            found = await pipeline.tool("grep_documents", pattern=rf"\bin {year} the \w+", regex=True, ignore_case=True)
            assert [hit["path"] for hit in found["hits"]] == [path]
            found = await pipeline.tool("search_documents", query=f"year {year}", mode="keyword", limit=3)
            assert path in [hit["path"] for hit in found["results"]]
            only = {"types": [suffix[1:]], "folder": f"papers/{paper.path.parent.name}"}
            found = await pipeline.tool("search_documents", query=f"year {year}", mode="keyword", filter=only)
            assert found["results"][0]["path"] == path


async def test_every_document_that_says_a_common_word_is_counted(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        matches = await walk(pipeline, "grep_documents", "documents", pattern="widow", output="files", limit=500)
        assert len(matches) == len(library.papers)
        town = TOWNS[3]
        matches = await walk(
            pipeline,
            "grep_documents",
            "documents",
            pattern="widow",
            output="files",
            filter={"folder": f"papers/{town.lower()}"},
        )
        assert len(matches) == len([paper for paper in library.papers if paper.path.parent.name == town.lower()])


async def test_tables_of_the_documents_are_asked_in_sql(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        paper = library.of_kind(".csv")
        asked = [await id_of(pipeline, library, paper)]
        tables = await pipeline.tool("query_documents", documents=asked)
        (table,) = tables["tables"]
        answer = await pipeline.tool("query_documents", documents=asked, sql=f'SELECT * FROM "{table["table"]}"')
        header, *rows = csv.reader(io.StringIO(paper.path.read_text(encoding="utf-8"), newline=""))
        assert answer["columns"] == header
        assert [[cell or "" for cell in row] for row in answer["rows"]] == rows


async def test_a_model_analyses_a_document_and_only_true_quotes_count(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        for suffix in (".pdf", ".docx"):
            paper = library.of_kind(suffix)
            document = await id_of(pipeline, library, paper)
            answer = await pipeline.tool("analyze_document", document=document, question="From whom were they bought?")
            assert answer["answer"] == "From a widow."
            (citation,) = answer["citations"]
            assert answer["dropped_citations"] == 1
            (read,) = (
                await pipeline.tool(
                    "read_document", documents=[document], start=citation["start"], count=citation["end"] - citation["start"]
                )
            )["documents"]
            assert " ".join(read["text"].split()) == paper.body


async def test_documents_like_a_document_are_others(library: Library) -> None:
    async with knowledge_pipeline(library.folder, library.pipeline) as pipeline:
        document = await id_of(pipeline, library, library.papers[0])
        similar = (await pipeline.tool("find_similar", document=document, limit=5))["documents"]
        assert len(similar) == 5
        assert document not in [one["document"] for one in similar]
