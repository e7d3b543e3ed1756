"""Whatever is edited, and however: the server sees the text that the client sees, and tells of that text's problems alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from editor.unit_oracle import NaiveText, units_of
from faces.lsp.editors import SHOWN, URI, Editor
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from rrext.editor import analysis as analysis_module
from rrext.editor.analysis import AnalysisSettings, analyse
from rrext.editor.text import Unit
from rrext.faces.lsp.diagnostics import as_told
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment

URIS = [URI, "file:///project/%C3%A9.pipe", "untitled:1"]
UNITS: tuple[Unit, ...] = ("utf-8", "utf-16", "utf-32")
HALVES = ["\ud83d", "\ude00"]
PIECES = [
    '{"components": [',
    '{"id": "é😀", "provider": "webhok", "config": {"x": 1}}',
    '{"id": "in", "provider": "webhook", "config": {}}',
    '"input": [{"lane": "text", "from": "字"}]',
    "]}",
    *'{}[]:,"',
    "\n",
    "\r",
    "\r\n",
    "\u2028",
    "\x0c",
    "// c\n",
    "😀",
    "e\u0301",
    "null",
]

plain = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
halved = st.lists(st.sampled_from([*PIECES, *HALVES]), max_size=6).map("".join)
anywhere = st.tuples(st.integers(-1, 8), st.one_of(st.integers(-1, 60), st.just(2**31 - 1)))
spots = st.one_of(anywhere, st.floats(0, 1))
"""A place that may be outside of everything, or a share of the text's length, which is a place at a character's edge."""
uris = st.sampled_from(URIS)


def operations(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    change = st.one_of(st.tuples(st.just("range"), spots, spots, texts), st.tuples(st.just("all"), texts))
    return st.lists(
        st.one_of(
            st.tuples(st.just("open"), uris, texts),
            st.tuples(st.just("change"), uris, st.lists(change, max_size=3)),
            st.tuples(st.just("change"), uris, st.lists(change, max_size=3)),
            st.tuples(st.just("close"), uris),
            st.tuples(st.just("breathe")),
        ),
        max_size=12,
    )


class Client:
    """An editor that keeps its documents in the slow and obvious way."""

    def __init__(self, editor: Editor, unit: Unit) -> None:
        self.editor = editor
        self.unit: Unit = unit
        self.views: dict[str, NaiveText] = {}
        self.versions: dict[str, int] = {}

    async def do(self, what: str, *more: Any) -> None:
        if what == "breathe":
            await asyncio.sleep(0)
            return
        uri, *rest = more
        if what == "open":
            self.views[uri] = NaiveText(rest[0], self.unit)
            self.editor.open(rest[0], uri)
        elif uri not in self.views:
            return
        elif what == "close":
            del self.views[uri]
            self.editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        else:
            self.editor.change(*[self.change(self.views[uri], *change) for change in rest[0]], uri=uri)
        self.versions[uri] = self.editor._version

    def change(self, view: NaiveText, kind: str, *more: Any) -> dict[str, Any]:
        """A change as it travels; the view has it already."""
        if kind == "all":
            view.units = units_of(more[0], self.unit)
            return {"text": more[0]}
        start, end = (self.place(view, spot) for spot in more[:2])
        view.replace(start, end, more[2])
        shown = [{"line": line, "character": character} for line, character in (start, end)]
        return {"range": {"start": shown[0], "end": shown[1]}, "rangeLength": 0, "text": more[2]}

    def place(self, view: NaiveText, spot: Any) -> tuple[int, int]:
        if isinstance(spot, tuple):  # in UTF-8 not inside of a character, where no client can be
            return spot if self.unit != "utf-8" else (spot[0], 0)
        text = view.text
        offset = round(spot * len(text))
        if text[offset - 1 : offset + 1] == "\r\n":
            offset -= 1
        return view.place(len(units_of(text[:offset], self.unit)))


def expected(view: NaiveText) -> list[tuple[Any, ...]]:
    """Code, message and range of each problem of a text, looked at for the first time, in the client's units."""
    text = view.text
    fresh = analyse(text, AnalysisSettings(Catalog(installed=False), Environment.of_process(())))
    found = []
    for problem in fresh.problems:
        offsets = [offset - (text[offset - 1 : offset + 1] == "\r\n") for offset in fresh.map.span_of(problem)]
        found.append(
            (
                problem.code,
                as_told(problem.message),
                *(view.place(len(units_of(text[:offset], view.unit))) for offset in offsets),
            )
        )
    return found


def told(diagnostics: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    def place(position: dict[str, int]) -> tuple[int, int]:
        return position["line"], position["character"]

    return [
        (found["code"], found["message"], place(found["range"]["start"]), place(found["range"]["end"])) for found in diagnostics
    ]


async def assert_same_view(unit: Unit, wanted: list[tuple[Any, ...]]) -> None:
    editor = Editor()
    capabilities = await editor.start(units=[unit])
    assert capabilities["positionEncoding"] == unit
    client = Client(editor, unit)
    for operation in wanted:
        await client.do(*operation)
    for uri, view in client.views.items():
        assert editor.server.documents.get(uri).state.text.content == view.text
        assert told(await editor.diagnostics(uri, client.versions[uri])) == expected(view)
    assert {document.uri for document in editor.server.documents} == set(client.views)
    for uri in set(client.versions) - set(client.views):
        last = [message for message in editor.messages if message.get("params", {}).get("uri") == uri][-1]
        assert last["params"]["diagnostics"] == []


@pytest.mark.promise("editor:view:clients-text")
@given(operations(halved))
async def test_any_edits_in_utf_16_leave_the_server_with_the_clients_text(wanted: list[tuple[Any, ...]]) -> None:
    await assert_same_view("utf-16", wanted)


@pytest.mark.promise("editor:view:clients-text")
@given(operations(plain), st.sampled_from(["utf-8", "utf-32"]))
async def test_any_edits_in_other_units_leave_the_server_with_the_clients_text(
    wanted: list[tuple[Any, ...]], unit: Unit
) -> None:
    await assert_same_view(unit, wanted)


async def test_a_document_is_told_of_with_its_version_and_forgotten_when_it_is_closed() -> None:
    editor = Editor()
    await editor.start()
    editor.open("{")
    assert await editor.diagnostics(version=1)
    editor.change({"text": "["})
    assert await editor.diagnostics(version=2)
    editor.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert editor.messages[-1]["params"] == {"uri": URI, "diagnostics": []}
    editor.change({"text": "{"})
    assert editor.server.documents.find(URI) is None


@pytest.mark.parametrize("version", [None, 0, -5, 2**31])
async def test_any_version_comes_back_as_it_was(version: int | None) -> None:
    editor = Editor()
    await editor.start()
    item = {"uri": URI, "languageId": "pipe", "text": "{"} | ({} if version is None else {"version": version})
    editor.notify("textDocument/didOpen", {"textDocument": item})
    published = await editor.until(lambda message: message.get("method") == "textDocument/publishDiagnostics")
    assert published["params"].get("version") == version


async def test_an_edit_that_cannot_be_read_makes_its_document_unknown_and_that_is_told() -> None:
    editor = Editor()
    await editor.start()
    editor.open("{")
    await editor.diagnostics()
    editor.change({"range": {"start": {"line": 0}}, "text": "x"})
    assert editor.server.documents.find(URI) is None
    shown = [message["params"] for message in editor.messages if message.get("method") == "window/showMessage"]
    assert [params["type"] for params in shown] == [1]
    assert "rrext lost track of file:///project/test.pipe" in shown[0]["message"]
    assert editor.messages[-1]["params"]["message"] == shown[0]["message"] or editor.messages[-1]["params"]["diagnostics"] == []
    editor.open("[")
    assert (await editor.diagnostics())[0]["code"] == "unclosed"


class SlowAnalysis:
    """Lets analyses begin, and end when a test says so. `thread` is that of the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, gives_up: bool = True) -> None:
        self.gives_up = gives_up
        self.seen: list[str] = []
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.current_thread()
        self._analyse = analysis_module.analyse
        monkeypatch.setattr("rrext.faces.lsp.documents.analyse", self)

    def __call__(self, text: str, *more: Any, **how: Any) -> Any:
        self.seen.append(text)
        self.thread = threading.current_thread()
        self.begun.release()
        self.go_on.acquire()
        if not self.gives_up:
            del how["stop"]
        return self._analyse(text, *more, **how)


async def test_what_was_edited_meanwhile_is_neither_looked_at_nor_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowAnalysis(monkeypatch)
    editor = Editor()
    await editor.start()
    editor.open("0")
    await asyncio.to_thread(slow.begun.acquire)
    for text in ("1", "2", "[3"):
        editor.change({"text": text})
    slow.go_on.release()
    await asyncio.to_thread(slow.begun.acquire)
    slow.go_on.release()
    await editor.diagnostics()
    assert slow.seen == ["0", "[3"]
    published = [message["params"] for message in editor.messages if message.get("method") == "textDocument/publishDiagnostics"]
    assert [params["version"] for params in published] == [4]


async def test_closing_gives_up_what_is_looked_at_ends_the_thread_and_leaves_no_request_unanswered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = SlowAnalysis(monkeypatch)
    editor = Editor()
    await editor.start()
    editor.open("[0]")
    await asyncio.to_thread(slow.begun.acquire)
    before = editor.post("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    await asyncio.sleep(0)
    await editor.server.aclose()
    slow.go_on.release(2)  # the thread may still come to the request, after the analysis that was given up
    assert (await editor.answer(before))["error"]["data"]["code"] == "cancelled"
    after = await editor.failure("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    assert after["data"]["code"] == "cancelled"
    await asyncio.to_thread(slow.thread.join)


async def test_an_analysis_that_ends_after_the_close_sends_nothing_and_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowAnalysis(monkeypatch, gives_up=False)
    editor = Editor()
    await editor.start()
    reads = asyncio.Event()

    async def taken() -> None:
        await reads.wait()

    editor.server.documents.taken = taken
    own = asyncio.all_tasks()
    editor.open("[0]", "file:///project/first.pipe")
    editor.open("[1]", "file:///project/second.pipe")
    slow.go_on.release()
    await editor.diagnostics("file:///project/first.pipe", version=1)
    assert asyncio.all_tasks() - own, "the first document waits until its diagnostics are read"
    before = len(editor.messages)
    await editor.server.aclose()
    slow.go_on.release()
    await asyncio.to_thread(slow.thread.join)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == own
    assert len(editor.messages) == before


async def test_a_client_that_does_not_read_is_told_of_the_newest_state_alone() -> None:
    editor = Editor()
    await editor.start()
    reads = asyncio.Event()

    async def taken() -> None:
        await reads.wait()

    editor.server.documents.taken = taken
    editor.open("0")
    await editor.diagnostics()
    before = len(editor.messages)
    for number in range(5):
        editor.change({"text": f"[{number}"})
        await editor.server.analysis_of(URI)
    editor.change({"text": "[5"})
    assert len(editor.messages) == before
    reads.set()
    await editor.diagnostics()
    assert len(editor.messages) == before + 1


async def test_the_newest_state_is_told_though_it_was_looked_at_for_a_request_before() -> None:
    editor = Editor()
    await editor.start()
    reads = asyncio.Event()

    async def taken() -> None:
        await reads.wait()

    editor.server.documents.taken = taken
    editor.open("0")
    await editor.diagnostics()
    editor.change({"text": "["})
    await editor.server.analysis_of(URI)
    reads.set()
    assert (await editor.diagnostics())[0]["code"] == "unclosed"


async def test_a_bug_in_an_analysis_is_told_to_who_asks_and_the_next_edit_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor()
    await editor.start()

    async def see(_: Any) -> None:
        await editor.server.analysis_of(URI)

    editor.server.protocol.raw["test/see"] = see
    analyse = analysis_module.analyse

    def fail(text: str, *more: Any, **how: Any) -> Any:
        if text == "bug":
            raise ZeroDivisionError
        return analyse(text, *more, **how)

    monkeypatch.setattr("rrext.faces.lsp.documents.analyse", fail)
    editor.open("bug")
    assert "ZeroDivisionError" in (await editor.failure("test/see"))["message"]
    editor.change({"text": "["})
    assert (await editor.diagnostics())[0]["code"] == "unclosed"


# what a client can show

BESIDE = '{"components": [{"id": "a", "provider": "webhook", "config": {}}, {"id": "a", "provider": "webhook", "config": {}}]}'
UNREACHED = (
    '{"components": [{"id": "a", "provider": "webhook", "config": {}}, {"id": "b", "provider": "prompt", "config": {}}]}'
)


async def shown(text: str, code: str, **known: Any) -> dict[str, Any]:
    """The diagnostic of one code, as a client gets it that knows so much."""
    editor = Editor()
    await editor.start(capabilities={"textDocument": {"publishDiagnostics": known}})
    editor.open(text)
    published = await editor.until(lambda message: message.get("method") == "textDocument/publishDiagnostics")
    (found,) = (item for item in published["params"]["diagnostics"] if item["code"] == code)
    return found | {"version": published["params"].get("version")}


async def test_what_a_client_does_not_know_is_not_sent() -> None:
    found = await shown(BESIDE, "duplicate_id")
    assert set(found) == {"range", "severity", "code", "source", "message", "version"}
    assert "tags" not in await shown(UNREACHED, "not_connected", tagSupport={"valueSet": [2]})


async def test_other_places_stand_in_the_message_where_a_client_has_no_room_for_them() -> None:
    beside = await shown(BESIDE.replace("}}, {", "}},\n{"), "duplicate_id")
    (other,) = (await shown(BESIDE, "duplicate_id", relatedInformation=True))["relatedInformation"]
    assert beside["message"].endswith(f"\n(line 1) {other['message']}")
    assert other["location"]["uri"] == URI


async def test_what_a_client_knows_is_sent() -> None:
    found = await shown(UNREACHED, "not_connected", **SHOWN)
    assert found["tags"] == [1]
    assert "protocol.md#L" in found["codeDescription"]["href"]


async def test_a_version_is_kept_from_a_client_that_says_it_has_no_use_for_it() -> None:
    assert (await shown(UNREACHED, "not_connected"))["version"] == 1
    assert (await shown(UNREACHED, "not_connected", versionSupport=False))["version"] is None


async def test_a_client_that_could_ask_is_told_like_any_other() -> None:
    editor = Editor()
    asks = {"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": {"refreshSupport": True}}}
    assert "diagnosticProvider" not in await editor.start(capabilities=asks)
    editor.open("[")
    assert await editor.diagnostics()
    assert (await editor.failure("textDocument/diagnostic", {"textDocument": {"uri": URI}}))["code"] == -32601


async def test_what_a_finder_found_is_told_though_nothing_was_edited() -> None:
    editor = Editor()
    await editor.start()
    found: list[types.Diagnostic] = []
    editor.server.publisher.finders.append(lambda uri, text, analysis: found)
    editor.open("{}")
    place = types.Range(types.Position(0, 0), types.Position(0, 1))
    await editor.server.analysis_of(URI)
    found.append(types.Diagnostic(place, "the tool failed", severity=types.DiagnosticSeverity.Error, code="tool_failed"))
    await asyncio.sleep(0)
    seen = len(editor.messages)
    editor.server.publish_again(URI)
    items = editor.messages[seen]["params"]["diagnostics"]
    assert items[-1]["code"] == "tool_failed"
    assert items[-1]["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
