"""`rrext send --sync --watch`: which sources change, until it is cancelled."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from anyio.abc import ObjectSendStream, TaskGroup

from rrext.errors import Unavailable
from rrext.sync.sources import split_sources

if TYPE_CHECKING:
    from watchfiles import Change

DEBOUNCE: Final = 800
"""Milliseconds in which further changes join a burst, such as the copying of a folder."""

STEP: Final = 100
"""Milliseconds of silence that end a burst."""

LOOK: Final = 500
"""Milliseconds after which a watch without changes tells that it has begun."""

MAX_BURSTS: Final = 100
"""Bursts that wait while a sync runs; then the watches wait, and the system keeps what changes."""


def require_watching() -> None:
    """Raise `Unavailable` if files cannot be watched."""
    try:
        import watchfiles  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        hint = 'Install it with: pip install "rrext[knowledge]"'
        raise Unavailable("--watch needs the package watchfiles", hint=hint) from None


async def changed_sources(words: Sequence[str], own: Collection[str]) -> AsyncIterator[list[str]]:
    """The sources among `words` that changed, after each burst of changes; first all of them, once changes are seen.

    `own` are paths whose changes do not count. A folder may go and come back. What is at an address is not watched.
    """
    places = await to_thread.run_sync(places_of, words)
    roots = set(places.values())
    send, receive = anyio.create_memory_object_stream[set[str]](len(words) + MAX_BURSTS)
    async with anyio.create_task_group() as tasks, send, receive:
        tasks.start_soon(_watch_above, send, roots, tasks)
        for root in roots:
            tasks.start_soon(_watch_below, send, root)
        for _ in range(1 + len(roots)):
            await receive.receive()  # each watch tells its beginning
        yield list(words)
        async for changes in receive:
            while True:
                try:
                    changes |= receive.receive_nowait()
                except anyio.WouldBlock:
                    break
            changes -= set(own)
            if found := [word for word, place in places.items() if _touched(place, changes)]:
                yield found


def places_of(words: Sequence[str]) -> dict[str, str]:
    """Source → the real path of its file or folder. What is at an address has none."""
    paths, others = split_sources(words, None)
    files = {each.word: each.file for each in others if each.file is not None}
    return {word: os.path.realpath(path) for word, path in [*zip(paths, paths, strict=True), *files.items()]}


def _touched(place: str, changes: Collection[str]) -> bool:
    below = os.path.join(place, "")
    return any(change == place or change.startswith(below) for change in changes)


async def _watch_above(send: ObjectSendStream[set[str]], places: set[str], tasks: TaskGroup) -> None:
    """Tell of places that come, go or change themselves. The watch of a folder that comes back begins again."""
    from watchfiles import Change  # an optional package

    folders = {os.path.dirname(place) for place in places}
    there = [folder for folder in sorted(folders) if await anyio.Path(folder).is_dir()]
    async for burst in _bursts(*there, recursive=False):
        for place in {path for change, path in burst if change is Change.added} & places:
            tasks.start_soon(_watch_below, send, place)
        await send.send({path for _, path in burst} & places)


async def _watch_below(send: ObjectSendStream[set[str]], folder: str) -> None:
    """Tell of changes in a folder, until it goes, and of the beginning."""
    from watchfiles import Change

    if not await anyio.Path(folder).is_dir():
        await send.send({folder})
        return  # a file is seen from above, as another one may take its place
    try:
        async for burst in _bursts(folder, recursive=True):
            await send.send({path for _, path in burst} or {folder})
            if (Change.deleted, folder) in burst:
                return
    except FileNotFoundError:
        await send.send({folder})  # it went before the watch began


async def _bursts(*folders: str, recursive: bool) -> AsyncIterator[set[tuple[Change, str]]]:
    """The changes below some folders; first none, when they begin to be seen."""
    from watchfiles import awatch

    is_begun = False
    async for burst in awatch(
        *folders, watch_filter=None, recursive=recursive, debounce=DEBOUNCE, step=STEP, rust_timeout=LOOK,
        yield_on_timeout=True, ignore_permission_denied=True,
    ):  # fmt: skip
        if burst or not is_begun:
            is_begun = True
            yield burst
