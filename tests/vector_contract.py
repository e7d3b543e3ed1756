"""What every vector store keeps to. A backend's tests subclass `StoreContract` and give the fixture `new_store`.

`new_store()` is a fresh, empty store; the fixture closes all that it gave. `check_against_oracle` is for `new_store` too.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from rrext.errors import Cancelled, ToolError, Unavailable
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.store import (
    Chunk,
    ChunkPage,
    Listing,
    Match,
    Mode,
    Scope,
    Search,
    VectorSpace,
    VectorStore,
    owner_of,
)
from rrext.tools.context import CancelToken, ToolContext

NewStore = Callable[[], VectorStore]

SIZE = 32
SPACE = VectorSpace("hashing-32", SIZE)
ODD_NAMES = (
    "a b", "ä", "e\u0301", "日本語", "🙂", "x'; DROP TABLE chunks; --", '"quoted"', "back\\slash", "100%_", "*", "?",
    "a\tb\nc", "../../etc/passwd", "C:\\x", "{}", "null", "0", "-1", "a" * 1500, "\u202e", "\x7f\x01",
)  # fmt: skip
"""Object ids and paths that mean something somewhere."""


def call(token: CancelToken | None = None) -> ToolContext:
    """A call that nobody cancels unless the token says so; its deadline is far beyond the test's own."""
    return ToolContext(token=token, deadline=time.monotonic() + 120)


def chunk(object_id: str, chunk_id: int = 0, content: str = "some words", *, parent: str = "/", **extra: Any) -> Chunk:
    return Chunk(object_id, chunk_id, content, extra.pop("node_id", "node"), parent, extra)


def put(store: VectorStore, *chunks: Chunk, space: VectorSpace = SPACE) -> None:
    for owner in dict.fromkeys(one.owner for one in chunks):
        mine = [one for one in chunks if one.owner == owner]
        store.upsert(mine, [hashed(one.content, space.size) for one in mine], space, call(), owner=owner)


def found(store: VectorStore, text: str, mode: Mode = "hybrid", top_k: int = 10, scope: Scope | None = None) -> list[str]:
    """The object ids that a search finds, best first."""
    search = Search(mode, top_k, text, hashed(text, SIZE), scope or Scope())
    return [hit.chunk.object_id for hit in store.search(search, call())]


def everything(store: VectorStore, *object_ids: str) -> list[Chunk]:
    return [one for object_id in object_ids for one in store.get(object_id, 0, 1000, call()).chunks]


def paths(store: VectorStore, prefix: str | None = None, offset: int = 0, limit: int = 1000) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for one in store.list(prefix, offset, limit, call()).objects:
        first, chunks = found.get(one.parent, (one.object_id, 0))
        found[one.parent] = first, chunks + one.chunks
    return found


class StoreContract:
    """Tests of one backend."""

    @pytest.fixture
    def store(self, new_store: NewStore) -> VectorStore:
        return new_store()

    def test_a_store_that_never_held_anything_answers_with_nothing(self, store: VectorStore) -> None:
        assert store.space(call()) is None
        assert [found(store, "word", mode) for mode in ("dense", "keyword", "hybrid")] == [[], [], []]
        assert store.list(None, 0, 10, call()).total == store.get("a", 0, 10, call()).total == 0
        assert store.delete(Scope(prefix="/"), call()).chunks == 0
        stats = store.stats(call())
        assert (stats.chunks, stats.objects, stats.parents, stats.space) == (0, 0, 0, None)

    def test_a_chunk_comes_back_as_it_was_stored(self, store: VectorStore) -> None:
        extra = {"page": 3, "big": 2**53, "x": [1.5, None, True, {"deep": "ä"}], "": "empty key", "a.b": "dot", "object": "own"}
        stored = chunk("report", 7, "Zeile\n\tzwei 🙂 \\u0000 'quoted'", parent="/a/b", node_id="n", **extra)
        put(store, stored)
        assert everything(store, "report") == [stored]
        hit = store.search(Search("dense", 1, "", hashed(stored.content, SIZE)), call())[0]
        assert hit.chunk == stored
        assert hit.score == pytest.approx(1, abs=1e-5)

    def test_names_that_mean_something_elsewhere_are_only_names(self, store: VectorStore) -> None:
        put(store, *(chunk(name, 0, f"text number {n}", parent=name) for n, name in enumerate(ODD_NAMES)))
        assert set(paths(store)) == set(ODD_NAMES)
        for name in ODD_NAMES:
            assert [one.object_id for one in everything(store, name)] == [name]
            assert found(store, "text", scope=Scope(object_ids=(name,))) == [name]
            assert found(store, "text", scope=Scope(parent=name)) == [name]
        for name in ODD_NAMES:
            gone = store.delete(Scope(object_ids=(name,)), call())
            assert (gone.chunks, gone.object_ids) == (1, {name})
        assert paths(store) == {}

    def test_a_chunk_takes_the_place_of_the_one_with_its_name(self, store: VectorStore) -> None:
        put(store, chunk("a", 0, "old apples", parent="/old", page=1), chunk("a", 1, "kept pears"))
        assert paths(store) == {"/": ("a", 1), "/old": ("a", 1)}
        put(store, chunk("a", 0, "new plums", parent="/new"))
        assert everything(store, "a") == [chunk("a", 0, "new plums", parent="/new"), chunk("a", 1, "kept pears")]
        assert found(store, "apples", "keyword") == []
        assert found(store, "plums", "keyword") == ["a"]
        assert paths(store) == {"/": ("a", 1), "/new": ("a", 1)}
        assert store.stats(call()).chunks == 2

    def test_an_object_that_is_moved_keeps_its_vectors_and_replaces_another(self, store: VectorStore) -> None:
        assert store.move("a", "b", "/b", call()) == 0
        chunks = [chunk("a", n, f"words of {n}", parent="/a", n=n) for n in range(150)]
        dice = random.Random(3)
        given = [[dice.gauss(0, 1) for _ in range(SIZE)] for _ in chunks]  # no embedder makes them of these texts
        store.upsert(chunks, given, SPACE, call())
        put(store, *(chunk("b", n, "others", parent="/b") for n in (0, 200)), chunk("c"))
        stranger = Chunk("a", 0, "of another", "node", "/a", {}, OWNERS[1])
        store.upsert([stranger], [given[0]], SPACE, call(), owner=OWNERS[1])
        assert store.move("nobody", "c", "/c", call()) == 0
        assert store.move("a", "b", "/to", call()) == 150
        moved = [msgspec.structs.replace(one, object_id="b", parent="/to") for one in chunks]
        assert everything(store, "a", "b", "c") == [*moved, chunk("c")]
        for n in (0, 149):
            hit = store.search(Search("dense", 1, "", given[n]), call())[0]
            assert (hit.chunk, hit.score) == (moved[n], pytest.approx(1, abs=1e-5))
        assert store.move("b", "b", None, call()) == 150
        assert paths(store) == {"/": ("c", 1), "/to": ("b", 150)}
        assert store.get("a", 0, 9, call(), OWNERS[1]).chunks == [stranger]

    def test_chunks_that_an_object_has_no_more_go_with_the_new_ones(self, store: VectorStore) -> None:
        put(store, *(chunk("a", n) for n in range(5)), chunk("b", 9), chunk("c", 1))
        new = [chunk("a", 0, "new words"), chunk("b", 1, "more words")]
        vectors = [hashed(one.content, SIZE) for one in new]
        assert store.upsert(new, vectors, SPACE, call(), {"a": {0, 3, 77}, "b": {1}, "nobody": set()}) == 4
        names = [(one.object_id, one.chunk_id) for one in everything(store, "a", "b", "c")]
        assert names == [("a", 0), ("a", 3), ("b", 1), ("c", 1)]
        assert store.upsert([], [], SPACE, call(), {"a": ()}) == 2
        assert store.upsert([], [], SPACE, call(), {"a": ()}) == 0
        assert paths(store) == {"/": ("b", 2)}

    def test_a_request_of_many_chunks_is_stored_as_a_whole_or_not_at_all(self, store: VectorStore) -> None:
        put(store, chunk("a", 0, "old words"))
        token = CancelToken()
        reported: list[float] = []

        def report(value: float, total: float | None, message: str | None) -> None:
            reported.append(value)
            token.cancel()

        many = [chunk("a", n, f"new words {n}") for n in range(12_000)]
        vectors = [[1.0, float(n)] + [0.0] * (SIZE - 2) for n in range(12_000)]
        with pytest.raises(Cancelled):
            store.upsert(many, vectors, SPACE, ToolContext(token=token, report=report), {"a": {0}})
        assert reported[0] < len(many)
        assert everything(store, "a") == [chunk("a", 0, "old words")]
        assert store.upsert(many[:300], vectors[:300], SPACE, call(), {"a": set(range(300))}) == 0
        assert everything(store, "a") == many[:300]

    def test_an_emptied_store_takes_vectors_of_another_model_and_a_filled_one_does_not(self, store: VectorStore) -> None:
        put(store, chunk("a"), chunk("b", 0, "number 77", parent="/b"))
        store.list(None, 0, 10, call())
        other = VectorSpace("other", 5)
        store.delete(Scope(object_ids=("a",)), call())
        with pytest.raises(ToolError) as failure:
            put(store, chunk("c"), space=other)
        assert failure.value.code == "embedding_model_mismatch"
        store.delete(Scope(prefix="/"), call())
        assert store.space(call()) is None
        assert store.stats(call()).space is None
        assert [found(store, "number", mode) for mode in ("dense", "keyword", "hybrid")] == [[], [], []]
        put(store, chunk("c", 0, "other words", parent="/c"), space=other)
        assert store.space(call()) == store.stats(call()).space == other
        assert paths(store) == {"/c": ("c", 1)}
        assert found(store, "other", "keyword") == ["c"]
        with pytest.raises(ToolError) as failure:
            put(store, chunk("a"))
        assert failure.value.code == "embedding_model_mismatch"
        assert store.upsert([], [], other, call(), {"c": ()}) == 1
        put(store, chunk("a"))
        assert store.space(call()) == SPACE
        assert store.stats(call()).chunks == 1

    def test_delete_counts_what_was_there(self, store: VectorStore) -> None:
        put(store, chunk("a", 0), chunk("a", 1), chunk("b", 0, parent="/x"), chunk("c", 0, parent="/x"))
        gone = store.delete(Scope(object_ids=("a", "nobody")), call())
        assert (gone.chunks, gone.object_ids) == (2, {"a"})
        gone = store.delete(Scope(parent="/x"), call())
        assert (gone.chunks, gone.object_ids) == (2, {"b", "c"})
        assert store.stats(call()).chunks == 0

    def test_a_prefix_is_a_folder_and_not_the_beginning_of_a_name(self, store: VectorStore) -> None:
        below = ("/a", "/a/b", "/a/b/c", "/a/")
        beside = ("/ab", "/a!", "/", "a/b", "/A/b", "/a%", "/_/x", "/a_b")
        put(store, *(chunk(path, 0, "word", parent=path) for path in (*below, *beside)))
        assert sorted(found(store, "word", top_k=50, scope=Scope(prefix="/a"))) == sorted(below)
        assert sorted(paths(store, "/a")) == sorted(below)
        assert sorted(paths(store, "/")) == sorted(set(below + beside) - {"a/b"})
        assert sorted(paths(store, "/_")) == ["/_/x"]
        assert store.delete(Scope(prefix="/a"), call()).object_ids == set(below)
        assert sorted(paths(store)) == sorted(beside)

    def test_scopes_narrow_each_kind_of_search(self, store: VectorStore) -> None:
        put(
            store,
            chunk("a", 0, "red fish", parent="/x", node_id="one"),
            chunk("b", 0, "red fish", parent="/x/y", node_id="two"),
            chunk("c", 0, "red fish", parent="/z", node_id="two"),
        )
        scopes = {
            Scope(object_ids=("a", "c", "nobody")): {"a", "c"},
            Scope(node_id="two"): {"b", "c"},
            Scope(parent="/x"): {"a"},
            Scope(prefix="/x"): {"a", "b"},
            Scope(prefix="/x", node_id="two"): {"b"},
            Scope(object_ids=("a",), node_id="two"): set(),
            Scope(object_ids=("a", *(f"n{n}" for n in range(9999)))): {"a"},
        }
        scopes |= {
            Scope(parent=("/x", "/z")): {"a", "c"},
            Scope(prefix=("/x/y", "/z", "/q")): {"b", "c"},
            Scope(prefix=("/x", "/"), parent=("/z",)): {"c"},
        }
        for scope, expected in scopes.items():
            for mode in ("dense", "keyword", "hybrid"):
                assert set(found(store, "red fish", mode, scope=scope)) == expected

    @pytest.mark.promise("vector:filter:metadata")
    def test_a_filter_compares_texts_booleans_numbers_and_what_is_in_lists(self, store: VectorStore) -> None:
        extras: dict[str, dict[str, Any]] = {
            "text": {"v": "10"}, "int": {"v": 10}, "float": {"v": 10.0}, "more": {"v": 10.5}, "true": {"v": True},
            "one": {"v": 1}, "list": {"v": [1, "a", False, 20]}, "null": {"v": None}, "deep": {"v": {"v": 10}},
            "lists": {"v": [[10]]}, "big": {"v": 2**60}, "none": {"w": 10}, "long": {"v": "x" * 5000}, "empty": {"v": []},
        }  # fmt: skip
        odd = ("", "a.b", "a[0]", 'quo"te', "back\\slash", "ä 'x", "%s", "$v", "numbers", "content")
        extras |= {f"odd{n}": {key: f"{key}!", "n": {key: 1}} for n, key in enumerate(odd)}
        put(store, *(Chunk(name, 0, "word", "n", "/", extra) for name, extra in extras.items()))
        asked: list[tuple[Match, set[str]]] = [
            (Match("v", ("10",)), {"text"}),
            (Match("v", (10.0,)), {"int", "float"}),
            (Match("v", (True,)), {"true"}),
            (Match("v", (False, 1.0)), {"list", "one"}),
            (Match("v", ("a", "10", "b")), {"list", "text"}),
            (Match("v", ("x" * 5000,)), {"long"}),
            (Match("v", ("x" * 4999,)), set()),
            (Match("v", (float(2**60),)), {"big"}),
            (Match("v", gte=10), {"int", "float", "more", "list", "big"}),
            (Match("v", gt=10, lt=11), {"more"}),
            (Match("v", lte=1), {"one", "list"}),
            (Match("v", gte=2, lte=19), {"int", "float", "more"}),
            (Match("nobody", gte=0), set()),
            (Match("nobody", ("x",)), set()),
            *((Match(key, (f"{key}!",)), {f"odd{n}"}) for n, key in enumerate(odd)),
        ]
        for match, expected in asked:
            scope = Scope(metadata=(match,))
            for mode in ("dense", "keyword", "hybrid"):
                assert set(found(store, "word", mode, top_k=50, scope=scope)) == expected, match
            assert {name for name in extras if fits(scope, Chunk(name, 0, "", "n", "/", extras[name]))} == expected
        both = Scope(metadata=(Match("v", gte=10), Match("v", lt=20)), object_ids=("int", "big", "text"))
        assert found(store, "word", scope=both) == ["int"]
        put(store, Chunk("int", 0, "word", "n", "/", {"v": 30}))
        assert found(store, "word", scope=both) == []

    @pytest.mark.promise("vector:filter:metadata")
    def test_a_filter_finds_the_best_of_what_it_leaves_among_many(self, store: VectorStore) -> None:
        dice = random.Random(11)
        chunks = [
            Chunk(f"o{n}", 0, f"word{n % 50} common", "n", f"/{n % 7}", {"source": f"s{n % 10}", "n": n, "even": n % 2 == 0})
            for n in range(3000)
        ]
        given = [[dice.gauss(0, 1) for _ in range(SIZE)] for _ in chunks]
        store.upsert(chunks, given, SPACE, call())
        many = tuple(one.object_id for one in chunks[::3])
        for metadata, ids in (
            ((Match("source", ("s3",)),), None),
            ((Match("source", ("s1", "s2", "s3")), Match("n", gte=700)), None),
            ((Match("n", gte=1000, lt=1400),), None),
            ((Match("even", (True,)),), (*many, *(f"unknown {n}" for n in range(50_000)))),
        ):
            scope = Scope(object_ids=ids, metadata=metadata)
            meant = {n for n, one in enumerate(chunks) if fits(scope, one)}
            for _ in range(4):
                asked = [dice.gauss(0, 1) for _ in range(SIZE)]
                best = sorted((-cosine(asked, given[n]), chunks[n].object_id) for n in meant)[:10]
                hits = store.search(Search("dense", 10, "", asked, scope), call())
                assert len({hit.chunk.object_id for hit in hits} & {name for _, name in best}) >= 9
                assert {int(hit.chunk.object_id[1:]) for hit in hits} <= meant
                both = store.search(Search("hybrid", 10, "nothing", asked, scope), call())
                assert {hit.chunk.object_id for hit in both} == {hit.chunk.object_id for hit in hits}
            worded = [hit.chunk.object_id for hit in store.search(Search("keyword", 100, "word7", None, scope), call())]
            assert sorted(worded) == sorted(chunks[n].object_id for n in meant if n % 50 == 7)

    def test_words_are_found_whatever_their_case_and_signs_find_nothing(self, store: VectorStore) -> None:
        put(store, chunk("a", 0, "The Quick brown fox"), chunk("b", 0, "slow turtles, quickly"))
        assert found(store, "QUICK!", "keyword") == ["a"]
        assert set(found(store, "fox turtles", "keyword")) == {"a", "b"}
        for nothing in ("?!", "&|():*", "''", "\\", "unheard", "<->", "a:b:c !"):
            assert found(store, nothing, "keyword") == [], nothing

    def test_a_chunk_with_all_words_of_a_query_stands_before_those_that_repeat_some(self, store: VectorStore) -> None:
        put(
            store,
            chunk("repeats", 0, "zebra zebra zebra zebra"),
            chunk("all", 0, "an apple and, after much else that says nothing of it at all, a zebra too"),
            chunk("also", 0, "the zebra of which this long sentence tells eats no grass, but one single apple a day"),
            *(chunk(f"apple{n}", 0, "apple pie") for n in range(20)),
        )
        hits = store.search(Search("keyword", 10, "Zebra, apple"), call())
        assert {hit.chunk.object_id for hit in hits[:2]} == {"all", "also"}
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len({hit.chunk.object_id for hit in hits}) == len(hits) == 10
        assert found(store, "zebra apple", "keyword", top_k=1) == [hits[0].chunk.object_id]
        assert set(found(store, "zebra apple", "keyword", top_k=3, scope=Scope(object_ids=("repeats", "also")))) == {
            "repeats",
            "also",
        }

    def test_case_and_accents_fold_and_the_parts_of_identifiers_are_words(self, store: VectorStore) -> None:
        texts = {
            "naive": "a naïve idea", "city": "Łódź and São Paulo", "street": "Hauptstraße", "tree": "ЁЛКА", "greek": "Άνθρωπος",
            "hebrew": "שָׁלוֹם", "camel": "int getHTTPResponse()", "snake": "parse_url_path(x)", "fault": "fault E1234 again",
            "size": "a jump of 10km", "upper": "the HTML5Parser class", "stress": "За́мок на ї́жу и чай",
            "network": "parseIPv6Address(host)",
            "hash": "computeSHA256Hash", "version": "apiV2 and utf8mb4", "korean": "서울에서 만나요",
        }  # fmt: skip
        put(store, *(chunk(name, 0, text) for name, text in texts.items()))
        for text, expected in {
            "naive": "naive", "NAÏVE": "naive", "lodz": "city", "sao paulo": "city", "hauptstrasse": "street", "елка": "tree",
            "ανθρωπος": "greek", "שלום": "hebrew", "http": "camel", "gethttpresponse": "camel", "getHttpResponse": "camel",
            "get_http_response": "camel", "url": "snake", "1234": "fault", "e1234": "fault", "km": "size",
            "parser": "upper", "html5parser": "upper", "html5": "upper", "234": "", "htt": "", "pars": "", "замок": "stress",
            "їжу": "stress", "чай": "stress", "чаи": "", "за́мок": "stress", "sha256": "hash", "SHA-256": "hash", "256": "hash",
            "IPv6": "network", "ipv6 address": "network", "pv6": "",
            "v2": "version", "utf8": "version", "mb4": "version", "서울": "korean", "서울에서": "korean", "서에": "",
            "postHTTPRequest": "", "F1234": "",
        }.items():  # fmt: skip
            assert found(store, text, "keyword")[:1] == [expected][: bool(expected)], text

    def test_the_scores_of_each_mode_are_what_they_are_said_to_be(self, store: VectorStore) -> None:
        put(
            store, chunk("both", 0, "green apples"), chunk("far", 0, "xylophone zebra quiz"), chunk("near", 0, "greenish apple")
        )
        text = "green apples"
        vector = hashed(text, SIZE)
        hits = store.search(Search("dense", 10, "", vector), call())
        for hit in hits:
            assert hit.score == pytest.approx(cosine(vector, hashed(hit.chunk.content, SIZE)), abs=1e-4)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        words = store.search(Search("keyword", 10, text), call())
        assert [hit.chunk.object_id for hit in words] == ["both"]
        assert words[0].score > 0
        fused = store.search(Search("hybrid", 10, text, vector), call())
        similarities = {hit.chunk.object_id: max(hit.score, 0.0) for hit in hits}
        assert {hit.chunk.object_id: hit.score for hit in fused} == pytest.approx(
            {"both": 1.0, "near": similarities["near"] / 2, "far": similarities["far"] / 2}, abs=1e-4
        )
        assert [hit.score for hit in fused] == sorted((hit.score for hit in fused), reverse=True)

    def test_a_hybrid_score_says_how_near_a_chunk_is_and_how_much_of_the_words_it_has(self, store: VectorStore) -> None:
        vectors = {"word": 0, "aside": 1, "alike": 2, "opposite": 3}
        texts = {"word": "plums and figs", "aside": "nothing of it", "alike": "kiwis in general", "opposite": "nor of that"}
        directions = [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]
        chunks = [chunk(name, 0, texts[name]) for name in vectors]
        store.upsert(chunks, [directions[n] for n in vectors.values()], VectorSpace("two", 2), call())

        def scores(text: str) -> dict[str, float]:
            return {hit.chunk.object_id: hit.score for hit in store.search(Search("hybrid", 9, text, [1.0, 0.0]), call())}

        nothing = {"aside": 0.0, "opposite": 0.0}
        assert scores("figs") == pytest.approx({"alike": 0.5, "word": 0.5, **nothing}, abs=1e-5)
        partly = {"alike": 0.5, "word": 0.0, "aside": 1 / 6, "opposite": 1 / 6}
        assert scores("unheard of words") == pytest.approx(partly, abs=0.02)
        assert scores("figs with unheard words") == pytest.approx({"alike": 0.5, "word": 1 / 8, **nothing}, abs=1e-5)
        assert scores("kiwis") == pytest.approx({"alike": 1.0, "word": 0.0, **nothing}, abs=1e-5)
        assert scores("?!") == scores("xyz") == pytest.approx({"alike": 0.5, "word": 0.0, **nothing}, abs=1e-5)

    def test_numbers_are_words(self, store: VectorStore) -> None:
        texts = {
            "zip": "the zip code is 59999, in the west",
            "year": "it was built in 1984.",
            "date": "on 2024-01-02 at 10:45",
            "version": "Python 3.11.7 came out",
            "other": "Python 3.12.1 came later",
            "sku": "order AB-1234 now",
            "mail": "write to jane.doe+news@mail.example",
            "host": "the server is at 192.168.17.254:8080",
            "price": "it costs 1,299.50 \u20ac",
            "wide": "\uff11\uff12\uff13\uff14\uff15 in full width, \u0663\u0664 in Arabic",
        }
        put(store, *(chunk(name, 0, text) for name, text in texts.items()))
        for text, expected in {
            "59999": "zip", "1984": "year", "2024": "date", "2024-01-02": "date", "10:45": "date", "3.11.7": "version",
            "3.12.1": "other", "AB-1234": "sku", "ab1234 1234": "sku", "jane.doe+news@mail.example": "mail",
            "192.168.17.254": "host", "8080": "host", "1,299.50": "price", "1299": "", "12345": "wide", "\u0664": "",
            "\u0663\u0664": "wide", "5999": "", "599990": "",
        }.items():  # fmt: skip
            assert found(store, text, "keyword")[:1] == [expected][: bool(expected)], text
            if expected:
                assert found(store, text, "hybrid", scope=Scope(object_ids=(expected,))) == [expected]

    def test_scripts_without_spaces_between_words_are_searched(self, store: VectorStore) -> None:
        put(store, chunk("ja", 0, "日本語のテキストです"), chunk("zh", 0, "我喜欢喝绿茶"), chunk("th", 0, "ภาษาไทยง่าย"))
        for text, expected in {"日本": "ja", "テキスト": "ja", "茶": "zh", "绿茶": "zh", "ภาษา": "th", "日曜": ""}.items():
            assert found(store, text, "keyword") == [expected][: bool(expected)], text

    def test_a_vector_of_zeros_is_like_nothing(self, store: VectorStore) -> None:
        store.upsert([chunk("zero"), chunk("one")], [[0.0] * SIZE, hashed("some words", SIZE)], SPACE, call())
        scores = {
            hit.chunk.object_id: hit.score for hit in store.search(Search("dense", 5, "", hashed("some words", SIZE)), call())
        }
        assert scores.get("zero", 0) == pytest.approx(0, abs=1e-6)
        assert scores["one"] == pytest.approx(1, abs=1e-5)
        assert all(math.isfinite(hit.score) for hit in store.search(Search("dense", 5, "", [0.0] * SIZE), call()))

    def test_top_k_bounds_what_is_found(self, store: VectorStore) -> None:
        put(store, *(chunk(f"o{n}", 0, f"word number{n}") for n in range(30)))
        for mode in ("dense", "keyword", "hybrid"):
            assert len(set(found(store, "word", mode, top_k=7))) == 7
            assert len(set(found(store, "word", mode, top_k=100))) == 30

    def test_vectors_of_another_model_or_size_are_refused_and_change_nothing(self, store: VectorStore) -> None:
        put(store, chunk("a"))
        for other in (VectorSpace("other", SIZE), VectorSpace(SPACE.model, SIZE + 1)):
            with pytest.raises(ToolError) as failure:
                put(store, chunk("a", 0, "never"), chunk("b"), space=other)
            assert failure.value.code == "embedding_model_mismatch"
            assert SPACE.model in failure.value.message
            assert other.model in failure.value.message
        assert [one.content for one in everything(store, "a", "b")] == ["some words"]

    def test_paths_are_sorted_and_paged_with_their_counts(self, store: VectorStore) -> None:
        names = ["/Z", "/a", "/a b", "/ä", "/🙂", "/\uffee"]
        put(
            store,
            *(chunk(f"{name}{n}", 0, parent=name) for name in reversed(names) for n in (1, 0)),
            chunk("/a0", 1, parent="/a"),
        )
        assert list(paths(store)) == sorted(names)
        assert paths(store)["/a"] == ("/a0", 3)
        pages = [store.list(None, offset, 5, call()) for offset in (0, 5, 10)]
        expected = [(parent, f"{parent}{n}") for parent in sorted(names) for n in (0, 1)]
        assert [(one.parent, one.object_id) for page in pages for one in page.objects] == expected
        assert {page.total for page in pages} == {len(expected)}

    @pytest.mark.promise("vector:owner:apart")
    def test_owners_have_nothing_of_each_other(self, store: VectorStore) -> None:
        for owner in OWNERS:
            assert store.list(None, 0, 10, call(), owner).total == store.stats(call(), owner).chunks == 0
            chunks = [
                Chunk("same", n, f"common words {owner} {n}", "node", "/p", {"signature": owner}, owner) for n in range(3)
            ]
            store.upsert(chunks, [hashed("common words", SIZE)] * 3, SPACE, call(), {"same": {0, 1, 2}}, owner)
        for owner in OWNERS:
            scope = Scope(owner=owner)
            for mode in ("dense", "keyword", "hybrid"):
                hits = store.search(Search(mode, 50, "common words", hashed("common words", SIZE), scope), call())
                assert [hit.chunk.owner for hit in hits] == [owner] * 3, mode
            assert {one.owner for one in store.get("same", 0, 10, call(), owner).chunks} == {owner}
            assert [(one.object_id, one.chunks) for one in store.list("/", 0, 10, call(), owner).objects] == [("same", 3)]
            assert [version.signature for version in store.versions(["same"], call(), owner)] == [owner]
            stats = store.stats(call(), owner)
            assert (stats.chunks, stats.objects, stats.parents) == (3, 1, 1)
        assert store.upsert([], [], SPACE, call(), {"same": {0}}, OWNERS[1]) == 2
        assert store.delete(Scope(prefix="/", owner=OWNERS[2]), call()).chunks == 3
        assert [store.stats(call(), owner).chunks for owner in OWNERS] == [3, 1, 0]
        assert store.delete(Scope(owner=OWNERS[0]), call()).chunks == 3
        assert [store.stats(call(), owner).chunks for owner in OWNERS] == [0, 1, 0]

    def test_an_object_is_read_in_the_order_of_its_chunks_page_by_page(self, store: VectorStore) -> None:
        numbers = [2**53, 10, 9, 0, 100]
        put(store, *(chunk("a", n, f"number {n}") for n in numbers), chunk("b", 1))
        pages = [store.get("a", offset, 2, call()) for offset in (0, 2, 4, 6)]
        assert [one.chunk_id for page in pages for one in page.chunks] == sorted(numbers)
        assert {page.total for page in pages} == {5}

    def test_a_page_begins_behind_a_row_whatever_was_stored_and_deleted_before_it(self, store: VectorStore) -> None:
        put(store, *(chunk(f"o{n}", n, parent=f"/{n // 2}") for n in range(8)), *(chunk("o0", n) for n in (3, 2**53)))
        first = store.list(None, 0, 3, call()).objects
        assert [one.object_id for one in first] == ["o0", "o0", "o1"]
        put(store, chunk("new", 0, parent="/0"), chunk("new", 1))
        store.delete(Scope(parent="/1"), call())
        place = (first[-1].parent, first[-1].object_id)
        assert [one.object_id for one in store.list(None, 0, 3, call(), after=place).objects] == ["o4", "o5", "o6"]
        assert [one.object_id for one in store.list("/3", 1, 3, call(), after=place).objects] == ["o7"]
        assert store.list("/0", 0, 3, call(), after=place) == Listing([], 3)
        put(store, chunk("o0", 1))
        assert [one.chunk_id for one in store.get("o0", 0, 5, call(), after=0).chunks] == [1, 3, 2**53]
        assert [one.chunk_id for one in store.get("o0", 1, 5, call(), after=2).chunks] == [2**53]
        assert store.get("o0", 0, 5, call(), after=2**53) == ChunkPage([], 4)

    def test_versions_are_told_of_objects_whose_chunks_all_have_one_signature(self, store: VectorStore) -> None:
        assert store.versions(["a"], call()) == []
        put(store, *(chunk("a", n, signature="s1", more=n) for n in range(3)), chunk("b", signature=None), chunk("c"))
        put(store, chunk("d", 0, signature="s1"), chunk("d", 1, signature="s2"))
        put(store, chunk("e", 0, signature="s1"), chunk("e", 1), chunk("f", signature=7), chunk("'g", signature='ü \\ "'))
        found = store.versions(["a", "b", "c", "d", "e", "f", "'g", "none"], call())
        assert {version.object_id: (version.chunks, version.signature) for version in found} == {
            "a": (3, "s1"),
            "b": (1, None),
            "c": (1, None),
            "d": (2, None),
            "e": (2, None),
            "f": (1, None),
            "'g": (1, 'ü \\ "'),
        }
        store.delete(Scope(object_ids=("a",)), call())
        assert store.versions(["a"], call()) == []

    def test_a_long_text_of_words_that_are_all_different_is_stored_and_found(self, store: VectorStore) -> None:
        text = " ".join(f"{n:x}wörd" for n in range(20_000))
        put(store, chunk("long", 0, text), chunk("run", 0, "x" * 100_000))
        assert found(store, "4e1fwörd", "keyword") == ["long"]
        assert {one.content for one in everything(store, "long", "run")} == {text, "x" * 100_000}

    def test_a_cancelled_call_does_nothing(self, store: VectorStore) -> None:
        put(store, chunk("a"))
        token = CancelToken()
        token.cancel()
        calls: Sequence[Callable[[ToolContext], Any]] = (
            lambda ctx: store.upsert([chunk("b")], [hashed("x", SIZE)], SPACE, ctx),
            lambda ctx: store.delete(Scope(prefix="/"), ctx),
            lambda ctx: store.search(Search("keyword", 3, "words"), ctx),
            lambda ctx: store.list(None, 0, 5, ctx),
        )
        for one in calls:
            with pytest.raises(Cancelled):
                one(call(token))
        assert store.stats(call()).chunks == 1

    def test_a_closed_store_says_so(self, store: VectorStore) -> None:
        put(store, chunk("a"))
        store.close()
        store.close()
        with pytest.raises(Unavailable):
            store.search(Search("keyword", 3, "words"), call())
        with pytest.raises(Unavailable):
            put(store, chunk("b"))

    def test_many_threads_write_delete_and_search_at_once(self, store: VectorStore) -> None:
        put(store, chunk("kept", 0, "kept for ever", parent="/kept"))

        def work(n: int) -> None:
            for turn in range(8):
                put(store, *(chunk(f"o{n}", k, f"word{n} common turn{turn}", parent=f"/{n}") for k in range(5)))
                assert found(store, f"word{n}", "keyword", scope=Scope(object_ids=(f"o{n}",))) == [f"o{n}"] * 5
                assert "kept" in found(store, "kept for ever", "hybrid")
                if turn % 2:
                    assert store.delete(Scope(parent=f"/{n}"), call()).chunks == 5
                store.list(None, 0, 10, call())

        in_threads(work, 6)
        assert paths(store) == {"/kept": ("kept", 1)}
        assert store.stats(call()).chunks == 1

    def test_the_same_chunk_written_and_deleted_by_many_is_there_once_or_not(self, store: VectorStore) -> None:
        put(store, chunk("a"))

        def work(n: int) -> None:
            for turn in range(15):
                put(store, chunk("a", 0, f"version {n} {turn}", parent=f"/{n}"))
                if n == 0:
                    store.delete(Scope(object_ids=("a",)), call())

        in_threads(work, 4)
        kept = everything(store, "a")
        assert len(kept) == store.stats(call()).chunks == sum(count for _, count in paths(store).values()) <= 1

    def test_the_first_who_stores_settles_the_model(self, store: VectorStore) -> None:
        outcomes: list[str] = []
        codes: list[str] = []

        def work(n: int) -> None:
            try:
                put(store, chunk(f"o{n}"), space=VectorSpace(f"model-{n % 2}", SIZE))
                outcomes.append(f"model-{n % 2}")
            except ToolError as error:
                codes.append(error.code)

        in_threads(work, 6)
        space = store.space(call())
        assert space is not None
        assert set(outcomes) == {space.model}
        assert codes == ["embedding_model_mismatch"] * 3
        assert store.stats(call()).chunks == len(outcomes) == 3

    def test_it_does_what_a_naive_store_does(self, new_store: NewStore) -> None:
        check_against_oracle(new_store)


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / lengths if lengths else 0.0


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work(0)` to `work(count - 1)` at once, and raise what one of them raised."""
    failures: list[BaseException] = []

    def run(n: int) -> None:
        try:
            work(n)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


OWNERS = tuple(owner_of(user, space) for user, space in ((None, None), ("u", None), ("u", "s")))
WORDS = ("apple", "pear", "plum", "fig", "kiwi")
OBJECTS = st.sampled_from(["a", "b", "ä/1"])
PARENTS = st.sampled_from(["/", "/x", "/x/y", "/xy", "plain"])
VALUES = st.sampled_from(["a", "b", "1", "", True, False, 0, 1, 1.5, -1])
EXTRAS = st.dictionaries(st.sampled_from(["n", "tag", "a.b"]), VALUES | st.lists(VALUES, max_size=3) | st.none(), max_size=3)
CHUNKS = st.builds(
    lambda object_id, chunk_id, words, parent, node, owner, extra: Chunk(
        object_id, chunk_id, " ".join(words), node, parent, extra, owner
    ),
    OBJECTS,
    st.integers(0, 3),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    PARENTS,
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(OWNERS),
    EXTRAS,
)
BOUNDS = st.dictionaries(st.sampled_from(["gte", "gt", "lte", "lt"]), st.sampled_from([-1.0, 0.0, 1.0, 1.25]), min_size=1)
MATCHES = st.builds(
    lambda key, values, bounds: Match(key, **bounds) if values is None else Match(key, tuple(values)),
    st.sampled_from(["n", "tag", "a.b", "unknown"]),
    st.none() | st.lists(VALUES.map(lambda value: float(value) if type(value) is int else value), min_size=1, max_size=3),
    BOUNDS,
)
SCOPES = st.builds(
    lambda scope, owner: msgspec.structs.replace(scope, owner=owner),
    st.one_of(
        st.builds(lambda ids: Scope(object_ids=tuple(sorted(ids))), st.sets(OBJECTS, min_size=1)),
        st.builds(lambda parent: Scope(parent=parent), PARENTS),
        st.builds(lambda prefix: Scope(prefix=prefix), PARENTS),
        st.builds(lambda node, prefix: Scope(node_id=node, prefix=prefix), st.sampled_from(["n1", "n2"]), PARENTS),
        st.builds(lambda matches: Scope(metadata=tuple(matches)), st.lists(MATCHES, min_size=1, max_size=3)),
    ),
    st.sampled_from(OWNERS),
)


def fits(scope: Scope, one: Chunk) -> bool:
    return (
        one.owner == scope.owner
        and (scope.object_ids is None or one.object_id in scope.object_ids)
        and scope.node_id in (None, one.node_id)
        and (not scope.parents or one.parent in scope.parents)
        and (not scope.folders or any(one.parent == path or one.parent.startswith(below) for path, below in scope.folders))
        and all(has(match, one.extra.get(match.key)) for match in scope.metadata)
    )


def has(match: Match, value: Any) -> bool:
    """Whether a value in the metadata fits."""
    if isinstance(value, list):
        return any(has(match, one) for one in value if not isinstance(one, list))
    if match.values is not None:
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in match.values)
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (match.gte is None or value >= match.gte)
        and (match.gt is None or value > match.gt)
        and (match.lte is None or value <= match.lte)
        and (match.lt is None or value < match.lt)
    )


class Oracle(RuleBasedStateMachine):
    """A dict of chunks beside a real store. `new_store` is set by `check_against_oracle`."""

    new_store: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).new_store()
        self.chunks: dict[tuple[str, str, int], Chunk] = {}

    def teardown(self) -> None:
        self.store.close()

    def where(self, fit: Callable[[Chunk], bool]) -> list[Chunk]:
        return [one for one in self.chunks.values() if fit(one)]

    def forget(self, gone: Collection[Chunk]) -> None:
        for one in gone:
            del self.chunks[one.owner, one.object_id, one.chunk_id]

    @rule(chunks=st.lists(CHUNKS, min_size=1, max_size=6, unique_by=lambda one: (one.owner, one.object_id, one.chunk_id)))
    def upsert(self, chunks: list[Chunk]) -> None:
        put(self.store, *chunks)
        self.chunks.update({(one.owner, one.object_id, one.chunk_id): one for one in chunks})

    @rule(scope=SCOPES)
    def delete(self, scope: Scope) -> None:
        gone = self.where(lambda one: fits(scope, one))
        self.forget(gone)
        deleted = self.store.delete(scope, call())
        assert (deleted.chunks, deleted.object_ids) == (len(gone), {one.object_id for one in gone})

    @rule(object_id=OBJECTS, keep=st.sets(st.integers(0, 3)), owner=st.sampled_from(OWNERS))
    def prune(self, object_id: str, keep: set[int], owner: str) -> None:
        scope = Scope(object_ids=(object_id,), owner=owner)
        gone = self.where(lambda one: fits(scope, one) and one.chunk_id not in keep)
        self.forget(gone)
        assert self.store.upsert([], [], SPACE, call(), {object_id: keep}, owner) == len(gone)

    @rule(object_id=OBJECTS, offset=st.integers(0, 3), limit=st.integers(1, 4), owner=st.sampled_from(OWNERS))
    def get(self, object_id: str, offset: int, limit: int, owner: str) -> None:
        scope = Scope(object_ids=(object_id,), owner=owner)
        expected = sorted(self.where(lambda one: fits(scope, one)), key=lambda one: one.chunk_id)
        page = self.store.get(object_id, offset, limit, call(), owner)
        assert (page.chunks, page.total) == (expected[offset : offset + limit], len(expected))

    @rule(prefix=st.none() | PARENTS, offset=st.integers(0, 3), limit=st.integers(1, 4), owner=st.sampled_from(OWNERS))
    def list(self, prefix: str | None, offset: int, limit: int, owner: str) -> None:
        scope = Scope(prefix=prefix, owner=owner)
        meant = Counter((one.parent, one.object_id) for one in self.where(lambda one: fits(scope, one)))
        page = self.store.list(prefix, offset, limit, call(), owner)
        assert page.total == len(meant)
        objects = sorted(meant.items())[offset : offset + limit]
        assert [((one.parent, one.object_id), one.chunks) for one in page.objects] == objects

    @rule(
        text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        scope=SCOPES | st.sampled_from([Scope(owner=owner) for owner in OWNERS]),
        top_k=st.integers(1, 20),
    )
    def search(self, text: list[str], scope: Scope, top_k: int) -> None:
        vector = hashed(" ".join(text), SIZE)
        meant = self.where(lambda one: fits(scope, one))
        dense = self.store.search(Search("dense", top_k, "", vector, scope), call())
        assert all(hit.chunk in meant for hit in dense)
        best = sorted((cosine(vector, hashed(one.content, SIZE)) for one in meant), reverse=True)[:top_k]
        assert [hit.score for hit in dense] == pytest.approx(best, abs=1e-4)
        words = self.store.search(Search("keyword", 100, " ".join(text), None, scope), call())
        holding = {(one.object_id, one.chunk_id) for one in meant if set(text) & set(one.content.split())}
        assert {(hit.chunk.object_id, hit.chunk.chunk_id) for hit in words} == holding
        both = self.store.search(Search("hybrid", 100, " ".join(text), vector, scope), call())
        assert sorted((hit.chunk.object_id, hit.chunk.chunk_id) for hit in both) == sorted(
            (one.object_id, one.chunk_id) for one in meant
        )

    @rule(owner=st.sampled_from(OWNERS))
    def stats(self, owner: str) -> None:
        stats, chunks = self.store.stats(call(), owner), self.where(lambda one: one.owner == owner)
        assert stats.chunks == len(chunks)
        assert stats.objects == len({one.object_id for one in chunks})
        assert stats.parents == len({one.parent for one in chunks})


def check_against_oracle(new_store: NewStore, *, examples: int = 15, steps: int = 25) -> None:
    """Do the same things to a fresh store and to a dict, again and again, and compare what they say."""
    machine = type("BoundOracle", (Oracle,), {"new_store": staticmethod(new_store)})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None))
