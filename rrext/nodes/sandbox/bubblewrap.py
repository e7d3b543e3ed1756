"""The engine on bubblewrap, for kernels without the newest Landlock: namespaces of its own for each program.

A supervisor starts `bwrap`, which stays as its child, the monitor, makes the namespaces, and starts an interpreter as the first
process in them, the keeper. The keeper forks the guest and tells how it ended. When the supervisor ends, so does the keeper,
and with it, by the kernel, all in the namespaces; then the monitor. If the monitor ends first, the supervisor kills the keeper.
Nothing kills a monitor at its start, neither `--die-with-parent`: its child would wait for it forever.

The warden can enter neither a Landlock domain, in which nobody may mount, nor namespaces, which some distributions grant to
`bwrap` alone. It drops its capabilities, but for one that root needs to be mapped into a namespace. Before a program is handed
over, its supervisor looks from outside at what the guest has: the processes, the namespaces, every mount, the folders that
bubblewrap made, the descriptors.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator

from rrext.nodes.sandbox.engine import NAMESPACES
from rrext.nodes.sandbox.interpreter import Files, command
from rrext.nodes.sandbox.kernel import SET_FILE_CAPABILITIES, adopt_orphans, drop_capabilities, status_of
from rrext.nodes.sandbox.supervisor import BOOT, GuestProcess, WallMissing, Walls

_GUEST = 2
"""The number of the guest in its namespace: the keeper, which forks it, has 1."""

_KEEPER = (
    "import os,sys\n"
    "os.environ.clear()\n"  # bubblewrap sets PWD
    "end=int(sys.argv[1])\n"
    "guest=os.fork()\n"
    "if guest:\n"
    " import select\n"
    " os.closerange(0,3)\n"
    " lines=select.poll()\n"
    " lines.register(end,0)\n"  # an error, which needs no asking, once nobody can read from it
    " lines.register(os.pidfd_open(guest),select.POLLIN)\n"
    " if any(ready==end for ready,_ in lines.poll()): os._exit(1)\n"
    " os.write(end,os.waitpid(guest,0)[1].to_bytes(4,'little'))\n"
    " os._exit(0)\n"
    "os.close(end)\n"
)
_SPACES = ("user", "mnt", "pid", "net", "ipc", "uts")
_DESCRIPTORS = {"0", "1", "2", "3"}  # the channel is 3, and 0 reads nothing
_WRITABLE = "/dev/null"


class BubblewrapWalls(Walls):
    """The walls of this engine; `path` is the program `bwrap`."""

    def __init__(self, files: Files, path: str) -> None:
        self.view = GuestView(files)
        self.command = [path, *NAMESPACES, *self.view.options(), "--chdir", "/", "--as-pid-1", "--"]

    def enclose(self) -> bool:
        """Drop capabilities; each guest has its own files."""
        drop_capabilities(SET_FILE_CAPABILITIES if os.geteuid() == 0 else 0)
        return True

    def start(self) -> GuestProcess:
        """Start the guest below a monitor and a keeper."""
        return _BubblewrapGuest(self)


class GuestView:
    """What a guest sees of the files: `bound` ones with all below them, and the folders `made` for it, else empty."""

    def __init__(self, files: Files) -> None:
        self.devices = tuple(path for path in (*files.devices, *files.roots) if path.startswith("/dev/"))
        self.roots = tuple(path for path in files.roots if path not in self.devices)
        self.covers = tuple(path for path in files.installed if os.path.isdir(path))
        self.packages = files.packages
        self.bound = (*self.roots, *self.devices, *self.packages)
        self.made = ("/", *self.covers)

    def options(self) -> Iterator[str]:
        """The options of bubblewrap, in the order in which it mounts."""
        for path in self.roots:
            yield from ("--ro-bind", path, path)
        for path in self.covers:
            yield from ("--tmpfs", path)
        for path in self.packages:
            yield from ("--ro-bind", path, path)
        for path in self.devices:
            yield from ("--dev-bind", path, path)
        for path in (*self.covers, *(path for path in self.devices if path != _WRITABLE), "/"):
            yield from ("--remount-ro", path)

    def gaps(self, pid: int) -> Iterator[str]:
        """What the process sees beyond that, or may write to."""
        with open(f"/proc/{pid}/mountinfo") as mounts:
            for line in mounts:
                _, _, _, _, point, options, *_ = line.split(" ")
                path = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point)
                flags = options.split(",")
                if "nosuid" not in flags or ("ro" not in flags and path != _WRITABLE) or not self._is_known(path):
                    yield f"the mount {path}"
        for folder in self.made:
            yield from self._beside(f"/proc/{pid}/root", folder.rstrip("/"))

    def _is_known(self, path: str) -> bool:
        return path in self.made or any(path == each or path.startswith(each + "/") for each in self.bound)

    def _beside(self, root: str, folder: str) -> Iterator[str]:
        """What lies in a folder that was made for the guest, but for the ways to what is bound."""
        for name in os.listdir(root + (folder or "/")):
            path = f"{folder}/{name}"
            if path in self.bound:
                continue
            if any(each.startswith(path + "/") for each in self.bound):
                yield from self._beside(root, path)
            else:
                yield f"the file {path}"


class _BubblewrapGuest(GuestProcess):
    def __init__(self, walls: BubblewrapWalls) -> None:
        self._walls = walls
        self._end, self._told = os.pipe()
        self._guest: int | None = None
        adopt_orphans()  # of a monitor that is killed before its children die with it
        super().__init__()
        os.close(self._told)

    def start(self) -> tuple[int, int]:
        # Until the guest is found among the descendants of the monitor, `pid` is the monitor's.
        boot = [*self._walls.command, *command("-c", _KEEPER + BOOT, str(self._told))]
        self._monitor = subprocess.Popen(boot, env={}, cwd="/", pass_fds=(self._told,))
        return self._monitor.pid, _GUEST

    def missing_walls(self) -> list[str]:
        keepers = _children(self._monitor.pid)
        guests = [each for keeper in keepers for each in _children(keeper)]
        if len(keepers) != 1 or len(guests) != 1 or _children(guests[0]):
            raise WallMissing("the processes of the guest are not a keeper and its child")
        self.pid = guests[0]
        self._guest = os.pidfd_open(self.pid)
        wrong = super().missing_walls()
        status = status_of(self.pid)
        if status["CapBnd"]:
            wrong.append("CapBnd")
        if status["NSpid"] != _GUEST:
            wrong.append("NSpid")
        wrong += [space for space in _SPACES if _space(str(self.pid), space) == _space("self", space)]
        wrong += self._walls.view.gaps(self.pid)
        if set(os.listdir(f"/proc/{self.pid}/fd")) != _DESCRIPTORS:
            wrong.append("descriptors")
        return wrong

    def kill(self) -> None:
        if self._guest is None:  # it ends by itself when it has nobody to talk to, before it has a program
            try:
                self.channel.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended
            return
        try:
            signal.pidfd_send_signal(self._guest, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self) -> tuple[int, int]:
        self._monitor.wait()
        while left := _children(os.getpid()):
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        status = os.read(self._end, 4)
        code = os.waitstatus_to_exitcode(int.from_bytes(status, "little")) if status else -signal.SIGKILL
        return (code, 0) if code >= 0 else (-1, -code)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(each) for each in children.read().split()]
    except OSError:  # it has ended, or the kernel was built without this file
        return []


def _space(pid: str, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")
