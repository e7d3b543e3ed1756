"""The prompt of `rrext sql`, at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import sqlite3
import stat
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_terminal import Terminal, at_terminal
from commands import command, component, environment, pipeline

ENDLESS = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c;"


EDITED = """
import sys
text = open(sys.argv[1]).read().replace("41", "42")
open(sys.argv[1], "w").write(text)
"""
"""A program of an editor."""


@contextmanager
def at_prompt(folder: Path, *args: str, **env: str) -> Iterator[Terminal]:
    """`rrext sql` of a database with one table, at a terminal of 100 columns."""
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("create table if not exists visit (day text, people integer)")
    database.close()
    source = component("tools_1", "tools", mode="Source")
    path = pipeline(folder, source, component("db_1", "db_sqlite", control="tools_1", path="a.db", allow_execute=True))
    with at_terminal(["sql", path, *args], folder=folder, NO_COLOR="1", **env) as terminal:
        yield terminal


def ask(terminal: Terminal, text: str, answer: str) -> None:
    """Type a line at the prompt and wait for what comes of it."""
    terminal.type(f"{text}\r")
    terminal.until(answer)
    terminal.until("db_1")


def test_statements_end_at_a_semicolon_however_many_lines_they_have(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("select 40 + 2\r")
        terminal.until("...>")
        ask(terminal, "as answer;", "answer\n------\n    42\n")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_tab_completes_tables_and_their_columns(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("select count(*) from vi\t")
        terminal.until("sit")
        terminal.type(" where visit.peo\t")
        terminal.until("ple")
        ask(terminal, " is null;", "count(*)\n--------\n       0\n")


def test_ctrl_c_ends_what_runs_or_is_typed_and_never_the_prompt(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        for _ in range(2):
            terminal.type(f"{ENDLESS}\r")
            terminal.until_lines_are_read()
            terminal.type("\x03")
            terminal.until("cancelled")
            terminal.until("db_1>")
        terminal.type("not a statement")
        terminal.until("statement")
        terminal.type("\x03")
        terminal.until("db_1>")
        ask(terminal, "select 41 + 1 as b;", "b\n--\n42\n")


def test_a_transaction_lasts_until_it_is_ended(tmp_path: Path) -> None:
    with at_prompt(tmp_path, "--write") as terminal:
        terminal.until("db_1>")
        terminal.type("begin;\r")
        terminal.until("db_1*>")
        ask(terminal, "insert into visit values ('x', 1);", "1 row changed")
        terminal.type("rollback;\r")
        terminal.until("db_1>")
        ask(terminal, "select count(*) from visit;", "--\n       0\n")
        ask(terminal, "begin; insert into visit values ('y', 2); commit;", "1 row changed")
        terminal.type("begin;\r")
        terminal.until("db_1*>")
        terminal.type("\x04")
        terminal.until("rolled back")
        assert terminal.ended() == 0
    with sqlite3.connect(tmp_path / "a.db") as database:
        assert database.execute("select * from visit").fetchall() == [("y", 2)]
    database.close()


def test_commands_describe_tables_and_change_what_is_shown(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\d", "visit | day, people\n")
        ask(terminal, r"\d visit", "people | INTEGER |\n")
        ask(terminal, r"\d visits", "did you mean visit?")
        ask(terminal, r"\x", "expanded display is on")
        ask(terminal, "select 1 as one;", "-[ 1 ]")
        ask(terminal, r"\timing", "timing is on")
        ask(terminal, "select 1 as one;", " ms\n")
        ask(terminal, r"\dd", r"\d is near")
        ask(terminal, "select * from nowhere;", "no such table: nowhere [sql_failed]")
        terminal.type("\\q\r")
        assert terminal.ended() == 0


def test_a_file_of_statements_is_run_and_what_is_wrong_with_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("select 20 + 1 as half;\nselect 40 + 2 as whole;\n")
    (tmp_path / "bytes.sql").write_bytes(b"\xff")
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\i a.sql", "whole\n-----\n   42\n")
        ask(terminal, r"\i none.sql", "none.sql: No such file or directory")
        ask(terminal, r"\i bytes.sql", "bytes.sql is no UTF-8 text")
        ask(terminal, r"\i", "give the name of a file")
        os.mkfifo(tmp_path / "pipe")
        for name in ("pipe", "/dev/zero", "."):
            ask(terminal, rf"\i {name}", "directory" if name == "." else f"{name} is no regular file")


def test_rows_go_to_a_file_until_it_is_ended(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\o a.csv", "")
        ask(terminal, "select 1 as a;", "")
        ask(terminal, "select nix;", "no such column")
        assert not (tmp_path / "a.csv").exists(), "it is there when it is whole"
        ask(terminal, r"\o", "")
        ask(terminal, "select 42 as b;", "--\n42\n")
        assert (tmp_path / "a.csv").read_text() == "a\n1\n"
        ask(terminal, r"\o a.doc", "the ending says the form")
        ask(terminal, r"\o b.json", "")
        ask(terminal, "select 2 as c;", "")
        ask(terminal, r"\?", r"\watch")  # a prompt that is not there yet loses the end of input
        terminal.type("\x04")
        assert terminal.ended() == 0
    assert (tmp_path / "b.json").read_text() == '[\n{"c":2}\n]\n'
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.db", "b.json", "p.pipe", "state"}


def test_the_last_statement_runs_again_and_again_until_ctrl_c(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\watch", "there is no statement yet")
        ask(terminal, "select 42 as a;", "42\n")
        ask(terminal, r"\watch often", "expected seconds above 0")
        terminal.type("\\watch 0.05\r")
        for _ in range(3):
            terminal.until("every 0.05 s")
            terminal.until("42\n")
        terminal.type("\x03")
        terminal.until("cancelled")
        terminal.until("db_1>")
        ask(terminal, "select nix;", "no such column")
        ask(terminal, r"\watch 0.05", "no such column")


def test_names_have_values_which_are_parameters_and_no_text(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\set n 40", "")
        ask(terminal, r"""\set who it's "x" """, "")
        ask(terminal, r"\set", 'n = 40\nwho = "it\'s \\"x\\""\n')
        ask(terminal, "select :n + 2 as a, :who as b, ':n' as c;", """42 | it's "x" | :n\n""")
        ask(terminal, r"\set 1n 2", "is no name")
        ask(terminal, r"\unset n", "")
        ask(terminal, "select :n;", "[")


def test_the_last_statement_is_edited_and_comes_back_to_the_prompt(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}{EDITED}")
    editor.chmod(0o755)
    (tmp_path / "own.sql").write_text("select 41 as own;")
    with at_prompt(tmp_path, VISUAL=str(editor)) as terminal:
        terminal.until("db_1>")
        ask(terminal, "select 41 as a;", "41\n")
        terminal.type("\\e\r")
        terminal.until("select 42 as a;")
        terminal.type("\r")
        terminal.until("a\n--\n42\n")
        terminal.type("\\e own.sql\r")
        terminal.until("select 42 as own;")
        terminal.type("\r")
        terminal.until("own\n---\n 42\n")
    with at_prompt(tmp_path, VISUAL=str(tmp_path / "none")) as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\e", "$VISUAL or $EDITOR names your editor")
    with at_prompt(tmp_path, VISUAL="false") as terminal:
        terminal.until("db_1>")
        ask(terminal, r"\e", "nothing is taken from it")


def test_what_was_typed_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        ask(terminal, "select 12345 - 1 as a;", "12344\n")
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("\x1b[A")
        terminal.until("select 12345 - 1 as a;")
    history = tmp_path / "state" / "rrext" / "sql_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700


def test_sigterm_ends_the_prompt_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.process.terminate()
        assert terminal.ended() == 143
        assert termios.tcgetattr(terminal.fd)[3] & termios.ECHO


def test_without_its_package_or_a_terminal_there_is_no_prompt_and_it_says_so(tmp_path: Path) -> None:
    with at_prompt(tmp_path) as terminal:
        terminal.until("db_1>")
    path = str(tmp_path / "p.pipe")
    main, side = pty.openpty()
    hidden = "import sys; sys.modules['prompt_toolkit'] = None; from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    try:
        done = subprocess.run(command("sql", path), stdin=side, capture_output=True, env=environment(), check=False)
        assert (done.returncode, b"no terminal" in done.stderr) == (2, True)
        words = [sys.executable, "-c", hidden, "sql", path]
        bare = subprocess.run(words, stdin=side, stdout=side, stderr=subprocess.PIPE, env=environment(), check=False)
        assert (bare.returncode, b'pip install "rrext[cli]"' in bare.stderr) == (2, True)
    finally:
        os.close(main)
        os.close(side)


@pytest.mark.parametrize("flag", ["--explain", "-p1"])
def test_what_needs_a_statement_is_no_prompt(flag: str, tmp_path: Path) -> None:
    main, side = pty.openpty()
    try:
        done = subprocess.run(
            command("sql", "p.pipe", flag), stdin=side, capture_output=True, env=environment(), cwd=tmp_path, check=False
        )
        assert (done.returncode, b"there is no statement" in done.stderr) == (2, True)
    finally:
        os.close(main)
        os.close(side)
