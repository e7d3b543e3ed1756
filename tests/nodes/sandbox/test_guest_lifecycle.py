"""When a program must end, it ends: cancelled, closed, or left alone by a server that is no more."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from guests import Guests, descendants, still_there, wait_until

from rrext.errors import Cancelled, RrextError, ShuttingDown, ToolError
from rrext.nodes.sandbox.engine import BUBBLEWRAP, LANDLOCK, SandboxEngine
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.kernel import SET_FILE_CAPABILITIES
from rrext.nodes.sandbox.node import Sandbox

pytestmark = pytest.mark.system

FOREVER = "while True: pass"
LIMITS = SandboxLimits(timeout=30.0)


class Call:
    """A program that runs in a thread, and how its call ended."""

    def __init__(self, sandbox: Sandbox, code: str) -> None:
        self.cancel: Callable[[], object] | None = None
        self.error: RrextError | None = None
        self.answer: Any = None
        self.thread = threading.Thread(target=self._run, args=(sandbox, code))
        self.thread.start()

    def _run(self, sandbox: Sandbox, code: str) -> None:
        try:
            self.answer = sandbox.run(code, LIMITS, self._keep)
        except RrextError as error:
            self.error = error

    def _keep(self, cancel: Callable[[], object]) -> None:
        self.cancel = cancel


def running(guests: Guests, count: int = 1) -> list[int]:
    """Supervisors and guests, once `count` guests run."""
    guests.result("result = 1")
    return wait_until(lambda: pids if len(pids := descendants(guests.warden)) == guests.processes * count else None)


def test_a_cancelled_program_is_gone_when_its_call_ends(guests: Guests) -> None:
    call = Call(guests.sandbox, FOREVER)
    pids = running(guests)
    wait_until(lambda: call.cancel)
    assert call.cancel is not None
    call.cancel()
    call.thread.join()
    assert isinstance(call.error, Cancelled)
    assert still_there(pids) == []
    call.cancel()  # too late, and harmless


def test_a_call_cancelled_before_it_begins_runs_nothing(guests: Guests) -> None:
    with pytest.raises(Cancelled):
        guests.sandbox.run("result = 1", LIMITS, lambda cancel: cancel())


def test_closing_the_sandbox_ends_what_runs(engine: SandboxEngine) -> None:
    sandbox = Sandbox(choice=engine.name)
    others = Guests(sandbox)
    others.result("result = 1")
    calls = [Call(sandbox, FOREVER) for _ in range(3)]
    pids = [others.warden, *running(others, 3)]
    sandbox.close()
    for call in calls:
        call.thread.join()
        assert isinstance(call.error, ShuttingDown)
    assert still_there(pids) == []
    with pytest.raises(ShuttingDown):
        sandbox.run("result = 1", LIMITS)
    sandbox.close()


def test_a_warden_that_is_killed_takes_its_programs_along_and_is_replaced(guests: Guests) -> None:
    call = Call(guests.sandbox, FOREVER)
    pids = running(guests)
    os.kill(guests.warden, signal.SIGKILL)
    call.thread.join()
    assert isinstance(call.error, ToolError)
    assert still_there(pids) == []
    assert guests.result("result = 2") == 2


SERVER = """
import sys, threading
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.node import Sandbox
sandbox = Sandbox(choice=sys.argv[1])
sandbox.run("1", SandboxLimits())
for code in ("while True: pass", "import time; time.sleep(600)", "import signal, os; os.kill(os.getpid(), signal.SIGSTOP)"):
    threading.Thread(target=sandbox.run, args=(code, SandboxLimits(timeout=600)), daemon=True).start()
print("running", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_programs_end_when_the_server_is_killed(guests: Guests, engine: SandboxEngine, number: int) -> None:
    guests.result("result = 1")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, engine.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"running\n"
        pids = wait_until(lambda: pids if len(pids := descendants(server.pid)) == 1 + 3 * guests.processes else None)
        server.send_signal(number)
    assert still_there(pids) == []


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_many_programs_at_once_keep_their_answers_apart(guests: Guests) -> None:
    def one(number: int) -> Any:
        return guests.run(f"print({number})\nresult = {number}", timeout=60.0)

    with ThreadPoolExecutor(32) as pool:
        runs = list(pool.map(one, range(64)))
    assert [(run.stdout, run.result) for run in runs] == [(f"{n}\n", n) for n in range(64)]


def test_calls_leave_no_descriptor_open(guests: Guests) -> None:
    guests.result("result = 1")
    before, wardens = set(os.listdir("/proc/self/fd")), os.listdir(f"/proc/{guests.warden}/fd")
    for code in ("result = 1", "1 / 0", "import os; os.abort()"):
        guests.run(code)
    assert set(os.listdir("/proc/self/fd")) <= before  # what an earlier test left may be collected meanwhile
    # The warden sees a little later that a supervisor has ended, also before the first look at it.
    assert wait_until(lambda: len(os.listdir(f"/proc/{guests.warden}/fd")) <= len(wardens))


def test_the_warden_knows_nothing_of_the_server(guests: Guests, engine: SandboxEngine) -> None:
    guests.result("result = 1")
    pid = guests.warden
    with open(f"/proc/{pid}/environ", "rb") as file:
        assert file.read() == b""
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    needed = SET_FILE_CAPABILITIES if engine is BUBBLEWRAP and os.geteuid() == 0 else 0
    assert status["CapEff"] == status["CapPrm"] == f"{needed:016x}"
    assert (status["NoNewPrivs"], status["Threads"]) == ("1" if engine is LANDLOCK else "0", "1")
    assert os.getsid(pid) == pid  # a terminal's Ctrl-C does not reach it


def test_names_of_host_files_are_hidden_where_the_kernel_grants_namespaces(guests: Guests) -> None:
    guests.result("result = 1")
    assert guests.sandbox.warden is not None
    if not guests.sandbox.warden.alone:
        assert os.geteuid() != 0, "to root they are always granted"
        return
    paths = ["/etc/passwd", "/home", "/opt", "/usr/bin", "/var", __file__, os.getcwd()]
    assert guests.result(f"import os; result = [path for path in {paths!r} if os.path.exists(path)]") == []


def test_a_program_is_alone_in_its_namespaces_and_with_its_descriptors(guests: Guests, engine: SandboxEngine) -> None:
    call = Call(guests.sandbox, FOREVER)
    guest = running(guests)[-1]
    wait_until(lambda: call.cancel)
    assert call.cancel is not None
    try:
        wait_until(lambda: resource.prlimit(guest, resource.RLIMIT_FSIZE) == (0, 0))
        own = {space for space in os.listdir("/proc/self/ns") if space_of(guest, space) != space_of("self", space)}
        assert own >= ({"mnt", "ipc", "net"} if engine is LANDLOCK else {"mnt", "ipc", "net", "user", "pid", "uts"})
        with open(f"/proc/{guest}/mountinfo") as file:
            mounts = [line.split(" ") for line in file]
        assert len(mounts) < 60
        if engine is BUBBLEWRAP:
            assert [mount[4] for mount in mounts if "ro" not in mount[5].split(",")] == ["/dev/null"]
            assert not {"etc/passwd", "proc", "sys", "home", "var", "run"} & set(os.listdir(f"/proc/{guest}/root"))
            links = {os.readlink(f"/proc/{guest}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{guest}/fd")}
            assert links == {"/dev/null", "pipe", "socket"}
    finally:
        call.cancel()
        call.thread.join()


def space_of(pid: int | str, space: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{space}")
