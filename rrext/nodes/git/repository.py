"""`RepositoryReader`: what the tools of `tool_git` answer about one repository, by libgit2.

libgit2 runs no program: no hooks, filters, pagers, external diffs or file system monitors, whatever the repository says. What
leads out of its folder is refused here: a `.git`, a working tree or objects that are elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pygit2
from pygit2.enums import DiffOption, FileStatus, RepositoryOpenFlag, SortMode

from rrext.errors import ToolError
from rrext.nodes.git.records import not_found, unusable
from rrext.nodes.text_search.pattern import Pattern

MOST_PATHS: Final = 10_000
"""Paths in one list; a repository may have a million."""
LINE: Final = 500
"""Characters of a line that `grep` shows."""
LARGEST: Final = 16 << 20
"""Bytes of a file that is read; larger ones are data."""
SHORT: Final = 8
"""Characters of a short id, as RocketRide has them."""

IN_INDEX: Final = (
    FileStatus.INDEX_NEW
    | FileStatus.INDEX_MODIFIED
    | FileStatus.INDEX_DELETED
    | FileStatus.INDEX_RENAMED
    | FileStatus.INDEX_TYPECHANGE
)
IN_TREE: Final = FileStatus.WT_MODIFIED | FileStatus.WT_DELETED | FileStatus.WT_TYPECHANGE | FileStatus.WT_RENAMED


def folders_of(folder: str, root: str) -> list[str]:
    """The folders that a repository takes: its own, and those of its data if both point at each other, below `root` if given.

    Raises `ToolError` (`repository_unusable`) if its data are elsewhere otherwise.
    """
    found = _folders_of(folder)
    if root and any(os.path.commonpath([root, os.path.realpath(each)]) != root for each in found):
        raise unusable(f'The data of the repository "{folder}" are out of the root')
    return found


def _folders_of(folder: str) -> list[str]:
    git = os.path.join(folder, ".git")
    if os.path.islink(git):
        raise unusable(f'The .git of "{folder}" is a symbolic link', "Name the repository that it leads to.")
    if not os.path.isfile(git):
        _require_own_data(folder, git if os.path.isdir(git) else folder)
        return [folder]
    data = os.path.realpath(os.path.join(folder, _line_of(git).removeprefix("gitdir: ")))
    back = os.path.join(data, "gitdir")
    if os.path.isfile(back) and os.path.realpath(_line_of(back)) == os.path.realpath(git):  # a linked working tree
        common = os.path.realpath(os.path.join(data, _line_of(os.path.join(data, "commondir"))))
        if os.path.dirname(data) == os.path.join(common, "worktrees"):  # only its owner could put them there
            _require_own_data(folder, common)
            return [folder, data, common]
    elif os.path.isfile(os.path.join(data, "config")):  # a submodule, whose data name its folder
        tree = _config_of(data, "core.worktree")
        if tree is not None and os.path.realpath(os.path.join(data, tree)) == folder:
            _require_own_data(folder, data)
            return [folder, data]
    raise unusable(f'The data of the repository "{folder}" are elsewhere, and do not say that they belong to it')


def _line_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(os.pathconf("/", "PC_PATH_MAX")).rstrip("\n")
    except OSError:
        return ""


def _config_of(data: str, name: str) -> str | None:
    try:
        return pygit2.Config(os.path.join(data, "config"))[name]
    except (KeyError, OSError, ValueError, pygit2.GitError):
        return None


def _require_own_data(folder: str, data: str) -> None:
    if os.path.lexists(os.path.join(data, "commondir")):
        raise unusable(f'Data of the repository "{folder}" are in another one (commondir), which is not read')
    objects = os.path.join(data, "objects")
    if os.path.lexists(os.path.join(objects, "info", "alternates")) or os.path.islink(objects):
        raise unusable(
            f'Objects of the repository "{folder}" are in another one (alternates), which is not read',
            'Copy them: git repack -a -d, then remove "objects/info/alternates".',
        )


class RepositoryReader:
    """One repository, opened for one call. Its methods are the tools of `tool_git`, and raise `ToolError`."""

    def __init__(self, folder: str, most: int) -> None:
        """`most` is how many characters a text of the answer has at most."""
        self._most = most
        try:
            repository = pygit2.Repository(folder, RepositoryOpenFlag.NO_SEARCH)
        except (pygit2.GitError, KeyError, ValueError) as error:
            raise unusable(f'There is no repository in "{folder}": {error}') from None
        tree = None if repository.is_bare else os.path.realpath(repository.workdir)
        if tree is not None and tree != folder:
            raise unusable(f'The working tree of the repository "{folder}" is elsewhere (core.worktree)')
        self._git = repository

    def status(self) -> dict[str, Any]:
        staged, unstaged, untracked = [], [], []
        self._require_tree("status")
        found = self._git.status()
        for path, flags in found.items():
            if flags & IN_INDEX:
                staged.append(_text(path))
            if flags & IN_TREE:
                unstaged.append(_text(path))
            if flags & FileStatus.WT_NEW:
                untracked.append(_text(path))
        lists = {"staged": staged, "unstaged": unstaged, "untracked": untracked}
        return {
            "branch": "(unborn)" if self._git.head_is_unborn else _text(self._git.head.shorthand),
            **{name: sorted(paths)[:MOST_PATHS] for name, paths in lists.items()},
            "clean": not (staged or unstaged or untracked),
            "truncated": any(len(paths) > MOST_PATHS for paths in lists.values()),
        }

    def log(
        self, max_count: int, branch: str, path: str, author: str, since: float | None, until: float | None
    ) -> list[dict[str, Any]]:
        if not branch and self._git.head_is_unborn:
            return []
        found: list[dict[str, Any]] = []
        path = path.strip("/")
        for commit in self._git.walk(self._commit(branch or "HEAD").id, SortMode.TIME):
            if since is not None and commit.commit_time < since:
                break
            if until is not None and commit.commit_time > until:
                continue
            told = _commit_json(commit)
            if author and author.lower() not in f"{told['author']} <{told['author_email']}>".lower():
                continue
            if path and not _touches(commit, path):
                continue
            found.append(told)
            if len(found) >= max_count:
                break
        return found

    def show(self, ref: str) -> dict[str, Any]:
        commit = self._commit(ref)
        diff = commit.parents[0].tree.diff_to_tree(commit.tree) if commit.parents else commit.tree.diff_to_tree(swap=True)
        told = self._patch(diff, "")
        return {
            **_commit_json(commit),
            "diff": told["patch"],
            "stats": {name: told[name] for name in ("files_changed", "insertions", "deletions")},
            "truncated": told["truncated"],
        }

    def diff(self, ref_a: str, ref_b: str, path: str, staged: bool) -> dict[str, Any]:
        git, flags = self._git, DiffOption.IGNORE_SUBMODULES
        if ref_a and ref_b:
            return self._patch(self._commit(ref_a).tree.diff_to_tree(self._commit(ref_b).tree, flags), path)
        if not staged:
            self._require_tree("diff")
        if ref_a or not git.head_is_unborn:
            tree = self._commit(ref_a or "HEAD").tree
            return self._patch(git.index.diff_to_tree(tree, flags) if staged else tree.diff_to_workdir(flags), path)
        if not staged:
            return self._patch(git.index.diff_to_workdir(flags), path)
        new = ((entry.path, git[entry.id]) for entry in git.index)
        made = (pygit2.Patch.create_from(None, blob, new_as_path=name) for name, blob in new if isinstance(blob, pygit2.Blob))
        return self._patch(made, path)

    def blame(self, path: str, ref: str, start: int, count: int) -> list[dict[str, Any]]:
        commit = self._commit(ref or "HEAD")
        lines = self._blob(commit, path).data.decode("utf-8", "replace").split("\n")  # the lines of Git, and no others
        if not lines[-1]:
            lines.pop()
        last = min(len(lines), start + count - 1)
        if last < start:
            return []
        found: list[dict[str, Any]] = []
        for hunk in self._git.blame(path, newest_commit=commit.id, min_line=start, max_line=last):
            writer = self._commit(str(hunk.final_commit_id)).author
            told = {"sha": str(hunk.final_commit_id)[:SHORT], "author": _name(writer), "date": _date(writer)}
            begin = hunk.final_start_line_number
            for number in range(max(begin, start), min(begin + hunk.lines_in_hunk, last + 1)):
                found.append({"line": number, "content": lines[number - 1].removesuffix("\r")[: self._most], **told})
        return found

    def file_at(self, path: str, ref: str) -> dict[str, Any]:
        blob = self._blob(self._commit(ref), path)
        content = blob.data.decode("utf-8", "replace")
        return {
            "path": path,
            "ref": ref,
            "sha": str(blob.id)[:SHORT],
            "size": blob.size,
            "content": content[: self._most],
            "is_binary": blob.is_binary,
            "truncated": len(content) > self._most,
        }

    def branch_list(self, remote: bool, all_branches: bool) -> dict[str, Any]:
        git = self._git
        current = None if git.head_is_unborn or git.head_is_detached else git.head.shorthand
        local = sorted(git.branches.local)[:MOST_PATHS]
        found: dict[str, Any] = {"local": [{"name": _text(name), "current": name == current} for name in local]}
        if remote or all_branches:
            found["remote"] = [_text(name) for name in sorted(git.branches.remote)[:MOST_PATHS]]
        return found

    def stash(self) -> dict[str, Any]:
        found = [
            {"index": number, "message": _text(each.message), "sha": str(each.commit_id)[:SHORT]}
            for number, each in enumerate(self._git.listall_stashes())
        ]
        return {"stashes": found, "count": len(found)}

    def grep(self, pattern: str, ref: str, path: str, ignore_case: bool, max_results: int) -> list[dict[str, Any]]:
        compiled = Pattern(pattern, is_regex=True, ignores_case=ignore_case)
        if not ref and self._git.head_is_unborn:
            return []
        found: list[dict[str, Any]] = []
        shown = 0
        for name, blob in self._files(self._commit(ref or "HEAD").tree, path.strip("/")):
            if self._size(blob) > LARGEST or blob.is_binary:
                continue
            for number, line in _lines_with(compiled, blob.data, max_results - len(found)):
                found.append({"file": name, "line": number, "content": line})
                shown += len(line)
            if len(found) >= max_results or shown >= self._most:
                break
        return found

    def ls_files(self, path: str, untracked: bool) -> dict[str, Any]:
        path = path.strip("/")
        if self._git.is_bare:
            tree = None if self._git.head_is_unborn else self._commit("HEAD").tree
            names: Iterable[str] = () if tree is None else (name for name, _ in self._files(tree, path))
        else:
            names = (_text(entry.path) for entry in self._git.index)
        tracked = [name for name in names if _is_below(name, path)]
        found: dict[str, Any] = {"tracked": tracked[:MOST_PATHS], "count": len(tracked), "truncated": len(tracked) > MOST_PATHS}
        if untracked:
            self._require_tree("untracked")
            new = (_text(name) for name, flags in self._git.status().items() if flags & FileStatus.WT_NEW)
            others = sorted(name for name in new if _is_below(name, path))
            found["untracked"] = others[:MOST_PATHS]
            found["truncated"] = found["truncated"] or len(others) > MOST_PATHS
        return found

    def _require_tree(self, what: str) -> None:
        if self._git.is_bare:
            raise unusable(f'The repository is bare: it has no working tree, which "{what}" is about')

    def _commit(self, ref: str) -> pygit2.Commit:
        try:
            return self._git.revparse_single(ref).peel(pygit2.Commit)
        except (KeyError, ValueError, pygit2.GitError):
            raise not_found(f'There is no commit "{ref}"; expected a branch, a tag or the id of a commit') from None

    def _blob(self, commit: pygit2.Commit, path: str) -> pygit2.Blob:
        try:
            found = commit.tree[path]
        except (KeyError, ValueError):
            raise not_found(f'There is no "{path}" in the commit {str(commit.id)[:SHORT]}') from None
        if not isinstance(found, pygit2.Blob):
            raise not_found(f'"{path}" is no file in the commit {str(commit.id)[:SHORT]}')
        if (size := self._size(found)) > LARGEST:
            raise ToolError(f'"{path}" has {size:,} bytes there: {LARGEST:,} can be read', code="file_too_large")
        return found

    def _size(self, blob: pygit2.Blob) -> int:
        """The bytes of a file, by the head of its object: the rest may unpack to any size."""
        return self._git.odb.read_header(blob.id)[1]

    def _files(self, tree: pygit2.Tree, path: str) -> Iterator[tuple[str, pygit2.Blob]]:
        """The files of a tree that are a path or below it, by their paths."""
        waiting: list[tuple[str, pygit2.Tree]] = [("", tree)]
        while waiting:
            folder, found = waiting.pop()
            deeper: list[tuple[str, pygit2.Tree]] = []
            for entry in found:
                name = f"{folder}{_text(entry.name or '')}"
                if isinstance(entry, pygit2.Blob) and _is_below(name, path):
                    yield name, entry  # whose content is not loaded yet
                elif isinstance(entry, pygit2.Tree) and (_is_below(name, path) or path.startswith(f"{name}/")):
                    deeper.append((f"{name}/", entry))
            waiting += reversed(deeper)

    def _patch(self, diff: Iterable[pygit2.Patch | None], path: str) -> dict[str, Any]:
        """The patch of the files that are a path or below it, and counts of lines; the text is cut, the counts are whole."""
        pieces: list[str] = []
        files = insertions = deletions = size = 0
        path = path.strip("/")
        for patch in diff:
            if patch is None:  # of a file that did not change
                continue
            if path and not any(_is_below(_text(side.path), path) for side in (patch.delta.new_file, patch.delta.old_file)):
                continue
            files += 1
            _, added, removed = patch.line_stats
            insertions, deletions = insertions + added, deletions + removed
            if size <= self._most:
                text = patch.data.decode("utf-8", "replace")
                pieces.append(text[: self._most - size])
                size += len(text)
        return {
            "patch": "".join(pieces),
            "files_changed": files,
            "insertions": insertions,
            "deletions": deletions,
            "truncated": size > self._most,
        }


def _touches(commit: pygit2.Commit, path: str) -> bool:
    """Whether a commit changed what stands at a path, compared with its first parent."""
    here = _id_at(commit.tree, path)
    return here != _id_at(commit.parents[0].tree, path) if commit.parents else here is not None


def _id_at(tree: pygit2.Tree, path: str) -> Any:
    try:
        return tree[path].id
    except (KeyError, ValueError):
        return None


def _is_below(name: str, path: str) -> bool:
    return not path or name == path or name.startswith(f"{path}/")


def _lines_with(pattern: Pattern, data: bytes, most: int) -> Iterator[tuple[int, str]]:
    """The lines with a hit, by their numbers from 1."""
    at, number, start = 0, 1, 0
    while most > 0 and start <= len(data):
        hits = pattern.spans(data, start, len(data), 1)
        if not hits:
            return
        begin = hits[0][0]
        number += data.count(b"\n", at, begin)
        at = begin
        first = data.rfind(b"\n", 0, begin) + 1
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        yield number, data[first:end].decode("utf-8", "replace").rstrip("\r")[:LINE]
        most -= 1
        start = end + 1


def _commit_json(commit: pygit2.Commit) -> dict[str, Any]:
    return {
        "sha": str(commit.id),
        "short_sha": str(commit.id)[:SHORT],
        "message": _message(commit),
        "author": _name(commit.author),
        "author_email": commit.author.raw_email.decode("utf-8", "replace"),
        "date": _date(commit.author),
        "committer": _name(commit.committer),
    }


def _message(commit: pygit2.Commit) -> str:
    try:
        return commit.raw_message.decode(commit.message_encoding or "utf-8", "replace").strip()
    except LookupError:  # no charset of Python's
        return commit.raw_message.decode("utf-8", "replace").strip()


def _name(who: pygit2.Signature) -> str:
    return who.raw_name.decode("utf-8", "replace")


def _date(who: pygit2.Signature) -> str:
    try:
        return datetime.fromtimestamp(who.time, tz=UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # a commit may name any time
        return ""


def _text(name: str | bytes) -> str:
    """A name as text, whatever its bytes are."""
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")
