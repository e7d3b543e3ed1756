"""A process notices that its parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rrext.transports.descriptors import ParentWatch

GRANDCHILD = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from rrext.transports.descriptors import ParentWatch
asked, told = int(sys.argv[1]), int(sys.argv[2])
watch = ParentWatch()
while os.read(asked, 1):
    os.write(told, b"gone" if watch.is_gone() else b"here")
"""
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[3:], pass_fds=[int(sys.argv[1]), int(sys.argv[2])]).wait()"


@pytest.mark.promise("life:parent-death:exits")
def test_a_killed_parent_is_noticed_though_a_sibling_holds_every_pipe() -> None:
    asked, ask = os.pipe()
    answers, told = os.pipe()
    fds = [str(asked), str(told)]
    command = [sys.executable, "-c", PARENT, *fds, sys.executable, "-c", GRANDCHILD, *fds]
    with subprocess.Popen(command, pass_fds=[asked, told]) as parent:
        for _ in range(2):
            os.write(ask, b"?")
            assert os.read(answers, 10) == b"here"
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
    os.write(ask, b"?")
    assert os.read(answers, 10) == b"gone"
    for fd in (asked, ask, answers, told):
        os.close(fd)


def test_a_parent_that_was_gone_before_is_noticed_if_it_is_named() -> None:
    assert not ParentWatch().is_gone()
    assert not ParentWatch(os.getppid()).is_gone()
    assert ParentWatch(2**22 + 1).is_gone()
    assert repr(ParentWatch(5)) == "<ParentWatch of 5>"


@pytest.mark.parametrize("pid", [2**22 + 1, 2**31, 10**30])
@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_process_that_cannot_be_is_gone(pid: int, has_descriptors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert not ParentWatch().watch(pid)


def test_a_process_that_let_another_one_start_this_one_is_watched() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as other:
        watch = ParentWatch(other.pid, is_parent=False)
        assert not watch.is_gone()
        other.kill()
        other.wait(30)
        assert watch.is_gone()
        assert ParentWatch(2**22 + 1, is_parent=False).is_gone()


def test_threads_look_at_once_whether_a_process_is_gone() -> None:
    watch = ParentWatch()
    assert watch.watch(os.getpid())
    with ThreadPoolExecutor(8) as threads:
        looks = [threads.submit(lambda: [watch.is_gone() for _ in range(500)]) for _ in range(32)]
    assert not any(gone for look in looks for gone in look.result())
