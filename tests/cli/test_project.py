"""A project: `rrext.toml` beside the pipelines gives commands their defaults, and nothing of a stranger's one runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import call, here, spawned, until

from rrext import blocking
from rrext.cli.main import COMMANDS
from rrext.project import FORMAT, MAX_PROJECT, NAME, find_project

NODE = """
import os
from pathlib import Path
from rrext import Node, tool_function

Path(__file__).with_name("sprung").touch()

class Teller(Node):
    provider = "teller"

    class Config:
        shown: str = ""

    @tool_function
    def tell(self, times: int = 1) -> list[str]:
        "Tell a setting."
        return [self.config.shown] * times
"""
TOOLS = {"id": "tools_1", "provider": "tools", "config": {}}


def control(name: str, provider: str, **config: Any) -> dict[str, Any]:
    return {"id": name, "provider": provider, "config": config, "control": [{"classType": "tool", "from": "tools_1"}]}


PIPELINE = {"components": [TOOLS, control("teller_1", "teller", shown="${SHOWN}")]}
FILES = {"components": [TOOLS, control("files_1", "tool_filesystem", root="..")]}
PROJECT = 'pipeline = "p.pipe"\nnodes = ["nodes.py"]\nenv = ["SHOWN"]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project that nobody trusts yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setenv("SHOWN", "seen")
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    (folder / "nodes.py").write_text(NODE)
    (folder / "p.pipe").write_text(json.dumps(PIPELINE))
    (folder / "files.pipe").write_text(json.dumps(FILES))
    (folder / NAME).write_text(PROJECT)
    return folder


@pytest.fixture
def trusted(project: Path) -> Path:
    """The same folder, trusted."""
    assert call("trust", "--yes", cwd=project).code == 0
    return project


def sprung(folder: Path) -> bool:
    """Whether the code of the project has run since the last look."""
    trap = folder / "sprung"
    found = trap.exists()
    trap.unlink(missing_ok=True)
    return found


# what counts


def test_packages_for_programs_count_after_trust(project: Path) -> None:
    (project / NAME).write_text('python-packages = ["no_such_package"]\n')
    ignored = call("tools", "files.pipe", cwd=project)
    assert (ignored.code, "python-packages ignored" in ignored.err) == (0, True)
    assert "python-packages: programs of tool_python import no_such_package" in call("trust", "--yes", cwd=project).err
    refused = call("tools", "files.pipe", cwd=project)
    assert (refused.code, "no_such_package" in refused.err) == (2, True)
    assert call("tools", "files.pipe", "--no-project", cwd=project).code == 0


def test_a_trusted_project_gives_the_pipeline_the_nodes_and_the_variables(trusted: Path) -> None:
    for folder in (trusted, trusted / "inner"):
        assert call("tool", "tell", "times=2", cwd=folder).value == ["seen", "seen"]
        assert call("tool", "--node", "teller_1", "tell", cwd=folder).value == ["seen"]
    assert [tool["name"] for tool in call("tools", "--json", cwd=trusted).value["tools"]] == ["tell"]
    checked = call("check", cwd=trusted)
    assert (checked.code, checked.err) == (0, "p.pipe: ok, 2 components\n")
    assert call("nodes", "teller", cwd=trusted).code == 0
    assert b"teller_1" in call("show", cwd=trusted).out


def test_the_project_of_a_named_pipeline_is_that_of_its_folder(trusted: Path, tmp_path: Path) -> None:
    assert call("tool", "project/p.pipe", "tell", cwd=tmp_path).value == ["seen"]
    assert call("tool", str(trusted / "p.pipe"), "tell", cwd="/").value == ["seen"]  # type: ignore[arg-type]
    with blocking.Client.spawn(trusted / "p.pipe", env={"SHOWN": "seen"}) as client:
        assert client.tool(tool="tell", input={}) == ["seen"]


def test_a_first_word_that_is_a_pipeline_or_a_file_is_the_pipeline(trusted: Path) -> None:
    shutil.copy(trusted / "files.pipe", trusted / "tell")
    assert call("tools", "--json", "files.pipe", cwd=trusted).value["tools"][0]["name"] == "read_file"
    assert call("tool", "tell", "stat_file", "path=tell", cwd=trusted).value["path"] == "tell"
    assert "No such file" in call("tool", "gone.pipe", "tell", cwd=trusted).err
    assert "required: TOOL" in call("tool", "p.pipe", cwd=trusted).err
    assert "unrecognized" in call("tools", "--json", "--nonsense", cwd=trusted).err


def test_files_to_send_are_no_pipeline(trusted: Path) -> None:
    (trusted / NAME).write_text('pipeline = "echo.pipe"')
    reply = {"id": "reply_1", "provider": "response_text", "input": [{"lane": "text", "from": "source_1"}]}
    (trusted / "echo.pipe").write_text(json.dumps({"components": [{"id": "source_1", "provider": "webhook"}, reply]}))
    assert call("trust", "--yes", cwd=trusted).code == 0
    (trusted / "note.txt").write_text("hello")
    sent = call("send", "note.txt", cwd=trusted)
    assert sent.value["result"]["text"][0].strip() == "hello", sent
    assert call("send", "echo.pipe", "note.txt", cwd=trusted).code == 0


def test_an_option_replaces_the_setting_of_its_name(trusted: Path) -> None:
    (trusted / "other.py").write_text(NODE.replace("self.config.shown", "'other'"))
    assert call("tool", "tell", "--nodes", "other.py", cwd=trusted).value == ["other"]
    assert "SHOWN" in call("tool", "tell", "--env", "OTHER", cwd=trusted).err
    assert call("tool", "tell", "--no-project", cwd=trusted).code == 2


def test_the_root_keeps_paths_in_the_folder(project: Path) -> None:
    (project / NAME).write_text('root = "."')
    assert call("tool", "--no-project", "files.pipe", "list_directory", cwd=project).code == 0
    refused = call("tool", "files.pipe", "list_directory", cwd=project)
    assert (refused.code, "rrext trust" in refused.err) == (1, False)
    (project / "here.pipe").write_text(json.dumps({"components": [TOOLS, control("files_1", "tool_filesystem", root=".")]}))
    assert call("tool", "here.pipe", "list_directory", cwd=project).value["count"] == 6
    assert call("tool", "here.pipe", "list_directory", "--root", "inner", cwd=project).value["count"] == 0


def test_a_module_of_the_project_s_folder_is_found_there_and_not_in_the_current_one(trusted: Path) -> None:
    (trusted / NAME).write_text(PROJECT.replace("nodes.py", "nodes"))
    (trusted / "inner" / "nodes.py").write_text(NODE)
    assert call("trust", "--yes", cwd=trusted).code == 0
    assert call("tool", "tell", cwd=trusted / "inner").value == ["seen"]
    assert sprung(trusted)
    assert not sprung(trusted / "inner")


def test_the_connections_are_those_of_the_project(trusted: Path) -> None:
    (trusted / NAME).write_text('connections = "c.toml"')
    (trusted / "c.toml").write_text('[shop]\nprovider = "nonsense"\n')
    (trusted / "c.toml").chmod(0o600)
    assert call("trust", "--yes", cwd=trusted).code == 0
    assert "/shop/provider" in call("tools", "files.pipe", cwd=trusted).err


# a server


def listening(*words: str, folder: Path) -> Iterator[str]:
    with spawned("serve", *words, cwd=folder) as process:
        assert process.stderr is not None
        yield until(process.stderr, "listening at")


def test_the_options_of_a_server_count_where_no_pipeline_is_named(trusted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (trusted / NAME).open("a") as file:
        file.write('[serve]\nlisten = "unix:s"\ndrain = 2\naudit = false\n')
    assert call("trust", "--yes", cwd=trusted).code == 0
    monkeypatch.chdir(trusted / "inner")
    for said in listening(folder=trusted / "inner"):
        assert f"unix:{trusted}/s" in said
        assert call("tool", "--at", f"unix:{trusted}/s", "tell").value == ["seen"]
    with blocking.Client.spawn(trusted / "p.pipe", env={"SHOWN": "seen"}) as client:  # at its stdin
        assert client.tool(tool="tell", input={}) == ["seen"]
    with blocking.Client.spawn() as client:
        assert client.tasks() == []
    for said in listening("--listen", "unix:t", folder=trusted):
        assert "unix:t" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("drian = 2", 'serve.drian: there is no such option; did you mean "drain"?'),
        ("threads = 0", "serve.threads: expected a whole number from 1"),
        ("audit = 1", "serve.audit: expected true or false"),
        ('log-level = "loud"', "serve.log-level: expected one of debug, info, warning, error"),
        ("listen = ['unix:s']", "serve.listen: expected a text or a number"),
        ("parent = 1", "serve.parent: there is no such option"),
    ],
)
def test_a_wrong_option_of_a_server_is_told_with_its_line(project: Path, line: str, said: str) -> None:
    (project / NAME).write_text(f"[serve]\n{line}\n")
    for words in (("trust", "--yes"), ("serve", "--project", NAME)):
        done = call(*words, cwd=project)
        assert (done.code, f"{NAME}:2: {said}" in done.err) == (2, True), done


# trust


OF_NO_PROJECT = ("init", "new", "trust", "trace", "completion", "help", "ps", "logs", "stop", "lsp")
"""Commands that use no project of their folder; an editor's is that of its workspace."""
READING = [
    *(["tool", "p.pipe", "tell"], ["tools", "p.pipe"], ["check", "--no-probe", "p.pipe"], ["check", "p.pipe"]),
    *(["show", "p.pipe"], ["nodes"], ["schema"], ["serve", "p.pipe"], ["mcp", "p.pipe"], ["chat", "p.pipe", "?"]),
    *(["send", "p.pipe", "nodes.py"], ["sql", "p.pipe", "select 1"], ["space", "list", "p.pipe"], ["mcp"], ["serve"]),
    *(
        ["cluster", "check", "--cluster", "127.0.0.1:1"],
        ["tool", "tell"],
        ["tools"],
        ["check"],
        ["chat", "?"],
        ["send", "nodes.py"],
    ),
    *(["replay", "r.jsonl", "p.pipe"], ["replay", "r.jsonl"]),
    *(["show"], ["sql", "select 1"], ["space", "list"], ["completion", "words", "tool", ""], ["trust"], ["help"], ["lsp"]),
    *(["trace", "p.pipe"], ["init", "new.pipe"], ["new", "node", "my-node"], ["test", "p.pipe"], ["test"]),
    *(["ps", "--at", "unix:s"], ["logs", "--at", "unix:s"], ["stop", "--at", "unix:s", "p"], ["sql", "p.csv", "select 1"]),
    ["doctor"],
]


@pytest.mark.promise("project:untrusted:runs-nothing")
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_no_command_runs_what_a_found_project_names(project: Path, words: list[str]) -> None:
    done = call(*words, cwd=project)
    assert not sprung(project)
    assert words[0] in OF_NO_PROJECT or "rrext trust" in done.err, done
    assert "Traceback" not in done.err


def test_each_command_was_tried() -> None:
    assert {words[0] for words in READING} == set(COMMANDS)


@pytest.mark.promise("project:untrusted:runs-nothing")
def test_a_change_of_the_file_asks_anew(trusted: Path) -> None:
    assert call("tool", "tell", cwd=trusted).code == 0
    assert sprung(trusted)
    (trusted / NAME).write_text(PROJECT + "# changed\n")
    done = call("tool", "p.pipe", "tell", cwd=trusted)
    assert (done.code, sprung(trusted)) == (2, False)
    assert "pipeline, nodes, env ignored: it has changed since `rrext trust`" in done.err
    (trusted / NAME).write_text(PROJECT)
    assert call("tool", "tell", cwd=trusted).code == 0


def test_trust_is_for_the_path(trusted: Path, tmp_path: Path) -> None:
    shutil.copytree(trusted, tmp_path / "copy")
    assert "it is not trusted" in call("tools", "p.pipe", cwd=tmp_path / "copy").err


def test_a_file_that_is_named_needs_no_trust(project: Path, tmp_path: Path) -> None:
    assert call("tool", "--project", "project/rrext.toml", "tell", cwd=tmp_path).value == ["seen"]
    (project / "other.toml").write_text(PROJECT)
    assert call("tool", "--project=other.toml", "p.pipe", "tell", cwd=project).value == ["seen"]
    assert "No such file" in call("tools", "--project", "gone.toml", cwd=project).err


def test_trust_shows_what_it_allows_and_asks(project: Path) -> None:
    (project / NAME).write_text(PROJECT + 'connections = "c\\u001b.toml"\n[serve]\ndrain = 3\n')
    refused = call("trust", cwd=project / "inner")
    assert (refused.code, refused.out) == (2, b"")
    for part in ("nodes.py", "SHOWN", "p.pipe", "c\\u001b.toml", "drain = 3", "--yes"):
        assert part in refused.err
    assert "\x1b" not in refused.err
    with at_terminal(["trust"], folder=project) as terminal:
        terminal.until("Trust it? [y/n] ")
        terminal.type("n\r")
        terminal.until("nothing was changed")
        assert terminal.ended() == 2
    assert find_project(str(project)).trust == "unknown"  # type: ignore[union-attr]
    with at_terminal(["trust", "."], folder=project) as terminal:
        terminal.until("Trust it? [y/n] ")
        terminal.type("y\r")
        assert terminal.ended() == 0
    assert "trusted already" in call("trust", cwd=project).err


def test_trust_is_listed_and_withdrawn(trusted: Path) -> None:
    path = trusted / NAME
    assert call("trust", "--list").out.decode() == f"{path}\n"
    path.unlink()
    assert call("trust", "--remove", str(path)).code == 0
    assert call("trust", "--list").out == b""
    assert call("trust", "--remove", cwd=trusted).code == 2
    assert "there is no rrext.toml in" in call("trust", cwd=trusted).err


def test_the_user_s_folder_keeps_the_trust_and_no_relative_one(trusted: Path, tmp_path: Path) -> None:
    (mark,) = (tmp_path / "configuration" / "rrext" / "trusted").iterdir()
    assert mark.stat().st_mode & 0o777 == 0o600
    mark.chmod(0o644)
    assert "not trusted" in call("tools", "p.pipe", cwd=trusted).err
    mark.chmod(0o600)
    shutil.move(tmp_path / "configuration", trusted / "configuration")
    done = call("tools", "p.pipe", cwd=trusted, XDG_CONFIG_HOME="configuration", HOME=str(tmp_path))
    assert (done.code, "not trusted" in done.err) == (2, True)


def test_the_one_hint_for_what_an_ignored_project_has_is_to_trust_it(project: Path) -> None:
    cases = {"cases": [{"name": "one", "tool": "tell", "expect": ["seen"]}, {"name": "two", "tool": "tell"}]}
    (project / "p.cases.json").write_text(json.dumps(cases))
    hint = f"`rrext trust {project / NAME}` lets its nodes and variables count"
    for words in (["tool", "p.pipe", "tell"], ["check", "p.pipe"], ["test", "p.pipe"], ["serve", "p.pipe"]):
        done = call(*words, cwd=project)
        said = done.err + done.out.decode()
        assert (done.code, hint in said, "--partial" in said, "--nodes" in said) == (
            1 + (words[0] != "test"),
            True,
            False,
            False,
        ), done
    alone = call("tool", "--no-project", "p.pipe", "tell", cwd=project)
    assert ("rrext trust" in alone.err, "--nodes" in alone.err, "--partial" in alone.err) == (False, True, True)


def test_no_settings_for_a_host_are_printed_that_could_not_start_before_the_trust(project: Path) -> None:
    words = ("mcp", "p.pipe", "--print-config", "claude")
    done = call(*words, cwd=project)
    assert (done.code, done.out) == (2, b"")
    assert f"p.pipe: a host could not start it: `rrext trust {project / NAME}`" in done.err
    assert call("mcp", "files.pipe", "--print-config", "claude", cwd=project).code == 0
    assert call("trust", "--yes", cwd=project).code == 0
    assert "mcpServers" in call(*words, cwd=project).rows


@pytest.mark.parametrize("command", ["test", "mcp", "tools"])
def test_a_default_pipeline_that_is_not_trusted_is_no_lack_of_one(project: Path, command: str) -> None:
    done = call(command, cwd=project)
    assert (done.code, "is used without its name only after `rrext trust`" in done.err) == (2, True)


# whose file it is


@pytest.mark.promise("project:own-file")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / NAME).chmod(0o666), "others may write the file (mode 0666)"),
        (lambda folder: folder.chmod(0o777), "others may write the folder (mode 0777)"),
        (lambda folder: folder.chmod(0o1777), "others may write the folder (mode 1777)"),
        (lambda folder: ((folder / NAME).unlink(), os.mkfifo(folder / NAME)), "no regular file"),
        (lambda folder: ((folder / NAME).unlink(), (folder / NAME).mkdir()), "Is a directory"),
        (lambda folder: ((folder / NAME).unlink(), (folder / NAME).symlink_to("nowhere")), "No such file"),
        (lambda folder: (folder / NAME).write_bytes(b"\xff"), "not UTF-8"),
        (lambda folder: (folder / NAME).write_bytes(b"#" * (1 << 21)), "too large"),
    ],
)
def test_a_file_that_may_be_another_s_is_ignored_and_told(trusted: Path, change: Any, said: str) -> None:
    change(trusted)
    done = call("tool", "p.pipe", "tell", cwd=trusted)
    assert (done.code, sprung(trusted)) == (2, False)
    assert f"{NAME} is ignored: " in done.err
    assert said in done.err
    assert call("trust", "--yes", cwd=trusted).code == 2
    assert call("tool", "files.pipe", "list_directory", cwd=trusted).code == 0


@pytest.mark.promise("project:own-file")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of other users")
@pytest.mark.parametrize("place", [NAME, ".", "link"])
def test_a_file_of_another_user_is_not_used(trusted: Path, tmp_path: Path, place: str) -> None:
    if place == "link":
        shutil.copy(trusted / NAME, tmp_path / "theirs")
        (trusted / NAME).unlink()
        (trusted / NAME).symlink_to(tmp_path / "theirs")
        os.chown(tmp_path / "theirs", 12345, 12345)
    else:
        os.chown(trusted / place, 12345, 12345)
    done = call("tool", "p.pipe", "tell", cwd=trusted)
    assert (done.code, sprung(trusted)) == (2, False)
    assert "belongs to another user" in done.err


@pytest.mark.promise("project:own-file")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs a group")
def test_a_group_may_write_only_if_it_is_the_user_s_own(trusted: Path) -> None:
    (trusted / NAME).chmod(0o664)
    os.chown(trusted / NAME, 0, 0)  # the group of this user, without others
    assert call("tool", "tell", cwd=trusted).code == 0
    os.chown(trusted / NAME, 0, 12345)
    assert "others may write the file (mode 0664)" in call("tool", "p.pipe", "tell", cwd=trusted).err


def test_the_search_ends_at_the_home_folder(project: Path) -> None:
    home = project / "inner"
    (home / "deep").mkdir()
    assert find_project(str(home / "deep")) is not None
    done = call("tools", "../../p.pipe", cwd=home / "deep", HOME=str(home))
    assert "rrext trust" in done.err  # the file's own folder is not below it
    done = call("nodes", cwd=home / "deep", HOME=str(home))
    assert (done.code, done.err) == (0, "")
    (home / NAME).write_text('nodes = ["x.py"]')
    assert "rrext trust" in call("nodes", cwd=home / "deep", HOME=str(home)).err


# what the file says


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 2", f"{NAME}:1: version: this rrext reads version {FORMAT} of the format alone"),
        ("version = 2\nnew-setting = 1", f"reads version {FORMAT}"),
        ('\npipelin = "p.pipe"', f'{NAME}:2: pipelin: unknown setting; did you mean "pipeline"?'),
        ('include = "other.toml"', "include: unknown setting; there are version, pipeline,"),
        ("nodes = 'n.py'", "nodes: expected array, got str"),
        ("env = ['A=b']", "env: expected names of variables alone"),
        ("root = '..'", "root: it leaves the folder of the project"),
        ("root = '/'", "root: it leaves the folder of the project"),
        ("nodes = [", "(at "),
        ("pipeline = 'a\x00'", "(at line 1"),
        ('pipeline = "a\\u0000"', "pipeline: expected a text without zero bytes"),
        ('"a\\u001b[2J" = 1', "a\\u001b[2J: unknown setting"),
        ("x = " + "[" * 1500 + "]" * 400, NAME),
        (".".join("a" * 3000) + " = 1", "too large"),
        ("# \n" * MAX_PROJECT, "too large"),
    ],
)
def test_a_file_that_is_wrong_stops_the_command_with_its_line(project: Path, text: str, said: str) -> None:
    (project / NAME).write_text(text)
    done = call("tools", "files.pipe", cwd=project)
    assert (done.code, done.out, "Traceback" in done.err) == (2, b"", False)
    assert said in done.err
    assert call("tools", "--no-project", "files.pipe", cwd=project).code == 0


def test_a_hundred_problems_are_counted(project: Path) -> None:
    (project / NAME).write_text("\n".join(f"x{number} = 1" for number in range(100)))
    done = call("tools", "files.pipe", cwd=project)
    assert (done.code, done.err.splitlines()[20:]) == (2, ["and 80 more problems"])


def test_all_problems_are_told_at_once(project: Path) -> None:
    (project / NAME).write_text("nodes = 1\nenv = 2\n[serv]\n")
    done = call("check", "files.pipe", cwd=project)
    assert [line.partition(f"{NAME}:")[2].partition(":")[0] for line in done.err.splitlines()] == ["3", "1", "2"]


@pytest.mark.promise("project:no-secrets")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('token = "{}"', "token"),
        ('[serve]\napi-key = "{}"', "serve.api-key"),
        ('[serve]\nws = "https://me:{}@host"', "serve.ws"),
        ('nodes = ["sk-proj-{}{}"]', "nodes"),
        ('[a.b]\npassword = "{}"', "a.b.password"),
    ],
)
def test_a_secret_is_a_problem_that_names_its_setting_alone(project: Path, text: str, name: str) -> None:
    secret = "Zq8Lm2Xv7Rt4Kp9W"
    (project / NAME).write_text(text.format(secret, secret))
    for words in (("tools", "files.pipe"), ("trust",)):
        done = call(*words, cwd=project)
        assert (done.code, secret in done.err) == (2, False)
        assert f"{name}: a secret does not belong into this file" in done.err
    (project / NAME).write_text('[serve]\nkeys = "keys.toml"\n')
    assert call("tools", "files.pipe", cwd=project).code == 0


def test_a_folder_that_is_gone_has_no_project(project: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    gone = project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert here(capfd, "nodes").code == 0


def test_pipelines_of_two_projects_need_a_word(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pipe"
    shutil.copy(project / "files.pipe", other)
    done = call("check", "project/files.pipe", "other.pipe", cwd=tmp_path)
    assert (done.code, "different projects" in done.err) == (2, True)
    assert call("check", "--no-project", "project/files.pipe", "other.pipe", cwd=tmp_path).code == 0


def test_a_host_is_told_of_the_default_pipeline_by_its_path(trusted: Path) -> None:
    (server,) = json.loads(call("mcp", "--print-config", "claude", cwd=trusted).out)["mcpServers"].values()
    assert server["args"][-1] == str(trusted / "p.pipe")
