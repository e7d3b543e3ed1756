"""The actor of Ray that holds the resources of a host: the host is its child, and both end together.

Ray runs it on a node of the cluster. The host is a process of its own, so that its workers have nothing of Ray in them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Final

PASSED_ON: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
)
"""Variables of a node that programs need to find their files and their language."""

PREFIXES: Final = ("LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "OMP_")
"""Those by which Ray tells which processors and graphics processors are a host's. All else may be a secret, such as Ray's
token, which no tool gets."""

COMMAND: Final = (sys.executable, "-P", "-m", "rrext.cluster.host")


def host_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a host, of those of its node."""
    return {name: value for name, value in given.items() if name in PASSED_ON or name.startswith(PREFIXES)}


class HostActor:
    """Starts a host, and ends the process of Ray with it. At the end of this process the host reads the end of its stdin.

    The host is there as soon as the actor is, and ends without a server: an actor whose placer is gone holds nothing for long.
    """

    def __init__(self, order: bytes) -> None:
        """Start a host by a `HostStart` as JSON. Raises `RuntimeError` if it ends."""
        host = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=host_environment(os.environ),
            cwd="/",
            start_new_session=True,
        )
        assert host.stdin is not None
        assert host.stdout is not None
        try:
            host.stdin.write(order + b"\n")
            host.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and says nothing
        self._address = host.stdout.readline()
        if not self._address:
            raise RuntimeError(f"the host ended with exit code {host.wait()} before it listened")
        threading.Thread(target=self._end_with, args=[host], daemon=True).start()

    def address(self) -> bytes:
        """The `HostAddress` as JSON."""
        return self._address

    def _end_with(self, host: subprocess.Popen[bytes]) -> None:
        host.wait()
        os._exit(0)
