"""A server in a process of its own, which tells on stderr that it listens."""

from __future__ import annotations

import http.client
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self

from forked import process

PATIENCE = 30.0


class ListeningServer:
    """A spawned server that listens at a port of this machine, or has ended. `log` has the lines of its stderr."""

    port: int

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        # A forked process has imported what lines of the command or a sitecustomize would change.
        has_lines = "-c" in command or (env or os.environ).get("PYTHONPATH") != os.environ.get("PYTHONPATH")
        start = subprocess.Popen if has_lines else process
        self.process = start(  # in a session without a terminal, as a service manager starts it
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
        self.log = ""
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(PATIENCE):
            self.stop()
            raise TimeoutError(f"the server does not listen: {self.log}")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line.decode()
            if "listening at" in self.log:
                self._listening.set()
        self._listening.set()

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of an answer over HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def heard(self, text: str, times: int = 1) -> None:
        """Wait until a text stands in the log so many times."""
        until = time.monotonic() + PATIENCE
        while self.log.count(text) < times:
            assert time.monotonic() < until, self.log
            time.sleep(0.01)

    def end(self) -> int:
        """End the server, whose log is complete then; its exit code."""
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self) -> None:
        """End the server, whatever its state."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
