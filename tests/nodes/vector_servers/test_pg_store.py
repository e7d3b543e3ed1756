"""What is special to a vector store in PostgreSQL: its tables, its words, its index, and names that look like SQL."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pg_stores import SIZE, SPACE, call, chunk, fill, names, open_store, until, vectors_of
from postgres_server import Database, PostgresServer
from vector_contract import in_threads

from rrext.errors import ToolError, Unavailable
from rrext.nodes.vectors.postgres import store as pg_store
from rrext.nodes.vectors.postgres.store import PgVectorStore, any_of, telling_words
from rrext.nodes.vectors.store import Chunk, Scope, Search, VectorSpace, owner_of
from rrext.nodes.vectors.words import former_words, stored_words

STRANGE = "a\"b'; DROP TABLE chunks; -- %s %(x)s {} \\ ü😀"


def test_reading_a_store_that_is_not_there_creates_nothing(store: PgVectorStore, postgres_database: Database) -> None:
    assert store.space(call()) is None
    assert store.search(Search("hybrid", 5, "words", [1.0] * SIZE), call()) == []
    assert store.list(None, 0, 10, call()).total == 0
    assert store.get("a", 0, 10, call()).total == 0
    assert store.delete(Scope(prefix="/"), call()).chunks == 0
    assert store.upsert([], [], SPACE, call(), {"a": ()}) == 0
    assert store.stats(call()).chunks == 0
    assert postgres_database.run("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert postgres_database.run("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == [(0,)]


def test_stats_name_the_table_as_its_settings_do_and_not_by_the_value_of_a_variable(postgres_database: Database) -> None:
    store = open_store(postgres_database, table="hidden_name", shown="public.${ROCKETRIDE_TABLE}")
    for chunks in ([], [chunk("a")]):
        if chunks:
            fill(store, chunks)
        told = store.stats(call())
        assert told.details["table"] == "public.${ROCKETRIDE_TABLE}"
        assert "hidden_name" not in repr(told)
    store.close()


def test_names_that_look_like_sql_are_names(postgres_database: Database) -> None:
    store = open_store(postgres_database, schema=STRANGE, table=f"{STRANGE}!")
    one = Chunk(STRANGE, 7, STRANGE, STRANGE, STRANGE, {STRANGE: [STRANGE, 1.5, None]})
    fill(store, [one, chunk("plain")])
    for scope in (Scope(object_ids=(STRANGE,)), Scope(node_id=STRANGE), Scope(parent=STRANGE), Scope(prefix=STRANGE)):
        assert names(store, STRANGE, scope=scope) == [f"{STRANGE}/7"]
    assert store.get(STRANGE, 0, 10, call()).chunks == [one]
    assert {one.parent for one in store.list(None, 0, 10, call()).objects} == {STRANGE, "/"}
    assert store.stats(call()).details["index"] == "none"
    assert store.delete(Scope(object_ids=(STRANGE,)), call()).object_ids == {STRANGE}
    assert store.stats(call()).chunks == 1
    store.close()


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ü" * 32])
def test_what_cannot_be_a_name_is_refused_before_anything_is_asked(postgres_database: Database, name: str) -> None:
    for setting in ("table", "schema", "language"):
        with pytest.raises(Unavailable, match=f'"{setting}"'):
            open_store(postgres_database, None, **{setting: name})


def test_a_table_of_somebody_else_is_left_alone(store: PgVectorStore, postgres_database: Database) -> None:
    postgres_database.run("CREATE EXTENSION vector", "CREATE TABLE chunks (id int)", "INSERT INTO chunks VALUES (1)")
    with pytest.raises(ToolError) as failure:
        fill(store, [chunk("a")])
    assert failure.value.code == "not_a_store"
    assert postgres_database.run("SELECT * FROM chunks") == [(1,)]


def test_two_stores_in_one_schema_have_models_of_their_own(store: PgVectorStore, postgres_database: Database) -> None:
    other = open_store(postgres_database, table="others")
    fill(store, [chunk("a")])
    other.upsert([chunk("b")], [[1.0, 0.0]], VectorSpace("tiny", 2), call())
    assert (store.space(call()), other.space(call())) == (SPACE, VectorSpace("tiny", 2))
    with pytest.raises(ToolError) as failure:
        fill(other, [chunk("c")])
    assert failure.value.code == "embedding_model_mismatch"
    with pytest.raises(ToolError) as failure:
        fill(store, [chunk("c")], VectorSpace("another of that size", SIZE))
    assert failure.value.code == "embedding_model_mismatch"
    assert (store.stats(call()).chunks, other.stats(call()).chunks) == (1, 1)
    other.close()


def test_a_dropped_table_is_an_empty_store_for_any_model(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    postgres_database.run("DROP TABLE chunks")
    assert names(store, "some words") == []
    assert store.space(call()) is None
    assert store.stats(call()).chunks == store.delete(Scope(prefix="/"), call()).chunks == 0
    store.upsert([chunk("b")], [[1.0, 0.0]], VectorSpace("tiny", 2), call())
    assert store.space(call()) == VectorSpace("tiny", 2)
    assert names(store, "some words", "keyword") == ["b/0"]


def test_tables_of_a_later_form_are_not_misread(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    postgres_database.run("UPDATE rrext_vector_stores SET form = 99")
    other = open_store(postgres_database)
    for use in (lambda: store.space(call()), lambda: fill(store, [chunk("b")]), lambda: other.list(None, 0, 1, call())):
        with pytest.raises(ToolError) as failure:
            use()
        assert failure.value.code == "store_format"
    other.close()
    assert postgres_database.run("SELECT count(*) FROM chunks") == [(1,)]


WITHOUT_OWNERS = (
    "ALTER TABLE chunks DROP COLUMN owner",  # and with it the key and the index
    "ALTER TABLE chunks ADD PRIMARY KEY (object_id, chunk_id)",
    "CREATE INDEX ON chunks (parent)",
    "UPDATE rrext_vector_stores SET form = 1",
)


def test_a_user_who_may_not_renew_a_table_is_told_who_has_to_use_it(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a")])
    postgres_database.run(
        *WITHOUT_OWNERS,
        "DROP ROLE IF EXISTS clerk",
        "CREATE ROLE clerk LOGIN PASSWORD 'only'",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk",
    )
    clerk = open_store(postgres_database, {"user": "clerk", "password": "only"})
    with pytest.raises(ToolError) as failure:
        clerk.stats(call())
    assert failure.value.code == "not_permitted"
    assert "Let the user who owns it use the store once" in str(failure.value.hint)
    again = open_store(postgres_database)
    assert [one.stats(call()).chunks for one in (again, clerk)] == [1, 1]
    for one in (clerk, again):
        one.close()
    postgres_database.run("DROP OWNED BY clerk", "DROP ROLE clerk")


@pytest.mark.promise("vector:owner:apart")
def test_a_table_without_owners_becomes_nobodys_at_its_first_use(store: PgVectorStore, postgres_database: Database) -> None:
    fill(store, [chunk("a", n, parent="/p") for n in range(3)])
    postgres_database.run(*WITHOUT_OWNERS)
    stores = [open_store(postgres_database) for _ in range(3)]
    totals: list[int] = []
    in_threads(lambda n: totals.append(stores[n].get("a", 0, 10, call()).total), 3)
    assert totals == [3, 3, 3]
    ada = owner_of("ada", None)
    mine = Chunk("a", 0, "some words", "node", "/p", {}, ada)
    stores[0].upsert([mine], vectors_of([mine]), SPACE, call(), owner=ada)
    assert stores[1].get("a", 0, 10, call(), ada).chunks == [mine]
    assert stores[2].stats(call()).chunks == 3
    assert postgres_database.run("SELECT form FROM rrext_vector_stores") == [(2,)]
    for one in stores:
        one.close()


def test_a_language_finds_forms_of_a_word_and_stays(postgres_database: Database) -> None:
    english = open_store(postgres_database, language="english")
    fill(english, [chunk("a", content="The foxes were jumping"), chunk("b", content="A lazy dog")])
    assert names(english, "jumped fox", "keyword") == ["a/0"]
    assert names(english, "the", "keyword") == [], "a word that says nothing finds nothing"
    simple = open_store(postgres_database)
    assert names(simple, "jumped fox", "keyword") == ["a/0"], "words are searched as they were indexed"
    with pytest.raises(ToolError) as failure:
        fill(simple, [chunk("c")])
    assert failure.value.code == "language_mismatch"
    unknown = open_store(postgres_database, table="others", language="klingon")
    with pytest.raises(ToolError, match='"klingon" does not exist'):
        fill(unknown, [chunk("c")])
    for store in (english, simple, unknown):
        store.close()


def test_words_are_found_in_any_case_and_form_though_the_locale_knows_ascii_only(store: PgVectorStore) -> None:
    contents = ["ÄRGER im Maßstab", "see file.name.txt and mail@example.org", "ﬁne snake_case", "path/to/thing", "中文 字"]
    fill(store, [chunk(str(n), content=content) for n, content in enumerate(contents)])
    for text, expected in {
        "ärger": "0",
        "MASSSTAB": "0",
        "name": "1",
        "Example": "1",
        "fine": "2",
        "case": "2",
        "THING": "3",
        "字": "4",
    }.items():
        assert names(store, text, "keyword") == [f"{expected}/0"], text


SIGNS = "'\"\\:|&!()<>*_ \t\n"


@given(st.text() | st.text(st.sampled_from(SIGNS + "aÀßﷺ1ि्é\u200d日ค")))
def test_the_words_of_a_text_are_words_alone(text: str) -> None:
    found = {*telling_words(text), *former_words(text)}
    assert not set("".join([*found, *stored_words(text)])) & set(SIGNS)
    assert any_of(text, telling_words(text)).count("'") == 2 * len(found)


def test_words_that_are_all_over_a_large_store_count_only_alone(
    store: PgVectorStore, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg_store, "FREQUENT_FROM", 100)
    monkeypatch.setattr(pg_store, "FREQUENT_LOOK", 0.0)
    fill(store, [chunk(f"o{n:03}", content=f"the story of number{n} {'fox' if n in (5, 70) else ''}") for n in range(200)])
    assert len(names(store, "the fox", "keyword", top_k=100)) == 100, "nobody has counted yet"
    postgres_database.run("ANALYZE chunks")
    assert sorted(names(store, "The fox!", "keyword", top_k=100)) == ["o005/0", "o070/0"]
    assert names(store, "the fox of number70", "hybrid", top_k=1) == ["o070/0"]
    assert len(names(store, "the story", "keyword", top_k=100)) == 100


def test_a_word_is_found_wherever_it_stands_in_a_long_text(store: PgVectorStore) -> None:
    words = [f"w{n % 9000}" for n in range(18_000)]
    fill(store, [chunk("long", content=" ".join([*words, "last"])), chunk("often", content="again " * 20_000)])
    for text, expected in {"w0": "long", "w8999": "long", "last": "long", "again": "often"}.items():
        assert names(store, text, "keyword") == [f"{expected}/0"]


def test_signs_that_make_letters_belong_to_their_word_and_accents_do_not() -> None:
    assert stored_words("हिन्दी, e\u0301te\u0301 Ёлка йод が 각") == ["हिन्दी", "ete", "елка", "йод", "が", "각"]
    assert former_words("हिन्दी, สวัสดี! e\u0301te\u0301 ete") == ["สวัสดี", "été"]


HOSTILE = st.text(alphabet=st.sampled_from("abc '\"&|!()<->:*\\%;,.ÄßΩ字😀\n\t-_")) | st.text(
    alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])
)


@given(texts=st.lists(HOSTILE, min_size=1, max_size=20))
def test_no_text_is_a_query_of_another_kind(shared_store: PgVectorStore, texts: list[str]) -> None:
    for text in texts:
        for mode in ("keyword", "hybrid"):
            hits = shared_store.search(Search(mode, 3, text, [1.0] * SIZE), call())
            assert len(hits) <= 3


@pytest.fixture(scope="module")
def shared_store(postgres_server: PostgresServer):
    """A store with a few chunks, for tests that only read."""
    postgres_server.start()
    store = open_store(postgres_server.create_database("read_only_store"))
    fill(store, [chunk(name, content=f"{name} and more words") for name in "abc"])
    yield store
    store.close()
    postgres_server.start()
    postgres_server.drop_database("read_only_store")


def test_vectors_of_any_length_are_compared_by_direction(store: PgVectorStore) -> None:
    along, across = [1.0, 0.0], [0.0, 1.0]
    given = {
        "same": along,
        "huge": [1e38, 0.0],
        "tiny": [1e-40, 0.0],
        "across": across,
        "against": [-1.0, 0.0],
        "nowhere": [0.0, 0.0],
    }
    store.upsert([chunk(name) for name in given], list(given.values()), VectorSpace("two", 2), call())
    hits = store.search(Search("dense", 10, vector=along), call())
    scores = {hit.chunk.object_id: round(hit.score, 6) for hit in hits}
    assert scores == {"same": 1.0, "huge": 1.0, "tiny": 1.0, "across": 0.0, "nowhere": 0.0, "against": -1.0}
    hits = store.search(Search("dense", 10, vector=[0.0, 0.0]), call())
    assert {hit.score for hit in hits} == {0.0}
    assert len(hits) == len(given)


@pytest.mark.parametrize("size", [SIZE, 2500, 5000])
def test_an_index_loses_nothing_that_fits_a_filter(postgres_database: Database, size: int) -> None:
    chance = random.Random(5)
    store = open_store(postgres_database, threshold=200)
    chunks = [chunk(f"o{n:03}", parent="/rare" if n % 100 == 7 else "/often") for n in range(400)]
    vectors = [[chance.gauss(0, 1) for _ in range(size)] for _ in chunks]
    vectors[7] = [0.0] * size
    store.upsert(chunks, vectors, VectorSpace("chance", size), call())
    question = [chance.gauss(0, 1) for _ in range(size)]
    rare = Search("dense", 10, vector=question, scope=Scope(parent="/rare"))
    everything = Search("dense", 400, vector=question)
    before = [store.search(search, call()) for search in (rare, everything)]
    expected = "hnsw" if size <= 4000 else "none"
    until(lambda: store.stats(call()).details["index"] == expected, "the index is built")
    after = [store.search(search, call()) for search in (rare, everything)]
    for old, new in zip(before, after, strict=True):
        assert [hit.chunk.object_id for hit in old] == [hit.chunk.object_id for hit in new]
        assert [hit.score for hit in new] == pytest.approx([hit.score for hit in old])
    assert [len(hits) for hits in after] == [4, 400]
    store.close()


def test_an_index_that_was_never_finished_is_built_anew(postgres_database: Database) -> None:
    store = open_store(postgres_database, threshold=10)
    fill(store, [chunk(str(n), content=f"number {n}") for n in range(20)])
    postgres_database.run(
        "CREATE INDEX broken ON chunks USING hnsw (embedding vector_cosine_ops)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::regclass",
    )
    assert store.stats(call()).details["index"] == "none"
    assert names(store, "number 7", "dense", top_k=1) == ["7/0"]
    until(lambda: store.stats(call()).details["index"] == "hnsw", "the index is built")
    assert postgres_database.run("SELECT count(*) FROM pg_class WHERE relname = 'broken'") == [(0,)]
    store.close()


def test_a_document_with_too_many_words_is_refused_whole(store: PgVectorStore) -> None:
    endless = " ".join(f"word{n}" for n in range(150_000))
    with pytest.raises(ToolError) as failure:
        fill(store, [chunk("good"), chunk("endless", content=endless)])
    assert failure.value.code == "content_too_large"
    assert "word149" not in failure.value.message
    assert store.stats(call()).chunks == 0


def test_the_longest_names_are_kept(store: PgVectorStore) -> None:
    chance = random.Random(3)
    longest = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789/", k=2000)) for _ in range(3)]
    fill(store, [Chunk(longest[0], 2**53, "words", longest[1], longest[2])])
    assert store.list(None, 0, 10, call()).objects[0].parent == longest[2]
    assert store.get(longest[0], 0, 10, call()).chunks[0].chunk_id == 2**53


def test_metadata_comes_back_as_it_was_written(store: PgVectorStore) -> None:
    extra = {"b": 1, "a": [1.0, -0.0, 1e300, 12345678901234567890, "\\u0000", None, True], "": {"ü": "😀"}}
    one = Chunk("a", 0, "words", "node", "/", extra)
    fill(store, [one])
    read = store.get("a", 0, 1, call()).chunks[0]
    assert read == one
    assert repr(read.extra) == repr(extra)
