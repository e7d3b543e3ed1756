"""The options of a cluster: what is refused before anything starts."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from rrext.cluster.host_actor import host_environment
from rrext.cluster.placer import OpenCluster, Placer, _require_loopback
from rrext.cluster.ray_placement import head_of
from rrext.errors import UsageError

TOKEN = {"RAY_AUTH_MODE": "token"}


@pytest.mark.parametrize(
    ("given", "variables", "head"),
    [
        ("127.0.0.1:6379", {}, "127.0.0.1:6379"),
        ("localhost:6379", {}, "localhost:6379"),
        ("[::1]:6379", {}, "[::1]:6379"),
        ("auto", {"RAY_ADDRESS": "127.0.0.1:7000"}, "127.0.0.1:7000"),
        ("head.example:6379", TOKEN, "head.example:6379"),
    ],
)
def test_a_head_is_an_address(given: str, variables: dict[str, str], head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.cluster.ray_placement.find_spec", lambda name: True)
    assert head_of(given, variables) == head


@pytest.mark.promise("cluster:token")
@pytest.mark.parametrize(
    ("given", "variables", "told"),
    [
        ("auto", {}, "RAY_ADDRESS is not set"),
        ("head", TOKEN, "expected HOST:PORT"),
        ("ray://127.0.0.1:6379", TOKEN, "expected HOST:PORT"),
        ("127.0.0.1:", TOKEN, "expected HOST:PORT"),
        ("10.0.0.1:6379", {}, "asks for no token"),
        ("head.example:6379", {"RAY_AUTH_MODE": "disabled"}, "asks for no token"),
        ("auto", {"RAY_ADDRESS": "10.0.0.1:6379"}, "asks for no token"),
    ],
)
def test_a_head_that_is_open_to_others_or_no_address_is_refused(given: str, variables: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        head_of(given, variables)


def test_a_head_where_nothing_listens_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionError, match="nothing listens there"):
        Placer("").connect(f"127.0.0.1:{port}")


@pytest.mark.promise("cluster:token")
def test_a_head_at_127_0_0_1_that_others_reach_too_is_refused_without_a_token() -> None:
    _require_loopback(["127.0.0.1", "::1"])
    with pytest.raises(OpenCluster, match="a node at 10.0.0.1, and asks for no token"):
        _require_loopback(["127.0.0.1", "10.0.0.1"])


@pytest.mark.promise("cluster:token")
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.cluster.ray_placement.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r'pip install "rrext\[cluster\]"'):
        head_of("127.0.0.1:6379", {})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--cluster", "10.0.0.1:6379", "--ws"), "asks for no token"),
        (("--cluster", "127.0.0.1:6379"), "it needs --isolation process"),
        (("--cluster", "127.0.0.1:6379", "--ws", "--shared-root"), "--shared-root needs --root"),
        (("--ws", "--shared-root", "--root", "."), "--shared-root needs --cluster"),
        (("--ws", "--max-resources", "cpu=1"), "--max-resources needs --cluster"),
        (("--max-resources", "cpu=x"), "expected resources such as cpu=2,gpu=1,memory=4G"),
        (("--max-resources", "cpu=-1"), "cpu is at least"),
        (("--max-resources", "disk=1"), '"disk" is no resource'),
        (("--max-resources", "node=1"), "node is"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-m", "rrext", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.promise("cluster:secrets")
def test_a_host_gets_no_variable_of_its_node_that_may_be_a_secret() -> None:
    node = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0", "RAY_AUTH_TOKEN": "t", "KEY": "k", "RAY_X": "y"}
    assert host_environment(node) == {"PATH": "/bin", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_server_without_a_cluster_imports_nothing_of_it() -> None:
    code = "import sys, rrext.tasks.task_engine, rrext.cli.commands.serve; print([n for n in sys.modules if 'cluster' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
