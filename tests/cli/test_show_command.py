"""`rrext show`: a pipeline as a picture for people, and as a file for documents."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import EXAMPLES, NODES, call, command, component, environment, here, pipeline

WEBHOOK = component("w", "webhook")


def test_a_good_pipeline_is_drawn_and_nothing_else_is_said_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "filesystem.pipe")
    done = here(capfd, "show", path)
    assert done.code == 0
    shown = done.out.decode()
    assert shown.startswith("library\n\n┏━━━━━")
    assert "┠┄┄┄ tool ┄▷ files_1" in shown
    assert shown.endswith("\n━ source   ═ response   ─▶ data   ┄▷ control\n")
    assert "\x1b" not in shown, "no terminal, no colours"
    assert done.err == f"{path}: ok, 3 components\n"


def test_a_broken_pipeline_is_drawn_and_its_problems_stand_below_as_check_lists_them(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = pipeline(tmp_path, WEBHOOK, component("a", "promt", "text:w", "text:gone"))
    checked = here(capfd, "check", path)
    done = here(capfd, "show", path)
    assert done.code == checked.code == 2
    picture, _, problems = done.out.decode().rpartition("\n\n")
    assert problems == checked.out.decode()
    assert "[unknown_provider]" in problems
    assert f"{path}:1:" in problems
    assert "✗ a " in picture
    assert "no such component" in picture
    assert done.err == checked.err == f"{path}: 2 errors\n"


def test_warnings_alone_end_with_0(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = pipeline(tmp_path, WEBHOOK, component("a", "prompt", "text:w", nothing=1))
    done = here(capfd, "show", path)
    assert done.code == 0
    assert "warning: " in done.out.decode()
    assert "! " in done.out.decode()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"components": [7]}'])
def test_a_file_with_nothing_to_draw_has_its_problems_alone(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "p.pipe"
    path.write_text(text)
    for form in ([], ["--svg"], ["--mermaid"]):
        done = here(capfd, "show", str(path), *form)
        assert done.code == 2
        assert "error: " in (done.err if form else done.out.decode())
        if not form:
            assert done.out.decode().startswith(f"{path}:1:" if "7" not in text else "┌──")


@pytest.mark.parametrize("form", ["--svg", "--mermaid"])
def test_pictures_for_programs_have_stdout_for_themselves(capfd: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    path = pipeline(tmp_path, WEBHOOK, component("a", "promt", "text:w"))
    done = here(capfd, "show", form, path)
    assert done.code == 2
    assert "[unknown_provider]" in done.err
    if form == "--svg":
        root = ElementTree.fromstring(done.out)
        assert [group.attrib["data-node"] for group in root.iter() if "data-node" in group.attrib] == ["w", "a"]
    else:
        assert done.out.decode().startswith("flowchart TD\n")
        assert "%% 1:" in done.out.decode()


@pytest.mark.parametrize("form", [["--svg"], ["--mermaid"], []])
def test_o_writes_a_file_and_leaves_stdout_alone(capfd: pytest.CaptureFixture[str], tmp_path: Path, form: list[str]) -> None:
    source = str(EXAMPLES / "chat.pipe")
    printed = here(capfd, "show", source, *form).out
    done = here(capfd, "show", source, *form, "-o", str(tmp_path / "picture"))
    assert (done.code, done.out) == (0, b"")
    assert (tmp_path / "picture").read_bytes() == printed
    assert printed


def test_a_file_that_cannot_be_written_is_a_failure(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = str(tmp_path / "nowhere" / "x.svg")
    done = here(capfd, "show", "--svg", "-o", target, str(EXAMPLES / "chat.pipe"))
    assert done.code == 1
    assert f"rrext: {target}: No such file or directory\n" in done.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told_and_a_closed_stdout_too() -> None:
    path = str(EXAMPLES / "chat.pipe")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command("show", path), env=environment(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.decode() == f"rrext: stdout: No space left on device\n{path}: ok, 3 components\n"
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command("show", path)]
    done = subprocess.run(closed, env=environment(), stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("rrext: stdout: Bad file descriptor\n")


def test_a_reader_that_has_enough_is_no_error() -> None:
    line = f"{' '.join(command('show', str(EXAMPLES / 'chat.pipe')))} | head -c 1"
    done = subprocess.run(line, shell=True, env=environment(), capture_output=True)
    assert b"Traceback" not in done.stderr


def test_a_file_that_cannot_be_read_is_a_usage_error(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = here(capfd, "show", str(tmp_path / "none.pipe"))
    assert (done.code, done.out) == (2, b"")
    assert "none.pipe: No such file" in done.err


def test_svg_and_mermaid_at_once_and_widths_that_are_none_are_usage_errors(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "chat.pipe")
    assert here(capfd, "show", "--svg", "--mermaid", path).code == 2
    assert here(capfd, "show", "--width", "0", path).code == 2
    assert here(capfd, "show").code == 2


def test_standard_input_is_a_pipeline_too() -> None:
    done = call("show", "-", stdin=(EXAMPLES / "echo.pipe").read_bytes())
    assert done.code == 0
    assert "reply_1" in done.out.decode()


def test_nodes_of_ones_own_and_names_of_variables_are_known(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "hidden")
    path = pipeline(
        tmp_path,
        WEBHOOK,
        component("p", "picky", "text:w", config={"hideForm": "${MY_KEY}"}),
        component("r", "response_text", "text:p"),
    )
    assert here(capfd, "show", path).code == 2
    done = here(capfd, "show", "--nodes", NODES, "--env", "MY_KEY", path)
    assert done.code == 0
    assert "picky" in done.out.decode()
    assert "hidden" not in done.out.decode() + done.err


def widest(out: bytes) -> int:
    return max(map(len, out.decode().splitlines()))


def test_the_width_is_that_of_the_terminal_and_never_more_than_200_unless_asked(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pipeline(tmp_path, WEBHOOK, *(component(f"prompt_{index}", "response_text", "text:w") for index in range(40)))
    found = {}
    for columns in ("60", "120", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        found[columns] = widest(here(capfd, "show", path).out)
    assert found["60"] <= 60 < found["120"] <= 120 < found["300"] <= 200
    assert 200 < widest(here(capfd, "show", "--width", "400", path).out) <= 400
    assert widest(here(capfd, "show", "--width", "50", path).out) <= 50


def test_more_components_than_a_picture_can_show_are_a_failure_that_names_the_limit(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    many = [component(f"r{index}", "response_text", "text:w") for index in range(1000)]
    done = here(capfd, "show", pipeline(tmp_path, WEBHOOK, *many))
    assert (done.code, done.out) == (1, b"")
    assert "1001 nodes are more than a picture can show: 1000 (max_nodes)" in done.err


def test_a_thousand_components_are_drawn(tmp_path: Path) -> None:
    many = [component(f"r{index}", "response_text", f"text:{f'r{index - 1}' if index % 7 else 'w'}") for index in range(999)]
    done = call("show", pipeline(tmp_path, WEBHOOK, *many))
    assert all(f" r{index} " in done.out.decode() for index in range(999))


def test_the_picture_is_utf_8_whatever_the_terminal_says() -> None:
    done = call("show", str(EXAMPLES / "chat.pipe"), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert done.code == 0
    assert "┏━━" in done.out.decode()


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = pipeline(tmp_path, WEBHOOK, component("\x1b[31mred\u202e", "\x1b]0;title\x07", "\x1b[2J:w", control="\x9b"))
    for form in ([], ["--svg"], ["--mermaid"]):
        done = here(capfd, "show", path, *form)
        assert not re.search("[\x1b\x07\x9b\u202e]", done.out.decode() + done.err)


def in_terminal(*args: str, **env: str) -> str:
    """What a command writes to a terminal of 90 columns."""
    leader, follower = pty.openpty()
    try:
        with subprocess.Popen(
            command(*args), stdin=follower, stdout=follower, stderr=subprocess.DEVNULL, env=environment(COLUMNS="90", **env)
        ) as process:
            found = io.BytesIO()
            while process.poll() is None or select.select([leader], [], [], 0)[0]:
                if select.select([leader], [], [], 0.05)[0]:
                    found.write(os.read(leader, 65536))
            return found.getvalue().decode().replace("\r\n", "\n")
    finally:
        os.close(leader)
        os.close(follower)


def test_colours_are_for_terminals_whose_owner_wants_them() -> None:
    path = str(EXAMPLES / "chat.pipe")
    coloured = in_terminal("show", path, TERM="xterm", NO_COLOR="")
    assert "\x1b[32m┏" in coloured
    plain = in_terminal("show", path, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b" not in in_terminal("show", path, TERM="dumb", NO_COLOR="")
