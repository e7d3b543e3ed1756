"""`embedding_local`: vectors of a sentence model in a folder, computed in this process without any network."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.embeddings.embedder import TextKind
from rrext.nodes.embeddings.node import EmbeddingNode, EmbeddingVectors, ThreadedVectors
from rrext.nodes.embeddings.transformer.embedder import Runtime, TransformerEmbedder, TransformerOptions
from rrext.nodes.embeddings.transformer.folder import ModelFolder, read_folder


class LocalEmbeddingNode(EmbeddingNode):
    """Embeds with a sentence model out of a folder, such as all-MiniLM-L6-v2: no server, no download.

    The folder is one of sentence-transformers: `config.json`, `tokenizer.json`, and `model.safetensors` of a BERT, which
    NumPy computes, or `model.onnx`, which ONNX Runtime does where it is installed. A text of more tokens than the model
    takes is cut; that is logged, or with `tooLong` a failure.
    """

    provider = "embedding_local"
    title = "Embedding (local model)"
    profiles = {
        "custom": {},
        "miniLM": {"model": "sentence-transformers/multi-qa-MiniLM-L6-cos-v1"},
        "miniAll": {"model": "sentence-transformers/all-MiniLM-L6-v2"},
        "mpnet": {"model": "sentence-transformers/multi-qa-mpnet-base-cos-v1"},
    }

    paths = {"path": "folder"}

    class Config:
        path: Annotated[str, "The folder of the model."] = ""
        model: Annotated[str, "The name that stores remember with the vectors; empty: that of the folder."] = ""
        runtime: Annotated[Runtime, "What computes: onnx, numpy, or auto for the first of them that is there."] = "auto"
        maxTokens: Annotated[int | None, msgspec.Meta(ge=4), "Tokens of a text that count; null: as the model says."] = None
        tooLong: Annotated[Literal["cut", "fail"], "What happens to a text of more tokens."] = "cut"
        document_prefix: Annotated[str | None, "Put before each document; null: as the model says."] = None
        query_prefix: Annotated[str | None, "Put before each question; null: as the model says."] = None
        truncate_dim: Annotated[int, msgspec.Meta(ge=0), "Numbers of a vector that are kept; 0: all of them."] = 0

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing packages for the model, if any."""
        return missing_packages("embed", "numpy", "tokenizers", "safetensors")

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        name = config.path.strip()
        if not name or not os.path.isdir(path(name)):
            yield "path", f'There is no folder "{name}" with a model; nothing is downloaded.'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[EmbeddingVectors]:
        """Read the small files of the model; the first call reads the large ones."""
        if not config.path.strip():
            raise Unavailable(
                f'Node "{ctx.node_id}" has no model',
                hint='Set "path" to the folder of a model; nothing is downloaded.',
            )
        embedder = await ctx.in_thread(_prepared, ctx.path(config.path.strip()), config)
        yield ThreadedVectors(embedder, ctx)


def _prepared(path: str, config: Any) -> TransformerEmbedder:
    folder = read_folder(path)
    prefixes: dict[TextKind, str] = {
        "document": _prefix(config.document_prefix, folder, "document", "passage"),
        "query": _prefix(config.query_prefix, folder, "query"),
    }
    options = TransformerOptions(
        name=config.model.strip(),
        runtime=config.runtime,
        max_tokens=config.maxTokens,
        dimensions=config.truncate_dim or None,
        prefixes=prefixes,
        too_long=config.tooLong,
    )
    return TransformerEmbedder(folder, options)


def _prefix(said: str | None, folder: ModelFolder, *names: str) -> str:
    if said is not None:
        return said
    return next((folder.prompts[name] for name in names if name in folder.prompts), "")
