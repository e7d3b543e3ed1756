"""The catalog of one tenant: what was put, moved and deleted is there, with its text, its folders and its names."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from knowledge_world import call, catalog, draft, library_with, put, view_of

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.knowledge import partition as partition_module
from rrext.nodes.knowledge.grep import Grep
from rrext.nodes.knowledge.navigation import find_by_name, folder_tree, list_folder_contents, list_sources
from rrext.nodes.knowledge.partition import Partition, Sheet
from rrext.nodes.knowledge.reading import document_info, read_document
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.text_search.glob import Glob
from rrext.nodes.text_search.pattern import Pattern
from rrext.nodes.text_search.text_map import lines_of
from rrext.nodes.text_search.trigrams import grams_of, match_of

pytest.importorskip("re2", reason="the extra `knowledge` is not installed")

TEXTS = st.text(st.sampled_from("aB ß\n\r\f\0é€😀́K"), max_size=60)
NAMES = st.sampled_from(["a.txt", "b.txt", "ä.MD", "c"])
FOLDERS = st.sampled_from(["s", "s/x", "s/x/y", "t", "t/x"])


@pytest.fixture
def small_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of a text so near to each other that short texts have several."""
    monkeypatch.setattr("rrext.nodes.text_search.text_map.MARK", 7)
    monkeypatch.setattr("rrext.nodes.knowledge.reading.MARK", 7)


class CatalogMachine(RuleBasedStateMachine):
    """A catalog beside a dict of what it should hold, by object id."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, tuple[str, str]] = {}
        self.ids: dict[str, str] = {}

    @initialize()
    def begin(self) -> None:
        folder = CatalogMachine.root / f"catalog{len(list(CatalogMachine.root.iterdir()))}"
        self.partition = Partition(str(folder), "key")

    root: Path

    def teardown(self) -> None:
        if hasattr(self, "partition"):
            self.partition.close()

    @rule(object_id=st.sampled_from("123"), folder=FOLDERS, name=NAMES, text=TEXTS)
    def put(self, object_id: str, folder: str, name: str, text: str) -> None:
        stored = self.partition.put(draft(f"{folder}/{name}", text, object_id=object_id))
        assert self.ids.get(object_id, stored.id) == stored.id, "a document that changes keeps its id"
        self.ids[object_id] = stored.id
        self.kept[object_id] = (f"{folder}/{name}", text)

    @rule(object_id=st.sampled_from("123"), to=st.sampled_from("1234"), folder=FOLDERS, name=NAMES)
    def move(self, object_id: str, to: str, folder: str, name: str) -> None:
        source, _, below = folder.partition("/")
        moved = self.partition.move(object_id, to, (source, below, name))
        assert moved == (object_id in self.kept)
        if moved:
            _, text = self.kept.pop(object_id)
            self.kept[to] = (f"{folder}/{name}", text)
            self.ids[to] = self.ids.pop(object_id)

    @rule(object_ids=st.lists(st.sampled_from("1234"), min_size=1, max_size=2, unique=True))
    def delete(self, object_ids: list[str]) -> None:
        gone = self.partition.delete(object_ids)
        assert set(gone) == set(object_ids) & set(self.kept)
        for object_id in gone:
            del self.kept[object_id]
            del self.ids[object_id]

    @invariant()
    def holds_what_was_put(self) -> None:
        if not hasattr(self, "partition"):
            return
        found = {one.object_id: (one.path, self.partition.text(one)) for one in self.partition.select("true", ())}
        assert found == self.kept
        assert {one.object_id: one.id for one in self.partition.select("true", ())} == self.ids
        with self.partition.reading() as rows:
            asked = "SELECT source.name || '/' || path, documents FROM folder JOIN source ON source.number = folder.source"
            counts = {path.rstrip("/"): count for path, count in rows.execute(asked)}
        folders = Counter(path.rpartition("/")[0] for path, _ in self.kept.values())
        assert {path: count for path, count in counts.items() if count} == folders
        needed = {"/".join(path.split("/")[: n + 1]) for path in folders for n in range(path.count("/") + 1)}
        assert set(counts) == needed, "no folder stays without documents in it or below it"

    @invariant()
    def finds_each_text_by_its_trigrams(self) -> None:
        if not hasattr(self, "partition"):
            return
        for object_id, (path, text) in self.kept.items():
            for table, value in (("grams", text), ("name_grams", path)):
                match = match_of([value])
                if match is not None:
                    asked = f"SELECT object FROM {table} JOIN document ON document.number = {table}.rowid WHERE {table} MATCH ?"
                    with self.partition.reading() as rows:
                        assert (object_id,) in rows.execute(asked, (match,)).fetchall()
        for gram in ("ab ", "txt"):
            with self.partition.reading() as rows:
                for table, at in (("grams", 1), ("name_grams", 0)):
                    found = rows.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ?", (match_of([gram]),)).fetchall()
                    has = [value for value in self.kept.values() if gram in grams_of(value[at])]
                    assert len(found) == len(has), "nothing stays in the index of what is gone"


def test_a_catalog_holds_what_was_put_moved_and_deleted(tmp_path_factory: pytest.TempPathFactory) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    CatalogMachine.root = tmp_path_factory.mktemp("catalogs")
    run_state_machine_as_test(CatalogMachine, settings=settings(stateful_step_count=12, max_examples=25, deadline=None))


@pytest.mark.usefixtures("small_marks")
@settings(max_examples=50, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_every_range_of_a_text_is_read_as_python_cuts_it(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    with catalog(tmp_path_factory.mktemp("catalog")) as partition:
        for text in texts:
            stored = partition.put(draft(text=text))
            start = data.draw(st.integers(0, len(text) + 3))
            count = data.draw(st.integers(1, len(text) + 3))
            (read,) = read_document(view_of(partition), [stored.id], "characters", start, count, 1000)["documents"]
            assert read["text"] == text[start : start + count]
            lines = text.split("\n")
            lines = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
            assert stored.lines == len(lines) == lines_of(text)
            first = data.draw(st.integers(1, len(lines) + 2))
            (read,) = read_document(view_of(partition), [stored.id], "lines", first, count, 1000)["documents"]
            assert read["text"] == "".join(lines[first - 1 : first - 1 + count])
            assert text[read["start"] : read["end"]] == read["text"]


def test_a_page_of_a_document_is_read_by_its_number(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        stored = partition.put(draft("docs/a.pdf", "one\n\n\ftwo\n\n\f\n\n\ffour", pages=(0, 6, 12, 15)))
        view = view_of(partition)
        texts = [
            read_document(view, [stored.id], "pages", page, 1, 100)["documents"][0]["text"].strip() for page in range(1, 6)
        ]
        assert texts == ["one", "two", "", "four", ""]
        plain = partition.put(draft("docs/b.txt"))
        with pytest.raises(InvalidArguments, match="has no pages"):
            read_document(view, [plain.id], "pages", 1, 1, 100)


def test_a_read_is_bounded_over_all_its_documents_and_says_where_to_go_on(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        ids = [partition.put(draft(f"docs/{name}", "0123456789")).id for name in ("a", "b", "c")]
        read = read_document(view_of(partition), ids, "characters", None, None, 15)["documents"]
        assert [(one["text"], one["next"]) for one in read] == [("0123456789", None), ("01234", 5), ("", 0)]
        with pytest.raises(InvalidArguments, match="counted from 1"):
            read_document(view_of(partition), ids, "lines", 0, None, 15)


def test_what_is_known_about_a_document_is_told(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        text = "## Sales\n\n| a |\n| --- |\n| 1 |\n"
        stored = partition.put(
            draft("docs/x/a.xlsx", text, metadata={"title": "A"}, sheets=(Sheet("Sales", 10, 30),), feed="news", modified=5.0)
        )
        info = document_info(view_of(partition), stored.id)
        expected: dict[str, Any] = {"source": "docs", "folder": "x", "feed": "news", "modified": 5.0, "lines": 5, "pages": None}
        assert {key: info[key] for key in expected} == expected
        assert info["sheets"] == [{"name": "Sales", "start": 10, "end": 30}]
        assert info["metadata"] == {"title": "A"}


def test_folders_are_walked_page_by_page(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        paths = ["docs/a/1", "docs/a/2", "docs/b/c/3", "docs/z1", "docs/z2", "docs/z3", "more/4"]
        for path in paths:
            partition.put(draft(path))
        view = view_of(partition)
        sources = list_sources(view, 1, None)
        assert (sources["sources"], sources["total"]) == ([{"name": "docs", "documents": 6, "folders": 3}], 2)
        assert [one["name"] for one in list_sources(view, 1, sources["cursor"])["sources"]] == ["more"]
        for limit in range(1, 7):
            seen: list[str] = []
            cursor = None
            while True:
                page = list_folder_contents(view, "/docs/", limit, cursor)
                assert len(page["folders"]) + len(page["documents"]) <= limit
                assert page["total"] == {"folders": 2, "documents": 3}
                seen += [one["path"] for one in (*page["folders"], *page["documents"])]
                cursor = page["cursor"]
                if cursor is None:
                    break
            assert seen == ["docs/a", "docs/b", "docs/z1", "docs/z2", "docs/z3"]
        tree = folder_tree(view, "docs", 1)
        assert (tree["documents"], tree["left_out"]) == (6, 1)
        assert [(one["name"], one["documents"]) for one in tree["folders"]] == [("a", 2), ("b", 1)]
        assert folder_tree(view, "docs/b", 5)["folders"] == [{"name": "c", "documents": 1, "folders": []}]
        for handler in (lambda: list_folder_contents(view, "docs/none", 5, None), lambda: folder_tree(view, "other", 5)):
            with pytest.raises(ToolError, match="There is no folder") as caught:
                handler()
            assert caught.value.code == "folder_not_found"
        with pytest.raises(InvalidArguments, match="no cursor"):
            list_folder_contents(view, "docs", 5, "x")


GLOBS = {
    "*.md": ["docs/guide.MD", "docs/x/y/deep.md"],
    "*GUIDE*": ["docs/guide.MD", "docs/x/guide.txt"],
    "docs/*": ["docs/guide.MD"],
    "docs/**": ["docs/guide.MD", "docs/x/guide.txt", "docs/x/y/deep.md", "docs/x/[1].txt"],
    "**/y/*": ["docs/x/y/deep.md"],
    "docs/**/deep.md": ["docs/x/y/deep.md"],
    "g?ide.*": ["docs/guide.MD", "docs/x/guide.txt"],
    "[dg]*.{md,txt}": ["docs/guide.MD", "docs/x/guide.txt", "docs/x/y/deep.md"],
    "[!d]*.md": ["docs/guide.MD"],
    "[[]1].txt": ["docs/x/[1].txt"],
    "guide": [],
    "*straße*": ["more/STRASSE.log"],
    "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b": [],
    "+.": [],
}


@pytest.mark.parametrize(("pattern", "expected"), GLOBS.items(), ids=list(GLOBS))
def test_a_glob_finds_names_and_paths(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    paths = ["docs/guide.MD", "docs/x/guide.txt", "docs/x/y/deep.md", "docs/x/[1].txt", "more/STRASSE.log", f"more/{'a' * 200}"]
    with catalog(tmp_path) as partition:
        for path in paths:
            partition.put(draft(path))
        found: list[str] = []
        cursor = None
        while True:
            page = find_by_name(view_of(partition), pattern, Selection(None), 1, cursor, call())
            found += [one["path"] for one in page["documents"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert found == expected


@pytest.mark.parametrize("pattern", ["", "   ", "x" * 1001, "[z-a]"])
def test_what_is_no_glob_is_refused(tmp_path: Path, pattern: str) -> None:
    with catalog(tmp_path) as partition, pytest.raises(InvalidArguments) as caught:
        find_by_name(view_of(partition), pattern, Selection(None), 1, None, call())
    assert caught.value.data["errors"][0]["path"] == "/input/pattern"


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"sources": ["more"]}, ["more/c.pdf"]),
    ({"feeds": ["news"]}, ["docs/x/b.md"]),
    ({"folder": "docs/x"}, ["docs/x/b.md"]),
    ({"folder": "docs"}, ["docs/a.txt", "docs/x/b.md", "docs/xy/d"]),
    ({"types": ["pdf"]}, ["more/c.pdf"]),
    ({"types": ["text/*"]}, ["docs/a.txt", "docs/x/b.md", "docs/xy/d"]),
    ({"types": ["application/pdf", ".MD"]}, ["docs/x/b.md", "more/c.pdf"]),
    ({"modified_after": "2026-01-02"}, ["docs/x/b.md"]),
    ({"modified_before": "2026-01-02T00:00:00+00:00"}, ["docs/a.txt"]),
    ({"metadata": {"year": 2020}}, ["docs/a.txt"]),
    ({"metadata": {"draft": True}}, ["docs/x/b.md"]),
    ({"metadata": {"draft": 1}}, ["more/c.pdf"]),
    ({"metadata": {"title": "A", "year": 2020}}, ["docs/a.txt"]),
    ({"metadata": {"a\"'.b": "x"}}, ["more/c.pdf"]),
    ({"sources": None, "metadata": None}, ["docs/a.txt", "docs/x/b.md", "docs/xy/d", "more/c.pdf"]),
]


@pytest.mark.parametrize(("filter", "expected"), FILTERS, ids=lambda given: repr(given) if isinstance(given, dict) else "")
def test_a_filter_means_the_documents_that_fit_all_of_it(tmp_path: Path, filter: dict[str, Any], expected: list[str]) -> None:
    day = 1767225600.0  # the first of January 2026
    with catalog(tmp_path) as partition:
        partition.put(draft("docs/a.txt", modified=day, metadata={"year": 2020, "title": "A"}))
        partition.put(
            draft("docs/x/b.md", mime_type="text/markdown", modified=day + 2e5, feed="news", metadata={"draft": True})
        )
        partition.put(draft("docs/xy/d", metadata={"year": "2020"}))
        partition.put(draft("more/c.pdf", mime_type="application/pdf", metadata={"draft": 1, "a\"'.b": "x"}))
        condition, values = Selection(filter).condition()
        assert sorted(one.path for one in partition.select(condition, values)) == sorted(expected)


@pytest.mark.parametrize(
    ("filter", "path"),
    [
        ({"modified_after": "yesterday"}, "/input/filter/modified_after"),
        ({"modified_before": "9999999-01-01"}, "/input/filter/modified_before"),
        ({"folder": "/"}, "/input/filter/folder"),
        ({"metadata": {str(n): n for n in range(21)}}, "/input/filter/metadata"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_at_its_place(filter: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Selection(filter)
    assert caught.value.data["errors"][0]["path"] == path


def test_a_document_that_moved_keeps_its_id_and_its_old_place_gets_another(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        first = partition.put(draft("docs/a.txt", object_id="1"))
        assert partition.move("1", "2", ("docs", "new", "b.txt"))
        second = partition.put(draft("docs/a.txt", object_id="1"))
        moved = partition.document(first.id)
        assert moved is not None
        assert (moved.path, moved.object_id) == ("docs/new/b.txt", "2")
        assert second.id != first.id
        assert partition.signatures(["1", "2", "3"]) == {"1": None, "2": None}


def test_a_file_that_is_no_catalog_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with sqlite3.connect(path) as rows:
        rows.execute("CREATE TABLE other (x)")
    rows.close()
    before = path.read_bytes()
    with pytest.raises(ToolError, match="a database of something else") as caught:
        Partition(str(tmp_path), "key")
    assert caught.value.code == "catalog_failed"
    assert path.read_bytes() == before
    path.write_bytes(b"no database at all, but longer than a header of a hundred bytes" * 10)
    with pytest.raises(ToolError, match="is damaged") as caught:
        Partition(str(tmp_path), "key")
    assert caught.value.code == "catalog_damaged"


def test_a_catalog_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with catalog(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "catalog.sqlite") as rows:
        rows.execute("PRAGMA user_version = 99")
    rows.close()
    with pytest.raises(ToolError, match="newer"):
        Partition(str(tmp_path), "key")


def test_two_processes_write_to_one_catalog_in_turns(tmp_path: Path) -> None:
    with catalog(tmp_path) as one, catalog(tmp_path) as other:
        for n in range(20):
            (one, other)[n % 2].put(draft(f"docs/{n}", object_id=str(n)))
        assert {stored.name for stored in one.select("true", ())} == {str(n) for n in range(20)}
        assert other.delete([str(n) for n in range(20)]) == [str(n) for n in range(20)]
        assert one.objects() == []


# whose content


def paths_for(library: Any, user: str | None, space: str | None) -> list[str]:
    with library.view(call(user, space)) as view:
        return [path for _, partition in view.parts() for path in sorted(one.path for one in partition.select("true", ()))]


@pytest.mark.promise("knowledge:scope")
def test_a_call_reads_its_space_or_all_that_its_user_may_read(tmp_path: Path) -> None:
    with library_with(tmp_path, team=["anna", "ben"], other=["ben"]) as library:
        put(library, call("anna", "team"), "docs/team.txt")
        put(library, call("ben", "other"), "docs/other.txt")
        put(library, call("anna"), "docs/annas.txt")
        put(library, call("ben"), "docs/bens.txt")
        put(library, call(), "docs/nobodys.txt")
        assert paths_for(library, "anna", None) == ["docs/annas.txt", "docs/team.txt"]
        assert paths_for(library, "ben", None) == ["docs/bens.txt", "docs/other.txt", "docs/team.txt"]
        assert paths_for(library, "ben", "team") == ["docs/team.txt"]
        assert paths_for(library, None, None) == ["docs/nobodys.txt"]
        assert paths_for(library, "carl", None) == []


@pytest.mark.promise("knowledge:scope")
def test_a_space_of_others_is_answered_like_none(tmp_path: Path) -> None:
    with library_with(tmp_path, team=["anna"]) as library:
        put(library, call("anna", "team"))
        answers = []
        for user, space in (("ben", "team"), ("ben", "nothing"), (None, "team"), ("anna", "Team")):
            for enter in (library.view, library.own):
                with pytest.raises(ToolError) as caught, enter(call(user, space)):
                    pass
                answers.append((caught.value.code, caught.value.message, caught.value.hint, caught.value.data))
        assert len({repr(answer) for answer in answers}) == 1
        assert answers[0][0] == "space_not_found"


@pytest.mark.promise("knowledge:scope")
def test_a_document_of_others_is_answered_like_none(tmp_path: Path) -> None:
    with library_with(tmp_path) as library:
        stored = put(library, call("anna"), object_id="1")
        put(library, call("ben"), object_id="2")
        answers = []
        with library.view(call("ben")) as view:
            for asked in (stored.id, "0123456789ab"):
                with pytest.raises(ToolError) as caught:
                    view.find(asked)
                error = caught.value
                answers.append(repr((error.code, error.message, error.hint, error.data)).replace(asked, "ID"))
        assert answers[0] == answers[1]
        assert "document_not_found" in answers[0]


def test_a_tenant_that_was_removed_is_gone_and_may_begin_anew(tmp_path: Path) -> None:
    with library_with(tmp_path) as library, library_with(tmp_path) as server:
        put(library, call("anna"), text="first")
        assert paths_for(server, "anna", None) == ["docs/a.txt"]
        assert library.remove(("anna", None))
        assert not library.remove(("anna", None))
        assert paths_for(server, "anna", None) == paths_for(library, "anna", None) == []
        put(server, call("anna"), "docs/new.txt")
        assert paths_for(library, "anna", None) == ["docs/new.txt"]


def test_a_call_whose_catalog_is_removed_meanwhile_says_so(tmp_path: Path) -> None:
    with library_with(tmp_path) as library:
        put(library, call("anna"))
        with library.view(call("anna")) as view:
            (_, partition) = next(parts := view.parts())
            assert library.remove(("anna", None))
            with pytest.raises(ToolError, match="were removed while this call read them"):
                partition.select("true", ())
            assert list(parts) == list(view.parts()) == []
        assert paths_for(library, "anna", None) == []


def test_few_catalogs_are_open_at_once_however_many_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.knowledge.library.OPEN_PARTITIONS", 3)
    with library_with(tmp_path) as library:
        for n in range(10):
            put(library, call(f"user{n}"), f"docs/{n}")
        assert len(library._open) == 3
        assert [paths_for(library, f"user{n}", None) for n in range(10)] == [[f"docs/{n}"] for n in range(10)]


def test_a_catalog_opens_while_another_process_writes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls of a library wait while a catalog opens, so nobody's writes may hold up those of others."""
    with library_with(tmp_path) as library:
        put(library, call("anna"), text="hers\n")
        path = next(tmp_path.glob(f"*/{partition_module.FILE}"))
    monkeypatch.setattr(partition_module, "PATIENCE", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer, library_with(tmp_path) as library:
        writer.execute("BEGIN IMMEDIATE")
        with library.view(call("anna")) as view:
            assert next(view.parts())[1].count("true", ()) == (1, 1)


def test_a_user_of_many_spaces_has_few_catalogs_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.nodes.knowledge.library.OPEN_PARTITIONS", 3)
    spaces = {f"space{n}": ["anna"] for n in range(10)}
    with library_with(tmp_path, **spaces) as library:
        stored = [put(library, call("anna", space), f"docs/{space}") for space in spaces]
        with library.view(call("anna")) as view:
            seen: list[str] = []
            for space, partition in view.parts():
                seen.append(str(space))
                assert len(library._open) <= 3
                assert partition.objects() == [f"docs/{space}"]
            assert seen == [*spaces]
            found = [view.find(one.id) for one in stored[:5]]
            assert [partition.objects() for partition, _ in found] == [[f"docs/space{n}"] for n in range(5)], "they stay open"
        assert len(library._open) <= 3


def parts_of_index(partition: Partition) -> int:
    with partition.reading() as rows:
        found: tuple[int] = rows.execute("SELECT count(DISTINCT segid) FROM grams_idx").fetchone()
        return found[0]


def test_an_index_of_many_parts_is_merged_while_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MERGED", 2)
    with catalog(tmp_path) as partition, catalog(tmp_path) as other:
        for n in range(50):
            partition.put(draft(f"docs/{n}", f"needle {n} " * 200))
        assert partition.is_scattered
        assert not other.is_scattered
        assert parts_of_index(partition) > 3
        partition.merge(0.0)
        assert parts_of_index(partition) > 3, "its time was over"
        step = partition._writing

        def writing() -> Any:
            other.put(draft(f"docs/{len(other.objects())}", "needle"))
            return step()

        monkeypatch.setattr(partition, "_writing", writing)
        partition.merge(None)
        assert parts_of_index(partition) <= 3
        assert not partition.is_scattered
        page = found_in_all(partition, "needle")
        assert page["total"]["documents"] == len(other.objects()) > 51


def found_in_all(partition: Partition, pattern: str) -> dict[str, Any]:
    compiled = Pattern(pattern, is_regex=False, ignores_case=False)
    return Grep(compiled, "counts", 0, Selection(None), (), 100).run(view_of(partition), None, call())


def test_a_library_that_closes_merges_what_changed_much(tmp_path: Path) -> None:
    with library_with(tmp_path) as library:
        for n in range(30):
            put(library, call("anna"), f"docs/{n}")
        put(library, call("ben"))
    with library_with(tmp_path) as library, library.view(call("anna")) as view:
        assert parts_of_index(next(view.parts())[1]) == 1


def test_a_disk_that_is_full_is_named_and_leaves_what_was_there(tmp_path: Path) -> None:
    with catalog(tmp_path) as partition:
        partition.put(draft("docs/a.txt", "what was there\n"))
        (pages,) = partition._writer.execute("PRAGMA page_count").fetchone()
        partition._writer.execute(f"PRAGMA max_page_count = {pages + 5}")
        for path in ("docs/a.txt", "docs/b.txt"):
            with pytest.raises(ToolError, match="is full") as failure:
                partition.put(draft(path, "".join(map(chr, range(0x100, 0xD000)))))
            assert failure.value.code == "catalog_failed"
        (kept,) = partition.select("true", ())
        assert partition.text(kept) == "what was there\n"
        partition._writer.execute("PRAGMA max_page_count = 1000000")
        partition.put(draft("docs/b.txt"))
        assert partition.count("true", ()) == (2, 2)


def test_an_object_that_two_tenants_sent_is_two_documents(tmp_path: Path) -> None:
    """A client may choose the ids of its objects, so others can choose the same one in a space that they share."""
    with library_with(tmp_path, team=["anna", "ben"], other=["anna"]) as library:
        sent = {
            public: text
            for caller, text in [(call("anna"), "own"), (call("ben", "team"), "of ben"), (call("anna", "other"), "of hers")]
            for public in [put(library, caller, text=text, object_id="the same").id]
        }
        assert len(sent) == 3
        with library.view(call("anna")) as view:
            read = read_document(view, [*sent], "characters", None, None, 1000)["documents"]
        assert {document["id"]: document["text"] for document in read} == sent


@pytest.mark.parametrize("pattern", ["{a", "{{a,b}", "[z-a]"])
def test_a_glob_that_is_none_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(InvalidArguments, match=r"is no glob: [a-z]") as refused:
        Glob(pattern)
    assert "b'" not in refused.value.message
    assert "(?" not in refused.value.message


def test_values_that_no_document_has_are_refused_at_each_tool(tmp_path: Path) -> None:
    """Some in-process callers give half of a character; JSON has numbers of any size."""
    half = "\ud800"
    with library_with(tmp_path, s=["anna"]) as library:
        put(library, call("anna", "s"))
        with library.view(call("anna", "s")) as view:
            for asked in (
                lambda: view.find(half),
                lambda: list_folder_contents(view, half, 10, None),
                lambda: folder_tree(view, f"docs/{half}", 10),
                lambda: find_by_name(view, f"{half}*", Selection(None), 10, None, call()),
                lambda: find_by_name(view, "*", Selection({"sources": [half]}), 10, None, call()),
                lambda: find_by_name(view, "*", Selection({"metadata": {"size": 10**30}}), 10, None, call()),
            ):
                with pytest.raises(InvalidArguments):
                    asked()
            assert next(view.parts())[1].count("true", ()) == (1, 1)


def test_a_forged_address_of_a_passage_is_read_as_no_passage(tmp_path: Path) -> None:
    with library_with(tmp_path) as library:
        public = put(library, call(), text="ten signs\n").id
        with library.view(call()) as view:
            for written, expected in {"7,2": (7, 7), "99,3": (10, 10), "4,999": (4, 10)}.items():
                (read,) = read_document(view, [f"rrext-document:{public}#char={written}"], "lines", None, None, 100)[
                    "documents"
                ]
                assert (read["start"], read["end"]) == expected
                assert read["next"] is None or read["next"] >= read["start"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE content SET text = zeroblob(length(text) - 1) || X'ff'",
        "UPDATE document SET name = CAST(X'ff' AS TEXT)",
        "UPDATE about SET metadata = '{'",
    ],
)
def test_values_that_are_damaged_are_told_as_a_damaged_catalog(tmp_path: Path, damage: str) -> None:
    """Bits that flip within a page leave a file that SQLite reads without a complaint."""
    with library_with(tmp_path) as library:
        public = put(library, call()).id
        (path,) = tmp_path.glob(f"*/{partition_module.FILE}")
        with closing(sqlite3.connect(path)) as rows, rows:
            rows.execute(damage)
        with library.view(call()) as view:

            def read_all() -> None:
                document_info(view, public)
                read_document(view, [public], "characters", None, None, 100)

            with pytest.raises(ToolError, match="is damaged") as failure:
                read_all()
        assert failure.value.code == "catalog_damaged"


def test_what_is_known_about_a_document_is_bounded(tmp_path: Path) -> None:
    metadata = {"small": 1, "large": "x" * 1_000_000, "last": "é", **{f"key{n}": n for n in range(10_000)}}
    sheets = tuple(Sheet(f"sheet {n}", 0, 1) for n in range(10_000))
    with library_with(tmp_path) as library:
        public = put(library, call(), metadata=metadata, sheets=sheets).id
        with library.view(call()) as view:
            info = document_info(view, public)
    assert len(msgspec.json.encode(info)) < 40_000
    assert {"small": 1, "last": "é"}.items() <= info["metadata"].items()
    assert len(info["sheets"]) + info["left_out"]["sheets"] == 10_000
    assert len(info["metadata"]) + info["left_out"]["metadata"] == len(metadata)
