"""`rrext serve` from its command line to its first answer: several pipelines, wrong ones, options, the log."""

from __future__ import annotations

import json
import os
import re
import select
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from forked import completed
from raw_client import NODES, PIPE, Server, command_line, environment, request

from rrext import ResultTooLarge, ToolError, Unavailable
from rrext.blocking import Client

ROOT = Path(__file__).resolve().parents[2]


def run(
    *options: str, files: Sequence[Path | str] = (PIPE,), nodes: Sequence[Path | str] = (NODES,), reads: bool = False
) -> Any:
    """A server that cannot start, with a request on its stdin; unless it `reads`, it must not even look at that."""
    read_fd, write_fd = os.pipe()
    os.write(write_fd, request(1, "rrext_ping"))
    done = completed(command_line(*options, files=files, nodes=nodes), stdin=read_fd, env=environment(), text=True)
    os.close(write_fd)
    assert os.read(read_fd, 1000) == (b"" if reads else request(1, "rrext_ping"))
    os.close(read_fd)
    return done


def refused(*options: str, **how: Any) -> str:
    """What stderr says when `serve` refuses to begin."""
    done = run(*options, **how)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def invalid(**how: Any) -> tuple[str, dict[str, Any]]:
    """What stderr says, and the answer to the first request, when `serve` refuses its pipelines."""
    done = run(reads=True, **how)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    answer = json.loads(done.stdout.partition("\n\n")[2])
    assert (answer["request_seq"], answer["success"], answer["code"]) == (1, False, "invalid_pipeline")
    return done.stderr, answer


@pytest.fixture
def pipeline(tmp_path: Path) -> Callable[..., Path]:
    """Write a pipeline that differs from the folder's own one."""

    def make(name: str, **changes: Any) -> Path:
        value = {**json.loads(PIPE.read_text()), "project_id": name, **changes}
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return path

    return make


# -- several pipelines


def test_each_file_is_a_task_under_its_stem(spawn: Callable[..., Server], pipeline: Callable[..., Path]) -> None:
    server = spawn(files=[pipeline("first.pipe"), pipeline("second.v2.pipe"), pipeline("no suffix")])
    tasks = {task["token"] for task in server.ask("rrext_get_tasks")["tasks"]}
    assert tasks == {"first", "second.v2", "no suffix"}
    for token in tasks:
        assert server.call("add", {"a": 1}, token=token) == 2
    assert server.code(server.send_tool("add", {"a": 1})) == "TASK_AMBIGUOUS"
    assert server.code(server.send_tool("add", {"a": 1}, token="third")) == "TASK_NOT_REGISTERED"


def test_pools_of_different_pipelines_do_not_hold_each_other_up(
    spawn: Callable[..., Server], pipeline: Callable[..., Path]
) -> None:
    server = spawn("--threads", "1", files=[pipeline("first.pipe"), pipeline("second.pipe")])
    parked = server.send_tool("park", {"gate": "g"}, token="first")
    server.heard("arrived at g")
    assert server.call("add", {"a": 1}, token="second") == 2
    server.call("release", {"gate": "g"}, token="second")
    assert server.body(parked)["result"] == "g"


def test_no_file_at_all_is_a_server_that_waits_for_execute(spawn: Callable[..., Server]) -> None:
    server = spawn(files=[])
    assert server.ask("rrext_get_tasks") == {"tasks": []}
    assert server.code(server.send_tool("add", {"a": 1})) == "TASK_NOT_REGISTERED"
    server.ask("execute", {"pipeline": json.loads(PIPE.read_text())})
    assert server.call("add", {"a": 1}) == 2


def test_equal_stems_are_a_usage_error_that_names_them(pipeline: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    said = refused(files=[pipeline("same.pipe"), pipeline("other/same.pipe")])
    assert "'same'" in said
    assert len(said.splitlines()) == 1


def test_a_copy_of_a_pipeline_is_served_under_its_own_name(spawn: Callable[..., Server], tmp_path: Path) -> None:
    copy = tmp_path / "copy.pipe"
    copy.write_bytes(PIPE.read_bytes())
    server = spawn(files=[PIPE, copy])
    assert server.call("add", {"a": 1}, token="life") == server.call("add", {"a": 1}, token="copy") == 2


# -- pipelines that are wrong


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    said = refused(files=[tmp_path / "missing.pipe"])
    assert said.splitlines()[-1] == f"rrext: {tmp_path}/missing.pipe: No such file or directory"


def test_a_folder_is_no_pipeline(tmp_path: Path) -> None:
    assert refused(files=[tmp_path]).splitlines()[-1] == f"rrext: {tmp_path}: Is a directory"


def test_all_problems_of_all_files_are_told_with_their_places(tmp_path: Path) -> None:
    one, two, three = (tmp_path / f"{name}.pipe" for name in ("one", "two", "three"))
    one.write_text('{"components": [\n  {"id": "a", "provider": "webhok", "config": {}},\n  {"id": "a"}\n]}')
    two.write_text('{"components": [')
    three.write_bytes(b"\xff\xfe{}")
    said, answer = invalid(files=[one, two, three, tmp_path / "missing.pipe"])
    assert [problem["file"] for problem in answer["data"]["problems"]][:2] == [str(one)] * 2
    assert {problem["file"] for problem in answer["data"]["problems"]} == {str(one), str(two), str(three)}
    assert re.search(r"one\.pipe:2:\d+.*webhok.*webhook", said)
    assert re.search(r"one\.pipe:3:\d+", said)
    assert "two.pipe:1:" in said
    assert "three.pipe" in said
    assert "missing.pipe" in said


def test_warnings_do_not_keep_a_pipeline_from_being_served(spawn: Callable[..., Server], tmp_path: Path) -> None:
    value = json.loads(PIPE.read_text())
    value["components"].append({"id": "alone_1", "provider": "life_worker", "config": {}})
    path = tmp_path / "warned.pipe"
    path.write_text(json.dumps(value))
    server = spawn(files=[path])
    assert server.call("add", {"a": 1}, nodeId="worker_1") == 2


def test_comments_and_trailing_commas_are_fine(spawn: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "commented.pipe"
    path.write_text("// a pipeline\n" + PIPE.read_text().replace('"version": 1', '"version": 1, /* the end */'))
    assert spawn(files=[path]).call("add", {"a": 1}) == 2


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.pipe"
    path.write_bytes(b'{"components": [' + b" " * 9 * 1024 * 1024 + b"]}")
    assert "large.pipe" in invalid(files=[path])[0]


# -- options


def test_nodes_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.py", tmp_path / "empty.py"
    broken.write_text("import nobody_has_this_module\n")
    empty.write_text("x = 1\n")
    assert "nobody_has_this_module" in refused(nodes=[broken])
    assert "empty.py" in refused(nodes=[empty])
    assert "missing.py" in refused(nodes=[tmp_path / "missing.py"])
    assert "no_such_module_at_all" in refused(nodes=["no_such_module_at_all"])
    broken.write_text("print('first')\ndef f(:\n")
    assert "broken.py" in refused(nodes=[broken])
    broken.write_text("raise SystemExit('I quit')\n")
    assert "I quit" in refused(nodes=[broken])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--threads", "0"),
        ("--threads", "-1"),
        ("--threads", "many"),
        ("--threads", "1.5"),
        ("--max-frame", "0"),
        ("--max-frame", "16M"),
        ("--pipe-idle", "0"),
        ("--pipe-idle", "nan"),
        ("--pipe-idle", "inf"),
        ("--drain", "-1"),
        ("--drain", ""),
        ("--log-level", "loud"),
        ("--store-quota", "0"),
        ("--store-quota", "-1"),
        ("--store-quota", "4G"),
    ],
)
def test_a_bad_value_of_an_option_is_a_usage_error_that_names_it(option: str, value: str) -> None:
    said = refused(f"{option}={value}")
    assert option in said
    assert "`rrext help serve` lists the words" in said


def test_an_unknown_option_is_a_usage_error() -> None:
    said = refused("--thread-count", "3")
    assert said.startswith("rrext serve: error: unrecognized arguments: --thread-count")
    assert "`rrext help serve` lists the words" in said


def test_options_are_what_initialize_reports(spawn: Callable[..., Server]) -> None:
    server = spawn("--threads", "7", "--pipe-idle", "1.5", "--max-frame", "12345", "--drain", "2")
    limits = server.ask("initialize")["limits"]
    assert {name: limits[name] for name in ("threads", "pipeIdle", "maxFrame", "drain")} == {
        "threads": 7,
        "pipeIdle": 1.5,
        "maxFrame": 12345,
        "drain": 2,
    }


def test_an_idle_pipe_is_reclaimed_and_its_owner_is_told(spawn: Callable[..., Server]) -> None:
    server = spawn("--pipe-idle", "0.1", "--threads", "1")
    pipe = server.open_pipe()
    assert server.open_pipe() != pipe  # it waited until the first one was reclaimed
    answer = server.answer(server.send("rrext_process", {"subcommand": "close", "pipe_id": pipe}))
    assert answer["code"] == "pipe_expired"


# -- the log


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_the_log_file_has_a_line_per_call_and_is_its_owners_alone(spawn: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "rrext.log"
    server = spawn("--log-file", str(path), cwd=tmp_path)
    pipe = server.open_pipe()
    server.body(server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"secret bytes"))
    seqs = [
        server.send_tool("add", {"a": 1}),
        server.send_tool("add_on_loop", {"a": 1}),
        server.send_tool("echo", {"value": "secret text"}),
        server.send_tool("measured", pipe_id=pipe),
        server.send_tool("raises", {"kind": "exit"}),
    ]
    server.all_answers(seqs)
    close = server.send("rrext_process", {"subcommand": "close", "pipe_id": pipe})
    server.body(close)
    server.close_stdin()
    assert server.wait() == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    calls, others = {}, []
    for line in lines(path):
        changed = re.fullmatch(
            STAMP
            + r" INFO rrext\.calls request=(\d+) client=stdio pipe=(\d+) command=(\w+) ms=\d+\.\d+ outcome=(\w+) bytes=\d+",
            line,
        )
        if changed:
            others.append(changed.groups())
        found = re.fullmatch(
            STAMP
            + r" INFO rrext\.calls request=(\d+) client=stdio pipe=(\w+) node=(\w+) tool=(\w+) ms=(\d+\.\d+) outcome=(\w+)"
            + r" bytes=\d+",
            line,
        )
        if found:
            calls[int(found[1])] = found.groups()[1:4] + found.groups()[5:]
    assert calls == {
        seqs[0]: ("None", "worker_1", "add", "done"),
        seqs[1]: ("None", "worker_1", "add_on_loop", "done"),
        seqs[2]: ("None", "worker_1", "echo", "done"),
        seqs[3]: (str(pipe), "meter_1", "measured", "done"),
        seqs[4]: ("None", "worker_1", "raises", "tool_failed"),
    }
    assert [other[1:] for other in others] == [(str(pipe), command, "done") for command in ("open", "write", "close")]
    assert others[-1][0] == str(close)
    assert "secret" not in path.read_text()
    assert "rrext.calls" not in server.stderr_text()


@pytest.mark.promise("events:audit:line-per-call")
def test_audit_is_chosen_apart_from_the_level(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--audit", cwd=tmp_path)
    server.call("add", {"a": 1})
    server.body(server.send("tools"))
    server.ask("shutdown")
    assert server.wait() == 0
    said = [line for line in server.stderr_text().splitlines() if "rrext.calls" in line]
    assert len(said) == 1
    assert " tool=add " in said[0]
    path = tmp_path / "without.log"
    server = spawn("--no-audit", "--log-file", str(path), cwd=tmp_path)
    server.call("add", {"a": 1})
    server.ask("shutdown")
    assert server.wait() == 0
    assert "rrext.calls" not in path.read_text()


def test_without_options_only_warnings_are_told(server: Server) -> None:
    server.call("add", {"a": 1})
    server.ask("shutdown")
    assert server.wait() == 0
    assert "INFO" not in server.stderr_text()


def test_the_level_decides_what_is_logged(spawn: Callable[..., Server], tmp_path: Path) -> None:
    levels = {}
    for level in ("debug", "info", "warning", "error"):
        path = tmp_path / level
        server = spawn("--log-file", str(path), "--log-level", level, "--drain", "0.1")
        server.send_tool("wait", {"gate": "g"})
        server.heard("arrived at g")
        server.ask("cancel", {"requestId": 999})
        server.ask("shutdown")
        assert server.wait() == 0
        levels[level] = {line.split()[1] for line in lines(path) if not line.startswith(" ")}
    assert levels == {
        "debug": {"DEBUG", "INFO", "WARNING"},
        "info": {"INFO", "WARNING"},
        "warning": {"WARNING"},
        "error": set(),
    }


def test_a_log_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    said = refused("--log-file", str(tmp_path / "missing" / "x.log"))
    assert "--log-file" in said
    assert "No such file or directory" in said
    assert "Is a directory" in refused("--log-file", str(tmp_path))


def test_a_log_file_on_a_full_disk_is_told_once(spawn: Callable[..., Server]) -> None:
    server = spawn("--log-file", "/dev/full")
    server.all_answers([server.send_tool("add", {"a": number}) for number in range(3)])
    server.close_stdin()
    assert server.wait() == 0
    told = [line for line in server.stderr_text().splitlines() if "--log-file" in line]
    assert told == ["rrext: --log-file /dev/full: No space left on device: its lines are lost until there is room"]


@pytest.mark.parametrize("descriptors", [9, 12, 16])
def test_a_process_with_too_few_descriptors_says_so_in_a_sentence(descriptors: int) -> None:
    command = f"ulimit -n {descriptors}; exec {sys.executable} -m rrext serve"
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [
        "rrext: too many open files: raise the limit of descriptors (ulimit -n), of which a server needs 64"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize(
    ("words", "kilobytes"),
    [
        *(("serve", size) for size in (24_000, 32_000, 48_000)),
        *(("serve --ws 127.0.0.1:0", size) for size in (48_000, 60_000, 95_000)),
    ],
)
def test_a_process_with_too_little_memory_says_so_in_a_sentence(words: str, kilobytes: int) -> None:
    command = f"ulimit -v {kilobytes}; exec {sys.executable} -m rrext {words}"
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=50, check=False)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode in (1, 2)
    assert line.startswith("rrext: no memory is left: raise the limit of it (ulimit -v")


def test_a_server_whose_client_is_gone_does_not_begin(spawn: Callable[..., Server]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    server = spawn("--parent", str(gone.pid))
    assert server.wait() == 1
    assert f"process {gone.pid} (--parent) is gone" in server.stderr_text()


@pytest.mark.promise("life:parent-death:exits")
def test_a_parent_that_dies_right_after_the_spawn_is_followed_though_a_sibling_holds_every_pipe() -> None:
    """The client ends before the server has begun to run; this process keeps the pipes open."""
    client = """
import os, sys
from rrext.client.server_address import serve_command
command = serve_command(())
gate, opened = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(opened)
    os.read(gate, 1)  # the end of the client
    os.execv(command[0], command)
os.write(2, b"%d\\n" % pid)
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", client], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as killed:
        assert killed.stderr is not None
        server = os.pidfd_open(int(killed.stderr.readline()))
        killed.wait()
        assert select.select([server], [], [], 30.0)[0]
        os.close(server)


def test_a_result_without_memory_is_an_error_and_the_server_stays(tmp_path: Path) -> None:
    nodes = tmp_path / "large_nodes.py"
    nodes.write_text(
        "from rrext import Node, tool_function\n\n\n"
        "class Large(Node):\n    provider = 'large'\n    title = 'Large'\n\n"
        "    @tool_function\n    def text(self, size: int) -> str:\n        return 'x' * size\n\n"
    )
    pipeline = tmp_path / "large.pipe"
    pipeline.write_text(
        '{"components": [{"id": "hook_1", "provider": "webhook", "config": {}}, {"id": "large_1", "provider": "large",'
        ' "config": {}, "control": [{"classType": "tool", "from": "hook_1"}]}]}'
    )
    with Client.spawn(pipeline, nodes=[nodes], rlimits={"AS": 100 << 20}) as client:
        outcomes = set()
        for size in range(4_000_000, 40_000_000, 2_000_000):
            try:
                outcomes.add(len(client.tool(tool="text", input={"size": size}, timeout=30)) == size)
            except (ToolError, Unavailable, ResultTooLarge) as error:
                outcomes.add(error.code)
        assert "tool_failed" in outcomes
        assert outcomes <= {True, "tool_failed", "unavailable", "result_too_large"}
        assert len(client.tool(tool="text", input={"size": 10})) == 10


def test_a_store_that_cannot_be_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "not a directory" in refused("--store", str(tmp_path / "file"))
    assert "Not a directory" in refused("--store", str(tmp_path / "file" / "below"))
    assert "No such file or directory" in refused("--store", str(tmp_path / "no" / "where"))
    (tmp_path / "loop").symlink_to("loop")
    assert "--store" in refused("--store", str(tmp_path / "loop"))
    assert "not an empty text" in refused("--store", "")
    assert "with --store DIR" in refused("--store-quota", "5")
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_a_missing_store_is_made_for_its_owner_alone_and_its_quota_holds(spawn: Callable[..., Server], tmp_path: Path) -> None:
    folder = tmp_path / "store"
    server = spawn("--store", str(folder), "--store-quota", "10")
    for path, data, failure in (("a", "12345678", None), ("b", "123", "quota_exceeded"), ("c", "12", None)):
        handle = server.ask("rrext_store", {"subcommand": "fs_open", "path": path, "mode": "w"})["handle"]
        written = server.answer(server.send("rrext_store", {"subcommand": "fs_write", "handle": handle, "data": data}))
        closed = server.answer(server.send("rrext_store", {"subcommand": "fs_close", "handle": handle}))
        assert (written.get("code"), closed["success"]) == (failure, failure is None)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_log_goes_on_where_it_was(spawn: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "rrext.log"
    for _ in range(2):
        server = spawn("--log-file", str(path))
        server.call("add", {"a": 1})
        server.close_stdin()
        server.wait()
    assert len([line for line in lines(path) if "tool=add" in line]) == 2


# -- the environment


def test_variables_are_read_only_if_they_may_be(spawn: Callable[..., Server], tmp_path: Path) -> None:
    value = json.loads(PIPE.read_text())
    value["components"][1]["config"] = {"word": "${ROCKETRIDE_WORD} ${OTHER}"}
    path = tmp_path / "words.pipe"
    path.write_text(json.dumps(value))
    said, answer = invalid(files=[path])
    assert "ROCKETRIDE_WORD" in answer["message"] or "OTHER" in answer["message"]
    assert "ROCKETRIDE_WORD" in said
    assert "OTHER" in said
    assert "--env" in said
    server = spawn("--env", "OTHER", files=[path], env={"ROCKETRIDE_WORD": "a secret", "OTHER": "another"})
    assert server.call("add", {"a": 1}) == 2
    assert "secret" not in json.dumps(server.ask("rrext_get_tasks"))


def test_help_says_how(tmp_path: Path) -> None:
    done = subprocess.run(command_line("--help"), capture_output=True, env=environment(), timeout=50, check=False, text=True)
    assert done.returncode == 0
    for word in (
        "--nodes",
        "--threads",
        "--pipe-idle",
        "--max-frame",
        "--env",
        "--root",
        "--log-file",
        "--log-level",
        "example",
    ):
        assert word in done.stdout
