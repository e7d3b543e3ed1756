"""The process that reads documents, one after the other: `python -m rrext.nodes.documents.worker FD MEMORY`.

FD is a socket to the server, MEMORY the bytes of address space that this process may have. It says `READY` in a block.
Each request is two blocks, a `DocumentRequest` as JSON and the document's bytes; each answer is one, a `DocumentAnswer` as
JSON. It ends when the server closes its end, and by itself when a document takes far longer than it may.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import sysconfig
import tempfile
from pathlib import Path

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.blocks import block, receive
from rrext.nodes.documents.conversion import read
from rrext.nodes.documents.extraction import warm_up
from rrext.nodes.documents.limits import OPEN_FILES, WORKER_GRACE
from rrext.nodes.documents.records import READY, DocumentAnswer, DocumentRequest

_STANDARD = sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"]


def main() -> None:
    """Serve requests until the server is gone."""
    link = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches the whole group: the server decides
    _bound(resource.RLIMIT_AS, int(sys.argv[2]))
    _bound(resource.RLIMIT_CORE, 0)  # a core dump would hold texts of documents
    _bound(resource.RLIMIT_NOFILE, OPEN_FILES)
    _load()
    _bound(resource.RLIMIT_FSIZE, 0)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        link.sendall(block(READY))
        while True:
            request = msgspec.json.decode(receive(link), type=DocumentRequest)
            link.sendall(block(_answer(receive(link), request)))


def _answer(data: bytes, request: DocumentRequest) -> bytes:
    """Read a document and return the answer as JSON."""
    signal.setitimer(signal.ITIMER_REAL, request.timeout + WORKER_GRACE)  # SIGALRM has no handler: it ends the process
    try:
        return msgspec.json.encode(DocumentAnswer(parsed=read(data, request)))
    except ToolError as error:
        failure = DocumentAnswer(code=error.code, message=error.message, hint=error.hint)
    except MemoryError:
        failure = DocumentAnswer(code="document_too_large", message="Reading it takes more memory than is allowed (memory)")
    except RecursionError:
        failure = DocumentAnswer(code="document_too_large", message="What is in it stands too deep in each other")
    except BaseException:  # a panic of the parser is no Exception
        failure = DocumentAnswer(code="document_corrupt", message="It cannot be read: the parser gave it up")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return msgspec.json.encode(failure)


def _bound(what: int, most: int) -> None:
    with contextlib.suppress(OSError, ValueError):  # a lower limit holds already, or the system has none
        resource.setrlimit(what, (most, most))


def _load() -> None:
    """Load the parser, and where the kernel can, give up the network and all files but modules before any document comes.

    The parser writes a library into TMPDIR, a folder of this process alone, when it first reads a PDF. It also starts
    threads then, which would stay outside of walls that are raised later: so a fork writes the library, and the walls
    stand before this process reads it.
    """
    import kreuzberg

    if not _can_lock_in():
        warm_up()
        return
    writer = os.fork()
    if writer == 0:
        with contextlib.suppress(BaseException):
            warm_up()
        os._exit(0)
    os.waitpid(writer, 0)
    from rrext.nodes.child.landlock import confine

    # Not all of sys.path: it may hold the folder that the server was started in, with all its files.
    ours, theirs = Path(__file__).parents[2], os.path.dirname(kreuzberg.__file__)
    confine(read=[*_STANDARD, str(ours), theirs, tempfile.gettempdir()])
    warm_up()


def _can_lock_in() -> bool:
    if not sys.platform.startswith("linux") or len(os.listdir("/proc/self/task")) > 1:
        return False
    from rrext.nodes.child.landlock import NEEDED_ABI, abi

    return abi() >= NEEDED_ABI


if __name__ == "__main__":
    main()
