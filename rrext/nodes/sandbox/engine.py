"""The engines that isolate programs, which of them is the strongest here, and what this machine lacks for each.

In the server an engine is a `SandboxEngine`, in the warden it is `Walls` (`supervisor`), which the modules `landlock` and
`bubblewrap` have. All else is the same for both: the warden, supervisors, the guest and its filter, packages, the outcome.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

Choice = Literal["auto", "landlock", "bubblewrap"]

TRIAL: Final = 10.0
"""Seconds for bubblewrap to make its namespaces; it takes a hundredth of one."""

NAMESPACES: Final = ("--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session")
"""Options of bubblewrap for all that it starts: namespaces of its own, no capabilities, no terminal."""

_PROFILE: Final = (
    "AppArmor restricts user namespaces: load its profile bwrap-userns-restrict. On Ubuntu 24.04: "
    "apt install apparmor-profiles; cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/; "
    "apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
)
_REFUSALS: Final = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", _PROFILE),
)
"""Settings by which distributions switch off user namespaces: the file, its content then, and the way out."""


class SandboxEngine(NamedTuple):
    """`lack` tells what the machine lacks, None if nothing is known to be; `piece` is what the warden needs of it, a path;
    `weaker` tells what only one wall keeps from programs on this kernel, where there are two elsewhere."""

    name: Literal["landlock", "bubblewrap"]
    install: str
    lack: Callable[[], str | None]
    piece: Callable[[], str | None]
    weaker: Callable[[], str | None] = lambda: None


def sandlock_folder() -> str | None:
    """The folder in which the package `sandlock` is installed."""
    from importlib.util import find_spec

    spec = find_spec("sandlock")
    if spec is None or spec.origin is None:
        return None
    return os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))


def _lack_of_landlock() -> str | None:
    if sandlock_folder() is None:
        return f'it needs the package "sandlock": {LANDLOCK.install}'
    from rrext.nodes.child.landlock import abi

    if abi() > 0:
        return None
    have = "has none, or it is switched off (see the boot parameter lsm=)"
    return f"it needs Landlock, which Linux has since 5.13, and this kernel, {os.uname().release}, {have}"


def _weaker_landlock() -> str | None:
    if sys.platform != "linux":  # the number of the call is another one's there
        return None
    from rrext.nodes.child.landlock import abi, lacks

    offered = abi()
    missing = ", ".join(reversed(lacks(offered)))
    return f"Landlock ABI {offered} of this kernel leaves to the filter of system calls alone: {missing}" if missing else None


def bubblewrap() -> str | None:
    """The path of the program `bwrap`."""
    from shutil import which

    return which("bwrap")


def _lack_of_bubblewrap() -> str | None:
    path = bubblewrap()
    if path is None:
        return f"it needs the program bwrap: {BUBBLEWRAP.install}"
    command = [path, *NAMESPACES, "--ro-bind", "/", "/", path, "--version"]
    try:
        trial = subprocess.run(command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} does not start: {error}"
    if trial.returncode == 0:
        return None
    said = trial.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the system refuses it namespaces ({said or f'exit code {trial.returncode}'}): {_way_out()}"


def _way_out() -> str:
    for path, refusing, advice in _REFUSALS:
        try:
            with open(path) as setting:
                if setting.read().strip() == refusing:
                    return advice
        except OSError:
            continue
    return "allow user namespaces; in a container, with its runtime's seccomp and AppArmor settings"


LANDLOCK: Final = SandboxEngine("landlock", 'pip install "rrext[python]"', _lack_of_landlock, sandlock_folder, _weaker_landlock)
BUBBLEWRAP: Final = SandboxEngine(
    "bubblewrap", "apt install bubblewrap, or dnf install bubblewrap", _lack_of_bubblewrap, bubblewrap
)
ENGINES: Final = (LANDLOCK, BUBBLEWRAP)


def wanted(choice: Choice = "auto") -> tuple[SandboxEngine, ...]:
    """The engines to be tried, the strongest first.

    A whole Landlock is: two domains and two filters, around the warden too. Namespaces are stronger than a Landlock whose place
    is taken by filters where it lacks something.
    """
    engines = ENGINES[::-1] if LANDLOCK.weaker() else ENGINES
    return tuple(engine for engine in engines if choice in ("auto", engine.name))


def lack_of(engine: SandboxEngine) -> str | None:
    """What this machine lacks for an engine, as far as known without a program in it. Blocks: call it from a worker thread."""
    if sys.platform != "linux":
        return "programs are isolated on Linux alone"
    if os.uname().machine != "x86_64":
        return f"programs are isolated on x86-64 alone, and this machine is {os.uname().machine}"
    if not _tells_of_filters():
        return f"programs are isolated on Linux 5.9 or newer alone, and this kernel is {os.uname().release}"
    return engine.lack()


def _tells_of_filters() -> bool:
    with open("/proc/self/status") as lines:
        return any(line.startswith("Seccomp_filters:") for line in lines)


def missing_piece(choice: Choice = "auto") -> str | None:
    """Why no engine of the choice can isolate programs here; None if one can, as far as known."""
    lacks: dict[str, str] = {}
    for engine in wanted(choice):
        lack = lack_of(engine)
        if lack is None:
            return None
        lacks[engine.name] = lack
    return told(lacks)


def told(lacks: dict[str, str]) -> str:
    """The sentence for engines that cannot isolate, each with what it lacks."""
    if len(set(lacks.values())) == 1:
        name = f"the engine {next(iter(lacks))} of tool_python" if len(lacks) == 1 else "tool_python"
        return f"{name} is not available: {next(iter(lacks.values()))}"
    return f"tool_python needs one of two engines. {'; '.join(f'{name}: {lack}' for name, lack in lacks.items())}"
