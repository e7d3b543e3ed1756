"""Exported names fit every provider and stand for one reference each."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.tools.names import ExportedNames, export_name, import_name

pytestmark = pytest.mark.promise("names:unique-and-exportable")

FITS = re.compile(r"[a-zA-Z0-9_-]{1,64}")

segments = st.one_of(
    st.text(st.sampled_from("ab_-1."), max_size=8),
    st.text(st.sampled_from("abc"), min_size=60, max_size=70),
    st.text(max_size=5),
    st.from_regex(r"h[0-9a-f]{16}", fullmatch=True),
)
references = st.lists(segments, min_size=1, max_size=5).map(tuple)


@given(references)
@example(("a_", "b"))
@example(("a", "_b"))
@example(("a__b",))
@example(("",))
@example(("", ""))
@example(("a", "h0123456789abcdef"))
@example(("\ud800",))
def test_a_name_fits_and_maps_back(reference: tuple[str, ...]) -> None:
    name = export_name(reference)
    assert FITS.fullmatch(name)
    names = ExportedNames([reference])
    assert import_name(name, names) == reference
    assert names[name] == reference


@given(st.lists(references, min_size=2, max_size=30, unique=True))
def test_no_two_references_share_a_name(many: list[tuple[str, ...]]) -> None:
    names = ExportedNames(many)
    assert len(names) == len(many)
    assert set(names.values()) == set(many)


@given(st.lists(st.from_regex(r"[a-zA-Z0-9-]{1,8}(_[a-zA-Z0-9]{1,4})?", fullmatch=True), min_size=1, max_size=4).map(tuple))
def test_ordinary_references_need_no_table(reference: tuple[str, ...]) -> None:
    name = export_name(reference)
    assert name == "__".join(reference)
    assert import_name(name) == reference


def test_names_can_be_read_by_people() -> None:
    assert export_name(("filesystem_1", "read_file")) == "filesystem_1__read_file"
    long = export_name(("filesystem_1", "read_" + "x" * 80))
    assert long.startswith("filesystem_1_read_xxx")
    assert len(long) == 64
    assert export_name(("my node", "read.file")).startswith("my_node_read_file__h")


@pytest.mark.parametrize("name", ["", "a__", "__a", "a____b", "a b", "a.b", "x__h0123456789abcdef", "x" * 65])
def test_a_name_that_stands_for_nothing_is_refused(name: str) -> None:
    with pytest.raises(KeyError):
        import_name(name)


def test_a_reference_has_segments() -> None:
    with pytest.raises(ValueError, match="segment"):
        export_name(())


def test_adding_a_reference_again_changes_nothing() -> None:
    names = ExportedNames()
    assert names.add(("a", "b")) == names.add(["a", "b"]) == "a__b"
    assert list(names) == ["a__b"]
