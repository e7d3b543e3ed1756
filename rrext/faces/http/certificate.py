"""The certificate of a port, which may change while it listens: new connections get the new one, others go on."""

from __future__ import annotations

import os
import ssl
import stat

from rrext.errors import UsageError
from rrext.faces.http.kept_files import Take
from rrext.secrets.private_file import NotPrivate, open_private


class Certificate:
    """A certificate and its key, in files; `key` is None if one file has both. `context` is that of a listening socket.

    Raises `UsageError` for files that do not go together, and for a key that other users may read or change.
    """

    def __init__(self, cert: str, key: str | None) -> None:
        self.cert = cert
        self.key = key
        self.context = self._read()
        self._latest = self.context
        self.context.sni_callback = self._choose  # called in each handshake, also of a client that names no server

    def read_again(self) -> Take:
        """Read the files; the result puts them in force."""
        context = self._read()

        def take() -> None:
            self._latest = context

        return take

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._latest

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        option, path = ("--tls-cert", self.cert) if self.key is None else ("--tls-key", self.key)
        try:
            with open_private(path) as key:  # it is loaded by its descriptor: the name may mean another file by now
                if not stat.S_ISREG(os.stat(self.cert).st_mode):  # OpenSSL would wait for the writer of a FIFO
                    raise UsageError(f"--tls-cert {self.cert}: this is no regular file")
                held = f"/dev/fd/{key.fileno()}"
                context.load_cert_chain(held if self.key is None else self.cert, held, password=_no_password)
        except NotPrivate as error:
            raise UsageError(f"{option} {error}") from None
        except ssl.SSLError as error:
            raise UsageError(f"--tls-cert {self.cert}: {error.reason or error}") from None
        except OSError as error:
            raise UsageError(f"--tls-cert {self.cert}: {error.strerror}") from None
        return context


def _no_password() -> str:
    raise UsageError("--tls-key: the key is encrypted; give one that is not, in a file that is yours alone")
