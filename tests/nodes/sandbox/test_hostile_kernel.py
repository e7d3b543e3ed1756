"""Programs that want the kernel: its rarely used calls, its namespaces, its memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from guests import Guests

from rrext.nodes.sandbox.grant import MIB

pytestmark = pytest.mark.system

REFUSED = {1, 38}  # EPERM, ENOSYS

CALLS = {
    "io_uring_setup": "425, 8, ctypes.create_string_buffer(120)",
    "userfaultfd": "323, 0",
    "keyctl": "250, 0, -3, 1",
    "add_key": '248, b"user", b"rrext-test", b"x", 1, -4',
    "request_key": '249, b"user", b"rrext-test", None, 0',
    "mount": '165, b"none", b"/tmp", b"tmpfs", 0, None',
    "move_mount": "429, 0, b'', 0, b'', 0",
    "fsopen": '430, b"tmpfs", 0',
    "open_tree": '428, -100, b"/", 1',
    "mount_setattr": '442, -100, b"/", 0, None, 0',
    "umount": '166, b"/proc", 2',
    "pivot_root": '155, b"/", b"/"',
    "chroot": '161, b"/"',
    "chdir": '80, b"/"',
    "unshare a user namespace": "272, 0x10000000",
    "unshare a network": "272, 0x40000000",
    "setns": "308, 0, 0",
    "bpf": "321, 0, None, 0",
    "perf_event_open": "298, ctypes.create_string_buffer(128), 0, -1, -1, 0",
    "ptrace me": "101, 0, 0, 0, 0",
    "personality": "135, 0xFFFFFFFF",
    "modify_ldt": "154, 0, None, 0",
    "iopl": "172, 3",
    "init_module": "175, None, 0, b''",
    "kexec_load": "246, 0, 0, None, 0",
    "kexec_file_load": "320, -1, -1, 0, None, 0",
    "reboot": "169, 0xfee1dead, 672274793, 0, None",
    "swapon": '167, b"/swap", 0',
    "acct": "163, None",
    "quotactl": "179, 0, None, 0, None",
    "syslog": "103, 10, None, 0",
    "sethostname": '170, b"hacked", 6',
    "setdomainname": '171, b"hacked", 6',
    "settimeofday": "164, ctypes.create_string_buffer(16), None",
    "clock_settime": "227, 0, ctypes.create_string_buffer(16)",
    "adjtimex": "159, ctypes.create_string_buffer(256)",
    "setuid": "105, 0",
    "setresuid": "117, 0, 0, 0",
    "setgroups": "116, 0, None",
    "capset": "126, None, None",
    "setns by pidfd": "434, 1, 0",
    "memfd_create": '319, b"x", 0',
    "memfd_secret": "447, 0",
    "shmget": "29, 1, 4096, 0o1600",
    "semget": "64, 1, 1, 0o1600",
    "msgget": "68, 1, 0o1600",
    "mq_open": '240, b"rrext-test", 66, 0o600, None',
    "inotify_init": "253",
    "fanotify_init": "300, 0, 0",
    "name_to_handle_at": '303, -100, b"/", None, None, 0',
    "open_by_handle_at": "304, -100, None, 0",
    "lookup_dcookie": "212, 0, None, 0",
    "statfs": '137, b"/", ctypes.create_string_buffer(120)',
    "getxattr": '191, b"/", b"user.x", None, 0',
    "statmount": "457, None, None, 0, 0",
    "listmount": "458, None, None, 0, 0",
    "process_madvise": "440, 0, None, 0, 0, 0",
    "kcmp": "312, 1, 1, 0, 0, 0",
    "migrate_pages": "256, 1, 0, None, None",
    "mlock": "149, 0, 4096",
    "timer_create": "222, 0, None, ctypes.create_string_buffer(8)",
    "seccomp": "317, 1, 0, None",
    "landlock_create_ruleset": "444, None, 0, 1",
    "lsm_set_self_attr": "460, 0, None, 0, 0",
    "prctl": "157, 4, 1, 0, 0, 0",
    "arch_prctl": "158, 0x1002, 0",
    "vhangup": "153",
    "ioctl TIOCSTI": "16, 0, 0x5412, b'x'",
    "fcntl F_SETPIPE_SZ": "72, 1, 1031, 1048576",
    "an unknown call": "999, 0",
}


def test_the_kernel_refuses_every_call_that_is_not_allowed(guests: Guests) -> None:
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        result = {{}}
        for title, call in {CALLS!r}.items():
            ctypes.set_errno(0)
            result[title] = [eval(f"libc.syscall({{call}})"), ctypes.get_errno()]
        """
    told = guests.result(code)
    assert set(told) == set(CALLS)
    assert {title: os.strerror(error) for title, (value, error) in told.items() if value != -1 or error not in REFUSED} == {}


def test_calls_of_other_machines_end_the_program(guests: Guests) -> None:
    run = guests.run("import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39); print('survived')")
    assert (run.exit_code, run.stdout) == (128 + 31, "")
    assert "SIGSYS" in run.stderr


def test_machine_code_for_the_32_bit_entry_ends_the_program(guests: Guests) -> None:
    run = guests.run(
        """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b814000000" "cd80" "c3"))  # mov eax, 20; int 0x80; ret
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        print("survived")
        """
    )
    assert (run.exit_code != 0, run.stdout) == (True, "")


def test_the_machine_is_as_before(guests: Guests) -> None:
    def state() -> tuple[object, ...]:
        files = ("/proc/self/mountinfo", "/proc/keys", "/proc/sysvipc/msg", "/proc/sys/kernel/hostname")
        return tuple(Path(name).read_text() for name in files if os.path.exists(name))

    clock = time.time() - time.monotonic()
    before = state()
    for title in ("mount", "add_key", "msgget", "sethostname", "settimeofday", "clock_settime"):
        guests.run(f"import ctypes; ctypes.CDLL(None).syscall({CALLS[title]})")
    assert state() == before
    assert abs(time.time() - time.monotonic() - clock) < 60


def test_a_program_has_no_capability_and_gains_none(guests: Guests) -> None:
    code = """
        import ctypes, struct
        libc = ctypes.CDLL(None)
        data = ctypes.create_string_buffer(24)
        libc.capget(struct.pack("<Ii", 0x20080522, 0), data)
        result = [any(data.raw), libc.capset(struct.pack("<Ii", 0x20080522, 0), b"\\xff" * 24)]
        """
    assert guests.result(code) == [False, -1]


MEMORY = {
    "one block": "x = bytearray(10**10)",
    "many small ones": "x = [bytearray(4096) for _ in range(10**7)]",
    "a list": "x = [0]\nwhile True: x += x",
    "a string": "'a' * 10**10",
    "a big number": "1 << 10**11",
    "mapped": "import mmap; x = [mmap.mmap(-1, 2**27) for _ in range(10**4)]",
    "shared": "import mmap; x = [mmap.mmap(-1, 2**27, mmap.MAP_SHARED) for _ in range(10**4)]",
    "never touched": "import mmap; x = mmap.mmap(-1, 2**40)",
    "in pipes": """
        import os
        while True:
            r, w = os.pipe()
            os.set_blocking(w, False)
            os.write(w, bytes(65536))
        """,
    "in socket pairs": """
        import socket
        pairs = []
        while True:
            pairs.append(socket.socketpair())
            pairs[-1][0].setblocking(False)
            pairs[-1][0].send(bytes(10**6))
        """,
    "in the C library": "import ctypes\nwhile ctypes.CDLL(None).malloc(10**8): pass\nraise MemoryError",
    "by parsing": "eval('(' * 10**6)",
    "by compressing": "import zlib; x = zlib.decompress(zlib.compress(bytes(10**9)))",
}


@pytest.mark.parametrize("title", MEMORY)
def test_memory_is_bounded_and_running_out_of_it_is_told(guests: Guests, title: str) -> None:
    run = guests.run(MEMORY[title])
    assert run.exit_code != 0
    assert any(word in run.stderr for word in ("MemoryError", "OSError", "Killed", "too many nested", "Cannot allocate"))


TAKERS = {
    "bytes": "lambda: bytearray(2**20)",
    "objects": "lambda: [object() for _ in range(1000)]",
    "the C library": "lambda: ctypes.CDLL(None).memset(ctypes.c_void_p(malloc(2**20) or exit()), 1, 2**20)",
    "private maps": "lambda: fill(mmap.mmap(-1, 2**20, mmap.MAP_PRIVATE))",
    "shared maps": "lambda: fill(mmap.mmap(-1, 2**20))",
    "recursion": "deeper",
}


@pytest.mark.promise("python:memory:threads")
@pytest.mark.parametrize("title", TAKERS)
def test_threads_together_have_no_more_memory_than_one(guests: Guests, title: str) -> None:
    run = guests.run(
        f"""
        import ctypes, mmap, resource, threading
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        barrier = threading.Barrier(40)
        def fill(held):
            held.write(b"1" * 2**20)
            return held
        def deeper():
            return [bytearray(1000), deeper()]
        def exit():
            raise MemoryError
        def work():
            taken = []
            barrier.wait()
            try:
                while True: taken.append(take())
            except (MemoryError, OSError, RecursionError):
                print(0)
        take = {TAKERS[title]}
        threads = [threading.Thread(target=work) for _ in range(40)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        result = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        """,
        memory=320 * MIB,
        timeout=40.0,  # forty threads share one interpreter, and tests share the processors
    )
    assert run.exit_code in (0, 1, 137), run.stderr
    assert (run.result or 0) * 1024 <= 320 * MIB


def test_a_crash_of_the_interpreter_is_told(guests: Guests) -> None:
    run = guests.run("import ctypes; print('before'); ctypes.string_at(1)")
    assert (run.exit_code, run.stdout) == (139, "before\n")
    assert run.stderr == "Killed by SIGSEGV: perhaps a recursion was deeper than the stack has room for\n"


def test_recursion_without_end_is_told(guests: Guests) -> None:
    assert "RecursionError" in guests.run("def f(): f()\nf()").stderr
    run = guests.run("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", timeout=2.0)
    assert run.exit_code != 0
