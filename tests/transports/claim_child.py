"""A process that claims its stdio and then does what its argument names; frames here are lines that begin with `frame`."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # rrext as it stands here, also when it is not installed

from rrext.transports.claimed_stdio import ClaimedStdio, claim_stdio  # noqa: E402

CHILD = [sys.executable, "-c", "import sys; print('child read', repr(sys.stdin.read())); sys.exit(7)"]


def prints(stdio: ClaimedStdio) -> None:
    """Print by every way there is."""
    print("by print")
    print("by print to stderr", file=sys.stderr)
    sys.__stdout__.write("by the first stdout\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]
    os.write(1, b"by descriptor\n")
    os.system("echo by a shell")
    subprocess.run(["echo", "by a child"], check=True)
    libc = ctypes.CDLL(None)
    libc.puts(b"by C")
    libc.fflush(None)


def reads(stdio: ClaimedStdio) -> None:
    """Read by every way there is, then read the wire."""
    print("input:", repr(sys.stdin.read()), os.read(0, 10))
    done = subprocess.run(CHILD, check=False)
    os.write(stdio.write_fd, b"frame %d " % done.returncode + os.read(stdio.read_fd, 100))


def floods(stdio: ClaimedStdio) -> None:
    """Print and log far more than a pipe holds, answer, and end when told to."""
    from rrext.server.journal.logs import set_up_logging

    writer = set_up_logging("info")
    for number in range(20_000):
        print(f"print {number} " + "x" * 80)
        logging.getLogger("flood").info("log %d %s", number, "y" * 80)
    os.write(stdio.write_fd, b"frame\n")
    os.read(stdio.read_fd, 1)
    flushed = stdio.stderr.flush(30) and writer.flush(30)
    os.write(stdio.write_fd, b"flushed\n" if flushed else b"not flushed\n")


def flags(stdio: ClaimedStdio) -> None:
    """Say what the private descriptors are, and stay until told to end."""
    facts = {
        "read blocks": os.get_blocking(stdio.read_fd),
        "write blocks": os.get_blocking(stdio.write_fd),
        "inherited": os.get_inheritable(stdio.read_fd) or os.get_inheritable(stdio.write_fd),
        "private": min(stdio.read_fd, stdio.write_fd) > 2,
    }
    os.write(stdio.write_fd, f"{facts}\n".encode())
    os.read(stdio.read_fd, 1)


def restores(stdio: ClaimedStdio) -> None:
    """Give everything back, and use it."""
    print("while claimed")
    stdio.restore()
    print("restored", sys.stdin.readline(), end="", flush=True)
    print("stderr too", file=sys.stderr, flush=True)


def echoes(stdio: ClaimedStdio) -> None:
    """Answer what was asked, on whatever stdio is."""
    os.write(stdio.write_fd, b"frame " + os.read(stdio.read_fd, 100))


if __name__ == "__main__":
    print("before the claim")
    try:
        claimed = claim_stdio()
    except OSError as error:
        os.write(2, f"no claim: {error.strerror}\n".encode())
        os._exit(9)
    globals()[sys.argv[1]](claimed)
    os._exit(0)
