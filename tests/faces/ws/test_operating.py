"""The page for operators says nothing that does not work: its blocks are run, as far as a machine can."""

from __future__ import annotations

import configparser
import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from free_ports import free_port
from listening_server import ListeningServer
from page_feed import bearer
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from ws_server import PATIENCE, WsClient, certificate, plain_environment

pytestmark = pytest.mark.promise("ws:operating")

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "rrext" / "faces" / "ws" / "OPERATING.md").read_text(encoding="utf-8")
WELCOME = (ROOT / "tests" / "examples" / "library" / "welcome.txt").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
PUBLIC = "tools.example.org"


def blocks(language: str) -> list[str]:
    """The blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str, first: str = "") -> str:
    """The only block of a language that begins so."""
    (found,) = (text for text in blocks(language) if text.startswith(first))
    return found


def instructions() -> dict[str, list[str]]:
    """The instructions of the Dockerfile: name → their arguments."""
    found: dict[str, list[str]] = {}
    for line in block("dockerfile").splitlines()[1:]:
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


def exec_start() -> list[str]:
    """The words of the unit's command."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini").replace("\\\n", " "))
    return shlex.split(unit["Service"]["ExecStart"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the page's files are: what its first block makes, with its own lines, below another root."""
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name in ("useradd", "chown"):
        (stubs / name).write_text("#!/bin/sh\n")
        (stubs / name).chmod(0o755)
    (tmp_path / "var" / "lib").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    kept = [line for line in block("sh").splitlines() if not line.startswith(("python3 -m venv", "/opt/rrext/bin/pip"))]
    script = here("\n".join(kept), tmp_path).replace("-o rrext -g rrext ", "")
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, env={**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"}, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return tmp_path


def here(text: str, folder: Path) -> str:
    """A text of the page with its paths below a folder."""
    return re.sub(r"(?<![\w:])/(etc|var/lib)/rrext", rf"{folder}/\1/rrext", text)


class Operated(ListeningServer):
    """A server that a command of the page starts, at a free port."""

    def __init__(self, words: list[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        words = [re.sub(r"(127\.0\.0\.1|0\.0\.0\.0):5565", r"\1:0", here(word, folder)) for word in words]
        super().__init__(words, env or plain_environment())
        found = re.search(r"listening at ws://.*:(\d+)", self.log)
        assert found is not None, self.log
        self.port = int(found[1])


def key(folder: Path, name: str = "keys.toml") -> str:
    """The key that a file has."""
    return shlex.split((folder / "etc" / "rrext" / name).read_text())[0]


def use(url: str, folder: Path, **options: Any) -> None:
    """Call a tool over a WebSocket, as a user."""
    with connect(url, compression=None, proxy=None, **options) as end:
        client = WsClient(end)
        assert client.body("auth", auth=key(folder))["userId"] == "ada"
        assert client.tool("read_file", {"path": "welcome.txt"})["content"] == WELCOME


def test_the_command_of_the_unit_serves_reloads_and_ends(folder: Path) -> None:
    words = exec_start()
    assert words[0] == "/opt/rrext/bin/rrext"
    with Operated([str(BIN / "rrext"), *words[1:]], folder) as server:
        use(f"ws://127.0.0.1:{server.port}", folder)
        status, _, body = server.exchange("GET", "/metrics", None, bearer(key(folder, "metrics.key")))
        assert status == 200
        assert b'user="ada",pipeline="files"' in body
        (folder / "etc" / "rrext" / "keys.toml").write_text('"another-key-of-ada-012" = "ada"\n')
        reload = here(block("ini").partition("ExecReload=")[2].splitlines()[0], folder)
        subprocess.run(reload.replace("$MAINPID", str(server.process.pid)).split(), check=True)
        while server.exchange("GET", "/metrics", None, bearer(key(folder)))[0] != 200:
            pass
        assert server.end() == 0


def test_the_unit_runs_as_a_user_of_its_own_and_waits_longer_than_the_server() -> None:
    unit = block("ini")
    assert "\nUser=rrext\n" in unit
    words = exec_start()
    assert float(words[words.index("--drain") + 1]) < float(re.findall(r"TimeoutStopSec=(\d+)", unit)[0])


def test_the_container_starts_what_serves_as_no_root(folder: Path) -> None:
    found = instructions()
    assert found["FROM"] == [f"python:{re.findall('python:([0-9.]+)', block('dockerfile'))[0]}-slim"]
    assert found["USER"] == ["10001:10001"]
    assert "--uid 10001 " in found["RUN"][0]
    entry, command, health = (json.loads(found[name][0].removeprefix("CMD ")) for name in ("ENTRYPOINT", "CMD", "HEALTHCHECK"))
    assert entry[0] == "rrext"
    service = yaml.safe_load(block("yaml", "# compose"))["services"]["rrext"]
    source, target = found["COPY"][1].split()[1:]
    shutil.copytree(ROOT / source, here(target, folder))
    for more in (command, service["command"]):
        with Operated([str(BIN / "rrext"), *entry[1:], *more], folder) as server:
            checked = [sys.executable, *(word.replace("5565", str(server.port)) for word in health[1:])]
            assert subprocess.run(checked, env=plain_environment(), timeout=PATIENCE, check=False).returncode == 0
            use(f"ws://127.0.0.1:{server.port}", folder)
            assert server.end() == 0
            assert subprocess.run(checked, env=plain_environment(), capture_output=True, check=False).returncode == 1


def test_the_compose_file_has_the_ports_users_and_folders_of_the_container() -> None:
    compose = yaml.safe_load(block("yaml", "# compose"))
    service, found = compose["services"]["rrext"], instructions()
    assert service["ports"] == [f"127.0.0.1:5565:{found['EXPOSE'][0]}"]
    mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert set(mounted) - set(compose["volumes"]) == {"./config"}
    assert found["WORKDIR"] == [mounted["data"]]
    (network,) = compose["networks"]["default"]["ipam"]["config"]
    assert f"--behind-proxy={network['gateway']}" in service["command"]
    patience = {word.partition("=")[0]: word.partition("=")[2] for word in service["command"]}["--drain"]
    assert float(patience) < float(service["stop_grace_period"].removesuffix("s"))


def test_what_prometheus_reads_is_the_metrics() -> None:
    (job,) = yaml.safe_load(block("yaml", "# prometheus"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": [PUBLIC]}]
    assert job["authorization"] == {"credentials_file": "/etc/prometheus/rrext.key"}


# what pip cannot install


class Proxy:
    """A proxy at a free port of this machine, whose configuration is that of the page. `address` is that of the client."""

    address = "127.0.0.9"

    def __init__(self, command: list[str], port: int, cert: Path) -> None:
        self.port = port
        self._tls = ssl.create_default_context(cafile=str(cert))
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def socket(self) -> socket.socket:
        """A connection, once it listens."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), PATIENCE, (self.address, 0))
            except ConnectionRefusedError:
                assert self.process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)

    def options(self, **more: Any) -> dict[str, Any]:
        """The options of a WebSocket to it."""
        return {"sock": self.socket(), "ssl": self._tls, **more}

    def get(self, path: str, headers: Mapping[str, str] = {}) -> tuple[int, bytes]:
        """The status of an answer, and its first line: the body may go on."""
        end = http.client.HTTPSConnection(PUBLIC, context=self._tls)
        end.sock = self._tls.wrap_socket(self.socket(), server_hostname=PUBLIC)
        with closing(end):
            end.request("GET", path, headers=dict(headers))
            with end.getresponse() as answer:
                return answer.status, answer.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


def nginx(folder: Path, upstream: int) -> Proxy:
    """nginx, with its block."""
    cert, private = certificate(folder, PUBLIC)
    port = free_port()
    text = block("nginx").replace("listen 443", f"listen 127.0.0.1:{port}").replace(":5565", f":{upstream}")
    text = text.replace("/etc/ssl/tools.pem", str(cert)).replace("/etc/ssl/tools.key", str(private))
    paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    conf = folder / "nginx.conf"
    conf.write_text(
        f"{user} daemon off; pid {folder}/nginx.pid; error_log stderr; events {{}} http {{ access_log off; {paths} {text} }}"
    )
    words = [shutil.which("nginx") or "/usr/sbin/nginx", "-e", "stderr", "-c", str(conf)]
    subprocess.run([*words, "-t"], check=True, capture_output=True)
    return Proxy(words, port, cert)


def caddy(folder: Path, upstream: int) -> Proxy:
    """Caddy, with its block and a certificate of this machine."""
    cert, private = certificate(folder, PUBLIC)
    port = free_port()
    text = block("caddyfile").replace(f"{PUBLIC} {{", f"{PUBLIC}:{port} {{\n    bind 127.0.0.1\n    tls {cert} {private}")
    conf = folder / "Caddyfile"
    conf.write_text("{\n    admin off\n    auto_https disable_redirects\n}\n" + text.replace(":5565", f":{upstream}"))
    program = shutil.which("caddy") or "caddy"
    subprocess.run([program, "validate", "--config", conf, "--adapter", "caddyfile"], check=True, capture_output=True)
    return Proxy([program, "run", "--config", str(conf), "--adapter", "caddyfile"], port, cert)


@pytest.mark.system
@pytest.mark.parametrize("proxy_of", [nginx, caddy])
def test_a_proxy_passes_sockets_requests_and_streams_on(folder: Path, proxy_of: Callable[[Path, int], Proxy]) -> None:
    words = exec_start()
    with Operated([str(BIN / "rrext"), *words[1:]], folder) as server, proxy_of(folder, server.port) as proxy:
        use(f"wss://{PUBLIC}", folder, **proxy.options(origin=f"https://{PUBLIC}"))
        with pytest.raises(InvalidStatus, match="403"):
            use(f"wss://{PUBLIC}", folder, **proxy.options(origin="https://evil.example"))
        assert proxy.get("/healthz") == (200, b"ok")
        assert b"rrext_info" in proxy.get("/metrics", bearer(key(folder)))[1]
        status, line = proxy.get("/status/feed", {**bearer(key(folder)), "Origin": f"https://{PUBLIC}"})
        assert (status, line[:6]) == (200, b"data: ")  # as it comes, and not at the end of the stream
        assert server.end() == 0
        assert proxy.get("/healthz")[0] == 502
    assert f"address={Proxy.address}" in server.log


@pytest.mark.system
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "rrext.service"
    unit.write_text(block("ini").replace("/opt/rrext/bin/", f"{BIN}/"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "rrext.service" in line]) == (0, []), done.stderr


@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_image_gets_a_command_that_serves(folder: Path) -> None:
    found = instructions()
    source = folder / "src"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "protocol.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "rrext", source / "rrext", ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(folder / "usr", with_pip=True)
    install = found["RUN"][1].replace('"/src', f'"{source}')
    programs = folder / "usr" / "bin"
    env = {**plain_environment(), "PATH": f"{programs}:/usr/bin:/bin"}
    subprocess.run(["sh", "-euc", install], check=True, capture_output=True, cwd=folder, env=env)
    copied, target = found["COPY"][1].split()[1:]
    shutil.copytree(ROOT / copied, here(target, folder))
    entry, command = json.loads(found["ENTRYPOINT"][0]), json.loads(found["CMD"][0])
    with Operated([str(programs / entry[0]), *entry[1:], *command], folder, env) as server:
        use(f"ws://127.0.0.1:{server.port}", folder)
        assert server.end() == 0
