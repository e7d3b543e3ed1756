"""`embedding_local`: vectors of a sentence model in a folder, computed in this process without any network.

The folder has small files with settings, in the layout of sentence-transformers. ONNX Runtime or NumPy (a BERT from a
safetensors file) computes the output for each token, from which the vectors of texts are pooled.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeVar

import msgspec

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.embeddings.embedder import TextKind, require_texts
from rrext.nodes.embeddings.node import EmbeddingNode, EmbeddingVectors, ThreadedVectors
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer


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
        self._check_length(encodings)
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

    def _check_length(self, encodings: Sequence[Encoding]) -> None:
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

            return OnnxEncoder(folder.graph, folder.config.hidden_size)

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


if TYPE_CHECKING:
    Floats = NDArray[np.float32]
    Ids = NDArray[np.int64]


class Encoder(Protocol):
    """A model that computes token outputs. May be called from several threads at once."""

    size: int
    """Numbers in the output of each token."""

    @property
    def vocabulary(self) -> int | None:
        """The number of known tokens, if the encoder can tell."""
        ...

    def encode(self, ids: Ids, mask: Ids, check: Callable[[], object]) -> Floats:
        """The output for each token: texts × tokens → texts × tokens × size.

        `mask` is 1 for tokens and 0 for padding. `check` is called now and then, and may raise to stop the computation.
        """
        ...


def pooled(hidden: Floats, mask: Ids, mode: Pooling) -> Floats:
    """One vector for each text, pooled from those of its tokens; padding does not count."""
    import numpy as np

    if mode == "cls":
        return hidden[:, 0]
    weights = mask[:, :, None].astype(hidden.dtype)
    if mode == "max":
        return np.where(weights > 0, hidden, -np.inf).max(axis=1)
    count = weights.sum(axis=1)
    total = (hidden * weights).sum(axis=1)
    return total / (np.sqrt(count) if mode == "mean_sqrt_len" else count)


def unit(vectors: Any) -> Any:
    """The vectors scaled to length 1."""
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxEncoder:
    """An exported encoder in an ONNX graph: its inputs are tokens and their mask, its output is one row for each token."""

    def __init__(self, path: Path, size: int) -> None:
        """Load the graph. Raises `Unavailable` for a file that is no encoder."""
        import onnxruntime

        try:
            session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has no common class for its errors
            raise Unavailable(f"{path} cannot be loaded: {error}") from None
        self._session = session
        self._inputs = [given.name for given in session.get_inputs()]
        unknown = [name for name in self._inputs if name not in INPUTS]
        outputs = [output.name for output in session.get_outputs() if len(output.shape) == 3]
        if unknown or not outputs:
            raise Unavailable(
                f"{path} is no encoder: it wants {', '.join(unknown) or 'what encoders want'}, and answers otherwise"
            )
        self._output = outputs[0]
        self.size = size

    @property
    def vocabulary(self) -> int | None:
        """None: a graph does not contain the number of known tokens."""
        return None

    def encode(self, ids: Ids, mask: Ids, check: Callable[[], object]) -> Floats:
        """The encoder's output for each token: texts × tokens × size. `check` is called before the computation."""
        import numpy as np

        check()
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            (hidden,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        except Exception as error:  # as in __init__
            raise ToolError(f"The model could not be computed: {error}", code="model_failed") from None
        return hidden


FAR: Final = -1e9
"""Added to the attention for padding tokens: nothing of it is left after the softmax."""

PARTS: Final = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attended",
    "attention.output.LayerNorm": "attended_norm",
    "intermediate.dense": "inner",
    "output.dense": "outer",
    "output.LayerNorm": "outer_norm",
}
"""Names of a layer's weights in the file -> their names here."""


class BertEncoder:
    """Token, place and kind embeddings, and layers of attention over them: BERT as it was published."""

    def __init__(self, config: BertConfig, weights: dict[str, Floats]) -> None:
        """Raises `Unavailable` for another kind of model, or weights that are missing or of another shape."""
        _require_bert(config)
        read = _Weights(weights)
        size = self.size = config.hidden_size
        self._heads = config.num_attention_heads
        self._eps = config.layer_norm_eps
        self._activation = ACTIVATIONS[config.hidden_act]
        words = read("embeddings.word_embeddings.weight", None, size)
        places = read("embeddings.position_embeddings.weight", config.max_position_embeddings, size)
        kinds = read("embeddings.token_type_embeddings.weight", None, size)
        self._embeddings = (words, places + kinds[0])  # a single text is all of the first kind
        self._norm = read.pair("embeddings.LayerNorm", size)
        self._layers = [self._layer(read, f"encoder.layer.{n}", size) for n in range(config.num_hidden_layers)]

    @classmethod
    def load(cls, config: BertConfig, path: Path) -> BertEncoder:
        """Load the encoder from a safetensors file."""
        return cls(config, load_weights(path))

    @property
    def vocabulary(self) -> int:
        """The number of known tokens."""
        return len(self._embeddings[0])

    def encode(self, ids: Ids, mask: Ids, check: Callable[[], object]) -> Floats:
        """The encoder's output for each token: texts × tokens × size. `check` is called before each layer."""
        import numpy as np

        words, places = self._embeddings
        hidden = self._normed(words[ids] + places[: ids.shape[1]], self._norm)
        hide = ((1 - mask) * np.float32(FAR)).astype(np.float32)[:, None, None, :]
        for layer in self._layers:
            check()
            attended = _dense(self._attention(hidden, hide, layer), layer["attended"])
            hidden = self._normed(hidden + attended, layer["attended_norm"])
            inner = self._activation(_dense(hidden, layer["inner"]))
            hidden = self._normed(hidden + _dense(inner, layer["outer"]), layer["outer_norm"])
        return hidden

    def _layer(self, read: _Weights, prefix: str, size: int) -> dict[str, tuple[Floats, Floats]]:
        found = {}
        inner = None
        for part, name in PARTS.items():
            if part.endswith("LayerNorm"):
                found[name] = read.pair(f"{prefix}.{part}", size)
                continue
            weight, bias = found[name] = read.dense(f"{prefix}.{part}", inner if name == "outer" else size)
            if name == "inner":
                inner = weight.shape[1]
            elif len(bias) != size:
                raise Unavailable(f"The weights {prefix}.{part} do not fit config.json")
        return found

    def _attention(self, hidden: Floats, hide: Floats, layer: dict[str, tuple[Floats, Floats]]) -> Floats:
        import numpy as np

        texts, tokens, size = hidden.shape

        def heads(name: str) -> Floats:
            split = _dense(hidden, layer[name]).reshape(texts, tokens, self._heads, size // self._heads)
            return split.transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2)
        scores *= np.float32(1 / np.sqrt(size // self._heads))
        scores += hide
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, tokens, size)

    def _normed(self, values: Floats, weights: tuple[Floats, Floats]) -> Floats:
        import numpy as np

        scale, shift = weights
        values = values - values.mean(axis=-1, keepdims=True)
        variance = np.mean(values * values, axis=-1, keepdims=True)
        return values / np.sqrt(variance + np.float32(self._eps)) * scale + shift


def load_weights(path: Path) -> dict[str, Floats]:
    """The weights in a safetensors file, which holds numbers and never code. Raises `Unavailable`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, KeyError, TypeError) as error:  # the last two: a kind of number NumPy has not
        raise Unavailable(f"{path} cannot be read: {error}") from None


class _Weights:
    """Reads weights by name, with or without the prefix of the whole model, and checks their shapes."""

    def __init__(self, found: dict[str, Floats]) -> None:
        self._found = found
        self._prefix = "bert." if "bert.embeddings.word_embeddings.weight" in found else ""

    def __call__(self, name: str, *shape: int | None) -> Floats:
        import numpy as np

        found = self._found.get(self._prefix + name)
        if found is None:
            raise Unavailable(f"The weights of the model lack {name}: it is no BERT")
        fits = len(found.shape) == len(shape) and all(want in (None, has) for want, has in zip(shape, found.shape, strict=True))
        if not fits:
            raise Unavailable(f"The weights {name} do not fit config.json: their shape is {list(found.shape)}")
        return np.ascontiguousarray(found, dtype=np.float32)

    def pair(self, name: str, size: int) -> tuple[Floats, Floats]:
        """Scale and shift of a normalisation layer."""
        return self(f"{name}.weight", size), self(f"{name}.bias", size)

    def dense(self, name: str, size: int | None) -> tuple[Floats, Floats]:
        """Matrix and bias of a layer with `size` inputs; the matrix is transposed for multiplication from the right."""
        weight = self(f"{name}.weight", None, size)
        return weight.T, self(f"{name}.bias", weight.shape[0])


def _require_bert(config: BertConfig) -> None:
    said = config.position_embedding_type or "absolute"
    if config.model_type != "bert" or said != "absolute" or config.hidden_act not in ACTIVATIONS:
        raise Unavailable(
            f'A model of type "{config.model_type}" ({said} positions, {config.hidden_act}) is not computed with NumPy',
            hint="Put its model.onnx into the folder and install onnxruntime.",
        )
    if config.hidden_size < 1 or config.num_attention_heads < 1 or config.hidden_size % config.num_attention_heads:
        raise Unavailable(f"{config.hidden_size} numbers cannot be shared by {config.num_attention_heads} heads")


def _dense(values: Floats, weights: tuple[Floats, Floats]) -> Floats:
    matrix, bias = weights
    return values @ matrix + bias


def erf(values: Any) -> Any:
    """The error function, which NumPy lacks, by Abramowitz and Stegun 7.1.26: wrong by 1.5e-7 at most."""
    import numpy as np

    size = np.abs(values)
    t = 1 / (1 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(values) * (1 - series * np.exp(-size * size))


def _gelu(values: Any) -> Any:
    return values * 0.5 * (1 + erf(values * 0.7071067811865476))


def _gelu_tanh(values: Any) -> Any:
    import numpy as np

    return values * 0.5 * (1 + np.tanh(0.7978845608028654 * (values + 0.044715 * values * values * values)))


def _relu(values: Any) -> Any:
    import numpy as np

    return np.maximum(values, 0)


ACTIVATIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "gelu": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": _relu,
}
"""Activation functions, by their names in `config.json`."""

T = TypeVar("T")
Pooling = Literal["mean", "cls", "max", "mean_sqrt_len"]

FLAGS: Final[dict[str, Pooling]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
}
"""The switches of older pooling files, and their pooling modes."""

WEIGHTS: Final = "model.safetensors"
GRAPHS: Final = ("model.onnx", "onnx/model.onnx")


class BertConfig(msgspec.Struct, frozen=True):
    """The fields of `config.json` that an encoder needs."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int = 512
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str | None = None


class ModelFolder(msgspec.Struct, frozen=True):
    """A sentence model: the paths of its files, and the way from token outputs to vectors.

    `weights` and `graph` are the files for NumPy and for ONNX Runtime, None where one is missing.
    """

    path: Path
    config: BertConfig
    tokenizer: Path
    weights: Path | None
    graph: Path | None
    max_length: int
    lower_case: bool = False
    pooling: Pooling = "mean"
    normalize: bool = True
    prompts: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The default name of the model: the folder's own name."""
        return self.path.name


def read_folder(path: str | Path) -> ModelFolder:
    """Read the settings of a folder's model, from its small files alone.

    Raises `Unavailable` for a missing folder, and for one without a usable sentence model.
    """
    path = Path(path)
    if not path.is_dir():
        raise Unavailable(f"{path} is no folder: there is no model", hint="Download a model and set its folder.")
    config = read_settings(path / "config.json", BertConfig)
    tokenizer = path / "tokenizer.json"
    if not tokenizer.is_file():
        raise Unavailable(f"The model in {path} has no tokenizer.json")
    weights = path / WEIGHTS
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    if graph is None and not weights.is_file():
        raise Unavailable(
            f"The model in {path} has neither {WEIGHTS} nor {GRAPHS[0]}",
            hint="Weights in pickle files (pytorch_model.bin) are not read: they could run code.",
        )
    limits = _read_if_there(path / "sentence_bert_config.json", _Limits) or _Limits()
    length = min(limits.max_seq_length or config.max_position_embeddings, config.max_position_embeddings)
    pooling, normalize = _modules(path)
    said = _read_if_there(path / "config_sentence_transformers.json", _Prompts) or _Prompts()
    return ModelFolder(
        path=path,
        config=config,
        tokenizer=tokenizer,
        weights=weights if weights.is_file() else None,
        graph=graph,
        max_length=length,
        lower_case=limits.do_lower_case,
        pooling=pooling,
        normalize=normalize,
        prompts={name: text for name, text in (said.prompts or {}).items() if text},
    )


class _Limits(msgspec.Struct, frozen=True):
    max_seq_length: int | None = None
    do_lower_case: bool = False


class _Prompts(msgspec.Struct, frozen=True):
    prompts: dict[str, str | None] | None = None


class _Module(msgspec.Struct, frozen=True):
    type: str
    path: str = ""


def _modules(path: Path) -> tuple[Pooling, bool]:
    """The pooling according to `modules.json`; without that file the mean, with length 1."""
    modules = _read_if_there(path / "modules.json", list[_Module])
    if modules is None:
        return "mean", True
    pooling: Pooling = "mean"
    normalize = False
    for module in modules:
        kind = module.type.rpartition(".")[2]
        if kind == "Pooling":
            pooling = _pooling(path / module.path / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise Unavailable(f'The model in {path} has a module "{module.type}", which is not known here')
    return pooling, normalize


def _pooling(path: Path) -> Pooling:
    said = read_settings(path, dict[str, Any])
    wanted = said.get("pooling_mode")
    modes = [wanted] if isinstance(wanted, str) else [mode for flag, mode in FLAGS.items() if said.get(flag)]
    for mode in FLAGS.values():
        if modes == [mode]:
            return mode
    raise Unavailable(
        f"{path} asks for a way of pooling that is not known here", hint=f"Known are {', '.join(FLAGS.values())}."
    )


def read_settings(path: Path, kind: type[T]) -> T:
    """A small file of a model. Raises `Unavailable` if it is missing or is not what it should be."""
    found = _read_if_there(path, kind)
    if found is None:
        raise Unavailable(f"{path} is missing: this is no folder of a model")
    return found


def _read_if_there(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"{path} is not what it should be: {error}") from None
