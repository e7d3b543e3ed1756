"""`grep_documents`: every hit is found, none is invented, and each page goes on where the one before ended."""

from __future__ import annotations

import sys
import tracemalloc
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge_world import call, catalog, draft, library_with, put, view_of

from rrext.errors import Cancelled, InvalidArguments, ToolError
from rrext.nodes.knowledge import grep
from rrext.nodes.knowledge.grep import Grep
from rrext.nodes.knowledge.library import View
from rrext.nodes.knowledge.partition import Partition
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.text_search import pattern as pattern_module
from rrext.nodes.text_search import windows
from rrext.nodes.text_search.pattern import Pattern
from rrext.nodes.text_search.trigrams import folded, match_of_regex
from rrext.tools.context import CancelToken, ToolContext

re2 = pytest.importorskip("re2", reason="the extra `knowledge` is not installed")

LETTERS = "aAbKk\u212asSſßẞiİıσςΣ\0\u0301é😀 \n\r.\"'"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=40)
LITERALS = st.text(st.sampled_from(LETTERS.replace("\n", "")), min_size=1, max_size=5)
ATOMS = st.one_of(
    st.sampled_from([".", "[ab]", "[^a]", "[]a]", "[[:alpha:]]", "\\w", "\\pL", "\\x61", "\\.", "^", "$", "\\b", "\\Qa.b\\E"]),
    LITERALS.map(lambda text: "".join(f"\\{one}" if one in ".\"'" else one for one in text)),
)
REGEXES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,2}", "{2}", "*?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda one: f"(?i:{one})"),
        inner.map(lambda one: f"(?P<name>{one})"),
    ),
    max_leaves=6,
)


def found_in(view: View, pattern: str, **given: Any) -> dict[str, Any]:
    compiled = Pattern(pattern, is_regex=given.pop("regex", False), ignores_case=given.pop("ignore_case", False))
    cursor, ctx = given.pop("cursor", None), given.pop("ctx", None) or call()
    full: dict[str, Any] = {"output": "lines", "context": 0, "selection": Selection(None), "documents": (), "limit": 100}
    return Grep(compiled, **(full | given)).run(view, cursor, ctx)


def pages(view: View, pattern: str, **given: Any) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = found_in(view, pattern, cursor=cursor, **given)
        yield page
        cursor = page["cursor"]
        if cursor is None:
            return


def all_hits(view: View, pattern: str, **given: Any) -> list[tuple[str, int, int, int]]:
    """Path, line, start and end of all hits."""
    return [
        (hit["path"], hit["line"], hit["start"], hit["end"]) for page in pages(view, pattern, **given) for hit in page["hits"]
    ]


def expected(texts: dict[str, str], pattern: str, *, regex: bool, ignore_case: bool) -> list[tuple[str, int, int, int]]:
    """The same by searching each line of each text, a character at a time."""
    options = re2.Options()
    options.log_errors = False
    options.literal = not regex
    options.case_sensitive = not ignore_case
    options.never_nl = True
    compiled = re2.compile(pattern, options)
    found = []
    for path, text in texts.items():
        start = 0
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if number == len(lines) and not line:
                break
            at = 0
            while at <= len(line) and (hit := compiled.search(line, at)) is not None:
                found.append((path, number, start + hit.start(), start + hit.end()))
                at = hit.end() + (hit.start() == hit.end())
            start += len(line) + 1
    return found


@contextmanager
def filled(folder: Path, texts: dict[str, str]) -> Iterator[View]:
    with catalog(folder) as partition:
        for path, text in texts.items():
            partition.put(draft(path, text))
        yield view_of(partition)


@pytest.fixture(scope="module")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partition]:
    with catalog(tmp_path_factory.mktemp("catalog")) as partition:
        yield partition


def refilled(partition: Partition, texts: list[str]) -> dict[str, str]:
    partition.delete(partition.objects())
    named = {f"s/{n}": text for n, text in enumerate(texts)}
    for path, text in named.items():
        partition.put(draft(path, text))
    return named


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), pattern=LITERALS, ignore_case=st.booleans(), limit=st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_a_literal_is_found_wherever_it_is(
    emptied: Partition, texts: list[str], pattern: str, ignore_case: bool, limit: int
) -> None:
    named = refilled(emptied, texts)
    hits = all_hits(view_of(emptied), pattern, ignore_case=ignore_case, limit=limit)
    assert hits == expected(named, pattern, regex=False, ignore_case=ignore_case)


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), pattern=REGEXES, ignore_case=st.booleans())
@settings(max_examples=120, deadline=None)
def test_a_regex_is_found_wherever_it_fits(emptied: Partition, texts: list[str], pattern: str, ignore_case: bool) -> None:
    named = refilled(emptied, texts)
    assert all_hits(view_of(emptied), pattern, regex=True, ignore_case=ignore_case) == expected(
        named, pattern, regex=True, ignore_case=ignore_case
    )
    counted = found_in(view_of(emptied), pattern, regex=True, ignore_case=ignore_case, output="counts")
    assert counted["total"]["hits"] == len(expected(named, pattern, regex=True, ignore_case=ignore_case))


@given(text=TEXTS, pattern=st.one_of(LITERALS.map(re2.escape), REGEXES), limit=st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_a_text_of_many_windows_has_the_same_hits(emptied: Partition, text: str, pattern: str, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rrext.nodes.text_search.text_map.MARK", 7)
        patch.setattr(pattern_module, "WINDOW", (8, 8))
        patch.setattr(windows, "LINE", 3)
        named = refilled(emptied, [text * 2])
        hits = all_hits(view_of(emptied), pattern, regex=True, limit=limit)
    assert hits == expected(named, pattern, regex=True, ignore_case=False)


def test_no_two_characters_are_one_without_case_that_the_index_keeps_apart() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    cased = [one for one in every if unicodedata.category(one) in ("Lu", "Ll", "Lt", "Mn", "Nl", "So", "Cn", "Lo")]
    cased = [one for one in cased if len({one, one.lower(), one.upper(), one.swapcase(), one.casefold()}) > 1] + ["ı"]
    text = "".join(every).encode()
    pattern = re2.compile("(?i)[" + "".join(map(re2.escape, cased)) + "]")
    alike = {found.group().decode() for found in re2.compile(pattern.pattern.encode()).finditer(text)}
    assert alike <= {*cased}, "RE2 knows pairs that Python does not"
    for one in cased:
        for other in {*one.lower(), *one.upper(), *one.swapcase()} & {*cased}:
            if re2.fullmatch(f"(?i){re2.escape(one)}", other):
                assert folded(one) == folded(other), (one, other)


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("abc", '"abc"'),
        ("abcd?e", '"abc"'),
        ("abc+d", '"abc"'),
        ("ab", None),
        ("abc|xyz", '(("abc") OR ("xyz"))'),
        ("abc|x", None),
        ("(abc)*", None),
        ("(abc){2}", '"abc"'),
        ("x(?:abc|def)?y", None),
        ("(?i)ABC", '"abc"'),
        ("[]abc]def", '"def"'),
        ("\\Qa.c\\E", '"a.c"'),
        ("a\\.c", '"a.c"'),
        ("\\pLabc", '"abc"'),
        ("\\101bc", None),
    ],
)
def test_the_texts_that_a_regex_needs_are_read_from_it(pattern: str, match: str | None) -> None:
    assert match_of_regex(pattern) == match


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("a(", "missing )"),
        ("[a", "missing ]"),
        ("(?=a)", "invalid perl operator"),
        ("\\Aabc", "not supported"),
        ("\\Cabc", "not supported"),
        ("(?-m)^a", "leave out the flag"),
        ("", "expected 1 to"),
        ("x" * 1_000_000, "expected 1 to"),
        ("a\nb", "end of a line"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str, says: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Pattern(pattern, is_regex=True, ignores_case=False)
    assert "/input/pattern" in str(caught.value.data) + str(caught.value)
    assert says in str(caught.value) + str(caught.value.data)


@pytest.mark.parametrize("pattern", ["\\pL{100}", "\\pL{900}", "(a{900}b){1}(a{900}b)(x|y{900})(z{900})(w{900})(v{900}){1}"])
def test_a_pattern_that_explodes_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError) as caught:
        Pattern(pattern, is_regex=True, ignores_case=False)
    assert caught.value.code == "pattern_too_expensive"


def test_a_hit_comes_with_its_line_and_those_around(tmp_path: Path) -> None:
    text = "one\r\ntwo\nthe grüne fox\nfour\nfive\n"
    with filled(tmp_path, {"s/a": text}) as view:
        (hit,) = found_in(view, "fox", context=2)["hits"]
        assert text[hit["start"] : hit["end"]] == "fox"
        assert (hit["line"], hit["text"]) == (3, "the grüne fox")
        assert (hit["before"], hit["after"]) == (["one", "two"], ["four", "five"])


@pytest.mark.parametrize("word", ["fox", "ƒox"])
def test_of_a_huge_line_the_part_around_the_hit_is_shown(tmp_path: Path, word: str) -> None:
    text = "ä" * 300_000 + word + "b" * 300_000
    with filled(tmp_path, {"s/a": text}) as view:
        (hit,) = found_in(view, word, context=3)["hits"]
        assert text[hit["start"] : hit["end"]] == word
        assert len(hit["text"]) == windows.LINE + 2
        assert f"ä{word}b" in hit["text"]
        assert hit["text"][0] == hit["text"][-1] == "…"
        assert (hit["before"], hit["after"]) == ([], [])


def test_counts_and_files_list_documents(tmp_path: Path) -> None:
    with filled(tmp_path, {f"s/{n}": "needle\n" * n for n in range(5)}) as view:
        page = found_in(view, "needle", output="counts", limit=2)
        assert [one["hits"] for one in page["documents"]] == [1, 2]
        assert page["total"] == {"hits": 10, "documents": 4}
        assert page["left_out"] == 0
        listed = [one["path"] for page in pages(view, "needle", output="counts", limit=2) for one in page["documents"]]
        assert listed == ["s/1", "s/2", "s/3", "s/4"]
        first = found_in(view, "needle", output="files", limit=3)
        assert [one["path"] for one in first["documents"]] == ["s/1", "s/2", "s/3"]
        assert (first["scanned"], first["left_out"]) == (3, 1)


def test_a_filter_and_ids_narrow_the_search(tmp_path: Path) -> None:
    texts = {"s/x/a.txt": "needle", "s/y/b.md": "needle", "t/c.md": "needle xy"}
    with filled(tmp_path, texts) as view:
        for pattern, regex in (("needle", False), ("n.e", True)):
            narrow = all_hits(view, pattern, regex=regex, selection=Selection({"types": ["md"], "sources": ["s"]}))
            assert [hit[0] for hit in narrow] == ["s/y/b.md"]
            one = found_in(view, pattern, regex=regex, output="files", limit=1)["documents"][0]["document"]
            assert [hit[0] for hit in all_hits(view, pattern, regex=regex, documents=[one])] == ["s/x/a.txt"]


def test_a_search_that_takes_long_goes_on_from_its_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "SECONDS", 0.0)
    monkeypatch.setattr(pattern_module, "WINDOW", (8, 8))
    texts = {f"s/{n}": f"{n}: xy\nxy and more\nxy\n" for n in range(4)}
    with filled(tmp_path, texts) as view:
        seen = list(pages(view, "xy"))
        assert [hit["path"] for page in seen for hit in page["hits"]] == [f"s/{n}" for n in range(4) for _ in range(3)]
        assert len(seen) > 4
        assert seen[0]["left_out"] == 3
        counted = list(pages(view, "xy", output="counts"))
        assert sum(one["hits"] for page in counted for one in page["documents"]) == 12


def test_a_document_that_changes_between_pages_is_searched_anew(tmp_path: Path) -> None:
    with filled(tmp_path, {"s/a": "needle\n" * 3, "s/b": "needle\n"}) as view:
        ((_, partition),) = view.parts()
        cursor = found_in(view, "needle", limit=2)["cursor"]
        partition.put(draft("s/a", "é needle"))
        assert [hit["path"] for hit in found_in(view, "needle", cursor=cursor)["hits"]] == ["s/a", "s/b"]
        partition.delete(["s/a"])
        assert [hit["path"] for hit in found_in(view, "needle", cursor=cursor)["hits"]] == ["s/b"]


def test_a_forged_cursor_reveals_nothing(tmp_path: Path) -> None:
    with library_with(tmp_path, legal=["ada"]) as library:
        put(library, call("ada", "legal"), "s/secret.txt", "needle of legal")
        put(library, call("ben"), "s/own.txt", "é" * 9 + "needle of ben\n")
        with library.view(call("ada", "legal")) as view:
            theirs = next(view.parts())[1].key
        with library.view(call("ben")) as view:
            own = next(view.parts())[1].key
            digest = next(view.parts())[1].select("true", ())[0].digest[:16]
            for place in (
                (theirs, 1, 0, ""),
                (theirs, 1, 3, "x"),
                (own, 1, 3, digest),
                (own, 1, 2**60, digest),
                (own, 2**62, 0, ""),
            ):
                hits = found_in(view, "needle", cursor=grep.cursor_at(place))["hits"]
                assert [hit["path"] for hit in hits] in (["s/own.txt"], [])
            for cursor in ("x", "é", grep.cursor_at([1]), grep.cursor_at((own, -1, 0, ""))):
                with pytest.raises(InvalidArguments):
                    found_in(view, "needle", cursor=cursor)


def test_without_a_space_all_that_the_user_may_read_is_searched_in_pages(tmp_path: Path) -> None:
    with library_with(tmp_path, legal=["ada"], hr=["ada"], other=["ben"]) as library:
        for caller in (call("ada"), call("ada", "legal"), call("ada", "hr"), call("ben", "other")):
            for n in range(3):
                put(library, caller, f"{caller.space_id or 'own'}/{n}", "needle\nneedle\n")
        with library.view(call("ada")) as view:
            hits = all_hits(view, "needle", limit=4)
            assert sorted({hit[0] for hit in hits}) == [f"{name}/{n}" for name in ("hr", "legal", "own") for n in range(3)]
            assert len(hits) == len({*hits}) == 18
            first = found_in(view, "needle", limit=4)
            assert (first["scanned"], first["left_out"]) == (2, 7)
            assert found_in(view, "needle", output="counts", limit=1)["total"] == {"hits": 18, "documents": 9}


def test_a_search_ends_when_its_call_is_cancelled(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    with filled(tmp_path, {"s/a": "needle"}) as view, pytest.raises(Cancelled):
        found_in(view, "needle", ctx=ToolContext(token=token))


def test_a_large_text_takes_as_much_memory_as_a_window(tmp_path: Path) -> None:
    text = "ä line of words\n" * 1_000_000 + "needle in hay\n"
    with filled(tmp_path, {"s/a": text}) as view:
        found_in(view, "needle")
        tracemalloc.start()
        try:
            (hit,) = found_in(view, "needle", context=2)["hits"]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (hit["line"], text[hit["start"] : hit["end"]]) == (1_000_001, "needle")
        assert hit["before"] == ["ä line of words"] * 2
        assert peak < 4 * pattern_module.WINDOW[1] < len(text) // 3
