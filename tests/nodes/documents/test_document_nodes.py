"""`parse` and `split` as pipelines have them: lanes, settings, metadata, tools, and what they refuse."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from rrext.errors import InvalidArguments, RrextError, Unavailable
from rrext.nodes import ALIASES
from rrext.nodes.documents.formats import strategy_for
from rrext.nodes.documents.parse import ParseNode
from rrext.nodes.documents.split import BATCH, SplitNode
from rrext.testing import call_tool, open_pipeline, run_node, run_pipeline

from hostile_files import plain_docx  # isort: skip
from paper_mill import write_paper  # isort: skip

MARKDOWN = b"# Fruit\n\nBefore.\n\n| name |\n| --- |\n| apple |\n\nAfter.\n"


def failure(work: Any) -> RrextError:
    with pytest.raises(RrextError) as caught:
        work()
    return caught.value


def pipeline(*providers: str, lanes: tuple[str, ...] = ("text", "table"), **settings: dict[str, Any]) -> dict[str, Any]:
    """A row of nodes behind a webhook; each takes from the one before on the lanes that go there."""
    components: list[dict[str, Any]] = [{"id": "source", "provider": "webhook", "config": {}}]
    before, taken = "source", ("tags",) if providers[0] == "parse" else lanes
    for provider in providers:
        inputs = [{"lane": lane, "from": before} for lane in taken]
        components.append({"id": provider, "provider": provider, "config": settings.get(provider, {}), "input": inputs})
        before, taken = provider, ("documents",) if provider == "split" else lanes
    return {"source": "source", "components": components}


def chunks_of(data: bytes, name: str, mime_type: str = "application/octet-stream", **about: Any) -> list[dict[str, Any]]:
    """The chunks of a file behind parse and split, tables apart unless the settings of parse are given."""
    settings = {"parse": about.pop("parse", {"tables": "apart"}), "split": about.pop("split", {})}
    sent = pipeline("parse", "split", "response_documents", **settings)
    return run_pipeline(sent, data, mimetype=mime_type, objinfo={"name": name, **about})["documents"]


def fruit_docx() -> bytes:
    """A Word file that says what `MARKDOWN` says."""
    document: Any = Document()
    document.add_heading("Fruit", 1)
    document.add_paragraph("Before.")
    table = document.add_table(2, 1)
    table.cell(0, 0).text, table.cell(1, 0).text = "name", "apple"
    document.add_paragraph("After.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


# --- parse ---


def test_text_and_tables_come_in_reading_order_and_tables_stand_in_the_text_too() -> None:
    data, table = fruit_docx(), "| name |\n| --- |\n| apple |\n"
    emitted = run_node(ParseNode, "tags", data[:1000], data[1000:])
    assert emitted == {"text": ["# Fruit\n\nBefore.\n\n", table, "\nAfter.\n"], "table": [table]}


def test_tables_can_be_taken_out_of_the_text() -> None:
    apart = run_pipeline(
        pipeline("parse", "response", parse={"tables": "apart"}), MARKDOWN, mimetype="lane/tags", objinfo={"name": "a.md"}
    )
    assert apart["table"] == ["| name |\n| --- |\n| apple |\n"]
    assert apart["text"] == ["# Fruit\n\nBefore.\n\n\n\n\nAfter.\n\n\n"]
    both = run_pipeline(pipeline("parse", "response"), MARKDOWN, mimetype="lane/tags", objinfo={"name": "a.md"})
    assert both["table"] == apart["table"]
    assert "| apple |" in both["text"][0]


def test_what_the_file_says_becomes_metadata_and_what_the_client_said_stays(tmp_path: Path) -> None:
    paper = write_paper(tmp_path / "a.docx", 1)
    about = {"name": "a.docx", "metadata": {"author": "The client", "case": 7}}
    body = run_pipeline(pipeline("parse", "response"), paper.path.read_bytes(), mimetype="lane/tags", objinfo=about)
    metadata = body["metadata"]
    assert (metadata["author"], metadata["case"], metadata["title"]) == ("The client", 7, paper.title)
    assert metadata["mimeType"].endswith("wordprocessingml.document")


def test_a_document_of_too_many_bytes_is_refused_before_it_is_read_and_while_it_comes() -> None:
    sent = pipeline("parse", "response", parse={"maxBytes": 100})
    for about in ({"name": "a.txt", "size": 101}, {"name": "a.txt"}):
        error = failure(lambda about=about: run_pipeline(sent, b"x" * 101, mimetype="lane/tags", objinfo=about))
        assert (error.code, "maxBytes" in error.message) == ("document_too_large", True)


def test_a_document_without_text_passes_if_that_is_allowed() -> None:
    sent = pipeline("parse", "response", parse={"allowEmpty": True})
    blank = b"<html><body></body></html>"
    assert "text" not in run_pipeline(sent, blank, mimetype="lane/tags", objinfo={"name": "a.html"})
    assert failure(lambda: run_node(ParseNode, "tags", blank)).code == "document_empty"


def given_bytes(data: bytes, **more: str) -> dict[str, Any]:
    return {"content_base64": base64.b64encode(data).decode(), **more}


def test_a_document_that_is_given_is_read() -> None:
    found = call_tool(ParseNode, "parse_document", given_bytes(MARKDOWN, name="a.md"))
    assert found == {
        "text": MARKDOWN.decode(),
        "tables": ["| name |\n| --- |\n| apple |\n"],
        "metadata": {},
        "mime_type": "text/markdown",
    }


def test_a_file_below_the_root_is_read_and_none_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a.docx").write_bytes(plain_docx("Ripe pears."))
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "open" / "link.txt").symlink_to(tmp_path / "secret.txt")

    def read(path: str) -> Any:
        return call_tool(ParseNode, "parse_document", {"path": path}, config={"root": "open"}, root=tmp_path)

    assert read("a.docx")["text"].strip() == "Ripe pears."
    codes = [failure(lambda path=path: read(path)).code for path in ("../secret.txt", "link.txt", "/etc/passwd", "none")]
    assert codes == ["path_outside_root", "path_is_symlink", "path_outside_root", "path_not_found"]


def test_no_file_is_read_without_a_root(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    error = failure(lambda: call_tool(ParseNode, "parse_document", {"path": "a.txt"}, root=tmp_path))
    assert isinstance(error, Unavailable)


@pytest.mark.parametrize("input", [{}, {"path": "a", "content_base64": ""}, {"content_base64": "&"}, {"path": ""}])
def test_bad_input_is_named(input: dict[str, Any]) -> None:
    assert isinstance(failure(lambda: call_tool(ParseNode, "parse_document", input, config={"root": "."})), InvalidArguments)


# --- split ---


def test_chunks_carry_where_they_come_from() -> None:
    chunk = chunks_of(MARKDOWN, "fruit/a.md", path="fruit/a.md", metadata={"case": 7, "chunkId": 99})[-1]
    assert set(chunk) == {
        *("type", "page_content", "embedding", "embedding_model", "score", "highlight_score", "context", "tokens", "metadata")
    }
    assert len(chunk["metadata"].pop("objectId")) == 36
    assert chunk["metadata"] == {
        "case": 7,
        "mimeType": "text/markdown",
        "chunkId": 1,
        "nodeId": "split",
        "parent": "fruit/a.md",
        "permissionId": None,
        "isDeleted": False,
        "isTable": False,
        "tableId": None,
        "signature": None,
        "start": 0,
        "end": 26,
        "line": 1,
        "headings": ["Fruit"],
    }


def test_tables_are_chunks_of_their_own_that_know_their_number_and_headings() -> None:
    data = MARKDOWN + b"\n## Prices\n\n| price |\n| --- |\n" + b"| much more than one |\n" * 3
    chunks = [chunk for chunk in chunks_of(data, "a.md", split={"size": 60, "overlap": 0}) if chunk["metadata"]["isTable"]]
    told = [(chunk["metadata"]["tableId"], chunk["metadata"]["headings"]) for chunk in chunks]
    assert told == [(0, ["Fruit"]), *[(1, ["Fruit", "Prices"])] * 3]
    assert all(chunk["page_content"].startswith("| price |") for chunk in chunks[1:])


def test_the_chunks_of_an_object_are_numbered_and_the_next_object_begins_at_nought() -> None:
    for _ in range(2):
        chunks = chunks_of(b"word " * 400, "a.txt", split={"size": 100})
        assert [chunk["metadata"]["chunkId"] for chunk in chunks] == list(range(len(chunks)))
        assert len(chunks) > 20


@settings(max_examples=20)
@given(st.lists(st.text("ab. \n", max_size=40), min_size=1, max_size=8))
def test_text_in_parts_gives_the_chunks_of_the_whole(parts: list[str]) -> None:
    config = {"size": 16, "overlap": 4}
    written = [part for part in parts if part] or ["a"]
    in_parts = run_node(SplitNode, "text", *written, config=config)
    whole = run_node(SplitNode, "text", "".join(written), config=config)
    assert texts(in_parts) == texts(whole)


@settings(max_examples=30)
@given(
    st.lists(st.text("ab. \n#é", max_size=40), min_size=1, max_size=8),
    st.sampled_from(["characters", "sentences", "markdown", "code"]),
    st.integers(0, 8),
)
@pytest.mark.promise("document:split:range")
def test_a_chunk_is_the_characters_of_the_whole_text_from_its_start_to_its_end(
    parts: list[str], strategy: str, overlap: int
) -> None:
    written = [part for part in parts if part] or ["a"]
    config = {"size": 16, "overlap": overlap, "strategy": strategy}
    text = "".join(written)
    for batch in run_node(SplitNode, "text", *written, config=config).get("documents", []):
        for chunk in batch:
            assert chunk["page_content"] == text[chunk["metadata"]["start"] : chunk["metadata"]["end"]]
    again = [{"page_content": text[3:], "metadata": {"start": 3}}]  # a piece of it that somebody else has made
    for batch in run_node(SplitNode, "documents", again, config=config).get("documents", []):
        for chunk in batch:
            assert chunk["page_content"] == text[chunk["metadata"]["start"] : chunk["metadata"]["end"]]


@pytest.mark.promise("document:split:range")
def test_a_table_that_is_in_the_text_too_has_its_range_there_and_another_has_none() -> None:
    table = "| price |\n| --- |\n" + "| much more than one |\n" * 3
    data = MARKDOWN + b"\n## Prices\n\n" + table.encode() + b"\nThe end.\n"
    for parse in ({}, {"tables": "apart"}):
        chunks = chunks_of(data, "a.md", parse=parse, split={"size": 60, "overlap": 0})
        text = "".join(chunk["page_content"] for chunk in chunks if not chunk["metadata"]["isTable"])
        tables = [chunk["metadata"] for chunk in chunks if chunk["metadata"]["tableId"] == 1]
        assert len(tables) == 3
        if parse:
            assert not {"start", "end"} & {name for place in tables for name in place}
        else:
            assert {text[place["start"] : place["end"]].strip() for place in tables} == {table.strip()}


def texts(emitted: dict[str, list[Any]]) -> list[str]:
    return [chunk["page_content"] for batch in emitted.get("documents", []) for chunk in batch]


def test_chunks_go_on_in_batches() -> None:
    emitted = run_node(SplitNode, "text", "word " * 20_000, config={"size": 20, "overlap": 0})
    assert [len(batch) for batch in emitted["documents"][:-1]] == [BATCH] * (len(emitted["documents"]) - 1)
    assert "".join(texts(emitted)) == "word " * 20_000


def test_documents_are_split_each_by_itself_and_stay_of_their_object() -> None:
    documents = [
        {"page_content": "One two three four five.", "metadata": {"objectId": "x", "parent": "/x", "chunkId": 5, "extra": 1}},
        {"page_content": "Six.", "metadata": {"objectId": "x"}},
        {"page_content": "Seven."},
    ]
    emitted = run_node(SplitNode, "documents", documents, config={"size": 16, "overlap": 0})
    told = [
        (chunk["page_content"], metadata["objectId"] == "x", metadata["chunkId"], metadata.get("extra"))
        for batch in emitted["documents"]
        for chunk in batch
        for metadata in [chunk["metadata"]]
    ]
    assert told == [
        ("One two three ", True, 0, 1),
        ("four five.", True, 1, 1),
        ("Six.", True, 2, None),
        ("Seven.", False, 0, None),
    ]


@pytest.mark.parametrize(
    ("name", "mime_type", "strategy"),
    [
        ("a.md", "", "markdown"),
        ("a.py", "text/plain", "code"),
        ("a.bin", "text/javascript", "code"),
        ("a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "markdown"),
        ("a.md", "application/pdf", "characters"),
        ("a.txt", "text/plain; charset=utf-8", "characters"),
        ("", "", "characters"),
    ],
)
def test_the_strategy_fits_the_document(name: str, mime_type: str, strategy: str) -> None:
    assert strategy_for(name, mime_type) == strategy
    found = call_tool(SplitNode, "split", {"text": "x", "name": name, "mime_type": mime_type})
    assert found["strategy"] == strategy


def test_a_text_is_split_for_a_caller() -> None:
    found = call_tool(SplitNode, "split", {"text": "# A\nOne.\n# B\nTwo.", "strategy": "markdown", "size": 16})
    assert found["chunks"] == [
        {"text": "# A\nOne.\n", "start": 0, "end": 9, "line": 1, "headings": ["A"]},
        {"text": "# B\nTwo.", "start": 9, "end": 17, "line": 3, "headings": ["B"]},
    ]


@pytest.mark.parametrize(
    "input", [{}, {"text": "x", "size": 15}, {"text": "x", "size": 20, "overlap": 11}, {"text": "x", "strategy": "words"}]
)
def test_sizes_that_make_no_sense_are_refused(input: dict[str, Any]) -> None:
    assert isinstance(failure(lambda: call_tool(SplitNode, "split", input)), InvalidArguments)


@pytest.mark.parametrize("config", [{"size": 15}, {"size": 100, "overlap": 51}, {"overlap": -1}])
def test_settings_that_make_no_sense_are_named(config: dict[str, Any]) -> None:
    error = failure(lambda: call_tool(SplitNode, "split", {"text": "x"}, config=config))
    assert isinstance(error, Unavailable)
    assert '"size"' in error.message or '"overlap"' in error.message


def test_tokens_are_counted_by_the_tokenizer_of_a_folder(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    (tmp_path / "model").mkdir()
    tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    config = {"unit": "tokens", "size": 16, "overlap": 0, "tokenizer": "model"}
    found = call_tool(SplitNode, "split", {"text": "word " * 40}, config=config, root=tmp_path)
    assert [len(chunk["text"].split()) for chunk in found["chunks"]] == [16, 16, 8]


def test_a_tokenizer_that_cannot_be_read_or_is_elsewhere_is_named(tmp_path: Path) -> None:
    for name, said in (("none", "cannot be read"), ("../elsewhere", "leads out of the root")):
        config = {"unit": "tokens", "tokenizer": name}
        error = failure(lambda config=config: call_tool(SplitNode, "split", {"text": "x"}, config=config, root=tmp_path))
        assert (error.code, said in error.message) == ("unavailable", True)


def test_older_names_mean_the_same() -> None:
    assert {ALIASES["preprocessor_langchain"], ALIASES["preprocessor_code"]} == {"split"}


async def test_objects_at_the_same_time_do_not_mix() -> None:
    sent = pipeline("parse", "split", "response_documents", parse={"tables": "apart"})
    async with open_pipeline(sent) as client:

        async def send(n: int) -> str:
            body = await client.send(f"Only {n}.".encode(), mimetype="lane/tags", objinfo={"name": f"{n}.txt"})
            return "".join(chunk["page_content"] for chunk in body["documents"])

        assert await asyncio.gather(*map(send, range(30))) == [f"Only {n}." for n in range(30)]
