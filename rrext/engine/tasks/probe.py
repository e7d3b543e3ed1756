"""The probe of `rrext check`: reasons why a pipeline without errors cannot run on this machine.

The probe runs no pipeline and no `setup`, connects to nothing and makes no file, so it is safe for a file from a stranger: it
asks node classes, which are rrext's, installed or named by the user, for missing packages and files, and computes the
descriptions of their tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from rrext.engine.tasks.component import Component, components_of
from rrext.engine.tasks.foreign import paths_outside
from rrext.errors import RrextError
from rrext.limits import MAX_PROBED_TEXT
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import path_below
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, below
from rrext.tools.context import NULL_PUBLISHER


class _NeedsSetup(Exception):
    """Raised where a description depends on what `setup` makes."""


class _Unmade:
    """Stands for the shared state of a node that is not set up."""

    def __getattr__(self, name: str) -> Any:
        raise _NeedsSetup(name)


_UNMADE: Final = _Unmade()


def probe(loaded: LoadedPipeline, *, directory: str, confined: bool, packages: Sequence[str] = ()) -> list[Problem]:
    """The reasons, as errors with paths. `directory` and `confined` as for the node objects of the pipeline. Packages beside
    `packages`, those that the operator offers, are warnings: programs without them run."""
    unavailable = cache(_unavailable)
    found: list[Problem] = []
    usable: dict[str, ComponentSpec] = {}
    asked = loaded.outline.resources
    for name in ("cpu", "gpu", "node"):
        if getattr(asked, name):
            text = f"On one machine {name} has no effect: it chooses among the nodes of a cluster."
            found.append(Problem("resources_ignored", "warning", text, below(loaded.base, "resources", name)))
    for draft in loaded.outline.components:
        if draft.node is None or draft.missing:
            continue
        reason = unavailable(draft.node)
        if reason is not None:
            found.append(Problem("node_unavailable", "error", f"{reason}.", below(draft.path, "provider")))
        else:
            usable[draft.id] = draft
            found += _missing(draft, loaded, directory, confined)
            found += _unmet(draft)
            found += _not_offered(draft, packages)
    if loaded.spec is not None:
        components = components_of(loaded, directory=directory, confined=confined)
        for component in components.values():
            if component.id in usable:
                found += _tools(component, usable[component.id])
    return found


def _unavailable(node_class: type[Node]) -> str | None:
    try:
        return node_class.unavailable()
    except Exception as error:
        return f"{node_class.__name__} could not say whether it can run here: {_described(error)}"


def _missing(draft: ComponentSpec, loaded: LoadedPipeline, directory: str, confined: bool) -> Iterator[Problem]:
    """The files and folders that the settings of a component name and that are not there."""
    node, unresolved = draft.node, ("unresolved_variable", "variable_not_allowed")
    if node is None or draft.settings is None:
        return
    if any(problem.code in unresolved and problem.path.startswith(f"{draft.path}/") for problem in loaded.problems):
        return

    def locate(name: str) -> str:
        return path_below(directory, name, confined=confined, node_id=draft.id)

    outside = list(paths_outside(draft, directory)) if confined else []
    yield from outside
    if outside:
        return
    try:
        for setting, message in node.missing(draft.settings, locate):
            code = "missing_file" if setting in node.paths else "invalid_config"
            yield Problem(code, "error", message, below(draft.section, setting))
    except RrextError as error:  # a path of a class that does not name its paths
        yield Problem("missing_file", "error", f"{error.message}.", draft.section)
    except Exception as error:
        text = f"{node.__name__} could not say whether its files are there: {_described(error)}"
        yield Problem("node_unavailable", "error", text, below(draft.path, "provider"))


def _unmet(draft: ComponentSpec) -> Iterator[Problem]:
    """The settings of a component that ask for what this machine does not have."""
    if draft.node is not None and draft.settings is not None:
        for setting, message in draft.node.unmet(draft.settings):
            yield Problem("node_unavailable", "error", f"{message}.", below(draft.section, setting))


def _not_offered(draft: ComponentSpec, packages: Sequence[str]) -> Iterator[Problem]:
    """The packages that the settings of a component name and that the operator does not offer."""
    if draft.node is not None and draft.settings is not None:
        for place, message in draft.node.not_offered(draft.settings, packages):
            yield Problem("package_not_offered", "warning", message, below(draft.section, *place))


def _tools(component: Component, draft: ComponentSpec) -> Iterator[Problem]:
    """The tools of a component that cannot be described. Descriptions that need `setup` are not computed."""
    component.shared = _UNMADE
    make: Callable[[], Node] = cache(lambda: component.new_object(NULL_PUBLISHER))
    for name, tool in component.node_class.tools.items():
        try:
            tool.describe(None if tool.static else make())
        except _NeedsSetup:
            continue
        except (Exception, SystemExit) as error:
            if not isinstance(error.__cause__, _NeedsSetup):
                text = f'The tool "{name}" cannot be described: {_described(error)}'
                yield Problem("tool_undescribed", "error", text, below(draft.path, "provider"))


def _described(error: BaseException) -> str:
    """The text of an exception of a node's code."""
    text = error.message if isinstance(error, RrextError) else f"{type(error).__name__}: {error}"
    return text[:MAX_PROBED_TEXT]


def folder_of(path: str) -> str:
    """The folder where relative paths of a pipeline file begin; the current one for standard input."""
    return os.getcwd() if path == "-" else os.path.dirname(os.path.abspath(path))
