"""`tool_git`: what its tools tell of a repository, and that a hostile one runs nothing and leads nowhere."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rrext.errors import Cancelled, InvalidArguments, ToolError, ToolTimeout, Unavailable
from rrext.nodes.git.node import GitNode
from rrext.testing import call_tool, open_node

from git_repositories import BEGIN, DAY, MadeRepository, three_commits  # isort: skip

pygit2 = pytest.importorskip("pygit2", reason="the extra `git` is not installed")
pytest.importorskip("re2", reason="the extra `git` is not installed")


@pytest.fixture
def made(tmp_path: Path) -> MadeRepository:
    return three_commits(tmp_path / "repo")


def ask(repository: MadeRepository | Path, tool: str, given: dict[str, Any] | None = None, **config: Any) -> Any:
    folder = repository.folder if isinstance(repository, MadeRepository) else repository
    return call_tool(GitNode, tool, given or {}, config={"repoPath": str(folder), **config})


# what the tools tell


def test_the_status_names_what_is_staged_changed_and_new(made: MadeRepository) -> None:
    assert ask(made, "status") == {
        "branch": "main",
        "staged": [],
        "unstaged": [],
        "untracked": [],
        "clean": True,
        "truncated": False,
    }
    made.write(a_txt="staged\n")
    made.stage()
    made.write(docs__b_md="changed\n", new_txt="new\n")
    told = ask(made, "status")
    assert (told["staged"], told["unstaged"], told["untracked"], told["clean"]) == (
        ["a.txt"],
        ["docs/b.md"],
        ["new.txt"],
        False,
    )


def test_the_history_has_the_newest_commit_first(made: MadeRepository) -> None:
    told = ask(made, "log")
    assert [each["sha"] for each in told] == made.ids[::-1]
    assert told[0] == {
        "sha": made.ids[2],
        "short_sha": made.ids[2][:8],
        "message": "third\n\nwith a body",
        "author": "Ada",
        "author_email": "ada@example.com",
        "date": "2026-01-03T00:00:00+00:00",
        "committer": "Ada",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_count": 1}, [2]),
        ({"path": "a.txt"}, [1, 0]),
        ({"path": "docs"}, [2, 0]),
        ({"author": "GRACE"}, [1]),
        ({"since": "2026-01-02"}, [2, 1]),
        ({"until": "2026-01-02T12:00:00Z"}, [1, 0]),
        ({"branch": "HEAD~1"}, [1, 0]),
        ({"path": "none"}, []),
    ],
)
def test_the_history_is_narrowed(made: MadeRepository, given: dict[str, Any], expected: list[int]) -> None:
    assert [each["sha"] for each in ask(made, "log", given)] == [made.ids[number] for number in expected]


def test_a_commit_is_shown_with_its_patch_also_the_first_one(made: MadeRepository) -> None:
    told = ask(made, "show", {"ref": "HEAD~1"})
    assert told["stats"] == {"files_changed": 1, "insertions": 1, "deletions": 1}
    assert "-two\n+TWO\n" in told["diff"]
    first = ask(made, "show", {"ref": made.ids[0]})
    assert first["stats"] == {"files_changed": 2, "insertions": 3, "deletions": 0}
    assert "+one\n+two\n" in first["diff"]


def test_differences_are_those_of_the_tree_the_index_and_two_commits(made: MadeRepository) -> None:
    made.write(a_txt="one\nstaged\n")
    made.stage()
    made.write(a_txt="one\nchanged\n")
    assert "-TWO\n+changed\n" in ask(made, "diff")["patch"]
    assert "-TWO\n+staged\n" in ask(made, "diff", {"staged": True})["patch"]
    assert "-two\n+changed\n" in ask(made, "diff", {"ref_a": "HEAD~2", "path": "a.txt"})["patch"]
    told = ask(made, "diff", {"ref_a": "HEAD~2", "ref_b": "HEAD", "path": "docs/"})
    assert (told["files_changed"], told["insertions"], told["deletions"]) == (1, 1, 0)
    assert "a.txt" not in told["patch"]
    with pytest.raises(InvalidArguments):
        ask(made, "diff", {"ref_b": "HEAD"})


def test_each_line_has_its_commit(made: MadeRepository) -> None:
    told = ask(made, "blame", {"path": "a.txt"})
    assert [(line["line"], line["content"], line["sha"], line["author"]) for line in told] == [
        (1, "one", made.ids[0][:8], "Ada"),
        (2, "TWO", made.ids[1][:8], "Grace"),
    ]
    assert [line["line"] for line in ask(made, "blame", {"path": "a.txt", "start": 2, "count": 5})] == [2]
    assert ask(made, "blame", {"path": "a.txt", "start": 3}) == []
    assert ask(made, "blame", {"path": "a.txt", "ref": "HEAD~2"})[1]["content"] == "two"


def test_lines_end_where_git_ends_them(made: MadeRepository) -> None:
    made.commit("fourth", a_txt="one\n\ftwo\u2028and\rmore\r\nthree\n")
    made.commit("fifth", "Grace", a_txt="one\n\ftwo\u2028and\rmore\r\nTHREE")
    told = ask(made, "blame", {"path": "a.txt"})
    assert [each["content"] for each in told] == ["one", "\ftwo\u2028and\rmore", "THREE"]
    assert [each["sha"] for each in told] == [made.ids[n][:8] for n in (0, 3, 4)]


def test_a_file_is_read_as_it_was(made: MadeRepository) -> None:
    told = ask(made, "file_at", {"path": "a.txt", "ref": "HEAD~2"})
    assert told.items() >= {"content": "one\ntwo\n", "size": 8, "is_binary": False, "truncated": False}.items()
    assert ask(made, "file_at", {"path": "c.bin", "ref": "main"})["is_binary"] is True


def test_files_are_searched_and_listed(made: MadeRepository) -> None:
    assert ask(made, "grep", {"pattern": "^(one|# T)"}) == [
        {"file": "a.txt", "line": 1, "content": "one"},
        {"file": "docs/b.md", "line": 1, "content": "# Title"},
    ]
    assert ask(made, "grep", {"pattern": "two", "ignore_case": True}) == [{"file": "a.txt", "line": 2, "content": "TWO"}]
    assert ask(made, "grep", {"pattern": "o", "path": "docs"})[0] == {"file": "docs/b.md", "line": 2, "content": "more"}
    assert len(ask(made, "grep", {"pattern": ".", "max_results": 2})) == 2
    assert ask(made, "grep", {"pattern": "two", "ref": "HEAD~2"})[0]["content"] == "two"
    made.write(new_txt="new")
    told = ask(made, "ls_files", {"untracked": True})
    assert (told["tracked"], told["count"], told["untracked"]) == (["a.txt", "c.bin", "docs/b.md"], 3, ["new.txt"])
    assert ask(made, "ls_files", {"path": "docs"})["tracked"] == ["docs/b.md"]


def test_branches_and_what_was_put_aside_are_listed(made: MadeRepository) -> None:
    made.git.branches.local.create("other", made.git.head.peel())
    made.git.references.create("refs/remotes/origin/main", made.git.head.target)
    assert ask(made, "branch_list")["local"] == [{"name": "main", "current": True}, {"name": "other", "current": False}]
    assert ask(made, "branch_list", {"all_branches": True})["remote"] == ["origin/main"]
    made.write(a_txt="aside")
    made.git.stash(pygit2.Signature("Ada", "a@b.c", BEGIN, 0), "put aside")
    told = ask(made, "stash", {"op": "list"})
    assert (told["count"], told["stashes"][0]["message"]) == (1, "On main: put aside")
    with pytest.raises(InvalidArguments):
        ask(made, "stash", {"op": "pop"})


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("log", {"branch": "none"}),
        ("show", {"ref": "HEAD~9"}),
        ("show", {"ref": "a\0b"}),
        ("file_at", {"path": "none", "ref": "HEAD"}),
        ("file_at", {"path": "docs", "ref": "HEAD"}),
        ("file_at", {"path": "../a.txt", "ref": "HEAD"}),
        ("file_at", {"path": "a\0b", "ref": "HEAD"}),
        ("blame", {"path": "none"}),
        ("diff", {"ref_a": "--output=/tmp/x"}),
    ],
)
def test_what_is_not_there_is_told(made: MadeRepository, tool: str, given: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        ask(made, tool, given)
    assert caught.value.code == "git_not_found"


def test_a_pattern_or_a_date_that_is_none_is_told_with_its_place(made: MadeRepository) -> None:
    for tool, given, path in (("grep", {"pattern": "("}, "/input/pattern"), ("log", {"since": "yesterday"}, "/input/since")):
        with pytest.raises(InvalidArguments) as caught:
            ask(made, tool, given)
        assert caught.value.data["errors"][0]["path"] == path


def test_an_empty_repository_and_a_bare_one_have_what_they_can_have(tmp_path: Path, made: MadeRepository) -> None:
    empty = MadeRepository(tmp_path / "empty")
    assert ask(empty, "status")["branch"] == "(unborn)"
    assert (ask(empty, "log"), ask(empty, "grep", {"pattern": "a"})) == ([], [])
    empty.write(a_txt="one\n")
    empty.stage()
    assert ask(empty, "diff", {"staged": True})["insertions"] == 1
    assert ask(empty, "branch_list") == {"local": []}
    pygit2.clone_repository(str(made.folder), str(tmp_path / "bare"), bare=True)
    assert len(ask(tmp_path / "bare", "log")) == 3
    assert ask(tmp_path / "bare", "ls_files")["count"] == 3
    for tool in ("status", "diff"):
        with pytest.raises(ToolError, match="bare"):
            ask(tmp_path / "bare", tool)


def test_texts_in_other_charsets_and_names_that_are_none_are_read(made: MadeRepository) -> None:
    (made.folder / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"caf\xe9\n")
    made.commit("bytes")
    assert "caf\ufffd.txt" in ask(made, "ls_files")["tracked"]
    assert ask(made, "grep", {"pattern": "^caf"})[0]["content"] == "caf\ufffd"
    assert "+caf\ufffd" in ask(made, "show", {"ref": "HEAD"})["diff"]


def test_long_answers_are_cut_and_say_so_while_counts_are_whole(made: MadeRepository) -> None:
    made.commit("long", long_txt="a line of text\n" * 5000)
    told = ask(made, "show", {"ref": "HEAD"}, maxCharacters=1000)
    assert (len(told["diff"]), told["truncated"], told["stats"]["insertions"]) == (1000, True, 5000)
    read = ask(made, "file_at", {"path": "long.txt", "ref": "HEAD"}, maxCharacters=1000)
    assert (len(read["content"]), read["truncated"], read["size"]) == (1000, True, 75_000)


# what a hostile repository cannot do


def hostile(made: MadeRepository, marker: Path) -> None:
    """Let everything in the settings and attributes of a repository that names a program write a marker."""
    script = made.folder.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {marker}\ncat\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "diff.external", "pager.log", "pager.diff"):
        made.git.config[name] = str(script)
    for name in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command", "diff.evil.textconv"):
        made.git.config[name] = str(script)
    made.git.config["core.hooksPath"] = str(made.folder / "hooks")
    for folder in (made.folder / "hooks", made.folder / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-checkout", "post-index-change", "fsmonitor-watchman", "pre-commit", "reference-transaction"):
            shutil.copy(script, folder / hook)
    made.write(_gitattributes="* filter=evil diff=evil\n", a_txt="one\nchanged again\n")


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("status", {}),
    ("log", {"path": "a.txt"}),
    ("show", {"ref": "HEAD"}),
    ("diff", {}),
    ("diff", {"staged": True}),
    ("diff", {"ref_a": "HEAD~1", "ref_b": "HEAD"}),
    ("blame", {"path": "a.txt"}),
    ("file_at", {"path": "a.txt", "ref": "HEAD"}),
    ("branch_list", {"all_branches": True}),
    ("stash", {}),
    ("grep", {"pattern": "one"}),
    ("ls_files", {"untracked": True}),
]


def test_no_hook_filter_pager_or_external_diff_of_a_repository_runs(made: MadeRepository, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    hostile(made, marker)
    for tool, given in CALLS:
        ask(made, tool, given)
    assert not marker.exists()
    assert "+changed again" in ask(made, "diff", {"path": "a.txt"})["patch"]
    git = shutil.which("git")
    if git is not None:  # which would have run them
        subprocess.run([git, "-C", str(made.folder), "diff"], capture_output=True, check=False, env={**os.environ, "HOME": "/"})
        assert marker.exists()


def elsewhere(folder: Path) -> Path:
    """A repository with a secret, beside the hostile one."""
    other = MadeRepository(folder / "private")
    other.commit("private", secret_txt="sesame\n")
    return other.folder


def tree_elsewhere(made: MadeRepository, other: Path) -> None:
    made.git.config["core.worktree"] = str(other)


def linked_data(made: MadeRepository, other: Path) -> None:
    shutil.rmtree(made.folder / ".git")
    (made.folder / ".git").symlink_to(other / ".git")


def named_data(made: MadeRepository, other: Path) -> None:
    shutil.rmtree(made.folder / ".git")
    (made.folder / ".git").write_text(f"gitdir: {other / '.git'}\n")


def data_of_another(made: MadeRepository, other: Path) -> None:
    """Data in the repository that seem to be of a linked working tree of the other one."""
    data = made.folder / "data"
    data.mkdir()
    (data / "commondir").write_text(f"{other / '.git'}\n")
    (data / "gitdir").write_text(f"{made.folder / '.git'}\n")
    (data / "HEAD").write_text("ref: refs/heads/main\n")
    shutil.rmtree(made.folder / ".git")
    (made.folder / ".git").write_text("gitdir: data\n")


def common_data(made: MadeRepository, other: Path) -> None:
    (made.folder / ".git" / "commondir").write_text(f"{other / '.git'}\n")


def objects_elsewhere(made: MadeRepository, other: Path) -> None:
    (made.folder / ".git" / "objects" / "info" / "alternates").write_text(f"{other / '.git' / 'objects'}\n")


def data_missing(made: MadeRepository, other: Path) -> None:
    (made.folder / ".git" / "HEAD").unlink()


ATTACKS = [tree_elsewhere, linked_data, named_data, data_of_another, common_data, objects_elsewhere, data_missing]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_repository_that_leads_elsewhere_is_refused(
    made: MadeRepository, tmp_path: Path, attack: Callable[[MadeRepository, Path], None]
) -> None:
    attack(made, elsewhere(tmp_path))
    for tool, given in CALLS:
        with pytest.raises(ToolError) as caught:
            ask(made, tool, given)
        assert caught.value.code == "repository_unusable"
        assert "sesame" not in str(caught.value)


async def test_a_repository_that_leads_elsewhere_later_is_refused_from_then_on(made: MadeRepository, tmp_path: Path) -> None:
    async with open_node(GitNode, {"repoPath": str(made.folder), "processes": 1}) as client:
        assert len(await client.tool(tool="log", node_id="node")) == 3
        objects_elsewhere(made, elsewhere(tmp_path))
        with pytest.raises(ToolError, match="alternates"):
            await client.tool(tool="log", node_id="node")


def test_a_link_in_the_working_tree_is_not_followed(made: MadeRepository, tmp_path: Path) -> None:
    other = elsewhere(tmp_path)
    made.commit("folder", sub__secret_txt="mine\n")
    shutil.rmtree(made.folder / "sub")
    (made.folder / "sub").symlink_to(other)
    (made.folder / "a.txt").unlink()
    (made.folder / "a.txt").symlink_to(other / "secret.txt")
    told = ask(made, "diff")["patch"]
    assert "sesame" not in told
    assert "-mine" in told


def test_the_data_of_a_linked_working_tree_and_of_a_submodule_are_their_own(made: MadeRepository, tmp_path: Path) -> None:
    made.git.add_worktree("linked", str(tmp_path / "linked"))
    assert len(ask(tmp_path / "linked", "log")) == 3
    assert ask(tmp_path / "linked", "status")["clean"] is True
    outer = MadeRepository(tmp_path / "outer")
    sub = outer.folder / "sub"
    data = outer.folder / ".git" / "modules" / "sub"
    shutil.copytree(made.folder, sub)
    data.parent.mkdir()
    shutil.move(sub / ".git", data)
    (sub / ".git").write_text("gitdir: ../.git/modules/sub\n")
    pygit2.Config(str(data / "config"))["core.worktree"] = "../../../sub"
    assert len(ask(sub, "log")) == 3


def test_damaged_objects_fail_the_call(made: MadeRepository) -> None:
    for path in (made.folder / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"no object")
    for tool, given in CALLS[1:4]:
        with pytest.raises(ToolError) as caught:
            ask(made, tool, given)
        assert caught.value.code in ("git_failed", "git_not_found")


def test_a_file_that_unpacks_to_more_than_the_memory_is_not_read_and_the_others_are(made: MadeRepository) -> None:
    size, piece = 400_000_000, b"\0" * 1_000_000
    head, packer, digest = b"blob %d\0" % size, zlib.compressobj(1), hashlib.sha1()
    packed = bytearray(packer.compress(head))
    digest.update(head)
    for _ in range(size // len(piece)):
        digest.update(piece)
        packed += packer.compress(piece)
    name = digest.hexdigest()
    path = made.folder / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed + packer.flush())
    builder = made.git.TreeBuilder(made.git.head.peel(pygit2.Commit).tree)
    builder.insert("aaa.bomb", pygit2.Oid(hex=name), 0o100644)
    who = pygit2.Signature("Mallory", "m@example.com", BEGIN + 9 * DAY, 0)
    made.git.create_commit("HEAD", who, who, "bomb", builder.write(), [made.git.head.target])
    assert ask(made, "grep", {"pattern": "^one"}, memory=320) == [{"file": "a.txt", "line": 1, "content": "one"}]
    for tool, given in (("file_at", {"path": "aaa.bomb", "ref": "HEAD"}), ("blame", {"path": "aaa.bomb"})):
        with pytest.raises(ToolError) as caught:
            ask(made, tool, given, memory=320)
        assert caught.value.code == "file_too_large"


def test_a_confined_pipeline_reads_below_its_root_alone(made: MadeRepository, tmp_path: Path) -> None:
    assert len(call_tool(GitNode, "log", {}, config={"repoPath": "repo"}, root=str(tmp_path))) == 3
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(made.folder)
    for name in ("../repo", "link", str(made.folder)):
        with pytest.raises(Unavailable, match="root"):
            call_tool(GitNode, "log", {}, config={"repoPath": name}, root=str(tmp_path / "root"))


def test_the_data_of_a_confined_repository_are_below_the_root_too(made: MadeRepository, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    made.git.add_worktree("linked", str(tmp_path / "root" / "linked"))
    assert len(ask(tmp_path / "root" / "linked", "log")) == 3
    with pytest.raises(ToolError, match="out of the root"):
        call_tool(GitNode, "log", {}, config={"repoPath": "linked"}, root=str(tmp_path / "root"))
    assert len(call_tool(GitNode, "log", {}, config={"repoPath": "root/linked"}, root=str(tmp_path))) == 3


@pytest.mark.parametrize("name", ["", "https://example.com/a.git", "git@example.com:a.git"])
def test_no_remote_repository_is_cloned(name: str) -> None:
    with pytest.raises(Unavailable, match="it clones none"):
        call_tool(GitNode, "log", {}, config={"repoPath": name})
    config = GitNode.Config()
    config.repoPath = name or "none"
    assert [key for key, _ in GitNode.missing(config, lambda path: f"/nowhere/{path}")] == ["repoPath"]


async def test_a_repository_that_is_made_anew_is_read_anew(made: MadeRepository, tmp_path: Path) -> None:
    async with open_node(GitNode, {"repoPath": str(made.folder), "processes": 1}) as client:
        assert len(await client.tool(tool="log", node_id="node")) == 3
        made.folder.rename(tmp_path / "old")
        MadeRepository(made.folder).commit("anew", a_txt="1")
        assert [each["message"] for each in await client.tool(tool="log", node_id="node")] == ["anew"]


async def test_a_call_that_takes_too_long_is_stopped_and_the_next_one_served(made: MadeRepository) -> None:
    made.commit("long", long_txt="x" * 12_000_000)
    async with open_node(GitNode, {"repoPath": str(made.folder), "processes": 1}) as client:
        await client.tool(tool="log", node_id="node")
        with pytest.raises((ToolTimeout, Cancelled, ToolError)):
            await client.tool(tool="grep", node_id="node", input={"pattern": "(x+x+)+y"}, timeout=0.001)
        assert len(await client.tool(tool="log", node_id="node")) == 4
