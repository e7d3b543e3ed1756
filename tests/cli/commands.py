"""`rrext` as a stranger runs it: in a process of its own, or in this one where only its words matter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from forked import completed, process

from rrext.cli.main import main
from rrext.nodes.vectors.edge import node as edge_node
from rrext.nodes.vectors.edge.folder import StoreFolder

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODES = str(HERE / "cli_nodes.py")
EXAMPLES = ROOT / "tests" / "examples"

__all__ = [
    "EXAMPLES",
    "NODES",
    "Done",
    "InProcess",
    "call",
    "command",
    "component",
    "environment",
    "here",
    "pipeline",
    "spawned",
    "until",
]


class Done:
    """What a command did."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out
        self.err = err.decode()

    @property
    def lines(self) -> list[Any]:
        """The values on stdout, one JSON text a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def value(self) -> Any:
        """The only value on stdout."""
        (value,) = self.lines
        return value

    @property
    def rows(self) -> Any:
        """stdout as one JSON text of several lines."""
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"<Done {self.code} out={self.out[:200]!r} err={self.err[:2000]!r}>"


def call(*args: str, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> Done:
    """Run a command in a process of its own to its end."""
    done = completed(command(*args), stdin, cwd=cwd, env=environment(**env))
    return Done(done.returncode, done.stdout, done.stderr)


def here(capfd: Any, *args: str) -> Done:
    """Run a command in this process to its end."""
    code = main(args)
    out, err = capfd.readouterr()
    return Done(code, out.encode(), err.encode())


class InProcess:
    """Commands in this process, which opens the embedded stores itself."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(edge_node, "ProcessStore", _store_in_process)

    def __call__(self, *args: object, cwd: Path | None = None) -> Done:
        with self._monkeypatch.context() as context:
            if cwd is not None:
                context.chdir(cwd)
            return here(self._capfd, *map(str, args))


def _store_in_process(place: Callable[[], tuple[str, str]], **settings: Any) -> Any:
    from rrext.nodes.vectors.edge.store import EdgeStore

    return EdgeStore(lambda: StoreFolder(*place(), owner=os.getpid()), **settings)


@contextmanager
def spawned(*args: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs; killed at the end of the block should it still."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    started = process(command(*args), env=environment(), start_new_session=True, **pipes)
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        for stream in (started.stdout, started.stderr):
            if stream is not None:
                stream.close()


def until(stream: IO[bytes], text: str) -> str:
    """The stream's lines up to the one that has the text."""
    read = []
    for line in stream:
        read.append(line.decode())
        if text in read[-1]:
            return "".join(read)
    raise AssertionError(f"no {text!r} in {read}")


def command(*args: str) -> list[str]:
    """The words that run `rrext` as it stands here."""
    return [sys.executable, "-m", "rrext", *args]


def environment(**more: str) -> dict[str, str]:
    """The variables to run it with."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **more}


def component(name: str, provider: str, *inputs: str, control: str = "", **config: Any) -> dict[str, Any]:
    """A component; each input is `lane:from`, `control` is the node that may call its tools."""
    edges = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in inputs]
    controls = [{"classType": "tool", "from": control}] if control else []
    return {"id": name, "provider": provider, "config": config, "input": edges, "control": controls}


def pipeline(folder: Path, *components: dict[str, Any], name: str = "p.pipe") -> str:
    """Write a pipeline that begins at its first component; its path."""
    project = "9d0c5a7e-3b51-4a86-8e0e-5e3c7d1b6a10"
    text = json.dumps({"components": components, "source": components[0]["id"], "project_id": project, "version": 1})
    path = folder / name
    path.write_text(text)
    return str(path)
