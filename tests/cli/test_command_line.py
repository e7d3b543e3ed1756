"""`rrext` itself: its commands, its help, its version."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import EXAMPLES, call, command, environment, spawned
from forked import process

from rrext import __version__
from rrext.cli.data_files import is_data
from rrext.cli.main import COMMANDS, MODULES

OF_NO_NODES = ("init", "new", "trust", "trace", "ps", "logs", "stop", "help", "completion")
"""Commands that load no nodes."""


def test_the_version_is_a_result() -> None:
    done = call("--version")
    assert (done.code, done.out.decode(), done.err) == (0, f"rrext {__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_of_it(name: str) -> None:
    done = call(name, "--help")
    assert (done.code, done.err) == (0, "")
    shown = done.out.decode()
    assert "example" in shown
    assert f"\n  rrext {name}" in shown.partition("example")[2]
    assert name in OF_NO_NODES or "--nodes FILE.py|MODULE" in shown


def test_the_help_names_every_command() -> None:
    shown = call("--help").out.decode()
    assert all(f"\n    {name}" in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "COMMAND"),
        (("toool",), "there is no command toool. Did you mean tool or tools?"),
        (("xyzzy",), "`rrext help` lists them"),
        (("p.pipe",), "`rrext tools p.pipe`"),
        (("tool",), "FILE.pipe, TOOL"),
    ],
)
def test_a_command_that_is_none_is_a_mistake_of_usage(words: tuple[str, ...], said: str) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


@pytest.mark.parametrize("name", ["tool", "tools", "send"])
def test_a_command_loads_nothing_that_it_does_not_need(name: str) -> None:
    libraries = "anyio, attrs, cattrs, pygls, importlib.metadata"
    heavy = f"{libraries}, rrext.server, rrext.client.client, rrext.cli.commands.servers.serve, rrext.engine.calls"
    code = f"import sys, {MODULES[name]}; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_help_that_nobody_reads_ends_quietly() -> None:
    with spawned("--help", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_help_is_a_command_too() -> None:
    assert call("help").out == call("--help").out
    assert call("help", "tool").out == call("tool", "--help").out
    assert call("help", "tols").code == 2


@pytest.mark.parametrize("words", [("tools", "filesystm.pipe"), ("check", "filesystem"), ("serve", "file_system.pipe")])
def test_a_file_that_is_not_there_has_near_matches(words: tuple[str, str]) -> None:
    done = call(*words, cwd=EXAMPLES)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith(f"rrext: {words[1]}: No such file or directory. Did you mean filesystem.pipe?\n")


def test_init_writes_a_pipeline_that_runs_by_the_command_that_it_names(tmp_path: Path) -> None:
    done = call("init", "my first.pipe", cwd=tmp_path)
    assert (done.code, done.out) == (0, b"")
    *_, named = done.err.splitlines()
    assert call("check", "my first.pipe", cwd=tmp_path).err == "my first.pipe: ok, 3 components\n"
    (tmp_path / "note.txt").write_text("hello")
    called = call(*shlex.split(named)[1:], cwd=tmp_path)
    assert [entry["name"] for entry in called.value["entries"]] == ["my first.pipe", "note.txt"]
    assert call("send", "my first.pipe", "note.txt", cwd=tmp_path).value["result"]["text"][0].strip() == "hello"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mcp", "p.pipe", "--print-config"], "argument --print-config: expected one argument; `rrext help mcp`"),
        (["mcp", "p.pipe", "--print-config", "claud"], "invalid choice: 'claud' (choose from"),
        (["serve", "--record"], "argument --record: expected one argument; `rrext help serve`"),
        (["--nonsense"], "the following arguments are required: COMMAND; `rrext help` lists"),
    ],
)
def test_wrong_words_are_told_in_a_line_without_all_others(words: list[str], said: str, tmp_path: Path) -> None:
    done = call(*words, cwd=tmp_path)
    assert (done.code, done.out, said in done.err, done.err.count("\n")) == (2, b"", True, 1), done


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    assert call("init", cwd=tmp_path).code == 0
    before = (tmp_path / "pipeline.pipe").read_text()
    done = call("init", cwd=tmp_path)
    assert (done.code, "not overwritten" in done.err) == (2, True)
    assert (tmp_path / "pipeline.pipe").read_text() == before


def test_init_writes_to_stdout_what_other_commands_read_from_stdin(tmp_path: Path) -> None:
    written = call("init", "-", cwd=tmp_path)
    assert (written.code, written.err, list(tmp_path.iterdir())) == (0, "", [])
    assert call("check", "-", stdin=written.out, cwd=tmp_path).err == "-: ok, 3 components\n"


def test_an_init_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    line = 'ulimit -f 0; exec "$@"'
    done = subprocess.run(["sh", "-c", line, "sh", *command("init")], cwd=tmp_path, env=environment(), capture_output=True)
    assert (done.returncode, done.stderr) == (2, b"rrext: pipeline.pipe: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_name_is_no_file() -> None:
    assert call("tools", "").err == "rrext: : No such file or directory\n"


def test_a_server_at_a_terminal_says_what_it_is_and_ends_with_ctrl_d(tmp_path: Path) -> None:
    with at_terminal(["serve", str(EXAMPLES / "filesystem.pipe")], folder=tmp_path) as terminal:
        terminal.until("a server for programs")
        terminal.until("Ctrl-D or Ctrl-C ends it")
        terminal.type("\x04")
        assert terminal.ended() == 0
    with at_terminal(["serve", "--listen", "unix:s.sock"], folder=tmp_path) as terminal:
        terminal.until("listening at unix:s.sock. Ctrl-C ends it")
        terminal.type("\x03")
        assert terminal.ended() == 0


PRINTING = (
    "doctor",
    "check --json FILE",
    "check --diff FILE",
    "check FILE",
    "nodes",
    "schema",
    "completion fish",
    "help check",
)


NAMED = {"ECHO": "echo", "NOTES": "filesystem", "BASE": "sqlite", "CHAT": "chat"}
"""Words of a command line, and the examples that they are."""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.pipe"
    path.write_text('{"components": [{"id": "é→🎉", "provider": "webhook"}')
    return path


def given(words: str, broken: Path) -> list[str]:
    """The command of these words: FILE is `broken`, other capitals are examples, and + a blank."""
    files = {"FILE": str(broken), "TEXT": str(EXAMPLES / "library" / "welcome.txt")}
    files.update((name, str(EXAMPLES / f"{stem}.pipe")) for name, stem in NAMED.items())
    return command(*(files.get(word, word).replace("+", " ") for word in words.split()))


def in_shell(line: str, words: str, broken: Path, stdout: int = subprocess.PIPE, **variables: str) -> Any:
    """Run a line in which "$@" is the command of these words, whose stdout is buffered as that of a stranger."""
    variables = {**environment(), **variables, "PYTHONUNBUFFERED": ""}
    return subprocess.run(["sh", "-c", line, "sh", *given(words, broken)], stdout=stdout, stderr=subprocess.PIPE, env=variables)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_a_line_and_a_failure_of_each_command(words: str, broken: Path) -> None:
    done = in_shell('exec "$@" >/dev/full', words, broken)
    *_, last = done.stderr.decode().splitlines()
    assert (done.returncode, last) == (1, "rrext: stdout: No space left on device")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [*PRINTING, "init -", "trust --list"])
def test_a_closed_stdout_is_a_line_and_a_failure_of_each_command(words: str, broken: Path) -> None:
    done = in_shell('exec "$@" >&-', words, broken)
    assert (done.returncode, done.stderr) == (1, b"rrext: stdout: Bad file descriptor\n")


OTHERS = (
    "--help",
    "--version",
    "tool --help",
    "mcp --print-config codex ECHO",
    "show ECHO",
    "show --svg FILE",
    "show --mermaid FILE",
    "tools NOTES",
    "tools NOTES --format openai",
    "tool NOTES list_directory",
    "tool NOTES list_directory --csv",
    "tool NOTES list_directory --stream",
    "sql BASE select+1",
    "sql BASE select+1 --json",
    "sql BASE select+1 --md",
    "send ECHO TEXT",
    "chat CHAT Hello",
)


def no_reader(kind: str) -> int:
    """A descriptor to write to, whose reader went away."""
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    theirs.send(b"x")
    ours.recv(1, socket.MSG_PEEK)
    ours.close()  # with a byte unread: the peer is reset
    return theirs.detach()


@pytest.mark.parametrize(("kind", "is_buffered"), [("pipe", True), ("pipe", False), ("socket", True)])
@pytest.mark.parametrize("words", [*PRINTING, *OTHERS])
def test_a_command_whose_reader_has_gone_ends_without_a_word(words: str, kind: str, is_buffered: bool, broken: Path) -> None:
    variables = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    if not is_buffered:
        variables["PYTHONUNBUFFERED"] = "1"
    with open(no_reader(kind), "wb") as writer:
        started = process(given(words, broken), stdout=writer, stderr=subprocess.PIPE, env=variables)
        assert (started.communicate()[1], started.returncode) == (b"", 141)


def test_problems_come_before_their_number_where_both_go_to_one_file(broken: Path, tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as both:
        in_shell('exec "$@" 2>&1', "check FILE", broken, both.fileno())
    first, *_, last = (tmp_path / "out").read_text().splitlines()
    assert first.startswith(f"{broken}:1:")
    assert last.startswith(f"{broken}: 1 error")


SQLITE = b"SQLite format 3\0\x10"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("crm.db", SQLITE, "a database, no pipeline. `rrext sql crm.db` asks it; else name a pipeline"),
        ("crm.pipe", SQLITE, "a database"),
        ("crm", b"\0" * 8 + b"DUCK\x40", "a database"),
        ("orders.csv", b"day,amount\n", "a table"),
        ("orders", b"day,amount\n", "a text"),
        ("orders.jsonl", b'{"day": 1}\n{"day": 2}\n', "a table"),
        ("a.PDF", b"%PDF-1.7", "a document"),
        ("a.xlsx", b"PK\x03\x04", "a table"),
        ("a.gz", b"\x1f\x8b\x08", "an archive"),
        ("core", b"\x7fELF\0", "a binary file"),
        ("report.sql", b"select 1", "a file of statements, no pipeline. `rrext sql FILE.pipe -f"),
        ("stock.py", b"import rrext", "a program, no pipeline. --nodes"),
        ("p.pipe", '{"components": []}'.encode("utf-16"), "a text in UTF-16, and a pipeline is UTF-8"),
    ],
)
def test_a_file_that_is_no_pipeline_is_named_as_what_it_is(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    for words in (("sql", "select 1"), ("tools",), ("show",), ("check",), ("check", "--fix"), ("serve",)):
        if words[0] == "sql" and is_data(name):
            continue  # it is asked
        done = call(words[0], name, *words[1:], cwd=tmp_path)
        lines = (done.out.decode() + done.err).splitlines()
        assert (done.code, len(lines), f"{name}: error: This is {said}" in lines[0]) == (2, 1, True)
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("name", ["p.pipe", "p.json", "p.txt", "p"])
def test_a_broken_pipeline_has_its_problems_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('\n// mine\n{"components": [}')
    done = call("tools", str(tmp_path / name))
    assert done.code == 2
    assert f"{name}:3:" in done.err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("stock.py", "", "stock.py may define it: --nodes stock.py loads"),
        ("my nodes.py", "class S(Node):\n    provider = 'stock'\n", "my nodes.py defines it: --nodes 'my nodes.py' loads"),
        ("shop.py", 'class S(Node):\n    provider: ClassVar[str] = "stock"\n', "shop.py defines it: --nodes shop.py loads"),
        ("shop.py", 'provider = "stock_2"', None),
        ("stock.txt", 'provider = "stock"', None),
    ],
)
def test_a_file_of_nodes_beside_a_pipeline_is_named_where_its_node_is_not_known(
    tmp_path: Path, name: str, text: str, said: str | None
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "p.pipe").write_text('{"components": [{"id": "s", "provider": "stock"}, {"id": "t", "provider": "other"}]}')
    for each in ("tools", "check", "serve"):
        done = call(each, "p.pipe", cwd=tmp_path)
        told = done.out.decode() + done.err
        assert told.count("loads the nodes of a file") == (said is not None)
        assert said is None or f"    {said} the nodes of a file.\n" in told
        assert "other.py" not in told


@pytest.mark.parametrize("words", PRINTING)
def test_results_are_utf_8_in_every_locale(words: str, broken: Path) -> None:
    plain, other = (
        in_shell('exec "$@"', words, broken, LC_ALL=name, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") for name in ("C.UTF-8", "C")
    )
    assert (other.returncode, other.stdout) == (plain.returncode, plain.stdout)
    assert other.stdout


def test_the_each_a_file_is_data(tmp_path: Path, broken: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\x1b[31m\xff.pipe"
    os.rename(broken, name)
    found = call("check", "--json", os.fsdecode(name))
    assert (found.code, found.value["file"]) == (2, f"{tmp_path}/\x1b[31m\\xff.pipe")
    told = call("check", os.fsdecode(name))
    assert told.code == 2
    assert "\x1b" not in told.out.decode() + told.err + call("check", os.fsdecode(name) + "x").err


def test_a_closed_stdin_is_a_file_that_cannot_be_read() -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command("check", "-")], capture_output=True, env=environment())
    assert (done.returncode, done.stderr) == (2, b"rrext: -: Bad file descriptor\n")


def test_words_may_follow_options(tmp_path: Path) -> None:
    chat, echo = str(EXAMPLES / "chat.pipe"), str(EXAMPLES / "echo.pipe")
    asked = call("chat", chat, "--json", "When are you open?")
    assert (asked.code, asked.value["question"]) == (0, "When are you open?")
    checked = call("check", chat, "--json", echo)
    assert (checked.code, [line["file"] for line in checked.lines]) == (0, [chat, echo])
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    sent = call("send", echo, str(tmp_path / "a.txt"), "--partial", str(tmp_path / "b.txt"))
    assert (sent.code, len(sent.lines)) == (0, 2)
    offered = call("mcp", chat, "--root", str(tmp_path), echo, "--print-config", "zed")
    assert (offered.code, echo in offered.out.decode()) == (0, True)


def test_a_tool_that_closes_stdout_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "closing.py").write_text(
        "import sys\nfrom rrext import Node, tool_function\n\n\nclass Closing(Node):\n    provider = 'closing'\n\n"
        "    @tool_function\n    def end(self) -> str:\n        sys.__stdout__.close()\n        return 'done'\n"
    )
    closing = '{"id": "c", "provider": "closing", "control": [{"classType": "tool", "from": "t"}]}'
    (tmp_path / "a.pipe").write_text(f'{{"components": [{{"id": "t", "provider": "tools"}}, {closing}]}}')
    done = call("tool", "--nodes", "closing.py", "a.pipe", "end", cwd=tmp_path)
    assert (done.code, done.value, done.err) == (0, "done", "")
