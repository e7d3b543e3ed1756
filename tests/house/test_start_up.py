"""Start-up stays light: what a fresh `rrext serve` has imported when its first answer has left, and one call of a database.

A second call to the server asks for it, with a tool that lists `sys.modules`. No times are compared: only names.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = "import sys; from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"

TOO_HEAVY = {
    "anyio",
    "attr",
    "attrs",
    "cattr",
    "cattrs",
    "dataclasses",
    "importlib.metadata",  # an entry-point scan costs 20 ms and more, and grows with what is installed
    "jsonschema_rs",  # flat input needs no validator of its own
    "lsprotocol",
    "pygls",
    "sandlock",
    "trio",
    "websockets",
}

PIPELINE = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source", "type": "webhook"}},
        {
            "id": "greeter_1",
            "provider": "greeter",
            "config": {},
            "control": [{"classType": "tool", "from": "webhook_1"}],
        },
    ],
    "source": "webhook_1",
    "project_id": "7a1a4d3e-4a0c-4f6e-9a44-5a8f3b1f2c10",
    "version": 1,
}
NODE = '''
import sys

from rrext import Node, tool_function


class Greeter(Node):
    """Greets."""

    provider = "greeter"

    @tool_function
    def greet(self, name: str) -> dict:
        """Greet somebody."""
        return {"text": f"Hello {name}"}

    @tool_function
    def modules(self) -> list[str]:
        """What is imported."""
        return list(sys.modules)
'''


def frame(message: dict[str, object]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def read_frame(stream: io.BytesIO) -> dict[str, Any]:
    length = 0
    while (line := stream.readline().strip()) or not length:
        assert line, "the server ended before it answered"
        length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
    return json.loads(stream.read(length))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a server has imported when it has answered one tool call."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "greeter.py").write_text(NODE)
    (folder / "greeter.pipe").write_text(json.dumps(PIPELINE))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    calls = [("greet", {"name": "Ada"}), ("modules", {})]
    requests = b""
    for seq, (tool, given) in enumerate(calls, 1):
        arguments = {"subcommand": "tool", "tool": tool, "nodeId": "greeter_1", "input": given}
        requests += frame({"type": "request", "seq": seq, "command": "rrext_process", "arguments": arguments})
    done = subprocess.run(
        [sys.executable, "-c", RUN, "serve", "--nodes", "greeter.py", "greeter.pipe"],
        cwd=folder,
        env=env,
        input=requests,
        stdout=subprocess.PIPE,
    )
    answers = io.BytesIO(done.stdout)
    bodies = {answer["request_seq"]: answer["body"] for answer in (read_frame(answers), read_frame(answers))}
    assert bodies[1] == {"result": {"text": "Hello Ada"}}
    return set(bodies[2]["result"])


@pytest.mark.promise("start:cold:light")
def test_the_first_answer_needs_no_heavy_library(imported: set[str]) -> None:
    assert {"rrext.server.session", "msgspec"} <= imported, "the server itself was not seen"
    heavy = {name for name in imported if name in TOO_HEAVY or name.split(".")[0] in TOO_HEAVY}
    assert not heavy


@pytest.mark.promise("start:cold:light")
def test_the_first_answer_needs_no_node_that_the_pipeline_does_not_use(imported: set[str]) -> None:
    nodes = {name for name in imported if name.startswith("rrext.nodes.") and not name.startswith("rrext.nodes.base")}
    assert nodes == {"rrext.nodes.basic", "rrext.nodes.basic.sources"}


@pytest.mark.promise("start:cold:light")
def test_the_first_answer_needs_no_client_bridge_or_testing_code(imported: set[str]) -> None:
    rooms = {name.split(".")[1] for name in imported if name.startswith("rrext.")}
    assert not rooms & {"client", "faces", "editor", "picture", "testing", "blocking"}


CALL = """
import json, sys
from rrext.cli.main import main
code = main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
NO_SERVER = {"host": "127.0.0.1", "port": 1, "database": "x", "user": "x"}
DATABASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "db_sqlite": ({"path": "a.db", "create": True}, "query", {"sql": "select 1 as one", "limit": 5}),
    "db_duckdb": ({}, "query", {"sql": "select 1 as one"}),
    "db_postgres": (NO_SERVER, "dialect", {}),
    "db_mysql": (NO_SERVER, "dialect", {}),
}
"""Provider → settings, and a call that needs no server."""
HEAVY_FOR_SQL = {"anyio", "attr", "attrs", "cattr", "cattrs", "sqlalchemy", "sqlglot", "trio"}


@pytest.mark.promise("data:call:light")
@pytest.mark.parametrize("provider", DATABASES)
def test_a_call_of_a_database_imports_its_driver_and_little_else(provider: str, tmp_path: Path) -> None:
    config, tool, given = DATABASES[provider]
    source = {"id": "tools_1", "provider": "tools", "config": {"mode": "Source"}}
    control = [{"classType": "tool", "from": "tools_1"}]
    database = {"id": "db_1", "provider": provider, "config": config, "control": control}
    (tmp_path / "p.pipe").write_text(json.dumps({**PIPELINE, "components": [source, database], "source": "tools_1"}))
    done = subprocess.run(
        [sys.executable, "-c", CALL, "tool", "p.pipe", tool, "--input", json.dumps(given)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    names = set(json.loads(done.stderr.splitlines()[-1]))
    heavy = {name for name in names if name.split(".")[0] in HEAVY_FOR_SQL}
    assert not heavy
