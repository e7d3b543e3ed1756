"""`Library`: the folder of the catalogs, and the one place that decides which of them a call may read and write."""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rrext.errors import ToolError
from rrext.nodes.base.node import Tenant, content_tenant, namespace_of
from rrext.nodes.knowledge.addresses import opened
from rrext.nodes.knowledge.partition import FILE, Partition, StoredDocument, document_not_found
from rrext.nodes.knowledge.space_list import SpaceList

if TYPE_CHECKING:
    from rrext.tools.context import ToolContext

OPEN_PARTITIONS: Final = 64
"""Catalogs that are open at once, with a few descriptors each; of more, the one that rested longest is closed."""

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
        with self._opened(self.tenants(ctx), is_made=False) as opened:
            yield View(opened)

    @contextmanager
    def own(self, ctx: ToolContext) -> Iterator[Partition]:
        """The catalog that a call writes to: that of its space, or the user's own. Raises as `view`."""
        tenant = self.tenants(ctx)[0]
        with self._opened([tenant], is_made=True) as opened:
            yield opened[0][1]

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
        with self._lock:
            self._is_closed = True
            while self._open:
                self._leave(self._open.popitem()[1])
        self.spaces.close()

    def _place(self, tenant: Tenant) -> str:
        return os.path.join(self.folder, str(namespace_of(tenant)))

    @contextmanager
    def _opened(self, tenants: Sequence[Tenant], *, is_made: bool) -> Iterator[list[tuple[Tenant, Partition]]]:
        taken: list[tuple[Tenant, Partition]] = []
        try:
            for tenant in tenants:
                partition = self._take(tenant, is_made=is_made)
                if partition is not None:
                    taken.append((tenant, partition))
            yield taken
        finally:
            with self._lock:
                for _, partition in taken:
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
    """The catalogs that a call may read, its own first."""

    def __init__(self, opened: Sequence[tuple[Tenant, Partition]]) -> None:
        self.partitions: Sequence[Partition] = [partition for _, partition in opened]
        self.spaces: Sequence[str | None] = [space for (_, space), _ in opened]
        """The space of each catalog; None for that of a user."""

    def behind(self, key: str) -> Sequence[Partition]:
        """The catalogs from that of a key on; all if there is none. Pages of a search go through them in this order."""
        keys = [partition.key for partition in self.partitions]
        return self.partitions[keys.index(key) :] if key in keys else self.partitions

    def find(self, public_id: str) -> tuple[Partition, StoredDocument]:
        """A document by its id or address. Raises `ToolError` (`document_not_found`), also for what others have."""
        public_id, _ = opened(public_id)
        for partition in self.partitions:
            document = partition.document(public_id)
            if document is not None:
                return partition, document
        raise document_not_found(public_id)
