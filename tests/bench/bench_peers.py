"""What rrext is compared with: how each is installed, started and spoken to. Nothing is installed twice."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_client import Dap, JsonRpc, Mcp

HERE = Path(__file__).resolve().parent
SERVERS = HERE / "servers"
INSTALL_SECONDS = 600

MCP_PYTHON = "mcp==2.3.0"
MCP_TYPESCRIPT = ("@modelcontextprotocol/sdk@1.32.2", "zod@4")
NODE_JSONRPC = ("vscode-jsonrpc@10",)


class Missing(Exception):
    """A peer that cannot be had on this machine, and why."""


@dataclass(frozen=True)
class Peer:
    """A server to measure."""

    title: str
    dialect: Dap | JsonRpc
    command: Callable[[Path], list[str]]
    """Install into the folder if need be, and return what starts the server. Raises `Missing`."""


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rrext-bench"


def rrext_command(given: str | None) -> list[str]:
    """The server on the benchmark's pipeline."""
    return [*installed(given), "serve", "--nodes", str(HERE / "bench_nodes.py"), str(HERE / "bench.pipe")]


def editor_command(given: str | None) -> list[str]:
    """The language server."""
    return [*installed(given), "lsp"]


def installed(given: str | None) -> list[str]:
    """rrext as users start it: the script beside this Python."""
    start = shlex.split(given) if given else [str(Path(sys.executable).with_name("rrext"))]
    if shutil.which(start[0]) is None:
        raise Missing(f"{start[0]} is not there: install rrext for this Python first (pip install .)")
    return start


def floor(cache: Path) -> list[str]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Missing("no C compiler (cc or gcc)")
    source, target = SERVERS / "floor.c", cache / "floor"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        cache.mkdir(parents=True, exist_ok=True)
        run(compiler, "-O2", "-o", str(target), str(source))
    return [str(target)]


def python_floor() -> list[str]:
    return [sys.executable, str(SERVERS / "floor_python.py")]


def mcp_python(cache: Path) -> list[str]:
    folder = cache / MCP_PYTHON.replace("==", "-")

    def install() -> None:
        venv.create(folder, with_pip=True)
        run(str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", MCP_PYTHON)

    once(folder, install)
    return [str(folder / "bin" / "python"), str(SERVERS / "mcp_python.py")]


def node_peer(script: str, *packages: str) -> Callable[[Path], list[str]]:
    """A Node.js server; its script is copied beside its packages, because that is where Node looks for them."""

    def command(cache: Path) -> list[str]:
        for tool in ("node", "npm"):
            if shutil.which(tool) is None:
                raise Missing(f"no {tool}")
        folder = cache / packages[0].replace("/", "-").replace("@", "_")
        npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        once(folder, lambda: run(*npm, *packages))
        shutil.copy(SERVERS / script, folder)
        return ["node", str(folder / script)]

    return command


def once(folder: Path, install: Callable[[], None]) -> None:
    """Install unless an earlier run finished doing so."""
    done = folder / "installed"
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {folder.name} …", file=sys.stderr, flush=True)
    install()
    done.touch()


def run(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{command[0]} took more than {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        raise Missing(f"{Path(command[0]).name} failed: {last[0][:200]}")


PEERS: dict[str, Peer] = {
    "floor": Peer("C floor", Dap(), floor),
    "mcp": Peer("MCP Python", Mcp(), mcp_python),
    "mcp-ts": Peer("MCP TypeScript", Mcp(), node_peer("mcp_typescript.mjs", *MCP_TYPESCRIPT)),
    "node": Peer("vscode-jsonrpc", JsonRpc(), node_peer("node_jsonrpc.cjs", *NODE_JSONRPC)),
}
