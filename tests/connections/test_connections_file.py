"""The file of connections: for its owner alone, with all problems and their lines, and secrets kept elsewhere."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backends.null import Keyring as Null
from keyring.errors import KeyringLocked

from rrext.connections import SETTINGS, SWITCHES, Connections, HttpSettings, load_connections
from rrext.errors import ConnectionInvalid
from rrext.secrets.redaction import Redactor

ROOT = Path(__file__).resolve().parents[2]
TEXT = """# servers of the tests
[github]
provider = "mcp"
command = ["server-github", "--verbose"]
env = { TOKEN = "env:GITHUB_TOKEN", MODE = "quiet mode" }

[docs]
provider = "mcp"
url = "https://docs.example/mcp"
timeout = 5
forward_authorization = true

[docs.headers]
Authorization = "env:DOCS_AUTH"
"""
WRONG = """[github]
provider = "mcp"
command = "server-github"
tmeout = 3

[github.env]
TOKEN = 3

[ "two words" ]
provider = "http"

[docs]
provider = "mpc"

[shop]
provider = "http"
url = "shop.example"
timeout = nan

[gmail]
provider = "composio"
key = "env:NOT_SET"

[both]
provider = "mcp"
command = ["x"]
url = "https://both.example"

[commanded]
provider = "mcp"
command = ["x"]
forward_authorization = true
"""


def write(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def of_secret(written: str, variables: dict[str, str] | None = None) -> Connections:
    table = {"provider": "http", "url": "https://a.example", "headers": {"Key": written}}
    return Connections.of({"a": table}, variables or {})


def revealed(connections: Connections) -> str:
    settings = connections.find("a", "http").settings
    assert isinstance(settings, HttpSettings)
    return settings.headers["Key"].reveal()


def test_a_file_has_connections_with_their_settings(tmp_path: Path) -> None:
    found = load_connections(write(tmp_path / "c.toml", TEXT), {"GITHUB_TOKEN": "t-1", "DOCS_AUTH": "Bearer t-2"})
    assert found.problems == ()
    assert found.names("mcp") == ("docs", "github")
    github, docs = found.find("github", "mcp"), found.find("docs", "mcp")
    assert (docs.timeout, docs.forward_authorization, github.timeout) == (5.0, True, 60.0)
    assert getattr(github.settings, "command", None) == ("server-github", "--verbose")
    assert {name: secret.reveal() for name, secret in github.settings.env.items()} == {"TOKEN": "t-1", "MODE": "quiet mode"}  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.promise("connections:file-0600")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o620, 0o604])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "c.toml", TEXT, mode)
    with pytest.raises(ConnectionInvalid, match=f"others may use the file .mode {mode:04o}.; chmod 600"):
        load_connections(path, {})
    assert load_connections(write(tmp_path / "c.toml", TEXT, 0o400), {}).names() == ("docs", "github")


@pytest.mark.promise("connections:file-0600")
def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "c.toml", TEXT)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(ConnectionInvalid, match="belongs to another user"):
        load_connections(path, {})


@pytest.mark.promise("connections:file-0600")
def test_a_file_with_a_secret_is_for_its_owner_alone_too(tmp_path: Path) -> None:
    path = write(tmp_path / "key", "s3cret-of-a-file\n", 0o644)
    (problem,) = of_secret(f"file:{path}").problems
    assert "others may use the file" in problem.message
    Path(path).chmod(0o600)
    connections = of_secret(f"file:{path}")
    Path(path).chmod(0o644)
    with pytest.raises(ConnectionInvalid, match=r"a\.headers\.Key: .*others may use the file"):
        revealed(connections)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a]\nprovider = "mcp', "at end of document"),
        ("[a]\n[a]", "at line 2"),
        ("x = " + "[" * 5000, "recursion"),
        ("x = " + "1" * 5000, "4300 digits"),
        ("ÿþ", "at line 1"),
    ],
)
def test_a_text_that_is_no_toml_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConnectionInvalid, match=said):
        load_connections(write(tmp_path / "c.toml", text), {})


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectionInvalid, match="No such file"):
        load_connections(str(tmp_path / "none.toml"), {})
    with pytest.raises(ConnectionInvalid, match="Is a directory"):
        load_connections(str(tmp_path), {})


@pytest.mark.timeout(10)
def test_a_fifo_is_refused_and_not_awaited(tmp_path: Path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo, 0o600)
    with pytest.raises(ConnectionInvalid, match="no regular file"):
        load_connections(fifo, {})
    (problem,) = of_secret(f"file:{fifo}").problems
    assert "no regular file" in problem.message
    regular = write(tmp_path / "key", "s3cret-of-a-file\n")
    connections = of_secret(f"file:{regular}")
    os.replace(fifo, regular)
    with pytest.raises(ConnectionInvalid, match="no regular file"):
        revealed(connections)


@pytest.mark.promise("connections:problems")
def test_every_problem_of_a_file_has_its_line(tmp_path: Path) -> None:
    found = load_connections(write(tmp_path / "c.toml", WRONG), {})
    assert [(problem.line, problem.path, problem.message) for problem in found.problems] == [
        (3, "/github/command", "expected array, got str"),
        (4, "/github/tmeout", 'unknown key; did you mean "timeout"?'),
        (7, "/github/env/TOKEN", "expected a text: env:NAME, file:PATH, keyring:SERVICE/USER, or the secret itself"),
        (9, "/two words", "expected a name of letters, digits and hyphens, with single underscores between them"),
        (9, "/two words/url", "expected a url, or openapi"),
        (13, "/docs/provider", 'expected one of mcp, http, composio; did you mean "mcp"?'),
        (17, "/shop/url", "expected a URL that begins with http:// or https://"),
        (18, "/shop/timeout", "expected seconds above 0 and at most 86400"),
        (20, "/gmail/integration", "is required"),
        (22, "/gmail/key", "the variable NOT_SET is not set"),
        (27, "/both/url", "expected either a command or a url"),
        (32, "/commanded/forward_authorization", "only a server with a url can be given the caller's authorization"),
    ]
    assert found.variables == {"NOT_SET"}


def test_the_tables_of_the_protocol_page_are_good() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "protocol.md").read_text(), re.MULTILINE | re.DOTALL)
    tables = [tomllib.loads(block) for block in blocks if "provider" in block]
    variables = dict.fromkeys(("GITHUB_TOKEN", "DOCS_AUTH", "PETSTORE", "PETSTORE_KEY", "COMPOSIO_API_KEY"), "x")
    assert [Connections.of(table, variables).problems for table in tables] == [()] * len(tables)
    assert {table["provider"] for block in tables for table in block.values()} == set(SETTINGS)


def test_a_connection_that_is_switched_off_needs_no_secret() -> None:
    table = {"provider": "http", "url": "https://a.example", "headers": {"Key": "env:NOT_SET"}, "active": False}
    assert Connections.of({"a": table}, {}).problems == ()


def test_a_secret_stands_in_the_file_a_variable_or_a_file_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "key", "of a file\n")
    path = write(tmp_path / "c.toml", '[a]\nprovider="http"\nurl="http://a.example"\n[a.headers]\nKey = "file:key"\n')
    assert revealed(load_connections(path, {})) == "of a file"
    assert revealed(of_secret("env:K", {"K": "of a variable"})) == "of a variable"
    assert revealed(of_secret("literal: it says so")) == "literal: it says so"
    assert [p.message for p in of_secret("env:K", {"K": ""}).problems] == ["the variable K is not set"]
    assert "No such file" in of_secret("file:/nowhere/at/all").problems[0].message


class Ring(Null):
    """A keyring of the test."""

    is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("locked")
        return {("rrext", "me/github"): "of the ring"}.get((service, username))


def test_a_secret_may_be_in_the_keyring_of_the_system() -> None:
    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    try:
        connections = of_secret("keyring:rrext/me/github")
        redactor = Redactor()
        connections.known_to(redactor)
        assert redactor.text("of the ring") == "of the ring"
        assert revealed(connections) == "of the ring"
        assert redactor.text("of the ring") == "${a.headers.Key}"
        with pytest.raises(ConnectionInvalid, match="there is nothing in keyring:rrext/other"):
            revealed(of_secret("keyring:rrext/other"))
        ring.is_locked = True
        with pytest.raises(ConnectionInvalid, match="the keyring does not answer: locked"):
            revealed(of_secret("keyring:rrext/me/github"))
    finally:
        keyring.set_keyring(before)


def test_a_missing_keyring_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert 'pip install "rrext[keyring]"' in of_secret("keyring:a/b").problems[0].message
    assert of_secret("keyring:a").problems[0].message == "expected keyring:SERVICE/USER"


KEYS = ("provider", "oddity", *SWITCHES, *(name for shape in SETTINGS.values() for name in shape.__struct_fields__))
WRITTEN = [*SETTINGS, "https://a.example/x", "env:K", "env:", "file:", "file:/", "keyring:x"]
WORDS = st.one_of(st.sampled_from(WRITTEN), st.text())
VALUES = st.recursive(
    st.one_of(WORDS, st.booleans(), st.integers(), st.floats(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)
TABLES = st.dictionaries(
    st.one_of(st.sampled_from(["a", "b"]), st.text()),
    st.one_of(VALUES, st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text()), VALUES)),
    max_size=3,
)


@given(TABLES, st.dictionaries(st.just("K"), st.text()))
def test_any_table_is_a_connection_or_has_problems(tables: dict[str, Any], variables: dict[str, str]) -> None:
    found = Connections.of(tables, variables)
    assert set(found.names()) == set(tables)
    valid = {connection.name for connection in found}
    assert {problem.path.split("/")[1].replace("~1", "/").replace("~0", "~") for problem in found.problems} == set(
        tables
    ) - valid
    for connection in found:
        assert 0 < connection.timeout < float("inf")


@given(st.text(min_size=8).filter(lambda text: text.partition(":")[0] not in ("env", "file", "keyring")))
def test_no_text_about_a_connection_has_its_secret(secret: str) -> None:
    mark = f"<{secret}>"
    found = of_secret(mark)
    broken = Connections.of({"a": {"provider": "mcp", "url": 3, "headers": {"Key": mark}, "env": {"Key": [mark]}}}, {})
    said = repr([found, *found, found.find("a", "http").settings, broken, broken.problems])
    assert mark not in said
    redactor = Redactor()
    found.known_to(redactor)
    assert mark not in redactor.text(f"a {mark} b")
