"""`TransformerEmbedder`: vectors of a sentence model in a folder, computed in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.embeddings.embedder import TextKind, require_texts
from rrext.nodes.embeddings.transformer.encoder import Encoder, pooled, unit
from rrext.nodes.embeddings.transformer.folder import ModelFolder
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

MAX_BATCH: Final = 64
"""Texts in a batch; more at once are no faster."""
MAX_SQUARE: Final = 1 << 20
"""Texts of a batch times the square of their tokens: the attention of a layer then takes some 50 MB."""

Runtime = Literal["auto", "numpy", "onnx"]

log: Final = logging.getLogger("rrext.embeddings")


class TransformerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a node. `prefixes` are put before texts of a kind, `dimensions` cuts vectors."""

    name: str
    runtime: Runtime = "auto"
    max_tokens: int | None = None
    dimensions: int | None = None
    prefixes: dict[TextKind, str] = {}
    too_long: Literal["cut", "fail"] = "cut"


class TransformerEmbedder:
    """Embeds with the model of a folder, loaded at the first call. Several threads may call it."""

    def __init__(self, folder: ModelFolder, options: TransformerOptions) -> None:
        self._folder = folder
        self._options = options
        self._loaded: tuple[Tokenizer, Encoder] | None = None
        self._lock = threading.Lock()
        self._told = False
        self.model = options.name or folder.name
        self.size: int | None = min(options.dimensions or folder.config.hidden_size, folder.config.hidden_size)
        self.length = min(options.max_tokens or folder.max_length, folder.config.max_position_embeddings)

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text. A text of more tokens than the model takes is cut, or fails, as the options say.

        Raises `InvalidArguments` for a blank text and for one that is too long, `Unavailable` for a model that cannot
        be loaded.
        """
        require_texts(texts)
        ctx.check()
        tokenizer, encoder = self._ready()
        prefix = self._options.prefixes.get(kind, "")
        given = [prefix + text for text in texts]
        if self._folder.lower_case:
            given = [text.lower() for text in given]
        encodings = tokenizer.encode_batch_fast(given)
        self._look_for_long(encodings)
        tokens = [encoding.ids for encoding in encodings]
        vectors: list[list[float]] = [[]] * len(tokens)
        for batch in batches_of_like_length([len(ids) for ids in tokens]):
            ctx.check()
            found = self._vectors(encoder, [tokens[n] for n in batch], ctx)
            for n, vector in zip(batch, found, strict=True):
                vectors[n] = vector
        return vectors

    def _vectors(self, encoder: Encoder, tokens: list[list[int]], ctx: ToolContext) -> list[list[float]]:
        import numpy as np

        longest = max(map(len, tokens))
        ids = np.zeros((len(tokens), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(tokens):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        vectors = pooled(encoder.encode(ids, mask, ctx.check), mask, self._folder.pooling)
        if self._options.dimensions is not None:
            vectors = vectors[:, : self.size]
        if self._folder.normalize:
            vectors = unit(vectors)
        return vectors.tolist()

    def _look_for_long(self, encodings: Sequence[Encoding]) -> None:
        long = [n for n, encoding in enumerate(encodings) if encoding.overflowing]
        if not long:
            return
        if self._options.too_long == "fail":
            raise InvalidArguments.at(f"/input/texts/{long[0]}", f"has more than the {self.length} tokens that the model takes")
        if not self._told:
            self._told = True
            log.warning(
                "%s: %d texts have more than %d tokens and were cut; split them smaller", self.model, len(long), self.length
            )

    def _ready(self) -> tuple[Tokenizer, Encoder]:
        with self._lock:  # a second thread waits for the model that the first one loads
            if self._loaded is None:
                tokenizer, encoder = self._tokenizer(), self._encoder()
                if encoder.vocabulary is not None and max(tokenizer.get_vocab().values(), default=0) >= encoder.vocabulary:
                    raise Unavailable(
                        f"{self._folder.tokenizer} knows more tokens than the weights beside it: they are of different models"
                    )
                self._loaded = tokenizer, encoder
            return self._loaded

    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        try:
            tokenizer: Any = Tokenizer.from_file(str(self._folder.tokenizer))
        except Exception as error:  # the library raises plain exceptions
            raise Unavailable(f"{self._folder.tokenizer} cannot be read: {error}") from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.length)
        return tokenizer

    def _encoder(self) -> Encoder:
        folder, runtime = self._folder, self._options.runtime
        has_onnx = find_spec("onnxruntime") is not None
        if runtime == "auto":
            runtime = "onnx" if folder.graph is not None and (has_onnx or folder.weights is None) else "numpy"
        if runtime == "onnx":
            if folder.graph is None or not has_onnx:
                raise Unavailable(
                    f"The model in {folder.path} has no model.onnx" if folder.graph is None else "onnxruntime is not installed",
                    hint='Set "runtime": "numpy", or install what is missing: pip install onnxruntime',
                )
            from rrext.nodes.embeddings.transformer.encoder import OnnxEncoder

            return OnnxEncoder(folder.graph, folder.config.hidden_size)
        from rrext.nodes.embeddings.transformer.bert import BertEncoder

        if folder.weights is None:
            raise Unavailable(f"The model in {folder.path} has no model.safetensors")
        return BertEncoder.load(folder.config, folder.weights)


def batches_of_like_length(lengths: Sequence[int]) -> list[list[int]]:
    """The indexes of texts, grouped by their numbers of tokens: texts of similar length together, for little padding."""
    batches: list[list[int]] = []
    room = 0
    for n in sorted(range(len(lengths)), key=lambda n: -lengths[n]):  # a batch is as wide as its first
        if not batches or len(batches[-1]) >= room:
            batches.append([])
            room = max(1, min(MAX_BATCH, MAX_SQUARE // max(1, lengths[n]) ** 2))
        batches[-1].append(n)
    return batches
