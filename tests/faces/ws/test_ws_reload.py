"""A port while its operator changes keys and certificates, or ends it: SIGHUP, changed files, health during the drain."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import ssl
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from page_feed import bearer, open_page
from websockets.exceptions import ConnectionClosed
from ws_server import ADA, BOB, EVE, NODES, PATIENCE, PIPELINE, WsClient, WsServer, certificate, keys_file, plain_environment

from rrext.errors import UsageError
from rrext.faces.http.kept_files import KeptFiles, Take, _KeptFile
from rrext.secrets.redaction import Redactor

pytestmark = pytest.mark.promise("ws:reload")

NEW = "key-of-newcomer-0123456789"


def keys(path: Path, users: Mapping[str, str], mode: int = 0o600) -> None:
    """Write a file of keys, and put it in the place of the one before."""
    new = path.with_suffix(".new")
    new.write_text("".join(f'"{key}" = "{user}"\n' for key, user in users.items()))
    new.chmod(mode)
    new.rename(path)


def closed_with(client: WsClient) -> int | None:
    """The code with which the server closes the connection, after all that came before."""
    try:
        while True:
            client.socket.recv(PATIENCE)
    except ConnectionClosed as closed:
        return closed.rcvd and closed.rcvd.code


def until_noted(client: WsClient, key: str, what: str) -> None:
    """Wait until a tool has noted something."""
    while what not in client.tool("journal", {"key": key}):
        pass


def status(server: WsServer, key: str, path: str = "/metrics") -> int:
    """The status of a request with a key."""
    return server.request("GET", path, headers=bearer(key))[0]


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_client_whose_key_is_gone_or_another_users_is_cut_off_and_its_calls_are_cancelled(
    tmp_path: Path, isolation: str
) -> None:
    path = keys_file(tmp_path)
    with WsServer("--keys", str(path), "--isolation", isolation) as server:
        with (
            server.client(ADA) as ada,
            server.client(BOB) as bob,
            server.client(EVE) as eve,
            server.client() as stranger,
            open_page(server, ADA) as page,
        ):
            waiting = ada.post("rrext_process", subcommand="tool", tool="wait", input={"key": "gone"})
            until_noted(bob, "gone began", "wait")
            keys(path, {BOB: "bob", EVE: "mallory", NEW: "new"})
            server.process.send_signal(signal.SIGHUP)
            assert ada.answer(waiting)["code"] == "cancelled"
            assert (closed_with(ada), closed_with(eve)) == (1008, 1008)
            while not page.is_ended:
                page.look()
            until_noted(bob, "gone", "unwound")
            assert (status(server, ADA), status(server, ADA, "/status/feed")) == (401, 401)
            assert (status(server, BOB), status(server, EVE), status(server, NEW)) == (200, 200, 200)
            assert stranger.body("auth", auth=NEW)["userId"] == "new"
            assert bob.body("rrext_ping") == {"pong": True}
        assert server.end() == 0
    assert sum("wrong keys: " not in line for line in server.log.splitlines()) == 2  # where it listens


def test_the_public_key_of_a_pipeline_opens_nothing_while_its_user_has_no_key(tmp_path: Path) -> None:
    path = keys_file(tmp_path)
    parts = [{"id": "w", "provider": "webhook", "config": {}}, {"id": "r", "provider": "response_text", "config": {}}]
    pipeline = {"components": [parts[0], parts[1] | {"input": [{"lane": "text", "from": "w"}]}], "source": "w"}
    with WsServer("--keys", str(path), "--isolation", "none") as server:
        with server.client(ADA) as ada:
            token = ada.body("execute", pipeline=pipeline, token="hook")["publicToken"]
        sent = bearer(token) | {"Content-Type": "text/plain"}
        assert server.request("POST", "/webhook", b"hi", sent)[0] == 200
        with server.connected() as upload:
            head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", "Content-Length": 9, **sent}.items())
            upload.sendall(f"POST /webhook HTTP/1.1\r\n{head}\r\nhalf".encode())
            assert server.request("POST", "/webhook", b"hi", sent)[0] == 200
            for users, status in (({BOB: "bob"}, 401), ({NEW: "ada"}, 200)):
                keys(path, users)
                server.process.send_signal(signal.SIGHUP)
                while server.request("POST", "/webhook", b"hi", sent)[0] != status:
                    pass
            assert upload.recv(1000).startswith(b"HTTP/1.1 401")


def test_a_changed_file_is_read_without_a_signal_also_behind_a_link(tmp_path: Path) -> None:
    for name, users in (("old", {ADA: "ada"}), ("next", {BOB: "bob"})):
        (tmp_path / name).mkdir()
        keys(tmp_path / name / "keys.toml", users)
    (tmp_path / "now").symlink_to("old")  # as Kubernetes shows its secrets
    with WsServer("--keys", str(tmp_path / "now" / "keys.toml"), "--isolation", "none") as server:
        with server.client(ADA) as ada:
            (tmp_path / "then").symlink_to("next")
            (tmp_path / "then").rename(tmp_path / "now")
            assert closed_with(ada) == 1008
        with server.client(BOB) as bob:
            keys(tmp_path / "next" / "keys.toml", {EVE: "eve"})
            assert closed_with(bob) == 1008


def test_files_that_cannot_be_used_leave_the_keys_before_in_force_and_are_one_line(tmp_path: Path) -> None:
    path = keys_file(tmp_path)
    with WsServer("--keys", str(path), "--isolation", "none") as server:
        with server.client(ADA) as ada:
            for number, (content, mode, complaint) in enumerate(
                [
                    (f'"{BOB}" = "b', 0o600, 'expected lines token = "user"'),
                    (f'"{BOB}" = "bob"', 0o640, "others may use the file (mode 0640); chmod 600"),
                    ("", 0o600, "it has no token"),
                    ("\xff", 0o600, "the file is not UTF-8"),
                    (None, 0, "No such file or directory"),
                ],
                1,
            ):
                path.unlink(missing_ok=True)
                if content is not None:
                    path.write_text(content, encoding="latin-1")
                    path.chmod(mode)
                server.process.send_signal(signal.SIGHUP)
                server.heard("what was read before stays in force", number)
                assert complaint in server.log.splitlines()[number + 1]
            assert ada.body("rrext_ping") == {"pong": True}
            assert (status(server, ADA), status(server, NEW)) == (200, 401)
            keys(path, {NEW: "new"})
            assert closed_with(ada) == 1008
        assert server.end() == 0
    assert sum("wrong keys: " not in line for line in server.log.splitlines()) == 7
    assert ADA not in server.log
    assert BOB not in server.log


class Written:
    """What was read of a file, look by look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = _KeptFile([str(path)], self._read)
        self.texts: list[str] = []
        self.trouble: Exception | None = None

    def _read(self) -> Take:
        text = self.path.read_text()
        if "broken" in text:
            raise UsageError(text)
        if self.trouble is not None:
            raise self.trouble
        return lambda: self.texts.append(text)

    def look(self, *, now: bool = False) -> bool:
        """Look once; whether something was put in force."""
        take = self.file.check(now=now)
        if take is not None:
            take()
        return take is not None


def test_a_file_is_read_when_it_rests_and_a_complaint_is_not_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    path.write_text("first")
    written = Written(path)
    assert written.look()  # it may have changed while the server started
    assert not written.look()
    for text in ("a", "ab", "abc"):  # somebody writes, in pieces
        path.write_text(text)
        assert not written.look()
    assert written.look()
    assert not written.look()
    path.write_text("broken")
    for _ in range(5):
        assert not written.look()
    path.touch()
    for _ in range(5):
        assert not written.look()
    assert written.texts == ["first", "abc"]
    assert len(caplog.records) == 1
    assert not written.look(now=True)  # asked for, so it is told again
    assert len(caplog.records) == 2
    path.write_text("whole")
    assert written.look(now=True)
    assert written.look()  # once more: it may have changed in the same tick of the file system
    assert not written.look()


def test_a_file_that_the_system_could_not_read_is_read_once_it_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = Written(tmp_path / "file")
    for trouble in (UsageError("Too many open files"), MemoryError()):
        written.path.write_text(str(trouble))
        written.trouble = trouble
        for _ in range(5):
            assert not written.look()
        written.trouble = None
        assert written.look()
        assert not written.look()
    left = "what was read before stays in force"
    assert caplog.messages == [f"Too many open files: {left}", f"{written.path}: MemoryError: {left}"]


def test_all_that_a_port_keeps_is_read_on_demand(tmp_path: Path) -> None:
    path = keys_file(tmp_path)
    files = KeptFiles()
    tokens = files.keep_tokens(str(path), "--keys", "key", Redactor())
    changes: list[frozenset[str]] = []
    tokens.on_change.append(lambda: changes.append(tokens.users))
    shown = tokens.find(EVE)
    assert shown is not None
    tokens.replace(dict(tokens.texts))
    assert changes == []
    tokens.replace({EVE: "other"})
    assert changes == [frozenset({"other"})]
    assert not tokens.holds(shown)


def served_certificate(server: WsServer) -> bytes:
    """The certificate that a new connection gets."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", server.port), timeout=PATIENCE))


def test_new_connections_get_the_new_certificate_and_old_ones_go_on(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    (tmp_path / "next").mkdir()
    new_cert, new_key = certificate(tmp_path / "next")
    before, after = (ssl.PEM_cert_to_DER_cert(each.read_text()) for each in (cert, new_cert))
    trusting = ssl.create_default_context(cafile=str(cert))
    with WsServer("--tls-cert", str(cert), "--tls-key", str(key), "--isolation", "none") as server:
        assert served_certificate(server) == before
        with trusting.wrap_socket(server.connected(), server_hostname="localhost") as old:
            old.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n")
            new_cert.rename(cert)
            server.process.send_signal(signal.SIGHUP)
            server.heard("stays in force")  # this certificate has another key
            assert served_certificate(server) == before
            new_key.rename(key)
            server.process.send_signal(signal.SIGHUP)
            while served_certificate(server) != after:
                pass
            old.sendall(b"\r\n")
            assert old.recv(1000).startswith(b"HTTP/1.1 200")
        assert server.end() == 0
    assert sum("wrong keys: " not in line for line in server.log.splitlines()) == 3
    key.chmod(0o640)
    for words in (("--tls-cert", str(cert), "--tls-key", str(key)), ("--tls-cert", str(key))):
        with WsServer(*words) as refused:
            assert refused.process.wait(PATIENCE) == 2
        assert f"{words[-2]} {key}: others may use the file (mode 0640)" in refused.log


def test_health_is_told_while_the_last_calls_run_and_nothing_new_begins() -> None:
    with WsServer("--drain", "30", "--isolation", "none") as server, server.client() as client:
        waiting = client.post("rrext_process", subcommand="tool", tool="wait", input={"key": "drain"})
        until_noted(client, "drain began", "wait")
        server.process.terminate()
        while server.request("GET", "/healthz")[0] != 503:
            pass
        body = json.loads(server.request("GET", "/healthz")[2])
        assert body["code"] == "shutting_down"
        assert [server.request(*each)[0] for each in (("GET", "/"), ("POST", "/webhook"), ("POST", "/mcp"))] == [503] * 3
        with pytest.raises(Exception, match="503"), server.client():
            pass
        client.post("cancel", requestId=waiting)
        assert client.answer(waiting)["code"] == "cancelled"
        assert server.process.wait(PATIENCE) == 0
        with pytest.raises(ConnectionRefusedError):
            server.connected()


def test_in_a_terminal_a_hang_up_ends_the_server() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rrext", "serve", str(PIPELINE), *NODES, "--ws", "127.0.0.1:0", "--isolation", "none"]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=plain_environment(),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    with process:
        os.close(theirs)
        assert process.stderr is not None
        assert b"listening at" in process.stderr.readline()
        os.close(ours)
        assert process.wait(PATIENCE) == 0
