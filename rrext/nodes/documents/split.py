"""`split`: text and tables become chunks, in the form of the documents lane: the text and its origin."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.base.node import Entry, Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.documents.formats import LARGEST_CHUNK, SMALLEST_CHUNK, strategy_for
from rrext.nodes.documents.splitter import Characters, EstimatedTokens, Measure, Passage, Splitter, table_parts
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

BATCH: Final = 256
"""Chunks that are sent on at a time: stores and embedders work on hundreds at once, and memory holds no more."""

Strategy = Literal["auto", "characters", "sentences", "markdown", "code"]
MakeMeasure = Callable[[int], Measure]

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "chunks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "start": {"type": "integer", "description": "Where it begins in the text, in characters from 0."},
                    "end": {"type": "integer", "description": "Where it ends: the first character behind it."},
                    "line": {"type": "integer", "description": "The line of its begin, from 1."},
                    "headings": {"type": "array", "items": {"type": "string"}, "description": "Of Markdown: those above it."},
                },
                "required": ["text", "start", "end", "line", "headings"],
            },
        },
        "strategy": {"type": "string", "description": "The one that was used."},
    },
    "required": ["chunks", "strategy"],
    "additionalProperties": False,
}


class SplitNode(Node):
    """Splits text and tables into chunks for a store, each with the metadata of its object.

    The text of an object is one text, however it arrives: chunks do not depend on that, and go out as soon as they are
    final. No chunk is larger than `size`, and none begins or ends inside a character. Without `overlap` the chunks of a
    text joined are the text; only chunks of white space alone are left out. `start` and `end` in a chunk's metadata say
    which characters of the text it is, from 0. A table that is too large becomes several, each with the columns' names;
    all have the `start` and `end` of the whole table, if it is in the text too. Documents that arrive are split each by
    itself and keep their metadata; a `start` in it is counted from there on.
    """

    provider = "split"
    title = "Split"
    paths = {"tokenizer": "file"}
    class_types = ("preprocessor", "tool")
    lanes = {"text": ("documents",), "table": ("documents",), "documents": ("documents",)}
    shared: MakeMeasure

    class Config:
        strategy: Annotated[
            Strategy,
            "How text is cut: at paragraphs, lines and words (characters), behind sentences, before Markdown headings, "
            "between blocks of code; auto takes what fits the document's type.",
        ] = "auto"
        size: Annotated[int, "The most that a chunk has, in units; 1000 characters are a few paragraphs."] = 1000
        overlap: Annotated[
            int | None, "Units of a chunk that stand again in the next one: up to half of the size; a tenth if left out."
        ] = None
        unit: Annotated[Literal["characters", "tokens"], "What size and overlap count."] = "characters"
        tokenizer: Annotated[
            str, "For tokens: a tokenizer.json, or the directory that holds it. Empty: a token is taken to have four bytes."
        ] = ""

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[MakeMeasure]:
        """Prepare the measure of sizes; a tokenizer is loaded once."""
        _check_sizes(ctx.node_id, config.size, _overlap(config.overlap, config.size))
        if config.unit == "characters":
            yield Characters
        elif not config.tokenizer:
            yield EstimatedTokens
        else:
            yield await ctx.in_thread(_tokens, ctx.path(config.tokenizer), ctx.node_id)

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._splitter: Splitter | None = None
        self._chunks = ChunkMaker(entry, self.node_id)
        self._written = 0
        self._last = ""
        self._ready: list[dict[str, Any]] = []

    def write_text(self, text: str) -> None:
        if self._splitter is None:
            self._splitter = self._make_splitter(self._strategy())
        self._written += len(text)
        self._last = text
        self._keep(map(self._chunks.of_text, self._splitter.feed(text)))

    def write_table(self, table: str) -> None:
        headings = self._splitter.headings if self._splitter else ()
        # A parser sends a table that stays in the text there first, and then by itself.
        spot = {"start": self._written - len(table), "end": self._written} if table == self._last else {}
        self._keep(self._chunks.of_table(table, headings, spot, self.shared(self.config.size)))

    def write_documents(self, documents: list[dict[str, Any]]) -> None:
        for document in documents:
            splitter = self._make_splitter(self._strategy())
            passages = _all(splitter, str(document.get("page_content") or ""))
            self._keep(self._chunks.of_document(document, passages))

    def closing(self) -> None:
        if self._splitter is not None:
            self._keep(map(self._chunks.of_text, self._splitter.finish()))
            self._splitter = None
        self._send()

    @tool_function(output_schema=OUTPUT_SCHEMA, annotations={"readOnlyHint": True, "openWorldHint": False})
    def split(
        self,
        text: str,
        strategy: Strategy | None = None,
        size: Annotated[int, msgspec.Meta(ge=SMALLEST_CHUNK, le=LARGEST_CHUNK)] | None = None,
        overlap: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_CHUNK)] | None = None,
        name: str = "",
        mime_type: str = "",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Split a text. What is left out is as the node's settings say.

        Args:
            text: The whole text.
            strategy: How it is cut; auto goes by name and type.
            size: The most that a chunk has, in the node's unit.
            overlap: What of a chunk stands again in the next one; at most half of the size.
            name: A file's name, for auto.
            mime_type: Its type, for auto.
        """
        most: int = self.config.size if size is None else size
        again: int = min(_overlap(self.config.overlap, most), most // 2) if overlap is None else overlap
        if again > most // 2:
            raise InvalidArguments.at("/input/overlap", f"is more than half of the size ({most})")
        wanted = strategy or self.config.strategy
        used = strategy_for(name, mime_type) if wanted == "auto" else wanted
        chunks: list[Passage] = []
        for passage in _all(Splitter(used, self.shared(most), again), text):
            ctx.check()
            chunks.append(passage)
        return {"chunks": msgspec.to_builtins(chunks), "strategy": used}

    def _strategy(self) -> str:
        """The strategy for the object: by its true type if a parser found it, else by the client's."""
        if self.config.strategy != "auto":
            return self.config.strategy
        entry = self._entry
        return strategy_for(entry.name, str(entry.metadata.get("mimeType") or entry.mime_type))

    def _make_splitter(self, strategy: str) -> Splitter:
        size: int = self.config.size
        return Splitter(strategy, self.shared(size), _overlap(self.config.overlap, size))

    def _keep(self, chunks: Iterator[dict[str, Any]]) -> None:
        for chunk in chunks:
            self._ready.append(chunk)
            if len(self._ready) >= BATCH:
                self._send()

    def _send(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self.emit("documents", ready)


def _all(splitter: Splitter, text: str) -> Iterator[Passage]:
    yield from splitter.feed(text)
    yield from splitter.finish()


def _overlap(given: int | None, size: int) -> int:
    return size // 10 if given is None else given


def _check_sizes(node_id: str, size: int, overlap: int) -> None:
    if not SMALLEST_CHUNK <= size <= LARGEST_CHUNK:
        raise Unavailable(f'"size" of node "{node_id}" is {size}: it has to be {SMALLEST_CHUNK} to {LARGEST_CHUNK:,}')
    if not 0 <= overlap <= size // 2:
        raise Unavailable(f'"overlap" of node "{node_id}" is {overlap}: it has to be 0 to half of "size", {size // 2}')


def _tokens(path: str, node_id: str) -> MakeMeasure:
    """Sizes in tokens of a tokenizer's file. Raises `Unavailable`."""
    missing = missing_packages("embed", "tokenizers")
    if missing:
        raise Unavailable(f'Node "{node_id}" counts tokens: {missing}')
    from tokenizers import Tokenizer

    from rrext.nodes.documents.splitter import Tokens

    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    try:
        tokenizer = Tokenizer.from_file(file)
    except Exception as error:  # the library raises no more specific class
        raise Unavailable(
            f'The tokenizer "{file}" of node "{node_id}" cannot be read: {str(error)[:200]}',
            hint='"tokenizer" names a tokenizer.json or the directory that holds it.',
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda size: Tokens(size, tokenizer)


RESERVED: Final = frozenset(
    {
        *("objectId", "chunkId", "nodeId", "parent", "permissionId", "isDeleted", "isTable", "tableId", "signature"),
        *("headings", "line", "start", "end"),
    }
)
"""Metadata keys for the position of a chunk; values of a client or a file under these keys are dropped."""


class ChunkMaker:
    """Numbers the chunks of one object, and gives each the object's current metadata."""

    def __init__(self, entry: Entry, node_id: str) -> None:
        self._entry = entry
        self._node_id = node_id
        self._counts: dict[str, int] = {}
        self._tables = 0

    def of_text(self, passage: Passage) -> dict[str, Any]:
        """Make a chunk of the object's text."""
        return _document(passage.text, {**self._place(), **_spot(passage)})

    def of_table(
        self, table: str, headings: tuple[str, ...], spot: Mapping[str, int], measure: Measure
    ) -> Iterator[dict[str, Any]]:
        """Make the chunks of a table: several if it is too large, all with its `spot` and its `tableId`, counted from 0."""
        if not table.strip():
            return
        table_id, self._tables = self._tables, self._tables + 1
        for part in table_parts(table, measure):
            place = self._place()
            place.update(isTable=True, tableId=table_id, **spot, **({"headings": list(headings)} if headings else {}))
            yield _document(part, place)

    def of_document(self, document: Mapping[str, Any], passages: Iterator[Passage]) -> Iterator[dict[str, Any]]:
        """Make the chunks of a single document. They keep its metadata and the id of its object."""
        given = document.get("metadata")
        given = dict(given) if isinstance(given, Mapping) else {}
        object_id = str(given.get("objectId") or self._entry.object_id)
        begin = given.get("start")
        begin = begin if isinstance(begin, int) else 0
        for passage in passages:
            place = self._place(object_id)
            chunk_id = place["chunkId"]
            place.update({key: value for key, value in given.items() if value is not None})
            place.update(objectId=object_id, chunkId=chunk_id, **_spot(passage, begin))
            yield _document(passage.text, place)

    def of_picture(self, encoded: str) -> dict[str, Any]:
        """Make the document of a picture, which is in base64."""
        return {**_document(encoded, self._place()), "type": "Image"}

    def of_statement(self, text: str) -> dict[str, Any]:
        """Make a chunk of a text about the object, which stands nowhere in it."""
        return _document(text, self._place())

    def _place(self, object_id: str = "") -> dict[str, Any]:
        """Make the metadata of the next chunk of an object."""
        entry = self._entry
        object_id = object_id or entry.object_id
        chunk_id = self._counts.get(object_id, 0)
        self._counts[object_id] = chunk_id + 1
        facts = {name: value for name, value in entry.metadata.items() if name not in RESERVED}
        return {
            **facts,
            "objectId": object_id,
            "chunkId": chunk_id,
            "nodeId": self._node_id,
            "parent": entry.path or entry.name,
            "permissionId": None,
            "isDeleted": False,
            "isTable": False,
            "tableId": None,
            "signature": None,
        }


def _spot(passage: Passage, begin: int = 0) -> dict[str, Any]:
    """The position of a chunk in its text, of which it got what begins at `begin`, and the headings above it."""
    headings = {"headings": list(passage.headings)} if passage.headings else {}
    return {"start": begin + passage.start, "end": begin + passage.end, "line": passage.line, **headings}


def _document(text: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Document",
        "page_content": text,
        "embedding": None,
        "embedding_model": None,
        "score": None,
        "highlight_score": None,
        "context": None,
        "tokens": None,
        "metadata": metadata,
    }
