"""Sources beside folders and files: lists of addresses (`urls:FILE`), feeds (`feed:ADDRESS-or-FILE`) and mailboxes
(`mbox:FILE`), and the items of each.

A word that begins so is such a source; a file of that name is given with a path in front: `./feed:x`.
"""

from __future__ import annotations

import calendar
import hashlib
import os
import re
import tempfile
from abc import abstractmethod
from collections.abc import Iterable
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from rrext.errors import ClientError, RrextError, Unavailable, UsageError
from rrext.files.naming import UNKNOWN_TYPE, mime_type_of, shown, url_of
from rrext.limits import CLIENT_DEFAULTS, MIB
from rrext.sync.addresses import MAX_IN_MEMORY, MAX_ITEM, PageFetcher, check_address
from rrext.sync.items import ItemContent, RunInThread
from rrext.sync.upload_files import NOTHING_TO_READ, Unreadable, check_root_name

if TYPE_CHECKING:
    import mailbox

    from rrext.sync.state import SentFile

MAX_FEED: Final = 16 * MIB
"""Bytes of a feed; the longest real ones, of all episodes of a broadcast, have some megabytes."""

MAX_LIST: Final = 16 * MIB
"""Bytes of a list of addresses: a hundred thousand of them."""

MAX_NAME: Final = 100
"""Characters of a title or subject in the name of an item."""

NAME_DIGITS: Final = 8
"""Hexadecimal digits of an identity in the name of an item, so that two of one title have two names."""


class SourceError(ClientError, code="source"):
    """A source cannot be read."""


class SourceItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a source that is no folder. A subclass knows its content."""

    path: str
    identity: str
    name: str
    source: str
    size: int = 0
    problem: str | None = None
    skipped: str | None = None
    metadata: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, Any]:
        """The description of the object."""
        metadata = {"source": self.source, **self.metadata}
        path = shown(f"{self.source}/{self.name}")
        name = path if "/" in self.name else self.name  # a name with folders begins with the source, as that of a file
        about: dict[str, Any] = {"name": name, "path": path, "metadata": metadata}
        return {**about, "url": url_of(self.identity)} if self.identity else about

    def skips(self, error: RrextError) -> bool:
        """Whether a failure only says that nothing is read of this item."""
        return error.code in NOTHING_TO_READ

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> ItemContent:
        """Its content now; see `SyncItem`. Raises `OSError` and `RrextError`."""
        raise NotImplementedError


class ListedSource:
    """A source that tells its items. `root` is what the identities of its items begin with."""

    kind: str
    keeps = False
    """Whether items that it tells no more stay in the stores."""

    def __init__(self, given: str, name: str | None) -> None:
        """`given` is what stands behind the kind; `name` stands in for it in what identifies the source."""
        self.given = given
        self.name = name
        self.root = f"{self.kind}:{name or self.place()}"

    @property
    def word(self) -> str:
        """The source as it was given."""
        return f"{self.kind}:{self.given}"

    @property
    def file(self) -> str | None:
        """The path of the file in which it is, if it is in one."""
        return self.given

    def place(self) -> str:
        """What identifies the source, if it has no name: the real path of its file."""
        return os.path.realpath(self.given)

    @abstractmethod
    async def items(self, fetcher: PageFetcher, in_thread: RunInThread) -> list[SourceItem]:
        """Its items. Raises `OSError` and `RrextError`."""

    def identity(self, own: str) -> str:
        """The identity of an item."""
        return f"{self.root}/{own.encode('utf-8', 'replace').decode()}"

    def failed(self, error: Exception) -> SourceItem:
        """The source as an item that cannot be read."""
        reason = error.message if isinstance(error, RrextError) else getattr(error, "strerror", None) or str(error)
        return SourceItem(path=self.word, identity="", name=self.word, source=self.word, problem=reason)

    def close(self) -> None:
        """Close its file."""


class PageItem(SourceItem, frozen=True, kw_only=True):
    """A page at an address that the operator listed."""

    url: str
    fetcher: PageFetcher

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> ItemContent:
        known = sent.stamp if sent is not None and is_stored else None
        return await _page(self.fetcher, self.url, known, sent, of_feed=False)


async def _page(fetcher: PageFetcher, url: str, known: str | None, sent: SentFile | None, *, of_feed: bool) -> ItemContent:
    page = await fetcher.fetch(url, known=known, of_feed=of_feed)
    if page.file is None:
        assert sent is not None
        return ItemContent(sent.digest or "", _unread, sent.stamp)
    file, mime = page.file, page.mime_type
    if mime is None or mime.partition(";")[0].strip().lower() == UNKNOWN_TYPE:
        mime = mime_type_of(urlsplit(page.url).path)
    return ItemContent(page.digest, lambda: file, page.validators, mime, file)


def _unread() -> IO[bytes]:
    raise Unreadable("did not change")


class AddressList(ListedSource):
    """A file with an address on each line; empty lines, and those that begin with `#`, are none."""

    kind = "urls"

    async def items(self, fetcher: PageFetcher, in_thread: RunInThread) -> list[SourceItem]:
        content = await in_thread(lambda: read_bounded(self.given, MAX_LIST))
        source = self.name or _stem(self.given)
        found: dict[str, SourceItem] = {}
        for line in content.decode("utf-8-sig", "replace").splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                url = check_address(line)
            except RrextError as error:
                found[line] = SourceItem(path=line, identity="", name=line, source=source, problem=error.message)
                continue
            if url not in found:
                found[url] = PageItem(
                    path=url, identity=self.identity(url), name=name_of(url), source=source, metadata={"link": url},
                    url=url, fetcher=fetcher,
                )  # fmt: skip
        return list(found.values())


def name_of(url: str) -> str:
    """The name of a page: host, path and query of its address."""
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    return "/".join(filter(None, [parts.netloc.rpartition("@")[2], path])) + (f"?{parts.query}" if parts.query else "")


class EntryItem(SourceItem, frozen=True, kw_only=True):
    """An entry of a feed: its own text, or the page that it leads to."""

    digest: str
    """Of all that the feed says of it."""
    text: bytes
    link: str | None
    fetcher: PageFetcher

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> ItemContent:
        if self.link is None:
            return _of_bytes(self.text, self.digest)
        if is_stored and sent is not None and sent.stamp == self.digest and sent.digest:
            return ItemContent(sent.digest, _unread, sent.stamp)
        page = await _page(self.fetcher, self.link, None, sent, of_feed=True)
        return msgspec.structs.replace(page, stamp=self.digest)


def _of_bytes(text: bytes, stamp: str) -> ItemContent:
    from io import BytesIO

    return ItemContent(hashlib.sha256(text).hexdigest(), lambda: BytesIO(text), stamp, "text/html; charset=utf-8")


class NewsFeed(ListedSource):
    """A feed (RSS, Atom, RDF), at an address or in a file. An entry that it has no more stays in the stores."""

    kind = "feed"
    keeps = True

    @property
    def is_address(self) -> bool:
        """Whether it is at an address."""
        return self.given.startswith(("http://", "https://"))

    @property
    def file(self) -> str | None:
        return None if self.is_address else self.given

    def place(self) -> str:
        return self.given if self.is_address else super().place()

    async def items(self, fetcher: PageFetcher, in_thread: RunInThread) -> list[SourceItem]:
        if not self.is_address:
            content = await in_thread(lambda: read_bounded(self.given, MAX_FEED))
            return await in_thread(lambda: self._parsed(content, {}, fetcher))
        page = await fetcher.fetch(self.given, most=MAX_FEED)
        headers = {"content-location": page.url, **({"content-type": page.mime_type} if page.mime_type else {})}
        assert page.file is not None
        with page.file as file:
            content = file.read()
        return await in_thread(lambda: self._parsed(content, headers, fetcher))

    def _parsed(self, content: bytes, headers: dict[str, str], fetcher: PageFetcher) -> list[SourceItem]:
        try:
            import feedparser
        except ImportError:
            raise Unavailable(
                "a feed needs the package feedparser", hint='Install it with: pip install "rrext[knowledge]"'
            ) from None
        # It takes a text for an address or a path, and bytes for the feed itself; it raises nothing, and says so by `bozo`.
        found: Any = feedparser.parse(content, response_headers=headers)
        if not found.entries and (found.get("bozo") or not found.get("version")):
            why = _line(found.get("bozo_exception"))[:200]
            raise SourceError(f"is no feed: {why}" if why else "is no feed")
        title = _line(found.feed.get("title")) or self.given
        items: dict[str, SourceItem] = {}
        for entry in found.entries:
            item = self._item(entry, self.name or title.replace("/", " "), title, fetcher)
            items.setdefault(item.identity, item)  # the first of several with one id is the newest
        return list(items.values())

    def _item(self, entry: Any, source: str, feed: str, fetcher: PageFetcher) -> SourceItem:
        texts = [part for part in entry.get("content") or () if part.get("value")]
        html = [part for part in texts if "html" in (part.get("type") or "")]
        own = (html or texts or [{"value": ""}])[0]["value"]
        summary, link, title = entry.get("summary") or "", entry.get("link") or None, _line(entry.get("title"))
        if link == entry.get("id") and "://" not in (link or ""):
            link = None  # an id stands in for a link that there is not
        dates = [entry.get(f"{name}_parsed") for name in ("updated", "published") if f"{name}_parsed" in entry]
        digest = _hash_of(repr([title, own, summary, link, dates]))
        key = str(
            entry.get("id") or link or hashlib.sha256(f"{title}\0{own}\0{summary}".encode("utf-8", "replace")).hexdigest()
        )
        metadata = {
            "feed": feed,
            "title": title or None,
            "author": _line(entry.get("author")) or None,
            "link": _line(link) or None,
            "modified": _seconds(next(filter(None, dates), None)),
        }
        problem = None
        leads = link if not own and link else None
        if leads is not None:
            try:
                leads = check_address(leads)
            except RrextError as error:
                problem = error.message
        elif not own and not summary and not title:
            problem = "has no text"
        return EntryItem(
            path=shown(f"{self.word}: {title or key}"),
            identity=self.identity(key),
            name=_named(title or key, key, ".html"),
            source=source,
            problem=problem,
            metadata={name: value for name, value in metadata.items() if value is not None},
            digest=digest,
            text=_document(title, own or summary),
            link=leads,
            fetcher=fetcher,
        )


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _document(title: str, body: str) -> bytes:
    import html

    head = f"<head><meta charset=utf-8><title>{html.escape(title)}</title></head>"
    heading = f"<h1>{html.escape(title)}</h1>" if title else ""
    return f"<!doctype html><html>{head}<body>{heading}\n{body}</body></html>".encode("utf-8", "replace")


def _seconds(parsed: Any) -> float | None:
    try:
        return None if parsed is None else float(calendar.timegm(parsed))
    except (OverflowError, TypeError, ValueError):
        return None


class Mailbox(ListedSource):
    """An mbox file: each message is an object, known by its Message-ID or else by its content."""

    kind = "mbox"

    def __init__(self, given: str, name: str | None) -> None:
        super().__init__(given, name)
        self._box: mailbox.mbox | None = None
        self._lock = Lock()

    async def items(self, fetcher: PageFetcher, in_thread: RunInThread) -> list[SourceItem]:
        return await in_thread(self._listed)

    def _listed(self) -> list[SourceItem]:
        import mailbox

        if not os.path.isfile(self.given):
            os.stat(self.given)
            raise Unreadable("is no file of mail")
        with self._lock:
            self._box = box = mailbox.mbox(self.given, create=False)
            items: dict[str, MessageItem] = {}
            for key in box.iterkeys():
                item = self._message(box, key)
                if item.identity in items:
                    if items[item.identity].digest == item.digest:
                        continue
                    item = msgspec.structs.replace(item, identity=f"{item.identity} {item.digest}")
                items[item.identity] = item
        if not items and os.path.getsize(self.given):
            raise Unreadable("is no file of mail")
        return list(items.values())

    def _message(self, box: mailbox.mbox, key: Any) -> MessageItem:
        from email.parser import BytesHeaderParser
        from email.utils import mktime_tz, parsedate_tz

        with box.get_file(key) as file:
            head = BytesHeaderParser().parsebytes(file.read(MAX_HEADERS))
        with box.get_file(key) as file:
            digest, size = _digest(file)
        own = _line(_header(head, "Message-ID")) or digest
        subject = _line(_header(head, "Subject"))
        parsed = parsedate_tz(_header(head, "Date"))
        try:
            modified = None if parsed is None else float(mktime_tz(parsed))
        except (OverflowError, ValueError):
            modified = None
        problem = f"has more than {MAX_ITEM:,} bytes" if size > MAX_ITEM else None
        return MessageItem(
            path=shown(f"{self.word}: {own}"),
            identity=self.identity(own),
            name=_named(subject or own, own, ".eml"),
            source=self.name or _stem(self.given),
            size=size,
            problem=problem,
            metadata={} if modified is None else {"modified": modified},
            digest=digest,
            key=key,
            box=self,
        )

    def copied(self, key: Any, digest: str) -> IO[bytes]:
        """The content of a message in a file of its own. Raises `Unreadable` if the mailbox changed meanwhile."""
        copy = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 – its reader closes it
        hashed = hashlib.sha256()
        with self._lock:
            if self._box is None:
                raise Unreadable("is closed")
            with self._box.get_file(key) as file:
                while piece := file.read(CLIENT_DEFAULTS.write_chunk):
                    hashed.update(piece)
                    copy.write(piece)
        if hashed.hexdigest() != digest:
            copy.close()
            raise Unreadable("changed while it was read: the next sync reads it again")
        copy.seek(0)
        return copy

    def close(self) -> None:
        with self._lock:
            box, self._box = self._box, None
            if box is not None:
                box.close()


MAX_HEADERS: Final = 256 * 1024
"""Bytes of a message in which its headers are; servers of mail take far less."""


class MessageItem(SourceItem, frozen=True, kw_only=True):
    """A message of a mailbox."""

    digest: str
    key: Any
    box: Mailbox

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> ItemContent:
        return ItemContent(self.digest, lambda: self.box.copied(self.key, self.digest), self.digest, "message/rfc822")


def _digest(file: Any) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while piece := file.read(CLIENT_DEFAULTS.write_chunk):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _header(head: Any, name: str) -> str:
    """A header as text; "" for none, or one that cannot be decoded."""
    from email.errors import HeaderParseError
    from email.header import decode_header, make_header

    given = str(head.get(name) or "")
    try:
        return str(make_header(decode_header(given)))
    except (HeaderParseError, LookupError, UnicodeError, ValueError):
        return given


def _line(text: Any) -> str:
    """A text on one line, without what no JSON or path can hold."""
    words = " ".join(str(text or "").split())
    return "".join(each for each in words if each.isprintable()).encode("utf-8", "replace").decode()


def _named(title: str, identity: str, extension: str) -> str:
    """The name of an item, which no other one of its source has."""
    digits = _hash_of(identity)[:NAME_DIGITS]
    words = " ".join(re.sub(r"[/\\]", " ", title).split())[:MAX_NAME].strip()
    return f"{words} {digits}{extension}"


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def read_bounded(path: str, most: int) -> bytes:
    """The content of a file of at most `most` bytes. Raises `OSError` and `Unreadable`."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Unreadable(f"has more than {most:,} bytes")
    return content


KINDS: Final[tuple[type[ListedSource], ...]] = (AddressList, NewsFeed, Mailbox)
PREFIXES: Final = tuple(f"{each.kind}:" for each in KINDS)
"""What the root of a source begins with that is no folder."""


def split_sources(words: Iterable[str], name: str | None) -> tuple[list[str], list[ListedSource]]:
    """The paths and the other sources among some words. `name` is that of the only one. Raises `UsageError`."""
    if name is not None:
        check_root_name(name)
    paths: list[str] = []
    sources: dict[str, ListedSource] = {}
    for word in words:
        kind, colon, given = word.partition(":")
        made = next((each for each in KINDS if colon and each.kind == kind), None)
        if made is None:
            paths.append(word)
        elif not given:
            raise UsageError(
                f"{word} names no source: {kind}: is followed by a file{' or an address' if made is NewsFeed else ''}"
            )
        else:
            source = made(given, name)
            sources.setdefault(source.root, source)
    if name is not None and sources and len(paths) + len(sources) != 1:
        raise UsageError(f"a name of a root is that of one source, and {len(paths) + len(sources)} are given")
    return paths, list(sources.values())
