"""If a wall does not stand, no program runs: each wall is taken away once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import install_samples

from rrext.nodes.sandbox.interpreter import executable

pytestmark = pytest.mark.system

NOBODY = 65534
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"

SPEAK = """
import json, sys
from rrext.errors import Unavailable
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.packages import OfferedPackages
from rrext.nodes.sandbox.node import SandlockSandbox
sandbox = SandlockSandbox(OfferedPackages(packages).grant(packages))
answers = []
for code in sys.argv[1:]:
    try:
        run = sandbox.run(code, SandboxLimits(timeout=10))
        answers.append([run.exit_code, run.result])
    except Unavailable as error:
        answers.append(["unavailable", error.message])
print(json.dumps({"alone": bool(sandbox.warden and sandbox.warden.alone), "answers": answers}))
sandbox.close()
"""

ATTACKS = """
import os, socket
result = []
for attempt in (
    lambda: open("/etc/passwd").read(), lambda: os.listdir("/"), lambda: os.chmod("/tmp", 0o1777), os.fork,
    lambda: socket.socket(), lambda: os.kill(os.getppid(), 0), lambda: open("/dev/shm/rrext-x", "w"),
):
    try:
        attempt()
    except OSError:
        continue
    result.append(repr(attempt))
"""


def runs_for_nobody(python: str) -> bool:
    """Whether this process may become another user, who may run this interpreter and read the packages."""
    paths = os.pathsep.join(path for path in sys.path if path)
    try:
        ended = subprocess.run(
            [python, "-B", "-c", "import msgspec, sandlock, rrext"],
            user=NOBODY, group=NOBODY, extra_groups=[], env={"PYTHONPATH": paths}, cwd="/", capture_output=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return ended.returncode == 0


def spoken(
    *programs: str, before: str = "", packages: tuple[str, ...] = (), python: str = sys.executable, user: int | None = None
) -> Any:
    """The answers of a server of its own, which runs `before` first, and offers and allows the packages."""
    paths = os.pathsep.join(path for path in sys.path if path)
    more: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    ended = subprocess.run(
        [python, "-B", "-c", f"{before}\npackages = {packages!r}\n{SPEAK}", *programs],
        capture_output=True,
        env={"PYTHONPATH": paths},
        cwd="/",
        check=False,
        **more,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return json.loads(ended.stdout)


def refusing(*calls: int) -> str:
    """A program's first lines: it has the kernel refuse system calls to itself and all its children."""
    steps = [
        (0x20, 0, 0, 0),
        *((0x15, len(calls) - at, 0, call) for at, call in enumerate(calls)),
        (6, 0, 0, 0x7FFF0000),
        (6, 0, 0, 0x50001),
    ]
    return f"""
import ctypes, struct
steps = b"".join(struct.pack("<HBBI", *step) for step in {steps!r})
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))
libc = ctypes.CDLL(None)
program = ctypes.byref(Program(len(steps) // 8, steps))
none = ctypes.c_ulong(0)
assert libc.prctl(38, ctypes.c_ulong(1), none, none, none) == 0
assert libc.prctl(22, ctypes.c_ulong(2), program, none, none) == 0
"""


UNSHARE, PIVOT_ROOT, UMOUNT, SECCOMP, LANDLOCK_RESTRICT, LANDLOCK_CREATE, PIDFD_OPEN = 272, 155, 166, 317, 446, 444, 434


@pytest.mark.parametrize("call", [UNSHARE, PIVOT_ROOT])
def test_without_namespaces_the_other_walls_hold(call: int) -> None:
    told = spoken(ATTACKS, before=refusing(call))
    assert told == {"alone": False, "answers": [[0, []]]}


CURIOUS = """
import os, shapes, shared.circles
site = os.path.dirname(os.path.dirname(shapes.__file__))
result = []
for name in ("", "secret.txt", "beside", "beside/__init__.py", "shared", "shared/squares/__init__.py", "new.txt"):
    try:
        os.open(os.path.join(site, name), os.O_RDONLY if name != "new.txt" else os.O_CREAT | os.O_WRONLY)
    except OSError:
        continue
    result.append(name)
"""


def test_without_namespaces_programs_reach_their_packages_and_nothing_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_samples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    told = spoken(ATTACKS, CURIOUS, before=refusing(UNSHARE), packages=("shapes", "circles"))
    assert told == {"alone": False, "answers": [[0, []], [0, []]]}


@pytest.mark.parametrize("call", [UMOUNT, SECCOMP, LANDLOCK_RESTRICT, LANDLOCK_CREATE, PIDFD_OPEN])
def test_a_kernel_that_refuses_a_wall_makes_the_tool_unavailable(call: int) -> None:
    told = spoken("result = 1", "result = 2", before=refusing(call))
    assert [kind for kind, _ in told["answers"]] == ["unavailable", "unavailable"]


WITHOUT = """
import rrext.nodes.sandbox.node as engine
head, tail = engine._BOOT.split("; from", 1)
engine._BOOT = head + "\\n" + {change!r} + "\\nfrom" + tail
"""

CHANGES = {
    "the guest's filter": """
from rrext.nodes.sandbox import warden as w
def unlocked(path):
    return compile(open(path).read().replace("_lock_in(receive(channel))", "receive(channel)"), "<rrext>", "exec")
w._compiled = unlocked
""",
    "sandlock's filter": """
import rrext.nodes.sandbox.supervisor as c
c._FILTERS = 3  # one less than there should be, seen the other way round
""",
    "both domains": """
import rrext.nodes.sandbox.supervisor as c, rrext.nodes.child.landlock as l, sandlock
l.confine = lambda **paths: None
c._policy = lambda files: sandlock.Sandbox(fs_readable=["/"], clean_env=True, cwd="/")
""",
    "capabilities": """
import rrext.nodes.sandbox.kernel as p
p.drop_capabilities = lambda: None
""",
}


@pytest.mark.parametrize("title", [title for title in CHANGES if title != "capabilities" or os.geteuid() == 0])
def test_a_wall_that_is_left_out_is_noticed(title: str) -> None:
    told = spoken("result = 1", before=WITHOUT.format(change=CHANGES[title]))
    assert [kind for kind, _ in told["answers"]] == ["unavailable"], told


def test_without_capabilities_it_works_the_same() -> None:
    before = "from rrext.nodes.sandbox.kernel import drop_capabilities; drop_capabilities()\n"
    assert spoken(ATTACKS, before=before)["answers"] == [[0, []]]


def test_another_user_than_root_can_run_programs() -> None:
    # As far as such a user can read an interpreter and the packages; where he cannot, the test above is what is left.
    for python in filter(runs_for_nobody, (executable(), SYSTEM_PYTHON)):
        told = spoken(ATTACKS, "import os; result = os.getuid()", python=python, user=NOBODY)
        assert told["answers"] == [[0, []], [0, NOBODY]]
