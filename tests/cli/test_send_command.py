"""`rrext send`: files and folders, one line each."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from command_terminal import at_terminal
from commands import EXAMPLES, NODES, Done, call, component, here, pipeline, spawned, until

ECHO = str(EXAMPLES / "echo.pipe")


@pytest.fixture
def picky(tmp_path: Path) -> str:
    """A pipeline that answers text in capitals, and fails where it is asked to."""
    (tmp_path / "pipes").mkdir()
    return pipeline(
        tmp_path / "pipes",
        component("w", "webhook"),
        component("p", "picky", "text:w", "json:w"),
        component("r", "response_text", "text:p", laneName="said"),
    )


@pytest.fixture
def send(picky: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Send files of the test's folder through that pipeline in this process."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Done:
        return here(capfd, "send", picky, *args, "--nodes", NODES)

    return run


def by_path(done: Done) -> dict[str, dict]:
    return {line["path"]: line for line in done.lines}


def test_a_file_has_a_line_with_its_path_and_its_result(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    done = call("send", ECHO, "a.txt", cwd=tmp_path)
    assert done.code == 0
    assert done.err.endswith("rrext: 1 file, 5 B sent: 1 done, 0 failed\n")
    assert done.value["path"] == "a.txt"
    assert done.value["result"]["name"] == "a.txt"
    assert done.value["result"]["reply"][0].startswith("hello")


def test_a_folder_means_all_files_below_it(tmp_path: Path, send) -> None:
    for name in ("z/b.txt", "z/.hidden.txt", "z/deep/er/a.md", "z/data.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "z" / "loop").symlink_to(tmp_path / "z", target_is_directory=True)
    done = send("z", "--jobs", "1")
    assert [line["path"] for line in done.lines] == ["z/.hidden.txt", "z/b.txt", "z/data.csv", "z/deep/er/a.md"]
    assert all(line["result"]["said"] for line in done.lines)


def test_an_empty_folder_is_nothing_to_do(tmp_path: Path, send) -> None:
    (tmp_path / "empty").mkdir()
    done = send("empty")
    assert (done.code, done.out) == (0, b"")
    assert "rrext: empty: there is no file in this folder\n" in done.err
    assert "0 files" in done.err
    (tmp_path / "a.txt").write_text("x")
    assert "no file in this folder" not in send("a.txt", ".").err


def test_a_failed_file_has_its_error_and_others_go_on(tmp_path: Path, send) -> None:
    for name, text in (("a.txt", "please fail"), ("b.txt", "fine"), ("c.txt", "be late")):
        (tmp_path / name).write_text(text)
    done = send("a.txt", "b.txt", "c.txt", "gone.txt")
    found = by_path(done)
    assert done.code == 1
    assert found["b.txt"]["result"]["said"][0].strip() == "FINE"
    assert found["a.txt"]["error"]["code"] == "tool_failed"
    assert "ValueError: asked to fail" in found["a.txt"]["error"]["message"]
    assert found["a.txt"]["result"]["name"] == "a.txt"
    assert "asked to fail late" in found["c.txt"]["error"]["message"]
    assert found["c.txt"]["result"]["said"][0].startswith("BE LATE")
    assert "error" not in found["c.txt"]["result"]
    assert found["gone.txt"] == {"path": "gone.txt", "error": {"code": "unreadable", "message": "No such file or directory"}}
    assert "rrext: gone.txt: No such file or directory [unreadable]" in done.err
    assert "rrext: a.txt: " in done.err
    assert done.err.endswith("4 files, 11 B sent: 1 done, 3 failed\n")


def test_a_thousand_failures_at_one_line_are_explained_once(tmp_path: Path, send) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("fail")
    done = send(*(f"{number}.txt" for number in range(20)))
    assert len(done.lines) == 20
    assert done.err.count("Traceback") == 1
    assert done.err.count("asked to fail [tool_failed]") == 20


def test_a_broken_link_in_a_folder_is_skipped_and_one_that_is_given_fails(tmp_path: Path, send) -> None:
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "broken.txt").symlink_to("nowhere")
    done = send("z")
    assert (done.code, done.value["skipped"].partition(": ")[0]) == (0, "is a link that leads nowhere")
    done = send("z/broken.txt")
    assert (done.code, done.value["error"]["code"]) == (1, "unreadable")


def test_a_file_is_sent_in_pieces_of_at_most_a_mebibyte(tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("c", "crowd", "tags:w"))
    (tmp_path / "big.bin").write_bytes(bytes(3_500_000))
    done = call("send", path, "big.bin", "--nodes", NODES, cwd=tmp_path)
    assert done.code == 0, done
    assert "3.3 MiB sent" in done.err


def test_no_more_files_than_jobs_are_open_at_once(tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("c", "crowd", "tags:w"))
    (tmp_path / "f").mkdir()
    for number in range(40):
        (tmp_path / "f" / f"{number}.bin").write_bytes(b"x" * 10)
    done = call("send", path, "f", "--jobs", "3", "--nodes", NODES, cwd=tmp_path)
    counts = {int(line.split()[0]) for line in done.err.splitlines() if line.endswith("at once")}
    assert len(done.lines) == 40
    assert max(counts) <= 3


def test_more_jobs_than_a_pipeline_has_pipes_otherwise(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for number in range(100):
        (tmp_path / "f" / f"{number}.txt").write_text("x")
    done = call("send", ECHO, "f", "--jobs", "90", cwd=tmp_path)
    assert (done.code, len(done.lines)) == (0, 100)


def test_mime_is_the_type_of_all_files(tmp_path: Path, send) -> None:
    (tmp_path / "README").write_text("text without an extension")
    (tmp_path / "data.json").write_text("{}")
    done = send("README", "data.json", "--mime", "text/plain")
    assert [line["result"]["said"][0].strip() for line in done.lines if line["path"] == "README"] == [
        "TEXT WITHOUT AN EXTENSION"
    ]
    assert by_path(done)["data.json"]["result"]["said"][0].strip() == "{}"


@pytest.mark.parametrize(
    ("mime", "said"), [("lane/txt", "Did you mean lane/text?"), ("text", "--mime: expected a MIME type such as text/plain")]
)
def test_a_wrong_mime_type_sends_nothing(mime: str, said: str, tmp_path: Path, send) -> None:
    (tmp_path / "a.txt").write_text("x")
    done = send("a.txt", "--mime", mime)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5"])
def test_jobs_is_a_whole_number(jobs: str, send) -> None:
    done = send("a.txt", f"--jobs={jobs}")
    assert done.code == 2
    assert "argument --jobs: expected a whole number from 1" in done.err


def test_a_lane_of_whole_values_gets_each_file_in_one_write(tmp_path: Path, send) -> None:
    (tmp_path / "big.json").write_text(json.dumps({"a": "x" * 2_500_000}))
    done = send("big.json")
    assert done.value["result"]["said"][0].strip() == "1 values"


def test_a_lane_of_whole_values_refuses_what_is_none(tmp_path: Path, send) -> None:
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "huge.json").write_text('"' + "x" * (16 * 1024 * 1024) + '"')
    done = send("empty.json", "huge.json")
    assert done.code == 1
    assert "expected one whole JSON value" in by_path(done)["empty.json"]["error"]["message"]
    assert by_path(done)["huge.json"]["error"]["code"] == "frame_too_large"


def test_text_that_is_not_utf_8_fails_with_a_hint(tmp_path: Path, send) -> None:
    (tmp_path / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    done = send("latin.txt")
    assert done.code == 1
    assert done.value["error"]["hint"]
    assert "not UTF-8" in done.value["error"]["message"]


def test_what_no_node_takes_is_told_once(tmp_path: Path, send) -> None:
    for name in ("a.bin", "b.bin", "c.txt"):
        (tmp_path / name).write_bytes(b"x")
    done = send("a.bin", "b.bin", "c.txt")
    assert done.code == 0
    assert done.err.count("no node takes application/octet-stream here (tags lane)") == 1
    done = send(".")
    assert (done.code, by_path(done)["./a.bin"]["skipped"]) == (0, "no node takes application/octet-stream here (tags lane)")
    assert "1 done, 0 failed, 3 skipped" in done.err  # the pipeline too


def test_send_does_not_fit_a_chat_and_says_what_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chat, question = str(EXAMPLES / "chat.pipe"), tmp_path / "q.txt"
    question.write_text("When are you open?")
    done = here(capfd, "send", chat, str(question))
    assert (done.code, done.out) == (2, b"")
    assert '"chat_1" takes questions, not files: `rrext send` does not fit' in done.err
    assert "--mime lane/questions" in done.err
    done = here(capfd, "send", chat, str(question), "--mime", "lane/questions")
    assert done.value["result"]["answers"] == ["The library is open from nine to five."]


def test_send_does_not_fit_a_pipeline_of_tools_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = pipeline(tmp_path, component("t", "tools"), component("k", "kinds", control="t"))
    done = here(capfd, "send", path, path, "--nodes", NODES)
    assert (done.code, done.out) == (2, b"")
    assert "takes no data" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_no_utf_8_is_shown_with_its_bytes(tmp_path: Path, send) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("x")
    done = send(name)
    assert done.value["path"] == "caf\\xe9.txt"
    assert done.value["result"]["name"] == "caf\\xe9.txt"


def test_stdin_is_a_file_too(tmp_path: Path) -> None:
    done = call("send", ECHO, "/dev/stdin", "--mime", "text/plain", stdin=b"from a pipe")
    assert done.value["result"]["reply"][0].startswith("from a pipe")


def test_a_thousand_files_have_a_thousand_lines(tmp_path: Path) -> None:
    for number in range(1000):
        folder = tmp_path / "f" / str(number % 10)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(f"file {number}")
    done = call("send", ECHO, "f", cwd=tmp_path)
    assert done.code == 0
    assert done.err.endswith("rrext: 1000 files, 7.7 KiB sent: 1000 done, 0 failed\n")
    assert {line["result"]["reply"][0].strip() for line in done.lines} == {f"file {number}" for number in range(1000)}
    assert len(done.lines) == 1000


def test_it_ends_quietly_when_nobody_reads_any_more(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for number in range(200):
        (tmp_path / "f" / f"{number}.txt").write_text("x" * 10_000)
    with spawned("send", ECHO, "f", cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["result"]
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_an_invalid_pipeline_sends_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = pipeline(tmp_path, component("w", "webhok"))
    done = here(capfd, "send", path, path)
    assert (done.code, done.out) == (2, b"")
    assert 'Did you mean "webhook"?' in done.err


def test_what_nodes_print_is_not_among_the_lines(tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("g", "gate", "text:w"), component("l", "loud", "text:g"))
    (tmp_path / "a.txt").write_text("x")
    done = call("send", path, "a.txt", "--nodes", NODES, cwd=tmp_path)
    assert done.value["path"] == "a.txt"
    assert "loud text" in done.err


def test_ctrl_c_tells_what_was_done_and_frees_the_pipes(tmp_path: Path) -> None:
    path = pipeline(
        tmp_path, component("w", "webhook"), component("g", "gate", "text:w"), component("r", "response_text", "text:g")
    )
    (tmp_path / "f").mkdir()
    for name in ("a.txt", "b.wait.txt", "c.txt", "d.txt"):
        (tmp_path / "f" / name).write_text("x")
    with spawned("send", path, "f", "--jobs", "1", "--nodes", NODES, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["path"] == "f/a.txt"
        until(process.stderr, "waiting")
        process.send_signal(2)
        rest = process.stderr.read().decode()
        assert json.loads(process.stdout.read()) == {
            "path": "f/b.wait.txt",
            "error": {"code": "cancelled", "message": "cancelled"},
        }
        assert process.wait() == 130
    said = r"rrext: interrupted: 4 files, \d B sent: 1 done, 0 failed, 1 cancelled, 2 not sent\n"
    assert re.search(said, rest), rest
    assert "closed" in rest


def test_a_terminal_shows_progress_and_the_summary_and_no_line_for_each_file(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("hello")
    with at_terminal(["send", ECHO, "a.txt", "b.txt"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert "2 files, 10 B sent: 2 done, 0 failed" in terminal.shown
        assert "reply" not in terminal.shown
    with at_terminal(["send", ECHO, "a.txt", "b.txt", "--json"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert terminal.shown.count('"reply"') == 2 * 2  # the name of the lane, and its values
    with at_terminal(["send", ECHO, "a.txt"], folder=tmp_path) as terminal:
        assert terminal.ended() == 0
        assert '"path":"a.txt"' in terminal.shown


SLOW = """
import time
from rrext import Node


class Slow(Node):
    provider = "slow"
    lanes = {"tags": ()}

    def open(self, entry):
        self.begun = time.monotonic()

    def write_tags(self, tag):
        while time.monotonic() < self.begun + 1.2:  # the rate is that of more than a second
            time.sleep(0.05)
"""


def test_progress_at_a_terminal_has_the_rate_and_the_time_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "slow_node.py").write_text(SLOW)
    path = pipeline(tmp_path, component("d", "dropper"), component("s", "slow", "tags:d"))
    (tmp_path / "a.bin").write_bytes(bytes(9_000_000))
    with at_terminal(["send", path, "a.bin", "--nodes", "slow_node.py"], folder=tmp_path, columns=160) as terminal:
        assert terminal.ended() == 0
        assert re.search(r"iB/s, \d+ s left", terminal.shown), terminal.shown
