"""A server of WebSockets in a process of its own, and clients by hand."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from listening_server import PATIENCE, ListeningServer
from websockets.sync.client import ClientConnection, connect

HERE = Path(__file__).resolve().parent
PIPELINE = HERE.parent / "face.pipe"
NODES = [word for name in ("face_nodes.py", "face_fates.py", "face_lanes.py") for word in ("--nodes", str(HERE.parent / name))]
ADA, BOB, EVE = (f"key-of-{user}-0123456789" for user in ("ada", "bob", "eve"))
PROXIES = ("http_proxy", "https_proxy", "ws_proxy", "socks_proxy", "all_proxy")


def plain_environment(**more: str) -> dict[str, str]:
    """The environment without proxies, which clients would ask even for this machine, and without a key."""
    names = {name for proxy in PROXIES for name in (proxy, proxy.upper())} | {"ROCKETRIDE_APIKEY", "ROCKETRIDE_URI"}
    return {name: value for name, value in os.environ.items() if name not in names} | more


class WsServer(ListeningServer):
    """A spawned `rrext serve --ws`. `limits` are options of the shell's `ulimit`, `first` are lines that it runs before."""

    def __init__(
        self,
        *options: str,
        files: Sequence[Path] = (PIPELINE,),
        env: Mapping[str, str] = {},
        address: str = "127.0.0.1:0",
        limits: str | None = None,
        first: str = "",
    ) -> None:
        main = f"import sys\n{first}\nfrom rrext.cli.main import main\nsys.exit(main(sys.argv[1:]))"
        program = ["-c", main] if first else ["-m", "rrext"]
        command = [sys.executable, *program, "serve", *map(str, files), *NODES, "--ws", address, *options]
        if limits is not None:
            command = ["sh", "-c", f'ulimit {limits}; exec "$@"', "sh", *command]
        super().__init__(command, plain_environment(**env))
        found = re.search(r"listening at ((?:ws|wss)://.*:(\d+))", self.log)
        self.url, self.port = (found[1], int(found[2])) if found is not None else ("", 0)

    @contextmanager
    def client(self, key: str | None = None, **options: Any) -> Iterator[WsClient]:
        """A connected client. With a key it is authenticated.

        Over TLS it speaks 1.2: in 1.3 its two threads are in one session at once while the first answer comes with tickets, and
        one answer in some hundred never gets to it (Python 3.11).
        """
        if self.url.startswith("wss"):
            options.setdefault("ssl", ssl.create_default_context()).maximum_version = ssl.TLSVersion.TLSv1_2
        with connect(self.url, compression=None, proxy=None, max_size=None, **options) as end:
            client = WsClient(end)
            if key is not None:
                assert client.ask("auth", auth=key)["success"]
            yield client

    def connected(self) -> socket.socket:
        """A socket without a WebSocket yet."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of an answer over HTTP."""
        return self.exchange(method, path, body, headers)


class WsClient:
    """A bare client, which sends one request after the other."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._seq = 0

    def post(self, command: str, /, **arguments: Any) -> int:
        """Send a request; its number."""
        self._seq += 1
        message = {"type": "request", "seq": self._seq, "command": command, "arguments": arguments}
        self.socket.send(json.dumps(message))
        return self._seq

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; others before it are dropped."""
        while True:
            answer = json.loads(self.socket.recv(PATIENCE))
            if answer.get("request_seq") == number:
                return answer

    def ask(self, command: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer to a request."""
        return self.answer(self.post(command, **arguments))

    def body(self, command: str, /, **arguments: Any) -> dict[str, Any]:
        """The body of the answer to a request that succeeds."""
        answer = self.ask(command, **arguments)
        assert answer["success"], answer
        return answer["body"]

    def failure(self, command: str, /, **arguments: Any) -> tuple[str, str]:
        """The code and the message of a failure."""
        answer = self.ask(command, **arguments)
        assert not answer["success"], answer
        return answer["code"], answer["message"]

    def tool(self, tool: str, input: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The result of a tool."""
        return self.body("rrext_process", subcommand="tool", tool=tool, input=input or {}, **more)["result"]


def resident(server: WsServer) -> int:
    """Bytes of the server in memory."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A certificate of this machine for itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    names = ["-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*words, *names], check=True, capture_output=True)
    return cert, key


def keys_file(folder: Path) -> Path:
    """A file of keys."""
    path = folder / "keys.toml"
    path.write_text(f'"{ADA}" = "ada"\n"{BOB}" = "bob"\n"{EVE}" = "eve"\n')
    path.chmod(0o600)
    return path
