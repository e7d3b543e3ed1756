"""A plugin of pytest, found by its entry point: files of cases beside pipelines hold tests. `-p no:rrext` leaves it out.

Nothing of rrext is loaded until there is such a file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

OPTIONS = {
    "nodes": "files and modules with nodes, as `--nodes` of rrext",
    "env": "names of variables that pipelines may read, as `--env`",
    "connections": "the file of connections, as `--connections`",
    "root": "the folder that no node's paths may leave, as `--root`",
    "python_packages": "packages that Python programs may import, as `--python-package`",
    "project": "the file of the project, as `--project`; else rrext.toml of the pipeline, where it is trusted",
    "no_project": "true: no rrext.toml that is found counts, as with `--no-project`",
}
"""The settings in pytest's configuration, whose names begin with `rrext_`; paths begin at its folder."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings."""
    for name, text in OPTIONS.items():
        kind = "args" if name in ("nodes", "env", "python_packages") else "bool" if name == "no_project" else "string"
        parser.addini(f"rrext_{name}", text, kind, default={"args": [], "bool": False, "string": None}[kind])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `NAME.cases.json` if it stands beside `NAME.pipe`."""
    name = file_path.name
    if not name.endswith(".cases.json") or not file_path.with_name(f"{name.removesuffix('.cases.json')}.pipe").is_file():
        return None
    from rrext.testing.pytest_cases import PipelineCases

    return PipelineCases.from_parent(parent, path=file_path)
