"""Links: followed where they are given, not out of a folder, and never in circles."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from commands import EXAMPLES, call

from rrext.sync.upload_files import find_files

ECHO = str(EXAMPLES / "echo.pipe")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside a secret."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret")
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("a")
    (tmp_path / "docs" / "sub" / "b.txt").write_text("b")
    return tmp_path / "docs"


@pytest.mark.promise("send:links:stay-inside")
def test_a_link_out_of_the_folder_is_not_followed_and_said(folder: Path) -> None:
    (folder / "key.txt").symlink_to("../secret/key.txt")
    (folder / "sub" / "whole").symlink_to(folder.parent / "secret", target_is_directory=True)
    (folder / "beside.txt").symlink_to(folder.parent / "docs-not.txt")
    (folder.parent / "docs-not.txt").write_text("secret")
    done = call("send", ECHO, "docs", cwd=folder.parent)
    skipped = {line["path"]: line["skipped"] for line in done.lines if "skipped" in line}
    assert skipped == dict.fromkeys(
        ["docs/key.txt", "docs/sub/whole", "docs/beside.txt"], "is a link that leads out of the folder"
    )
    assert {line["path"] for line in done.lines if "result" in line} == {"docs/a.txt", "docs/sub/b.txt"}
    assert b"secret" not in done.out
    assert done.code == 0
    assert done.err.count("skipped: is a link that leads out of the folder") == 3
    assert done.err.endswith("2 done, 0 failed, 3 skipped\n")


def test_a_link_that_is_given_itself_is_followed(folder: Path) -> None:
    (folder.parent / "way").symlink_to("secret", target_is_directory=True)
    (folder.parent / "one.txt").symlink_to("docs/a.txt")
    done = call("send", ECHO, "way", "one.txt", cwd=folder.parent)
    assert {line["path"]: line["result"]["reply"] for line in done.lines} == {
        "way/key.txt": ["secret\n\n"],
        "one.txt": ["a\n\n"],
    }


def test_links_inside_of_the_folder_lead_to_what_is_sent_anyway(folder: Path) -> None:
    (folder / "again.txt").symlink_to("sub/b.txt")
    (folder / "sub" / "up").symlink_to("..", target_is_directory=True)
    (folder / "absolute").symlink_to(folder / "sub", target_is_directory=True)
    assert [source.path for source in find_files([str(folder)])] == [str(folder / "a.txt"), str(folder / "sub" / "b.txt")]


def test_links_in_a_circle_end(folder: Path) -> None:
    (folder / "x").symlink_to("y")
    (folder / "y").symlink_to("x")
    (folder.parent / "self").symlink_to("self")
    done = call("send", ECHO, "docs", "self", cwd=folder.parent)
    assert (done.code, {line["path"] for line in done.lines if "error" in line}) == (1, {"self"})
    reason = f"is a link that leads nowhere: {os.strerror(errno.ELOOP)}"
    assert {line["path"]: line["skipped"] for line in done.lines if "skipped" in line} == {"docs/x": reason, "docs/y": reason}


@pytest.mark.promise("send:links:stay-inside")
@pytest.mark.parametrize("swapped", ["a.txt", "sub"])
def test_a_link_that_is_put_in_the_place_of_a_file_meanwhile_is_not_followed(folder: Path, swapped: str) -> None:
    sources = find_files([str(folder)])
    os.rename(folder / swapped, folder.parent / "was")
    (folder.parent / "secret" / "b.txt").write_text("secret")
    target = folder.parent / "secret" / "key.txt" if swapped == "a.txt" else folder.parent / "secret"
    (folder / swapped).symlink_to(target)
    for source in sources:
        if swapped in source.path:
            with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
                source.open()


def test_a_pipe_that_is_put_in_the_place_of_a_file_is_not_waited_for(folder: Path) -> None:
    (source,) = [source for source in find_files([str(folder)]) if source.name.endswith("a.txt")]
    (folder / "a.txt").unlink()
    os.mkfifo(folder / "a.txt")
    with pytest.raises(OSError, match="no regular file"):
        source.open()


def test_a_very_deep_folder_is_read_to_its_end(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    os.mkdir(deep)
    path = str(deep)
    try:
        while len(path) < 3800:
            path += "/d"
            os.mkdir(path)
        Path(path, "end.txt").write_text("x")
        (source,) = find_files([str(deep)])
        assert os.read(source.open(), 10) == b"x"
    finally:  # pytest, which removes folders by recursion, would fail at it in a later run
        subprocess.run(["rm", "-rf", deep], check=True)
