"""`tool_filesystem`: what its tools answer, what they refuse, and which of them are there."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.nodes.base.setup import path_below
from rrext.nodes.files import offered_files
from rrext.nodes.files.filesystem import BASE64, ENCODINGS, FilesystemNode, decode, encode, known_encoding
from rrext.nodes.files.offered_files import READ_MAX
from rrext.tools.context import ToolContext

from fake_pipe import context, made  # isort: skip

SWITCHES = {
    "write_file": "allow_write",
    "delete_file": "allow_delete",
    "create_directory": "allow_create_directory",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "notes").mkdir(parents=True)
    (tmp_path / "root" / "notes" / "a.txt").write_text("grüße\n", encoding="utf-8")
    (tmp_path / "root" / "blob").write_bytes(bytes(range(256)))
    (tmp_path / "secret").write_text("SECRET")
    return tmp_path / "root"


def node_at(root: Path, **settings: Any) -> FilesystemNode:
    node = made(FilesystemNode, root=root.name, **settings)
    node.directory = str(root.parent)
    return node


def writable(root: Path) -> FilesystemNode:
    return node_at(root, **dict.fromkeys(SWITCHES.values(), True))


def code_of(work: Any) -> str:
    with pytest.raises(RrextError) as caught:
        work()
    return caught.value.code


# --- reading ---


def test_a_file_is_read_whole_with_its_size_in_bytes(root: Path) -> None:
    assert node_at(root).read_file("notes/a.txt") == {"path": "notes/a.txt", "content": "grüße\n", "size": 8}


def test_a_file_of_more_than_max_bytes_is_refused_and_never_cut(root: Path) -> None:
    node = node_at(root)
    assert node.read_file("notes/a.txt", maxBytes=8)["size"] == 8
    with pytest.raises(ToolError, match=r"has 8 bytes, more than maxBytes \(7\)") as caught:
        node.read_file("notes/a.txt", maxBytes=7)
    assert caught.value.code == "file_too_large"
    assert caught.value.data == {"size": 8, "maxBytes": 7}
    assert str(READ_MAX) in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "step"),
    [("grüße ende", 2), ("grüße ende", 3), ("grüße 日本 \U0001f600 ende", 5), ("grüße 日本 \U0001f600 ende", 100)],
)
def test_parts_join_to_the_whole_without_a_broken_character(root: Path, text: str, step: int) -> None:
    (root / "t").write_text(text, encoding="utf-8")
    node, offset, found = node_at(root), 0, ""
    while offset is not None:
        part = node.read_file("t", maxBytes=step, offset=offset)
        assert part["size"] == len(text.encode())
        assert part["offset"] == offset
        found += part["content"]
        offset = part["nextOffset"]
    assert found == text


def test_a_part_smaller_than_a_character_is_refused(root: Path) -> None:
    (root / "t").write_text("日本", encoding="utf-8")
    assert code_of(lambda: node_at(root).read_file("t", maxBytes=2, offset=0)) == "invalid_arguments"


def test_behind_the_end_there_is_nothing_more(root: Path) -> None:
    part = node_at(root).read_file("blob", encoding=BASE64, offset=1000)
    assert (part["content"], part["nextOffset"]) == ("", None)


def test_any_file_can_be_read_as_base64(root: Path) -> None:
    content = node_at(root).read_file("blob", encoding="base64")["content"]
    assert base64.b64decode(content) == bytes(range(256))


def test_bytes_that_are_no_text_are_refused_and_the_way_out_is_named(root: Path) -> None:
    with pytest.raises(ToolError, match='"blob" is not utf-8 text: byte 128 does not fit') as caught:
        node_at(root).read_file("blob")
    assert caught.value.code == "wrong_encoding"
    assert "base64" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["UTF8", "utf_8", "Latin1", "UTF-16-LE"])
def test_encodings_are_known_by_their_usual_spellings(name: str) -> None:
    assert known_encoding(name) in ENCODINGS


@pytest.mark.parametrize("name", ["utf-7", "zip", "idna", "unicode_escape", "../x", "", "x\0"])
def test_other_encodings_are_bad_input_and_the_known_ones_are_listed(root: Path, name: str) -> None:
    with pytest.raises(InvalidArguments, match="utf-8, ascii") as caught:
        node_at(root).read_file("notes/a.txt", encoding=name)
    assert caught.value.data["errors"][0]["path"] == "/input/encoding"


@given(data=st.binary(max_size=40), encoding=st.sampled_from(ENCODINGS), cut=st.integers(0, 40))
def test_text_that_was_read_in_parts_is_the_text_that_was_read_at_once(data: bytes, encoding: str, cut: int) -> None:
    try:
        whole, used = decode(data, encoding, path="f")
    except ToolError:
        return
    assert used == len(data)
    if encoding == BASE64:
        assert encode(whole, encoding) == data
        return
    head, at = decode(data[:cut], encoding, path="f", is_end=cut >= len(data))
    assert head + decode(data[at:], encoding, path="f", offset=at)[0] == whole


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "path_outside_root"),
        ("../secret", "path_outside_root"),
        ("missing", "path_not_found"),
        ("notes", "not_a_file"),
    ],
)
def test_what_cannot_be_read_has_a_code(root: Path, path: str, code: str) -> None:
    assert code_of(lambda: node_at(root).read_file(path)) == code


# --- listing and looking ---


def test_a_directory_is_listed_by_name_with_types_and_sizes(root: Path) -> None:
    (root / "link").symlink_to("blob")
    listing = node_at(root).list_directory(ctx=context())
    assert [(e["name"], e["type"], e.get("size")) for e in listing["entries"]] == [
        ("blob", "file", 256),
        ("link", "symlink", None),
        ("notes", "dir", None),
    ]
    assert (listing["path"], listing["count"], listing["truncated"]) == (".", 3, False)
    assert listing["entries"][0]["modified"] == pytest.approx((root / "blob").stat().st_mtime)


def test_a_long_listing_says_that_there_is_more_and_goes_on(root: Path) -> None:
    for n in range(7):
        (root / "notes" / f"{n}").touch()
    node, names, after = node_at(root), [], ""
    for _ in range(3):
        page = node.list_directory("notes", maxEntries=3, after=after, ctx=context())
        names += [entry["name"] for entry in page["entries"]]
        after = names[-1]
    assert names == [*"0123456", "a.txt"]
    assert page["truncated"] is False


def test_a_name_that_is_not_utf8_is_shown_and_said_to_be_out_of_reach(root: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))).touch()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    entry = next(e for e in node_at(root).list_directory(ctx=context())["entries"] if e["name"].startswith("caf"))
    assert (entry["name"], entry["addressable"]) == ("caf\\xe9", False)


def test_a_listing_of_a_huge_directory_stops_when_nobody_waits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.files.confinement.SCAN_STEP", 1)
    ctx = ToolContext()
    ctx.token.cancel("cancelled")
    assert code_of(lambda: node_at(root).list_directory(ctx=ctx)) == "cancelled"


def test_looking_says_what_is_there_and_what_is_not(root: Path) -> None:
    node = node_at(root)
    found = node.stat_file("notes/a.txt")
    assert (found["exists"], found["type"], found["size"]) == (True, "file", 8)
    assert node.stat_file("notes")["type"] == "dir"
    assert node.stat_file("notes/missing") == {"path": "notes/missing", "exists": False}


# --- changing ---


def test_a_file_is_written_read_back_and_removed(root: Path) -> None:
    node = writable(root)
    assert node.write_file("notes/b.txt", "é") == {"path": "notes/b.txt", "bytesWritten": 2}
    assert node.read_file("notes/b.txt")["content"] == "é"
    assert node.delete_file("notes/b.txt") == {"path": "notes/b.txt", "deleted": True}
    assert node.stat_file("notes/b.txt")["exists"] is False


def test_bytes_are_written_as_base64(root: Path) -> None:
    writable(root).write_file("copy", base64.b64encode(bytes(range(256))).decode(), encoding="base64")
    assert (root / "copy").read_bytes() == bytes(range(256))


@pytest.mark.parametrize(
    ("content", "encoding"), [("é", "ascii"), ("not base64!", "base64"), ("é", "base64"), ("YQ", "base64")]
)
def test_content_that_does_not_fit_its_encoding_is_refused_and_nothing_is_written(
    root: Path, content: str, encoding: str
) -> None:
    assert code_of(lambda: writable(root).write_file("new", content, encoding)) == "wrong_encoding"
    assert not (root / "new").exists()


def test_a_directory_is_made_once(root: Path) -> None:
    node = writable(root)
    assert node.create_directory("x/y") == {"path": "x/y", "created": True}
    assert node.create_directory("x/y") == {"path": "x/y", "created": False}


def test_a_file_in_a_missing_directory_is_not_written(root: Path) -> None:
    assert code_of(lambda: writable(root).write_file("no/such/f", "x")) == "path_not_found"


# --- switches ---


@pytest.mark.parametrize(("tool", "switch"), SWITCHES.items())
def test_each_kind_of_change_has_a_switch_that_hides_it_and_is_named(root: Path, tool: str, switch: str) -> None:
    spec = FilesystemNode.tools[tool]
    off, on = node_at(root), node_at(root, **{switch: True})
    assert spec.options.available is not None
    assert not spec.options.available(off, None)
    assert spec.options.available(on, None)
    arguments = {"path": "new", "content": "x"} if tool == "write_file" else {"path": "new"}
    with pytest.raises(Unavailable, match=switch):
        getattr(off, tool)(**arguments)
    assert not (root / "new").exists()


def test_a_switch_opens_one_kind_of_change_and_no_other(root: Path) -> None:
    node = node_at(root, allow_write=True)
    node.write_file("new", "x")
    assert code_of(lambda: node.delete_file("new")) == "unavailable"
    assert code_of(lambda: node.create_directory("dir")) == "unavailable"


def test_nothing_can_be_changed_unless_it_is_said() -> None:
    node = made(FilesystemNode)
    assert not any(getattr(node.config, switch) for switch in SWITCHES.values())


# --- the root ---


def test_a_root_that_is_missing_is_said_without_a_path_of_the_machine(root: Path) -> None:
    node = node_at(root)
    node.config.root = "gone"
    with pytest.raises(Unavailable, match='The root "gone" of node "node_1" cannot be used: No such file') as caught:
        node.read_file("x")
    assert str(root) not in caught.value.message


def test_an_absolute_root_may_be_anywhere_unless_the_settings_are_confined(root: Path) -> None:
    node = node_at(root)
    node.config.root = str(root / "notes")
    assert node.read_file("a.txt")["size"] == 8
    node.directory, node.confined = str(root), True
    assert node.read_file("a.txt")["size"] == 8
    node.config.root = str(root.parent)
    assert code_of(lambda: node.read_file("secret")) == "unavailable"


@pytest.mark.parametrize("escape", ["..", "../other", "up", "/"])
def test_confined_settings_cannot_name_a_root_outside(root: Path, escape: str) -> None:
    (root / "up").symlink_to("..")
    node = node_at(root)
    node.directory, node.confined, node.config.root = str(root), True, escape
    assert code_of(lambda: node.list_directory(ctx=context())) == "unavailable"


ROOTS = {
    "notes": True,
    "./notes/../notes": True,
    "inside": True,
    "inside/deeper": True,
    "notes/up": True,
    "outside": False,
    "outside/../notes": True,
    "..": False,
    "../{here}/notes": True,
    "notes/../..": False,
    "again": False,
}
"""Roots of a confined node, as its pipeline names them → whether they are below its directory, whose name is `here`."""


@pytest.mark.parametrize("is_absolute", [False, True])
@pytest.mark.parametrize("name", ROOTS)
def test_a_call_takes_the_roots_that_are_taken_when_the_pipeline_is_loaded(root: Path, name: str, is_absolute: bool) -> None:
    (root / "notes" / "deeper").mkdir()
    links = {"inside": "notes", "notes/up": "..", "outside": "..", "again": "outside"}
    for link, target in links.items():
        (root / link).symlink_to(target)
    place = name.format(here=root.name)
    node = made(FilesystemNode, root=str(root / place) if is_absolute else place)
    node.directory, node.confined = str(root), True
    try:
        path_below(node.directory, node.config.root, confined=True, node_id="")
    except Unavailable:
        assert not ROOTS[name]
        assert code_of(lambda: node.list_directory(ctx=context())) == "unavailable"
    else:
        assert ROOTS[name]
        assert "entries" in node.list_directory(ctx=context())


def test_a_link_that_is_turned_after_it_was_looked_at_leads_nowhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "inside").symlink_to("notes")
    node = made(FilesystemNode, root="inside")
    node.directory, node.confined = str(root), True

    def turn(*given: Any, **more: Any) -> str:
        path = path_below(*given, **more)
        (root / "inside").unlink()
        (root / "inside").symlink_to("..")
        return path

    monkeypatch.setattr(offered_files, "path_below", turn)
    assert code_of(lambda: node.list_directory(ctx=context())) == "unavailable"
