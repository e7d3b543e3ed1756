"""The file store behaves as a tree of files in memory, whatever two clients do in whatever order."""

from __future__ import annotations

import asyncio
import glob
import shutil
import tempfile
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from rrext.engine.interface.call import Caller
from rrext.engine.interface.rare_operations import STORE_SUBCOMMANDS
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError
from rrext.files.file_store import FileStoreSettings
from rrext.pipefile.catalog.catalog import Catalog

QUOTA, ENTRIES, LARGEST = 64, 8, 40
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(tuple)
DESKS = st.sampled_from(["one", "two"])
Names = tuple[str, ...]


class Refused(Exception):
    """The model refuses an operation."""


class Tree:
    """The model: the content of each file, None for a directory."""

    def __init__(self) -> None:
        self.nodes: dict[Names, bytes | None] = {}
        self.unfinished = 0

    @property
    def used(self) -> int:
        return sum(len(data) for data in self.nodes.values() if data is not None) + self.unfinished

    def is_dir(self, path: Names) -> bool:
        return path == () or (path in self.nodes and self.nodes[path] is None)

    def below(self, path: Names) -> list[Names]:
        return [each for each in self.nodes if len(each) > len(path) and each[: len(path)] == path]

    def make(self, path: Names, more: int = 0) -> None:
        above = [path[:n] for n in range(1, len(path) + 1)]
        missing = [each for each in above if each not in self.nodes]
        if any(each in self.nodes and self.nodes[each] is not None for each in above):
            raise Refused
        if len(missing) + more and len(self.nodes) + len(missing) + more > ENTRIES:
            raise Refused
        self.nodes.update(dict.fromkeys(missing))

    def begin(self, path: Names) -> None:
        if self.is_dir(path):
            raise Refused
        self.make(path[:-1], more=path not in self.nodes)

    def finish(self, path: Names, data: bytes) -> None:
        self.unfinished -= len(data)
        self.begin(path)
        self.nodes[path] = data

    def reserve(self, written: int, data: bytes) -> None:
        if written + len(data) > LARGEST or self.used + len(data) > QUOTA:
            raise Refused
        self.unfinished += len(data)

    def delete(self, path: Names) -> None:
        if self.nodes.get(path) is None:
            raise Refused
        del self.nodes[path]

    def remove(self, path: Names, recursive: bool) -> None:
        below = self.below(path)
        if path not in self.nodes or self.nodes[path] is not None or (below and not recursive):
            raise Refused
        for each in (path, *below):
            del self.nodes[each]

    def rename(self, path: Names, new: Names) -> None:
        if path not in self.nodes or new in self.nodes or new[: len(path)] == path:
            raise Refused
        self.make(new[:-1])
        for each in (path, *self.below(path)):
            self.nodes[new + each[len(path) :]] = self.nodes.pop(each)


class Writing:
    """An open file of the model and of the store."""

    def __init__(self, desk: str, path: Names, handle: str) -> None:
        self.desk, self.path, self.handle = desk, path, handle
        self.data = b""
        self.is_open, self.has_failed = True, False


class Store(RuleBasedStateMachine):
    """Two connections of one user, and the model of their tree."""

    writing: Bundle[Writing] = Bundle("writing")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="rrext-")
        self.loop = asyncio.new_event_loop()
        self.tree = Tree()
        self.files: list[Writing] = []
        self.engine = self.loop.run_until_complete(self._engine())

    async def _engine(self) -> LocalEngine:
        settings = FileStoreSettings(directory=self.folder, quota=QUOTA, names=ENTRIES, file_size=LARGEST)
        return LocalEngine(catalog=Catalog(installed=False), store=settings)

    def teardown(self) -> None:
        self.loop.run_until_complete(self.engine.aclose())
        left = glob.glob(f"{self.folder}/*/unfinished/*")
        self.loop.close()
        shutil.rmtree(self.folder)
        assert not left

    def ask(self, desk: str, subcommand: str, data: bytes | None = None, **arguments: Any) -> Any:
        operation = STORE_SUBCOMMANDS[f"fs_{subcommand}"](**arguments)
        asking = self.engine.ask(operation, Caller(desk, "ada"), data=data)
        body, tail = self.loop.run_until_complete(asyncio.wait_for(asking, 30))
        return msgspec.json.decode(body) if tail is None else tail

    def both(self, model: Any, desk: str, subcommand: str, data: bytes | None = None, **arguments: Any) -> Any:
        """Run an operation in the model and in the store; both refuse it, or none. None if they do."""
        try:
            model()
        except Refused:
            with pytest.raises(RrextError):
                self.ask(desk, subcommand, data, **arguments)
            return None
        return self.ask(desk, subcommand, data, **arguments)

    @rule(target=writing, desk=DESKS, path=PATHS)
    def begin(self, desk: str, path: Names) -> Writing:
        answer = self.both(lambda: self.tree.begin(path), desk, "open", path="/".join(path), mode="w")
        writing = Writing(desk, path, "none" if answer is None else answer["handle"])
        writing.is_open = answer is not None
        self.files.append(writing)
        return writing

    @rule(file=writing, data=st.binary(max_size=25))
    def write(self, file: Writing, data: bytes) -> None:
        def model() -> None:
            if not file.is_open or file.has_failed:
                raise Refused
            self.tree.reserve(len(file.data), data)

        if self.both(model, file.desk, "write", data, handle=file.handle) is None:
            file.has_failed = True
        else:
            file.data += data

    @rule(file=writing)
    def close(self, file: Writing) -> None:
        def model() -> None:
            if not file.is_open:
                raise Refused
            if file.has_failed:
                self.tree.unfinished -= len(file.data)
                raise Refused
            self.tree.finish(file.path, file.data)

        self.both(model, file.desk, "close", handle=file.handle)
        file.is_open = False

    @rule(desk=DESKS)
    def vanish(self, desk: str) -> None:
        for file in self.files:
            if file.desk == desk and file.is_open:
                file.is_open = False
                self.tree.unfinished -= len(file.data)
        self.loop.run_until_complete(self._vanished(desk))

    async def _vanished(self, desk: str) -> None:
        self.engine.disconnect(desk)
        open_now = sum(file.is_open for file in self.files)
        async with asyncio.timeout(10):
            while len(glob.glob(f"{self.folder}/*/unfinished/*")) > open_now:
                await asyncio.sleep(0)

    @rule(desk=DESKS, path=PATHS)
    def make(self, desk: str, path: Names) -> None:
        self.both(lambda: self.tree.make(path), desk, "mkdir", path="/".join(path))

    @rule(desk=DESKS, path=PATHS)
    def delete(self, desk: str, path: Names) -> None:
        self.both(lambda: self.tree.delete(path), desk, "delete", path="/".join(path))

    @rule(desk=DESKS, path=PATHS, recursive=st.booleans())
    def remove(self, desk: str, path: Names, recursive: bool) -> None:
        self.both(lambda: self.tree.remove(path, recursive), desk, "rmdir", path="/".join(path), recursive=recursive)

    @rule(desk=DESKS, path=PATHS, new=PATHS)
    def rename(self, desk: str, path: Names, new: Names) -> None:
        old_path, new_path = "/".join(path), "/".join(new)
        self.both(lambda: self.tree.rename(path, new), desk, "rename", old_path=old_path, new_path=new_path)

    @invariant()
    def both_have_the_same_tree(self) -> None:
        for folder in [(), *(path for path, data in self.tree.nodes.items() if data is None)]:
            entries = self.ask("one", "list_dir", path="/".join(folder))["entries"]
            expected = {path[-1]: data for path, data in self.tree.nodes.items() if path[:-1] == folder}
            assert [(each["name"], each.get("size")) for each in entries] == [
                (name, None if data is None else len(data)) for name, data in sorted(expected.items())
            ]
        for path, data in self.tree.nodes.items():
            if data is not None:
                handle = self.ask("two", "open", path="/".join(path))["handle"]
                assert self.ask("two", "read", handle=handle) == data
                self.ask("two", "close", handle=handle)


Store.TestCase.settings = settings(max_examples=settings.default.max_examples // 2)
TestStore = pytest.mark.timeout(600)(pytest.mark.promise("store:whole-files")(Store.TestCase))
