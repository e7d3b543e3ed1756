"""`Library`: the folder of the catalogs, and the one place that decides which of them a call may read and write.

Passages have addresses, `rrext-document:ID#char=START,END`, for clients that open what a hit, a read or an analysis cites. The
part behind `#` is that of RFC 5147: characters from 0 on, the end not included. An address says nothing of users and spaces: a
caller opens the document only if the caller may read it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rrext.errors import ToolError
from rrext.nodes.base.node import Tenant, content_tenant, namespace_of
from rrext.nodes.base.space_list import SpaceList
from rrext.nodes.knowledge.partition import FILE, Partition, StoredDocument, document_not_found

if TYPE_CHECKING:
    from rrext.tools.context import ToolContext

log: Final = logging.getLogger("rrext.knowledge")

CLOSING: Final = 3.0
"""Seconds to merge indexes when the catalogs are closed: half a gigabyte of new texts."""

OPEN_PARTITIONS: Final = 64
"""Catalogs that are open at once, with a few descriptors each; of more, the one that rested longest is closed."""

SCHEME: Final = "rrext-document:"
_ADDRESS: Final = re.compile(r"rrext-document:([0-9a-z]{1,80})(?:#char=(\d{1,15}),(\d{1,15}))?", re.ASCII)

GONE: Final = ".gone-"
"""What the name of a folder begins with that is being deleted."""


class Library:
    """The catalogs of all tenants in one folder. Its methods block, from any thread."""

    def __init__(self, folder: str) -> None:
        """`folder` is made at the first write."""
        self.folder = folder
        self.spaces = SpaceList(folder)
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Partition] = OrderedDict()
        self._is_closed = False

    @contextmanager
    def view(self, ctx: ToolContext) -> Iterator[View]:
        """What a call may read: the content of its space, or the user's own and that of all spaces of the user.

        Raises `ToolError` (`space_not_found`) for a space that the user is no member of.
        """
        with closing(View(self.tenants(ctx), self._using)) as view:
            yield view

    @contextmanager
    def own(self, ctx: ToolContext) -> Iterator[Partition]:
        """The catalog that a call writes to, made if there is none: that of its space, or the user's own. Raises as `view`."""
        with self._using(self.tenants(ctx)[0], is_made=True) as partition:
            assert partition is not None, "it is made"
            yield partition

    def own_if_any(self, ctx: ToolContext) -> AbstractContextManager[Partition | None]:
        """The same; None if there is none. Raises as `view`."""
        return self._using(self.tenants(ctx)[0])

    def tenants(self, ctx: ToolContext) -> list[Tenant]:
        """Whose content a call may read; the first is whose it writes. Raises as `view`."""
        user, space = ctx.user_id, ctx.space_id
        if space is not None:
            self.spaces.require(user, space)
            return [content_tenant(user, space)]
        spaces = [] if user is None else self.spaces.spaces_of(user)
        return [content_tenant(user, None), *(content_tenant(user, one) for one in spaces)]

    def remove(self, tenant: Tenant) -> bool:
        """Delete all that a tenant has; False if there is nothing. Calls that are reading it end with what they have."""
        place = self._place(tenant)
        aside = os.path.join(self.folder, f"{GONE}{uuid4().hex}")
        with self._lock:
            kept = self._open.pop(str(namespace_of(tenant)), None)
            if kept is not None:
                self._leave(kept)
            try:
                os.rename(place, aside)
            except FileNotFoundError:
                return False
        shutil.rmtree(aside)
        return True

    def close(self) -> None:
        """Close all catalogs, those in use when their calls end."""
        self.merge(CLOSING)
        with self._lock:
            self._is_closed = True
            while self._open:
                self._leave(self._open.popitem()[1])
        self.spaces.close()

    def _place(self, tenant: Tenant) -> str:
        return os.path.join(self.folder, str(namespace_of(tenant)))

    def merge(self, seconds: float | None = None) -> None:
        """Make the indexes of the catalogs that have changed much as fast as they can be, in at most so many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            due = [partition for partition in self._open.values() if partition.is_scattered]
            for partition in due:
                partition.users += 1
        for partition in due:
            try:
                partition.merge(until)
            except ToolError as error:  # a search goes on without it
                log.warning("the index of a catalog of documents was not merged: %s", error.message)
            finally:
                self._release(partition)

    @contextmanager
    def _using(self, tenant: Tenant, *, is_made: bool = False) -> Iterator[Partition | None]:
        partition = self._take(tenant, is_made=is_made)
        try:
            yield partition
        finally:
            if partition is not None:
                self._release(partition)

    def _release(self, partition: Partition) -> None:
        with self._lock:
            partition.users -= 1
            if self._open.get(partition.key) is not partition:
                self._leave(partition)
            self._close_rested()

    def _take(self, tenant: Tenant, *, is_made: bool) -> Partition | None:
        """The catalog of a tenant, open and in use; None if there is none and it is not to be made."""
        key, place = str(namespace_of(tenant)), self._place(tenant)
        with self._lock:
            if self._is_closed:
                raise ToolError("This catalog is closed: its pipeline ends", code="catalog_failed")
            inode = None
            with suppress(FileNotFoundError):
                inode = os.stat(os.path.join(place, FILE)).st_ino
            partition = self._open.get(key)
            if partition is not None and partition.inode != inode:  # it was deleted, maybe by another process
                del self._open[key]
                self._leave(partition)
                partition = None
            if partition is None:
                if inode is None and not is_made:
                    return None
                partition = self._open[key] = Partition(place, key)
            partition.users += 1
            self._open.move_to_end(key)
            self._close_rested()
            return partition

    def _close_rested(self) -> None:
        """Close what rested longest, if too many catalogs are open."""
        excess = len(self._open) - OPEN_PARTITIONS
        for partition in [partition for partition in self._open.values() if not partition.users][: max(0, excess)]:
            del self._open[partition.key]
            partition.close()

    def _leave(self, partition: Partition) -> None:
        """Close a catalog that nobody finds any more, unless a call uses it, which closes it then."""
        if not partition.users:
            partition.close()


class View:
    """The catalogs that a call may read, its own first. A user of many spaces has not all of them open at once."""

    def __init__(self, tenants: Sequence[Tenant], using: Callable[[Tenant], AbstractContextManager[Partition | None]]) -> None:
        self._tenants = {str(namespace_of(tenant)): tenant for tenant in tenants}
        self._using = using
        self._kept = ExitStack()

    def parts(self, key: str = "") -> Iterator[tuple[str | None, Partition]]:
        """The catalogs from that of a key on, or all, each with its space: None for that of a user.

        Pages of a search go through them in this order. Each is open until the next one is asked for, unless it is kept.
        """
        keys = list(self._tenants)
        for each in keys[keys.index(key) if key in keys else 0 :]:
            tenant = self._tenants[each]
            with self._using(tenant) as partition:
                if partition is not None:
                    yield tenant[1], partition

    def keep(self, partition: Partition) -> Partition:
        """Keep a catalog open until the call ends."""
        self._kept.enter_context(self._using(self._tenants[partition.key]))
        return partition

    def find(self, public_id: str) -> tuple[Partition, StoredDocument]:
        """A document by its id or address. Raises `ToolError` (`document_not_found`), also for what others have."""
        public_id, _ = opened(public_id)
        for _, partition in self.parts():
            document = partition.document(public_id)
            if document is not None:
                return self.keep(partition), document
        raise document_not_found(public_id)

    def close(self) -> None:
        """Give back what is kept open."""
        self._kept.close()


def address_of(public_id: str, start: int | None = None, end: int | None = None) -> str:
    """The address of a document, or of the characters from `start` to `end` in it."""
    return f"{SCHEME}{public_id}" + ("" if start is None or end is None else f"#char={start},{end}")


def ids_of(written: Iterable[str] | None) -> list[str]:
    """The ids of documents that are written as ids or addresses."""
    return [opened(each)[0] for each in written or ()]


def opened(written: str) -> tuple[str, tuple[int, int] | None]:
    """The id of a document that is written as an id or as an address, and the range that the address names."""
    found = _ADDRESS.fullmatch(written)
    if found is None:
        return written, None
    return found[1], None if found[2] is None else (int(found[2]), int(found[3]))
