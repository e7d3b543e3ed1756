"""`tool_git`: one Git repository, read by tools of RocketRide's names. They change nothing, and run nothing of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.limits import MIB
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.child.pool import ProcessPool
from rrext.nodes.child.process import NodeProcess, ProcessLost, module_command
from rrext.nodes.git.records import GitSettings, ReadRepository
from rrext.nodes.text_search.pattern import LONGEST_PATTERN
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

MOST_COMMITS: Final = 200
"""Commits of one `log`; RocketRide's."""
MOST_HITS: Final = 10_000
"""Lines of one `grep`; RocketRide's."""
MOST_LINES: Final = 10_000
"""Lines of one `blame`; a further call goes on."""
REMOTES: Final = ("https://", "http://", "git://", "ssh://", "git@")
"""How addresses of remote repositories begin."""

READS: Final = {"readOnlyHint": True, "openWorldHint": False}

Ref = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
RepositoryPath = Annotated[str, msgspec.Meta(max_length=4096)]


class GitProcess(NodeProcess):
    """A process that reads one repository, as long as its folder is the same."""

    def __init__(self, settings: GitSettings) -> None:
        """Start the process. Raises `Unavailable`."""
        self.identity = identity_of(settings.folder)
        super().__init__(
            module_command("rrext.nodes.git.worker"),
            settings,
            what="a Git reader",
            crash=("git_crashed", 'Raise "memory" of the node, if it is a repository that you trust.'),
            closed="The pipeline ends",
            variables=FEW_HEAPS,  # each arena takes address space, which is limited
        )


def identity_of(folder: str) -> tuple[int, int]:
    """Tells a folder from a later one with the same path; (0, 0) if there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class GitReader(ProcessPool[GitProcess]):
    """Reads one repository in up to `processes` processes."""

    def __init__(self, settings: GitSettings, processes: int, timeout: float) -> None:
        super().__init__(lambda: GitProcess(settings), processes)
        self._folder = settings.folder
        self._timeout = timeout

    def read(self, tool: str, given: dict[str, Any], ctx: ToolContext) -> Any:
        """The result of a tool. Raises `ToolError`, and the error of `ctx.check` for a cancelled call."""
        while True:
            with self.lent(ctx) as process:
                if process.identity != identity_of(self._folder):  # it has walls around a folder that is gone
                    process.terminate()
                    continue
                try:
                    return msgspec.json.decode(process.ask(ReadRepository(tool, given), ctx, self._timeout))
                except TimeoutError:
                    raise ToolError(
                        f"Reading the repository took more than {self._timeout:g} seconds (timeout)",
                        code="git_timeout",
                        hint='Ask for less, such as one path, or raise "timeout" of the node.',
                    ) from None
                except ProcessLost:
                    ctx.check()
                    self.check_open()
                    raise


class GitNode(Node):
    """Reads one Git repository: its state, history, files and differences. It changes nothing.

    `repoPath` is a folder with a working tree, or a bare repository. Nothing in a repository is run: no hook, filter, pager or
    external diff. Reading happens in processes of its own with bounded memory, shut off from other files and the network where
    the kernel can do that, and killed at `timeout` and after a cancel.
    """

    provider = "tool_git"
    title = "Git"
    class_types = ("tool",)
    capabilities = ("invoke",)
    profiles = {"default": {}}
    default_profile = "default"
    paths = {"repoPath": "folder"}
    no_paths = frozenset({""})
    shared: GitReader

    class Config:
        repoPath: Annotated[str, "The folder of the repository. An address of a remote one is not cloned."] = ""
        authType: Annotated[Literal["none", "token", "ssh"], "Accepted from RocketRide's files; no remote is asked."] = "none"
        username: Annotated[str, "Accepted from RocketRide's files."] = ""
        token: Annotated[str, "Accepted from RocketRide's files; no remote gets it."] = ""
        sshKey: Annotated[str, "Accepted from RocketRide's files; no remote gets it."] = ""
        sshPassphrase: Annotated[str, "Accepted from RocketRide's files."] = ""
        safeMode: Annotated[bool, "Accepted from RocketRide's files; nothing is changed at all."] = True
        readOnlyMode: Annotated[bool, "Accepted from RocketRide's files; nothing is changed at all."] = True
        serverName: Annotated[str, "Accepted from RocketRide's files."] = "git"
        maxCharacters: Annotated[
            int,
            msgspec.Meta(ge=1000, le=16 * MIB),
            "Characters of a patch or file in an answer, which says if it is cut.",
        ] = 500_000
        timeout: Annotated[float, msgspec.Meta(gt=0, le=3600), "Seconds that one call may take; most take milliseconds."] = 30.0
        memory: Annotated[int, msgspec.Meta(ge=256), "MiB of address space of a reading process."] = 1024
        processes: Annotated[int, msgspec.Meta(ge=1, le=64), "How many calls are served at a time, each in a process."] = 2

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages("git", "pygit2", "re2")

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        name = config.repoPath.strip()
        if name.startswith(REMOTES):
            yield "repoPath", "A remote repository is not cloned here: clone it, and name its folder."
        elif not os.path.isdir(path(name)):
            yield "repoPath", f'There is no folder "{name}".'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[GitReader]:
        """Find the folder; the first call starts a process."""
        name = config.repoPath.strip()
        if not name or name.startswith(REMOTES):
            raise Unavailable(
                f'Node "{ctx.node_id}" has no repository: it clones none',
                hint='Clone it with git, and set "repoPath" to its folder.',
            )
        folder: str = await ctx.in_thread(lambda: os.path.realpath(ctx.path(name)))
        root: str = await ctx.in_thread(lambda: os.path.realpath(ctx.directory)) if ctx.confined else ""
        settings = GitSettings(folder, config.memory * MIB, config.maxCharacters, root)
        reader = GitReader(settings, config.processes, config.timeout)
        try:
            yield reader
        finally:
            await ctx.in_thread(reader.close)

    @tool_function(group="git", annotations=READS)
    def status(self, *, ctx: ToolContext) -> dict[str, Any]:
        """The state of the working tree, in paths. Answers `{branch, staged, unstaged, untracked, clean, truncated}`."""
        return self._read("status", ctx)

    @tool_function(group="git", annotations=READS)
    def log(
        self,
        max_count: Annotated[int, msgspec.Meta(ge=1, le=MOST_COMMITS)] = 20,
        branch: str = "",
        path: RepositoryPath = "",
        author: str = "",
        since: str = "",
        until: str = "",
        *,
        ctx: ToolContext,
    ) -> list[dict[str, Any]]:
        """The history, the newest commit first: a list of `{sha, short_sha, message, author, author_email, date, committer}`.

        Args:
            max_count: How many commits are listed at most.
            branch: Where the history begins: a branch, a tag or a commit; the current branch if left out.
            path: List only commits that changed this file or folder, against their first parent.
            author: List only commits whose author's name or address holds this text.
            since: List only commits from this time on, as 2026-11-29 or 2026-11-29T12:00:00Z.
            until: List only commits up to this time.
        """
        times = {"since": _time(since, "since"), "until": _time(until, "until")}
        return self._read("log", ctx, max_count=max_count, branch=branch, path=path, author=author, **times)

    @tool_function(group="git", annotations=READS)
    def show(self, ref: Ref, *, ctx: ToolContext) -> dict[str, Any]:
        """One commit with its patch against its first parent: the members of `log`, and `diff`, `stats` and `truncated`.

        Args:
            ref: A branch, a tag or the id of a commit.
        """
        return self._read("show", ctx, ref=ref)

    @tool_function(group="git", annotations=READS)
    def diff(
        self, ref_a: str = "", ref_b: str = "", path: RepositoryPath = "", staged: bool = False, *, ctx: ToolContext
    ) -> dict[str, Any]:
        """A patch. Answers `{patch, files_changed, insertions, deletions, truncated}`.

        Without refs: the changes of the working tree since HEAD. With one ref: its changes since that commit. With two
        refs: the changes from the first to the second.

        Args:
            ref_a: A branch, a tag or the id of a commit.
            ref_b: Another one.
            path: Only this file or folder.
            staged: What the index has beside the commit, instead of the working tree.
        """
        if ref_b and not ref_a:
            raise InvalidArguments.at("/input/ref_b", "needs ref_a too")
        return self._read("diff", ctx, ref_a=ref_a, ref_b=ref_b, path=path, staged=staged)

    @tool_function(group="git", annotations=READS)
    def blame(
        self,
        path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)],
        ref: str = "",
        start: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1,
        count: Annotated[int, msgspec.Meta(ge=1, le=MOST_LINES)] = MOST_LINES,
        *,
        ctx: ToolContext,
    ) -> list[dict[str, Any]]:
        """Which commit wrote each line of a file: a list of `{line, content, sha, author, date}`.

        Args:
            path: The path of the file in the repository.
            ref: A branch, a tag or the id of a commit; HEAD if left out.
            start: The first line, from 1.
            count: How many lines are told at most.
        """
        return self._read("blame", ctx, path=path, ref=ref, start=start, count=count)

    @tool_function(group="git", annotations=READS)
    def file_at(
        self, path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)], ref: Ref, *, ctx: ToolContext
    ) -> dict[str, Any]:
        """A file as it was in a commit. Answers `{path, ref, sha, size, content, is_binary, truncated}`.

        Args:
            path: The path of the file in the repository.
            ref: A branch, a tag or the id of a commit.
        """
        return self._read("file_at", ctx, path=path, ref=ref)

    @tool_function(group="git", annotations=READS)
    def branch_list(self, remote: bool = False, all_branches: bool = False, *, ctx: ToolContext) -> dict[str, Any]:
        """The branches. Answers `{local: [{name, current}], remote}`; `remote` are names, if they are asked for.

        Args:
            remote: Also those that are known of remote repositories.
            all_branches: The same.
        """
        return self._read("branch_list", ctx, remote=remote, all_branches=all_branches)

    @tool_function(group="git", annotations=READS)
    def stash(self, op: Literal["list"] = "list", *, ctx: ToolContext) -> dict[str, Any]:
        """What was put aside (git stash). Answers `{stashes: [{index, message, sha}], count}`; `show` tells the commit of one.

        Args:
            op: list; other operations would change the repository.
        """
        return self._read("stash", ctx)

    @tool_function(group="git", annotations=READS)
    def grep(
        self,
        pattern: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_PATTERN)],
        ref: str = "",
        path: RepositoryPath = "",
        ignore_case: bool = False,
        max_results: Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)] = 1000,
        *,
        ctx: ToolContext,
    ) -> list[dict[str, Any]]:
        """Search the files of a commit: a list of `{file, line, content}`. Binary files are left out.

        Args:
            pattern: A regular expression (RE2), found within a line.
            ref: A branch, a tag or the id of a commit; HEAD if left out.
            path: Only this file or folder.
            ignore_case: Upper and lower case count as equal.
            max_results: How many lines are found at most.
        """
        given = {"pattern": pattern, "ref": ref, "path": path, "ignore_case": ignore_case, "max_results": max_results}
        return self._read("grep", ctx, **given)

    @tool_function(group="git", annotations=READS)
    def ls_files(self, path: RepositoryPath = "", untracked: bool = False, *, ctx: ToolContext) -> dict[str, Any]:
        """The files of the repository. Answers `{tracked, count, untracked, truncated}`.

        Args:
            path: Only this file or folder.
            untracked: Also list files of the working tree that are not in the repository.
        """
        return self._read("ls_files", ctx, path=path, untracked=untracked)

    def _read(self, tool: str, ctx: ToolContext, **given: Any) -> Any:
        missing = self.unavailable()
        if missing is not None:
            raise Unavailable(missing)
        return self.shared.read(tool, given, ctx)


def _time(text: str, name: str) -> float | None:
    """Seconds since 1970 of a date in ISO 8601, by UTC if it names no zone. Raises `InvalidArguments`."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArguments.at(f"/input/{name}", "expected a date as 2026-11-29 or 2026-11-29T12:00:00Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
