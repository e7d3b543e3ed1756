"""The example pipelines from end to end: questions, texts, files and tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from face import WIRES, Face, Way
from houses import HERE, open_house

from rrext.errors import InvalidArguments, ToolError

EXAMPLES = HERE.parent / "examples"
QUESTION = "application/rocketride-question"


def example(name: str) -> str:
    """The text of an example's file."""
    return (EXAMPLES / f"{name}.pipe").read_text(encoding="utf-8")


async def ask(face: Face, question: Any) -> Any:
    """What a chat answers."""
    text = question if isinstance(question, str) else json.dumps(question)
    return await face.send(text, token="chat", mimeType=QUESTION)


async def test_a_chat_answers_texts_and_questions_as_objects(face: Face) -> None:
    await face.request("execute", {"pipeline": example("chat"), "token": "chat"})
    for question in ("When are you OPEN?", {"type": "question", "questions": [{"text": "When are you open?"}]}):
        assert (await ask(face, question))["answers"] == ["The library is open from nine to five."]
    assert (await ask(face, "hello there"))["answers"] == ["You said: hello there"]
    assert (await ask(face, "the weather?"))["answers"] == ["I only know about the library."]
    wants_json = {"questions": [{"text": "how many books are there"}], "expectJson": True}
    assert (await ask(face, wants_json))["answers"] == [{"books": 3}]


async def test_a_chat_takes_no_files_and_says_what_to_use(face: Face) -> None:
    await face.request("execute", {"pipeline": example("chat"), "token": "chat"})
    error = await face.failure("rrext_process", {"subcommand": "open", "token": "chat", "mimeType": "text/plain"})
    assert isinstance(error, InvalidArguments)
    assert "chat()" in error.message


@pytest.mark.parametrize("kind", ["execute", "dialect"])
async def test_questions_that_are_gone_name_the_tools_to_use(kind: str, face: Face) -> None:
    await face.request("execute", {"pipeline": example("chat"), "token": "chat"})
    pipe_id = await face.open(token="chat", mimeType=QUESTION)
    question = json.dumps({"type": kind, "questions": [{"text": "SELECT 1"}]})
    error = await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": question})
    assert isinstance(error, InvalidArguments)
    assert error.data["errors"][0]["path"] == "/data/type"
    assert f'call the tool "{kind}"' in error.message
    assert f'"tool": "{kind}"' in (error.hint or "")
    body = await face.close(pipe_id)
    assert body["error"]["code"] == "invalid_arguments"
    assert "answers" not in body


async def test_a_question_of_an_unknown_type_names_those_like_it(face: Face) -> None:
    await face.request("execute", {"pipeline": example("chat"), "token": "chat"})
    pipe_id = await face.open(token="chat", mimeType=QUESTION)
    error = await face.failure("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "data": '{"type": "questoin"}'})
    assert isinstance(error, InvalidArguments)
    assert error.data["near"] == ["question"]


async def test_the_model_of_a_chat_is_a_tool_too(face: Face) -> None:
    await face.request("execute", {"pipeline": example("chat"), "token": "chat"})
    told = await face.tool("ask", {"question": "how many old books"}, node_id="llm_1", token="chat")
    assert json.loads(told["answer"]) == {"books": 3}


async def test_a_text_that_is_sent_comes_back_whole_or_in_pieces(face: Face) -> None:
    await face.request("execute", {"pipeline": example("echo"), "token": "echo"})
    assert (await face.send("hello", token="echo", mimeType="text/plain"))["reply"] == ["hello\n\n"]
    pieces = [bytes([byte]) for byte in "wörld €".encode()]
    assert "".join((await face.send(*pieces, token="echo", mimeType="text/plain"))["reply"]).replace("\n\n", "") == "wörld €"
    body = await face.send("x", token="echo", mimeType="text/plain", object={"name": "x.txt", "metadata": {"by": "me"}})
    assert (body["name"], body["metadata"], body["result_types"]) == ("x.txt", {"by": "me"}, {"reply": "text"})


async def test_the_filesystem_example_reads_its_library_and_nothing_else(face: Face) -> None:
    pipeline = json.loads(example("filesystem"))
    pipeline["components"][1]["config"]["root"] = str(EXAMPLES / "library")
    await face.request("execute", {"pipeline": pipeline, "token": "files"})
    listed = await face.tool("list_directory", {"path": "."}, token="files")
    assert "welcome.txt" in str(listed)
    assert "catalog.csv" in str(listed)
    text = (EXAMPLES / "library" / "welcome.txt").read_text(encoding="utf-8")
    assert text.strip()[:20] in str(await face.tool("read_file", {"path": "welcome.txt"}, token="files"))
    for path in ("../echo.pipe", "/etc/passwd", "notes/../../echo.pipe"):
        assert isinstance(await face.tool_failure("read_file", {"path": path}, token="files"), ToolError)
    assert not {"write_file", "delete_file"} & await face.names(token="files")


@pytest.mark.parametrize("way", WIRES, ids=str)
async def test_the_clients_own_words_for_it(way: Way) -> None:
    async with open_house(way) as house, house.connect() as face:
        client = face.client
        await client.use(filepath=EXAMPLES / "chat.pipe", token="chat")
        await client.use(filepath=EXAMPLES / "echo.pipe", token="echo")
        assert (await client.chat(question="open?", token="chat"))["answers"] == ["The library is open from nine to five."]
        assert (await client.send("hello", token="echo"))["reply"] == ["hello\n\n"]
        with pytest.raises(InvalidArguments, match="dialect") as caught:
            await client.chat(question={"type": "dialect", "questions": []}, token="chat")
        assert caught.value.result is not None
