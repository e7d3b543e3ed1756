"""The transcripts of protocol.md, run against a real server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "protocol.md").read_text(encoding="utf-8")
ANY = "…"


def blocks(language: str) -> list[Any]:
    found = re.finditer(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [pytest.param(m[1].splitlines(), id=f"line {PAGE.count(chr(10), 0, m.start()) + 1}") for m in found]


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    with serving("serve") as process:
        yield process


@pytest.fixture
def mcp_server() -> Iterator[subprocess.Popen[bytes]]:
    with serving("mcp") as process:
        yield process


@contextmanager
def serving(subcommand: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server of the page, by one of the commands that serve."""
    command = re.search(r"^rrext serve (.*)$", PAGE, re.MULTILINE)
    assert command is not None
    words = [sys.executable, "-m", "rrext", subcommand, *command[1].split()]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.wait(50) == 0
    assert process.stdout.read() == b"", "the server sent something that the transcript does not have"
    process.stdout.close()


def read_frame(stream: IO[bytes]) -> Any:
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    assert length, "the server closed the connection"
    return json.loads(stream.read(length))


def fits(pattern: Any, value: Any) -> bool:
    if pattern == ANY:
        return True
    if isinstance(pattern, dict) and isinstance(value, dict):
        wanted = {key: entry for key, entry in pattern.items() if key != ANY}
        return (ANY in pattern or wanted.keys() == value.keys()) and all(
            key in value and fits(entry, value[key]) for key, entry in wanted.items()
        )
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(fits, pattern, value))
    return type(pattern) is type(value) and pattern == value


def framed(text: str) -> bytes:
    json.loads(text)
    body = text.encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def literal(text: str) -> bytes:
    return text.replace("\\r", "\r").replace("\\n", "\n").encode()


def one_line(text: str) -> bytes:
    return text.encode() + b"\n"


def read_line(stream: IO[bytes]) -> Any:
    return json.loads(stream.readline())


def play(lines: list[str], server: subprocess.Popen[bytes], encode: Any, read: Any = read_frame) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    for line in lines:
        direction, _, text = line.partition(" ")
        if direction == "→":
            server.stdin.write(encode(text))
            server.stdin.flush()
        else:
            assert direction == "←", f"neither sent nor received: {line}"
            answer = read(server.stdout)
            assert fits(json.loads(text), answer), f"\nexpected {text}\nreceived {json.dumps(answer, ensure_ascii=False)}"


@pytest.mark.parametrize("lines", [*blocks("dap"), *blocks("jsonrpc")])
def test_the_server_answers_as_the_transcript_says(lines: list[str], server: subprocess.Popen[bytes]) -> None:
    play(lines, server, framed)


@pytest.mark.parametrize("lines", blocks("mcp"))
def test_the_server_answers_a_host_as_the_transcript_says(lines: list[str], mcp_server: subprocess.Popen[bytes]) -> None:
    play(lines, mcp_server, one_line, read_line)


@pytest.mark.parametrize("lines", blocks("frames"))
def test_the_server_reads_the_bytes_that_the_transcript_shows(lines: list[str], server: subprocess.Popen[bytes]) -> None:
    play(lines, server, literal)


def test_a_transcript_that_is_not_what_the_server_does_would_fail(server: subprocess.Popen[bytes]) -> None:
    ping = '{"type":"request","seq":1,"command":"rrext_ping"}'
    with pytest.raises(AssertionError, match="expected"):
        play([f"→ {ping}", '← {"type":"response","…":"…","success":false}'], server, framed)


def test_the_file_of_cases_passes(tmp_path: Path):
    (block,) = [lines for param in blocks("jsonc") if '  "cases": [' in (lines := param.values[0])]
    shutil.copy(ROOT / "tests" / "protocol" / "demo.pipe", tmp_path / "demo.pipe")
    (tmp_path / "demo.cases.json").write_text("\n".join(block))
    words = [sys.executable, "-m", "rrext", "test", str(tmp_path / "demo.pipe"), "--nodes", "tests/protocol/demo_nodes.py"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
