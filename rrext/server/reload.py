"""`rrext serve --reload`: pipelines and code of nodes that change count without a restart; what is broken changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import RrextError
from rrext.pipefile.catalog.plugins import drop_compiled, reload_nodes, source_files

if TYPE_CHECKING:
    from rrext.engine.base_engine import BaseEngine

INTERVAL: Final = 0.3
"""Seconds between two looks at the files. A change counts when two looks see the same: an editor may write in steps."""

TRY_TIME: Final = 60.0
"""Seconds in which changed code has to be loaded where tasks run: the import of a large library takes some of them."""

LOADS_AT_ONCE: Final = 4
"""Pipelines that are loaded anew at once, each perhaps in a new process: running calls need the processors too."""

log: Final = logging.getLogger("rrext.reload")

State = tuple[int, int, int] | None
"""Size, time and number of a file; None if it is not there."""


class LoadedSources:
    """Looks again and again for the files of the code of `--nodes` that this process has loaded. It goes through all modules,
    which costs a thousandth of a second, only if modules came since the last look.
    """

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._modules = 0
        self.paths: frozenset[str] = frozenset()
        """The files, as of the last look."""

    def look(self) -> bool:
        """Look; whether there are other files than before."""
        if len(sys.modules) == self._modules:
            return False
        before, self._modules = self.paths, len(sys.modules)
        self.paths = frozenset(source_files(self._targets).values())
        return self.paths != before


async def tell_sources(tell: Callable[[str, dict[str, Any]], object], nodes: Sequence[str]) -> None:
    """In a worker: tell the server which files of code it has loaded, as a tool may import some late."""
    sources = LoadedSources(nodes)
    while True:
        if sources.look():
            tell("worker_sources", {"paths": sorted(sources.paths)})
        await asyncio.sleep(INTERVAL)


class Reloader:
    """Watches the files of a server's pipelines, token → path, and the code of its own nodes, as `--nodes` names it.

    It looks at the files itself, at a few of them, as an editor replaces files and folders may be mounted.
    """

    def __init__(self, engine: BaseEngine[Any], files: Mapping[str, str], nodes: Sequence[str]) -> None:
        self._engine = engine
        self._files = dict(files)
        self._nodes = list(nodes)
        self._sources = LoadedSources(self._nodes)
        self._changed: set[str] = set()
        """The files with changes that do not count yet."""
        self._places = asyncio.Semaphore(LOADS_AT_ONCE)
        self._seen: dict[str, State] = {}
        self._seen = self._states(())

    async def run(self) -> None:
        """Look until it is cancelled. A change while others are loaded stops that, and all of them are loaded."""
        last, work = self._seen, None
        while True:
            await asyncio.sleep(INTERVAL)
            now = await asyncio.to_thread(self._states, tuple(self._engine.late_sources))
            self._seen = now | self._seen  # a module that a tool imports late is no change
            if now == last and (changed := {path for path, state in now.items() if state != self._seen[path]}):
                self._seen |= now
                self._changed |= changed
                if work is not None and not work.done():
                    work.cancel()
                    await asyncio.wait([work])
                work = self._engine.host.spawn(self._reload(), "reload")
            last = now

    def _states(self, late: Collection[str]) -> dict[str, State]:
        self._sources.look()
        return {path: _state_of(path) for path in (*self._files.values(), *self._sources.paths, *late, *self._seen)}

    async def _reload(self) -> None:
        changed = set(self._changed)
        code = changed - set(self._files.values())
        is_new_code = bool(code) and await self._takes(code)
        files = [each for each in self._files.items() if is_new_code or each[1] in changed]
        others = [task for task in self._engine.tasks if is_new_code and not self._engine.is_of_file(task)]
        loads = [self._load_file(token, path, is_new_code=is_new_code) for token, path in files]
        await asyncio.gather(
            *loads, *(self._load(f"pipeline {task.name}", task.token, partial(self._engine.exchange, task)) for task in others)
        )
        self._seen = self._states(()) | self._seen
        self._changed.clear()

    async def _takes(self, code: set[str]) -> bool:
        """Whether new code can be loaded where tasks run, and here, where the server knows the nodes."""
        drop_compiled(code)
        try:
            async with asyncio.timeout(TRY_TIME):
                await self._engine.try_code()
            self._engine.catalog.replace(reload_nodes(self._nodes))
        except TimeoutError:
            return self._refuse(None, f"the code of the nodes stays as it was: it was not loaded within {TRY_TIME:g} seconds")
        except (RrextError, SystemExit) as error:
            return self._refuse(None, f"the code of the nodes stays as it was: {error}")
        self._sources = LoadedSources(self._nodes)  # as many modules, but others
        self._engine.take_change(None)
        return True

    async def _load_file(self, token: str, path: str, *, is_new_code: bool) -> None:
        async def load() -> None:
            await self._engine.load_again(token, await asyncio.to_thread(_content, path))

        if not await self._load(path, token, load) and is_new_code:  # which counts for the pipeline as it was
            await self._load(f"{path}, as it was,", token, partial(self._engine.load_again, token, None), is_changed=False)

    def _refuse(self, token: str | None, why: str) -> bool:
        log.error("%s", why)
        self._engine.refuse_change(token, why)
        return False

    async def _load(self, what: str, token: str, load: Callable[[], Awaitable[None]], *, is_changed: bool = True) -> bool:
        async with self._places:
            try:
                await load()
            except (RrextError, OSError) as error:
                return self._refuse(token, f"{what} stays as it was: {error}")
            log.warning("%s is loaded anew", what)
            if is_changed:
                self._engine.take_change(token)
            return True


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _state_of(path: str) -> State:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
