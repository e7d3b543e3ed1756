"""The example pipelines load without a word, and do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rrext.errors import Unavailable
from rrext.nodes.sandbox.node import PythonNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

from running import running  # isort: skip

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def text_of(name: str) -> str:
    return (EXAMPLES / f"{name}.pipe").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pipe")), ids=lambda path: path.stem)
def test_an_example_loads_without_a_problem(path: Path) -> None:
    loaded = load_pipeline(path.read_text(encoding="utf-8"), Catalog(), Environment())
    assert loaded.problems == ()
    assert loaded.spec is not None


async def test_the_files_of_the_library_can_be_listed_and_read() -> None:
    async with running(text_of("filesystem"), folder=str(EXAMPLES)) as client:
        listing = await client.tool("list_directory")
        assert [entry["name"] for entry in listing["entries"]] == ["catalog.csv", "notes", "welcome.txt"]
        found = await client.tool("read_file", {"path": "notes/borrowed.md"}, node="files_1")
        assert found["content"].startswith("# Borrowed")
        with pytest.raises(Unavailable):
            await client.tool("delete_file", {"path": "welcome.txt"})


async def test_a_text_that_is_sent_comes_back() -> None:
    async with running(text_of("echo")) as client:
        assert (await client.send("text/plain", b"hello"))["reply"] == ["hello\n\n"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"When do you open?", "The library is open from nine to five."),
        (b"Hello there", "You said: Hello there"),
        ({"questions": [{"text": "How many books are there?"}], "expectJson": True}, {"books": 3}),
        (b"What is love?", "I only know about the library."),
    ],
)
async def test_the_librarian_answers_without_a_network(question: Any, answer: Any) -> None:
    async with running(text_of("chat")) as client:
        assert (await client.chat(question))["answers"] == [answer]


async def test_python_runs_in_its_sandbox_or_says_what_is_missing() -> None:
    call = ("execute", {"code": "print('hi')\nresult = 6 * 7"})
    missing = PythonNode.unavailable()
    async with running(text_of("python")) as client:
        if missing is not None:
            with pytest.raises(Unavailable, match=re.escape(missing)):
                await client.tool(*call)
            return
        result = await client.tool(*call)
    assert (result["stdout"], result["result"], result["exit_code"]) == ("hi\n", 42, 0)


def test_python_runs_in_its_sandbox_also_under_nice() -> None:
    missing = PythonNode.unavailable()
    code = json.dumps({"code": "result = 6 * 7"})
    command = [sys.executable, "-m", "rrext", "tool", str(EXAMPLES / "python.pipe"), "execute", "--input", code]
    done = subprocess.run(["nice", "-n", "7", *command], capture_output=True, text=True, check=False)
    if missing is not None:
        assert missing in done.stderr
        return
    assert json.loads(done.stdout)["result"] == 42, done.stderr
