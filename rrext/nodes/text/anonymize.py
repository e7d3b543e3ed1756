"""`anonymize`: hides what tells who somebody is, by patterns and, for names, by a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import msgspec

from rrext.errors import Unavailable, near_matches
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.text.entity_kinds import KINDS, Entity, EntityKind
from rrext.nodes.text.gathered_text import GatheredText, require_size
from rrext.nodes.text.ner import CUT, PREFIX, ModelSettings, Recognizer, caution_of, missing_model, recognizer_of
from rrext.nodes.text.regular_expression import RegularExpression
from rrext.tools.context import ToolContext

PRIVATE: Final = tuple(kind for kind in KINDS if kind.is_private)
LABELS: Final = tuple(dict.fromkeys(kind.label for kind in PRIVATE))
MOST_PATTERNS: Final = 100
"""Own patterns of a node: each is one search through every text."""


class OwnPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of the operator's."""

    label: Annotated[str, msgspec.Meta(min_length=1), "What it finds, for the counts in the result."]
    pattern: Annotated[
        str, msgspec.Meta(min_length=1), "A regular expression (RE2); what its first group finds is hidden, or all."
    ]


ANONYMIZE_MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "custom": {},
    "glinerMultiPII": {"model": "urchade/gliner_multi_pii-v1"},
    "glinerPIILarge": {"model": "knowledgator/gliner-pii-large-v1.0"},
    "glinerMergedLarge": {"model": "xomad/gliner-model-merge-large-v1.0"},
    "glinerSmall": {"model": "urchade/gliner_small-v2.1"},
    "glinerMedium": {"model": "urchade/gliner_medium-v2.1"},
    "glinerLarge": {"model": "urchade/gliner_large-v2.1"},
    "glinerMulti": {"model": "urchade/gliner_multi"},
    "gretelSmall": {"model": "gretelai/gretel-gliner-bi-small-v1.0"},
    "gretelLarge": {"model": "gretelai/gretel-gliner-bi-large-v1.0"},
    "glinerKo": {"model": "taeminlee/gliner_ko"},
    "glinerIt": {"model": "DeepMount00/GLiNER_PII_ITA"},
    "glinerAr": {"model": "NAMAA-Space/gliner_arabic-v2.1"},
    "glinerCommunitySmall": {"model": "gliner-community/gliner_small-v2.5"},
    "glinerCommunityMedium": {"model": "gliner-community/gliner_medium-v2.5"},
    "glinerCommunityLarge": {"model": "gliner-community/gliner_large-v2.5"},
    "glinerBiomedSmall": {"model": "Ihor/gliner-biomed-small-v1.0"},
    "glinerBiomedLarge": {"model": "Ihor/gliner-biomed-large-v1.0"},
}
"""RocketRide's profiles: names of models. They are accepted; a model of a folder computes here."""


class AnonymizeNode(Node):
    """Puts a character in place of each one of what tells who somebody is; white space and the length of texts stay.

    Patterns find mail addresses, telephones, cards, accounts, internet addresses, numbers of papers, dates of birth, streets
    and keys. Names have no form: they are hidden if `path` names the folder of a model for named entities. What is hidden in
    a text is hidden in its metadata of `ner` too. The metadata of the object count what was hidden (`anonymized`), and say by
    what (`anonymizedBy`). Nothing finds everything: look at results.
    """

    provider = "anonymize"
    title = "Anonymize"
    class_types = ("text",)
    lanes = {"text": ("text",), "table": ("table",), "documents": ("documents",)}
    profiles = ANONYMIZE_MODELS
    default_profile = "glinerSmall"
    paths = {"path": "folder"}
    shared: Recognizer

    class Config(ModelSettings):
        anonymizeChar: Annotated[str, msgspec.Meta(min_length=1, max_length=1), "Stands in place of each character."] = "█"
        anonymizeAll: Annotated[bool, "Accepted from RocketRide's files; everything that is found is hidden."] = False
        labels: Annotated[
            tuple[str, ...], f"What patterns hide; empty: all. Of {', '.join(LABELS)}. What a model finds is always hidden."
        ] = ()
        patterns: Annotated[tuple[OwnPattern, ...], msgspec.Meta(max_length=MOST_PATTERNS), "More to hide."] = ()
        min_confidence: Annotated[float, msgspec.Meta(ge=0, le=1), "The lowest score of a name that is hidden."] = 0.5

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package of patterns, if any."""
        return missing_packages("text", "re2")

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        yield from missing_model(config, path)
        for label in config.labels:
            if label not in LABELS:
                yield "labels", _unknown(label)
        for one in () if cls.unavailable() else config.patterns:
            try:
                RegularExpression(one.pattern)
            except ValueError as error:
                yield "patterns", f"{one.label}: {error}"

    @classmethod
    def cautions(cls, config: Any) -> Iterable[tuple[str, str]]:
        return caution_of(config, "stay in the text")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Recognizer]:
        """Read the small files of the model, and compile the patterns."""
        for label in config.labels:
            if label not in LABELS:
                raise Unavailable(f'"labels" of node "{ctx.node_id}": {_unknown(label)}')
        chosen = [kind for kind in PRIVATE if not config.labels or kind.label in config.labels]
        own = [EntityKind(one.label, one.label, one.pattern) for one in config.patterns]
        try:
            yield await recognizer_of(config, [*own, *chosen], ctx)
        except ValueError as error:
            raise Unavailable(f'"patterns" of node "{ctx.node_id}": {error}') from None

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)
        self._hidden: Counter[str] = Counter()

    def write_text(self, text: str) -> None:
        self._gathered.add(text)

    def write_table(self, table: str, ctx: ToolContext) -> None:
        self.emit("table", self._masked(table, self._entry.metadata, ctx))

    def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        self.emit("documents", [self._of_document(document, ctx) for document in documents])

    def closing(self, ctx: ToolContext) -> None:
        if self._gathered.pieces:
            self.emit("text", self._masked(self._gathered.whole(), self._entry.metadata, ctx))

    def _of_document(self, document: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        text = document.get("page_content")
        if not isinstance(text, str):
            return document
        # The vector was made of the text as it was, which a store must not find by it.
        hidden = {**document, "embedding": None, "embedding_model": None}
        given = document.get("metadata")
        metadata = {**given} if isinstance(given, Mapping) else {}
        hidden["page_content"] = self._masked(text, metadata, ctx)
        return {**hidden, "metadata": metadata} if metadata else hidden

    def _masked(self, text: str, metadata: dict[str, Any], ctx: ToolContext) -> str:
        require_size(len(text), self.config.maxCharacters, self.node_id)
        found = self.shared.find(text, ctx.check)
        self._hidden.update(entity.group for entity in found)
        self._mask_names(metadata, "\n".join({" ".join(text[entity.start : entity.end].split()) for entity in found}), ctx)
        by = "patterns and a model" if self.config.path.strip() else "patterns"
        self._entry.metadata.update(anonymized=dict(sorted(self._hidden.items())), anonymizedBy=by)
        return masked(text, found, self.config.anonymizeChar)

    def _mask_names(self, metadata: dict[str, Any], hidden: str, ctx: ToolContext) -> None:
        """Hide in the entities that `ner` found what is a part of what was hidden, a line each, or has something to hide."""

        def shown(name: str) -> str:
            ctx.check()
            is_open = name not in hidden and not self.shared.find(name, ctx.check)
            return name if is_open else re.sub(r"\S", lambda _: self.config.anonymizeChar, name)

        for kind, names in metadata.items():
            if kind.startswith(PREFIX) and kind != CUT and isinstance(names, list):
                metadata[kind] = sorted({shown(str(name)) for name in names})


def masked(text: str, entities: Sequence[Entity], char: str) -> str:
    """The text with a character in place of each one in the entities that is no white space. They are in order."""
    pieces: list[str] = []
    end = 0
    for entity in entities:
        start = max(end, entity.start)
        if entity.end > start:
            pieces += text[end:start], re.sub(r"\S", lambda _: char, text[start : entity.end])
            end = entity.end
    return "".join([*pieces, text[end:]])


def _unknown(label: str) -> str:
    near = near_matches(label, LABELS)
    return f'there is no label "{label}"; ' + (f'did you mean "{near[0]}"?' if near else f"expected {', '.join(LABELS)}")
