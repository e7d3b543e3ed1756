"""Documents are read in processes that can be stopped, whatever is in them, and that reach nothing but their socket."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from rrext.errors import Cancelled, RrextError, ShuttingDown, ToolError, ToolTimeout, Unavailable
from rrext.nodes.child.landlock import abi
from rrext.nodes.documents.parse import DocumentReader, ParseNode
from rrext.nodes.documents.records import DocumentRequest, ParsedDocument
from rrext.testing import open_node
from rrext.tools.context import ToolContext

from hostile_files import BENIGN_ENDS, MIB, pdf_that_unpacks_to, plain_docx  # isort: skip
from paper_mill import WRITERS, write_paper  # isort: skip

SMALL = 512 * MIB
PATIENCE = 30.0


@contextmanager
def reader(processes: int = 1, memory: int = SMALL) -> Iterator[DocumentReader]:
    found = DocumentReader(processes=processes, memory=memory)
    try:
        yield found
    finally:
        found.close()


def children() -> set[int]:
    """The processes that read documents for this one."""
    found: set[int] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"rrext.nodes.documents.worker" in line and int(parent) == os.getpid():
            found.add(int(name))
    return found


def text_of(document: ParsedDocument) -> str:
    return "".join(piece.content for piece in document.pieces)


class Background:
    """A reading on a thread of its own, and how it ended."""

    def __init__(self, found: DocumentReader, data: bytes, ctx: ToolContext | None = None, *, name: str = "a.pdf") -> None:
        self.ctx = ctx or ToolContext()
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._read, args=(found, data, DocumentRequest(name=name, timeout=PATIENCE)))
        self._thread.start()

    def _read(self, found: DocumentReader, data: bytes, request: DocumentRequest) -> None:
        try:
            self._outcome = found.read(data, request, self.ctx)
        except RrextError as error:
            self._outcome = error

    def outcome(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self._outcome


def wait_until_one_reads(found: DocumentReader) -> None:
    """Return when a process that has started works at a document: its processor time grows."""
    begun: dict[int, int] = {}
    while not threading.Event().wait(0.01):
        for process in [process for process in found._running if process.is_ready]:
            pid = process.id
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used = int(fields[11])  # hundredths of a second
            if used > begun.setdefault(pid, used) + 2:
                return


def wait_until_it_waits(reading: Background) -> None:
    """Return when it has asked for a process."""
    while reading.ctx.token._listeners is None:
        threading.Event().wait(0.01)


@pytest.fixture(scope="module")
def endless() -> bytes:
    """A document that would keep a core busy for a minute."""
    return pdf_that_unpacks_to(100 * MIB)


@pytest.mark.parametrize("charset", ["shift_jis", "euc_jp"])
def test_a_process_without_files_finds_the_charset_of_a_text(charset: str) -> None:
    text = "図書館は午前九時から午後五時まで開いています。本をなくした場合は、十ユーロを払います。"
    with reader(memory=512 * MIB) as found:
        assert text_of(found.read(text.encode(charset), DocumentRequest(name="a.txt"), ToolContext())) == text


def test_it_finds_the_charset_also_with_packages_that_lie_outside_of_pythons_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("chardet", "chardetng-py"):
        found = distribution(package)
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(found.locate_file(file)), tmp_path / file)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "Библиотека открыта с девяти часов утра до пяти часов вечера. За потерянную книгу платят десять евро."
    with reader(memory=256 * MIB) as found:
        assert text_of(found.read(text.encode("koi8-r"), DocumentRequest(name="a.txt"), ToolContext())) == text


def test_memory_has_a_limit_which_fails_the_document_and_nothing_else(endless: bytes) -> None:
    with reader(memory=256 * MIB) as found:
        with pytest.raises(ToolError) as caught:
            found.read(endless, DocumentRequest(timeout=PATIENCE), ToolContext())
        assert (caught.value.code, "256 MiB (memory)" in caught.value.message) == ("document_crashed", True)
        assert text_of(found.read(b"next", DocumentRequest(name="a.txt"), ToolContext())) == "next"


def test_a_document_that_takes_too_long_is_given_up_and_its_process_ended(endless: bytes) -> None:
    with reader(memory=2048 * MIB) as found:
        with pytest.raises(ToolError) as caught:
            found.read(endless, DocumentRequest(timeout=0.5), ToolContext())
        assert (caught.value.code, "timeout" in caught.value.message) == ("document_timeout", True)
        assert children() == set()
        assert text_of(found.read(b"next", DocumentRequest(name="a.txt"), ToolContext())) == "next"


def test_who_cancels_waits_for_no_document(endless: bytes) -> None:
    with reader(memory=2048 * MIB) as found:
        reading = Background(found, endless)
        wait_until_one_reads(found)
        reading.ctx.token.cancel()
        assert isinstance(reading.outcome(), Cancelled)
        assert children() == set()


def test_a_call_that_waits_for_a_process_can_be_cancelled_and_the_next_one_has_it(endless: bytes) -> None:
    with reader(memory=2048 * MIB) as found:
        first = Background(found, endless)
        wait_until_one_reads(found)
        second = Background(found, endless)
        second.ctx.token.cancel()
        assert isinstance(second.outcome(), Cancelled)
        first.ctx.token.cancel()
        assert isinstance(first.outcome(), Cancelled)
        assert text_of(found.read(b"next", DocumentRequest(name="a.txt"), ToolContext())) == "next"


def test_closing_ends_what_still_reads(endless: bytes) -> None:
    with reader(memory=2048 * MIB) as found:
        reading = Background(found, endless)
        wait_until_one_reads(found)
        found.close()
        assert isinstance(reading.outcome(), ShuttingDown)
    assert children() == set()


def test_one_document_that_takes_long_does_not_keep_others_waiting(endless: bytes) -> None:
    with reader(processes=2, memory=2048 * MIB) as found:
        slow = Background(found, endless)
        wait_until_one_reads(found)
        for n in range(20):
            assert text_of(found.read(f"text {n}".encode(), DocumentRequest(name="a.txt"), ToolContext())) == f"text {n}"
        slow.ctx.token.cancel()
        slow.outcome()


def test_a_process_is_kept_for_the_next_document() -> None:
    others = children()  # of a test before, should it have left one
    with reader() as found:
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())
        kept = children() - others
        found.read(plain_docx("two"), DocumentRequest(name="a.docx"), ToolContext())
        assert (children() - others, len(kept)) == (kept, 1)
    assert children() <= others


def test_a_process_that_was_killed_while_it_waited_fails_no_document() -> None:
    with reader() as found:
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())
        os.kill(children().pop(), signal.SIGKILL)
        found._idle[0].wait()
        assert text_of(found.read(b"two", DocumentRequest(name="a.txt"), ToolContext())) == "two"


def test_a_process_that_was_killed_while_it_read_fails_its_document_and_says_how(endless: bytes) -> None:
    with reader(memory=2048 * MIB) as found:
        reading = Background(found, endless)
        wait_until_one_reads(found)
        os.kill(children().pop(), signal.SIGUSR1)
        outcome = reading.outcome()
        assert (outcome.code, "(SIGUSR1)" in outcome.message) == ("document_crashed", True)
        assert text_of(found.read(b"next", DocumentRequest(name="a.txt"), ToolContext())) == "next"


def test_one_that_gives_up_its_turn_leaves_it_to_the_next_that_waits(endless: bytes) -> None:
    now = [0.0]
    with reader(memory=2048 * MIB) as found:
        first = Background(found, endless)
        wait_until_one_reads(found)
        late = Background(found, b"late", ToolContext(deadline=1.0, clock=lambda: now[0]))
        wait_until_it_waits(late)
        patient = Background(found, b"patient", name="a.txt")
        wait_until_it_waits(patient)
        now[0] = 2.0
        first.ctx.token.cancel()
        assert isinstance(late.outcome(), ToolTimeout)
        assert text_of(patient.outcome()) == "patient"


def test_a_process_that_cannot_be_started_is_said_as_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with reader() as found, pytest.raises(Unavailable, match="No such file"):
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())


def test_too_little_memory_to_start_is_said_as_what_it_is() -> None:
    with reader(memory=32 * MIB) as found, pytest.raises(Unavailable, match="did not start"):
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())


def test_a_process_has_shut_itself_in_before_a_document_comes_where_the_kernel_can() -> None:
    with reader() as found:
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())
        status = Path(f"/proc/{children().pop()}/status").read_text()
        assert ("NoNewPrivs:\t1" in status) == (abi() > 0 or os.uname().machine == "x86_64")


@pytest.mark.skipif(abi() == 0, reason="this kernel keeps no files from a process")
def test_a_process_sees_no_files_of_the_folder_that_the_server_was_started_in(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("SECRET")
    program = """
import sys, os
from rrext.nodes.documents import worker
worker._load()
assert "parse.py" in os.listdir(os.path.dirname(worker.__file__))
open(sys.argv[1])
"""
    (tmp_path / "own").mkdir()
    path = os.pathsep.join([str(Path(__file__).parents[3]), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path / "own")}
    command = [sys.executable, "-P", "-c", program, str(tmp_path / "secret.txt")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert "PermissionError" in done.stderr


def test_nothing_stays_behind_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with reader() as found:
        found.read(plain_docx("one"), DocumentRequest(name="a.docx"), ToolContext())
        assert list(tmp_path.iterdir()) == []


KILLED_EARLY = f"""
import os, signal, threading
from rrext.nodes.documents.parse import DocumentProcess
from rrext.tools.context import ToolContext
process = DocumentProcess({SMALL})
threading.Thread(target=process.load, args=(ToolContext(),), daemon=True).start()
while not os.listdir(os.environ["TMPDIR"]):
    threading.Event().wait(0.001)
print(process.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(pid: int) -> bool:
    """Whether there is such a process. What nobody waits for stays as a zombie where the first process does not either."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_that_is_killed_while_a_process_starts_leaves_neither_the_process_nor_its_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", KILLED_EARLY], env=environment, stdout=subprocess.PIPE, timeout=PATIENCE)
    while is_running(int(done.stdout)) or list(tmp_path.iterdir()):
        threading.Event().wait(0.01)


@pytest.mark.promise("data:secrets:never-shown")
def test_the_process_knows_none_of_the_servers_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "sesame")
    with reader() as found:
        found.read(b"one", DocumentRequest(name="a.txt"), ToolContext())
        assert b"sesame" not in Path(f"/proc/{children().pop()}/environ").read_bytes()


@pytest.mark.system
def test_reading_opens_no_connection(tmp_path: Path) -> None:
    papers = [write_paper(tmp_path / f"paper{suffix}", 1).path for suffix in WRITERS]
    trace = tmp_path / "trace"
    program = f"""
from rrext.nodes.documents.parse import DocumentReader
from rrext.nodes.documents.records import DocumentRequest
from rrext.tools.context import ToolContext
reader = DocumentReader(processes=1, memory={SMALL})
for path in {[str(path) for path in papers]}:
    assert reader.read(open(path, "rb").read(), DocumentRequest(name=path), ToolContext()).pieces
reader.close()
"""
    command = ["strace", "-f", "-e", "trace=socket,connect,sendto,bind", "-o", str(trace), sys.executable, "-c", program]
    subprocess.run(command, check=True, timeout=50, cwd=Path(__file__).parents[3])
    calls = [line for line in trace.read_text().splitlines() if "socket(" in line or "connect(" in line]
    assert [line for line in calls if "AF_UNIX" not in line] == []


# --- the node ---


@pytest.mark.promise("document:reading:disturbs-nothing")
async def test_others_are_answered_while_a_document_is_read(endless: bytes) -> None:
    settings = {"memory": 2048, "timeout": PATIENCE}
    async with open_node(ParseNode, settings) as client:
        slow = asyncio.create_task(client.tool(tool="parse_document", node_id="node", input=given(endless)))
        for n in range(20):
            found = await client.tool(tool="parse_document", node_id="node", input={**given(b"text %d" % n), "name": "a.txt"})
            assert found["text"] == f"text {n}"
        assert not slow.done()
        slow.cancel()
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await slow


def given(data: bytes) -> dict[str, Any]:
    return {"content_base64": base64.b64encode(data).decode()}


# --- hostile files; last, for their process stays to the end ---


def how_it_ends(found: DocumentReader, data: bytes, mime_type: str) -> str:
    try:
        document = found.read(data, DocumentRequest(mime_type=mime_type, timeout=PATIENCE), ToolContext())
    except ToolError as error:
        return error.code
    return f"text of {len(text_of(document))} characters"


@pytest.fixture(scope="module")
def enduring() -> Iterator[DocumentReader]:
    """One process for all hostile files, as a server has it."""
    with reader() as found:
        yield found


@pytest.mark.parametrize("name", BENIGN_ENDS)
@pytest.mark.promise("document:reading:disturbs-nothing")
def test_a_hostile_file_ends_as_text_or_as_a_failure_and_the_next_one_is_read(name: str, enduring: DocumentReader) -> None:
    data, mime_type = BENIGN_ENDS[name]()
    assert how_it_ends(enduring, data, mime_type).startswith(("text", "document_"))
    assert text_of(enduring.read(b"still here", DocumentRequest(name="a.txt"), ToolContext())) == "still here"
