"""Pipelines in the usual shape of RocketRide's: several sources in one file, nodes that are unknown here, keys from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import completed

from rrext.blocking import Client as BlockingClient
from rrext.client.client import Client
from rrext.errors import InvalidPipeline, Unavailable

HERE = Path(__file__).resolve().parent
ROOT = str(HERE.parents[1])
LIBRARY, ASSISTANT = HERE / "library.pipe", HERE / "assistant.pipe"


pytestmark = pytest.mark.usefixtures("forked_servers")


def rrext(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return completed([sys.executable, "-m", "rrext", *map(str, words)], text=True, cwd=ROOT)


def spawn(*files: Path, partial: bool = True) -> Client:
    return Client.spawn(*files, partial=partial, env={"PYTHONPATH": ROOT})


@pytest.mark.parametrize(("file", "missing"), [(LIBRARY, ["audio_transcribe", "weaviate"]), (ASSISTANT, ["tool_github"])])
def test_the_only_errors_are_what_is_missing_here_and_the_last_line_says_how_to_run_the_rest(
    file: Path, missing: list[str]
) -> None:
    done = rrext("check", "--json", file)
    errors = [problem for problem in json.loads(done.stdout)["problems"] if problem["severity"] == "error"]
    assert done.returncode == 2
    assert {problem["code"] for problem in errors} == {"foreign_provider", "unresolved_variable"}
    assert sorted(problem["message"].split('"')[1] for problem in errors if problem["code"] == "foreign_provider") == missing
    for command in ("check", file), ("tools", file), ("send", file, __file__), ("tool", file, "execute"):
        done = rrext(*command)
        assert done.returncode == 2
        assert "--partial" in done.stderr.splitlines()[-1]


def test_a_check_in_part_accepts_the_file_and_counts_what_is_unavailable() -> None:
    done = rrext("check", "--partial", LIBRARY)
    assert done.returncode == 0
    assert done.stderr.endswith("8 components, 2 unavailable\n")
    assert 'warning: "audio_transcribe" (audio) is a node of RocketRide and not part of rrext.' in done.stdout
    assert "error" not in done.stdout


def test_the_commands_run_what_can_run() -> None:
    assert "parse_document" in rrext("tools", "--partial", LIBRARY).stdout
    done = rrext("tool", "--partial", ASSISTANT, "execute", "--input", '{"code": "print(6 * 7)"}')
    assert (done.returncode, json.loads(done.stdout)["stdout"]) == (0, "42\n")
    for source in ([], ["--source", "dropper_1"]):  # the only one for files
        done = rrext("send", "--partial", *source, LIBRARY, __file__)
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "unavailable")
        assert 'Node "weaviate_1" is not available here: "weaviate" (store, tool) is a node of RocketRide' in done.stderr


def test_a_question_in_a_file_goes_to_the_source_that_is_named(tmp_path: Path) -> None:
    question = tmp_path / "question.txt"
    question.write_text("Who wrote it?")
    done = rrext("send", "--partial", "--source", "chat_1", "--mime", "lane/questions", LIBRARY, question)
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["asked"][0]["questions"][0]["text"] == "Who wrote it?"


def test_a_chat_names_its_source_too() -> None:
    done = rrext("chat", "--partial", "--source", "chat_1", LIBRARY, "Who wrote it?")
    assert done.returncode == 0
    assert "Who wrote it?" in done.stdout
    assert rrext("chat", "--partial", LIBRARY, "Who wrote it?").stdout == done.stdout  # the only source for chats
    wrong = rrext("chat", "--partial", "--source", "chat_2", LIBRARY, "Who wrote it?")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert 'Did you mean "chat_1"?' in wrong.stderr
    done = rrext("chat", "--partial", ASSISTANT, "Where to?")
    assert done.returncode == 1
    assert 'Node "llm_openai_1" is not available here: The variable ${ROCKETRIDE_TRIP_KEY} has no value' in done.stderr


@pytest.mark.promise("sources:several:named")
async def test_a_server_of_both_takes_questions_and_refuses_files_that_nobody_could_store() -> None:
    async with spawn(LIBRARY, ASSISTANT) as client:
        for source in ("chat_1", None):  # the only one for questions
            asked = await client.chat(question="Who wrote it?", token="library", source=source)
            assert asked["asked"][0]["questions"][0]["text"] == "Who wrote it?"
        with pytest.raises(Unavailable, match='Node "weaviate_1" is not available here'):
            await client.send(b"# A book", token="library", source="dropper_1")
        (sent,) = await client.send_files([__file__], token="library", source="dropper_1")
        assert isinstance(sent.error, Unavailable)
        with pytest.raises(Unavailable, match='Node "llm_openai_1" is not available here'):
            await client.chat(question="Where to?", token="assistant")
        tools = {tool["nodeId"] for tool in await client.tools(token="assistant")}
        assert "tool_python_1" in tools
        assert not tools & {"tool_github_1", "llm_openai_1"}
        with pytest.raises(Unavailable, match=r'"tool_github" \(tool\) is a node of RocketRide'):
            await client.tool(tool="git_log", node_id="tool_github_1", token="assistant")
        assert [node["nodeId"] for node in (await client.status("assistant"))["unavailable"]] == [
            "llm_openai_1",
            "tool_github_1",
        ]


@pytest.mark.promise("partial:rest-runs")
async def test_use_loads_in_part_if_it_is_asked_to() -> None:
    async with spawn(partial=False) as client:
        with pytest.raises(InvalidPipeline) as caught:
            await client.use(filepath=ASSISTANT)
        assert "partial: true" in (caught.value.hint or "")
        used = await client.use(filepath=ASSISTANT, partial=True)
        assert [node["nodeId"] for node in used["unavailable"]] == ["llm_openai_1", "tool_github_1"]
        code: Any = await client.tool(tool="execute", input={"code": "print(1)"})
        assert code["stdout"] == "1\n"


def test_the_blocking_client_has_the_same_words() -> None:
    with BlockingClient.spawn(LIBRARY, partial=True, env={"PYTHONPATH": ROOT}) as client:
        with client.pipe(source="chat_1", mimetype="lane/questions") as pipe:
            pipe.write("Who?")
        assert pipe.result is not None
        assert pipe.result["asked"][0]["questions"][0]["text"] == "Who?"
        assert client.chat(question="Who?", source="chat_1")["asked"]
        used = client.use(filepath=ASSISTANT, token="other", partial=True)
        assert len(used["unavailable"]) == 2
