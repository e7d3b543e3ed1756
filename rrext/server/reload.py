"""`rrext serve --reload`: pipelines and code of nodes that change count from the next call; what is broken changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Final

from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError
from rrext.pipefile.catalog.plugins import reload_nodes, source_files

INTERVAL: Final = 0.3
"""Seconds between two looks at the files. A change counts when two looks see the same: an editor may write in steps."""

log: Final = logging.getLogger("rrext.reload")

State = tuple[int, int, int] | None
"""Size, time and number of a file; None if it is not there."""


class Reloader:
    """Watches the files of a server's pipelines, token → path, and the code of its own nodes, as `--nodes` names it.

    It looks at the files itself, at a few of them, as an editor replaces files and folders may be mounted.
    """

    def __init__(self, engine: LocalEngine, files: Mapping[str, str], nodes: Sequence[str]) -> None:
        self._engine = engine
        self._files = dict(files)
        self._nodes = list(nodes)
        self._seen: dict[str, State] = {}
        self._seen = self._states()

    async def run(self) -> None:
        """Look until it is cancelled."""
        last = self._seen
        while True:
            await asyncio.sleep(INTERVAL)
            now = await asyncio.to_thread(self._states)
            self._seen = now | self._seen  # a module that a tool imports late is no change
            if now == last and now != self._seen:
                changed = {path for path, state in now.items() if state != self._seen[path]}
                self._seen = now
                await self._reload(changed)
                self._seen |= {path: state for path, state in self._states().items() if path not in self._seen}
            last = now

    def _states(self) -> dict[str, State]:
        paths = [*self._files.values(), *source_files(self._nodes).values()]
        return {path: _state_of(path) for path in [*paths, *self._seen]}

    async def _reload(self, changed: set[str]) -> None:
        is_code = not changed <= set(self._files.values())
        if is_code:
            try:
                self._engine.catalog.replace(reload_nodes(self._nodes))
            except (RrextError, SystemExit) as error:
                log.error("the code of the nodes stays as it was: %s", error)
                return
        for token, path in self._files.items():
            if is_code or path in changed:
                await self._exchange(token, path)

    async def _exchange(self, token: str, path: str) -> None:
        try:
            text = await asyncio.to_thread(_content, path)
            end = self._engine.exchange(self._engine.task(token), text)
        except (RrextError, OSError) as error:
            log.error("%s stays as it was: %s", path, error)
            return
        self._engine.host.spawn(end, f"end of what {path} was")
        log.warning("%s is loaded anew", path)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _state_of(path: str) -> State:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
