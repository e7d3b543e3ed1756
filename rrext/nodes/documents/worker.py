"""The process that reads documents, one after the other: `python -m rrext.nodes.documents.worker`.

Its first message is `ReaderSettings`. It bounds its memory, loads the parser for `LoadParser`, and gives up the network and
all files but modules before the first `ReadDocument`. It ends when the server closes its end, and by itself when a document
takes far longer than it may.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from typing import Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.walls import PACKAGE, STANDARD, bound_memory, can_lock_in, fall_silent, lock_in
from rrext.nodes.child.worker import answer_of, begin, receive
from rrext.nodes.documents.conversion import read, warm_up
from rrext.nodes.documents.detection import load_detectors
from rrext.nodes.documents.embedded_images import load_pdf_reader
from rrext.nodes.documents.records import (
    LoadParser,
    Message,
    ReadDocument,
    ReaderSettings,
    corrupt,
    too_large,
)

WORKER_GRACE: Final = 10.0
"""Seconds beyond a document's time; the server ends this process long before."""


def main() -> None:
    """Serve requests until the server is gone."""
    requests, answers, settings = begin(ReaderSettings)
    bound_memory(settings.memory)
    decoder = msgspec.msgpack.Decoder(Message)
    while (received := receive(requests)) is not None:
        call, message = received[0], decoder.decode(received[1])
        del received  # it holds the document once more
        if isinstance(message, LoadParser):
            nothing = os.open(os.devnull, os.O_WRONLY)
            _load()
            fall_silent(nothing)
            answers.send(call, answer_of(lambda: None, ""))
        elif isinstance(message, ReadDocument):
            answers.send(call, answer_of(lambda message=message: _read(message), "The document reader"))
    os._exit(0)


def _read(message: ReadDocument) -> msgspec.Raw:
    """Read a document; return the `ParsedDocument` as JSON. Raises `ToolError`."""
    request = message.request
    signal.setitimer(signal.ITIMER_REAL, request.timeout + WORKER_GRACE)  # SIGALRM has no handler: it ends the process
    try:
        return msgspec.Raw(msgspec.json.encode(read(message.data, request)))
    except ToolError:
        raise
    except MemoryError:
        raise too_large("Reading it takes more memory than is allowed (memory)") from None
    except RecursionError:
        raise too_large("What is in it stands too deep in each other") from None
    except BaseException:  # a panic of the parser is no Exception
        raise corrupt("It cannot be read: the parser gave it up") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _load() -> None:
    """Load the parser, and where the kernel can, give up the network and all files but modules before any document comes.

    The parser writes a library into TMPDIR when it first reads a PDF: a folder of this process alone, since in the shared one
    any user could have replaced it. It also starts threads then, which would stay outside of walls that are raised later: so a
    fork writes the library, the walls stand before this process reads it, and the fork removes the folder after that.
    """
    folder = os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="rrext-reader-")
    import kreuzberg

    if not can_lock_in():
        warm_up()
        shutil.rmtree(folder, ignore_errors=True)
        lock_in()
        return
    link, writers = socket.socketpair()
    if os.fork() == 0:
        link.close()
        _write_library(writers, folder)
    writers.close()
    link.recv(1)
    theirs = [os.path.dirname(kreuzberg.__file__), *load_detectors(), *load_pdf_reader()]
    lock_in(*STANDARD, PACKAGE, *theirs, folder)
    warm_up()
    link.close()
    os.wait()


def _write_library(link: socket.socket, folder: str) -> None:
    """Let the parser write its library; remove it when the other end of `link` has loaded it, or is gone. Ends the process."""
    with contextlib.suppress(BaseException):
        warm_up()
        link.send(b"w")
        link.recv(1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
