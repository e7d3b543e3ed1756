"""The rules for callers who are not trusted, such as clients on a network: forbidden settings, paths and servers.

A pipeline of such a caller gives itself no permission (`allow_…`), uses no path outside of the root, and connects to no server
at a private address. It reads the variables of its own `env`, and those that the option `--env` of the server names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rrext.engine.interface.call import Caller
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.tasks.finished import FinishedTask
from rrext.errors import Unavailable
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem


def refuse_permissions(loaded: LoadedPipeline) -> None:
    """Raise `InvalidPipeline` for a pipeline whose settings permit what only an operator may permit."""
    spec = loaded.require()
    loaded.add(
        Problem(
            "not_permitted",
            "error",
            f'"{name}" of "{component.id}" is a permission, which a pipeline of a network client may not give itself.',
            below(below(component.path, "config"), name),
        )
        for component in spec.components
        for name in _permissions(component.settings)
    )
    loaded.require()


def _permissions(settings: Any) -> Iterator[str]:
    names = settings if isinstance(settings, Mapping) else dir(settings)
    for name in names:
        if isinstance(name, str) and name.startswith("allow_"):
            given = settings[name] if isinstance(settings, Mapping) else getattr(settings, name)
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
