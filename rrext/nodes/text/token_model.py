"""`TokenModel`: a model that names the entities of a text, out of a folder, computed in this process without any network.

The folder is one of a token classification model, as published: `config.json` with the labels, `tokenizer.json`, and
`model.safetensors` of a BERT, which NumPy computes, or `model.onnx`, which ONNX Runtime does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.documents.splitter import Characters, Splitter
from rrext.nodes.embeddings.transformer import (
    GRAPHS,
    WEIGHTS,
    BertConfig,
    BertEncoder,
    OnnxEncoder,
    Runtime,
    batches_of_like_length,
    load_weights,
    read_settings,
)
from rrext.nodes.text.entity_kinds import Entity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    Scores = NDArray[np.float32]

Aggregation = Literal["none", "simple", "first", "average", "max"]

OUTSIDE: Final = "O"
"""The label of tokens that belong to no entity."""
OVERLAP: Final = 64
"""ScoredTokens that two windows of a long text share: half of them are context for either."""
LENGTH: Final = 512
"""ScoredTokens of a window, if the model takes as many: BERT's."""


SECTION: Final = 50_000
"""Characters of a text that are read at once, cut between paragraphs: their tokens and scores take some megabytes."""


class TokenConfig(msgspec.Struct, frozen=True):
    """The fields of `config.json` that every such model has."""

    model_type: str
    id2label: dict[str, str]
    max_position_embeddings: int = LENGTH


class ScoredTokens(msgspec.Struct, frozen=True):
    """The tokens of a text: the places of each in the text, the number of its word, and its score for each label."""

    places: list[tuple[int, int]]
    words: list[int | None]
    scores: Any


class TokenModel:
    """A model, loaded at the first text. Several threads may use it."""

    def __init__(self, folder: str, runtime: Runtime) -> None:
        """Read the small files of the folder. Raises `Unavailable` for one without a usable model."""
        missing = missing_packages("embed", "numpy", "tokenizers", "safetensors")
        if missing is not None:
            raise Unavailable(f"The model in {folder} needs packages: {missing}")
        path = Path(folder)
        if not path.is_dir():
            raise Unavailable(f"{path} is no folder: there is no model", hint="Download a model and set its folder.")
        self._path = path
        self._config = read_settings(path / "config.json", TokenConfig)
        numbers = range(len(self._config.id2label))
        if sorted(self._config.id2label) != sorted(map(str, numbers)):
            raise Unavailable(f"{path / 'config.json'} has no labels (id2label) from 0 on: it is no model that names tokens")
        self._labels = [self._config.id2label[str(number)] for number in numbers]
        self._runtime = runtime
        self._loaded: tuple[Tokenizer, Callable[..., Scores]] | None = None
        self._lock = threading.Lock()

    def find(self, text: str, aggregation: Aggregation, least: float, check: Callable[[], object]) -> list[Entity]:
        """The entities of a text with a score of at least `least`, by their places. Raises what `check` raises."""
        if not text.strip():
            return []
        found: list[Entity] = []
        splitter = Splitter("characters", Characters(SECTION))
        for section in (*splitter.feed(text), *splitter.finish()):
            check()
            entities = entities_of(self._tokens(section.text, check), self._labels, aggregation)
            at = section.start
            found += [Entity(at + e.start, at + e.end, e.group, e.score) for e in entities if e.score >= least]
        return found

    def _tokens(self, text: str, check: Callable[[], object]) -> ScoredTokens:
        import numpy as np

        tokenizer, encode = self._ready()
        whole = tokenizer.encode(text)
        windows = [whole, *whole.overflowing]
        scores: list[Any] = [None] * len(windows)
        for batch in batches_of_like_length([len(window.ids) for window in windows]):
            check()
            longest = max(len(windows[n].ids) for n in batch)
            ids = np.zeros((len(batch), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, n in enumerate(batch):
                ids[row, : len(windows[n].ids)] = windows[n].ids
                mask[row, : len(windows[n].ids)] = 1
            for n, found in zip(batch, encode(ids, mask, check), strict=True):
                scores[n] = found
        return joined(windows, scores)

    def _ready(self) -> tuple[Tokenizer, Callable[..., Scores]]:
        with self._lock:  # a second thread waits for the model that the first one loads
            if self._loaded is None:
                self._loaded = self._tokenizer(), self._scorer()
            return self._loaded

    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        try:
            tokenizer: Any = Tokenizer.from_file(str(self._path / "tokenizer.json"))
        except Exception as error:  # the library raises plain exceptions
            raise Unavailable(f"{self._path / 'tokenizer.json'} cannot be read: {error}") from None
        length = min(LENGTH, self._config.max_position_embeddings)
        tokenizer.no_padding()
        tokenizer.enable_truncation(length, stride=min(OVERLAP, length // 4))
        return tokenizer

    def _scorer(self) -> Callable[..., Scores]:
        graph = next((self._path / name for name in GRAPHS if (self._path / name).is_file()), None)
        weights = self._path / WEIGHTS
        runtime = self._runtime
        if runtime == "auto":
            has_onnx = find_spec("onnxruntime") is not None
            runtime = "onnx" if graph is not None and (has_onnx or not weights.is_file()) else "numpy"
        if runtime == "numpy":
            return _bert(read_settings(self._path / "config.json", BertConfig), weights, len(self._labels))
        if graph is None or find_spec("onnxruntime") is None:
            raise Unavailable(
                f"The model in {self._path} has no {GRAPHS[0]}" if graph is None else "onnxruntime is not installed",
                hint='Set "runtime": "numpy", or install what is missing: pip install "rrext[embed-fast]"',
            )
        return _shares(OnnxEncoder(graph, len(self._labels)).encode, len(self._labels))


def _bert(config: BertConfig, path: Path, labels: int) -> Callable[..., Scores]:
    if not path.is_file():
        raise Unavailable(
            f"The model in {path.parent} has neither {WEIGHTS} nor {GRAPHS[0]}",
            hint="Weights in pickle files (pytorch_model.bin) are not read: they could run code.",
        )
    found = load_weights(path)
    encoder = BertEncoder(config, found)
    weight, bias = found.get("classifier.weight"), found.get("classifier.bias")
    if weight is None or bias is None or weight.shape != (labels, config.hidden_size) or bias.shape != (labels,):
        raise Unavailable(f"{path} has no classifier of {labels} labels: it is no model that names tokens")

    def scored(ids: Any, mask: Any, check: Callable[[], object]) -> Scores:
        return encoder.encode(ids, mask, check) @ weight.T + bias

    return _shares(scored, labels)


def _shares(scored: Callable[..., Scores], labels: int) -> Callable[..., Scores]:
    """The scores as shares of 1, by the softmax."""

    def shares(ids: Any, mask: Any, check: Callable[[], object]) -> Scores:
        import numpy as np

        scores = scored(ids, mask, check)
        if scores.shape[-1] != labels:
            raise ToolError(f"The model says {scores.shape[-1]} numbers of a token, not {labels}", code="model_failed")
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    return shares


def joined(windows: Sequence[Encoding], scores: Sequence[Any]) -> ScoredTokens:
    """The tokens of all windows once: of those that two share, each has the half that is farther from its border."""
    import numpy as np

    places: list[tuple[int, int]] = []
    words: list[int | None] = []
    kept: list[Any] = []
    begins = [_first_place(window) for window in windows[1:]]
    start = 0
    for number, window in enumerate(windows):
        own = [n for n, special in enumerate(window.special_tokens_mask) if not special]
        stop = None
        if number + 1 < len(windows):  # the middle of what the next window has too
            shared = [n for n in own if window.offsets[n][0] >= begins[number]]
            stop = window.offsets[shared[len(shared) // 2]][0] if shared else begins[number]
        mine = [n for n in own if window.offsets[n][0] >= start and (stop is None or window.offsets[n][0] < stop)]
        places += [window.offsets[n] for n in mine]
        words += [window.word_ids[n] for n in mine]
        kept.append(scores[number][mine])
        start = stop if stop is not None else start
    return ScoredTokens(places, words, np.concatenate(kept) if kept else None)


def _first_place(window: Encoding) -> int:
    own = (place[0] for place, special in zip(window.offsets, window.special_tokens_mask, strict=True) if not special)
    return next(own, 0)


def entities_of(tokens: ScoredTokens, labels: Sequence[str], aggregation: Aggregation) -> list[Entity]:
    """The entities that the scores tell, as the pipelines of Transformers put tokens together.

    `none`: each token by itself, with its label. Else neighbours of one kind are one entity, unless a label begins with B; with
    `first`, `average` and `max` a word has one label: that of its first token, of the mean, of the surest token.
    """
    if aggregation == "none":
        best = [(place, *_best(scores, labels)) for place, scores in zip(tokens.places, tokens.scores, strict=True)]
        return [Entity(place[0], place[1], label, score) for place, label, score in best if label != OUTSIDE]
    return list(_grouped(_units(tokens, labels, aggregation)))


Unit = tuple[int, int, str, float]
"""The place of a token or word, its label and the score of that."""


def _best(scores: Any, labels: Sequence[str]) -> tuple[str, float]:
    number = int(scores.argmax())
    return labels[number], float(scores[number])


def _units(tokens: ScoredTokens, labels: Sequence[str], aggregation: Aggregation) -> Iterator[Unit]:
    numbered = range(len(tokens.places))
    if aggregation == "simple":
        words: list[list[int]] = [[n] for n in numbered]
    else:
        words = [
            list(group) for _, group in groupby(numbered, key=lambda n: n if tokens.words[n] is None else (tokens.words[n],))
        ]
    for word in words:
        scores = tokens.scores[word]
        chosen = scores[0]
        if aggregation == "average":
            chosen = scores.mean(axis=0)
        elif aggregation == "max":
            chosen = scores[scores.max(axis=1).argmax()]
        yield tokens.places[word[0]][0], tokens.places[word[-1]][1], *_best(chosen, labels)


def _grouped(units: Iterator[Unit]) -> Iterator[Entity]:
    open_group: list[Unit] = []
    for unit in units:
        if open_group and (unit[2].startswith("B-") or _kind(unit[2]) != _kind(open_group[0][2])):
            yield from _entity(open_group)
            open_group = []
        open_group.append(unit)
    yield from _entity(open_group)


def _entity(group: Sequence[Unit]) -> Iterator[Entity]:
    if group and group[0][2] != OUTSIDE:
        yield Entity(group[0][0], group[-1][1], _kind(group[0][2]), sum(unit[3] for unit in group) / len(group))


def _kind(label: str) -> str:
    """The kind of entity in a label such as B-PER."""
    return label[2:] if label[:2] in ("B-", "I-") else label
