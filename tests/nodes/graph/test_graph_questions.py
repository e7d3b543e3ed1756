"""Questions in plain words: a scripted model writes Cypher, and gate and database judge what it wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from graph_world import GraphWorld, Tools

from rrext.errors import InvalidArguments, RrextError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.databases.node import MAX_QUESTION
from rrext.testing import open_pipeline
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.usefixtures("forked_children")

OLDEST = "MATCH (p:Person) RETURN p.name AS name ORDER BY p.born LIMIT 1"


@asynccontextmanager
async def asking(graph: GraphWorld, *script: tuple[str, Any], model: dict[str, Any] | None = None) -> AsyncIterator[Tools]:
    """A pipeline around the graph: a chat in front, a model that knows its script, and a response behind."""
    async with graph.open():
        pass
    pipeline = {
        "source": "chat",
        "components": [
            {"id": "chat", "provider": "chat", "config": {"mode": "Source"}},
            {
                "id": "graph",
                "provider": graph.node.provider,
                "config": graph.config,
                "input": [{"lane": "questions", "from": "chat"}],
                "control": [{"classType": "tool", "from": "chat"}],
            },
            {
                "id": "model",
                "provider": "llm_scripted",
                "config": {"script": [{"match": match, "answer": answer} for match, answer in script]},
                **(model or {}),
                "control": [{"classType": "llm", "from": "graph"}],
            },
            {
                "id": "out",
                "provider": "response",
                "config": {},
                "input": [{"lane": lane, "from": "graph"} for lane in ("answers", "table", "text")],
            },
        ],
    }
    async with open_pipeline(pipeline, nodes=[ListeningModel]) as client:
        yield Tools(client)


async def test_a_question_becomes_cypher_and_data(graph: GraphWorld) -> None:
    async with asking(graph, ("*oldest*", f"```cypher\n{OLDEST}\n```")) as tools:
        assert await tools("get_cypher", question="Who is the oldest?") == {"valid": True, "cypher": OLDEST}
        found = await tools("get_data", question="Who is the oldest?")
    assert found["rows"] == [{"name": "Charles"}]
    assert (found["valid"], found["cypher"], found["row_limit"], found["truncated"]) == (True, OLDEST, 250, False)


class ListeningModel(Node):
    """Answers what it was told."""

    provider = "llm_listening"
    title = "Listening"
    class_types = ("llm",)

    @tool_function(group="llm")
    def ask(self, question: dict[str, Any], expectJson: bool = False) -> dict[str, Any]:
        """Answer the question itself."""
        return {"answer": {"answer": str(question)}}


async def test_the_model_is_told_the_schema_and_the_description(graph: GraphWorld) -> None:
    graph.config["description"] = "Who knows whom."
    async with asking(graph, model={"provider": "llm_listening", "config": {}}) as tools:
        told = (await tools("get_cypher", question="Who is the oldest?"))["answer"]
    assert "(:Person)-[:KNOWS {since: " in told
    assert "Who knows whom." in told


@pytest.mark.parametrize(
    "wrong",
    [
        "MATCH (p:Person) DETACH DELETE p",
        "MATCH (p:Person RETURN p",
        "MATCH (p:Person) RETURN nobody.name",
    ],
)
async def test_what_is_wrong_is_written_anew_with_the_reason(graph: GraphWorld, wrong: str) -> None:
    async with asking(graph, ("*was refused: *", OLDEST), ("*", wrong)) as tools:
        found = await tools("get_data", question="Who is the oldest?")
        assert found["rows"] == [{"name": "Charles"}]


async def test_a_model_that_only_writes_is_stopped_and_fails_the_call(graph: GraphWorld) -> None:
    wrong = "MATCH (p:Person) SET p.born = 1"
    async with asking(graph, ("*", wrong)) as tools:
        for tool in ("get_cypher", "get_data"):
            error = await tools.fails(tool, question="Make them younger")
            assert error.code == "unsafe_cypher"
            assert error.data["cypher"] == wrong
            assert "SET changes the graph" in error.message
        assert await tools.rows("MATCH (p:Person {born: 1}) RETURN p") == []


async def test_a_question_that_no_data_answers_gets_words(graph: GraphWorld) -> None:
    async with asking(graph, ("*", {"answer": "This graph knows people, not the weather."})) as tools:
        answer = {"valid": False, "answer": "This graph knows people, not the weather."}
        assert await tools("get_cypher", question="Will it rain?") == answer
        assert await tools("get_data", question="Will it rain?") == answer


async def test_a_question_that_is_blank_or_a_whole_document_is_bad_input(graph: GraphWorld) -> None:
    async with asking(graph, ("*", OLDEST)) as tools:
        for question in (" ", "x" * (MAX_QUESTION + 1)):
            assert isinstance(await tools.fails("get_data", question=question), InvalidArguments)


async def test_a_model_tries_as_often_as_the_settings_say(graph: GraphWorld) -> None:
    graph.config["max_attempts"] = 1
    async with asking(graph, ("*was refused: *", OLDEST), ("*", "CREATE (:Person)")) as tools:
        error = await tools.fails("get_cypher", question="Who?")
    assert error.code == "unsafe_cypher"
    assert "(1 attempt):" in error.message


async def test_without_a_model_the_tools_that_need_one_are_hidden(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        names = {tool["name"] for tool in await tools.client.tools()}
        assert "query" in names
        assert not names & {"get_cypher", "get_data"}
        assert isinstance(await tools.fails("get_cypher", question="Who?"), Unavailable)


async def test_a_question_on_the_lane_is_answered_as_table_text_and_answers(graph: GraphWorld) -> None:
    async with asking(graph, ("*", "MATCH (p:Person) RETURN p.name AS name, p.born AS born ORDER BY name LIMIT 2")) as tools:
        result = await tools.client.chat(question={"questions": [{"text": "Who is there?"}]})
    table = "| name | born |\n| --- | --- |\n| Ada | 1815 |\n| Charles | 1791 |"
    assert table in str(result).replace("\\n", "\n")


async def test_a_question_that_fails_fails_its_object(graph: GraphWorld) -> None:
    async with asking(graph, ("*", "MATCH (p) DELETE p")) as tools:
        with pytest.raises(RrextError, match="wrote Cypher that may do more"):
            await tools.client.chat(question={"questions": [{"text": "Who is there?"}]})
