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
NAMELESS = 54321
"""A user whom only a number names, as in containers."""
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"

SPEAK = """
import json, sys
from rrext.errors import Unavailable
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.packages import OfferedPackages
from rrext.nodes.sandbox.node import Sandbox
sandbox = Sandbox(OfferedPackages(packages).grant(packages), engine)
answers = []
for code in sys.argv[1:]:
    try:
        run = sandbox.run(code, SandboxLimits(timeout=30))
        answers.append([run.exit_code, run.result])
    except Unavailable as error:
        answers.append(["unavailable", error.message])
chosen = sandbox.engine and sandbox.engine.name
print(json.dumps({"alone": bool(sandbox.warden and sandbox.warden.alone), "engine": chosen, "answers": answers}))
sandbox.close()
"""

OWN_ROOT = ["list"]
"""The attack that is none where a program has a root folder of its own."""

ATTACKS = """
import os, socket
result = []
for name, attempt in {
    "read": lambda: open("/etc/passwd").read(), "list": lambda: os.listdir("/"), "chmod": lambda: os.chmod("/tmp", 0o1777),
    "fork": os.fork, "socket": lambda: socket.socket(), "kill": lambda: os.kill(os.getppid(), 0),
    "shm": lambda: open("/dev/shm/rrext-x", "w"), "new": lambda: open("/rrext-x", "w"), "lib": lambda: open(os.__file__, "a"),
}.items():
    try:
        attempt()
    except OSError:
        continue
    result.append(name)
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
    *programs: str,
    before: str = "",
    packages: tuple[str, ...] = (),
    python: str = sys.executable,
    user: int | None = None,
    engine: str = "landlock",
) -> Any:
    """The answers of a server of its own, which runs `before` first, and offers and allows the packages."""
    paths = os.pathsep.join(path for path in sys.path if path)
    more: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    ended = subprocess.run(
        [python, "-B", "-c", f"{before}\npackages, engine = {packages!r}, {engine!r}\n{SPEAK}", *programs],
        capture_output=True,
        env={"PYTHONPATH": paths, "PATH": os.environ["PATH"]},
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


MOUNT, UNSHARE, PIVOT_ROOT, UMOUNT, SECCOMP, LANDLOCK_RESTRICT, LANDLOCK_CREATE, PIDFD_OPEN = (
    165,
    272,
    155,
    166,
    317,
    446,
    444,
    434,
)


@pytest.mark.parametrize("call", [UNSHARE, PIVOT_ROOT])
def test_without_namespaces_the_other_walls_hold(call: int) -> None:
    told = spoken(ATTACKS, before=refusing(call))
    assert told == {"alone": False, "engine": "landlock", "answers": [[0, []]]}


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
    assert told == {"alone": False, "engine": "landlock", "answers": [[0, []], [0, []]]}


REFUSED = {
    "landlock": (UMOUNT, SECCOMP, LANDLOCK_RESTRICT, LANDLOCK_CREATE, PIDFD_OPEN),
    "bubblewrap": (MOUNT, PIVOT_ROOT, UMOUNT, PIDFD_OPEN),
}


@pytest.mark.promise("python:walls")
@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in REFUSED.items() for call in calls])
def test_a_kernel_that_refuses_a_wall_makes_the_engine_unavailable(name: str, call: int) -> None:
    told = spoken("result = 1", "result = 2", before=refusing(call), engine=name)
    assert [kind for kind, _ in told["answers"]] == ["unavailable", "unavailable"]


def test_where_landlock_is_refused_bubblewrap_is_taken_unless_the_first_is_demanded() -> None:
    before = refusing(LANDLOCK_CREATE)
    assert spoken(ATTACKS, before=before, engine="auto") == {"alone": True, "engine": "bubblewrap", "answers": [[0, OWN_ROOT]]}
    [[kind, reason]] = spoken(ATTACKS, before=before)["answers"]
    assert (kind, "Landlock" in reason, "bubblewrap" in reason) == ("unavailable", True, False)


def test_landlock_is_taken_where_both_work() -> None:
    assert spoken("result = 1", engine="auto")["engine"] == "landlock"


def test_where_neither_works_the_error_names_both_with_their_reasons() -> None:
    [[kind, reason]] = spoken("result = 1", before=refusing(LANDLOCK_CREATE, MOUNT), engine="auto")["answers"]
    assert kind == "unavailable"
    assert reason.startswith("tool_python needs one of two engines. bubblewrap: the system refuses it namespaces (bwrap: ")
    assert "; landlock: it needs Landlock, which Linux has since 5.13" in reason


WITHOUT = """
import rrext.nodes.sandbox.node as engine
head, tail = engine._BOOT.split("; from", 1)
engine._BOOT = head + "\\n" + {change!r} + "\\nfrom" + tail
"""

OLDER = """
import rrext.nodes.child.landlock
rrext.nodes.child.landlock.abi = lambda: {0}
"""
OLDER_WARDEN = """
import rrext.nodes.sandbox.landlock as e
e.abi = lambda: {0}
policy = e._policy
def older(sandlock, files):
    made = policy(sandlock, files)
    assert list(made.allow_degraded) == list(sandlock.Protection)
    made.allow_degraded, made.disable = [], [each for each in sandlock.Protection if each != sandlock.Protection.FS_REFER]
    return made
e._policy = older
"""
WHAT_OLDER_ONES_LACK = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
null = os.open("/dev/null", os.O_RDWR)
result = []
for name, attempt in {
    "truncate": lambda: os.truncate(os.__file__, os.stat(os.__file__).st_size),
    "TCP": lambda: socket.socket(), "UDP": lambda: socket.socket(type=socket.SOCK_DGRAM),
    "abstract": lambda: ends[0].sendto(b"x", "\\0rrext-x"),
    "signal": lambda: os.kill(os.getppid(), 0), "group": lambda: os.kill(0, 0), "all": lambda: os.kill(-1, 0),
    "pidfd": lambda: os.pidfd_open(os.getppid()),
    "ioctl": lambda: libc.ioctl(null, 0x5412, b"x") and os.lseek(-1, 0, 0), "move": lambda: os.rename(os.__file__, "/x"),
}.items():
    try:
        attempt()
    except OSError:
        continue
    result.append(name)
"""


@pytest.mark.promise("python:walls")
@pytest.mark.parametrize("offered", [1, 4])
@pytest.mark.parametrize("call", [None, UNSHARE])
def test_what_an_older_landlock_lacks_the_filter_of_a_program_holds(offered: int, call: int | None) -> None:
    before = (refusing(call) if call else "") + OLDER.format(offered)
    change = OLDER.format(offered) + OLDER_WARDEN.format(offered)
    told = spoken(ATTACKS, WHAT_OLDER_ONES_LACK, before=before + WITHOUT.format(change=change))
    assert told == {"alone": call is None, "engine": "landlock", "answers": [[0, []], [0, []]]}


def test_namespaces_come_before_an_older_landlock_which_is_taken_where_they_are_refused() -> None:
    assert spoken("result = 1", before=OLDER.format(4), engine="auto")["engine"] == "bubblewrap"
    told = spoken("result = 1", before=OLDER.format(4) + refusing(MOUNT), engine="auto")
    assert (told["engine"], told["answers"]) == ("landlock", [[0, 1]])


def test_where_a_namespace_is_granted_without_its_user_programs_stay_outside_of_it() -> None:
    # As on Ubuntu 24.04, whose AppArmor refuses the mapping after the namespace was made.
    change = """
import rrext.nodes.sandbox.kernel as k
def refused():
    k._check(k._libc.unshare(k._NEW_USER), "unshare")
    raise PermissionError(1, "uid_map")
k._unshare = refused
"""
    told = spoken(ATTACKS, "import os; result = os.getuid()", before=WITHOUT.format(change=change))
    assert told == {"alone": False, "engine": "landlock", "answers": [[0, []], [0, os.getuid()]]}


CHANGES = {
    "the guest's filter": """
from rrext.nodes.sandbox import warden as w
def unlocked(path):
    return compile(open(path).read().replace("_lock_in(receive(channel))", "receive(channel)"), "<rrext>", "exec")
w._compiled = unlocked
""",
    "sandlock's filter": """
import rrext.nodes.sandbox.landlock as e
e._LandlockGuest.filters = 3  # one less than there should be, seen the other way round
""",
    "both domains": """
import rrext.nodes.sandbox.landlock as e
e.confine = lambda **paths: None
e._policy = lambda sandlock, files: sandlock.Sandbox(fs_readable=["/"], clean_env=True, cwd="/")
""",
    "capabilities": """
import rrext.nodes.sandbox.landlock as e
e.drop_capabilities = lambda: None
""",
}


@pytest.mark.promise("python:walls")
@pytest.mark.parametrize("title", [title for title in CHANGES if title != "capabilities" or os.geteuid() == 0])
def test_a_wall_of_landlock_that_is_left_out_is_noticed(title: str) -> None:
    told = spoken("result = 1", before=WITHOUT.format(change=CHANGES[title]))
    assert [kind for kind, _ in told["answers"]] == ["unavailable"], told


MORE_OPTIONS = """
import rrext.nodes.sandbox.bubblewrap as b
options = b.GuestView.options
b.GuestView.options = lambda view: [*{0!r}, *options(view)]
"""
ONLY_OPTIONS = """
import rrext.nodes.sandbox.bubblewrap as b
b.GuestView.options = lambda view: {0!r}
"""
LESS_OPTIONS = """
import rrext.nodes.sandbox.bubblewrap as b
b.NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL")
b.NAMESPACES = [each for each in b.NAMESPACES if each not in {0!r}]
"""
KEEPER = """
import rrext.nodes.sandbox.bubblewrap as b
assert {0!r} in b._KEEPER
b._KEEPER = b._KEEPER.replace({0!r}, {1!r})
"""
GAPS = {
    "the guest's filter": (CHANGES["the guest's filter"], "Seccomp"),
    "a capability": (MORE_OPTIONS.format(["--cap-add", "CAP_NET_ADMIN"]), "CapPrm"),
    "a folder of the host": (MORE_OPTIONS.format(["--ro-bind", "/etc", "/etc"]), "the mount /etc"),
    "a file below what is granted": (MORE_OPTIONS.format(["--ro-bind", "/etc/passwd", "/usr/passwd"]), "the mount /usr/passwd"),
    "the root of the host": (ONLY_OPTIONS.format(["--dev-bind", "/", "/", "--remount-ro", "/"]), "the file /etc"),
    "processes": (MORE_OPTIONS.format(["--proc", "/proc"]), "the mount /proc"),
    "a folder that is writable": (MORE_OPTIONS.format(["--tmpfs", "/dev/shm"]), "the mount /dev/shm"),
    "a file that was made": (MORE_OPTIONS.format(["--symlink", "/x", "/usr/new"]), "the file /usr/new"),
    "no network of its own": (LESS_OPTIONS.format(["--unshare-net"]), "net"),
    "no shared memory of its own": (LESS_OPTIONS.format(["--unshare-ipc"]), "ipc"),
    "no name of its own": (LESS_OPTIONS.format(["--unshare-uts"]), "uts"),
    "no numbers of its own": (LESS_OPTIONS.format(["--unshare-pid"]), "pid"),
    "a descriptor": (KEEPER.format("os.close(end)", "pass"), "descriptors"),
    "a second process": (KEEPER.format("if guest:\n", "if guest:\n os.fork()\n"), "processes"),
    "a process between": (KEEPER.format("guest=os.fork()\n", "guest=os.fork() or os.fork()\n"), "processes"),
}


@pytest.mark.promise("python:walls")
@pytest.mark.parametrize("title", GAPS)
def test_a_gap_that_bubblewrap_leaves_is_seen_from_outside(title: str) -> None:
    change, words = GAPS[title]
    [[kind, reason]] = spoken("result = 1", before=WITHOUT.format(change=change), engine="bubblewrap")["answers"]
    assert (kind, words in reason) == ("unavailable", True), reason


def test_a_writable_root_is_seen_from_outside() -> None:
    change = MORE_OPTIONS.format([]).replace("*options(view)", "*list(options(view))[:-2]")
    [[kind, reason]] = spoken("result = 1", before=WITHOUT.format(change=change), engine="bubblewrap")["answers"]
    assert (kind, "the mount /" in reason) == ("unavailable", True), reason


LINKED = """
import rrext.nodes.sandbox.interpreter as i
i._LIBRARIES = (*i._LIBRARIES, {0!r})
"""


@pytest.mark.parametrize("name", ["landlock", "bubblewrap"])
def test_installed_packages_are_hidden_under_other_names_too(tmp_path: Path, name: str) -> None:
    # Where the library lies among the shared libraries, as on Fedora: /lib64 is another name for /usr/lib64.
    link = tmp_path / "lib"
    link.symlink_to(Path(os.__file__).resolve().parents[1])
    site = f"{link}/{Path(os.__file__).parent.name}/site-packages"
    code = f"import os\nresult = []\ntry: result = os.listdir({site!r})\nexcept OSError: pass"
    outside = f"import os; result = os.path.exists({os.path.dirname(site)!r} + '/os.py')"
    told = spoken(code, outside, before=WITHOUT.format(change=LINKED.format(str(link))), engine=name)
    assert told["answers"] == [[0, []], [0, True]]


def test_without_capabilities_it_works_the_same() -> None:
    before = "from rrext.nodes.sandbox.kernel import drop_capabilities; drop_capabilities()\n"
    assert spoken(ATTACKS, before=before)["answers"] == [[0, []]]


@pytest.mark.parametrize(("name", "attacks"), [("landlock", []), ("bubblewrap", OWN_ROOT)])
def test_another_user_than_root_can_run_programs(name: str, attacks: list[str]) -> None:
    # As far as such a user can read an interpreter and the packages; where he cannot, the test above is what is left.
    for python in filter(runs_for_nobody, (executable(), SYSTEM_PYTHON)):
        for user in (NOBODY, NAMELESS):
            told = spoken(ATTACKS, "import os; result = os.getuid()", python=python, user=user, engine=name)
            assert told["answers"] == [[0, attacks], [0, user]]
