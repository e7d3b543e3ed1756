"""`rrext init --template` and `rrext new node`: what they write runs at once, by the lines that they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT, Done, call, command, environment

from rrext.cli import starters
from rrext.cli.starters import NODE_PACKAGE, STARTERS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import ENTRY_POINTS
from rrext.project import NAME

LAST: dict[str, Any] = {
    "first": lambda done: done.value["count"] > 0,
    "documents": lambda done: "nine to five" in done.value["results"][0]["content"],
    "sql": lambda done: done.out == b"sum(people)\n161\n",
    "api": lambda done: "mcpServers" in done.rows,
    "chat": lambda done: b"llm_scripted" in done.out,
    "agent": lambda done: done.value["content"].startswith("The first file is "),
}
"""Template → whether its last line but that of its cases did what it is for.

`knowledge` has a module of tests, as its lines need words of a user.
"""


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))


def begun(template: str, folder: Path, name: str) -> list[list[str]]:
    """The words of the lines that `rrext init` prints."""
    folder.mkdir()
    done = call("init", "--template", template, name, cwd=folder)
    assert (done.code, done.out) == (0, b""), done
    first, *lines = done.err.splitlines()
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    assert first.startswith(f"rrext: {name}")
    assert all(each in first for each in names), first
    assert re.search(r" (is|are) written(; the project is trusted, as you made it)?\. Next:$", first)
    assert ("is trusted" in first) == ("rrext.toml" in names)
    for provider in Catalog().names():
        if f'"{provider}"' in (folder / name).read_text() and (missing := Catalog().class_of(provider).unavailable()):
            pytest.skip(missing)
    return [shlex.split(line) for line in lines]


@pytest.mark.promise("init:templates")
@pytest.mark.parametrize("name", ["it.pipe", "my \"own\" & 'it'.pipe"])
@pytest.mark.parametrize("template", sorted(STARTERS.keys() - {"knowledge"}))
def test_the_lines_of_a_template_work_as_they_are_printed(template: str, name: str, tmp_path: Path) -> None:
    lines = begun(template, tmp_path / "folder", name)
    checked = call("check", name, cwd=tmp_path / "folder")
    assert (checked.code, checked.err.startswith(f"{name}: ok, ")) == (0, True), checked
    done: dict[str, Done] = {}
    for program, *words in lines:
        done[words[0]] = call(*words, cwd=tmp_path / "folder")
        assert (program, done[words[0]].code) == ("rrext", 0), (words, done)
    cases = done.pop("test", None)
    assert (cases is None) == (template == "first")
    assert LAST[template]([*done.values()][-1]), done


def test_a_template_in_another_folder_works_from_here(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    done = call("init", "--template", "api", "shop/shop.pipe", cwd=tmp_path)
    for line in done.err.splitlines()[1:]:
        assert call(*shlex.split(line)[1:], cwd=tmp_path).code == 0
    assert call("tool", "get_order", "number=2", cwd=tmp_path / "shop").value["total"] == 80
    assert "Set url" in call("tool", "get_order", "number=3", cwd=tmp_path / "shop").err


@pytest.mark.parametrize("name", ["shop", "shop/", "shop/pipeline.pipe", "deep/shop"])
def test_a_folder_that_is_not_there_is_made_and_gets_a_pipeline(tmp_path: Path, name: str) -> None:
    done = call("init", name, "--template", "api", cwd=tmp_path)
    pipeline = tmp_path / name.removesuffix("/pipeline.pipe") / "pipeline.pipe"
    assert (done.code, pipeline.is_file()) == (0, True), done
    assert call("tool", "get_order", "number=2", cwd=pipeline.parent).value["total"] == 80
    second = call("init", str(pipeline.parent / "second.pipe"), "--template", "api", cwd=tmp_path)
    assert (second.code, "give another folder" in second.err, "another name" in second.err) == (2, True, False)


def test_a_folder_that_cannot_be_made_is_named_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "note.txt").touch()
    done = call("init", "note.txt/a.pipe", cwd=tmp_path)
    assert (done.code, done.err) == (2, "rrext: note.txt: Not a directory\n")
    assert call("init", "new/deep/a.pipe", "--template", "sql", cwd=tmp_path).code == 0
    done = call("init", f"gone/{'x' * 300}.pipe", cwd=tmp_path)
    assert (done.code, "File name too long" in done.err, (tmp_path / "gone").exists()) == (2, True, False)


@pytest.mark.parametrize("there", ["it.pipe", "it.cases.json", "it.py", "rrext.toml"])
def test_a_template_writes_all_of_its_files_or_none(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    done = call("init", "--template", "api", "it.pipe", cwd=tmp_path)
    assert (done.code, done.err) == (
        2,
        f"rrext: {there} is there already, and is not overwritten: "
        + (
            "a folder has one project: give another folder, as other/pipeline.pipe\n"
            if there == NAME
            else "give another name\n"
        ),
    )
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_a_project_that_cannot_be_trusted_is_written_all_the_same_and_says_what_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no folder").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no folder"))
    done = call("init", "--template", "api", "it.pipe", cwd=tmp_path)
    problem, first, *lines = done.err.splitlines()
    path = tmp_path / "rrext.toml"
    assert problem == (
        f"rrext: {tmp_path}/no folder/rrext: Not a directory: "
        f"rrext.toml counts after `rrext trust {shlex.quote(str(path))}`, which comes first"
    )
    assert (done.code, first, bool(lines)) == (
        0,
        "rrext: it.pipe, it.cases.json, it.py and rrext.toml are written. Next:",
        True,
    )
    assert path.exists()


@pytest.mark.parametrize("template", sorted(STARTERS.keys() - {"api"}))  # which names a node of its own
def test_a_template_on_stdout_is_a_pipeline_alone(tmp_path: Path, template: str) -> None:
    written = call("init", "--template", template, "-", cwd=tmp_path)
    assert (written.code, list(tmp_path.iterdir())) == (0, [])
    assert call("check", "--no-probe", "-", stdin=written.out, cwd=tmp_path).code == 0


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package of a new node."""
    done = call("new", "node", "word-count", cwd=tmp_path)
    assert (done.code, done.out) == (0, b"")
    assert done.err.splitlines()[1:] == [
        "  cd word-count",
        "  pip install -e . && pytest",
        "  rrext tool word_count.pipe count_words text='one two'",
    ]
    return tmp_path / "word-count"


@pytest.mark.timeout(240)  # four programs, pytest among them
def test_a_new_node_passes_its_tests_and_its_entry_point_leads_to_it(package: Path) -> None:
    path = os.pathsep.join([str(package), environment()["PYTHONPATH"]])
    ran = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-c", os.devnull]
    done = subprocess.run(
        [*ran, str(package)], cwd=package, env=environment(PYTHONPATH=path, PYTEST_ADDOPTS=""), capture_output=True, text=True
    )
    assert "2 passed" in done.stdout, done
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][ENTRY_POINTS] == {"word_count": "word_count:WordCount"}
    called = call("tool", "--nodes", "word_count.py", "word_count.pipe", "count_words", "text=I see it", cwd=package)
    assert called.value == {"words": 2}
    assert call("nodes", "--nodes", "word_count.py", "word_count", cwd=package).code == 0


@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_package_of_a_new_node_installs_by_the_line_that_is_printed(package: Path) -> None:
    place = package / "v"
    venv.create(place, with_pip=True)
    run = {"cwd": package, "check": True, "capture_output": True, "text": True}
    subprocess.run([place / "bin" / "pip", "install", "-q", ROOT, "pytest"], **run)
    line = "pip install -q -e . && pytest -q && rrext tool word_count.pipe count_words text='one two'"
    path = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    done = subprocess.run(["sh", "-c", line], env={**os.environ, "PATH": path, "PYTHONPATH": ""}, **run)
    assert done.stdout.splitlines()[-1] == '{"words":2}'
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json", "means something else in Python"),
        ("class", "means something else in Python"),
        ("agent", "is a node already"),
        ("rrext", "is a node already"),
        ("pytest", f"is a module here already ({pytest.__file__})"),
        ("msgspec", "is a module here already"),
        ("conftest", "means something else to pip, pytest or Python"),
        ("setup", "means something else to pip, pytest or Python"),
        ("../x", "is no name of a node"),
        ("Two words", "is no name of a node"),
        ("", "is no name of a node"),
    ],
)
def test_a_name_that_cannot_be_a_node_writes_nothing(tmp_path: Path, name: str, said: str) -> None:
    done = call("new", "node", name, cwd=tmp_path)
    assert (done.code, said in done.err, list(tmp_path.iterdir())) == (2, True, [])


def test_a_new_node_overwrites_no_folder(package: Path) -> None:
    before = (package / "pyproject.toml").read_text()
    done = call("new", "node", "word-count", cwd=package.parent)
    assert (done.code, done.err) == (2, "rrext: word-count: File exists\n")
    assert (package / "pyproject.toml").read_text() == before


def test_a_new_node_that_cannot_be_written_leaves_no_folder(tmp_path: Path) -> None:
    line = 'ulimit -f 0; exec "$@"'
    words = ["sh", "-c", line, "sh", *command("new", "node", "word-count")]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


def test_each_file_in_the_folders_of_templates_is_written_by_one() -> None:
    folder = Path(starters.__file__).parent
    names = {*STARTERS, NODE_PACKAGE.name}
    there = {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert {path.split("/")[0] for path in there} == names
    sources = [each.sources() for each in (*STARTERS.values(), NODE_PACKAGE)]
    assert there == {source for each in sources for source in each.values()}
