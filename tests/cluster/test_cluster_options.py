"""The options of a cluster: what is refused before anything starts."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from rrext.cluster.certificates import new_identity
from rrext.cluster.host_actor import host_environment
from rrext.cluster.knock import OpenCluster, asks_for_token, require_loopback
from rrext.cluster.placer import Placer
from rrext.cluster.ray_placement import head_of
from rrext.errors import UsageError
from rrext.transports.tls import context_of

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
    monkeypatch.setattr("rrext.cluster.ray_placement.asks_for_token", lambda head: True)
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


def status(value: str) -> bytes:
    """An answer of gRPC as Ray writes it: settings, and headers without a body."""
    headers = b"\x88@\x0ccontent-type\x10application/grpc\x00\x0bgrpc-status" + bytes([len(value)]) + value.encode()
    return bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + len(headers).to_bytes(3, "big") + b"\x01\x05\x00\x00\x00\x01" + headers


def tls(protocol: str = "h2") -> ssl.SSLContext:
    """TLS of a head that wants a certificate of who calls."""
    identity = new_identity("head")
    context = context_of(identity, identity.certificate)
    context.set_alpn_protocols([protocol])
    return context


def in_tls(end: socket.socket, context: ssl.SSLContext, refusal: bytes) -> socket.socket:
    """The connection within TLS; a closed one to a stranger."""
    if end.recv(3, socket.MSG_PEEK) == b"PRI":
        end.recv(1000)
        end.sendall(refusal)
        end.close()
        return end
    with suppress(ssl.SSLError):
        return context.wrap_socket(end, server_side=True)
    return end


@contextmanager
def head(*pieces: bytes, context: ssl.SSLContext | None = None, refusal: bytes = b"") -> Iterator[int]:
    """The port of a head that answers each call so, in these pieces; one with TLS refuses a call in plain text so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    end, _ = listener.accept()
                    if context is not None:
                        end = in_tls(end, context, refusal)
                    with end:
                        if end.fileno() < 0 or not end.recv(1000).startswith(b"PRI * HTTP/2.0"):
                            continue
                        for piece in pieces:
                            end.sendall(piece)
                        end.shutdown(socket.SHUT_WR)
                        while end.recv(1000):
                            pass

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


OPEN, CLOSED, OTHER = status("0"), status("16"), status("14")


@pytest.mark.promise("cluster:token")
def test_a_head_that_asks_for_no_token_is_refused_though_the_server_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.cluster.ray_placement.find_spec", lambda name: True)
    with head(OPEN[:50], OPEN[50:]) as port:
        with pytest.raises(UsageError, match="asks for no token"):
            head_of(f"0.0.0.0:{port}", TOKEN)  # which reaches this machine, and is no loopback address
        with pytest.raises(OpenCluster, match=r"a node at 0\.0\.0\.0, and asks for no token"):
            Placer("").connect(f"0.0.0.0:{port}")


@pytest.mark.promise("cluster:token")
def test_a_head_that_asks_for_a_token_is_told_so_at_once_to_a_server_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.cluster.ray_placement.find_spec", lambda name: True)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with head(CLOSED[:50], CLOSED[50:]) as port:
        assert head_of(f"0.0.0.0:{port}", TOKEN) == f"0.0.0.0:{port}"
        with pytest.raises(ConnectionError, match="it asks for a token"):
            Placer("").connect(f"127.0.0.1:{port}")


@pytest.mark.promise("cluster:token")
@pytest.mark.parametrize("refusal", [b"", b"\x15\x03\x01\x00\x02\x02\x46"])
def test_a_head_that_wants_a_certificate_asks_for_more_than_a_token(refusal: bytes) -> None:
    with head(OPEN, context=tls(), refusal=refusal) as port:
        assert asks_for_token(f"127.0.0.1:{port}")


@pytest.mark.promise("cluster:token")
def test_a_head_that_has_tls_and_wants_no_certificate_is_asked_in_it() -> None:
    context, other = tls(), tls("http/1.1")
    context.verify_mode = other.verify_mode = ssl.CERT_NONE
    with head(CLOSED, context=context) as port:
        assert asks_for_token(f"127.0.0.1:{port}")
    with head(OPEN, context=context) as port:
        assert not asks_for_token(f"127.0.0.1:{port}")
    with head(CLOSED, context=other) as port, pytest.raises(ConnectionError, match="does not tell whether it asks"):
        asks_for_token(f"127.0.0.1:{port}")


@pytest.mark.promise("cluster:token")
@pytest.mark.parametrize("said", [b"", OTHER, OTHER[:20], b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_end_that_does_not_tell_whether_it_asks_for_a_token_is_not_used(said: bytes) -> None:
    with head(said) as port, pytest.raises(ConnectionError, match="does not tell whether it asks"):
        asks_for_token(f"127.0.0.1:{port}")


@pytest.mark.promise("cluster:token")
def test_a_head_at_127_0_0_1_that_others_reach_too_is_refused_without_a_token() -> None:
    require_loopback(["127.0.0.1", "::1"])
    with pytest.raises(OpenCluster, match=r"a node at 10\.0\.0\.1, and asks for no token"):
        require_loopback(["127.0.0.1", "10.0.0.1"])


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
    modules = "rrext.tasks.task_engine, rrext.cli.commands.servers.serve"
    code = f"import sys, {modules}; print([n for n in sys.modules if 'cluster' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
