"""`embedding_openai`: vectors of a model behind an OpenAI-compatible API."""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import ToolError
from rrext.http import bad_answer
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.embeddings.embedder import TextKind, batches
from rrext.nodes.embeddings.node import EmbeddingNode, EmbeddingVectors
from rrext.nodes.http import ApiSettings, HttpEndpoint, Seconds, ServerName, endpoint_settings, open_endpoint
from rrext.tools.context import ToolContext

OPENAI_MAX_CHARACTERS: Final = 300_000
"""Characters of one request: servers take some 300,000 tokens, and a token can be a single character."""
ON_LOOP: Final = 64 * 1024
"""Bytes of an answer that is parsed on the event loop; larger ones would block it, and go to a thread."""

ADDRESS: Final = "https://api.openai.com/v1"
PATH: Final = "/embeddings"


class RemoteVectors:
    """Requests vectors from a server, a batch of texts at a time."""

    def __init__(
        self, endpoint: HttpEndpoint, *, model: str, batch: int, body: dict[str, Any], prefixes: dict[TextKind, str]
    ) -> None:
        self._endpoint = endpoint
        self._batch = batch
        self._body = {"model": model, **body}
        self._prefixes = prefixes
        self.model = model

    async def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text. Raises `ToolError` for failures of the server, and for vectors of different sizes."""
        prefix = self._prefixes[kind]
        vectors: list[list[float]] = []
        for batch in batches([prefix + text for text in texts], self._batch, OPENAI_MAX_CHARACTERS):
            body = await self._endpoint.post(PATH, {**self._body, "input": batch}, ctx)
            arguments = (self._endpoint.server, body, len(batch))
            read = self._endpoint.ctx.in_thread
            vectors += read_vectors(*arguments) if len(body) <= ON_LOOP else await read(read_vectors, *arguments)
        if len({len(vector) for vector in vectors}) > 1:
            raise ToolError(f"{self._endpoint.server} answered vectors of different sizes", code="embedding_size_mismatch")
        wanted = self._body.get("dimensions")
        if wanted and vectors and len(vectors[0]) != wanted:
            raise ToolError(
                f"{self._endpoint.server} answered vectors of {len(vectors[0])} numbers, not of {wanted}",
                code="embedding_size_mismatch",
                hint='This model cannot be cut to another size: leave "dimensions" out.',
            )
        return vectors


def read_vectors(server: ServerName, body: bytes, count: int) -> list[list[float]]:
    """The vectors in an answer, in the order of their index, whether as numbers or in Base64.

    Raises `ToolError` `model_bad_answer` unless it is `count` vectors of finite numbers.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_answer(server, f"no embeddings: {error}") from None
    by_index = {item.index: item.embedding for item in answer.data}
    if sorted(by_index) != list(range(count)) or len(answer.data) != count:
        raise bad_answer(server, f"{len(answer.data)} vectors to {count} texts, or numbered them wrongly")
    return [_numbers(server, by_index[n]) for n in range(count)]


class _Item(msgspec.Struct):
    index: int
    embedding: list[float] | str


class _Answer(msgspec.Struct):
    data: list[_Item]


def _numbers(server: ServerName, embedding: list[float] | str) -> list[float]:
    if isinstance(embedding, str):
        numbers = array("f")
        try:
            numbers.frombytes(base64.b64decode(embedding, validate=True))
        except (binascii.Error, ValueError):
            raise bad_answer(server, "a vector that is no Base64 of numbers of four bytes") from None
        if sys.byteorder == "big":
            numbers.byteswap()
        embedding = numbers.tolist()
    total = sum(map(abs, embedding))
    if not 0 < total < float("inf"):  # also false for NaN
        raise bad_answer(server, "a vector that is empty, all zero or not finite")
    return embedding


class OpenAIEmbeddingNode(EmbeddingNode):
    """Embeds with a model behind an OpenAI-compatible API: OpenAI itself, Ollama, vLLM, text-embeddings-inference …"""

    provider = "embedding_openai"
    title = "Embedding (OpenAI-compatible)"
    profiles = {
        "custom": {},
        **{name: {"model": name} for name in ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")},
    }
    default_profile = "text-embedding-3-small"

    class Config(ApiSettings):
        dimensions: Annotated[int | None, "Numbers in a vector, of models that can cut theirs; null: all of them."] = None
        encoding: Annotated[Literal["float", "base64"] | None, "How vectors travel; null: as the server does by itself."] = None
        document_prefix: Annotated[str, "Put before each document, for models that want that, such as `passage: `."] = ""
        query_prefix: Annotated[str, "Put before each question, such as `query: `."] = ""
        batch: Annotated[int, msgspec.Meta(ge=1, le=2048), "Texts in one request; some servers take only a few."] = 64
        timeout: Annotated[Seconds, "Seconds that the server may be silent."] = 60.0
        totalTimeout: Annotated[Seconds, "Seconds for one request, retries included. The caller's deadline may end it."] = 300.0

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package for HTTP, if any."""
        return missing_packages("llm", "httpx2")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[EmbeddingVectors]:
        """Make one pool of connections for all objects. Connects to nothing yet."""
        settings = endpoint_settings(config, ADDRESS, ctx.node_id)
        body = {"dimensions": config.dimensions, "encoding_format": config.encoding}
        async with open_endpoint(settings, ctx) as endpoint:
            yield RemoteVectors(
                endpoint,
                model=config.model.strip(),
                batch=config.batch,
                body={key: value for key, value in body.items() if value is not None},
                prefixes={"document": config.document_prefix, "query": config.query_prefix},
            )
