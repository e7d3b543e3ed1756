"""`BertEncoder`: a BERT computed with NumPy, from a safetensors file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import Unavailable
from rrext.nodes.embeddings.transformer.folder import BertConfig

if TYPE_CHECKING:
    from rrext.nodes.embeddings.transformer.encoder import Floats, Ids

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
        """Load the encoder from a safetensors file, which holds numbers and never code."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            weights = load_file(path)
        except (SafetensorError, OSError, KeyError, TypeError) as error:  # the last two: a kind of number NumPy has not
            raise Unavailable(f"{path} cannot be read: {error}") from None
        return cls(config, weights)

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
