"""Programs that want the machine's files. What they did is looked for outside, not in what they say."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from guests import Guests

from rrext.nodes.sandbox.bubblewrap import GuestView
from rrext.nodes.sandbox.engine import LANDLOCK, SandboxEngine
from rrext.nodes.sandbox.interpreter import Files

pytestmark = pytest.mark.system

SECRET = "a-secret-that-no-program-may-read"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the host that anybody may read and write, as far as its mode goes."""
    path = tmp_path / "victim.txt"
    path.write_text(SECRET)
    path.chmod(0o666)
    os.utime(path, (1_000_000, 1_000_000))
    return path


@pytest.fixture
def untouched(victim: Path):
    """Fails the test if anything about the file, or its folder, has changed."""
    before, folder = state(victim), sorted(os.listdir(victim.parent))
    yield
    assert state(victim) == before
    assert sorted(os.listdir(victim.parent)) == folder


def state(path: Path) -> tuple[object, ...]:
    found = path.stat()
    kept = (found.st_ino, found.st_mode, found.st_uid, found.st_nlink, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return (*kept, path.read_text(), os.listxattr(path))


READERS = {
    "open": "print(open({path!r}).read())",
    "os.open": "import os; print(os.read(os.open({path!r}, os.O_RDONLY), 99))",
    "a relative path out of the library": """
        import os
        up = "../" * 20
        print(open(os.path.dirname(os.__file__) + "/" + up + {path!r}).read())
        """,
    "a directory descriptor": """
        import os
        fd = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
        print(os.read(os.open("../" * 20 + {path!r}, os.O_RDONLY, dir_fd=fd), 99))
        """,
    "importing it": "from importlib.machinery import SourceFileLoader as L; print(L('m', {path!r}).get_data({path!r}))",
    "mmap": "import mmap, os; print(mmap.mmap(os.open({path!r}, 0), 0, prot=mmap.PROT_READ)[:])",
    "sqlite": "import sqlite3; print(sqlite3.connect({path!r}).execute('select * from sqlite_master').fetchall())",
    "the C library": """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        handle = libc.fopen({path!r}.encode(), b"r")
        text = ctypes.create_string_buffer(99)
        print(libc.fread(text, 1, 99, ctypes.c_void_p(handle)) and text.value)
        """,
    "openat2": """
        import ctypes
        how = ctypes.create_string_buffer(24)
        fd = ctypes.CDLL(None).syscall(437, -100, {path!r}.encode(), how, 24)
        import os
        print(os.read(fd, 99))
        """,
    "a path that another thread changes": """
        import ctypes, os, threading
        good, bad = os.__file__.encode(), {path!r}.encode()
        name = ctypes.create_string_buffer(max(len(good), len(bad)) + 1)
        def flip():
            while True:
                name.value = good
                name.value = bad
        threading.Thread(target=flip, daemon=True).start()
        libc = ctypes.CDLL(None)
        for _ in range(3000):
            fd = libc.open(name, 0)
            if fd >= 0:
                text = os.read(fd, 99)
                os.close(fd)
                if b"secret" in text:
                    print(text)
        """,
}


@pytest.mark.parametrize("title", READERS)
def test_no_program_reads_a_file_of_the_host(guests: Guests, victim: Path, untouched: None, title: str) -> None:
    run = guests.run(READERS[title].format(path=str(victim)))
    assert SECRET not in run.stdout + run.stderr + repr(run.result)


def reached(guests: Guests, attempt: str, paths: tuple[str, ...]) -> dict[str, Any]:
    """What the attempt on each path returns to a program; those that are refused are left out."""
    code = f"""
        import os
        result = {{}}
        for path in {paths!r}:
            try:
                result[path] = {attempt}
            except OSError:
                pass
        """
    return guests.result(code)


def test_no_program_reads_a_file_of_the_system(guests: Guests) -> None:
    paths = ("/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/self/maps", "/proc/1/environ", "/proc/cpuinfo")
    assert reached(guests, "repr(open(path, 'rb').read(9))", (*paths, "/sys/kernel/notes")) == {}


def test_no_program_lists_a_directory_of_the_host(guests: Guests, engine: SandboxEngine) -> None:
    listed = reached(guests, "os.listdir(path)", ("/", "/etc", "/tmp", "/proc", "/home", "/root", "/sys", "/dev", "/usr/bin"))
    if engine is LANDLOCK:
        assert listed == {}
        return
    ways = GuestView(Files(guests.sandbox.grant.paths)).bound  # folders of its own, with the ways to what it may read
    for folder, names in listed.items():
        head = folder.rstrip("/") + "/"
        assert set(names) == {path[len(head) :].split("/")[0] for path in ways if path.startswith(head)}


CHANGERS = {
    "write": "open({path!r}, 'w').write('mine')",
    "append": "open({path!r}, 'a').write('mine')",
    "truncate": "import os; os.truncate({path!r}, 0)",
    "remove": "import os; os.remove({path!r})",
    "rename": "import os; os.rename({path!r}, {path!r} + '2')",
    "chmod": "import os; os.chmod({path!r}, 0)",
    "chmod by the newest call": "import ctypes; ctypes.CDLL(None).syscall(452, -100, {path!r}.encode(), 0, 0)",
    "chown": "import os; os.chown({path!r}, 1234, 1234)",
    "utime": "import os; os.utime({path!r}, (1, 1))",
    "link": "import os; os.link({path!r}, {path!r} + '2')",
    "symlink": "import os; os.symlink({path!r}, {path!r} + '2')",
    "extended attributes": "import os; os.setxattr({path!r}, 'user.mine', b'1')",
    "extended attributes by the newest call": """
        import ctypes
        ctypes.CDLL(None).syscall(463, -100, {path!r}.encode(), 0, b"user.mine", ctypes.create_string_buffer(24), 24)
        """,
    "a new directory": "import os; os.mkdir({path!r} + '2')",
    "a new pipe": "import os; os.mkfifo({path!r} + '2')",
    "a new device": "import os; os.mknod({path!r} + '2', 0o600 | 0o20000, os.makedev(1, 3))",
    "a new database": "import sqlite3; sqlite3.connect({path!r} + '2').execute('create table t (a)')",
    "a bound socket": "import socket; socket.socket(socket.AF_UNIX).bind({path!r} + '2')",
    "a lock": "import fcntl; fcntl.flock(open({path!r}, 'r+'), fcntl.LOCK_EX)",
}

HARMFUL = set(CHANGERS) - {"a lock", "a new device", "chown", "extended attributes by the newest call"}


@pytest.mark.parametrize("title", CHANGERS)
def test_no_program_changes_a_file_of_the_host(guests: Guests, victim: Path, untouched: None, title: str) -> None:
    guests.run(CHANGERS[title].format(path=str(victim)))


@pytest.mark.parametrize("title", [*(name for name in READERS if name != "sqlite"), *sorted(HARMFUL)])
def test_outside_the_sandbox_the_same_program_succeeds(victim: Path, title: str) -> None:
    before = state(victim), sorted(os.listdir(victim.parent))
    code = dedent((READERS | CHANGERS)[title].format(path=str(victim)))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    changed = not os.access(victim, os.R_OK) or (state(victim), sorted(os.listdir(victim.parent))) != before
    assert (SECRET in ended.stdout) if title in READERS else changed


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/var/tmp", "/run", "/", "."])
def test_no_program_leaves_a_file_in_a_place_where_everybody_may_write(guests: Guests, folder: str) -> None:
    name = "rrext-left-behind"
    guests.run(f"open({folder + '/' + name!r}, 'w')")
    assert not [place for place in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/", ".") if os.path.exists(f"{place}/{name}")]


def test_temporary_files_are_refused_and_the_folder_stays_as_it_is(guests: Guests) -> None:
    run = guests.run("import tempfile; tempfile.NamedTemporaryFile()")
    assert (run.exit_code, "No usable temporary directory" in run.stderr) == (1, True)


def test_the_interpreter_cannot_be_damaged(guests: Guests) -> None:
    target = os.__file__
    before = hashlib.sha256(Path(target).read_bytes()).hexdigest(), os.stat(target).st_mode
    guests.run(
        f"""
        import os, sys, mmap, contextlib
        for path in ({target!r}, sys.executable):
            for attempt in (
                lambda: os.remove(path), lambda: os.truncate(path, 0), lambda: open(path, "r+b").write(b"x"),
                lambda: os.chmod(path, 0), lambda: os.rename(path, path + "x"),
                lambda: mmap.mmap(os.open(path, os.O_RDWR), 0)[:0],
            ):
                with contextlib.suppress(OSError):
                    attempt()
        """
    )
    assert (hashlib.sha256(Path(target).read_bytes()).hexdigest(), os.stat(target).st_mode) == before
    assert stat.S_ISREG(os.stat(target).st_mode)


def test_what_was_installed_into_the_interpreter_cannot_be_imported(guests: Guests) -> None:
    folders = {os.path.dirname(os.path.dirname(module.__file__)) for module in (pytest, msgspec)}
    base = os.path.join(os.path.dirname(os.__file__), "site-packages")
    code = f"""
        import sys, importlib
        sys.path += {sorted([*folders, base])!r}
        result = []
        for name in ("pytest", "msgspec", "pip", "sandlock", "rrext"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
            result.append(name)
        """
    assert guests.result(code) == []


def test_open_descriptors_of_the_server_are_not_inherited(guests: Guests, victim: Path) -> None:
    with victim.open() as secret:
        os.set_inheritable(secret.fileno(), True)
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        try:
            run = guests.run(
                """
                import os
                for fd in range(3, 4096):
                    try:
                        os.write(fd, b"gotcha")
                    except OSError:
                        pass
                    try:
                        print(os.pread(fd, 100, 0))
                    except OSError:
                        pass
                """
            )
            os.set_blocking(reader, False)
            with pytest.raises(BlockingIOError):
                os.read(reader, 10)
            assert SECRET not in run.stdout
        finally:
            os.close(reader)
            os.close(writer)


def test_devices_that_are_not_granted_cannot_be_opened(guests: Guests) -> None:
    code = """
        import os
        result = []
        for name in ("/dev/tty", "/dev/ptmx", "/dev/kmsg", "/dev/mem", "/dev/full", "/dev/fuse", "/dev/kvm", "/dev/net/tun"):
            try:
                os.close(os.open(name, os.O_RDWR))
            except OSError:
                continue
            result.append(name)
        """
    assert guests.result(code) == []
