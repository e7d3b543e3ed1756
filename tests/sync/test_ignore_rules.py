"""The rules of `--exclude` and `.rrextignore`: what git says of the same folder."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rrext import UsageError
from rrext.sync.upload_files import find_files

NAMES = (
    "a", "b", "A", "foo", "deep", "build", "bar.txt", "foo.txt", "x.md", "foo.log", "a b.txt", " sp", "tr ", "[x]", "#h",
    "!n", "a*b", "back\\slash",
)  # fmt: skip
PATTERNS = (
    "*", "*.txt", "*.md", "foo*", "a", "b", "A", "?", "[ab]", "[!a]*", "[^a]*", "[a-z]*", "[[:upper:]]", "[]x]", "**", "**/foo",
    "foo/**", "foo/*", "a/*", "a/**/b", "/foo", "/*", "/*/", "*/", "**/", "/**", "/", "/*/*", "*/foo", "deep/", "deep/*",
    "deep/**/", "**foo", "fo**", "\\#h", "#h", "\\!n", "a b.txt", "tr\\ ", "tr ", " sp", "[x]", "\\[x]", "back\\\\slash",
    "a\\*b", "build/**", "build/a", "foo.*", "x.m[a-d]", "foo//b", "./foo", "",
)  # fmt: skip


@pytest.fixture
def folder(memory_path: Path) -> Path:
    path = memory_path / "docs"
    path.mkdir()
    return path


def sent(folder: Path, *exclude: str) -> set[str]:
    found = find_files([str(folder)], exclude=exclude)
    assert [source.problem for source in found if source.problem] == []
    return {os.path.relpath(source.real, folder) for source in found}


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")


def test_a_rule_for_what_is_in_a_folder_is_none_for_the_folder(folder: Path) -> None:
    write(folder, "build/keep.txt", "build/other.txt", "build/deep/keep.txt", "x.txt")
    (folder / ".rrextignore").write_text("build/**\n!build/keep.txt\n")
    assert sent(folder) == {"build/keep.txt", "x.txt"}
    assert sent(folder, "*", "!*/", "!keep.txt") == {"build/keep.txt", "build/deep/keep.txt"}


def test_lines_end_as_windows_ends_them_and_a_mark_of_the_encoding_is_no_letter(folder: Path) -> None:
    write(folder, "a.log", "b.log", "c.log")
    (folder / ".rrextignore").write_bytes(b"\xef\xbb\xbfa.log\r\n\x0cb.log\r\n")
    assert sent(folder) == {"b.log", "c.log"}


def test_a_folder_with_the_name_of_the_rules_is_a_folder_as_others(folder: Path) -> None:
    write(folder, ".rrextignore/a.txt", "b.txt")
    assert sent(folder) == {".rrextignore/a.txt", "b.txt"}


def test_names_that_are_not_utf_8_are_left_out_by_their_bytes(folder: Path) -> None:
    for name in (b"\xff.txt", b"\xfe.txt", b"a\nb.txt"):
        write(folder, os.fsdecode(name))
    (folder / ".rrextignore").write_bytes(b"\xff.*\na?b.txt")
    assert sent(folder) == {os.fsdecode(b"\xfe.txt")}


@pytest.mark.parametrize("line", ["!", "a\\", "[a", "[]", "[z-a]", "[[:word:]]"])
def test_what_can_fit_nothing_is_no_rule(folder: Path, line: str) -> None:
    with pytest.raises(UsageError, match="is no rule of gitignore"):
        sent(folder, line)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize("seed", range(40))
def test_of_a_folder_with_rules_the_files_are_sent_that_git_would_add(folder: Path, memory_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    folders = [folder]
    for _ in range(dice.randrange(1, 7)):
        path = dice.choice(folders) / dice.choice(NAMES)
        if not path.exists():
            path.mkdir()
            folders.append(path)
    for _ in range(dice.randrange(4, 16)):
        path = dice.choice(folders) / dice.choice(NAMES)
        if not path.exists():
            path.write_text("text")
    for path in folders[:: dice.randrange(1, 4)]:
        lines = [dice.choice(("", "", "!")) + dice.choice(PATTERNS) for _ in range(dice.randrange(6))]
        (path / ".rrextignore").write_text("\n".join(line for line in lines if line != "!"))
    git = ["git", "--git-dir", str(memory_path / "git"), "--work-tree", str(folder)]
    subprocess.run([*git, "init", "-q", "--template="], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    listed = subprocess.run(
        [*git, "ls-files", "-o", "-z", "--exclude-per-directory=.rrextignore"], cwd=folder, capture_output=True, check=True
    )
    added = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
    assert sent(folder) == {name for name in added if os.path.basename(name) != ".rrextignore"}
