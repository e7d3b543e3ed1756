"""Limits of documents: sizes in bytes or characters."""

from __future__ import annotations

from typing import Final

# mail.py
MAX_NESTING: Final = 4
"""Mails in mails; a forwarded thread has two or three."""
MAX_ATTACHMENTS: Final = 100
"""Attachments of one mail that are read; the others are named in a warning."""

# measures.py
LONGEST: Final = 200_000
"""Characters of one piece, whatever its size in tokens: a store takes no more."""
BYTES_PER_TOKEN: Final = 4
"""UTF-8 bytes of an estimated token: what common vocabularies need for English prose, and more than for most else."""
CHARACTERS_PER_TOKEN: Final = 16
"""Characters of text that are looked at for each token of the size. Prose has 4; long runs of blanks have more."""

# boundaries.py
LOOKAHEAD: Final = 256
"""Characters that are looked at behind a cut: the next word's begin, a heading's line."""
LONGEST_CLUSTER: Final = 64
"""Characters that may make up one that a person sees; a flag has 2, a family 11. Longer ones are cut."""

# tables.py
HEADER_LINES: Final = 2
"""A Markdown table begins with its columns' names and a rule."""

# split.py
BATCH: Final = 256
"""Chunks that are sent on at a time: stores and embedders work on hundreds at once, and memory holds no more."""
SMALLEST_CHUNK, LARGEST_CHUNK = 16, 100_000
"""Units of a piece: below, words are cut; above, a store may not take it."""

# extraction.py
LONGEST_DETAIL: Final = 200
"""Characters of the parser's message in an error."""

# conversion.py, of metadata
LONGEST_FACT: Final = 1000
"""Characters of one value. Each chunk carries them all, and the file's author chose them; longer ones end in `…`."""
MOST_NAMES: Final = 50
"""Names in a list, as recipients; of more, the first ones are kept and `…` says so."""
FRONT_MATTER: Final = 4096
"""Characters of a Markdown file in which its front matter ends."""

# mime_type.py
PDF_BEGIN: Final = 1024
"""Where a PDF's mark may stand at the latest; the format's own reader allows so much before it."""

# html_repair.py
DEEPEST: Final = 48
"""Elements in each other that are kept; the tags of deeper ones go, their text stays."""

# outline.py
LONGEST_TITLE: Final = 200
"""Characters of a heading that are kept; more is no heading, and would stand in every chunk below it."""

# plain.py
TEXT_PROBE: Final = 65_536
"""Bytes that are inspected to distinguish text from other data."""
CHARSET_BEGIN: Final = 2048
"""Bytes in which an HTML page has to declare its encoding, according to the standard."""

# detection.py
CHARSET_SAMPLE: Final = 65_536
"""Bytes of a text in which its charset is looked for; more show nothing else."""
FEWEST_BYTES: Final = 32
"""Bytes, of lines that are not ASCII alone, which show a charset: of shorter texts one of twenty was read wrongly."""

# reader_pool.py
START_TIMEOUT: Final = 30.0
"""Seconds for the process to start; a loaded machine needs a few."""
CLOSING_TIMEOUT: Final = 5.0
"""Seconds for an idle process to end, before it is killed."""

# conversion.py
LONGEST_CELL: Final = 16 * 1024 * 1024
"""Characters of one field of a CSV file; the standard library's own limit is 128 KiB."""

# worker.py
WORKER_GRACE: Final = 10.0
"""Seconds beyond a document's time; the server ends this process long before."""
OPEN_FILES: Final = 64
"""Descriptors: the socket, the standard streams, and what imports need."""

# workbook.py, cell_formats.py: of the format of workbooks
ROWS, COLUMNS = 1_048_576, 16_384
"""How many rows and columns a sheet has at most."""
DAY_MS: Final = 86_400_000
"""Milliseconds of a day, to which Excel rounds times."""
LAST_DAY: Final = 2_958_466
"""How many days a workbook counts: up to the end of the year 9999."""
YEAR_DAYS: Final = 366
"""How many days a number in a format for times may have as a duration; larger ones are moments, whose date is not shown."""
SURE_DIGITS: Final = 15
"""How many digits a double keeps always; files have up to 17, the last of which may tell its rounding."""
WHOLE_DIGITS: Final = 24
"""How many digits of a whole number are written out: those of all identifiers and amounts."""
LONGEST_NUMBER: Final = 28
"""Characters of a number that is understood; programs write up to 24."""
LONGEST_FORMAT: Final = 255
"""Characters of the format of a cell; Excel takes no more."""
FORMATS_KEPT: Final = 1024
"""How many formats are kept for all workbooks; one has a few dozen."""
TEXTS_KEPT: Final = 4096
"""How many texts of numbers are kept: dates and amounts come again in a sheet."""
