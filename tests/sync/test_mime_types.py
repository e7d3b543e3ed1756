"""What kind of data a file holds, by its name: the same on every machine."""

from __future__ import annotations

import mimetypes

import pytest

from rrext.files.naming import mime_type_of
from rrext.sync.upload_files import goes_whole


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("notes/today.md", "text/markdown"),
        ("TODAY.MD", "text/markdown"),
        ("a.txt", "text/plain"),
        ("a.csv", "text/csv"),
        ("a.yaml", "text/yaml"),
        ("a.toml", "text/plain"),
        ("a.log", "text/plain"),
        ("a.py", "text/x-python"),
        ("a.ts", "text/plain"),
        ("a.js", "text/javascript"),
        ("a.html", "text/html"),
        ("a.json", "application/json"),
        ("a.jsonl", "application/x-ndjson"),
        ("a.png", "image/png"),
        ("a.webp", "image/webp"),
        ("a.flac", "audio/flac"),
        ("a.mp4", "video/mp4"),
        ("a.pdf", "application/pdf"),
        ("a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.txt.gz", "application/gzip"),
        ("a.tar.bz2", "application/octet-stream"),
        ("README", "application/octet-stream"),
        (".txt", "application/octet-stream"),
        ("folder.md/a", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
        ("a.nobody-knows", "application/octet-stream"),
    ],
)
def test_the_extension_says_what_a_file_holds(name: str, kind: str) -> None:
    assert mime_type_of(name) == kind


def test_what_this_machine_adds_changes_nothing() -> None:
    mimetypes.add_type("image/x-of-this-machine", ".rrext-test")
    assert mime_type_of("a.rrext-test") == "application/octet-stream"


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/rocketride-question", True),
        ("lane/documents", True),
        ("lane/text", False),
        ("text/plain", False),
        ("application/x-ndjson", False),
        ("application/octet-stream", False),
    ],
)
def test_what_may_be_one_json_value_is_known(kind: str, whole: bool) -> None:
    assert goes_whole(kind) is whole
