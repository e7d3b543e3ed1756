"""Packages that the operator offers and a pipeline allows: programs import these, with what they need, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import install, install_samples
from guests import Guests
from hypothesis import given
from hypothesis import strategies as st

from rrext.cli.main import main
from rrext.errors import InvalidPipeline, Unavailable
from rrext.nodes.sandbox.engine import SandboxEngine
from rrext.nodes.sandbox.node import Grant, Sandbox
from rrext.nodes.sandbox.packages import OfferedPackages, offered
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    install_samples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def below(site: Path, grant: Grant) -> set[str]:
    return {os.path.relpath(path, site) for path in grant.paths}


# What is granted


def test_a_package_comes_with_what_it_needs_and_nothing_else(site: Path) -> None:
    grant = OfferedPackages(["shapes"]).grant(["shapes"])
    metadata = {"Thin_Lines-1.2.dist-info", "shapes-1.2.dist-info"}
    assert below(site, grant) == {"shapes", "shapes.libs/libshape.so", "lines.py", *metadata}
    assert set(grant.modules) == {"shapes", "lines"}
    assert grant.names == ("shapes 1.2",)


def test_of_a_shared_folder_only_the_part_of_the_distribution_is_granted(site: Path) -> None:
    grant = OfferedPackages(["circles"]).grant(["shared"])
    assert below(site, grant) == {"shared/circles", "circles-1.2.dist-info"}
    assert set(grant.modules) == {"shared", "shared.circles"}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("lines", "thin.lines"), ("lines", "lines.deep"), ("Thin-Lines", "lines"), ("thin_lines", "Thin-Lines")],
)
def test_packages_are_named_by_their_own_name_or_that_of_the_distribution(site: Path, name: str, allowed: str) -> None:
    assert OfferedPackages([name]).grant([allowed]).names == ("lines 1.2",)


def test_what_is_offered_is_read_once(site: Path) -> None:
    assert offered(("circles", "far")) is offered(("circles", "far"))


def test_a_package_must_be_both_offered_and_allowed(site: Path) -> None:
    offer = OfferedPackages(["shapes", "squares"])
    grant = offer.grant(["squares", "circles", "json"])
    assert grant.names == ("shared.squares 1.2",)
    assert grant.refused == {
        "shapes": "the server offers it, but `allowedModules` of this component does not name shapes",
        "lines": "the server offers it, but `allowedModules` of this component does not name lines",
        "circles": "this server does not offer it: the operator may offer it with --python-package circles",
    }
    assert offer.grant([]).paths == OfferedPackages([]).grant(["squares"]).paths == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shapess", 'no package "shapess" is installed beside this server \\(did you mean shapes'),
        ("", 'no package "" is installed'),
        ("../shapes", "no package"),
        ("linked", "linked cannot be offered to programs: it is an editable install"),
        ("needs-linked", "linked cannot be offered to programs: it is an editable install"),
        ("unrecorded", "its files are not recorded"),
        ("scripts", "it has no package that they could import"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_the_reason(site: Path, name: str, words: str) -> None:
    with pytest.raises(Unavailable, match=words):
        OfferedPackages([name])


def test_the_remains_of_what_pip_could_not_remove_are_no_package(site: Path) -> None:
    install(site, "~hin-Lines", {"lines.py": "number = 3\n"})
    (site / "~hin_Lines-1.2.dist-info" / "METADATA").unlink()
    assert OfferedPackages(["lines"]).grant(["lines"]).names == ("lines 1.2",)
    for name in ("linez", "~hin-Lines"):
        with pytest.raises(Unavailable, match=f'no package "{name}" is installed .*did you mean'):
            OfferedPackages([name])


@given(st.lists(st.lists(st.sampled_from(["", ".", "..", "a", "b", "__init__.py", "m.py", "x.so"]), min_size=1, max_size=4)))
def test_no_record_leads_out_of_the_installed_packages_or_to_all_of_them(names: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        site = Path(folder, "site")
        (site / "a" / "b").mkdir(parents=True)
        install(site, "odd", {"odd.py": "", "a/m.py": ""}, also_recorded=map("/".join, names))
        patch.syspath_prepend(site)
        for path in OfferedPackages(["odd"]).grant(["odd"]).paths:
            assert os.path.realpath(path).startswith(f"{site}/")
            inside = os.path.relpath(path, site)
            assert os.path.isfile(path) or inside.endswith(".dist-info") or f"{inside}/__init__.py" in map("/".join, names)


# What people are told


def pipeline(*allowed: Any) -> dict[str, Any]:
    python = {"id": "python_1", "provider": "tool_python", "config": {"allowedModules": allowed[0] if allowed else []}}
    return {"components": [{"id": "in", "provider": "webhook"}, {**python, "control": [{"classType": "tool", "from": "in"}]}]}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], str]:
    def write(allowed: Any) -> str:
        path = tmp_path / "python.pipe"
        path.write_text(json.dumps(pipeline(allowed)))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("allowed", "path"),
    [
        ("shapes", ""),
        ({"moduleName": "shapes"}, ""),
        ([{"moduleName": "shapes"}, 5], "/1"),
        ([{"moduleName": 5}], "/0/moduleName"),
        ([["shapes"]], "/0"),
        ([None], "/0"),
    ],
)
def test_a_list_that_is_none_is_refused_with_its_path(allowed: Any, path: str) -> None:
    loaded = load_pipeline(pipeline(allowed), Catalog(installed=False), Environment())
    with pytest.raises(InvalidPipeline):
        loaded.require()
    assert [(each.code, each.path) for each in loaded.problems] == [
        ("invalid_config", f"/components/1/config/allowedModules{path}")
    ]


def test_check_names_the_packages_that_are_not_offered_and_the_option(
    site: Path, written: Callable[[Any], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rrext.nodes.sandbox.node.PythonNode.unavailable", lambda: None)
    names = ["shapes", "", "json"], ["nowhere.deep", "x==1"]
    rows = [[{"moduleName": name} for name in some] for some in names]
    path = written([*rows[0], "squares", *rows[1]])
    code, out = main(["check", "--json", "--python-package", "shapes", path]), capsys.readouterr().out
    found = [(each["severity"], each["code"], each["path"]) for each in json.loads(out)["problems"]]
    places = ["3", "4/moduleName", "5/moduleName"]
    assert found == [("warning", "package_not_offered", f"/components/1/config/allowedModules/{place}") for place in places]
    assert "--python-package squares." in out
    assert "--python-package nowhere." in out
    assert "this is no name of a package" in out
    assert code == 0, "the rest of the programs runs"


@pytest.mark.parametrize("command", [["serve"], ["check"], ["tools"]])
def test_a_command_with_a_package_that_is_not_installed_does_not_start(
    site: Path, written: Callable[[Any], str], command: list[str]
) -> None:
    line = [sys.executable, "-m", "rrext", *command, "--python-package", "shapess", written([])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False)
    assert (ended.returncode, "did you mean shapes" in ended.stderr) == (2, True), ended.stderr


# What programs can do: those of `guests` may import `shapes` and `circles`, and `squares` is only offered


@pytest.mark.system
@pytest.mark.promise("python:packages:granted")
def test_a_program_imports_what_is_granted_with_its_data_and_metadata(guests: Guests) -> None:
    code = """
        import importlib.metadata as m, importlib.resources as r
        import far, shapes, shared.circles
        names = sorted(each.name for each in m.distributions())
        colours = r.files(shapes).joinpath("colours.txt").read_text()
        result = [shapes.edges, shared.circles.r, far.distance, colours, m.version("Thin.Lines"), names]
        """
    assert guests.result(code) == [7, 1, 9, "red\n", "1.2", ["Thin-Lines", "circles", "far", "shapes"]]


@pytest.mark.system
@pytest.mark.promise("python:packages:granted")
def test_a_program_reads_nothing_else_of_the_installed_packages(guests: Guests) -> None:
    code = """
        import importlib, os, shapes, sys
        site = os.path.dirname(os.path.dirname(shapes.__file__))
        sys.path.append(site)
        result = {"imported": [], "read": [], "seen": []}
        for name in ("beside", "shared.squares", "squares", "unrecorded", "pytest", "rrext"):
            try:
                importlib.import_module(name)
            except (ImportError, OSError):
                continue
            result["imported"].append(name)
        for path in ("secret.txt", "beside/__init__.py", "shared/squares/__init__.py", "squares-1.2.dist-info/METADATA"):
            try:
                open(os.path.join(site, path)).close()
            except OSError:
                continue
            result["read"].append(path)
        try:
            result["seen"] = [name for name in os.listdir(site) if name.startswith(("secret", "beside", "squares"))]
        except OSError:
            pass
        """
    assert guests.result(code) == {"imported": [], "read": [], "seen": []}


@pytest.mark.system
@pytest.mark.promise("python:packages:granted")
def test_a_program_changes_no_package(guests: Guests) -> None:
    code = """
        import os, shapes
        folder, result = os.path.dirname(shapes.__file__), []
        for attempt in (
            lambda: open(folder + "/corners.py", "a"), lambda: open(folder + "/new.py", "w"), lambda: os.chmod(folder, 0),
            lambda: os.remove(shapes.__file__), lambda: os.truncate(shapes.__file__, 0), lambda: os.mkdir(folder + "/new"),
        ):
            try:
                attempt()
                result.append("changed")
            except OSError:
                pass
        """
    assert guests.result(code) == []


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shared.squares", "No module named 'shared.squares'"),
        ("torch", "this server does not offer it: the operator may offer it with --python-package torch"),
    ],
)
def test_an_import_that_fails_says_why(guests: Guests, name: str, words: str) -> None:
    run = guests.run(f"import {name}")
    assert run.exit_code == 1
    assert words in run.stderr


@pytest.mark.system
def test_a_traceback_through_a_package_does_not_tell_where_it_is_installed(guests: Guests) -> None:
    run = guests.run("import shapes.corners; shapes.corners.fail()")
    assert 'File "<packages>/shapes/corners.py", line 3, in fail' in run.stderr


@pytest.mark.system
def test_a_module_of_the_standard_library_is_not_replaced(
    engine: SandboxEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "json-too", {"json/__init__.py": "fake = 1\n", "colorsys.py": "fake = 1\n", "own.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    sandbox = Sandbox(OfferedPackages(["json-too"]).grant(["own"]), engine.name)
    try:
        assert Guests(sandbox).result("import json, colorsys; result = [hasattr(json, 'fake'), hasattr(colorsys, 'fake')]") == [
            False,
            False,
        ]
    finally:
        sandbox.close()
