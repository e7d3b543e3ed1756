"""A program that tests the confinement. It runs as the first guest; only if all its attempts fail, another program runs."""

from __future__ import annotations

from rrext.nodes.sandbox.outcome import PythonRun

_TEMPLATE = """
import os, sys, _socket

def fork():
    if os.fork() == 0:
        os._exit(0)

def mode():
    os.chmod(sys.executable, os.stat(sys.executable).st_mode)  # as it is already, should it succeed

attempts = {{
    "read a file": lambda: open({path!r}).close(),
    "list a directory": lambda: os.listdir("/"),
    "read its environment": lambda: open("/proc/self/environ").close(),
    "write a file": lambda: os.open("/dev/shm/rrext-probe", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "change a file's mode": mode,
    "open a socket": lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM),
    "open a local socket": lambda: _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM),
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "start a process": fork,
    "run a program": lambda: os.execv(sys.executable, [sys.executable, "-V"]),
}}
result = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    result.append(name)
"""


def probe(path: str) -> str:
    """The program; `path` is a file that a guest must not be able to read."""
    return _TEMPLATE.format(path=path)


def verdict(run: PythonRun) -> str | None:
    """The gap in the confinement, or None if there is none."""
    if run.exit_code != 0 or not isinstance(run.result, list):
        return f"the test program did not come to its end: {run.stderr.strip()[-300:] or run.exit_code}"
    if run.result:
        return "the test program could " + ", ".join(map(str, run.result))
    return None
