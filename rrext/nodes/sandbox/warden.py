"""The warden: a process beside the server that starts a supervisor for each program, and does nothing else.

It keeps the server's memory, threads, descriptors, environment and capabilities apart from programs. It has one thread, so
that forking is safe, and has loaded everything, so that forking is all a call costs. It lives as long as the server holds
the other end of its control socket: when the server ends, however it ends, the warden ends; then the kernel kills its
supervisors, and with each its guest (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import gc
import json
import marshal
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from rrext.nodes.sandbox.grant import Share

PARENT_LOOK: Final = 1000
"""Milliseconds between two checks of the parent, in case another process holds the socket's other end."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the control socket whose descriptor is the first argument. Never returns.

    The second one is that of the `Grant`, the third names the engine, the fourth is its piece.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    server = os.getppid()
    try:
        with open(int(sys.argv[2]), "rb") as given:
            warden = _Warden(json.load(given), sys.argv[3], sys.argv[4])
    except Exception as error:
        control.send(json.dumps({"missing": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    control.send(json.dumps({"missing": None, "alone": warden.alone}).encode())
    warden.serve(control, server)


class _Warden:
    def __init__(self, grant: dict[str, Any], engine: str, piece: str) -> None:
        from rrext.nodes.sandbox import guest, guest_packages, values
        from rrext.nodes.sandbox.grant import Usage
        from rrext.nodes.sandbox.interpreter import Files
        from rrext.nodes.sandbox.supervisor import supervise

        if engine == "landlock":
            from rrext.nodes.sandbox.landlock import LandlockWalls as Engine
        else:
            from rrext.nodes.sandbox.bubblewrap import BubblewrapWalls as Engine

        self.supervise = supervise
        self.usage = Usage()
        self.running: dict[int, Share] = {}
        self.walls = Engine(Files(grant["paths"]), piece)
        sources = [values.__file__, *([guest_packages.__file__] if grant["modules"] else ()), guest.__file__]
        given = grant["modules"], grant["distributions"]
        self.guest_code = marshal.dumps((list(map(_compiled, sources)), given))
        self.alone = self.walls.enclose()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes ended supervisors away
        gc.freeze()

    def serve(self, control: socket.socket, server: int) -> NoReturn:
        poll = select.poll()
        poll.register(control, select.POLLIN)
        while os.getppid() == server:
            ready = [fd for fd, _ in poll.poll(PARENT_LOOK)]
            for ended in self.running.keys() & ready:
                poll.unregister(ended)
                os.close(ended)
                self.usage.give_back(self.running.pop(ended))
            if control.fileno() not in ready:
                continue
            word, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not word:
                break
            self._start(control, descriptors[0], poll)
        os._exit(0)

    def _start(self, control: socket.socket, descriptor: int, poll: select.poll) -> None:
        warden = os.getpid()
        share = self.usage.take()
        if share is None:  # the server reads the end of the call's socket here, too
            os.close(descriptor)
            return
        try:
            child = os.fork()
        except OSError:  # the machine is full; the server reads the end of the call's socket
            child = -1
        if child:
            os.close(descriptor)
            self._watch(child, share, poll)
            return
        try:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
            if os.getppid() == warden:  # else the warden died before the line above
                with socket.socket(fileno=descriptor) as host:
                    self.supervise(host, self.walls, self.guest_code, share)
        finally:
            os._exit(0)

    def _watch(self, supervisor: int, share: Share, poll: select.poll) -> None:
        """Release the share when the supervisor has ended, however it does; −1: there is none."""
        try:
            handle = os.pidfd_open(supervisor)
        except OSError:  # the supervisor has ended already, or was never there
            self.usage.give_back(share)
            return
        self.running[handle] = share
        poll.register(handle, select.POLLIN)


def _compiled(path: str) -> object:
    with open(path, "rb") as source:
        # The name is what tracebacks are cleaned of.
        return compile(source.read(), "<rrext>", "exec", dont_inherit=True)
