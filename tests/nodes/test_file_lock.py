"""A lock on a file is waited for in turn, shared by who only reads, and free when its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rrext.nodes.files import turns
from rrext.nodes.files.turns import NEXT, FileLock, InUse

HOLD = "import sys; from rrext.nodes.files.turns import FileLock\n"
HOLD += "lock = FileLock.take(sys.argv[1], int(sys.argv[2]), wait=0, check=int)\n"
HOLD += "print('held', flush=True); sys.stdin.read()"


def take(path: Path, *, wait: float = 0, shared: bool = False) -> FileLock:
    return FileLock.take(str(path), os.getpid(), wait=wait, check=lambda: None, shared=shared)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the lock."""
    command = [sys.executable, "-c", HOLD, str(path), str(os.getppid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_who_waits_in_vain_is_told_for_whom_it_is_held(path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(InUse) as refusal:
        take(path, wait=0.05)
    assert refusal.value.holder == str(os.getppid())
    holder.kill()
    holder.wait()
    take(path).release()


def test_a_lock_whose_process_is_killed_goes_to_who_waits(path: Path, holder: subprocess.Popen[bytes]) -> None:
    taken: list[FileLock] = []
    waiting = threading.Thread(target=lambda: taken.append(take(path, wait=600)), daemon=True)
    waiting.start()
    os.kill(holder.pid, signal.SIGKILL)
    waiting.join(30)
    assert len(taken) == 1
    assert path.read_text() == str(os.getpid())
    taken[0].release()


def test_several_share_it_and_one_alone_waits_for_all_of_them(path: Path) -> None:
    readers = [take(path, shared=True) for _ in range(3)]
    with pytest.raises(InUse):
        take(path)
    assert not any(reader.is_wanted() for reader in readers)
    for reader in readers:
        reader.release()
    alone = take(path)
    with pytest.raises(InUse):
        take(path, shared=True)
    alone.release()


def test_nobody_comes_before_the_one_who_is_next(path: Path) -> None:
    reader = take(path, shared=True)
    taken: list[FileLock] = []
    waiting = threading.Thread(target=lambda: taken.append(take(path, wait=600)), daemon=True)
    waiting.start()
    while not reader.is_wanted():
        waiting.join(0.005)
    with pytest.raises(InUse):
        take(path, shared=True)  # though it could be shared now
    reader.release()
    waiting.join(30)
    assert not taken[0].is_wanted()
    taken[0].release()


def test_who_is_not_wanted_any_more_waits_no_longer_and_leaves_nothing_locked(path: Path) -> None:
    held = take(path)
    with pytest.raises(ZeroDivisionError):
        FileLock.take(str(path), 1, wait=600, check=lambda: 1 / 0)
    assert not held.is_wanted()
    held.release()
    take(path).release()
    assert sorted(os.listdir(path.parent)) == [path.name, path.name + NEXT]


def test_who_works_for_a_killed_process_is_given_time_to_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = FileLock.take(str(path), 2**22 + 1, wait=0, check=lambda: None)  # no system has a process of that number
    looked: list[str] = []

    def is_gone(owner: str) -> bool:
        looked.append(owner)
        if len(looked) == 3:
            held.release()
        return True

    monkeypatch.setattr(turns, "is_gone", is_gone)
    monkeypatch.setattr(turns, "LEAVING_TIMEOUT", 600.0)
    take(path, wait=0).release()
    assert set(looked) == {str(2**22 + 1)}
