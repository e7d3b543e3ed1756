"""`rrext tool`: input, result, errors and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from commands import EXAMPLES, NODES, Done, InProcess, call, command, component, environment, here, pipeline, spawned, until

FILES = str(EXAMPLES / "filesystem.pipe")
READ = ("tool", FILES, "read_file", "--input")


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    """A pipeline with the tools of `cli_nodes.py`."""
    parts = [component(name, name, control="w") for name in ("kinds", "waiting", "lending", "broken", "missing")]
    return pipeline(tmp_path, component("w", "webhook"), *parts)


@pytest.fixture
def tool(kinds: str, capfd: pytest.CaptureFixture[str]):
    """Call a tool of that pipeline in this process."""

    def run(*args: str) -> Done:
        return here(capfd, "tool", kinds, *args, "--nodes", NODES)

    return run


def test_a_result_is_json_on_stdout_and_nothing_else_is_said() -> None:
    done = call(*READ, '{"path": "welcome.txt"}')
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(b"\n")
    assert done.value["content"].startswith("Welcome")


def test_a_tool_is_called_without_input_where_it_needs_none(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tool", FILES, "list_directory")
    assert [entry["name"] for entry in done.value["entries"]] == ["catalog.csv", "notes", "welcome.txt"]


def test_content_is_the_result_as_blocks(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, *READ, '{"path": "welcome.txt"}', "--content")
    (block,) = done.value["content"]
    assert json.loads(block["text"]) == done.value["structuredContent"]


def test_input_comes_from_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.json").write_text('{"path": "welcome.txt", "maxBytes": 1000}')
    assert here(capfd, *READ, f"@{tmp_path / 'in.json'}").value["size"] == 91


def test_input_comes_from_stdin() -> None:
    assert call(*READ, "-", stdin=b'{"path": "welcome.txt"}').value["size"] == 91


def test_paths_of_a_pipeline_begin_at_its_own_folder(tmp_path: Path) -> None:
    assert call(*READ, '{"path": "welcome.txt"}', cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{path: 1}", "--input: it is not JSON"),
        ('{"path": NaN}', "--input: it is not JSON"),
        ("", "it is empty"),
        ("@nowhere.json", "nowhere.json: No such file or directory"),
        ("@.", "Is a directory"),
        ("[" * 500_000, "nested too deeply"),
    ],
)
def test_input_that_is_no_json_is_a_mistake_of_usage(given: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, *READ, given)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


def test_stdin_that_is_not_utf_8_is_said() -> None:
    done = call(*READ, "-", stdin=b'{"path": "\xff"}')
    assert done.code == 2
    assert "--input: it is not UTF-8 (byte 10)" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("read_fil",), 'Did you mean "read_file"? [tool_not_found]'),
        (("nothing_like_it",), f"hint: `rrext tools {FILES}` lists the tools"),
        (("read_file", "--node", "file_1"), 'Node "file_1" not found in pipeline. Did you mean "files_1"? [node_not_found]'),
        (("read_file", "--node", "webhook_1"), 'Node "files_1" has a tool of that name.'),
        (("read_file",), "/input/path: "),
        (("read_file", "--input", "[]"), "/input: expected object"),
    ],
)
def test_a_call_that_is_wrong_calls_nothing_and_says_what_is_right(
    args: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = here(capfd, "tool", FILES, *args)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


def test_every_place_of_wrong_input_has_a_line(tool) -> None:
    done = tool("greet", "--input", '{"name": 5, "times": "x", "tims": 1}')
    assert done.code == 2
    places = [line.split(":")[0].strip() for line in done.err.splitlines()[1:]]
    assert sorted(places) == ["/input/name", "/input/times", "/input/tims"]


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "3601", "soon"])
def test_a_timeout_is_seconds_within_the_limit(text: str, tool) -> None:
    done = tool("poem", f"--timeout={text}")
    assert done.code == 2
    assert "argument --timeout: expected" in done.err


def test_an_invalid_pipeline_shows_all_its_problems_with_their_places(tmp_path: Path, capfd) -> None:
    path = pipeline(tmp_path, component("w", "webhok"), component("r", "response_text", "text:ww"))
    done = here(capfd, "tool", path, "x")
    assert (done.code, done.out) == (2, b"")
    assert f"{path}:1:" in done.err
    assert 'Did you mean "webhook"?' in done.err
    assert done.err.count(" error: ") == 2


@pytest.mark.parametrize(("path", "said"), [("nowhere.pipe", "No such file or directory"), (".", "Is a directory")])
def test_a_pipeline_that_cannot_be_read_is_said(path: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tool", path, "x")
    assert (done.code, done.out, done.err) == (2, b"", f"rrext: {path}: {said}\n")


def test_a_warning_of_the_pipeline_is_told_and_stops_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("f", "tool_filesystem", control="w", rot="."))
    done = here(capfd, "tool", path, "list_directory")
    assert done.code == 0
    assert "warning: " in done.err
    assert 'Did you mean "root"?' in done.err


def test_nodes_that_cannot_be_loaded_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    done = here(capfd, "tool", FILES, "x", "--nodes", "nowhere.py")
    assert done.code == 2
    assert "nowhere.py" in done.err


def test_a_variable_is_read_where_env_names_it(tmp_path: Path) -> None:
    files = component("f", "tool_filesystem", control="w", root="${MY_FILES}")
    path = pipeline(tmp_path, component("w", "webhook"), files)
    library = str(EXAMPLES / "library")
    assert call("tool", path, "stat_file", "--input", '{"path": "notes"}', MY_FILES=library).code == 2
    done = call("tool", path, "stat_file", "--input", '{"path": "notes"}', "--env", "MY_FILES", MY_FILES=library)
    assert done.value["exists"] is True


def test_root_is_where_relative_paths_begin(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "mine.txt").write_text("mine")
    assert here(capfd, *READ, '{"path": "mine.txt"}', "--root", str(tmp_path)).value["content"] == "mine"


# -- what a tool gives


def test_bytes_are_a_base64_string(tool) -> None:
    assert tool("content").value == "AP97fQ=="


def test_raw_writes_bytes_and_text_as_they_are(kinds: str) -> None:
    assert call("tool", kinds, "content", "--raw", "--nodes", NODES).out == b"\x00\xff{}"
    assert call("tool", kinds, "poem", "--raw", "--nodes", NODES).out == "Grüße\n".encode()


def test_raw_leaves_other_results_as_json(tool) -> None:
    assert tool("greet", "--raw", "--input", '{"name": "Ada"}').value == {"text": "Hello Ada"}


def test_a_generator_gives_its_chunks_and_its_value_as_one_result(tool) -> None:
    assert tool("count").value == {"chunks": [0, 1, 2], "value": "done"}
    assert tool("words").value == ["to ", "be\n"]


def test_a_stream_is_a_line_per_chunk_and_ends_with_the_result(tool) -> None:
    assert tool("count", "--stream").lines == [{"chunk": 0}, {"chunk": 1}, {"chunk": 2}, {"result": "done"}]
    assert tool("words", "--stream").lines[-1] == {"result": None}
    assert tool("poem", "--stream").lines == [{"result": "Grüße\n"}]


def test_a_raw_stream_of_text_is_the_text(tool) -> None:
    assert tool("words", "--stream", "--raw").out == b"to be\n"


def test_what_a_tool_or_its_child_prints_is_not_on_stdout(kinds: str) -> None:
    done = call("tool", kinds, "noisy", "--nodes", NODES, stdin=b"for somebody else")
    assert done.value == "quiet"
    assert [line for line in done.err.splitlines() if line.startswith("from")] == [
        "from print",
        "from descriptor 1",
        "from a child",
    ]
    assert "for somebody else" not in done.err


def test_a_result_of_15_mib_arrives_whole(kinds: str) -> None:
    done = call("tool", kinds, "large", "--nodes", NODES)
    assert done.out == b'"' + b"x" * (15 * 1024 * 1024) + b'"\n'


def test_progress_is_on_stderr_a_line_each_without_what_steers_a_terminal(tool) -> None:
    done = tool("steps")
    assert done.value == "done"
    assert done.err.splitlines() == ["1/4 (25%) first \\u001b[31mred line", "3/4 (75%) third"]


# -- what fails


def test_an_authors_own_error_is_shown_with_code_hint_and_data(tool) -> None:
    done = tool("refuse")
    assert (done.code, done.out) == (1, b"")
    assert done.err.splitlines() == ["rrext: no more today [spent]", "  hint: come back tomorrow", '  data: {"left":0}']


def test_an_exception_is_shown_with_the_lines_of_the_authors_code_alone(tool) -> None:
    done = tool("break_down")
    assert (done.code, done.out) == (1, b"")
    assert done.err.endswith(
        'rrext: Tool "break_down" on node "kinds" failed: ValueError: no such\\u001b[31m thing [tool_failed]\n'
    )
    assert "in _look_up" in done.err
    assert "was the direct cause" in done.err
    assert "rrext/engine" not in done.err
    assert "\x1b" not in done.err


def test_a_result_that_is_no_json_is_a_failure_with_its_place(tool) -> None:
    done = tool("nan")
    assert (done.code, done.out) == (1, b"")
    assert "/a/0" in done.err


def test_too_many_chunks_for_one_result_are_told_of_stream(tool) -> None:
    done = tool("flood")
    assert (done.code, done.out) == (1, b"")
    assert "[result_too_large]" in done.err
    assert "`--stream`" in done.err


def test_a_node_that_cannot_be_set_up_says_why_once(tool) -> None:
    done = tool("query")
    assert (done.code, done.out) == (1, b"")
    assert "in setup" in done.err
    told = [line for line in done.err.splitlines() if "could not be set up" in line]
    assert told == ['rrext: Node "broken" could not be set up: ConnectionError: no database [tool_failed]']


def test_a_tool_that_cannot_run_here_says_what_is_missing(tool) -> None:
    done = tool("photo")
    assert (done.code, done.out) == (1, b"")
    assert "no camera; install one [unavailable]" in done.err


def test_what_was_taken_is_given_back(tool) -> None:
    done = tool("read")
    assert (done.value, done.err) == ("book", "taken\ngiven back\n")


@pytest.mark.parametrize("name", ["park", "look", "stuck", "own_thread"])
def test_a_tool_that_is_late_fails_and_is_not_waited_for(name: str, kinds: str) -> None:
    done = call("tool", kinds, name, "--node", "waiting", "--timeout", "0.2", "--nodes", NODES)
    assert (done.code, done.out) == (1, b"")
    assert f'Tool "{name}" did not finish within 0.2 s [tool_timeout]' in done.err


# -- where nobody reads


@pytest.mark.parametrize("name", ["endless", "endless_async"])
def test_a_stream_ends_when_its_reader_has_enough(name: str, kinds: str) -> None:
    with spawned("tool", kinds, name, "--stream", "--nodes", NODES) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline()) == {"chunk": 1}
        process.stdout.close()
        assert until(process.stderr, "endless was closed") == "endless was closed\n"
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_result_that_nobody_reads_ends_quietly(kinds: str) -> None:
    with spawned("tool", kinds, "large", "--nodes", NODES) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_said() -> None:
    with open("/dev/full", "wb") as full, spawned(*READ, '{"path": "welcome.txt"}', stdout=full) as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (1, b"rrext: stdout: No space left on device\n")


@pytest.mark.parametrize(
    ("closed", "code", "out"),
    [("<&-", 0, b'"size":91}\n'), ("2>&-", 0, b'"size":91}\n'), (">&-", 2, b""), ("<&- >&- 2>&-", 2, b"")],
)
def test_a_closed_descriptor_is_no_riddle(closed: str, code: int, out: bytes) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command(*READ, '{"path": "welcome.txt"}')]
    done = subprocess.run(shell, capture_output=True, env=environment())
    assert (done.returncode, done.stdout[-len(out) :] if out else done.stdout) == (code, out)


@pytest.mark.promise("tools:unique-owner")
@pytest.mark.parametrize("given", ["sql=create table t (n)", '{"sql": "create table t (n)"}'])
def test_a_tool_that_several_nodes_have_is_called_on_none_of_them(
    given: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [component(f"db_{n}", "db_sqlite", control="w", path=f"{n}.db", create=True, allow_execute=True) for n in (1, 2)]
    file = pipeline(tmp_path, component("w", "webhook"), *parts)
    done = here(capfd, "tool", file, "execute", given)
    assert (done.code, done.out) == (2, b"")
    assert 'nodeId: is required: 2 nodes have a tool "execute"' in done.err
    assert "--node ID says which one is asked: db_1, db_2" in done.err
    assert not (tmp_path / "1.db").exists()
    assert here(capfd, "tool", file, "execute", given, "--node", "db_2").code == 0
    assert (tmp_path / "2.db").exists()


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["--field", "size"], b"91\n"),
        (["--field", "/path", "--raw"], b"welcome.txt"),
        (["--field", ""], None),
    ],
)
def test_a_field_of_the_result_is_picked(run: InProcess, words: list[str], out: bytes | None) -> None:
    whole = run("tool", EXAMPLES / "filesystem.pipe", "read_file", "path=welcome.txt")
    done = run("tool", EXAMPLES / "filesystem.pipe", "read_file", "path=welcome.txt", *words)
    assert (done.code, done.out) == (0, whole.out if out is None else out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--field", "siz"], "--field: the result has no siz; did you mean size?"),
        (["--field", "path/0"], "--field: /path has no 0"),
        (["--field", "size", "--stream"], "--field picks from a whole result"),
    ],
)
def test_a_field_that_is_not_there_is_told(run: InProcess, words: list[str], said: str) -> None:
    done = run("tool", EXAMPLES / "filesystem.pipe", "read_file", "path=welcome.txt", *words)
    assert (done.code, done.out) in ((1, b""), (2, b""))
    assert said in done.err
