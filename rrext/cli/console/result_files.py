"""Files of rows, as `rrext sql -o FILE` writes them: text in the forms of stdout, Parquet by DuckDB, Excel by XlsxWriter.

A file takes the place of another one only when it is whole. Rows go to the disk as they come, however many they are.
"""

from __future__ import annotations

import datetime
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, Any, Final

import msgspec

from rrext.cli.console.formats import FORMATS, Format, nested_text, raw_rows
from rrext.errors import InvalidArguments, Unavailable, UsageError
from rrext.nodes.base.setup import missing_packages
from rrext.pipefile.text.problems import pointer

ENDINGS: Final = {".csv": "csv", ".json": "json", ".md": "md", ".txt": "table", ".parquet": "parquet", ".xlsx": "xlsx"}
"""Ending of a file → the form of its rows."""
PACKAGES: Final = {"parquet": ("duckdb", "duckdb"), "xlsx": ("cli", "xlsxwriter")}
"""Form → the extra that installs what writes it, and the module."""
SAFE_INTEGER: Final = 2**53
"""The largest integer that a number of Excel, a 64-bit float, holds with all its digits."""
SHEET_ROWS: Final = 1_048_576
"""Rows of a sheet of Excel, the names of the columns among them."""
SHEET_COLUMNS: Final = 16_384
"""Columns of a sheet of Excel."""
CELL_CHARACTERS: Final = 32_767
"""Characters of a cell of Excel."""
FIRST_DAY: Final = "1900-03-01"
"""The first day that Excel counts as the calendar does: it takes 1900 for a leap year."""
LARGEST_ROW: Final = 1 << 30
"""Bytes of a row that DuckDB reads: more than a node answers."""
DAY_FORMATS: Final = {"date": "yyyy-mm-dd", "datetime": "yyyy-mm-dd hh:mm:ss", "time": "hh:mm:ss"}
"""How Excel shows the values of a kind."""


class ResultFile:
    """A file that is being written, with the methods of `Results` that a form of rows needs. `keep` puts it in its place."""

    is_terminal = False

    def __init__(self, path: str, form: str | None = None) -> None:
        """Begin. `form` is that of `FORMATS` or of the ending. Raises `UsageError`, `Unavailable` and `OSError`."""
        ending = os.path.splitext(path)[1].lower()
        kind = ENDINGS.get(ending)
        if kind in PACKAGES and form is not None:
            raise UsageError(f"--{form} does not go with {ending}, a form of its own")
        if kind is None and form is None:
            raise UsageError(f"{path}: the ending says the form of the rows: {', '.join(ENDINGS)}; or give --csv, --json, --md")
        self.kind: str = form or kind or "csv"
        if self.kind in PACKAGES and (missing := missing_packages(PACKAGES[self.kind][0], PACKAGES[self.kind][1])) is not None:
            raise Unavailable(f"{path}: {missing}")
        self.path = os.path.realpath(path)  # a link stays one
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise UsageError(f"{path} is no file")
        folder, name = os.path.split(self.path)
        fd, self.partial = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=".part")
        self._file: IO[bytes] = os.fdopen(fd, "wb")
        self._book: Workbook | None = None
        self._latest: Format | None = None
        self._has_table = self.has_written = False
        self.spools: list[tuple[str, IO[bytes]]] = []
        """Files of rows on the way, by path, which go with it."""

    def write(self, data: bytes) -> None:
        """Write bytes of a text form."""
        self._file.write(data)

    def write_line(self, line: bytes) -> None:
        """Write a line of a text form."""
        self._file.write(line + b"\n")

    def made(self) -> Format:
        """The writer for the rows of the next statement."""
        if self.kind == "parquet":
            return Parquet(self)
        if self.kind == "xlsx":
            self._book = self._book or Workbook(self.partial)
            return ExcelSheet(self, self._book)
        self.has_written = self.has_written or (self._latest is not None and self._latest.has_written)
        self._latest = FORMATS[self.kind](self, follows=self.has_written)
        return self._latest

    def one_table(self) -> None:
        """Note that a table was written. Raises `InvalidArguments` for a second one."""
        if self._has_table:
            raise InvalidArguments("A Parquet file has the rows of one statement", hint="Write each to a file of its own.")
        self._has_table = True

    def keep(self) -> None:
        """End the file, and put it in the place of the one that may be there, whose rights it gets. Raises `OSError`."""
        if self._book is not None:
            self._book.close()
        self._file.close()
        try:
            os.chmod(self.partial, os.stat(self.path).st_mode & 0o777)
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self.partial, 0o666 & ~mask)
        os.replace(self.partial, self.path)
        self._remove()

    def drop(self) -> None:
        """Leave everything as it was."""
        if self._book is not None:
            self._book.abandon()
        self._file.close()
        self._remove()

    def _remove(self) -> None:
        for _, spool in self.spools:
            spool.close()
        for path in (self.partial, *(path for path, _ in self.spools)):
            with suppress(FileNotFoundError):
                os.unlink(path)


class Spooled(Format):
    """The rows of one statement, on the disk until their columns' types are known, which the end says."""

    streams = True

    def __init__(self, file: ResultFile) -> None:
        super().__init__(file)
        self._file = file
        fd, self._spool = tempfile.mkstemp(dir=os.path.dirname(file.partial), prefix=".rrext-rows.", suffix=".json")
        self._rows: IO[bytes] = os.fdopen(fd, "wb")
        file.spools.append((self._spool, self._rows))
        self._count = 0

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = raw_rows(encoded)
        if kept := rows[:most]:
            self._rows.write(b"\n".join(map(bytes, kept)) + b"\n")
            self._count += len(kept)
        return len(rows)

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        self._rows.close()
        self._store(names, list(types) or [None] * len(names))
        self.has_written = self._file.has_written = True

    def plan(self, plan: Any) -> None:
        raise InvalidArguments("A plan is no table", hint="Leave out -o, or --explain.")

    def _store(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        """Write the rows of the spool as the form has them."""
        raise NotImplementedError


class Parquet(Spooled):
    """The rows of one statement as a Parquet file. Nested values are JSON texts; a column of mixed values has their texts.

    A text of the type of dates, times and decimals becomes one if all of its column do, as a date of infinity does not.
    """

    def _store(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        import duckdb

        self._file.one_table()
        source = f"read_ndjson_objects($1, maximum_object_size = {LARGEST_ROW})"
        places = [literal(pointer(name)) for name in names]
        texts = [f"json_extract_string(json, {place})" for place in places]
        try:
            with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as base:
                base.execute("SET preserve_insertion_order = true")

                def asked(columns: Iterable[str]) -> Sequence[Any]:
                    found = base.execute(f"SELECT {', '.join(columns)} FROM {source}", [self._spool]).fetchone()
                    return found or ()

                told = asked(f"list(DISTINCT {kind_in(place)})" for place in places)
                kinds = [{kind for kind in each or () if kind is not None} for each in told]
                stored = [stored_as(said, found) for said, found in zip(types, kinds, strict=True)]
                casts = [f"TRY_CAST({text} AS {kind})" for text, kind in zip(texts, stored, strict=True)]
                both = zip(texts, casts, strict=True)
                lost = asked(f"count(*) FILTER ({text} IS NOT NULL AND {cast} IS NULL)" for text, cast in both)
                for place, found in enumerate(kinds):
                    if found == {"bytes"}:
                        inner = literal(pointer(names[place], "base64"))
                        casts[place] = f"from_base64(json_extract_string(json, {inner}))"
                    elif lost[place]:
                        casts[place] = texts[place]
                heads = ", ".join(f"{cast} AS {quoted(name)}" for cast, name in zip(casts, unique(names), strict=True))
                target = f"{literal(self._file.partial)} (FORMAT parquet, COMPRESSION zstd)"
                base.execute(f"COPY (SELECT {heads} FROM {source}) TO {target}", [self._spool])
        except duckdb.Error as error:
            raise Unavailable(f"{self._file.path} cannot be written: {str(error).splitlines()[0]}") from None


def kind_in(place: str) -> str:
    """An expression of DuckDB: the kind of a member of `json`, NULL for none: integer, number, boolean, text, bytes, nested."""
    keys = f"json_keys(json, {place})"
    return (
        f"CASE json_type(json, {place}) WHEN 'BOOLEAN' THEN 'boolean' WHEN 'BIGINT' THEN 'integer'"
        " WHEN 'UBIGINT' THEN 'integer' WHEN 'DOUBLE' THEN 'number' WHEN 'VARCHAR' THEN 'text' WHEN 'ARRAY' THEN 'nested'"
        f" WHEN 'OBJECT' THEN CASE WHEN {keys} = ['base64'] THEN 'bytes' ELSE 'nested' END END"
    )


_DIGITS: Final = re.compile(r"(?i)(?:numeric|decimal)\((\d+),\s*(\d+)\)")


def stored_as(said: str | None, kinds: set[str]) -> str:
    """The type of Parquet for a column of a type of the database and of cells of these kinds, if all of its texts fit it."""
    name = (said or "").lower()
    if (digits := _DIGITS.fullmatch(name)) is not None and int(digits[1]) <= 38 and kinds <= {"integer", "number", "text"}:
        return f"DECIMAL({digits[1]},{digits[2]})"
    if kinds <= {"boolean"} and (kinds or name.startswith("bool")):
        return "BOOLEAN"
    is_broken = re.match(r"real|float|double", name) is not None
    if kinds <= {"integer"} and not is_broken and (kinds or re.match(r"(?:tiny|small|medium|big|huge|u)*int", name)):
        return "BIGINT"
    if kinds <= {"integer", "number"} and (kinds or is_broken):
        return "DOUBLE"
    if kinds <= {"text"}:
        has_zone = "with time zone" in name or name == "timestamptz"
        days = {"date": "DATE", "datetime": "TIMESTAMPTZ" if has_zone else "TIMESTAMP", "time": "TIME"}
        return days.get(day_kind(said), "VARCHAR")
    return "VARCHAR"


def day_kind(said: str | None) -> str:
    """Whether a type of a database is of dates, times, or both; empty for another one."""
    name = (said or "").lower()
    if name.startswith(("timestamp", "datetime")):
        return "datetime"
    return "date" if name == "date" else "time" if name in ("time", "time without time zone") else ""


def unique(names: Sequence[str]) -> list[str]:
    """Names of columns that differ, whatever the case of their letters: a file takes no two of one name."""
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        number, made = 1, name or "column"
        while made.lower() in taken:
            number += 1
            made = f"{name}_{number}"
        taken.add(made.lower())
        found.append(made)
    return found


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


class Workbook:
    """A workbook of Excel, row by row on the disk."""

    def __init__(self, path: str) -> None:
        import xlsxwriter

        options = {"constant_memory": True, "tmpdir": os.path.dirname(path)}
        self._book: Any = xlsxwriter.Workbook(path, options)
        self.head: Any = self._book.add_format({"bold": True})
        self.days = {kind: self._book.add_format({"num_format": form}) for kind, form in DAY_FORMATS.items()}
        self._is_open = True

    def sheet(self) -> Any:
        """A new sheet."""
        return self._book.add_worksheet()

    def close(self) -> None:
        """Write the file."""
        if self._is_open:
            self._is_open = False
            if not self._book.worksheets():
                self._book.add_worksheet()
            from xlsxwriter.exceptions import XlsxWriterException

            try:
                self._book.close()
            except XlsxWriterException as error:
                raise Unavailable(f"the file of Excel cannot be written: {error}") from None

    def abandon(self) -> None:
        """Write no file, and remove what is on the disk already."""
        if not self._is_open:
            return
        self._is_open = False
        self._book.fileclosed = True  # else it writes itself when it is collected
        for sheet in self._book.worksheets():
            sheet.row_data_fh.close()
            os.unlink(sheet.row_data_filename)


class ExcelSheet(Spooled):
    """The rows of one statement as a sheet of Excel. Raises `InvalidArguments` for what a sheet cannot hold.

    Texts stay texts, also those that begin like a formula. Integers beyond the digits of a number, and times that Excel has no
    number for, are texts.
    """

    def __init__(self, file: ResultFile, book: Workbook) -> None:
        super().__init__(file)
        self._book = book

    def rows(self, encoded: bytes, most: int | None) -> int:
        count = super().rows(encoded, most)
        if self._count >= SHEET_ROWS:
            raise InvalidArguments(f"A sheet of Excel has {SHEET_ROWS - 1:,} rows", hint="Use --limit N, .parquet or .csv.")
        return count

    def _store(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        if len(names) > SHEET_COLUMNS:
            raise InvalidArguments(f"A sheet of Excel has {SHEET_COLUMNS:,} columns", hint="Use .parquet or .csv.")
        self._require_short_texts()
        sheet = self._book.sheet()
        for place, name in enumerate(names):
            sheet.write_string(0, place, name, self._book.head)
        sheet.freeze_panes(1, 0)
        kinds = [day_kind(said) for said in types]
        with open(self._spool, "rb") as spool:
            for at, line in enumerate(spool, 1):
                for place, value in enumerate(msgspec.json.decode(line).values()):
                    self._cell(sheet, at, place, value, kinds[place])

    def _require_short_texts(self) -> None:
        """Raise `InvalidArguments` for a text that no cell holds, before anything is written."""
        with open(self._spool, "rb") as spool:
            for number, line in enumerate(spool, 1):
                for value in msgspec.json.decode(line).values() if len(line) > CELL_CHARACTERS else ():
                    if not isinstance(value, float | None) and (size := len(cell_text(value))) > CELL_CHARACTERS:
                        raise InvalidArguments(
                            f"Row {number} has a text of {size:,} characters; a cell of Excel has {CELL_CHARACTERS:,}",
                            hint="Use .parquet or .csv.",
                        )

    def _cell(self, sheet: Any, at: int, place: int, value: Any, kind: str) -> None:
        match value:
            case None:
                return
            case bool():
                sheet.write_boolean(at, place, value)
            case int() | float() if abs(value) <= SAFE_INTEGER or isinstance(value, float):
                sheet.write_number(at, place, value)
            case str() if kind and (moment := moment_of(value, kind)) is not None:
                sheet.write_datetime(at, place, moment, self._book.days[kind])
            case _:
                sheet.write_string(at, place, cell_text(value))


def cell_text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) else nested_text(value)


def moment_of(text: str, kind: str) -> datetime.date | datetime.time | None:
    """The date, time or both that Excel can hold: from March 1900 on, without an offset and in milliseconds at most."""
    try:
        moment = {"date": datetime.date, "datetime": datetime.datetime, "time": datetime.time}[kind].fromisoformat(text)
    except ValueError:
        return None
    if isinstance(moment, datetime.datetime | datetime.time) and (moment.tzinfo is not None or moment.microsecond % 1000):
        return None
    return None if kind != "time" and text < FIRST_DAY else moment
