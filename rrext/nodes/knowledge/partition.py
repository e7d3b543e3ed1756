"""`Partition`: the documents of one tenant in an SQLite file of their own, with the index of their texts.

Nothing of one tenant stands in the file of another, so no count, no statistic and no time of a query depends on what others
have. The texts are UTF-8, in a table of their own: what walks over names and folders reads none of them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sqlite3
import threading
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.text_search.text_map import TextMap, lines_of, marks_of, text_map
from rrext.nodes.text_search.trigrams import folded

APPLICATION: Final = 0x7272_6B64
"""The application id in the header of a catalog."""
VERSION: Final = 1
PATIENCE: Final = 10.0
"""Seconds to wait for another process that writes: a document takes milliseconds, the largest ones a second."""
FILE: Final = "catalog.sqlite"
"""The name of the file in the folder of a tenant."""
DERIVED: Final = "derived"
"""The folder of what is made of texts, in a folder for each digest of one; it goes with the last document of that text."""
CACHE: Final = 4000
"""KiB of pages that a connection for reads keeps: a search for a hundred texts takes twice as long with half of them."""
MOST_IDLE: Final = 2
"""Connections for reads that are kept for the next calls."""
FEW: Final = 20
"""Changed texts that are never too many for the index."""
SCATTERED: Final = 16
"""The part of the texts, one of so many, that may change before the index is merged."""
MERGED: Final = 500
"""Pages of the index that are merged in one write: it takes 60 ms, which another writer waits."""
GRAMS: Final = "tokenize = 'trigram case_sensitive 1', detail = none, content = ''"
"""An index of trigrams that keeps no text and no positions: a fifth of the size of the texts. The texts decide."""

SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS source (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS folder (
    number INTEGER PRIMARY KEY, source INTEGER NOT NULL REFERENCES source, parent INTEGER REFERENCES folder,
    name TEXT NOT NULL, path TEXT NOT NULL, documents INTEGER NOT NULL DEFAULT 0, UNIQUE (source, path)
);
CREATE INDEX IF NOT EXISTS folder_inner ON folder (parent, name);
CREATE TABLE IF NOT EXISTS document (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, object TEXT NOT NULL UNIQUE,
    folder INTEGER NOT NULL REFERENCES folder, name TEXT NOT NULL, path TEXT NOT NULL, folded TEXT NOT NULL,
    extension TEXT NOT NULL, type TEXT NOT NULL, feed TEXT, modified REAL, added REAL NOT NULL,
    characters INTEGER NOT NULL, lines INTEGER NOT NULL, pages INTEGER, sheets INTEGER NOT NULL, digest TEXT NOT NULL,
    signature TEXT
);
CREATE INDEX IF NOT EXISTS document_folder ON document (folder, name, number);
CREATE INDEX IF NOT EXISTS document_folded ON document (folded);
CREATE INDEX IF NOT EXISTS document_extension ON document (extension);
CREATE INDEX IF NOT EXISTS document_sheets ON document (sheets) WHERE sheets > 0;
CREATE INDEX IF NOT EXISTS document_feed ON document (feed) WHERE feed IS NOT NULL;
CREATE TABLE IF NOT EXISTS about (
    number INTEGER PRIMARY KEY REFERENCES document, metadata TEXT NOT NULL, sheets TEXT NOT NULL, pages BLOB,
    marks BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS content (number INTEGER PRIMARY KEY REFERENCES document, text BLOB NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS grams USING fts5 (text, {GRAMS});
CREATE VIRTUAL TABLE IF NOT EXISTS name_grams USING fts5 (path, {GRAMS});
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""

COLUMNS: Final = (
    "document.number, document.id, document.object, source.name, folder.path, document.name, document.type, document.feed, "
    "document.modified, document.added, document.characters, document.lines, document.pages, document.sheets, "
    "document.digest, document.signature"
)
JOINED: Final = "document JOIN folder ON folder.number = document.folder JOIN source ON source.number = folder.source"
ROOT: Final = ""
"""The path of the folder of a source itself."""


class Sheet(msgspec.Struct, frozen=True):
    """A table of a document: its name, and where its Markdown stands in the text, in characters."""

    name: str
    start: int
    end: int


class DocumentDraft(msgspec.Struct, frozen=True):
    """A document to store. `folder` is the path below the source, `pages` where each page begins, if there are pages."""

    object_id: str
    source: str
    folder: str
    name: str
    text: str
    mime_type: str
    metadata: dict[str, Any]
    sheets: tuple[Sheet, ...] = ()
    pages: tuple[int, ...] = ()
    feed: str | None = None
    modified: float | None = None
    signature: str | None = None


class StoredDocument(msgspec.Struct, frozen=True):
    """A stored document without its text. `modified` and `added` are seconds since 1970, `pages` is None without pages."""

    number: int
    id: str
    object_id: str
    source: str
    folder: str
    name: str
    mime_type: str
    feed: str | None
    modified: float | None
    added: float
    characters: int
    lines: int
    pages: int | None
    sheets: int
    digest: str
    signature: str | None

    @property
    def path(self) -> str:
        """Source, folders and name."""
        return "/".join(filter(None, (self.source, self.folder, self.name)))


class Partition:
    """The catalog of one tenant. Its methods block, from any thread; reads run at any time, writes one after the other.

    Every change is in the hands of the operating system when its method returns. Failures are `ToolError`.
    """

    def __init__(self, folder: str, key: str) -> None:
        """Open the file in `folder`, or make it. `key` names the partition in cursors. Raises `ToolError`."""
        self.folder = folder
        self.key = key
        self.path = os.path.join(folder, FILE)
        self._shown = os.path.join(os.path.basename(folder), FILE)  # where the folder is concerns no client
        self._write_lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._removed: set[str] = set()  # digests of documents that a write has removed
        self._is_closed = False
        self._changes = self._known = 0  # changed texts since the last merge, and texts at that time
        self.users = 0
        """The calls that use it now; the `Library` counts them."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with self._failures():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self.inode = os.stat(self.path).st_ino
            self._writer = self._connected()
            try:
                is_made = self._check()
                if not is_made:  # its map of pages leads into the middle of a long text: a read there takes a twentieth
                    self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
                self._writer.execute("PRAGMA journal_mode = WAL")
                self._writer.execute("PRAGMA synchronous = NORMAL")
                if not is_made:  # which would wait for another process that writes
                    self._writer.executescript(SCHEMA)
            except BaseException:
                self._writer.close()
                raise

    def _connected(self) -> sqlite3.Connection:
        rows = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        rows.execute("PRAGMA trusted_schema = OFF")
        return rows

    def _check(self) -> bool:
        """Whether the tables are there. Raises `ToolError` for a file that this version cannot use."""
        asked = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        application, version, tables = (self._writer.execute(question).fetchone()[0] for question in asked)
        if tables and application != APPLICATION:
            raise ToolError(
                f'"{self._shown}" is a database of something else',
                code="catalog_failed",
                hint="Give the catalog another folder.",
            )
        if version > VERSION:
            raise ToolError(f'"{self._shown}" was written by a newer rrext', code="catalog_failed", hint="Use that one.")
        return version == VERSION

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (UnicodeEncodeError, OverflowError):
            raise InvalidArguments.at(
                "/input", "holds half of a character, or a number of more than 64 bits, which no document has"
            ) from None
        except (sqlite3.Error, OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            if self._is_closed:
                raise ToolError("This catalog is closed: its pipeline ends", code="catalog_failed") from None
            if not os.path.exists(self.path):
                raise ToolError(
                    "The documents were removed while this call read them", code="catalog_failed", hint="Call again."
                ) from None
            number = getattr(error, "sqlite_errorcode", 0)
            is_value = isinstance(error, ValueError) or "decode to UTF-8" in str(error)
            if is_value or number & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise ToolError(
                    f'The catalog "{self._shown}" is damaged: {error}',
                    code="catalog_damaged",
                    hint="Move it away, below the `path` of the node, with all files that begin with its name; the next "
                    "`rrext send --sync` fills it again.",
                ) from None
            raise ToolError(
                f'The catalog "{self._shown}" cannot be used: {getattr(error, "strerror", None) or error}',
                code="catalog_failed",
                hint="Look at its rights, the room on its disk, and at other processes that use it.",
            ) from None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for reads, all of one state. Raises `ToolError` for a failure of the database within."""
        with self._failures():
            try:
                rows = self._idle.pop()
            except IndexError:
                rows = self._connected()
                rows.execute("PRAGMA query_only = ON")
                rows.execute(f"PRAGMA cache_size = -{CACHE}")
            try:
                rows.execute("BEGIN")
                yield rows
            except BaseException:
                rows.close()
                raise
            rows.execute("COMMIT")
            if len(self._idle) < MOST_IDLE:
                self._idle.append(rows)
            else:
                rows.close()
            if self._is_closed:
                self._drop_idle()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._failures(), self._write_lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                self._removed = set()
                if self._writer.in_transaction:  # a full disk has ended it already
                    self._writer.execute("ROLLBACK")
                raise
            removed, self._removed = self._removed, set()
            self.drop_derived(removed)

    def derived(self, digest: str) -> str:
        """The folder for what is made of the text with this digest."""
        return os.path.join(self.folder, DERIVED, digest)

    def drop_derived(self, digests: Iterable[str] | None = None) -> None:
        """Delete what was made of texts that no document has any more: of these, or of all, as after a process was killed."""
        within = os.path.join(self.folder, DERIVED)
        with suppress(FileNotFoundError):
            made = (
                set(os.listdir(within)) if digests is None else {name for name in digests if os.path.isdir(self.derived(name))}
            )
            if not made:
                return
            asked = "SELECT DISTINCT digest FROM document WHERE digest IN (SELECT value FROM json_each(?))"
            with self.reading() as rows:
                made.difference_update(digest for (digest,) in rows.execute(asked, (msgspec.json.encode(made).decode(),)))
            for digest in made:
                shutil.rmtree(self.derived(digest), ignore_errors=True)

    @property
    def is_scattered(self) -> bool:
        """Whether so much was written that queries of the index look at many small parts of it."""
        return self._changes >= FEW and self._changes * SCATTERED >= self._known

    def merge(self, until: float | None) -> None:
        """Merge the parts of the index of texts, up to a moment of the clock: a tenth of the time for a query of a rare word.

        It takes 6 s of processor time for 1 GB of texts, in steps that other writes go between.
        """
        pages = -MERGED  # which takes all parts there are; the next steps go on with these
        changed = 2
        while changed > 1 and not self._is_closed and (until is None or time.monotonic() < until):
            with self._writing() as rows:
                before = rows.total_changes
                rows.execute("INSERT INTO grams (grams, rank) VALUES ('merge', ?)", (pages,))
                changed = rows.total_changes - before
                if pages < 0:
                    self._changes = 0
                    (self._known,) = rows.execute("SELECT count(*) FROM document").fetchone()
            pages = MERGED

    def close(self) -> None:
        """Close the file, after the write that is running."""
        self._is_closed = True
        with self._write_lock:
            self._writer.close()
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread has it
                return

    # writes

    def put(self, draft: DocumentDraft) -> StoredDocument:
        """Store a document, in place of the one of the same object, whose id it keeps."""
        text = draft.text.encode()
        marks = array("Q", marks_of(draft.text))
        digest = hashlib.sha256(text).hexdigest()
        with self._writing() as rows:
            former = rows.execute("SELECT number, id FROM document WHERE object = ?", (draft.object_id,)).fetchone()
            added = time.time()
            if former is not None:
                self._remove(rows, former[0])
            public = former[1] if former is not None else self._new_id(rows, draft.object_id)
            folder = self._folder(rows, draft.source, draft.folder)
            path = "/".join(filter(None, (draft.source, draft.folder, draft.name)))
            told = (
                "INSERT INTO document (number, id, object, folder, name, path, folded, extension, type, feed, modified, added, "
                f"characters, lines, pages, sheets, digest, signature) VALUES ({', '.join('?' * 18)})"
            )
            values = (
                None if former is None else former[0], public, draft.object_id, folder, draft.name, path, folded(draft.name),
                extension_of(draft.name), draft.mime_type, draft.feed, draft.modified, added, len(draft.text),
                lines_of(draft.text), len(draft.pages) or None, len(draft.sheets), digest, draft.signature,
            )  # fmt: skip
            number = rows.execute(told, values).lastrowid
            assert number is not None
            rows.execute(
                "INSERT INTO about VALUES (?, ?, ?, ?, ?)",
                (
                    number,
                    msgspec.json.encode(draft.metadata).decode(),
                    msgspec.json.encode(draft.sheets).decode(),
                    array("Q", draft.pages).tobytes() if draft.pages else None,
                    marks.tobytes(),
                ),
            )
            rows.execute("INSERT INTO content VALUES (?, ?)", (number, text))
            rows.execute("INSERT INTO grams (rowid, text) VALUES (?, ?)", (number, folded(draft.text)))
            rows.execute("INSERT INTO name_grams (rowid, path) VALUES (?, ?)", (number, folded(path)))
            self._changes += 1
            return self._documents(rows, "document.number = ?", (number,))[0]

    def move(self, object_id: str, to: str, place: tuple[str, str, str] | None) -> bool:
        """Give a document another object id, in place of the document of that id; False if there is none.

        `place` is its new source, folder and name, if it has others.
        """
        with self._writing() as rows:
            found = self._documents(rows, "document.object = ?", (object_id,))
            if not found:
                return False
            (old,) = found
            other = rows.execute("SELECT number FROM document WHERE object = ? AND number <> ?", (to, old.number)).fetchone()
            if other is not None:
                self._remove(rows, other[0])
            rows.execute("UPDATE document SET object = ? WHERE number = ?", (to, old.number))
            if place is not None:
                self._place(rows, old.number, *place)
            return True

    def _place(self, rows: sqlite3.Connection, number: int, source: str, folder: str, name: str) -> None:
        """Put a document into another folder."""
        left, former = rows.execute("SELECT folder, path FROM document WHERE number = ?", (number,)).fetchone()
        path = "/".join(filter(None, (source, folder, name)))
        told = "UPDATE document SET folder = ?, name = ?, path = ?, folded = ?, extension = ? WHERE number = ?"
        place = self._folder(rows, source, folder)
        rows.execute(told, (place, name, path, folded(name), extension_of(name), number))
        rows.execute("INSERT INTO name_grams (name_grams, rowid, path) VALUES ('delete', ?, ?)", (number, folded(former)))
        rows.execute("INSERT INTO name_grams (rowid, path) VALUES (?, ?)", (number, folded(path)))
        self._leave_folder(rows, left)

    def delete(self, object_ids: Sequence[str]) -> list[str]:
        """Delete the documents of these objects; the answer is those that there were. All or nothing."""
        gone: list[str] = []
        with self._writing() as rows:
            for object_id in dict.fromkeys(object_ids):
                found = rows.execute("SELECT number FROM document WHERE object = ?", (object_id,)).fetchone()
                if found is not None:
                    self._remove(rows, found[0])
                    gone.append(object_id)
        return gone

    def _remove(self, rows: sqlite3.Connection, number: int) -> None:
        asked = "SELECT path, folder, digest, content.text FROM document JOIN content USING (number) WHERE number = ?"
        path, folder, digest, text = rows.execute(asked, (number,)).fetchone()
        self._removed.add(digest)
        self._changes += 1
        removed = "INSERT INTO grams (grams, rowid, text) VALUES ('delete', ?, ?)"
        rows.execute(removed, (number, folded(text.decode())))
        removed = "INSERT INTO name_grams (name_grams, rowid, path) VALUES ('delete', ?, ?)"
        rows.execute(removed, (number, folded(path)))
        for table in ("content", "about", "document"):
            rows.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
        self._leave_folder(rows, folder)

    def _folder(self, rows: sqlite3.Connection, source: str, path: str) -> int:
        """The number of a folder, made with those above it if there is none; it has one document more."""
        rows.execute("INSERT OR IGNORE INTO source (name) VALUES (?)", (source,))
        (of,) = rows.execute("SELECT number FROM source WHERE name = ?", (source,)).fetchone()
        parent, number, whole = None, 0, ROOT
        for name in ("", *filter(None, path.split("/"))):
            whole = f"{whole}/{name}" if whole else name
            told = "INSERT OR IGNORE INTO folder (source, parent, name, path) VALUES (?, ?, ?, ?)"
            rows.execute(told, (of, parent, name, whole))
            (number,) = rows.execute("SELECT number FROM folder WHERE source = ? AND path = ?", (of, whole)).fetchone()
            parent = number
        rows.execute("UPDATE folder SET documents = documents + 1 WHERE number = ?", (number,))
        return number

    def _leave_folder(self, rows: sqlite3.Connection, number: int | None) -> None:
        """Count one document less, and remove the folders that are empty now, and a source without folders."""
        rows.execute("UPDATE folder SET documents = documents - 1 WHERE number = ?", (number,))
        while number is not None:
            asked = (
                "SELECT source, parent FROM folder WHERE number = ? AND documents = 0 "
                "AND NOT EXISTS (SELECT 1 FROM folder AS inner WHERE inner.parent = folder.number)"
            )
            found = rows.execute(asked, (number,)).fetchone()
            if found is None:
                return
            source, parent = found
            rows.execute("DELETE FROM folder WHERE number = ?", (number,))
            if parent is None:
                rows.execute("DELETE FROM source WHERE number = ?", (source,))
            number = parent

    def _new_id(self, rows: sqlite3.Connection, object_id: str) -> str:
        """An id for a new document: the same one for the same object of the tenant, unless a document that moved has it.

        A user who reads several catalogs finds each document by its id alone, so tenants who send the same object get two ids.
        """
        public = hashlib.sha256(f"{self.key}/{object_id}".encode()).hexdigest()[:12]
        while rows.execute("SELECT 1 FROM document WHERE id = ?", (public,)).fetchone() is not None:
            public = secrets.token_hex(6)
        return public

    # reads

    def signatures(self, object_ids: Sequence[str]) -> dict[str, str | None]:
        """The signatures of the documents of these objects; those without a document are left out."""
        with self.reading() as rows:
            asked = "SELECT object, signature FROM document WHERE object IN (SELECT value FROM json_each(?))"
            return dict(rows.execute(asked, (msgspec.json.encode(list(object_ids)).decode(),)).fetchall())

    def objects(self, where: str = "true", values: Sequence[Any] = ()) -> list[str]:
        """The ids of the objects of the documents for which an SQL condition over `JOINED` is true."""
        with self.reading() as rows:
            return [object_id for (object_id,) in rows.execute(f"SELECT document.object FROM {JOINED} WHERE {where}", values)]

    def count(self, where: str, values: Sequence[Any]) -> tuple[int, int]:
        """The number of documents for which a condition is true, and of all."""
        with self.reading() as rows:
            (some,) = rows.execute(f"SELECT count(*) FROM {JOINED} WHERE {where}", values).fetchone()
            (all_,) = rows.execute("SELECT count(*) FROM document").fetchone()
            return some, all_

    def document(self, public_id: str) -> StoredDocument | None:
        """The document of an id."""
        return next(iter(self.select("document.id = ?", (public_id,))), None)

    def select(self, where: str, values: Sequence[Any], rest: str = "") -> list[StoredDocument]:
        """The documents for which an SQL condition over `JOINED` is true; `rest` orders and limits them."""
        with self.reading() as rows:
            return self._documents(rows, where, values, rest)

    def _documents(self, rows: sqlite3.Connection, where: str, values: Sequence[Any], rest: str = "") -> list[StoredDocument]:
        found = rows.execute(f"SELECT {COLUMNS} FROM {JOINED} WHERE {where} {rest}", values)
        return [StoredDocument(*row) for row in found]

    def metadata(self, number: int) -> tuple[dict[str, Any], list[Sheet]]:
        """The metadata of a document, and its sheets."""
        with self.reading() as rows:
            found = rows.execute("SELECT metadata, sheets FROM about WHERE number = ?", (number,)).fetchone()
            metadata, sheets = found or ("{}", "[]")
            return msgspec.json.decode(metadata), msgspec.json.decode(sheets, type=list[Sheet])

    def text(self, document: StoredDocument, start: int = 0, end: int | None = None) -> str:
        """The characters of a document from `start` to `end`, of which those that there are."""
        with self.reading() as rows:
            return self.text_of(rows, document, self.spots_of(rows, document), start, end)

    def spots_of(self, rows: sqlite3.Connection, document: StoredDocument) -> TextMap:
        """The marks of a document's text. Raises `ToolError` for one that is gone, or another one by now."""
        asked = "SELECT marks, about.pages, digest FROM about JOIN document USING (number) WHERE number = ?"
        found = rows.execute(asked, (document.number,)).fetchone()
        if found is None:
            raise document_not_found(document.id)
        if found[2] != document.digest:
            raise ToolError(
                f'The document "{document.id}" was replaced while this call read it',
                code="document_changed",
                hint="Call again.",
                data={"document": document.id},
            )
        return text_map(found[0], found[1])

    def text_of(
        self, rows: sqlite3.Connection, document: StoredDocument, spots: TextMap, start: int, end: int | None = None
    ) -> str:
        """The characters from `start` to `end`, in a transaction that has read the marks of the text."""
        end = document.characters if end is None else min(end, document.characters)
        if start >= end:
            return ""
        begin, until, before = spots.around(start, end)
        with rows.blobopen("content", "text", document.number, readonly=True) as blob:
            blob.seek(begin)
            piece = blob.read((len(blob) if until is None else until) - begin).decode()
        return piece[start - before : end - before]


def document_not_found(public_id: str) -> ToolError:
    """The error for an id that the caller cannot read, whether or not anybody else has a document of it."""
    return ToolError(
        f'There is no document "{public_id[:80]}"',
        code="document_not_found",
        hint="search_documents, grep_documents and find_by_name tell the ids of documents.",
        data={"document": public_id[:80]},
    )


def extension_of(name: str) -> str:
    """The extension of a name in lower case, without the dot."""
    return os.path.splitext(name)[1].lower().removeprefix(".")
