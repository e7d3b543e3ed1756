"""Git repositories that tests make, commit by commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pygit2 = pytest.importorskip("pygit2", reason="the extra `git` is not installed")

__all__ = ["BEGIN", "DAY", "MadeRepository", "three_commits"]

DAY = 86_400
BEGIN = 1_767_225_600  # 2026-01-01, UTC


class MadeRepository:
    """A repository that is made commit by commit; each is a day after the one before it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.git = pygit2.init_repository(str(folder), initial_head="main", **options)
        self.ids: list[str] = []

    def write(self, **files: str | bytes) -> None:
        """Write files into the working tree; `__` in a name is `/`, and `_` a dot."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def stage(self) -> None:
        self.git.index.read()
        self.git.index.add_all()
        self.git.index.write()

    def commit(self, message: str, author: str = "Ada", **files: str | bytes) -> str:
        self.write(**files)
        self.stage()
        who = pygit2.Signature(author, f"{author.lower()}@example.com", BEGIN + DAY * len(self.ids), 0)
        parents = [] if self.git.head_is_unborn else [self.git.head.target]
        made = self.git.create_commit("HEAD", who, who, message, self.git.index.write_tree(), parents)
        self.ids.append(str(made))
        return str(made)


def three_commits(folder: Path) -> MadeRepository:
    """A repository with three commits by two people."""
    found = MadeRepository(folder)
    found.commit("first", a_txt="one\ntwo\n", docs__b_md="# Title\n")
    found.commit("second", "Grace", a_txt="one\nTWO\n")
    found.commit("third\n\nwith a body", docs__b_md="# Title\nmore\n", c_bin=b"\0\1one")
    return found
