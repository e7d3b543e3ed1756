"""The rules for callers who are not trusted, such as clients on a network: forbidden settings, paths and servers; and that for
paths in a task on another machine.

A pipeline of such a caller gives itself no permission (`allow_…`), uses no path outside of the root, and connects to no server
at a private address. It reads the variables of its own `env`, and those that the option `--env` of the server names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rrext.engine.interface.call import Caller
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.tasks.registry import FinishedTask
from rrext.errors import Unavailable
from rrext.nodes.base.setup import path_below
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, below


def refusals(loaded: LoadedPipeline, root: str | None) -> Iterator[Problem]:
    """What only an operator may permit: permissions among the settings, and paths out of the root."""
    for component in loaded.outline.components:
        for name in _permissions(component.settings):
            text = f'"{name}" of "{component.id}" is a permission, which a pipeline of a network client may not give itself.'
            yield Problem("not_permitted", "error", text, below(component.section, name))
        yield from paths_outside(component, root)


def paths_outside(component: ComponentSpec, root: str | None) -> Iterator[Problem]:
    """The paths of a component that lead out of the root, also by a symbolic link; all paths if there is no root.

    A variable without a value is another problem. Nodes look again when they use a path, because a link may be new then.
    """
    for name, pointer, path in _paths(component):
        try:
            path_below(root or "", path, confined=True, node_id=component.id)
        except Unavailable as error:
            yield Problem("not_permitted", "error", f"{error.message}. {error.hint}", pointer)
        except ValueError:  # a zero byte, which the settings of a node may refuse by themselves
            yield Problem("not_permitted", "error", f'"{name}" of "{component.id}" is no path.', pointer)


def _paths(component: ComponentSpec) -> Iterator[tuple[str, str, str]]:
    """The paths among the settings of a component: setting, pointer and path."""
    for name in component.node_class.paths if component.settings is not None else ():
        value = _value(component.settings, name)
        places = {below(component.section, name): value}
        if isinstance(value, Mapping):
            places = {below(pointer, key): path for pointer in places for key, path in value.items()}
        elif not isinstance(value, str) and isinstance(value, Sequence):
            places = {below(pointer, n, "path"): _value(one, "path") for pointer in places for n, one in enumerate(value)}
        for pointer, path in places.items():
            if isinstance(path, str) and path and "${" not in path and path not in component.node_class.no_paths:
                yield name, pointer, path


class PathRule(msgspec.Struct, frozen=True):
    """Which paths a task may use on another machine than its server's: with `shares_root` those of a root that all share."""

    shares_root: bool = False

    def refusals(self, loaded: LoadedPipeline) -> Iterator[Problem]:
        """The settings with a path, unless the pipeline names the node where its paths are."""
        if loaded.outline.resources.node is not None:
            return
        for component in loaded.outline.components:
            node_class, may_share = component.node_class, component.node_class.paths_may_be_shared
            if component.settings is None or (may_share and self.shares_root):
                continue
            places = [(name, pointer) for name, pointer, _ in _paths(component)]
            files = node_class.machine_files(component.settings)
            for name, pointer in (*places, *((name, below(component.section, name)) for name in files)):
                ways = 'name the node where it is ("resources": {"node": "NAME"})'
                ways += ", or share the folder of --root among all nodes (--shared-root)" if may_share else ""
                text = f'"{name}" of "{component.id}" is a path, and a cluster has many machines: {ways}.'
                yield Problem("not_on_cluster", "error", text, pointer)


def _value(settings: Any, name: str) -> Any:
    return settings.get(name) if isinstance(settings, Mapping) else getattr(settings, name, None)


def _permissions(settings: Any) -> Iterator[str]:
    names = settings if isinstance(settings, Mapping) else dir(settings)
    for name in names:
        if isinstance(name, str) and name.startswith("allow_"):
            given = _value(settings, name)
            if given is not False and given is not None:
                yield name


def require_owner(task: TaskIdentity | FinishedTask, caller: Caller) -> None:
    """Raise `Unavailable` for a caller who is not trusted and may use a task, but not end it, because it is not its own."""
    if not caller.trusted and task.scope != caller.user_id:
        raise Unavailable("This pipeline is the server's: its clients may use it, and not end it")


def require_loading(caller: Caller) -> None:
    """Raise `Unavailable` for a caller who may use some tools alone: its pipelines could give any tool an allowed name."""
    if caller.tools is not None and not caller.trusted:
        raise Unavailable("this server offers some tools alone (--tools): only who started it loads pipelines")
