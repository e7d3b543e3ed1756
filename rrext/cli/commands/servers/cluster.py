"""`rrext cluster check`: whether tasks can run on the nodes of a cluster, and what is wrong there."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import terminal_width
from rrext.cli.console.output import print_error
from rrext.cli.console.tables import table
from rrext.cli.options import Command, add_pipeline_options, catalog_from, environment_from
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Tool
from rrext.errors import RrextError, UsageError
from rrext.limits import DEFAULTS, GIB

if TYPE_CHECKING:
    from rrext.cluster.engine import ClusterEngine
    from rrext.cluster.placement import NodeState
    from rrext.tasks.remote_tasks import RemoteTask

DESCRIPTION = "Look at a cluster: its nodes, their versions, the time of a call, and what is wrong."
EXAMPLE = """examples:
  rrext cluster check --cluster 127.0.0.1:6379
  RAY_ADDRESS=head.example:6379 RAY_AUTH_MODE=token rrext cluster check --cluster auto --nodes nodes.py

A pipeline runs on each node for a moment, as those of `rrext serve --cluster` do. Exit code 0: tasks run on every node.
1: something is wrong on a node, or the cluster does not answer. 2: the command is wrong.
"""
CALLS: Final = 50
"""Calls of a node whose middle time is told: each takes a tenth of a millisecond."""

CHECKER: Final = Caller("rrext cluster check")
PIPELINE: Final = {
    "source": "webhook_1",
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {
            "id": "memory_1",
            "provider": "memory_internal",
            "config": {},
            "control": [{"classType": "memory", "from": "webhook_1"}],
        },
    ],
}
"""A pipeline whose tools need no package."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=("check",), metavar="check", help="look at the cluster")
    parser.add_argument("--cluster", metavar="HOST:PORT", default="auto", help="the head of the cluster (auto: RAY_ADDRESS)")
    parser.add_argument("--json", action="store_true", help="one JSON object for each node")
    add_pipeline_options(parser)


def run(args: argparse.Namespace) -> int:
    """Look; returns the exit code."""
    from rrext.cluster.ray_placement import head_of, take_ray_variables

    try:
        variables = take_ray_variables()
        head = head_of(args.cluster, variables)
        environment, connections = environment_from(args)
        given = {"catalog": catalog_from(args), "environment": environment, "connections": connections}
    except UsageError as error:
        print_error(error)
        return EXIT_USAGE
    return asyncio.run(_check(args, given, head, variables))


CLUSTER = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


class Finding(msgspec.Struct):
    """What is known of a node. `call` is the middle time of a call in seconds, `problem` what is wrong."""

    node: str
    number: str
    address: str
    cpu: str
    gpu: str
    memory: str
    versions: str = ""
    call: float | None = None
    problem: str = ""


async def _check(args: argparse.Namespace, given: dict[str, Any], head: str, variables: dict[str, str]) -> int:
    from rrext.cluster.engine import ClusterEngine
    from rrext.tasks.settings import WorkerSettings

    settings = WorkerSettings(number=0, limits=DEFAULTS, nodes=list(args.nodes), packages=list(args.python_packages))
    engine = ClusterEngine(**given, settings=settings, head=head, variables=variables)
    try:
        versions = await engine.placement.versions()
        found = await findings(engine, await engine.placement.nodes())
    except RrextError as error:
        print_error(error)
        return EXIT_FAILED
    finally:
        await engine.aclose()
    if args.json:
        for finding in found:
            print(msgspec.json.encode(finding).decode())
    else:
        print(f"cluster {head}: Ray {versions['ray']}, {len(found)} node{'s' * (len(found) != 1)}")
        rows = [
            (each.node, each.address, each.cpu, each.gpu, each.memory, each.versions, _shown(each.call), each.problem)
            for each in found
        ]
        heads = ("node", "address", "cpu", "gpu", "memory", "versions", "call", "problem")
        for line in table(heads, rows, width=terminal_width() if sys.stdout.isatty() else None):
            print(line)
    return EXIT_FAILED if any(each.problem for each in found) or not found else EXIT_DONE


async def findings(engine: ClusterEngine, nodes: list[NodeState]) -> list[Finding]:
    """Run a pipeline on each node: they are loaded at once, as many as the engine starts, and called one after the other."""
    found = [_finding(node) for node in nodes]
    tasks = await asyncio.gather(*(_load(engine, each) for each in found))
    for finding, task in zip(found, tasks, strict=True):
        if task is not None:
            finding.versions = engine.versions_of(task)
            await _call(engine, finding, task)
    return found


def _finding(node: NodeState) -> Finding:
    cpu, gpu = (f"{node.free[name]:g} of {node.total[name]:g}" for name in ("cpu", "gpu"))
    memory = f"{node.free['memory'] / GIB:.1f} of {node.total['memory'] / GIB:.1f} GiB"
    finding = Finding(node.name, node.number, node.address, cpu, gpu, memory)
    if node.is_draining:
        finding.problem = "it is drained: it gets no tasks"
    return finding


async def _load(engine: ClusterEngine, finding: Finding) -> RemoteTask | None:
    if finding.problem:
        return None
    try:
        given = {**PIPELINE, "resources": {"node": finding.number}}
        return await engine.loader.load(given, token=f"check-{finding.number}")
    except RrextError as error:
        finding.problem = _told(error)
        return None


async def _call(engine: ClusterEngine, finding: Finding, task: RemoteTask) -> None:
    try:
        times = []
        for _ in range(CALLS):
            began = time.perf_counter()
            operation = Tool(tool="put", input={"key": "a", "value": 1}, token=task.token)
            await engine.ask(operation, CHECKER)
            times.append(time.perf_counter() - began)
        finding.call = median(times)
    except RrextError as error:
        finding.problem = _told(error)


def _told(error: RrextError) -> str:
    return f"{error.message}{f' ({error.hint})' if error.hint else ''}"


def _shown(call: float | None) -> str:
    return "" if call is None else f"{call * 1000:.2f} ms"
