"""A sentence model that is small enough to be made for each test, and its computation written out by hand."""

from __future__ import annotations

import json
from math import erf, exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

__all__ = ["CONFIG", "POOLING_FLAGS", "WORDS", "ids_of", "make_model", "make_onnx", "spelt_out", "weights_of"]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "query", ":"]
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}
POOLING_FLAGS = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
}
MODULES = "sentence_transformers.models."

Weights = dict[str, NDArray[np.float32]]
Rows = list[list[float]]


def weights_of(config: dict[str, Any] = CONFIG, seed: int = 1) -> Weights:
    """Random weights of a BERT."""
    random = np.random.default_rng(seed)
    size, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), size),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], size),
        "embeddings.token_type_embeddings.weight": (2, size),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
    }
    for n in range(config["num_hidden_layers"]):
        dense = {
            "attention.self.query": (size, size),
            "attention.self.key": (size, size),
            "attention.self.value": (size, size),
            "attention.output.dense": (size, size),
            "intermediate.dense": (inner, size),
            "output.dense": (size, inner),
        }
        for name, shape in dense.items():
            shapes[f"encoder.layer.{n}.{name}.weight"] = shape
            shapes[f"encoder.layer.{n}.{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{n}.{name}.weight"] = shapes[f"encoder.layer.{n}.{name}.bias"] = (size,)
    return {name: random.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def make_model(
    folder: Path,
    *,
    weights: Weights | None = None,
    pooling: str | None = "mean",
    normalize: bool = True,
    length: int | None = 10,
    prompts: dict[str, str] | None = None,
    **config: Any,
) -> Path:
    """Write a model in the layout of sentence-transformers; `pooling=None` leaves all of its modules out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **config}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights if weights is not None else weights_of(config), folder / "model.safetensors")
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    special = [("[CLS]", 2), ("[SEP]", 3)]
    template = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    tokenizer.post_processor = template  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.enable_padding(length=7)  # as published files have it; it must not be used
    tokenizer.save(str(folder / "tokenizer.json"))
    if length is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length, "do_lower_case": True}))
    if prompts is not None:
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    if pooling is not None:
        modules = [{"type": f"{MODULES}Transformer", "path": ""}, {"type": f"{MODULES}Pooling", "path": "1_Pooling"}]
        modules += [{"type": f"{MODULES}Normalize", "path": "2_Normalize"}] if normalize else []
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        flags = {flag: mode == pooling for mode, flag in POOLING_FLAGS.items()}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8, **flags}))
    return folder


def ids_of(text: str, length: int = 10) -> list[int]:
    """The tokens of a text, as the tokenizer of `make_model` has them."""
    words = [WORDS.index(word) if word in WORDS else 1 for word in text.lower().replace(":", " : ").split()]
    return [2, *words[: length - 2], 3]


def spelt_out(weights: Any, ids: list[int], config: dict[str, Any] = CONFIG) -> Rows:
    """What a BERT says of each token of one text: number by number, without NumPy's help and in double precision."""
    read = {name: value.astype(float).tolist() for name, value in weights.items() if value.dtype.kind == "f"}
    eps = config["layer_norm_eps"]

    def norm(values: list[float], name: str) -> list[float]:
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        scale, shift = read[f"{name}.weight"], read[f"{name}.bias"]
        return [(v - mean) / sqrt(variance + eps) * a + b for v, a, b in zip(values, scale, shift, strict=True)]

    def dense(values: list[float], name: str) -> list[float]:
        rows, bias = read[f"{name}.weight"], read[f"{name}.bias"]
        return [sum(v * w for v, w in zip(values, row, strict=True)) + b for row, b in zip(rows, bias, strict=True)]

    def add(first: list[float], second: list[float]) -> list[float]:
        return [a + b for a, b in zip(first, second, strict=True)]

    words, places = read["embeddings.word_embeddings.weight"], read["embeddings.position_embeddings.weight"]
    kind = read["embeddings.token_type_embeddings.weight"][0]
    hidden = [norm(add(add(words[token], places[n]), kind), "embeddings.LayerNorm") for n, token in enumerate(ids)]
    width = config["hidden_size"] // config["num_attention_heads"]
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{n}"
        query, key, value = ([dense(row, f"{layer}.attention.self.{part}") for row in hidden] for part in PARTS)
        attended: Rows = []
        for row in query:
            joined: list[float] = []
            for start in range(0, config["hidden_size"], width):
                part = slice(start, start + width)
                scores = [sum(a * b for a, b in zip(row[part], other[part], strict=True)) / sqrt(width) for other in key]
                shares = [exp(score - max(scores)) for score in scores]
                whole = sum(shares)
                columns = zip(*(other[part] for other in value), strict=True)
                joined += [sum(s / whole * v for s, v in zip(shares, column, strict=True)) for column in columns]
            attended.append(dense(joined, f"{layer}.attention.output.dense"))
        hidden = [norm(add(a, b), f"{layer}.attention.output.LayerNorm") for a, b in zip(hidden, attended, strict=True)]
        inner = [[v * 0.5 * (1 + erf(v / sqrt(2))) for v in dense(row, f"{layer}.intermediate.dense")] for row in hidden]
        outer = [dense(row, f"{layer}.output.dense") for row in inner]
        hidden = [norm(add(a, b), f"{layer}.output.LayerNorm") for a, b in zip(hidden, outer, strict=True)]
    return hidden


PARTS = ("query", "key", "value")


def make_onnx(path: Path, table: NDArray[np.float32]) -> None:
    """Write an ONNX file, in its Protocol Buffers, whose encoder says of each token its row in the table."""
    tensor = b"".join(_number(1, size) for size in table.shape)
    tensor += _number(2, 1) + _bytes(8, b"table") + _bytes(9, table.astype("<f4").tobytes())
    node = _bytes(1, b"table") + _bytes(1, b"input_ids") + _bytes(2, b"last_hidden_state") + _bytes(4, b"Gather")
    graph = _bytes(1, node) + _bytes(2, b"tiny") + _bytes(5, tensor)
    graph += _bytes(11, _value(b"input_ids", 7, 2)) + _bytes(11, _value(b"attention_mask", 7, 2))
    graph += _bytes(12, _value(b"last_hidden_state", 1, 3))
    path.write_bytes(_number(1, 8) + _bytes(8, _bytes(1, b"") + _number(2, 13)) + _bytes(7, graph))


def _value(name: bytes, kind: int, rank: int) -> bytes:
    dims = b"".join(_bytes(1, _bytes(2, b"d%d" % n)) for n in range(rank))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, dims)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
