"""`summarization`: summary, key points and entities of a text, by the model that is bound to the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from rrext.nodes.base.node import Entry, Node
from rrext.nodes.documents.split import ChunkMaker
from rrext.nodes.text.bound_model import SLOT, AskingSettings, Count, ask_bound, parts_of, unusable
from rrext.nodes.text.gathered_text import GatheredText
from rrext.tools.context import ToolContext

FORM: Final = '{"summary": text, "keyPoints": [text, …], "entities": [text, …]}'


class TitledPoint(msgspec.Struct, frozen=True):
    """A key point as models write it that want to give it a title."""

    title: str = ""
    summary: str = ""


class TextSummary(msgspec.Struct, frozen=True):
    """What the model says of a part of the text."""

    summary: str = ""
    keyPoints: tuple[str | TitledPoint, ...] = ()
    entities: tuple[str, ...] = ()


class SummarizationNode(Node):
    """Lets a bound model summarise the text of an object: a summary, key points, and the names that matter.

    The text is cut into parts of `chunkCharacters`, and the first `numberOfSummaries` of them are summarised. If there are
    more, the metadata of the object say so: `summarized` has the number of `parts`, and how many were `asked`. The result goes
    out as one text, and as a document for each summary, list of key points and list of entities.
    """

    provider = "summarization"
    title = "Summarization"
    class_types = ("text",)
    lanes = {"text": ("text", "documents")}
    invoke = SLOT
    profiles = {"default": {}}
    default_profile = "default"

    class Config(AskingSettings):
        numberOfSummaries: Annotated[Count, "Parts that are summarised, each by one question; 0: all."] = 2
        numberOfSummaryWords: Annotated[Count, "Words of a summary at most; 0: none is asked for."] = 1500
        numberOfKeyPointWords: Annotated[Count, "Words of a key point at most; 0: none are asked for."] = 250
        numberOfEntities: Annotated[Count, "Names of people, places, dates … at most; 0: none are asked for."] = 25

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._gathered = GatheredText(self.node_id, self.config.maxCharacters)

    def write_text(self, text: str) -> None:
        self._gathered.add(text)

    async def closing(self, ctx: ToolContext) -> None:
        instructions = [*self._instructions()]
        parts = parts_of(self._gathered.whole(), self.config.chunkCharacters)
        if not parts or not instructions:
            return
        asked = parts[: self.config.numberOfSummaries or None]
        if len(asked) < len(parts):
            self._entry.metadata["summarized"] = {"parts": len(parts), "asked": len(asked)}
        form = ("Answer", f"Answer in JSON of this form: {FORM}. What is not asked for is empty.")
        told: list[TextSummary] = []
        for number, part in enumerate(asked):
            ctx.progress(number, len(asked), "summarising")
            told.append(self._read(await ask_bound(self, [*instructions, form], part, ctx)))
        chunks = ChunkMaker(self._entry, self.node_id)
        documents = [chunks.of_statement(f"{title}:\n{words}") for one in told for title, words in sections(one)]
        for lane, value in (("text", text_of(told)), ("documents", documents)):
            if value and (sent := self.emit(lane, value)) is not None:
                await sent

    def _instructions(self) -> Iterator[tuple[str, str]]:
        config = self.config
        if config.numberOfSummaryWords:
            words = f"Summarise the text in at most {config.numberOfSummaryWords} words, in paragraphs, without minor details."
            yield "Summary", words
        if config.numberOfKeyPointWords:
            yield "Key points", f"List the most important statements, each in at most {config.numberOfKeyPointWords} words."
        if config.numberOfEntities:
            names = "people, organisations, products, events, dates and places"
            yield "Entities", f"List the names of {names} that matter most in the text, at most {config.numberOfEntities}."

    def _read(self, answer: Any) -> TextSummary:
        """The answer without what was not asked for. Raises `ToolError` (`model_bad_answer`)."""
        config = self.config
        try:
            told = msgspec.convert(answer, TextSummary)
        except msgspec.ValidationError:
            raise unusable(self, FORM) from None
        return TextSummary(
            told.summary if config.numberOfSummaryWords else "",
            told.keyPoints if config.numberOfKeyPointWords else (),
            told.entities[: config.numberOfEntities],
        )


def sections(told: TextSummary) -> Iterator[tuple[str, str]]:
    """The parts of a summary that are not empty, with their titles."""
    if told.summary.strip():
        yield "Summary", told.summary.strip()
    if told.keyPoints:
        yield "Key Points", "\n".join(f"- {_point(point)}" for point in told.keyPoints)
    if told.entities:
        yield "Entities", "\n".join(f"- {name}" for name in told.entities)


def text_of(told: list[TextSummary]) -> str:
    """All summaries as one text: first the summaries of the parts, then their key points, then their entities, each once."""
    found: dict[str, list[str]] = {"Summary": [], "Key Points": [], "Entities": []}
    for one in told:
        for title, words in sections(one):
            found[title] += words.split("\n") if title == "Entities" else [words]
    joined = ((title, "\n".join(dict.fromkeys(words))) for title, words in found.items() if words)
    return "\n\n".join(f"{title}:\n{words}" for title, words in joined)


def _point(point: str | TitledPoint) -> str:
    return point if isinstance(point, str) else f"{point.title}: {point.summary}".strip(": ")
