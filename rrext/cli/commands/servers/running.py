"""`rrext ps`, `rrext logs`, `rrext stop`: what a running server has loaded, what it says, and the end of a pipeline."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED
from rrext.cli.console.lines import duration, terminal_width
from rrext.cli.console.output import Results, print_error
from rrext.cli.console.tables import table
from rrext.cli.options import KEY, Command
from rrext.columns import one_line
from rrext.errors import RrextError, TaskNotRegistered

if TYPE_CHECKING:
    from rrext.client.client import Client

ADDRESS: Final = "unix:PATH|ws://HOST:PORT"
HEADS: Final = ("TOKEN", "STATE", "FOR", "CALLS", "FAILED", "OBJECTS", "FAILED", "OPEN", "CPU", "MEMORY", "NAME")
TYPES: Final = ("TASK", "DETAIL", "OUTPUT", "SSE")
"""The events that `logs` asks for."""
LEVELS: Final = (("errors", "error"), ("warnings", "warning"))
"""Members of a status with texts of what went wrong before."""


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", required=True, metavar=ADDRESS, help="the server: its socket, or its port")
    parser.add_argument("--key-file", metavar="FILE", help=f"the key for a server at ws://, if it is not in {KEY}")
    parser.set_defaults(token=None)


def _add_ps(parser: argparse.ArgumentParser) -> None:
    _add_server(parser)
    parser.add_argument("--json", action="store_true", help="the whole status of each pipeline, as a line of JSON")


def _add_logs(parser: argparse.ArgumentParser) -> None:
    _add_server(parser)
    parser.add_argument("token", nargs="?", metavar="TOKEN", help="one pipeline; else all")
    parser.add_argument("--no-follow", action="store_true", help="tell what went wrong so far, and end")
    parser.add_argument("--json", action="store_true", help="each event as a line of JSON")


def _add_stop(parser: argparse.ArgumentParser) -> None:
    _add_server(parser)
    parser.add_argument("tokens", nargs="+", metavar="TOKEN", help="the pipelines, as `rrext ps` names them")


def _run_ps(args: argparse.Namespace) -> int:
    async def work(client: Client, results: Results) -> int:
        tasks = await client.tasks()
        states = await asyncio.gather(*(client.status(task["token"]) for task in tasks), return_exceptions=True)
        rows: list[tuple[str, ...]] = []
        for task, state in zip(tasks, states, strict=True):
            if isinstance(state, RrextError):  # it has ended meanwhile
                continue
            if isinstance(state, BaseException):
                raise state
            if args.json:
                results.write_line(msgspec.json.encode({"token": task["token"], **state}))
            else:
                rows.append(_row(task, state))
        if not args.json:
            width = terminal_width() if results.is_terminal else None
            for line in table(HEADS, rows, width=width):
                results.write_line(line.encode())
        return EXIT_DONE

    return _run_at(args, work)


def _row(task: dict[str, Any], state: dict[str, Any]) -> tuple[str, ...]:
    metrics = state["metrics"]
    return (
        task["token"],
        state["status"],
        duration(time.time() - state["startTime"]),
        str(state["calls"]),
        str(state["failedCalls"]),
        str(state["completedCount"]),
        str(state["failedCount"]),
        str(state["pipeflow"]["totalPipes"]),
        f"{metrics['cpu_percent']:.0f} %",
        f"{metrics['cpu_memory_mb']:.0f} MiB",
        str(task["name"]),
    )


def _run_logs(args: argparse.Namespace) -> int:
    async def work(client: Client, results: Results) -> int:
        target: Any = {"token": args.token} if args.token else {}
        try:
            events = await client.monitor(*TYPES, **target)  # first, so that nothing between is lost
        except TaskNotRegistered as error:
            error.message = f"{args.token}: {error.message}"
            raise
        for task in await client.tasks():
            if args.token in (None, task["token"]):
                state = await client.status(task["token"])
                for member, level in LEVELS:
                    for text in state[member]:
                        told = {"event": level, "body": {"__id": task["token"], "message": text}}
                        results.write_line(msgspec.json.encode(told) if args.json else _line("earlier", told))
        if args.no_follow:
            return EXIT_DONE
        print("rrext: following; Ctrl-C ends (--no-follow: only what went wrong so far)", file=sys.stderr, flush=True)
        async for event in events:
            if event.missed:
                print(f"rrext: {event.missed} events were dropped, as they came faster than they were read", file=sys.stderr)
            told = {"event": event.name, "body": event.body}
            clock = time.strftime("%H:%M:%S", time.localtime(event.body.get("eventTime")))
            results.write_line(msgspec.json.encode(told) if args.json else _line(clock, told))
        return EXIT_FAILED  # the server has ended

    return _run_at(args, work)


def _line(clock: str, told: dict[str, Any]) -> bytes:
    """An event in words: when it was, the pipeline, what happened."""
    name, body = told["event"].removeprefix("apaevt_").removeprefix("status_"), told["body"]
    text = body.get("output") or body.get("message") or body.get("object") or ""
    if name == "sse":
        text = f"{body['type']}: {msgspec.json.encode(body['data']).decode()}"
    elif name == "task" and "tasks" in body:
        text = f"running: {', '.join(task['name'] for task in body['tasks']) or 'none'}"
    elif name == "task":
        text = " ".join(str(body[key]) for key in ("action", "reason") if body.get(key))
    elif name == "counts":
        text = f"{body['completedCount']} done, {body['failedCount']} failed"
    elif name == "state":
        text = "takes objects" if body.get("service") else "takes no objects"
    words = (clock, str(body.get("__id", "")), f"{name}:", one_line(str(text).rstrip()))
    return " ".join(word for word in words if word).encode()


def _run_stop(args: argparse.Namespace) -> int:
    from rrext.cli.remote import put_for_shell

    async def work(client: Client, results: Results) -> int:
        code = EXIT_DONE
        for token in args.tokens:
            try:
                await client.terminate(token)
            except RrextError as error:
                put_for_shell(error)
                print_error(error, token)
                code = EXIT_FAILED
        return code

    return _run_at(args, work)


def _run_at(args: argparse.Namespace, work: Any) -> int:
    from rrext.cli.remote import put_for_shell, run_remotely  # with the client, which `--help` does not need

    async def with_client(pipeline: Any, results: Results) -> int:
        try:
            return int(await work(pipeline.client, results))
        except RrextError as error:
            put_for_shell(error)
            print_error(error)
            return EXIT_FAILED

    return run_remotely(args, with_client)


PS: Final = Command(
    "List the pipelines of a running server.",
    """examples:
  rrext ps --at unix:/tmp/rrext.sock
  rrext ps --at ws://127.0.0.1:5565 --json | jq -r .token

FOR is the time since it was loaded, CALLS those of tools by clients, OPEN the objects on their way; a FAILED is of the column
before it. Processor and memory are those of the process of the pipeline, which with `--isolation none` all share. Exit code 0:
done. 1: the server is gone. 2: there is no server.
""",
    _add_ps,
    _run_ps,
)
LOGS: Final = Command(
    "Tell what happens in a running server: pipelines that come and go, objects, failures, what nodes print.",
    """examples:
  rrext logs --at unix:/tmp/rrext.sock
  rrext logs --at ws://127.0.0.1:5565 library --no-follow

First the last failures of objects and of calls of tools, equal ones once, and the warnings of the pipelines, then each event
as it comes, until Ctrl-C; calls that fail from now on are only in the next list. A key of a server sees its user's pipelines,
and of those of the server their beginning and their end. Exit code 1: the server has ended.
""",
    _add_logs,
    _run_logs,
)
STOP: Final = Command(
    "Unload pipelines of a running server: their calls are cancelled, the server goes on.",
    """example:
  rrext stop --at unix:/tmp/rrext.sock library

Exit code 0: done. 1: one is not there, or is another's.
""",
    _add_stop,
    _run_stop,
)
