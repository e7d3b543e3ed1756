"""Parts of a run on their own: output, progress, files, and what a result looks like."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lsprotocol import types

from rrext.faces.lsp.runs.engine import MAX_RUN_OUTPUT, MAX_UNFINISHED_LINE, EngineOutput
from rrext.faces.lsp.runs.results import ResultFiles, shown
from rrext.faces.lsp.runs.runner import WorkProgress


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.text(max_size=80), st.lists(st.integers(0, 200), max_size=8))
def test_output_is_told_in_whole_lines_wherever_it_was_cut(text: str, places: list[int]) -> None:
    told: list[str] = []
    output = EngineOutput(told.append)
    data = f"{text}\n".encode()
    for piece in cut(data, places):
        output(piece)
    assert "\n".join(told) == data.decode().removesuffix("\n")


def test_bytes_that_are_no_text_are_told_all_the_same() -> None:
    told: list[str] = []
    EngineOutput(told.append)(b"caf\xe9\n")
    assert told == ["caf\ufffd"]


def test_a_line_without_end_is_told_when_it_is_long() -> None:
    told: list[str] = []
    output = EngineOutput(told.append)
    output(b"x" * MAX_UNFINISHED_LINE)
    assert told == []
    output(b"x")
    assert told == ["x" * (MAX_UNFINISHED_LINE + 1)]


def test_a_flood_is_told_up_to_its_share_and_then_that_there_is_more() -> None:
    told: list[str] = []
    output = EngineOutput(told.append)
    for _ in range(3 * MAX_RUN_OUTPUT // 1000):
        output(b"y" * 999 + b"\n")
    assert sum(map(len, told)) <= MAX_RUN_OUTPUT + 1000
    assert "more output" in told[-1]
    output.refill()
    output(b"again\n")
    assert told[-1] == "again"


# progress


class Listener:
    """A server that keeps what its client is told."""

    def __init__(self, *, supported: bool = True) -> None:
        self.told: list[dict[str, Any]] = []
        self.cancelled = 0
        self.protocol = SimpleNamespace(send_notification=self._tell, progress=SimpleNamespace(tokens={}))
        window = types.WindowClientCapabilities(work_done_progress=supported)
        self.window_work_done_progress_create_async: Any = None
        self.client_capabilities = types.ClientCapabilities(window=window)

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        assert method == "$/progress"
        self.told.append(params["value"])

    def cancel(self) -> None:
        self.cancelled += 1

    def progress(self, token: str | None = "mine") -> WorkProgress:
        return WorkProgress(cast("Any", self), token, "work", self.cancel)

    async def until_told(self, count: int) -> None:
        while len(self.told) < count:
            await asyncio.sleep(0)


async def test_of_many_reports_at_once_the_newest_is_told() -> None:
    listener = Listener()
    progress = listener.progress()
    progress.start()
    for step in range(1000):
        progress.report(f"step {step}", step / 1000)
    await listener.until_told(1)
    assert listener.told == [
        {"kind": "begin", "title": "work", "cancellable": True, "message": "step 999", "percentage": 99},
    ]
    progress.end("done")
    progress.end("done")
    assert [value["kind"] for value in listener.told] == ["begin", "end"]


async def test_a_share_never_falls_and_is_a_percentage() -> None:
    listener = Listener()
    progress = listener.progress()
    progress.start()
    for number, share in enumerate((0.5, 0.2, 7.0, -3.0), 1):
        progress.report("x", share)
        await listener.until_told(number)
    assert [value["percentage"] for value in listener.told] == [50, 50, 100, 100]
    progress.end("done")


async def test_what_is_over_at_once_is_not_shown() -> None:
    listener = Listener()
    progress = listener.progress()
    progress.start()
    progress.end("done")
    progress.report("late")
    assert listener.told == []
    assert listener.protocol.progress.tokens == {}


async def test_the_persons_cancel_is_heard() -> None:
    listener = Listener()
    progress = listener.progress()
    progress.start()
    listener.protocol.progress.tokens["mine"].cancel()
    assert listener.cancelled == 1
    progress.end("cancelled")
    assert listener.cancelled == 1


async def test_a_client_that_takes_a_token_late_is_told_all_the_same() -> None:
    listener = Listener()
    asked, taken = asyncio.Event(), asyncio.Event()

    async def take(_: types.WorkDoneProgressCreateParams) -> None:
        asked.set()
        await taken.wait()

    listener.window_work_done_progress_create_async = take
    progress = listener.progress(None)
    progress.start()
    await asked.wait()
    assert listener.told == []
    taken.set()
    await listener.until_told(1)
    assert listener.told == [{"kind": "begin", "title": "work", "cancellable": True}]
    progress.end("done")


async def test_a_client_that_shows_none_is_told_none() -> None:
    listener = Listener(supported=False)
    progress = listener.progress(None)
    progress.start()
    progress.report("x", 0.5)
    progress.end("done")
    assert listener.told == []


# results


@pytest.mark.parametrize(
    ("value", "extension"),
    [
        ({"a": 1}, ".json"),
        ([], ".json"),
        (None, ".json"),
        (7, ".json"),
        ("", ".txt"),
        ("plain\n#not a heading", ".txt"),
        ("#hashtag", ".txt"),
        ("# Title\n", ".md"),
        ("\n\n## Title", ".md"),
        ("see:\n```\ncode\n```", ".md"),
        (b"", ".bin"),
        (b"\xff\xd8\xff\xe0", ".jpg"),
        (b"%PDF-1.7", ".pdf"),
    ],
)
def test_a_result_has_the_extension_of_what_it_is(value: Any, extension: str) -> None:
    result = shown(value)
    assert result.extension == extension
    if extension == ".json":
        assert json.loads(result.content) == value
    else:
        assert result.content == (value.encode() if isinstance(value, str) else value)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("#` \n\ud800"), max_size=200))
def test_any_text_can_be_shown(text: str) -> None:
    assert shown(text).content == text.encode("utf-8", "replace")


@given(name=st.text(max_size=120))
@example(name="𐐀" * 120)
@example(name="../../x")
async def test_any_name_is_the_name_of_a_file_in_its_own_folder(name: str) -> None:
    files = ResultFiles()
    try:
        path = await files.write("untitled:x", f"{name}.x", shown("text"))
        assert path.read_text() == "text"
        assert path.parent.parent.name.startswith("rrext-")
    finally:
        await files.aclose()
    assert not path.parent.parent.exists()
