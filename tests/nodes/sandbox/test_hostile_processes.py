"""Programs that want other processes, or to outlive themselves."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest
from guests import Guests, descendants, still_there, wait_until

from rrext.errors import ToolError
from rrext.nodes.sandbox.supervisor import PENDING_SIGNALS

pytestmark = pytest.mark.system


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """The signals that reach this process during the test."""
    seen: list[int] = []
    watched = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT, signal.SIGURG)
    before = {number: signal.signal(number, lambda got, frame: seen.append(got)) for number in watched}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


SIGNALLERS = {
    "kill": "os.kill(pid, number)",
    "a thread's kill": "ctypes.CDLL(None).syscall(234, pid, pid, int(number))",
    "the group": "os.killpg(os.getpgid(pid), number)",
    "everybody": "os.kill(-1, number)",
    "queue": "ctypes.CDLL(None).sigqueue(pid, int(number), None)",
    "pidfd": "signal.pidfd_send_signal(os.pidfd_open(pid), number)",
    "a descriptor's owner": "import fcntl; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, pid)",
}


@pytest.mark.parametrize("title", SIGNALLERS)
def test_no_signal_reaches_a_process_of_the_host(guests: Guests, signals: list[int], title: str) -> None:
    run = guests.run(
        f"""
        import ctypes, os, signal
        for pid in ({os.getpid()}, os.getppid(), {os.getppid()}, 1):
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
                try:
                    {SIGNALLERS[title]}
                except OSError:
                    pass
        """
    )
    assert run.exit_code == 0 or "everybody" in title or "group" in title
    assert signals == []
    assert guests.result("result = 1") == 1  # the warden lives, too


def test_no_process_of_the_host_is_traced_or_read(guests: Guests) -> None:
    secret = bytearray(b"only-in-the-memory-of-the-server")
    address = id(secret)
    run = guests.run(
        f"""
        import ctypes, os
        libc = ctypes.CDLL(None)
        attach, seize = 16, 0x4206
        for pid in ({os.getpid()}, os.getppid()):
            for request in (attach, seize):
                print(libc.ptrace(request, pid, None, None))
            text = ctypes.create_string_buffer(4096)
            class Part(ctypes.Structure):
                _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))
            ours, theirs = Part(ctypes.addressof(text), 4096), Part({address}, 4096)
            print(libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0), text.raw)
            handle = libc.syscall(434, pid, 0)
            print(handle, libc.syscall(438, handle, 0, 0), libc.syscall(438, handle, 3, 0))
            for name in ("mem", "environ", "maps", "cmdline", "fd/0", "status"):
                try:
                    print(open(f"/proc/{{pid}}/{{name}}", "rb").read(99))
                except OSError:
                    pass
        """
    )
    assert run.exit_code == 0
    assert set(run.stdout.replace("-1", "").split()) <= {repr(bytes(4096))}
    assert "TracerPid:\t0" in Path("/proc/self/status").read_text()


def test_limits_and_priorities_of_other_processes_stay(guests: Guests) -> None:
    def state() -> tuple[object, ...]:
        names = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
        pid = os.getpid()
        return (
            [resource.getrlimit(name) for name in names],
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid),
            os.sched_getscheduler(pid),
        )

    before = state()
    run = guests.run(
        f"""
        import ctypes, os, resource
        libc = ctypes.CDLL(None)
        for pid in ({os.getpid()}, os.getppid()):
            for attempt in (
                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (10, 10)),
                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE),
                lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
                lambda: os.setpriority(os.PRIO_USER, 0, 19),
                lambda: os.sched_setaffinity(pid, [0]),
                lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
            ):
                try:
                    print("done", attempt())
                except OSError:
                    pass
        """
    )
    assert (run.exit_code, run.stdout) == (0, "")
    assert state() == before


def test_a_program_cannot_raise_its_own_limits(guests: Guests) -> None:
    code = """
        import os, resource
        result = []
        for name in ("AS", "NOFILE", "CPU", "FSIZE", "CORE", "STACK"):
            number = getattr(resource, "RLIMIT_" + name)
            try:
                resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (OSError, ValueError):
                continue
            result.append(name)
        for attempt in (lambda: os.nice(-5), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))):
            try:
                attempt()
            except OSError:
                continue
            result.append("priority")
        """
    assert guests.result(code) == []


def test_signals_that_a_program_sends_itself_take_no_room_of_other_processes(guests: Guests) -> None:
    code = """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        for _ in range(2000):
            os.kill(os.getpid(), signal.SIGRTMIN)
        result = 0
        while signal.sigtimedwait([signal.SIGRTMIN], 0):
            result += 1
        """
    assert guests.result(code) <= PENDING_SIGNALS + 1  # the last one is a bit, without a place in the queue


STARTERS = {
    "fork": "os.fork()",
    "vfork": "ctypes.CDLL(None).vfork()",
    "clone": "ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0)",
    "clone into a namespace": "ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0)",
    "clone of a sibling": "ctypes.CDLL(None).syscall(56, 0x8011, 0, 0, 0, 0)",
    "clone3": "ctypes.CDLL(None).syscall(435, ctypes.create_string_buffer(88), 88)",
    "subprocess": "import subprocess; subprocess.run(['/bin/sh', '-c', 'id'])",
    "system": "os.system('id')",
    "popen": "os.popen('id').read()",
    "spawn": "os.posix_spawn('/bin/sh', ['sh'], {})",
    "exec of a shell": "os.execv('/bin/sh', ['sh', '-c', 'echo started'])",
    "exec of the interpreter": "import sys; os.execv(sys.executable, [sys.executable, '-c', 'print(\"started\")'])",
    "exec of the loader": "os.execv('/lib64/ld-linux-x86-64.so.2', ['ld', '/bin/echo', 'started'])",
    "exec of a memory file": "fd = os.memfd_create('x'); os.write(fd, b'#!/bin/echo started'); os.execve(fd, ['x'], {})",
    "execveat": "ctypes.CDLL(None).syscall(322, -100, b'/bin/sh', None, None, 0)",
    "multiprocessing": "import multiprocessing as m; m.get_context('fork').Process(target=print, args=('started',)).start()",
    "a pool of processes": "import concurrent.futures as f; print(f.ProcessPoolExecutor(1).submit(len, 'started').result())",
    "daemonising": """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print("started", flush=True)
            import time
            time.sleep(60)
    """,
}


@pytest.mark.parametrize("title", STARTERS)
def test_no_process_is_started(guests: Guests, title: str) -> None:
    started = watch_for_processes(guests)
    run = guests.run(f"import os, ctypes\nif True:\n    {STARTERS[title]}\n")
    assert "started" not in run.stdout
    assert "uid=" not in run.stdout
    assert started() <= guests.processes


def watch_for_processes(guests: Guests) -> Callable[[], int]:
    """Counts processes below the warden from another thread until asked; returns the most at a time."""
    guests.result("result = 1")
    assert guests.left_behind() == []
    most, stop = [0], threading.Event()

    def look() -> None:
        while not stop.is_set():
            most[0] = max(most[0], len(descendants(guests.warden)))

    thread = threading.Thread(target=look)
    thread.start()

    def end() -> int:
        stop.set()
        thread.join()
        return most[0]

    return end


def test_a_fork_bomb_stays_one_process(guests: Guests) -> None:
    started = watch_for_processes(guests)
    run = guests.run(
        """
        import os, time
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                os.fork()
            except OSError:
                pass
        """
    )
    assert run.exit_code == 0
    assert started() <= guests.processes


def test_a_thread_bomb_is_ended(guests: Guests) -> None:
    run = guests.run(
        """
        import threading, time
        threading.stack_size(32768)
        while True:
            try:
                threading.Thread(target=time.sleep, args=(60,)).start()
            except RuntimeError:
                pass
        """
    )
    assert (run.exit_code, run.timed_out) == (137, False)
    assert "Killed: it had more than 64 threads" in run.stderr


def test_a_thread_bomb_in_raw_calls_is_ended(guests: Guests) -> None:
    run = guests.run(
        """
        import _thread, time
        _thread.stack_size(32768)
        def spread():
            while True:
                try:
                    _thread.start_new_thread(spread, ())
                except RuntimeError:
                    time.sleep(0.001)
        spread()
        """,
        timeout=10.0,  # it may take all of it
    )
    assert run.exit_code in (137, -1)


DEATHLESS = {
    "all signals ignored": """
        for number in signal.valid_signals():
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            time.sleep(60)
        """,
    "all signals blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); time.sleep(60)",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)",
    "a session of its own": "import contextlib\nwith contextlib.suppress(OSError): os.setsid()\ntime.sleep(60)",
    "no death with the parent": "ctypes.CDLL(None).prctl(1, 0); time.sleep(60)",
    "an endless loop": "while True: pass",
    "a loop in C": "9 ** 9 ** 9",
    "a hopeless pattern": "import re; re.match(r'(a+)+$', 'a' * 64 + 'b')",
    "threads that never end": "[threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(20)]",
    "an exit handler that never ends": "import atexit; atexit.register(time.sleep, 60)",
    "a destructor that never ends": "class D:\n    def __del__(self): time.sleep(60)\nd = D()",
    "an exception hook that never ends": "sys.excepthook = lambda *a: time.sleep(60); 1 / 0",
    "exceptions swallowed": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "a repr that never ends": "class R:\n    def __repr__(self): time.sleep(60)\nresult = R()",
    "waiting for a pipe": "r, w = os.pipe(); os.read(r, 1)",
    "standard streams closed": "os.closerange(0, 64); time.sleep(60)",
}


STARTED = 3.0
"""Seconds in which a guest has started and begun, beside three others on a busy machine."""


def test_nothing_survives_its_time(guests: Guests) -> None:
    head = "import ctypes, os, signal, sys, threading, time\nprint('kept', end='', flush=True)\n"

    def overstay(title: str) -> None:
        run = guests.run(head + dedent(DEATHLESS[title]), timeout=STARTED)
        assert (title, run.timed_out, run.exit_code, run.stdout, run.has_result) == (title, True, -1, "kept", False)
        assert run.stderr.endswith("Killed: the time limit of 3 s was reached\n"), title

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(overstay, DEATHLESS))) == len(DEATHLESS)


def test_a_guest_dies_with_its_supervisor(guests: Guests) -> None:
    guests.result("result = 1")
    assert guests.left_behind() == []
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(guests.run, "while True: pass")
        pids = wait_until(lambda: pids if len(pids := descendants(guests.warden)) == guests.processes else None)
        os.kill(pids[0], signal.SIGKILL)
        assert isinstance(call.exception(), ToolError)
    assert still_there(pids) == []
    assert guests.left_behind() == []


@pytest.mark.parametrize("place", [1, -2, -1])
def test_a_guest_that_loses_what_keeps_it_ends_and_leaves_nothing(guests: Guests, place: int) -> None:
    # With Landlock the guest itself; with bubblewrap its monitor, its keeper, itself.
    guests.result("result = 1")
    assert guests.left_behind() == []
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(guests.run, "print('here', flush=True)\nwhile True: pass")
        pids = wait_until(lambda: pids if len(pids := descendants(guests.warden)) == guests.processes else None)
        wait_until(lambda: limited(pids[-1]))
        os.kill(pids[max(place, 1 - len(pids))], signal.SIGKILL)
        assert call.result().exit_code == 137
    assert still_there(pids) == []
    assert guests.left_behind() == []


def limited(pid: int) -> bool:
    """Whether a guest has its limits, which it gets after its walls were looked at."""
    return resource.prlimit(pid, resource.RLIMIT_FSIZE) == (0, 0)
