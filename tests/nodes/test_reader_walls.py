"""What a process that reads documents, pictures or sounds has given up: with Landlock, with an older one, and with none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rrext.nodes.child.landlock import WHOLE_ABI, abi, lacks
from rrext.nodes.child.system_calls import OUTSIDE

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="elsewhere there are no such filters"
)

EACH_ABI = [0, *range(1, min(abi(), WHOLE_ABI) + 1)]

LOCKED = """
import ctypes, fcntl, json, os, resource, socket, struct, sys, threading
import rrext.nodes.child.landlock as landlock
from rrext.nodes.child.walls import PACKAGE, STANDARD, lock_in
offered, file, link = int(sys.argv[1]), sys.argv[2], sys.argv[3]
landlock.abi = lambda: offered
before, after = threading.Event(), threading.Event()
def early():
    before.wait()
    attempt("a socket of a thread that was there before", socket.socket)
    after.set()
told = []
def attempt(name, work):
    try:
        work()
    except OSError as error:
        return
    told.append(name)
if offered == 0:
    threading.Thread(target=early).start()
lock_in(*STANDARD, PACKAGE)
if offered == 0:
    before.set()
    after.wait()
libc = ctypes.CDLL(None, use_errno=True)
for number in json.loads(sys.argv[4]):
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
        told.append(number)
def call(*arguments):
    result = libc.syscall(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result
parent, pipe, stream = os.getppid(), os.pipe()[0], socket.socketpair()[0]
for name, work in {
    "read": lambda: open(file).close(),
    "list": lambda: os.listdir(os.path.dirname(file)),
    "empty": lambda: os.truncate(file, 0),
    "write": lambda: os.open(file + ".new", os.O_CREAT | os.O_WRONLY),
    "move": lambda: os.rename(file + ".other", file + ".moved"),
    "mode": lambda: os.chmod(file, 0o777),
    "network": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "message": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", link),
    "signal to the parent": lambda: os.kill(os.getppid(), 0),
    "signal to a group": lambda: os.kill(0, 0),
    "signal of a pipe": lambda: fcntl.fcntl(pipe, fcntl.F_SETOWN, parent),
    "signal of a socket": lambda: fcntl.ioctl(stream, 0x8901, struct.pack("i", parent)),  # FIOSETOWN
    "number of a signal": lambda: fcntl.fcntl(pipe, 10, 9),  # F_SETSIG SIGKILL
    "limit": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent)),
    "processors": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
    "scheduler": lambda: os.sched_setscheduler(parent, os.SCHED_OTHER, os.sched_param(0)),
    "shared memory": lambda: call(31, call(29, 0, 4096, 0o600), 0, 0),  # shmget, and shmctl removes it
    "semaphore": lambda: call(66, call(64, 0, 1, 0o600), 0, 0),
    "queue": lambda: call(71, call(68, 0, 0o600), 0, 0),
    "keys": lambda: call(250, 0, -3, 0),  # the keyring of the session
    "program": lambda: os.execv(sys.executable, [sys.executable, "-V"]),
    "signal to itself": lambda: os.kill(os.getpid(), 0),
    "limit of itself": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    "stream": lambda: socket.socketpair()[0].setblocking(False),
    "module": lambda: open(os.__file__).close(),
    "thread": lambda: threading.Thread(target=print).start(),
}.items():
    attempt(name, work)
print(json.dumps(told))
"""
HARMLESS = ["signal to itself", "limit of itself", "stream", "module", "thread"]


def locked(offered: int, file: Path) -> Any:
    """What a process can do that has locked itself in, on a kernel with that ABI."""
    file.write_text("SECRET")
    Path(f"{file}.other").touch()
    calls = json.dumps(list(OUTSIDE.values()))
    command = [sys.executable, "-c", LOCKED, str(offered), str(file), f"{file}.socket", calls]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().rpartition("\n")[2])


@pytest.mark.parametrize("offered", EACH_ABI)
def test_a_reader_reaches_nothing_outside_whatever_the_landlock_of_its_kernel_lacks(offered: int, tmp_path: Path) -> None:
    files = ["read", "list", "write", "move"] if offered == 0 else []
    assert locked(offered, tmp_path / "file") == [*files, *HARMLESS]
    assert (tmp_path / "file").read_text() == "SECRET"


def test_what_an_older_landlock_lacks_has_names() -> None:
    assert lacks(WHOLE_ABI) == lacks(WHOLE_ABI + 1) == []
    assert lacks(5) == ["signals and abstract sockets"]
    assert lacks(1) == ["signals and abstract sockets", "commands to devices (ioctl)", "TCP", "truncating files"]
