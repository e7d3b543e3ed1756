"""The metrics of a server: sums for users, and for the operator's key what users and pipelines do."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from page_feed import bearer
from ws_server import ADA, BOB, PATIENCE, WsServer, keys_file

from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.operations import Close, ListTools, Open, Operation, Tool
from rrext.engine.interface.totals import BUCKETS, MAX_LABEL, MAX_SERIES, OTHER, SAMPLES, CallTimes
from rrext.errors import ToolError, Unavailable

pytestmark = pytest.mark.promise("ws:metrics")

OPERATOR = "key-of-the-operator-0123456789"
HOSTILE = 'x"} 1\nrrext_calls_total 0\\'
PLAIN = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"')


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of an exposition: name and labels → value. Each stands there once, behind the type of its metric."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    typed: set[str] = set()
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match.groups()
            assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed
            read = [
                (label, re.sub(r'\\["\\n]', lambda one: PLAIN[one[0]], text)) for label, text in LABEL.findall(labels or "")
            ]
            key = name, frozenset(read)
            assert key not in found
            found[key] = float(value)
    return found


def metrics(server: WsServer, key: str) -> str:
    """What somebody with a key reads."""
    status, _, body = server.request("GET", "/metrics", headers=bearer(key))
    assert status == 200, body
    return body.decode()


def of(found: dict[Any, float], name: str, **labels: str) -> float:
    """The sum of the samples of a name with these labels."""
    return sum(value for (each, given), value in found.items() if each == name and labels.items() <= dict(given).items())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """The file with the operator's key."""
    path = tmp_path / "metrics.key"
    path.write_text(OPERATOR + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_users_read_sums_and_the_operator_what_each_user_did(tmp_path: Path, key_file: Path, isolation: str) -> None:
    options = ["--keys", str(keys_file(tmp_path)), "--metrics-key-file", str(key_file), "--isolation", isolation]
    with WsServer(*options) as server, server.client(ADA) as ada, server.client(BOB) as bob:
        for number in range(3):
            assert ada.tool("add", {"a": number}) == {"sum": number + 1}
        code, _ = bob.failure("rrext_process", subcommand="tool", tool="add", input={"a": "x"})
        pipe = bob.body("rrext_process", subcommand="open", mimeType="text/plain")["pipe_id"]
        bob.body("rrext_process", subcommand="close", pipe_id=pipe)
        waiting = ada.post("rrext_process", subcommand="tool", tool="wait", input={"key": "slow"})
        ada.post("cancel", requestId=waiting)
        assert ada.answer(waiting)["code"] == "cancelled"
        echo = {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]}
        source = {"id": "w", "provider": "webhook", "config": {}}
        bob.body("execute", pipeline={"components": [source, echo], "source": "w", "name": HOSTILE}, token="t")
        assert bob.failure("rrext_process", subcommand="tool", tool="no_tool", token="t")[0] == "tool_not_found"
        for key in (ADA, BOB):
            text = metrics(server, key)
            assert not re.search('ada|bob|face|x"|user|pipeline=', text)
            found = samples(text)
            assert of(found, "rrext_call_duration_seconds_count", command="tool") == 6
            assert of(found, "rrext_call_duration_seconds_bucket", command="tool", le="+Inf") == 6
            assert of(found, "rrext_call_duration_seconds_count", command="close") == 1
        found = samples(metrics(server, OPERATOR))
        assert of(found, "rrext_call_duration_seconds_count", command="tool") == 6
        calls = "rrext_user_calls_total"
        assert of(found, calls, user="ada", pipeline="face", outcome="done") == 3
        assert of(found, calls, user="ada", pipeline="face", outcome="cancelled") == 1
        assert of(found, calls, user="bob", pipeline="face", outcome=code) == 1
        assert of(found, calls, user="bob", pipeline="face", outcome="done") == 2
        assert of(found, calls, user="bob", pipeline=HOSTILE, outcome="tool_not_found") == 1
        durations = "rrext_user_call_duration_seconds"
        assert of(found, f"{durations}_count", user="ada", pipeline="face", command="tool") == 4
        assert of(found, f"{durations}_bucket", user="bob", command="close", le="+Inf") == 1
        assert server.request("GET", "/metrics", headers=bearer(OPERATOR + "x"))[0] == 401
        assert server.request("GET", "/metrics")[0] == 401
        assert server.request("GET", "/status/feed", headers=bearer(OPERATOR))[0] == 401
        assert server.request("POST", "/mcp", b"{}", bearer(OPERATOR))[0] == 401
        with server.client() as stranger:
            assert not stranger.ask("auth", auth=OPERATOR)["success"]


def test_the_file_of_the_operators_key_is_private_and_has_one_key(key_file: Path) -> None:
    for content, mode, complaint in [
        (OPERATOR, 0o644, "others may use the file"),
        ("short", 0o600, "a key alone, of 16 characters or more"),
        (f"{OPERATOR} {OPERATOR}", 0o600, "a key alone"),
        ("", 0o600, "a key alone"),
    ]:
        key_file.write_text(content)
        key_file.chmod(mode)
        with WsServer("--metrics-key-file", str(key_file)) as refused:
            assert refused.process.wait(PATIENCE) == 2
        assert f"--metrics-key-file {key_file}: " in refused.log
        assert complaint in refused.log
        assert OPERATOR not in refused.log


class Ticking:
    """A clock, and calls that take as long as it says."""

    def __init__(self) -> None:
        self.time = 0.0
        self.times = CallTimes(lambda: self.time)

    def call(
        self, user: str | None, pipeline: str, seconds: float = 0.0, operation: Operation | None = None, code: str = ""
    ) -> None:
        call = Call(operation or Tool(tool="t"), self, Caller(user_id=user))
        self.times.begin(call, pipeline)
        self.time += seconds
        if code:
            call.fail(ToolError("", code=code))
        else:
            call.succeed(b"{}")

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        """Take an answer."""

    def fail(self, call: Call, error: Any) -> None:
        """Take a failure."""


def test_each_time_is_in_its_buckets_however_many_there_are() -> None:
    clock = Ticking()
    for _ in range(SAMPLES):  # sorted together, some of them before the look and some at it
        for bound in BUCKETS:
            clock.call("ada", "p", bound)
    clock.call("ada", "p", 1000.0)
    clock.call(None, "p", operation=Close(pipe_id=1))
    clock.call(None, "p", operation=ListTools())
    times, outcomes = clock.times.read()
    assert times["ada", "p", "tool"].reached[-1] == SAMPLES * len(BUCKETS) + 1
    reached = times["ada", "p", "tool"].reached
    assert all(abs(reached[i] - SAMPLES * (i + 1)) <= SAMPLES for i in range(len(BUCKETS)))  # the clock adds up unevenly
    assert times["local", "p", "close"].reached[-1] == 1
    assert outcomes == {("ada", "p", "done"): SAMPLES * len(BUCKETS) + 1, ("local", "p", "done"): 1}
    assert clock.times.read() == (times, outcomes)


def test_series_are_bounded_whatever_clients_call_their_pipelines_and_one_user_leaves_room_for_others() -> None:
    clock = Ticking()
    for number in range(3 * MAX_SERIES):
        clock.call("eve", f"{number}", operation=Open(object={}) if number % 2 else None)
        clock.call("eve", "fails", code=f"code_{number}")
    clock.call(OTHER, "one more")
    for number in range(20):
        clock.call(f"user {number}", "face")
    clock.call("eve", "x" * 10_000_000)
    times, outcomes = clock.times.read()
    assert len(times) * (len(BUCKETS) + 1) <= MAX_SERIES
    assert len(outcomes) <= MAX_SERIES
    assert sum(each.reached[-1] for each in times.values()) == sum(outcomes.values()) == 6 * MAX_SERIES + 22
    assert sum(number for labels, number in outcomes.items() if labels[0] == OTHER) > MAX_SERIES
    assert times["user 0", "face", "tool"].reached[-1] == 1
    assert all(outcomes[f"user {number}", "face", "done"] == 1 for number in range(20))
    assert max(len(text) for labels in (*times, *outcomes) for text in labels) <= MAX_LABEL
    kept = Counter(labels[0] for labels in outcomes)
    assert kept["eve"] <= MAX_SERIES // 2 + 1


def test_an_untimed_call_is_answered_as_ever() -> None:
    clock = Ticking()
    call = Call(Tool(tool="t"), clock, Caller())
    assert call.fail(Unavailable("no"))
    assert clock.times.read() == ({}, {})
