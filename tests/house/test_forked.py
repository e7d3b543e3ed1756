"""A forked process has the same arguments, variables, descriptors and end as a process that Python starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import Forked, completed, process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")

KINDS = [Forked, subprocess.Popen]
SHOWS = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "given": os.environ.get("GIVEN"), "names": sorted(os.environ),
    "leads": os.getsid(0) == os.getpid(), "name": __name__, "read": sys.stdin.read(),
    "descriptors": [n for n in range(1000) if os.path.exists(f"/proc/self/fd/{n}")],
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)],
    "encodings": [s.encoding for s in (sys.stdin, sys.stdout, sys.stderr)],
}))
"""


def run(kind: type, code: str, *words: str, given: bytes = b"", **options: Any) -> tuple[int, bytes, bytes]:
    with kind([sys.executable, "-c", code, *words], stdin=-1, stdout=-1, stderr=-1, **options) as started:
        out, err = started.communicate(given)
    return started.returncode, out, err


def test_it_has_what_it_was_given_and_nothing_else(tmp_path: Path) -> None:
    number = os.memfd_create("passed")
    options = {"cwd": tmp_path, "env": {**os.environ, "GIVEN": "this"}, "pass_fds": [number], "start_new_session": True}
    forked, fresh = (json.loads(run(kind, SHOWS, "a", "b", given=b"read", **options)[1]) for kind in KINDS)
    os.close(number)
    assert set(forked.pop("path")) == set(fresh.pop("path"))
    assert forked == fresh
    assert (forked["argv"], forked["given"], number in forked["descriptors"]) == (["-c", "a", "b"], "this", True)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('why')",
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "import atexit; atexit.register(print, 'last')",
        "import threading; threading.Timer(0.1, print, ['a thread']).start()",
        "import os, sys; print('x'); os.close(1)",
        "import sys; sys.stdout.close()",
        "print('out'); import sys; print('err', file=sys.stderr)",
    ],
)
def test_it_ends_as_any_process(code: str) -> None:
    forked, fresh = (run(kind, code) for kind in KINDS)
    assert forked[:2] == fresh[:2]
    assert forked[2].splitlines()[-1:] == fresh[2].splitlines()[-1:]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_waited_for_and_killed(kind: type) -> None:
    with kind([sys.executable, "-c", "import signal; print(flush=True); signal.pause()"], stdout=-1) as started:
        assert started.stdout.readline() == b"\n"
        assert started.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(0.01)
        started.send_signal(signal.SIGTERM)
        assert started.wait() == started.poll() == -signal.SIGTERM
        started.kill()


def test_what_a_process_reads_at_its_start_makes_it_a_real_one() -> None:
    words = [sys.executable, "-c", "import sys; print(sys.flags.utf8_mode, sys.flags.dev_mode)"]
    for more in ({"PYTHONUTF8": "1"}, {"PYTHONDEVMODE": "1"}, {"LC_ALL": "POSIX"}, {"MALLOC_ARENA_MAX": "1"}):
        with process(words, env={**os.environ, **more}, stdout=subprocess.DEVNULL) as started:
            assert type(started) is subprocess.Popen
    assert completed(words, env={**os.environ, "PYTHONDEVMODE": "1"}).stdout.endswith(b"True\n")
    with process(words, stdout=subprocess.DEVNULL) as started:
        assert type(started) is Forked
