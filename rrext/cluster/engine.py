"""The engine of a server whose tasks run on the nodes of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rrext.cluster.certificates import new_identity
from rrext.cluster.hosts import ClusterLinks, DistantWorker
from rrext.cluster.loads import ClusterLoads
from rrext.cluster.ray_placement import RayPlacement
from rrext.engine.tasks.foreign import PathRule
from rrext.errors import RrextError
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.tasks.remote_tasks import STOP_MARGIN, LocalLinks
from rrext.tasks.task_engine import TaskEngine

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.pipefile.text.problems import Problem
    from rrext.tasks.remote_tasks import RemoteTask, WorkerLinks
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.worker import Worker
    from rrext.transports.tls import Identity

PlacementMaker = Callable[["Host", "Identity"], RayPlacement]

log = logging.getLogger("rrext.cluster")


class ClusterEngine(TaskEngine):
    """Runs each task on a node of a cluster of Ray. Made on the loop's thread.

    `head` is the address of the head, `variables` are those of Ray, and `most` is what pipelines of network clients may ask
    for. What requests name without a pipeline runs in a process on this machine.
    """

    placement: RayPlacement

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        head: str,
        variables: Mapping[str, str],
        most: Resources = NO_RESOURCES,
        **given: Any,
    ) -> None:
        identity = new_identity("rrext server")

        def links(host: Host) -> WorkerLinks:
            self.placement = RayPlacement(host, head, identity.certificate, variables)
            return ClusterLinks(self.placement, identity, host, settings)

        super().__init__(settings=settings, links=links, **given)
        self._local = self.outside_links = LocalLinks(self.host)
        self._loads = ClusterLoads(self.host, self.catalog, self.environment, self.host.connections, most)
        self._paths = PathRule(shares_root=settings.shares_root)
        self._moving: set[str] = set()
        """The tokens of pipelines that are being loaded on another node."""
        self._draining: frozenset[str] = frozenset()
        self.placement.when_draining(self._note_draining)

    async def prepare(self, pipeline: Any, options: Mapping[str, Any]) -> tuple[Resources, dict[str, Any]]:
        return await self._loads.prepare(pipeline, options)

    def refusals(self, loaded: LoadedPipeline, is_remote: bool) -> Iterator[Problem]:
        yield from self._paths.refusals(loaded)
        yield from self._loads.refusals(loaded, is_remote)

    async def aclose(self) -> None:
        await super().aclose()
        await self._local.close(STOP_MARGIN)

    def versions_of(self, task: RemoteTask) -> str:
        """The versions of the machine of a task."""
        link = task.worker.link
        return str(link.versions) if isinstance(link, DistantWorker) else ""

    # -- nodes that are drained

    def _note_draining(self, nodes: frozenset[str]) -> None:
        self._draining = nodes
        self.pool.drop_warm(self._is_leaving)
        for task in self.tasks:
            self._go_elsewhere(task)

    def _is_leaving(self, worker: Worker) -> bool:
        return worker.link.node_number in self._draining

    def begin(self, task: RemoteTask) -> None:
        super().begin(task)
        self._go_elsewhere(task)  # its node may have begun to leave while it was loaded

    def _go_elsewhere(self, task: RemoteTask) -> None:
        """Load a pipeline of the operator on another node if its own leaves; those of clients stay while their nodes do."""
        if self._is_leaving(task.worker) and task.token not in self._moving and self.is_of_file(task):
            self._moving.add(task.token)
            self.host.spawn(self._move(task), f"{task.name} to another node")

    async def _move(self, task: RemoteTask) -> None:
        try:
            await self.exchange(task, patience=self.limits.drain)
        except RrextError as error:
            log.error("pipeline %s cannot be loaded on another node: %s", task.token, error.message)
        finally:
            self._moving.discard(task.token)
