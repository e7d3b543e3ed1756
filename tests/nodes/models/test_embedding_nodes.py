"""Embedding nodes: on the lanes, as tools, and bound to another node; and the API of a server that makes the vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isclose
from typing import Any

import pytest

from rrext import Node, ToolContext, tool_function
from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.lanes import new_question
from rrext.nodes.embeddings.embedder import EMBEDDING_SLOT, embedder_of, hashed
from rrext.nodes.embeddings.node import HashingNode
from rrext.nodes.embeddings.openai import OpenAIEmbeddingNode
from rrext.testing import call_tool, open_pipeline, run_node

from model_server import SIZE, Body, ModelServer, Status, serving  # isort: skip

KEY = "sk-embed-0815"


class Asker(Node):
    """Embeds with what is bound to it."""

    provider = "test_embedding_asker"
    class_types = ("tool",)
    invoke = EMBEDDING_SLOT

    @tool_function
    def vectors(self, texts: list[str], *, ctx: ToolContext) -> dict[str, Any]:
        """What the embedder says."""
        embedder = embedder_of(self)
        found = embedder.embed(texts, "query", ctx)
        return {"model": embedder.model, "size": embedder.size, "vectors": found}


class Liar(Node):
    """An embedding node that does not keep to what it says."""

    provider = "test_embedding_liar"
    class_types = ("embedding",)

    class Config:
        how: str = ""

    @tool_function
    def embed(self, texts: list[str], kind: str) -> dict[str, Any]:
        """Lie."""
        how = self.config.how
        vectors = [[1.0, 2.0] for _ in texts]
        if how == "fewer":
            vectors.pop()
        elif how == "shorter":
            vectors[-1].pop()
        return {"model": texts[0] if how == "model" else "m", "size": 2, "vectors": vectors}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving(key=KEY) as running:
        yield running


def settings(server: ModelServer, **more: Any) -> dict[str, Any]:
    values = {"base_url": server.address, "apikey": KEY, "model": "test-embed", "retryDelay": 0.001, **more}
    return {"profile": "custom", "custom": values}


def embed(server: ModelServer, *texts: str, kind: str = "document", **more: Any) -> Any:
    config = settings(server, **more)
    return call_tool(OpenAIEmbeddingNode, "embed", {"texts": list(texts), "kind": kind}, config=config)


def document(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "Document", "page_content": text, "metadata": {"objectId": "o", "chunkId": 3, "mine": [1]}, **more}


def alike(first: list[float], second: list[float]) -> bool:
    return len(first) == len(second) and all(isclose(a, b, abs_tol=1e-6) for a, b in zip(first, second, strict=True))


# the lanes


def test_documents_get_their_vectors_and_keep_everything_else() -> None:
    given = [document("one", score=0.5), document("two", context=["x"])]
    (out,) = run_node(HashingNode, "documents", given)["documents"]
    for before, after in zip(given, out, strict=True):
        assert after == {**before, "embedding": hashed(before["page_content"]), "embedding_model": "hashing-384"}


def test_a_vector_of_this_model_stays_and_one_of_another_is_replaced() -> None:
    mine = document("one", embedding=[1.0], embedding_model="hashing-384")
    other = document("one", embedding=[1.0], embedding_model="another")
    (out,) = run_node(HashingNode, "documents", [mine, other])["documents"]
    assert out[0] == mine
    assert out[1]["embedding"] == hashed("one")
    assert out[1]["embedding_model"] == "hashing-384"


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_document_without_text_passes_by_as_it_is(text: Any) -> None:
    picture = document("x", type="Image", page_content=text)
    (out,) = run_node(HashingNode, "documents", [picture, document("one")])["documents"]
    assert out[0] == picture
    assert out[1]["embedding"]


def test_every_text_of_a_question_gets_its_vector() -> None:
    question = new_question("one", context=["c"])
    question["questions"].append({"text": "two", "embedding": None, "embedding_model": None})
    (out,) = run_node(HashingNode, "questions", question, config={"size": 32})["questions"]
    assert [item["embedding"] for item in out["questions"]] == [hashed("one", 32), hashed("two", 32)]
    assert {item["embedding_model"] for item in out["questions"]} == {"hashing-32"}
    assert {**out, "questions": None} == {**question, "questions": None}


# the tool, and nodes that use it


def test_the_tool_answers_model_size_and_a_vector_for_each_text() -> None:
    answer = call_tool(HashingNode, "embed", {"texts": ["a", "b"]})
    assert answer == {"model": "hashing-384", "size": 384, "vectors": [hashed("a"), hashed("b")]}


@pytest.mark.parametrize("texts", [[], ["a", " "], ["x"] * 2049, ["x" * 4_000_001]], ids=["none", "blank", "many", "long"])
def test_what_cannot_be_embedded_is_refused_with_its_place(texts: list[str]) -> None:
    with pytest.raises(InvalidArguments) as caught:
        call_tool(HashingNode, "embed", {"texts": texts})
    assert "/input/texts" in str(caught.value.data)


def bound_pipeline(provider: str | None, config: dict[str, Any]) -> dict[str, Any]:
    components: list[dict[str, Any]] = [
        {"id": "source", "provider": "tools", "config": {"mode": "Source"}},
        {"id": "asker", "provider": Asker.provider, "config": {}, "control": [{"classType": "tool", "from": "source"}]},
    ]
    if provider is not None:
        control = [{"classType": "embedding", "from": "asker"}]
        components.append({"id": "embedder", "provider": provider, "config": config, "control": control})
    return {"source": "source", "components": components}


async def asked(pipeline: dict[str, Any], texts: list[str]) -> Any:
    async with open_pipeline(pipeline, nodes=[Asker, Liar]) as client:
        return await client.tool(tool="vectors", input={"texts": texts})


async def test_a_node_without_an_embedding_node_hashes_by_itself() -> None:
    answer = await asked(bound_pipeline(None, {}), ["a"])
    assert answer == {"model": "hashing-384", "size": 384, "vectors": [hashed("a")]}


async def test_a_node_uses_the_embedding_node_that_is_bound_to_it_in_batches(server: ModelServer) -> None:
    texts = [f"text {n}" for n in range(150)]
    answer = await asked(bound_pipeline("embedding_openai", settings(server)), texts)
    assert (answer["model"], answer["size"], len(answer["vectors"])) == ("test-embed", SIZE, 150)
    assert alike(answer["vectors"][149], hashed("text 149", SIZE))
    assert [len(request.body["input"]) for request in server.asked] == [64, 64, 22]


async def test_a_failure_of_the_bound_node_keeps_its_code(server: ModelServer) -> None:
    server.next(Status(404, "no such model"))
    with pytest.raises(ToolError) as caught:
        await asked(bound_pipeline("embedding_openai", settings(server)), ["a"])
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("fewer", "embedding_size_mismatch"),
        ("shorter", "embedding_size_mismatch"),
        ("model", "embedding_model_mismatch"),
    ],
)
async def test_a_bound_node_that_does_not_keep_to_what_it_says_is_found_out(how: str, code: str) -> None:
    with pytest.raises(ToolError) as caught:
        await asked(bound_pipeline(Liar.provider, {"how": how}), [f"text {n}" for n in range(70)])
    assert caught.value.code == code


# a server's API


def test_vectors_come_back_in_the_order_of_their_texts(server: ModelServer) -> None:
    texts = ["one", "two", "three"]
    answer = embed(server, *texts)
    assert (answer["model"], answer["size"]) == ("test-embed", SIZE)
    for text, vector in zip(texts, answer["vectors"], strict=True):
        assert alike(vector, hashed(text, SIZE))
    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "test-embed", "input": texts}


def test_vectors_may_travel_in_base64_and_in_another_size(server: ModelServer) -> None:
    answer = embed(server, "one", encoding="base64", dimensions=32)
    assert alike(answer["vectors"][0], hashed("one", 32))
    assert server.asked[0].body["dimensions"] == 32


def test_documents_and_questions_get_the_prefix_that_the_model_wants(server: ModelServer) -> None:
    prefixes = {"document_prefix": "passage: ", "query_prefix": "query: "}
    embed(server, "one", **prefixes)
    embed(server, "one", kind="query", **prefixes)
    assert [request.body["input"] for request in server.asked] == [["passage: one"], ["query: one"]]


def test_a_batch_that_fails_for_now_is_asked_again_and_the_others_are_not(server: ModelServer) -> None:
    server.next(Status(503))
    assert len(embed(server, "a", "b", "c", batch=2)["vectors"]) == 3
    assert [request.body["input"] for request in server.asked] == [["a", "b"], ["a", "b"], ["c"]]


def vectors(*numbered: tuple[int, Any]) -> Body:
    return Body(json.dumps({"data": [{"index": n, "embedding": vector} for n, vector in numbered]}).encode())


@pytest.mark.parametrize(
    "body",
    [
        Body(b"{}"),
        Body(b"["),
        vectors((0, [1.0])),
        vectors((0, [1.0]), (0, [1.0])),
        vectors((0, [1.0]), (2, [1.0])),
        vectors((0, [1.0]), (1, [])),
        vectors((0, [1.0]), (1, [0.0])),
        vectors((0, [1.0]), (1, "AAA")),
        vectors((0, [1.0]), (1, "AACAfwAAgD8=")),
        vectors((0, [1.0]), (1, ["x"])),
    ],
)
def test_an_answer_that_is_no_vectors_is_told_as_such(server: ModelServer, body: Body) -> None:
    server.next(body)
    with pytest.raises(ToolError) as caught:
        embed(server, "a", "b")
    assert caught.value.code == "model_bad_answer"


def test_vectors_of_different_sizes_are_a_failure(server: ModelServer) -> None:
    server.next(vectors((0, [1.0]), (1, [1.0, 2.0])))
    with pytest.raises(ToolError) as caught:
        embed(server, "a", "b")
    assert caught.value.code == "embedding_size_mismatch"


def test_vectors_of_another_size_than_was_asked_for_are_a_failure(server: ModelServer) -> None:
    server.next(vectors((0, [1.0])))
    with pytest.raises(ToolError) as caught:
        embed(server, "a", dimensions=2)
    assert caught.value.code == "embedding_size_mismatch"
