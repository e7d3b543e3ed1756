"""`rrext check`: problems of pipeline files for people and programs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import call

from rrext.cli.main import main

GOOD = """{
  "components": [
    {"id": "w", "provider": "webhook", "config": {}}, // begins here
    {"id": "o", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "w"}]},
  ],
}
"""

GENERATOR = """
from rrext import Node

class Gen(Node):
    provider = "gen"
    lanes = {"text": ()}

    def write_text(self, text):
        yield text
"""
OWN = """
from rrext import Node

class Own(Node):
    provider = "own"
    lanes = {"text": ("text",)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.pipe").write_text(GOOD)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["check", *args])
    done = capsys.readouterr()
    return code, done.out, done.err


def test_a_good_file_prints_no_result_and_ends_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "good.pipe") == (0, "", "good.pipe: ok, 2 components\n")


def test_a_problem_has_its_place_its_line_and_near_matches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_text(GOOD.replace('"webhook"', '"webhok"'))
    code, out, err = check(capsys, "bad.pipe")
    assert code == 2
    assert out.splitlines() == [
        'bad.pipe:3:29: error: There is no node "webhok". Did you mean "webhook"? [unknown_provider]',
        '    3 |     {"id": "w", "provider": "webhok", "config": {}}, // begins here',
        "      |                             ^^^^^^^^",
    ]
    assert err == "bad.pipe: 1 error\n"


def test_the_mark_stands_below_wide_characters_and_tabs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wide.pipe").write_text('{\n\t"name": "日本e\u0301", "x": NaN, "components": []}')
    _, out, _ = check(capsys, "wide.pipe")
    lines = out.splitlines()
    assert lines[0].startswith("wide.pipe:2:23: error: JSON has no NaN")
    assert lines[2].index("^") == len('    2 |  "name": "日本e", "x": ') + 2


def test_a_long_line_is_cut_around_the_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "long.pipe").write_text('{"name": "' + "x" * 5000 + '", "y": NaN, "z": "' + "x" * 5000 + '"}')
    _, out, _ = check(capsys, "long.pipe")
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if "[not_finite]" in line)
    excerpt, mark = lines[at + 1 : at + 3]
    assert len(excerpt) < 140
    assert excerpt[mark.index("^") : mark.rindex("^") + 1] == "NaN"


def test_escape_sequences_of_a_file_do_not_reach_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "evil.pipe").write_text(GOOD.replace('"webhook"', '"\x1b[31mweb\u202e"'))
    _, out, _ = check(capsys, "evil.pipe")
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_related_places_have_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "twice.pipe").write_text(GOOD.replace('"id": "o"', '"id": "w"'))
    code, out, _ = check(capsys, "twice.pipe")
    assert code == 2
    assert '    twice.pipe:3:12: The first "w" stands here.' in out.splitlines()


def test_warnings_alone_end_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "warn.pipe").write_text(
        GOOD.replace('"config": {}, "input"', '"config": {"laneNam": "x${ROCKETRIDE_NO}"}, "input"')
    )
    code, out, err = check(capsys, "--no-probe", "warn.pipe")
    assert code == 0
    assert "[unknown_config_key]" in out
    assert "[unresolved_variable]" in out
    assert err == "warn.pipe: 2 warnings, 2 components\n"


def test_resources_that_one_machine_cannot_heed_are_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = '"resources": {"cpu": 2, "memory": "1 GiB", "node": "sun"},'
    (folder / "big.pipe").write_text(GOOD.replace("{", "{\n  " + asked, 1))
    code, out, err = check(capsys, "big.pipe")
    assert code == 0
    assert "[resources_ignored]" in out
    assert err == "big.pipe: 2 warnings, 2 components\n"
    assert check(capsys, "--no-probe", "big.pipe")[2] == "big.pipe: ok, 2 components\n"


def test_json_is_one_line_per_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_text(GOOD.replace('"id": "o"', '"id": "w"'))
    code, out, err = check(capsys, "--json", "good.pipe", "bad.pipe")
    good, bad = (json.loads(line) for line in out.splitlines())
    assert (code, err) == (2, "")
    assert good == {"file": "good.pipe", "valid": True, "problems": []}
    (problem,) = bad["problems"]
    assert (problem["code"], problem["line"], problem["column"], problem["endColumn"]) == ("duplicate_id", 4, 12, 15)
    assert problem["related"] == [
        {"path": "/components/0/id", "message": 'The first "w" stands here.', "line": 3, "column": 12}
    ]


def test_a_file_that_cannot_be_read_does_not_hide_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = check(capsys, "none.pipe", "good.pipe")
    assert (code, out) == (2, "")
    assert "none.pipe: No such file" in err
    assert "good.pipe: ok" in err


def test_nodes_of_ones_own_are_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own_check_node.py").write_text(OWN)
    own = GOOD.replace('"webhook"', '"own"').replace(
        "{}}, //", '{}, "input": []}, {"id": "x", "provider": "webhook", "config": {}}, //'
    )
    own = own.replace('"input": []', '"input": [{"lane": "text", "from": "x"}]')
    (folder / "own.pipe").write_text(own)
    assert check(capsys, "own.pipe")[0] == 2
    assert check(capsys, "--nodes", "own_check_node.py", "own.pipe")[0] == 0


def test_node_code_that_cannot_be_loaded_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = check(capsys, "--nodes", "nowhere.py", "good.pipe")
    assert (code, err) == (2, "rrext: --nodes nowhere.py: there is no such file.\n")


def test_env_names_are_known(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "text")
    (folder / "env.pipe").write_text(GOOD.replace('"config": {}, "input"', '"config": {"laneName": "${MY_KEY}"}, "input"'))
    assert "variable_not_allowed" in check(capsys, "env.pipe")[1]
    assert check(capsys, "--env", "MY_KEY", "env.pipe")[:2] == (0, "")


def test_what_serve_would_refuse_later_is_found_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "gen_node.py").write_text(GENERATOR)
    document: dict[str, Any] = {
        "components": [
            {"id": "w", "provider": "webhook", "config": {}},
            {"id": "g", "provider": "gen", "config": {}, "input": [{"lane": "text", "from": "w"}]},
        ]
    }
    (folder / "gen.pipe").write_text(json.dumps(document))
    code, out, _ = check(capsys, "--nodes", "gen_node.py", "gen.pipe")
    assert code == 2
    assert "[cannot_run]" in out


BROKEN = GOOD.replace('"webhook"', '"webhok"').replace('"lane": "text"', '"lane": "txt"')


def test_several_files_have_a_total(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_text(BROKEN)
    _, _, err = check(capsys, "good.pipe", "bad.pipe", "none.pipe")
    assert err.splitlines()[-1] == "total: 3 files, 2 cannot be run; 2 errors, 0 warnings"
    assert check(capsys, "good.pipe", "good.pipe")[2].splitlines()[-1].startswith("total: 2 files, all can be run; 0 errors")


@pytest.mark.promise("check:fix:as-in-editors")
def test_fix_corrects_what_has_one_answer_and_keeps_comments_mode_and_link(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "real.pipe").write_text(BROKEN)
    (folder / "real.pipe").chmod(0o640)
    (folder / "bad.pipe").symlink_to("real.pipe")
    code, out, err = check(capsys, "--fix", "bad.pipe")
    assert (code, out, err) == (0, "", "bad.pipe: fixed\nbad.pipe: ok, 2 components\n")
    assert (folder / "real.pipe").read_text() == GOOD
    assert (folder / "real.pipe").stat().st_mode & 0o777 == 0o640
    assert (folder / "bad.pipe").is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == ["bad.pipe", "good.pipe", "real.pipe"]


def test_fix_lists_what_it_leaves_and_does_not_touch_a_good_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_text(BROKEN.replace('"from": "w"', '"from": "nobody"'))
    before = (folder / "good.pipe").stat()
    code, out, _ = check(capsys, "--fix", "bad.pipe", "good.pipe")
    assert code == 2
    assert "[from_not_found]" in out
    assert "[unknown_provider]" not in out
    after = (folder / "good.pipe").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.promise("check:fix:as-in-editors")
def test_fix_makes_the_same_text_as_fix_all_of_an_editor(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rrext.editor.analysis import AnalysisSettings, analyse
    from rrext.editor.fixes.table import fix_all_edits, is_safe
    from rrext.editor.text import applied
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment

    text = "\ufeff" + BROKEN.replace("\n", "\r\n").replace('"config": {}, "input"', '"config": {} "input"')
    (folder / "bad.pipe").write_bytes(text.encode())
    check(capsys, "--fix", "bad.pipe")
    analysis = analyse(text, AnalysisSettings(Catalog(), Environment(), trusted=True))
    assert (folder / "bad.pipe").read_bytes().decode() == applied(text, fix_all_edits(analysis, is_safe)) != text


def test_diff_shows_what_patch_can_apply_and_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_text(BROKEN.rstrip("\n"))
    code, out, err = check(capsys, "--diff", "bad.pipe", "good.pipe")
    assert code == 2
    assert err.startswith("bad.pipe: 2 errors\n")
    assert (folder / "bad.pipe").read_text() == BROKEN.rstrip("\n")
    old, new = BROKEN.splitlines(), GOOD.splitlines()
    body = [f" {old[0]}", f" {old[1]}", f"-{old[2]}", f"-{old[3]}", f"+{new[2]}", f"+{new[3]}", f" {old[4]}", f" {old[5]}"]
    no_end = "\\ No newline at end of file"
    assert out.splitlines() == ["--- bad.pipe", "+++ bad.pipe", "@@ -1,6 +1,6 @@", *body, no_end]


def test_fix_of_stdin_goes_to_stdout(folder: Path) -> None:
    done = call("check", "--fix", "-", stdin=BROKEN.encode())
    assert (done.code, done.out.decode(), done.err) == (0, GOOD, "-: ok, 2 components\n")


@pytest.mark.promise("check:fix:as-in-editors")
def test_a_file_whose_fix_cannot_be_written_stays_whole(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (folder / "bad.pipe").write_text(BROKEN)
    monkeypatch.setattr(os, "fsync", full)
    code, _, err = check(capsys, "--fix", "bad.pipe")
    assert (code, err) == (2, "rrext: bad.pipe: No space left on device\n")
    assert (folder / "bad.pipe").read_text() == BROKEN
    assert sorted(path.name for path in folder.iterdir()) == ["bad.pipe", "good.pipe"]


@pytest.mark.promise("check:fix:as-in-editors")
def test_a_file_that_changes_while_it_is_fixed_keeps_its_new_text(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "bad.pipe"
    path.write_text(BROKEN)
    monkeypatch.setattr(os, "fsync", lambda fd: path.write_text(f"{BROKEN}// saved by an editor\n"))
    code, _, err = check(capsys, "--fix", "bad.pipe")
    assert (code, err) == (2, "rrext: bad.pipe: it has changed meanwhile, and is not written\n")
    assert path.read_text() == f"{BROKEN}// saved by an editor\n"
    assert sorted(path.name for path in folder.iterdir()) == ["bad.pipe", "good.pipe"]


def test_a_fix_does_not_remove_a_pipeline_for_an_empty_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"components": [{"id": "w", "provider": "webhook"}], "components": []}'
    (folder / "bad.pipe").write_text(text)
    code, out, _ = check(capsys, "--fix", "bad.pipe")
    assert (code, "[duplicate_key]" in out) == (2, True)
    assert (folder / "bad.pipe").read_text() == text


def test_no_excerpt_shows_a_literal_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "sk-proj-aB3dE5fG7hJ9kL1mN3pQ5rS7"
    llm = {"id": "l", "provider": "llm_openai", "config": {"apikey": secret, "modle": "x"}}
    other = {"id": "o", "provider": "webhok"}
    (folder / "bad.pipe").write_text(json.dumps({"components": [{"id": "w", "provider": "webhook"}, llm, other]}))
    code, out, err = check(capsys, "bad.pipe")
    assert code == 2
    assert "[literal_secret]" in out
    assert '"apikey": ****' in out
    assert secret[8:] not in out + err


def test_a_file_that_is_no_text_is_not_rewritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.pipe").write_bytes(b'{"components": [], "name": "\xff", }')
    assert check(capsys, "--fix", "bad.pipe")[0] == 2
    assert (folder / "bad.pipe").read_bytes() == b'{"components": [], "name": "\xff", }'


def test_a_terminal_gets_colours_unless_no_color_is_set(folder: Path) -> None:
    (folder / "bad.pipe").write_text(BROKEN)
    with at_terminal(["check", "bad.pipe"], folder=folder) as terminal:
        assert terminal.ended() == 2
        assert b"\x1b[1;31merror\x1b[0m: " in terminal.raw
        assert "bad.pipe:3:29: error: There is no node" in terminal.shown
    with at_terminal(["check", "bad.pipe"], folder=folder, NO_COLOR="1") as terminal:
        assert terminal.ended() == 2
        assert b"\x1b[" not in terminal.raw


def test_the_mark_stands_below_a_text_with_invisible_characters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '{"components": [{"id": "a\u200b", "provider": "web\u200bhook", "config": {}}]}'
    (folder / "hidden.pipe").write_text(text, encoding="utf-8")
    _, out, _ = check(capsys, "hidden.pipe")
    shown, mark = out.splitlines()[1:3]
    assert shown[mark.index("^") : mark.rindex("^") + 1] == r'"web\u200bhook"'


# -- what this machine lacks


MOODY = """
from rrext import Node, tool_function

def no_schema(node):
    raise ValueError("no schema today")

class Moody(Node):
    provider = "moody"
    setup = None

    @tool_function(input_schema=no_schema)
    def vague(self, word: str = "") -> str:
        return word

    @tool_function(description=lambda node: node.shared.text)
    def later(self) -> str:
        return ""
"""


def with_tools(provider: str, config: dict[str, Any]) -> str:
    control = [{"classType": "tool", "from": "in"}]
    parts = [{"id": "in", "provider": "webhook", "config": {}}]
    return json.dumps({"components": [*parts, {"id": "it", "provider": provider, "config": config, "control": control}]})


def shown(out: str) -> list[tuple[str, str, str]]:
    """Severity, code and path of each problem of a file."""
    return [(problem["severity"], problem["code"], problem["path"]) for problem in json.loads(out)["problems"]]


@pytest.mark.parametrize(
    ("provider", "config", "setting"),
    [
        ("db_sqlite", {"path": "none.db"}, "path"),
        ("db_duckdb", {"path": "none.db", "create": True}, "path"),
        ("db_duckdb", {"files": {"t": "none.csv", "u": "*.csv"}}, "files"),
        ("graph_ladybug", {"path": "none.lbug"}, "path"),
        ("tool_filesystem", {"root": "none"}, "root"),
        ("parse", {"root": "none"}, "root"),
        ("embedding_local", {"path": "none"}, "path"),
    ],
)
def test_a_file_that_a_setting_names_and_that_is_not_there_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], provider: str, config: dict[str, Any], setting: str
) -> None:
    text = with_tools(provider, config)
    (folder / "a.pipe").write_text(text)
    code, out, _ = check(capsys, "--json", "a.pipe")
    assert code == 2
    assert ("error", "missing_file", f"/components/1/config/{setting}") in shown(out)
    found = next(problem for problem in json.loads(out)["problems"] if problem["code"] == "missing_file")
    assert text[found["column"] - 1 :].startswith(json.dumps(config[setting]))
    _, out, _ = check(capsys, "--json", "--no-probe", "a.pipe")
    assert "missing_file" not in out
    assert sorted(path.name for path in folder.iterdir()) == ["a.pipe", "good.pipe"]


def test_a_database_file_that_may_be_created_or_that_is_there_is_no_problem(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.pipe").write_text(with_tools("db_sqlite", {"path": "none.db", "create": True}))
    assert check(capsys, "a.pipe")[0] == 0
    (folder / "a.pipe").write_text(with_tools("db_sqlite", {"path": "some.db"}))
    (folder / "some.db").touch()
    assert check(capsys, "a.pipe")[0] == 0
    (folder / "root").mkdir()
    code, out, _ = check(capsys, "--json", "--root", "root", "a.pipe")
    assert code == 2, "relative paths begin at the root"
    assert "missing_file" in out


def test_a_path_out_of_the_root_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.pipe").write_text(with_tools("db_sqlite", {"path": "../some.db"}))
    code, out, _ = check(capsys, "--root", ".", "a.pipe")
    assert code == 2
    assert "leads out of the root" in out


def test_missing_packages_are_an_error_with_the_line_that_installs_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rrext.nodes.base.setup.find_spec", lambda _: None)
    (folder / "a.pipe").write_text(with_tools("db_duckdb", {"path": "none.db"}))
    code, out, _ = check(capsys, "--json", "a.pipe")
    assert code == 2
    assert shown(out) == [("error", "node_unavailable", "/components/1/provider")]
    assert 'pip install "rrext[duckdb]"' in json.loads(out)["problems"][0]["message"]
    assert check(capsys, "--no-probe", "a.pipe")[0] == 0


def test_a_variable_without_a_value_or_that_is_not_allowed_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.pipe").write_text(with_tools("db_sqlite", {"path": "${ROCKETRIDE_NOWHERE}/${HOME}.db"}))
    code, out, _ = check(capsys, "--json", "a.pipe")
    path = "/components/1/config/path"
    assert (code, shown(out)) == (2, [("error", "unresolved_variable", path), ("error", "variable_not_allowed", path)])
    code, out, _ = check(capsys, "--json", "--no-probe", "a.pipe")
    assert code == 0
    assert {severity for severity, _, _ in shown(out)} == {"warning"}


def test_a_tool_that_cannot_be_described_is_an_error_unless_its_node_must_be_set_up(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.pipe").write_text(with_tools("moody", {}))
    (folder / "moody.py").write_text(MOODY)
    code, out, _ = check(capsys, "--json", "--nodes", "moody.py", "a.pipe")
    assert (code, shown(out)) == (2, [("error", "tool_undescribed", "/components/1/provider")])
    assert "vague" in out
    assert "no schema today" in out
    assert check(capsys, "--no-probe", "--nodes", "moody.py", "a.pipe")[0] == 0


AUDITED = """
import json, os, sys
from rrext.cli.main import main

NEVER = {"socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec",
         "os.mkdir", "os.remove", "os.rename", "sqlite3.connect"}
seen = []

def audit(event, args):
    writes = event == "open" and args[2] is not None and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if event in NEVER or writes:
        seen.append([event, repr(args)])

sys.dont_write_bytecode = True
sys.addaudithook(audit)
main(["check", "--json", "all.pipe"])
print(json.dumps(seen))
"""


@pytest.mark.promise("check:probe:harmless")
def test_the_probe_of_any_node_connects_to_nothing_and_makes_no_file_and_no_process(folder: Path) -> None:
    from rrext.pipefile.catalog.catalog import Catalog

    parts: list[dict[str, Any]] = [{"id": "in", "provider": "webhook", "config": {}}]
    for name in Catalog(installed=False).names():
        parts.append({"id": f"x_{name}", "provider": name, "config": {}, "control": [{"classType": "tool", "from": "in"}]})
        parts.append(
            {"id": f"y_{name}", "provider": name, "config": {"path": "made/here", "create": True, "host": "h.invalid"}}
        )
    (folder / "all.pipe").write_text(json.dumps({"components": parts, "source": "in"}))
    done = subprocess.run([sys.executable, "-c", AUDITED], cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert sorted(path.name for path in folder.iterdir()) == ["all.pipe", "good.pipe"]
