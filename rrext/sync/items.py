"""What a sync keeps in step, one item at a time: files, pages, entries of feeds, messages of a mailbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from rrext.errors import RrextError

if TYPE_CHECKING:
    from rrext.sync.state import SentFile

T = TypeVar("T")


class RunInThread(Protocol):
    """Runs what may block, and returns its outcome."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


class ItemContent(msgspec.Struct, frozen=True):
    """The present content of an item.

    `digest` is the hash of the bytes that `open` gives. An equal `stamp` means equal bytes, without reading them. `mime_type`
    is the type that the source declares, if any.
    """

    digest: str
    open: Callable[[], IO[bytes]]
    stamp: str | None = None
    mime_type: str | None = None
    file: IO[bytes] | None = None
    """What `open` gives, if it is open already."""

    def close(self) -> None:
        """Close what is open already."""
        if self.file is not None:
            self.file.close()

    def lasting_stamp(self) -> str | None:
        """The stamp, if every later change must alter it."""
        return self.stamp

    def is_current(self) -> bool:
        """Whether the item still has this content, after it was sent. May block."""
        return True


class SyncItem(Protocol):
    """One item of a source. `problem` says why it cannot be sent, `skipped` why it does not have to be."""

    @property
    def path(self) -> str:
        """Its name for people: as it was given."""
        ...

    @property
    def identity(self) -> str:
        """What tells it from all others, for good; empty for what has no content of its own."""
        ...

    @property
    def size(self) -> int: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def skipped(self) -> str | None: ...
    @property
    def about(self) -> dict[str, Any]:
        """The description of its object."""
        ...

    def skips(self, error: RrextError) -> bool:
        """Whether a failure only says that nothing is read of this item."""
        ...

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> ItemContent:
        """Its content now; that of `sent` may stand in if it did not change, and with `is_stored` need not be readable.

        Raises `OSError` and `RrextError`.
        """
        ...
