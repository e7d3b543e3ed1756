"""`dictionary`: the terms of a text with their meaning, by the model that is bound to the node."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rrext.nodes.base.node import Entry, Node
from rrext.nodes.documents.split import ChunkMaker
from rrext.nodes.text.bound_model import SLOT, AskingSettings, ask_bound, parts_of, unusable
from rrext.nodes.text.gathered_text import GatheredText
from rrext.tools.context import ToolContext

FORM: Final = '{"terms": [{"term": text, "description": text}, …]}'
INSTRUCTIONS: Final = (
    (
        "Dictionary",
        (
            "Collect the terms that somebody would have to look up who knows the language, but neither subject nor company: "
            "special words, abbreviations, names of products and processes, and words with a meaning of their own here. "
            "Describe each as the text does, in one or two sentences. Leave out what the text does not explain."
        ),
    ),
    ("Answer", f"Answer in JSON of this form: {FORM}. The array is empty if there is no such term."),
)


class DictionaryTerm(msgspec.Struct, frozen=True):
    """A term, and what it means."""

    term: str
    description: str


class DictionaryTerms(msgspec.Struct, frozen=True):
    """The terms of a part of the text."""

    terms: tuple[DictionaryTerm, ...]


class DictionaryNode(Node):
    """Lets a bound model collect the terms that a text explains. Each goes out as a document: `{"term": …, "description": …}`.

    The text of an object is asked about in parts of `chunkCharacters`; a term counts once, with its first description.
    """

    provider = "dictionary"
    title = "Dictionary"
    class_types = ("text",)
    lanes = {"text": ("documents",)}
    invoke = SLOT

    class Config(AskingSettings):
        pass

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)

    def write_text(self, text: str) -> None:
        self._gathered.add(text)

    async def closing(self, ctx: ToolContext) -> None:
        parts = parts_of(self._gathered.whole(), self.config.chunkCharacters)
        terms: dict[str, DictionaryTerm] = {}
        for number, part in enumerate(parts):
            ctx.progress(number, len(parts), "collecting terms")
            for found in self._read(await ask_bound(self, INSTRUCTIONS, part, ctx)):
                if found.term.strip():
                    terms.setdefault(" ".join(found.term.split()).casefold(), found)
        chunks = ChunkMaker(self._entry, self.node_id)
        documents = [chunks.of_statement(msgspec.json.encode(term).decode()) for term in terms.values()]
        if documents and (sent := self.emit("documents", documents)) is not None:
            await sent

    def _read(self, answer: Any) -> tuple[DictionaryTerm, ...]:
        """The terms of an answer. Raises `ToolError` (`model_bad_answer`)."""
        try:
            if isinstance(answer, list):  # what models write that were told of a list
                return msgspec.convert(answer, tuple[DictionaryTerm, ...])
            return msgspec.convert(answer, DictionaryTerms).terms
        except msgspec.ValidationError:
            raise unusable(self, FORM) from None
