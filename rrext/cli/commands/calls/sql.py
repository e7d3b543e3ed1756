"""`rrext sql`: statements of the command line, of a file or of stdin; the prompt is in `sql_prompt.py`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.cli.commands.calls.sql_database import StatementRunner, database_of, print_failure, script, statements, value_of
from rrext.cli.commands.calls.tool import CALL_IS_WRONG, call_timeout
from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.formats import FORMATS
from rrext.cli.console.output import Results, print_error
from rrext.cli.data_files import is_data, names_data, pipeline_of, require_known, require_readable, shown
from rrext.cli.options import (
    Command,
    add_pipeline_options,
    add_source,
    add_wait_option,
    let_words_follow_options,
    whole_number,
)
from rrext.cli.pipeline import Pipeline, is_cancel, run_work
from rrext.columns import printable
from rrext.errors import RrextError
from rrext.secrets.names import without_user

if TYPE_CHECKING:
    from rrext.cli.console.result_files import ResultFile


DESCRIPTION = "Ask a database of a pipeline, or files, in this process or with --at at a server. Graphs are asked in Cypher."
EXAMPLE = """examples:
  rrext sql pipeline.pipe 'select day, sum(people) from visit group by day'
  rrext sql pipeline.pipe 'select * from visit where people > $1' -p 40 --csv > busy.csv
  rrext sql pipeline.pipe -f report.sql --json | jq '.[].day'
  rrext sql pipeline.pipe --write "insert into visit values ('2026-11-22', 31)"
  rrext sql pipeline.pipe
  rrext sql orders.csv -o busy.xlsx 'select * from orders where price > 100'
  rrext sql --at unix:/tmp/rrext.sock --token pipeline 'select count(*) from visit'
  rrext sql orders.csv crm.db 'select name, sum(price) from orders join crm.customer using (customer) group by name'

In place of a pipeline, files: CSV, TSV, JSON (also .gz, .zst) and Parquet are tables of their names, where SQL would need
quotes in another form: my_sales of 'my sales.csv', t_order of order.csv. A workbook (.xlsx, .xls, .ods) is the table of its
first sheet, and a schema of all: budget."2026". A database of SQLite (.db, .sqlite) or DuckDB (.duckdb) alone is asked itself;
beside other files it is a schema, crm.customer, into which its tables are copied. They are only read. So is a database of a
server, by its URL or NAME=URL: crm=postgresql://reader@db.example/crm, or mysql://; of its tables those are copied that a
statement names. Its password stands best as a variable, in single quotes, as others see the words of a command:
'postgresql://reader:${ROCKETRIDE_PASSWORD}@db.example/crm'. The variable has it as it is, with any signs in it.

Without a statement it is a prompt on a terminal, and reads statements from stdin elsewhere. Several statements are
separated by `;` and run in order, up to the first that fails; each is kept at once, unless it stands between `begin` and
`commit`. Statements only read unless --write is given, which the node's settings must allow too.

Rows are a table on a terminal and CSV elsewhere. CSV is that of RFC 4180 with line feeds: NULL is an empty field and an
empty text is "", nested values are JSON, bytes base64; a cell that a spreadsheet would take for a formula stays as it is.
Between the rows of two statements is an empty line. --json gives each statement an array.
--csv and --json write rows as they come, however many; tables have 1000 unless --limit says more. What the database warns
of, and that there are more rows, is said on stderr.

-o FILE writes them to a file, in the form of its ending: .csv, .json, .md, .txt (a table), .parquet, .xlsx (Excel, a sheet for
each statement). All rows, however many, go there; the file takes the place of another one only when all statements are done. In
Parquet and Excel nested values are JSON texts, dates and times are dates and times. A sheet has 1,048,575 rows.

At the prompt \\i FILE runs a file, \\o FILE writes to one, \\watch 5 runs the last statement every five seconds until Ctrl-C,
\\e opens it in $VISUAL or $EDITOR, and \\set day 2026-11-22 gives :day a value in later statements ($day in Cypher).

A -p VALUE is what it is as JSON, else a text: 40, true, null, '"40"' for the text 40.

Exit code 0: done. 1: a statement failed, or came too late. 2: nothing was asked, because the command, the pipeline or the
statement is wrong. 130: cancelled by Ctrl-C.
"""


def add_arguments(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments of the command; `at`: a server is used."""
    add_source(parser, at=at)
    parser.add_argument(
        "words",
        metavar="SQL",
        nargs="*",
        help="more files of data; the statements, else those of -f, of stdin or of the prompt",
    )
    parser.set_defaults(sql=None, pipeline=None)
    parser.add_argument("-f", dest="sql_file", metavar="FILE.sql", help="a file of statements, or - for stdin")
    parser.add_argument("--node", metavar="ID", help="the database that is asked, where the pipeline has several")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("-p", dest="values", action="append", metavar="VALUE", help="the value of $1, of $2, … (repeatable)")
    given.add_argument("--params", metavar="JSON", help="all values: a JSON array, for Cypher an object")
    parser.add_argument("--write", action="store_true", help="run statements of any kind, with begin, commit and rollback")
    parser.add_argument("--explain", action="store_true", help="how the database would run the statement, without running it")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="rows at most; else 1000 in tables, and all elsewhere")
    parser.add_argument("--timeout", type=call_timeout, metavar="S", help="seconds after which a statement is stopped")
    formats = parser.add_mutually_exclusive_group()
    for name, text in (
        ("table", "aligned columns; the default on a terminal"),
        ("csv", "comma-separated values; the default elsewhere"),
        ("json", "an array of objects, a row per line"),
        ("md", "a Markdown table"),
    ):
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=text)
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="write the rows to a file; its ending says the form, see below"
    )
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)
    let_words_follow_options(parser, "words")


def run(args: argparse.Namespace) -> int:
    """Run the statements; returns the exit code."""
    try:
        _take_files(args)
        params = _params(args)
        text = _text(args)
    except ValueError as error:
        print(f"rrext: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"rrext: -f: {error.filename or 'stdin'}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    if text is None:
        from rrext.cli.commands.calls.sql_prompt import run_prompt

        return run_prompt(args)

    async def work(pipeline: Pipeline, results: Results) -> int:
        return await _run(args, text, params, pipeline, results)

    return run_work(args, work)


SQL = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _take_files(args: argparse.Namespace) -> None:
    """Find the files of data and the statements among the words. Raises `ValueError`, and `UsageError` for the files."""
    words: list[str] = args.words
    require_known([args.file or "", *words])
    if args.at is not None and words and names_data(words[0]):
        raise ValueError(f"--at: {shown(words[0])} is asked here; leave out --at")
    if args.at is None and is_data(args.file):
        files = [args.file]
        while words and names_data(words[0]):
            files.append(words.pop(0))
        args.pipeline = pipeline_of(files)
        args.file = shown(args.file)
        if args.write:
            raise ValueError("--write: files are only read; a pipeline with a database may let it write")
        require_readable(files)
    if len(words) > 1:
        said = without_user(" ".join(words[:2]))
        raise ValueError(f"the statements are one text in quotes, not {len(words)} words: {said} …")
    args.sql = words[0] if words else None


def _params(args: argparse.Namespace) -> Any:
    if args.params is not None:
        try:
            return msgspec.json.decode(args.params, type=list[Any] | dict[str, Any])
        except msgspec.DecodeError as error:
            raise ValueError(f"--params: expected a JSON array or object: {error}") from None
    return [value_of(text) for text in args.values or ()]


def _text(args: argparse.Namespace) -> str | None:
    """The statements; None for the prompt. Raises `OSError` and `ValueError`."""
    if args.sql is not None and args.sql_file is not None:
        raise ValueError("give the statements or -f, not both")
    if args.sql is not None:
        return args.sql
    source = args.sql_file
    if source is None:
        if os.isatty(0):
            if args.values or args.params or args.explain or args.output:
                raise ValueError("there is no statement: give one, or -f FILE.sql")
            return None
        source = "-"
    return script(source, waits=True)


async def _run(args: argparse.Namespace, text: str, params: Any, pipeline: Pipeline, results: Results) -> int:
    """Run the statements, whose rows go to stdout or to the file of `-o`; returns the exit code."""
    if args.output is None:
        return await _run_all(args, text, params, pipeline, results, None)
    from rrext.cli.console.result_files import ResultFile

    try:
        file = ResultFile(args.output, args.format)
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE
    except OSError as error:
        print(f"rrext: -o: {printable(args.output)}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    try:
        code = await _run_all(args, text, params, pipeline, results, file)
        if code == EXIT_DONE:
            file.keep()
        return code
    except OSError as error:
        print(f"rrext: {printable(args.output)}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    except RrextError as error:
        print_error(error)
        return EXIT_FAILED
    finally:
        file.drop()


async def _run_all(
    args: argparse.Namespace, text: str, params: Any, pipeline: Pipeline, results: Results, file: ResultFile | None
) -> int:
    kind = FORMATS[args.format or ("table" if results.is_terminal else "csv")]
    try:
        node_id = await database_of(pipeline, args.node)
        database = StatementRunner(pipeline, results, node_id, writes=args.write, timeout=args.timeout, limit=args.limit)
        found = list(statements(text, (await database.call("dialect"))["dialect"]))
    except RrextError as error:
        print_error(error)
        return EXIT_USAGE if error.code in CALL_IS_WRONG else EXIT_FAILED
    if not found or (params and len(found) > 1):
        print(f"rrext: {'there is no statement' if not found else 'several statements take no parameters'}", file=sys.stderr)
        return EXIT_USAGE
    follows = False
    for statement in found:
        made = kind(results, follows=follows) if file is None else file.made()
        try:
            await database.run(statement, params, made, explain=args.explain)
        except RrextError as error:
            print_failure(error, statement, f"{args.sql_file or 'stdin'}:{statement.line}" if args.sql is None else "")
            return EXIT_USAGE if error.code in CALL_IS_WRONG else EXIT_FAILED
        except BaseException as error:
            if is_cancel(error):
                sys.stderr.write("rrext: cancelled\n")
            raise
        follows = follows or made.has_written
    if database.is_in_transaction:
        await database.roll_back()
        print("rrext: the transaction was not committed: it is rolled back", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_DONE
