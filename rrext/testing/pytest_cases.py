"""Cases of pipelines as tests of pytest, see `rrext.pytest_plugin`."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rrext.columns import one_line, printable
from rrext.connections import NO_CONNECTIONS, Connections, load_connections
from rrext.errors import RrextError
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes
from rrext.pipefile.environment import Environment
from rrext.project import ProjectSettings, find_project, named_project
from rrext.testing.case_file import Case, CaseFile
from rrext.testing.case_runner import CaseRunner, Surroundings


class CaseFailed(Exception):
    """A case went otherwise than expected; the text says how."""


class PipelineCases(pytest.File):
    """The cases of one pipeline, which share what a run of `rrext test` shares."""

    _cases: CaseFile
    _loop: asyncio.Runner | None = None
    _runner: CaseRunner | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """The cases. Raises for a file with errors."""
        self._cases = CaseFile(str(self.path), self.path.read_bytes())
        errors = [each for each in self._cases.problems if each.severity == "error"]
        if errors:
            places = [":".join(map(str, (self.path, *self._cases.place(each)))) for each in errors]
            told = [f"{place}: {each.message}" for place, each in zip(places, errors, strict=True)]
            raise self.CollectError("\n".join(told))
        for case in self._cases.cases:
            yield PipelineCase.from_parent(self, name=one_line(case.name), case=case, line=self._cases.line_of(case))

    def teardown(self) -> None:
        """End the pipelines."""
        loop, self._loop = self._loop, None
        if loop is not None:
            if self._runner is not None:
                loop.run(self._runner.aclose())
            loop.close()

    def run_case(self, case: Case) -> None:
        """Run a case; the first one makes what they share. Raises `CaseFailed`."""
        if self._runner is None:
            try:
                self._runner = CaseRunner(self._cases, _surroundings(self.config, self.path))
            except RrextError as error:
                raise CaseFailed(error.message) from None
        if self._loop is None:
            self._loop = asyncio.Runner()
        outcome = self._loop.run(self._runner.run(case))
        if outcome.verdict == "failed":
            raise CaseFailed("\n".join(outcome.details))


class PipelineCase(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, line: int, **options: Any) -> None:
        super().__init__(**options)
        self.funcargs: dict[str, Any] = {}  # other plugins look for it, as an item of doctest has it too
        self._case = case
        self._line = line

    def runtest(self) -> None:
        """Run it."""
        assert isinstance(self.parent, PipelineCases)
        self.parent.run_case(self._case)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is not as expected, without the lines of rrext that found it."""
        if isinstance(excinfo.value, CaseFailed):
            return printable(f"{self.path}:{self._line}: {self.name}\n{excinfo.value}")
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the case; pytest counts lines from 0."""
        return self.path, self._line - 1, self.name


def _surroundings(config: pytest.Config, pipeline: Path) -> Surroundings:
    folder = str(config.rootpath)
    given: dict[str, Any] = {name: config.getini(f"rrext_{name}") for name in ("nodes", "env", "python_packages")}
    given |= {name: _below(folder, config.getini(f"rrext_{name}")) for name in ("root", "connections")}
    settings = _project(config, pipeline).over(given)
    nodes = settings["nodes"]

    def catalog() -> Catalog:
        found = Catalog()
        for name in nodes:
            for node_class in load_nodes(os.path.join(folder, name) if name.endswith(".py") else name):
                found.add(node_class)
        return found

    path = settings["connections"]
    known: Connections = NO_CONNECTIONS if not path else load_connections(path)
    return Surroundings(
        catalog=catalog,
        environment=Environment.of_process(settings["env"]),
        connections=known,
        root=settings["root"],
        packages=tuple(settings["python_packages"]),
    )


def _below(folder: str, path: str | None) -> str | None:
    return os.path.join(folder, path) if path else None


def _project(config: pytest.Config, pipeline: Path) -> ProjectSettings:
    """The settings that count of the project; a warning tells of others."""
    named: str | None = config.getini("rrext_project")
    if named:
        return named_project(os.path.join(str(config.rootpath), named)).allowed
    project = None if config.getini("rrext_no_project") else find_project(str(pipeline.parent))
    if project is not None and project.notice is not None:
        warnings.warn(pytest.PytestWarning(project.notice), stacklevel=1)
    return ProjectSettings() if project is None else project.allowed
