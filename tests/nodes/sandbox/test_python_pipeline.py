"""The example pipeline, served: a `webhook` with `tool_python` bound to it, called as a client calls it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributions import install_samples
from guests import descendants, still_there, wait_until

from rrext.cli.main import main
from rrext.nodes.sandbox.node import PythonNode

PIPELINE = Path(__file__).parents[2] / "examples" / "python.pipe"
SERVE = "import sys; from rrext.cli.main import main; sys.exit(main(['serve', *sys.argv[1:]]))"
WITHOUT_ENGINES = "import rrext.nodes.sandbox.engine as e; e.sandlock_folder = e.bubblewrap = lambda: None\n"
WITHOUT_BUBBLEWRAP = """
import rrext.nodes.sandbox.engine as e
from rrext.nodes.sandbox.node import PythonNode
e.bubblewrap = lambda: None
PythonNode.unavailable = classmethod(lambda cls: None)
"""


class Server:
    """A server process and the requests sent to it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.sent = 0

    def send(self, command: str, **arguments: Any) -> int:
        assert self.process.stdin is not None
        self.sent += 1
        body = json.dumps({"type": "request", "seq": self.sent, "command": command, "arguments": arguments}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()
        return self.sent

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def execute(self, code: str, **arguments: Any) -> dict[str, Any]:
        self.send("rrext_process", subcommand="tool", tool="execute", input={"code": code}, **arguments)
        return self.receive()


@contextmanager
def serving(before: str = "", options: Sequence[str] = (), pipeline: Path = PIPELINE) -> Iterator[Server]:
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", before + SERVE, *options, str(pipeline)]
    env = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def sandbox_of(server: Server) -> list[int]:
    """The warden and what it started; what the server forked of itself has the server's own command line."""
    return [pid for pid in descendants(server.process.pid) if command_line(pid) != command_line(server.process.pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b"gone"


@pytest.mark.system
def test_a_program_runs_and_its_output_and_result_come_back() -> None:
    with serving() as server:
        for _ in range(2):
            answer = server.execute("print('hello')\nresult = {'sum': sum(range(10))}", nodeId="python_1")
            expected = {"stdout": "hello\n", "stderr": "", "exit_code": 0, "timed_out": False, "result": {"sum": 45}}
            assert answer["body"] == {"result": expected}
        assert server.execute("1 / 0")["body"]["result"]["exit_code"] == 1
        assert server.execute(" ")["code"] == "invalid_arguments"


@pytest.mark.system
def test_a_picture_is_a_block_beside_the_object_that_others_get() -> None:
    with serving() as server:
        plain, content = (server.execute("result = 'iVBORw0KGgo='", content=asked)["body"]["result"] for asked in (False, True))
    assert plain["result"] == "iVBORw0KGgo="
    assert content["structuredContent"] == plain
    assert json.loads(content["content"][0]["text"]) == plain
    assert content["content"][1:] == [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]


@pytest.mark.promise("python:result:ints")
@pytest.mark.system
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_large_int_is_a_number_on_the_wire(isolation: str) -> None:
    with serving(options=["--isolation", isolation]) as server:
        answer = server.execute("import math; result = [math.factorial(25), -math.factorial(170)]")
        assert answer["body"]["result"]["result"] == [math.factorial(25), -math.factorial(170)]


@pytest.mark.system
def test_a_program_that_overstays_the_callers_deadline_is_gone() -> None:
    with serving() as server:
        server.execute("1")
        answer = server.execute("while True: pass", timeout=1)
        assert answer["code"] == "tool_timeout"
        warden, *others = sandbox_of(server)
        assert still_there(others) == []
        assert sandbox_of(server) == [warden]


@pytest.mark.system
def test_a_server_that_is_killed_leaves_no_program_behind() -> None:
    with serving() as server:
        server.execute("1")
        server.send("rrext_process", subcommand="tool", tool="execute", input={"code": "while True: pass"})
        pids = wait_until(lambda: pids if len(pids := sandbox_of(server)) == 3 else None)
        server.process.kill()
        assert still_there(pids) == []


@pytest.mark.system
@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_served_program_imports_what_the_operator_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    install_samples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pipeline = json.loads(PIPELINE.read_text())
    node = next(each for each in pipeline["components"] if each["id"] == "python_1")
    node["config"] = {"allowedModules": [{"moduleName": "shapes"}], "tool_description": "Our own words."}
    (tmp_path / "python.pipe").write_text(json.dumps(pipeline))
    options = ("--python-package", "shapes", "--python-package", "circles", "--isolation", isolation)
    with serving(options=options, pipeline=tmp_path / "python.pipe") as server:
        server.send("tools")
        words = server.receive()["body"]["tools"][0]["description"].split("\n\n")
        assert words[:2] == ["Our own words.", "Python with shapes 1.2 beside the standard library."]
        assert server.execute("import shapes; result = shapes.edges")["body"]["result"]["result"] == 7
        refused = server.execute("import shared.circles")["body"]["result"]["stderr"]
        assert "the server offers it, but `allowedModules` of this component does not name shared" in refused


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere another piece is missing")
def test_without_an_engine_the_tool_is_not_listed_and_calling_it_names_the_install_lines() -> None:
    with serving(WITHOUT_ENGINES) as server:
        server.send("tools")
        assert server.receive()["body"] == {"tools": []}
        answer = server.execute("result = 1")
        assert (answer["success"], answer["code"]) == (False, "unavailable")
        assert 'pip install "rrext[python]"' in answer["message"]
        assert "apt install bubblewrap" in answer["message"]


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere another piece is missing")
def test_an_engine_that_is_demanded_and_missing_is_an_error_of_check_and_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rrext.nodes.sandbox.engine.bubblewrap", lambda: None)
    monkeypatch.setattr(PythonNode, "unavailable", classmethod(lambda cls: None))
    pipeline = json.loads(PIPELINE.read_text())
    node = next(each for each in pipeline["components"] if each["id"] == "python_1")
    node["config"] = {"engine": "bubblewrap"}
    path = tmp_path / "python.pipe"
    path.write_text(json.dumps(pipeline))
    assert main(["check", "--json", str(path)]) == 2
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    place = f"/components/{pipeline['components'].index(node)}/config/engine"
    assert (problem["code"], problem["severity"], problem["path"]) == ("node_unavailable", "error", place)
    with serving(WITHOUT_BUBBLEWRAP, pipeline=path) as server:
        answer = server.execute("result = 1")
    assert (answer["code"], answer["message"] + ".") == ("unavailable", problem["message"])
