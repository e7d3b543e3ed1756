"""The commands that the published client had before 1.5, whose answers are pictures of a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from published_server import KEY, PATIENCE, PublishedServer, pipeline

pytestmark = [pytest.mark.promise("ws:rocketride"), pytest.mark.timeout(120)]


class Shell:
    """Runs commands in a folder of their own. Each that connects waits for two seconds, so that people can read."""

    def __init__(self, server: PublishedServer, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """A command that runs."""
        command = [sys.executable, "-c", "from rocketride.cli.main import main; main()", *words]
        env = os.environ | {"ROCKETRIDE_URI": self.server.url, "ROCKETRIDE_APIKEY": KEY, "PYTHONUNBUFFERED": "1"}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=self.folder, env=env
        )

    def __call__(self, *words: str) -> tuple[int, str]:
        """The exit code of a command, and its words without lines and colours."""
        with self.begin(*words) as process:
            said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, plain(said)

    def all(self, *commands: str) -> list[tuple[int, str]]:
        """Run commands at the same time."""
        with ThreadPoolExecutor(len(commands)) as pool:
            return list(pool.map(lambda words: self(*words.split()), commands))

    def until(self, wanted: str, *words: str) -> tuple[int, str]:
        """Interrupt a command as soon as it says what is wanted."""
        with self.begin(*words) as process:
            assert process.stdout is not None
            late = threading.Timer(PATIENCE, process.kill)
            late.start()
            said = ""
            for line in process.stdout:
                said += plain(line)
                if wanted in said:
                    process.send_signal(signal.SIGINT)
                    said += plain(process.stdout.read())
            late.cancel()
        return process.returncode, said


def plain(said: str) -> str:
    """What stands in a picture."""
    return re.sub(r"[│┌┐└┘─]|\x1b\[[0-9;?]*[A-Za-z]", "", said)


@pytest.fixture
def shell(server: PublishedServer, tmp_path: Path) -> Shell:
    """A shell of a user with a key."""
    (tmp_path / "a.pipe").write_text(json.dumps(pipeline("commands", "refuser")))
    (tmp_path / "one.txt").write_text("one")
    (tmp_path / "wrong.txt").write_text("fail")
    return Shell(server, tmp_path)


def test_start_status_events_upload_list_and_stop(shell: Shell) -> None:
    code, said = shell("start", "a.pipe", "--threads", "2", "--args", "a")
    assert (code, "Pipeline execution started successfully" in said) == (0, True), said
    code, said = shell("list", "--json")
    rows = [row for row in json.loads(said) if row["pipeline"]["project_id"] == "commands"]
    assert (code, len(rows), rows[0]["status"]) == (0, 1, "Running")
    token = rows[0]["token"]
    uploaded, failed, own, listed = shell.all(
        f"upload --token {token} one.txt", f"upload --token {token} wrong.txt", "upload --pipeline_path a.pipe one.txt", "list"
    )
    assert (uploaded[0], "Successful uploads: 1" in uploaded[1]) == (0, True), uploaded
    assert (failed[0], "failed in write_text" in failed[1]) == (0, True), failed
    assert (own[0], "Successful uploads: 1" in own[1]) == (0, True), own
    assert (listed[0], f"Token: {token}" in listed[1]) == (0, True), listed
    code, said = shell.until("Completed: 1 items", "status", "--token", token)
    assert (code, "State: Online" in said, "failed in write_text" in said) == (0, True, True), said
    code, said = shell.until("apaevt_status_update", "events", "SUMMARY,task", "--token", token, "--log", "events.log")
    assert code == 0, said
    logged = [json.loads(line) for line in (shell.folder / "events.log").read_text().splitlines()]
    assert [each["event"]["event"] for each in logged[1:3]] == ["apaevt_task", "apaevt_status_update"]
    assert shell("stop", "--token", token)[0] == 0


def test_store(shell: Shell) -> None:
    assert shell("store", "write", "old/a.txt", "--content", "text")[0] == 0
    written, made = shell.all("store write old/b.txt --file one.txt", "store mkdir old/sub")
    assert (written[0], made[0]) == (0, 0)
    listed, typed, seen, missing = shell.all(
        "store dir old", "store type old/b.txt", "store stat old/a.txt", "store type old/none.txt"
    )
    assert (listed[0], "2 File(s)" in listed[1], "sub" in listed[1]) == (0, True, True), listed
    assert (typed[0], "one" in typed[1]) == (0, True), typed
    assert (seen[0], "4" in seen[1]) == (0, True), seen
    assert (missing[0], "does not exist" in missing[1]) == (1, True), missing
    assert [code for code, _ in shell.all("store rm old/a.txt", "store rm old/b.txt")] == [0, 0]


def test_failures_say_why(shell: Shell) -> None:
    (shell.folder / "bad.pipe").write_text(json.dumps(pipeline("bad", "nonsense")))
    nobody, stopped, bad, named = shell.all(
        "list --apikey wrong", "stop --token NEVER", "start bad.pipe", "start a.pipe --token NEW"
    )
    assert (nobody[0], "Invalid API key" in nobody[1]) == (1, True), nobody
    assert (stopped[0], "Your pipeline is not running" in stopped[1]) == (1, True), stopped
    assert (bad[0], "nonsense" in bad[1]) == (1, True), bad
    # It asks for the events of the token first, before there is one.
    assert (named[0], "Your pipeline is not running" in named[1]) == (1, True), named
