"""Files, texts and questions that an editor sends through a pipeline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faces.lsp.desks import Desk, desk

from rrext.pipefile.text.source import read

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    (tmp_path / "data").mkdir()
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / "data" / name).write_text(f"text of {name}")
    async with desk(tmp_path) as found:
        yield found


async def test_a_text_goes_through_the_pipeline(bench: Desk) -> None:
    answer = await bench.ask("rrext.sendFile", {"text": "hello"})
    assert (answer["ok"], answer["result"]["text"]) == (True, ["HELLO\n\n"])
    assert answer["uri"].endswith("bench.send.json")


async def test_a_file_is_found_beside_the_pipeline(bench: Desk) -> None:
    for path in ("data/a.txt", ["data/a.txt"], str(bench.folder / "data" / "a.txt")):
        answer = await bench.ask("rrext.sendFile", {"path": path})
        assert (answer["result"]["name"], answer["result"]["text"]) == ("a.txt", ["TEXT OF A.TXT\n\n"])


async def test_several_files_give_a_result_each(bench: Desk) -> None:
    answer = await bench.ask("rrext.sendFile", {"path": ["data/a.txt", "data/b.txt"]})
    assert [(one["path"], one["result"]["text"]) for one in answer["result"]] == [
        ("data/a.txt", ["TEXT OF A.TXT\n\n"]),
        ("data/b.txt", ["TEXT OF B.TXT\n\n"]),
    ]
    everything = await bench.ask("rrext.sendFile", {"path": "data"})
    assert [one["path"] for one in everything["result"]] == ["data/a.txt", "data/b.txt", "data/c.md"]


async def test_a_mime_type_may_be_given(bench: Desk) -> None:
    answer = await bench.ask("rrext.sendFile", {"path": "data/c.md", "mimeType": "application/octet-stream"})
    assert answer["ok"]
    assert "text" not in answer["result"]


async def test_what_failed_is_told_with_what_did_not(bench: Desk) -> None:
    (bench.folder / "data" / "b.txt").write_text("boom")
    answer = await bench.ask("rrext.sendFile", {"path": ["data/a.txt", "data/b.txt"]})
    assert not answer["ok"]
    assert answer["error"]["code"] == "files_failed"
    assert "1 of 2 files failed; data/b.txt: " in answer["error"]["message"]
    assert "too much" in answer["error"]["message"]
    (first, second) = answer["result"]["files"]
    assert first["result"]["text"] == ["TEXT OF A.TXT\n\n"]
    assert "too much" in second["error"]["message"]
    (mark,) = await bench.marks()
    assert "1 of 2 files failed" in mark["message"]


async def test_a_single_file_fails_with_its_own_reason(bench: Desk) -> None:
    (bench.folder / "data" / "b.txt").write_text("boom")
    answer = await bench.ask("rrext.sendFile", {"path": "data/b.txt"})
    assert "too much" in answer["error"]["message"]
    gone = await bench.ask("rrext.sendFile", {"path": "data/gone.txt"})
    assert "No such file" in gone["error"]["message"]


async def test_either_a_path_or_a_text_is_sent(bench: Desk) -> None:
    error = await bench.refused("rrext.sendFile", {"path": "a.txt", "text": "a"})
    assert error["data"]["errors"][0]["path"] == "/text"


async def test_a_question_is_answered(tmp_path: Path) -> None:
    text = (EXAMPLES / "chat.pipe").read_text()
    async with desk(tmp_path, text) as bench:
        answer = await bench.ask("rrext.chat", {"question": "When do you open?"})
        assert answer["result"]["answers"] == ["The library is open from nine to five."]
        whole = {"type": "question", "questions": [{"text": "hello there"}]}
        answer = await bench.ask("rrext.chat", {"question": whole})
        assert answer["result"]["answers"] == ["You said: hello there"]
        refused = await bench.ask("rrext.sendFile", {"text": "no question"})
        assert refused["error"]["code"] == "invalid_arguments"


async def test_a_real_tool_reads_a_real_file_as_the_command_line_does(tmp_path: Path) -> None:
    text = (EXAMPLES / "filesystem.pipe").read_text()
    async with desk(EXAMPLES, text) as library:
        library.uri = (EXAMPLES / "filesystem.pipe").as_uri()
        library.editor.open(text, library.uri)
        names = await library.run("list_directory")
        assert names["ok"], names
        (name, *_) = [entry["name"] for entry in names["result"]["entries"] if entry["type"] == "file"]
        answer = await library.run("read_file", {"path": name})
        assert answer["result"]["content"] == (EXAMPLES / "library" / name).read_text()
        near = await library.run("read_file", {"pth": name})
        assert 'did you mean "path"' in near["error"]["message"]
        missing = await library.run("read_file", {"path": "gone.txt"})
        assert not missing["ok"]
        (mark,) = await library.marks()
        line = text.splitlines()[mark["range"]["start"]["line"]]
        assert '"files_1"' in line


async def test_relative_settings_are_confined_to_a_root_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    text = json.loads((EXAMPLES / "filesystem.pipe").read_text())
    text["components"][1]["config"]["root"] = "../outside"
    async with desk(tmp_path, json.dumps(text), root=str(tmp_path / "inside")) as bench:
        answer = await bench.run("list_directory")
        assert not answer["ok"]


async def test_files_and_questions_find_their_sources_in_a_pipeline_of_both(tmp_path: Path) -> None:
    """The usual shape of RocketRide's pipelines: ingest and chat in one file, and `source` names neither."""
    whole = read((EXAMPLES / "chat.pipe").read_text()).value
    whole.pop("source", None)
    whole["components"] += [
        {"id": "in_1", "provider": "webhook", "config": {"mode": "Source"}},
        {"id": "out_1", "provider": "response_text", "input": [{"lane": "text", "from": "in_1"}]},
    ]
    async with desk(tmp_path, json.dumps(whole)) as bench:
        answer = await bench.ask("rrext.chat", {"question": "When do you open?"})
        assert answer["result"]["answers"] == ["The library is open from nine to five."]
        answer = await bench.ask("rrext.sendFile", {"text": "hello"})
        assert answer["result"]["text"] == ["hello\n\n"]
