"""`ner`: the named entities of texts and documents as metadata; `Recognizer` finds them by a model and by patterns."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.embeddings.transformer import Runtime
from rrext.nodes.text.entity_kinds import KINDS, Entity, EntityKind, PatternRecognizer
from rrext.nodes.text.gathered_text import MAX_CHARACTERS, GatheredText, require_size
from rrext.nodes.text.token_model import Aggregation, TokenModel
from rrext.tools.context import ToolContext

MOST_NAMES: Final = 200
"""Names of one kind in metadata, which each chunk of a document carries; a long text has thousands."""
PREFIX: Final = "entities_"
CUT: Final = "entities_cut"
"""Which kinds have more names than metadata tell."""
ALONE: Final = 'node "%s" works by patterns alone: names of people, organisations and places take a model (path)'

log: Final = logging.getLogger("rrext.component")


class Recognizer:
    """Finds entities: by patterns, and names of people, organisations and places by a model, if there is one."""

    def __init__(self, kinds: Iterable[EntityKind], model: TokenModel | None, aggregation: Aggregation, least: float) -> None:
        """`least` is the lowest score of what the model finds. Compiles the patterns. Raises `Unavailable`."""
        missing = missing_packages("text", "re2")
        if missing is not None:
            raise Unavailable(f"Patterns need a package: {missing}")
        self._patterns = PatternRecognizer(kinds)
        self._model = model
        self._aggregation: Aggregation = aggregation
        self._least = least

    def find(self, text: str, check: Callable[[], object]) -> list[Entity]:
        """The entities of a text by their places. What patterns and the model both find stands twice."""
        found = self._patterns.find(text, check)
        if self._model is not None:
            found += self._model.find(text, self._aggregation, self._least, check)
        return sorted(found)


class ModelSettings:
    """The settings of a model that names entities. The base of the `Config` of nodes that use one."""

    path: Annotated[str, "The folder of a model that names entities; nothing is downloaded. Empty: patterns alone."] = ""
    model: Annotated[str, "The model's name in RocketRide's files. It loads nothing: path does."] = ""
    runtime: Annotated[Runtime, "What computes: onnx, numpy, or auto for the first of them that is there."] = "auto"
    aggregation_strategy: Annotated[
        Aggregation, "How tokens become entities: by neighbours (simple), by words (first, average, max), or not (none)."
    ] = "simple"
    min_confidence: Annotated[float, msgspec.Meta(ge=0, le=1), "The lowest score of an entity that counts."] = 0.9
    maxCharacters: Annotated[int, msgspec.Meta(ge=1), "Characters that one object may bring."] = MAX_CHARACTERS


async def recognizer_of(config: Any, kinds: Iterable[EntityKind], ctx: SetupContext) -> Recognizer:
    """The recognizer of a node with `ModelSettings`. Raises `Unavailable`."""
    folder = config.path.strip()
    model = await ctx.in_thread(TokenModel, ctx.path(folder), config.runtime) if folder else None
    if model is None:
        log.warning(ALONE, ctx.node_id)
    return await ctx.in_thread(Recognizer, kinds, model, config.aggregation_strategy, config.min_confidence)


def missing_model(config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
    """The answer of `Node.missing` for `ModelSettings`."""
    folder = config.path.strip()
    if folder and not os.path.isdir(path(folder)):
        yield "path", f'There is no folder "{folder}" with a model; nothing is downloaded.'


def caution_of(config: Any, left: str) -> Iterable[tuple[str, str]]:
    """The answer of `Node.cautions` for `ModelSettings`; `left` says what becomes of names without a model."""
    if not config.path.strip():
        way = 'Set it to the folder of a model that names entities; pip install "rrext[text,embed-fast]" has what computes it.'
        yield "path", f"Names of people, organisations and places {left}: patterns cannot find them, and path is empty. {way}"


NER_MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "custom": {},
    "bertLarge": {"model": "dbmdz/bert-large-cased-finetuned-conll03-english"},
    "bertBase": {"model": "dslim/bert-base-NER"},
    "distilbert": {"model": "Davlan/distilbert-base-multilingual-cased-ner-hrl"},
    "xlmRoberta": {"model": "Davlan/xlm-roberta-base-ner-hrl"},
    "deberta": {"model": "dslim/distilbert-NER"},
    "biomedical": {"model": "dmis-lab/biobert-base-cased-v1.1", "min_confidence": 0.85},
}
"""RocketRide's profiles: names of models, whose folders `path` names."""


class NerNode(Node):
    """Finds named entities, and passes texts and documents on with them as metadata, such as `entities_per`, `entities_email`.

    Patterns find what has a form: mail addresses, telephones, dates, times, amounts. People, organisations and places are
    found by a model in the folder `path`. Metadata have each name once, sorted, and `entities_count`, which counts all. The
    text of an object goes on when the object ends, so that all that follows sees its metadata.
    """

    provider = "ner"
    title = "Named entities"
    class_types = ("text",)
    lanes = {"text": ("text",), "documents": ("documents",)}
    profiles = NER_MODELS
    default_profile = "bertLarge"
    paths = {"path": "folder"}
    shared: Recognizer

    class Config(ModelSettings):
        store_in_metadata: Annotated[bool, "Put the entities into the metadata; without it the node does nothing."] = True

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package of patterns, if any."""
        return missing_packages("text", "re2")

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        return missing_model(config, path)

    @classmethod
    def cautions(cls, config: Any) -> Iterable[tuple[str, str]]:
        return caution_of(config, "are not found")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Recognizer]:
        """Read the small files of the model, and compile the patterns."""
        yield await recognizer_of(config, KINDS, ctx)

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)

    def write_text(self, text: str) -> None:
        self._gathered.add(text)

    def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        self.emit("documents", [self._with_entities(document, ctx) for document in documents])

    def closing(self, ctx: ToolContext) -> None:
        if self.config.store_in_metadata and self._gathered.pieces:
            text = self._gathered.whole()
            self._entry.metadata.update(metadata_of(text, self.shared.find(text, ctx.check)))
        for piece in self._gathered.pieces:
            self.emit("text", piece)

    def _with_entities(self, document: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        text = document.get("page_content")
        if not (self.config.store_in_metadata and isinstance(text, str)):
            return document
        require_size(len(text), self.config.maxCharacters, self.node_id)
        given = document.get("metadata")
        found = metadata_of(text, self.shared.find(text, ctx.check))
        return {**document, "metadata": {**(given if isinstance(given, Mapping) else {}), **found}}


def metadata_of(text: str, entities: Sequence[Entity]) -> dict[str, Any]:
    """The entities as metadata: for each kind its names, the number of all, and of which kinds names were left out."""
    by_kind: dict[str, set[str]] = {}
    for entity in entities:
        by_kind.setdefault(PREFIX + entity.group.lower(), set()).add(" ".join(text[entity.start : entity.end].split()))
    found: dict[str, Any] = {kind: sorted(names)[:MOST_NAMES] for kind, names in sorted(by_kind.items())}
    found["entities_count"] = len(entities)
    if cut := sorted(kind for kind, names in by_kind.items() if len(names) > MOST_NAMES):
        found[CUT] = cut
    return found
