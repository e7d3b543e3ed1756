"""One reader of private files, whoever names them: for their owner alone, regular, whole, and never awaited."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rrext.cli.options import key_from
from rrext.connections import Connections, load_connections
from rrext.errors import ConnectionInvalid, UsageError
from rrext.faces.http.certificate import Certificate
from rrext.faces.http.tokens import UserTokens
from rrext.secrets.private_file import MAX_PRIVATE_FILE

pytestmark = pytest.mark.promise("secrets:private-files")

KEYS = '"a-key-of-ada-0123456789" = "ada"\n'


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key in one file."""
    folder = tmp_path_factory.mktemp("pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "k", "-out", "c"]
    subprocess.run(words, check=True, capture_output=True, cwd=folder)
    pem = folder / "pem"
    pem.write_bytes((folder / "k").read_bytes() + (folder / "c").read_bytes())
    return pem


def of_connections(path: str) -> None:
    try:
        load_connections(path, {})
    except ConnectionInvalid as error:
        raise UsageError(error.message) from None


def of_secret(path: str) -> None:
    table = {"provider": "http", "url": "https://a.example", "headers": {"Key": f"file:{path}"}}
    for problem in Connections.of({"a": table}, {}).problems:
        raise UsageError(problem.message)


READERS: dict[str, Callable[[str], object]] = {
    "--keys": lambda path: UserTokens.of_file(path, "--keys"),
    "--tokens": UserTokens.of_file,
    "--key-file": lambda path: key_from(argparse.Namespace(at="ws://localhost", key_file=path)),
    "--connections": of_connections,
    "file:": of_secret,
    "--tls-key": lambda path: Certificate(path, path),
    "--tls-cert": lambda path: Certificate(path, None),
}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, pem: Path, tmp_path: Path) -> tuple[Callable[[str], object], Path]:
    """A reader, and a file that it takes."""
    good = tmp_path / "good"
    if "--tls" in request.param:
        shutil.copy(pem, good)
    else:
        good.write_text("" if request.param == "--connections" else KEYS)
    good.chmod(0o600)
    return READERS[request.param], good


def test_a_file_of_its_owner_is_read_also_through_a_link(reader: tuple[Callable[[str], object], Path], tmp_path: Path) -> None:
    read, good = reader
    (tmp_path / "link").symlink_to(good)
    read(str(good))
    read(str(tmp_path / "link"))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_may_use_is_refused(reader: tuple[Callable[[str], object], Path], mode: int) -> None:
    read, good = reader
    good.chmod(mode)
    with pytest.raises(UsageError, match=f"others may use the file .mode {mode:04o}.; chmod 600"):
        read(str(good))


def test_a_file_of_another_user_is_refused(
    reader: tuple[Callable[[str], object], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, good = reader
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(UsageError, match="belongs to another user"):
        read(str(good))


@pytest.mark.timeout(20)
def test_a_fifo_is_refused_and_not_awaited(reader: tuple[Callable[[str], object], Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UsageError, match="no regular file"):
        reader[0](str(tmp_path / "fifo"))


@pytest.mark.timeout(20)
def test_a_certificate_beside_its_key_may_be_read_by_all_and_is_not_awaited(pem: Path, tmp_path: Path) -> None:
    key, fifo = tmp_path / "key", tmp_path / "fifo"
    shutil.copy(pem, key)
    key.chmod(0o600)
    pem.chmod(0o644)
    Certificate(str(pem), str(key))
    os.mkfifo(fifo)
    with pytest.raises(UsageError, match=f"--tls-cert {fifo}: this is no regular file"):
        Certificate(str(fifo), str(key))


def test_the_mark_that_editors_of_windows_begin_a_file_with_is_no_part_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("\ufeff0123456789-a-key-alone\r\n")
    path.chmod(0o600)
    assert UserTokens.of_file_alone(str(path), "--metrics-key-file").user_of("0123456789-a-key-alone") == "operator"


def test_a_file_that_is_too_large_is_refused_by_the_limit_and_never_cut(
    reader: tuple[Callable[[str], object], Path],
) -> None:
    read, good = reader
    with good.open("a") as file:
        file.write("\n" * (MAX_PRIVATE_FILE - good.stat().st_size))
    read(str(good))
    with good.open("a") as file:
        file.write('"a-key-of-bob-0123456789" = "bob"\n')
    with pytest.raises(UsageError, match=r"too large: MAX_PRIVATE_FILE is 1,048,576 bytes"):
        read(str(good))


@pytest.mark.parametrize("name", ["absent", ".", "zero\0byte"])
def test_what_is_no_file_is_refused_by_its_name(
    reader: tuple[Callable[[str], object], Path], tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="No such file|Is a directory|null"):
        reader[0](str(tmp_path / name))
