"""Who may use a WebSocket: keys, strangers, hosts and origins, and how a server starts with them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from ws_server import ADA, BOB, PATIENCE, PIPELINE, WsServer, plain_environment

from rrext import NotAuthenticated
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws import app
from rrext.faces.ws.authentication import AuthArguments, Authentication

pytestmark = pytest.mark.promise("ws:access")

LONG = "x" * 70_000


def test_a_key_makes_its_user_of_a_client(server: WsServer) -> None:
    with server.client() as socket:
        body = socket.body("auth", auth=ADA, clientName="a test", clientVersion="1")
        assert (body["userId"], body["displayName"], body["capabilities"]) == ("ada", "ada", ["oss"])
        assert "userToken" not in body
        assert socket.body("rrext_ping") == {"pong": True}
        assert socket.tool("who")["user"] == "ada"


def test_a_stranger_may_only_probe(server: WsServer) -> None:
    with server.client() as socket:
        for command, arguments in [
            ("rrext_ping", {}),
            ("initialize", {}),
            ("rrext_get_tasks", {}),
            ("execute", {"pipeline": {}}),
            ("rrext_process", {"subcommand": "tool", "tool": "who"}),
            ("nonsense", {}),
            ("shutdown", {}),
        ]:
            assert socket.failure(command, **arguments) == ("not_authenticated", "Not authenticated")
        probe = socket.body("rrext_public_probe")
        assert probe["capabilities"] == ["oss"]
        assert probe["endpoints"] == {"api": "origin", "ui": "origin"}
        assert socket.body("auth", auth="")["userId"] == ""
        assert socket.failure("rrext_ping")[0] == "not_authenticated"
        assert socket.body("deauth") == {}


def test_a_client_signs_off_and_in_again_and_what_it_did_is_gone(server: WsServer) -> None:
    with server.client(ADA) as socket:
        pipe = socket.body("rrext_process", subcommand="open")["pipe_id"]
        waiting = socket.post("rrext_process", subcommand="tool", tool="wait", input={"key": "signed-off"})
        assert socket.body("deauth") == {}
        assert socket.failure("rrext_ping")[0] == "not_authenticated"
        assert socket.body("auth", auth=BOB)["userId"] == "bob"
        assert socket.failure("rrext_process", subcommand="close", pipe_id=pipe)[0] == "pipe_not_open"
        assert socket.tool("who")["user"] == "bob"
        del waiting


def test_connections_are_no_lines_in_a_log_of_warnings() -> None:
    with WsServer() as server:
        with server.client() as socket:
            socket.body("rrext_ping")
        assert server.end() == 0
    page = f"http://127.0.0.1:{server.port}/"
    assert server.log.splitlines() == [f"rrext: listening at {server.url}", f"rrext: status page: {page}"]


def test_a_server_says_where_its_status_page_is(server: WsServer) -> None:
    server.heard("status page: ")
    (page,) = re.findall(r"^rrext: status page: http://127\.0\.0\.1:(\d+)/$", server.log, re.MULTILINE)
    assert int(page) == server.port
    status, headers, body = server.exchange("GET", "/", None, {"Host": f"127.0.0.1:{page}"})
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>" in body


def test_a_server_without_its_packages_names_the_extra_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n\n\nclass Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('starlette', 'uvicorn'):\n"
        "            raise ModuleNotFoundError(name)\n\n\nsys.meta_path.insert(0, Without())\n"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = [sys.executable, "-m", "rrext", "serve", "--ws", "127.0.0.1:0"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=variables, check=False)
    line = 'rrext: --ws: uvicorn and starlette cannot be imported; install with: pip install "rrext[web]"\n'
    assert (done.returncode, done.stderr) == (2, line)


def test_wrong_keys_are_refused_and_the_sixth_ends_the_connection(server: WsServer) -> None:
    with server.client() as socket:
        for _ in range(5):
            assert socket.failure("auth", auth="a wrong key") == ("not_authenticated", "Invalid API key")
        assert socket.failure("auth", auth="a wrong key")[1] == "Too many authentication attempts"
        with pytest.raises(ConnectionClosed):
            socket.socket.recv(PATIENCE)
    assert "a wrong key" not in server.log


def test_a_right_key_after_too_many_wrong_ones_is_not_looked_at(server: WsServer) -> None:
    with server.client() as socket:
        answers: list[bool] = []
        with contextlib.suppress(ConnectionClosed):  # perhaps before all are sent
            numbers = [socket.post("auth", auth="a wrong key") for _ in range(8)] + [socket.post("auth", auth=ADA)]
            for number in numbers:
                answers.append(socket.answer(number)["success"])
        assert not any(answers)
    shown = Authentication(UserTokens({ADA: "ada"}))
    shown.attempts = 6
    with pytest.raises(NotAuthenticated, match="Too many"):
        shown.show(AuthArguments(auth=ADA))


def test_a_key_is_compared_in_whole_and_never_kept() -> None:
    shown = Authentication(UserTokens({ADA: "ada"}))
    assert shown.show(AuthArguments(auth=ADA)) == "ada"
    assert shown.show(AuthArguments()) is None
    for wrong in (ADA[:-1], ADA + " ", ADA.upper(), "\ud800"):
        with pytest.raises(Exception, match="Invalid API key|Too many"):
            shown.show(AuthArguments(auth=wrong))
    assert ADA not in repr(vars(shown))


def test_a_strangers_messages_are_small_and_a_users_are_not(server: WsServer) -> None:
    with server.client() as stranger:
        stranger.post("auth", auth=LONG)
        with pytest.raises(ConnectionClosed) as closed:
            stranger.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with server.client(ADA) as socket:
        assert socket.body("rrext_ping", _meta=LONG) == {"pong": True}
        socket.body("deauth")
        socket.post("rrext_ping", _meta=LONG)
        with pytest.raises(ConnectionClosed):
            socket.socket.recv(PATIENCE)


def test_a_stranger_is_cut_off_after_a_while_and_the_key_is_shown_to_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert app.AUTH_TIMEOUT <= 60
    program = (
        "import sys\nfrom rrext.faces.ws import app\napp.AUTH_TIMEOUT = 0.2\n"
        "from rrext.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "serve", "--ws", "127.0.0.1:0", str(PIPELINE), "--partial"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=plain_environment(ROCKETRIDE_APIKEY=ADA)
    ) as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            if b"listening at" in line:
                url = line.split()[-1].decode()
                break
        shown = Path(f"/proc/{process.pid}/environ").read_bytes()  # to all of its user
        assert b"ROCKETRIDE_APIKEY=" in shown
        assert ADA.encode() not in shown
        with connect(url, proxy=None) as socket, pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        process.kill()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example:5565"}, 421),
    ],
)
def test_a_page_of_a_foreign_site_gets_no_websocket(open_server: WsServer, header: dict[str, str], status: int) -> None:
    lines = {"Host": f"127.0.0.1:{open_server.port}"} | header
    assert handshake(open_server, lines) == status


def test_pages_of_this_machine_and_of_allowed_origins_get_one() -> None:
    with WsServer("--allow-origin", "https://app.example") as server:
        for origin in ("https://app.example", f"http://localhost:{server.port}"):
            assert handshake(server, {"Host": "localhost", "Origin": origin}) == 101


def handshake(server: WsServer, headers: dict[str, str]) -> int:
    """The status of the answer to a handshake with these headers."""
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    return server.request("GET", "/", headers={**upgrade, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **headers})[0]


def refusal(*options: str, **env: str) -> str:
    """What a server says that does not start."""
    command = [sys.executable, "-m", "rrext", "serve", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=plain_environment(**env), timeout=PATIENCE
    )
    assert done.returncode == 2, done
    return done.stderr


@pytest.fixture
def open_file(tmp_path: Path) -> Path:
    """A file of keys that others may read."""
    path = tmp_path / "keys.toml"
    path.write_text(f'"{ADA}" = "ada"\n')
    path.chmod(0o644)
    return path


def test_a_server_that_anybody_could_use_does_not_start(open_file: Path) -> None:
    assert "clients need keys there" in refusal("--ws", "0.0.0.0:0")
    assert "other machines could guess it" in refusal("--ws", "0.0.0.0:0", ROCKETRIDE_APIKEY="short")
    said = refusal("--ws", "127.0.0.1:0", "--keys", str(open_file))
    assert "--keys" in said
    assert "chmod 600" in said
    assert ADA not in said


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    assert "--keys needs --ws" in refusal("--keys", "keys.toml")
    assert "--trust-clients needs --ws" in refusal("--trust-clients")
    assert "exclude each other" in refusal("--ws", "127.0.0.1:0", "--listen", f"unix:{tmp_path}/s")
    assert "is no address" in refusal("--ws", "pipeline.pipe")
    assert "--tls-key needs --tls-cert" in refusal("--ws", "127.0.0.1:0", "--tls-key", "k.pem")
    assert "--tls-cert" in refusal("--ws", "127.0.0.1:0", "--tls-cert", str(tmp_path / "absent.pem"))


def test_a_port_in_use_is_told_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refusal("--ws", f"127.0.0.1:{taken.getsockname()[1]}")
    assert "Address already in use (end what listens there, or choose another port; 0 is any free one)" in said


def test_the_key_of_the_environment_is_the_one_key_and_no_child_has_it() -> None:
    with WsServer(env={"ROCKETRIDE_APIKEY": "short"}) as server, server.client() as socket:
        assert socket.failure("auth", auth="wrong")[1] == "Invalid API key"
        assert socket.body("auth", auth="short")["userId"] == "local"
        execute = {"pipeline": json.loads(PIPELINE.read_text()) | {"name": "${ROCKETRIDE_APIKEY}"}, "token": "leak"}
        answer = socket.ask("execute", **execute)
        assert "short" not in json.dumps(answer)
        assert "short" not in json.dumps(socket.ask("rrext_get_tasks"))


def test_a_missing_package_names_the_line_that_installs_it() -> None:
    program = (
        "import sys\nsys.modules['websockets'] = None\nfrom rrext.cli.main import main\n"
        "sys.exit(main(['serve', '--ws', '127.0.0.1:0']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert 'pip install "rrext[web]"' in done.stderr


def test_the_defaults_are_rocketrides_port_on_this_machine() -> None:
    done = subprocess.run([sys.executable, "-m", "rrext", "help", "serve"], capture_output=True, text=True, check=True)
    assert "127.0.0.1:5565" in done.stdout
