"""Makes tasks of the texts of pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rrext.engine.tasks.component_factory import components_of, references_of
from rrext.engine.tasks.foreign import refusals
from rrext.engine.tasks.registry import already_running
from rrext.engine.tasks.task import Task
from rrext.pipefile.pipeline_loader import load_pipeline

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.tasks.finished import FinishedTask
    from rrext.engine.tasks.registry import Tasks
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment


class TaskLoader:
    """Loads pipelines for one engine. `root` is the folder that no node setting may leave."""

    __slots__ = ("_catalog", "_environment", "_host", "_root", "_tasks")

    def __init__(self, host: Host, tasks: Tasks[Task], catalog: Catalog, environment: Environment, root: str | None) -> None:
        self._host = host
        self._tasks = tasks
        self._catalog = catalog
        self._environment = environment
        self._root = root

    def load(
        self,
        text: str | bytes | dict[str, Any],
        *,
        token: str | None = None,
        name: str | None = None,
        source: str | None = None,
        threads: int | None = None,
        ttl: float | None = None,
        owner: str | None = None,
        env: Mapping[str, str] | None = None,
        folder: str | None = None,
        use_existing: bool = False,
        partial: bool = False,
        remote: bool = False,
        trace: int = 0,
        replaces: Task | FinishedTask | None = None,
    ) -> Task:
        """A new task, which has not begun, or the one that runs in its place. `folder` is where relative paths begin without a
        root.

        A `remote` pipeline is that of a caller who is not trusted, see `rrext.engine.tasks.foreign`: it reads only its own
        `env` and the variables that the operator named, and no path outside of the root; without a root, none.
        `trace` is a level of `rrext.engine.events.trace`.
        With `partial`, components whose node or settings are missing here are unavailable, and the rest runs.
        If a task with that token or, without a token, with that owner, project and source runs already, it is returned
        if the caller wants to use it; else `TaskAlreadyRunning` is raised. Raises `InvalidPipeline` with all problems.
        """
        if use_existing and token is not None:
            running = self._tasks.running(token, owner if remote else None)
            if running is not None:
                return running  # a client may join a pipeline that it could not load
        options = {"name": name, "threads": threads, "ttl": ttl, "owner": owner, "env": env, "folder": folder}
        options |= {"partial": partial, "remote": remote, "trace": trace}
        environment = self._environment.for_client(env) if remote else self._environment.with_values(env)
        limits = self._host.limits
        loaded = load_pipeline(text, self._catalog, environment, source=source, partial=partial, limits=limits)
        if remote:
            loaded.add(refusals(loaded, self._root))
        directory, confined = self._root or folder or "", remote or bool(self._root)
        components = components_of(loaded, directory=directory, confined=confined, partial=partial, remote=remote)
        references = references_of(loaded.require(), components, remote=remote)
        task = Task(token, loaded, components, limits, references=references, clock=self._host.clock, options=options)
        same = self._tasks.find_same(token, task)
        if same is not None and use_existing:
            return same
        if same is not None and same is not replaces:
            raise already_running()
        if remote and not isinstance(replaces, Task):
            self._tasks.require_room(owner)
        return task
