"""Qdrant's shard of one owner while it is open: its changes, chunks and searches in Qdrant's own types, and its objects for
`list` without a scan. Importing this imports Qdrant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import msgspec
import qdrant_edge as qe

from rrext.errors import ToolError, Unavailable
from rrext.nodes.vectors.edge.folder import Manifest, StoreFolder
from rrext.nodes.vectors.edge.messages import QDRANT_BATCH, StoreChange
from rrext.nodes.vectors.points import (
    FACTS,
    MAX_NUMBER_INDEXES,
    NODE,
    NUMBER,
    NUMBERS,
    OBJECT,
    PARENT,
    fact_of,
    number_key,
    payload_of,
    point_id,
)
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    SIMPLE,
    Chunk,
    Listing,
    Match,
    Scope,
    Search,
    StoredObject,
    VectorSpace,
    require_language,
    require_space,
)
from rrext.nodes.vectors.words import former_words, stored_words

FLUSH_EVERY: Final = 16 * 1024 * 1024
"""The maximum bytes of Qdrant's log before a flush to its files. All of them are read again after a crash."""

WRITTEN_TIMES: Final = 3
"""How many times the bytes of a change are written: in the journal, in Qdrant's log, and in its files."""

NAMES_PAGE: Final = 1000
"""Points whose names are read in one call of Qdrant: about 4 ms."""


class OpenShard:
    """The shard of a folder that this process has locked. Changes run one after the other; reads run at any time.

    `places` are counted at their first use, and kept up to date from then on.
    """

    def __init__(self, folder: StoreFolder, manifest: Manifest, shard: qe.EdgeShard, min_free: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self.shard = shard
        self.places: PathCounts | None = None
        self.is_between = False
        """Whether a change was begun and is not done."""
        self.is_empty = True
        """Whether there was no chunk after the last change. Each search asks for the space, so it is not looked up then."""
        self._min_free = min_free
        self._unflushed = 0
        with qdrant_errors():
            self._indexed = set(shard.info().payload_schema)

    @property
    def space(self) -> VectorSpace | None:
        """The vector space of the stored vectors; None if the store is empty."""
        return None if self.is_empty else self.manifest.space

    def fits(self, space: VectorSpace, language: str) -> bool:
        """Whether vectors of a space and words of a language can be stored; false if the store is empty and has others.

        Raises `ToolError` if it has others and is not empty.
        """
        if self.is_empty:
            return (self.manifest.space, self.manifest.language) == (space, language)
        require_space(self.manifest.space, space, doing="These documents were embedded")
        require_language(self.manifest.language, language, words_of=f'"{self.folder.shown}"', another="folder")
        return True

    def lacks_index(self, fields: Collection[str]) -> bool:
        """Whether numbers of these fields are compared without an index that they should have."""
        return not self._indexed.issuperset(fields) and len(self._numbered()) < MAX_NUMBER_INDEXES

    def index(self, fields: Collection[str]) -> None:
        """Make the indexes of fields with numbers, of each about a second for 100,000 chunks. No change may run meanwhile."""
        for field in sorted(fields):
            if self.lacks_index([field]):
                with qdrant_errors():
                    self.shard.update(qe.UpdateOperation.create_field_index(field, qe.FloatIndexParams()))
                self._indexed.add(field)

    def _numbered(self) -> list[str]:
        return [field for field in self._indexed if field.startswith(NUMBERS)]

    def do(self, change: StoreChange) -> None:
        """Make a change as a whole: once the journal has it, the next process to open the store completes it if necessary."""
        if change.pieces:
            self.folder.require_room(self._min_free, WRITTEN_TIMES * change.size)
        self.is_between = True
        try:
            self.folder.journal.write(change)
        except OSError as error:
            raise self.folder.unusable(error) from error
        self._carry_out(change)

    def resume(self) -> None:
        """Carry out the change of the journal that an ended process left behind, if any."""
        try:
            change = self.folder.journal.read()
        except OSError as error:
            raise self.folder.unusable(error) from error
        if change is not None and change.pieces:
            self.folder.require_room(self._min_free, WRITTEN_TIMES * change.size)
        self._carry_out(change or StoreChange())

    def _carry_out(self, change: StoreChange) -> None:
        places, self.places = self.places, None  # if Qdrant fails, the paths are counted anew
        for piece in change.pieces:
            chunks, vectors = piece.decoded()
            points = [point_of(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
            self._forget(places, [point.id for point in points])
            with qdrant_errors():
                self.shard.update(qe.UpdateOperation.upsert_points(points))
            if places is not None:
                for chunk in chunks:
                    places.add(chunk.parent, chunk.object_id)
            self._written(piece.size)
        for start in range(0, len(change.gone), QDRANT_BATCH):
            ids = list(change.gone[start : start + QDRANT_BATCH])
            self._forget(places, ids)
            with qdrant_errors():
                self.shard.update(qe.UpdateOperation.delete_points(ids))
        with qdrant_errors():
            self.is_empty = not self.shard.scroll(qe.ScrollRequest(limit=1, with_payload=False))[0]
        self.places = places
        try:
            self.folder.journal.clear()
        except OSError as error:
            raise self.folder.unusable(error) from error
        self.is_between = False

    def _forget(self, places: PathCounts | None, ids: Sequence[Any]) -> None:
        """Subtract those of the points that exist from the counts."""
        if places is not None:
            with qdrant_errors():
                found = self.shard.retrieve(list(ids), qe.PayloadSelector.Include([OBJECT, PARENT]), False)
            for payload in (record.payload or {} for record in found):
                places.remove(payload[PARENT], payload[OBJECT])

    def _written(self, size: int) -> None:
        self._unflushed += size
        if self._unflushed >= FLUSH_EVERY:
            self._unflushed = 0
            with qdrant_errors():
                self.shard.flush()

    def is_wanted(self) -> bool:
        """See `turns.Held`."""
        return self.folder.is_wanted()

    def close(self) -> None:
        """Flush and close the shard, and release the folder."""
        try:
            with qdrant_errors():
                self.shard.flush()
                chunks = self.shard.count(qe.CountRequest(exact=True))
                self.shard.close()
            self.folder.save(msgspec.structs.replace(self.manifest, clean=True, chunks=chunks, files=self.folder.files()))
        finally:
            self.folder.release()


def records(
    shard: qe.EdgeShard,
    filter: qe.Filter | None,
    check: Callable[[], object],
    fields: qe.PayloadSelector,
    *,
    vectors: bool = False,
) -> Iterator[qe.Record]:
    """The points that fit a filter, read page by page; `check` may end that. No change of their ids may run meanwhile."""
    offset = None
    while True:
        check()
        request = qe.ScrollRequest(offset=offset, limit=NAMES_PAGE, filter=filter, with_payload=fields, with_vector=vectors)
        with qdrant_errors():
            page, offset = shard.scroll(request)
        yield from page
        if offset is None:
            return


@contextmanager
def qdrant_errors() -> Iterator[None]:
    """Turns Qdrant's exceptions and the panics of its Rust code into `ToolError` (`store_failed`)."""
    try:
        yield
    except (ToolError, Unavailable):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        sentence = str(error).strip().partition("\n")[0] or "Qdrant failed without a word"
        raise ToolError(sentence, code="store_failed") from error


OVERSAMPLING: Final = 4.0
"""The ratio of vectors that are compared in full to vectors that are asked for, after a comparison of all by 4 bits per number.

With 100,000 vectors of 384 numbers this finds 99.9 % of the hits of a full comparison, in a sixth of the time.
"""

VECTOR: Final = "dense"
WORDS: Final = "words"
"""The field for keyword search: the words of the content, separated by spaces."""

CHUNK: Final = qe.PayloadSelector.Exclude([WORDS, FACTS, NUMBERS])
"""The fields of a chunk."""


def create_shard(path: str, size: int, language: str = SIMPLE) -> None:
    """Make Qdrant's files for vectors of `size` numbers and words of a language.

    Vectors are kept in full and again in 4 bits per number. A search compares all of the small ones: exact enough,
    fast for hundreds of thousands, and without an index, whose construction would block the process for minutes.
    """
    quantized = qe.TurboQuantQuantizationConfig(bits=qe.TurboQuantBitSize.Bits4, memory=qe.Memory.Pinned)
    vectors = qe.EdgeVectorParams(size=size, distance=qe.Distance.Cosine, quantization_config=quantized)
    shard = qe.EdgeShard.create(path, qe.EdgeConfig(vectors={VECTOR: vectors}))
    fields = {
        OBJECT: qe.KeywordIndexParams(),
        NODE: qe.KeywordIndexParams(),
        PARENT: qe.KeywordIndexParams(prefix=True),
        NUMBER: qe.IntegerIndexParams(lookup=False, range=True),
        WORDS: word_index(language),
        FACTS: fact_index(),
    }
    for name, index in fields.items():
        shard.update(qe.UpdateOperation.create_field_index(name, index))
    shard.flush()
    shard.close()


def word_index(language: str) -> qe.TextIndexParams:
    """The index of `WORDS`. Qdrant's own tokenizers drop numbers, or ignore marks."""
    return qe.TextIndexParams(tokenizer=qe.TokenizerType.Whitespace, lowercase=False, scoring=True, stemmer=_stemmer(language))


def terms(words: Collection[str], language: str) -> Collection[Any]:
    """The entries of words in the index of a language: forms of one word have equal entries."""
    if language == SIMPLE:
        return words
    whitespace, nothing = qe.TokenizerType.Whitespace, qe.StopwordsSet()
    config = qe.Bm25Config(tokenizer=whitespace, lowercase=False, stopwords=nothing, stemmer=_stemmer(language))
    return qe.Bm25(config).embed_query(" ".join(words)).indices


def _stemmer(language: str) -> qe.SnowballParams | None:
    return None if language == SIMPLE else qe.SnowballParams(getattr(qe.SnowballLanguage, language.capitalize()))


def fact_index() -> qe.IntegerIndexParams:
    """The index of `FACTS`."""
    return qe.IntegerIndexParams(lookup=True, range=False)


def words_of(content: str) -> str:
    """The value of `WORDS` for a content."""
    return " ".join(stored_words(content))


def point_of(chunk: Chunk, vector: Sequence[float]) -> qe.Point:
    """Make Qdrant's point of a chunk."""
    payload = {**payload_of(chunk), WORDS: words_of(chunk.content)}
    return qe.Point(point_id(chunk.owner, chunk.object_id, chunk.chunk_id), {VECTOR: list(vector)}, payload)


def vector_of(record: qe.Record) -> Sequence[float]:
    """The vector of a point that was read with it."""
    return cast("Mapping[str, Sequence[float]]", record.vector)[VECTOR]


def condition(scope: Scope) -> qe.Filter | None:
    """The filter for a scope among the chunks of its owner; None if it means all of them."""
    must: list[Any] = []
    if scope.object_ids is not None:
        must.append(_any_of(OBJECT, scope.object_ids))
    if scope.node_id is not None:
        must.append(qe.FieldCondition(NODE, match=qe.MatchValue(scope.node_id)))
    if scope.parents:
        must.append(_any_of(PARENT, scope.parents))
    if scope.folders:
        below = [qe.FieldCondition(PARENT, match=qe.MatchPrefix(one)) for _, one in scope.folders]
        must.append(qe.Filter(should=[_any_of(PARENT, [path for path, _ in scope.folders]), *below]))
    must += [_matching(one) for one in scope.metadata]
    return qe.Filter(must=must) if must else None


def _any_of(field: str, values: Sequence[Any]) -> qe.FieldCondition:
    """The condition that a field is, or has, one of the values. For a single one, Qdrant is twice as fast with another form."""
    return qe.FieldCondition(field, match=qe.MatchValue(values[0]) if len(values) == 1 else qe.MatchAny(list(values)))


def _matching(match: Match) -> Any:
    """The condition for metadata."""
    field = f"{NUMBERS}.{number_key(match.key)}"
    must: list[Any] = [qe.FieldCondition(field, range=qe.RangeFloat(**match.bounds))] if match.bounds else []
    if match.values is not None:
        facts = [fact_of(match.key, value) for value in match.values if isinstance(value, str | bool)]
        numbers = [value for value in match.values if not isinstance(value, str | bool)]
        should: list[Any] = [_any_of(FACTS, facts)] if facts else []
        should += [qe.FieldCondition(field, range=qe.RangeFloat(gte=number, lte=number)) for number in numbers]
        must.append(should[0] if len(should) == 1 else qe.Filter(should=should))
    return must[0] if len(must) == 1 else qe.Filter(must=must)


def _also(scope: Scope, one: qe.FieldCondition) -> qe.Filter:
    """The filter for a scope and one condition more."""
    filter = condition(scope)
    return qe.Filter(must=[one] if filter is None else [one, filter])


def near(search: Search, limit: int, **more: Any) -> qe.QueryRequest:
    """Qdrant's request for the nearest vectors; `more` holds its further arguments."""
    params = qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING))
    return qe.QueryRequest(limit=limit, query=_nearest(search), params=params, filter=condition(search.scope), **more)


def distances(search: Search, ids: Collection[Any]) -> qe.QueryRequest:
    """Qdrant's request for the scores of these points."""
    these = qe.Filter(must=[qe.HasIdCondition(set(ids))])
    return qe.QueryRequest(limit=len(ids), query=_nearest(search), params=qe.SearchParams(exact=True), filter=these)


def worded(search: Search, words: Sequence[str], limit: int, *, whole: bool, **more: Any) -> qe.QueryRequest:
    """Qdrant's request for points with any of the words, of which there is at least one, or with the `whole` of them."""
    text = " ".join(words)
    if whole:
        filter = _also(search.scope, qe.FieldCondition(WORDS, match=qe.MatchText(text)))
    else:
        filter = condition(search.scope)
        text = " ".join([text, *former_words(search.text)])
    return qe.QueryRequest(limit=limit, query=qe.TextQuery(WORDS, text), filter=filter, **more)


def chunks_request(scope: Scope, offset: int, limit: int, after: int) -> qe.QueryRequest:
    """Qdrant's request for a page of an object's chunks behind the number `after`, in their order."""
    behind = _also(scope, qe.FieldCondition(NUMBER, range=qe.RangeFloat(gt=after)))
    return qe.QueryRequest(limit=limit, offset=offset, query=qe.OrderBy(NUMBER), filter=behind, with_payload=CHUNK)


def _nearest(search: Search) -> Any:
    return qe.Query.Nearest(list(search.vector or ()), VECTOR)


BETWEEN: Final = "\0"
"""The separator between parent and object id in a key. Neither contains it, and it sorts before every other character."""

AFTER_SLASH: Final = chr(ord("/") + 1)


class PathCounts:
    """Counts the chunks of each object in each parent path. Not thread-safe.

    One entry for each object, about 250 bytes with its share of the sorted list: 25 MB for 100,000 objects.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._sorted: list[StoredObject] | None = None
        self._paths: list[str] = []

    def add(self, parent: str, object_id: str) -> None:
        """Count a chunk that was added to a path."""
        key = parent + BETWEEN + object_id
        self._counts[key] = self._counts.get(key, 0) + 1
        self._sorted = None

    def remove(self, parent: str, object_id: str) -> None:
        """Subtract a chunk that was removed from a path; `add` counted it before."""
        key = parent + BETWEEN + object_id
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left
        self._sorted = None

    def listing(self, prefix: str | None, offset: int, limit: int, after: tuple[str, str] = FIRST_OBJECT) -> Listing:
        """A page of the objects, as the answer of `VectorStore.list`."""
        objects = self._all()
        ranges = [(0, len(objects))] if prefix is None else list(self._ranges(prefix))
        if len(ranges) > 1:
            objects = [one for start, end in ranges for one in objects[start:end]]
            ranges = [(0, len(objects))]
        ((start, end),) = ranges
        first = bisect_right(objects, after, start, end, key=lambda one: (one.parent, one.object_id)) + offset
        return Listing(objects[first : min(first + limit, end)], end - start)

    def chunks(self) -> int:
        """The number of chunks."""
        return sum(self._counts.values())

    def objects(self) -> int:
        """The number of objects. An object in several paths counts once."""
        return len({key.partition(BETWEEN)[2] for key in self._counts})

    def parents(self) -> int:
        """The number of paths."""
        return len({key.partition(BETWEEN)[0] for key in self._counts})

    def _ranges(self, prefix: str) -> Iterator[tuple[int, int]]:
        """The ranges of a prefix in the sorted list: the path itself, and the paths below it."""
        ((_, below),) = Scope(prefix=prefix).folders
        if prefix != below:
            yield bisect_left(self._paths, prefix), bisect_right(self._paths, prefix)
        yield bisect_left(self._paths, below), bisect_left(self._paths, below[:-1] + AFTER_SLASH)

    def _all(self) -> list[StoredObject]:
        if self._sorted is None:
            keys = sorted(self._counts)  # by path, then by object: the separator sorts before all other characters
            parts = [(key.partition(BETWEEN), self._counts[key]) for key in keys]
            self._sorted = [StoredObject(parent, object_id, chunks) for (parent, _, object_id), chunks in parts]
            self._paths = [one.parent for one in self._sorted]
        return self._sorted
