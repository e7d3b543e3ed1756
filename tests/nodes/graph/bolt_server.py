"""A real server that speaks Bolt, in a process of its own: it can be stopped, killed and started again on its port.

Run as a program this file is that process: `bolt_server.py FOLDER BOLT_PORT HTTP_PORT`. It says `ready` on stdout, and
stops when its stdin ends, so that it never outlives the tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

USER = "root"
PASSWORD = "a-secret-of-the-tests"
DATABASE = "graph"
JVM_ARGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A server of a few seconds does not live long enough to earn what optimising compilers and collectors with threads cost."""


class BoltServer:
    """The server's process. `start` returns when it takes connections."""

    def __init__(self, folder: Path) -> None:
        from free_ports import free_port  # the program, which is this file too, does not find it

        self.folder = folder
        self.port = free_port()
        self._http_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    def config(self, **more: object) -> dict[str, object]:
        """The settings of a node that uses this server."""
        return {"uri": self.uri, "user": USER, "password": PASSWORD, "database": DATABASE, **more}

    def start(self) -> None:
        command = [sys.executable, __file__, str(self.folder), str(self.port), str(self._http_port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != b"ready\n":
            log = (self.folder / "server.log").read_text(errors="replace")
            raise AssertionError(f"the server did not start: {line!r}\n{log[-4000:]}")

    def stop(self) -> None:
        """End it in an orderly way."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        self._forget()

    def kill(self) -> None:
        """End it as a crash of the machine does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)
        self._forget()

    def freeze(self) -> None:
        """Let it neither answer nor hang up, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # the signal was sent; now every thread stands still

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _forget(self) -> None:
        assert self._process is not None
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process = None


def main(folder: str, bolt_port: str, http_port: str) -> None:
    ready = os.dup(1)
    log = os.open(os.path.join(folder, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)  # the Java machine talks on both
    os.dup2(log, 2)
    from arcadedb_embedded.server import ArcadeDBServer

    server = ArcadeDBServer(
        root_path=folder,
        root_password=PASSWORD,
        config={
            "http_port": http_port,
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "bolt_port": int(bolt_port),
            "server_databaseDirectory": os.path.join(folder, "databases"),
        },
        jvm_kwargs={"heap_size": "512m", "jvm_args": " ".join(JVM_ARGS)},
    )
    server.start()
    if not os.path.exists(os.path.join(folder, "databases", DATABASE)):
        server.create_database(DATABASE)
    os.write(ready, b"ready\n")
    sys.stdin.buffer.read()
    server.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
