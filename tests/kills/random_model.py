"""A random model of clients: what each request may be answered, by what was sent before and after it.

Every choice is that of one `Random`; none depends on what the server answers. A request has the set of outcomes that it may
have, `ok` or codes; what is sent later, as a cancel, or done to a process, adds to the sets of those before it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from listening_server import PATIENCE
from served_model import TASKS, Line, Message, Server, pipeline

CLIENTS = 4
BURST = 40
"""Requests of a client until it waits for their answers."""
WAITS = 4
"""Calls of a client that wait for ever: each keeps a place of its pipeline."""
PIPES = 6
"""Open pipes of a client: each keeps a place, too."""
LOST = {"task_lost", "TASK_NOT_REGISTERED", "pipe_not_open"}
"""The outcomes of what a killed worker has, and of what comes after its end."""
ENDED = {"cancelled", "TASK_NOT_REGISTERED", "pipe_not_open"}
"""The outcomes of what a terminated task has."""
TOOLS = ("echo", "echo", "echo_later", "chunks", "fails", "fails_later", "nap", "nap_later", "wait")
SIZES = (0, 0, 1, 100, 5000, 150_000)
DEADLINES = (0.0005, 0.002, 0.02)
KEPT = 80
"""Steps that the report of a failure has."""
NOBODYS = 999_999_999_999
"""The number of a pipe that was never open."""


class Task:
    """A loaded pipeline. `may` are outcomes that any request on it may have now."""

    def __init__(self, token: str, *, own: bool = False) -> None:
        self.token = token
        self.own = own
        self.may: set[str] = set()
        self.is_over = False
        self.end: Sent | None = None
        """The request that ended it."""

    def widened(self, may: set[str]) -> set[str]:
        """The outcomes of a new request, which would have these if the task ran."""
        if self.end is not None and self.end.answer.done():
            return {"TASK_NOT_REGISTERED", "pipe_not_open"} | (may & {"tool_timeout", "pipe_failed"})
        return may | self.may


class Sent:
    """A request, with the outcomes that it may have."""

    def __init__(self, client: Client, number: int, what: str, task: Task | None, may: set[str]) -> None:
        self.client = client
        self.number = number
        self.what = what
        self.task = task
        self.may = may
        self.pipe: Pipe | None = None
        self.again = 0
        """How many requests with the same number were sent after it."""
        self.target: Sent | None = None
        """The request that this one cancels."""
        self.answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def is_gap(self) -> bool:
        """Whether it is a write without which its object has a gap."""
        code = self.answer.result().get("code") if self.answer.done() else None
        return self.what.startswith("write") and code in ("cancelled", "tool_timeout", "model_fails")

    def __repr__(self) -> str:
        return f"{self.client.name}.{self.number} {self.what}"


class Pipe:
    """A pipe, as its requests were sent."""

    def __init__(self, opening: Sent, task: Task) -> None:
        self.opening = opening
        self.task = task
        self.id = 0
        self.may = set(task.may)
        """Outcomes of all its requests: one that opens while a process is lost may be of either process."""
        self.is_gone = False
        self.is_closed = False
        self.may_fail = False
        self.has_failed = False
        self.is_unsure = False
        self.uses: list[Sent] = []
        """Its writes and the calls of its tools, until it is closed."""

    def is_busy(self, sent: Sent | None = None) -> None:
        """A tool may go on in its thread after its answer: writes are refused meanwhile, and the object goes on."""
        self.may_fail, self.has_failed, self.is_unsure = True, False, True
        for later in self.uses[self.uses.index(sent) + 1 :] if sent is not None else ():
            later.may |= {"ok", "model_fails"} if later.may & {"ok", "model_fails", "pipe_failed"} else set()

    def close_stops(self) -> None:
        """Its `close` may be stopped: of an object that has failed nothing is kept then, not even that it failed."""
        for sent in self.uses if self.may_fail else ():
            sent.may.add("pipe_not_open")

    async def known(self) -> int:
        """Its number; one of no pipe, if it did not open."""
        if not self.id:
            self.opening.client.goes_on.set()
            answer = await within(asyncio.shield(self.opening.answer), self.opening)
            self.id = answer["body"]["pipe_id"] if answer["success"] else NOBODYS
            self.is_gone = self.is_gone or not answer["success"]
        return self.id


class Client:
    """A connection. While it does not go on, it reads nothing."""

    def __init__(self, model: Model, line: Line, name: str) -> None:
        self.model = model
        self.line = line
        self.name = name
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.stalls = 0
        self.burst = 0
        self.last = 0
        self.sent: dict[int, Sent] = {}
        self.waits: list[Sent] = []
        self.pipes: list[Pipe] = []
        self.again = self.unnamed = 0
        self.is_killed = False
        self.reads = asyncio.create_task(self._read())

    def send(self, what: str, command: str, arguments: dict[str, Any], task: Task | None, may: set[str]) -> Sent:
        """Send a request."""
        self.last += 1
        if task is not None:
            may = task.widened(may)
        sent = self.sent[self.last] = Sent(self, self.last, what, task, may)
        self.line.send({"type": "request", "seq": self.last, "command": command, "arguments": arguments})
        self.model.note(f"→ {sent}")
        self.burst += 1
        return sent

    async def _read(self) -> None:
        while True:
            await self.goes_on.wait()
            message = await self.line.receive()
            if message is None:
                self.model.note(f"← {self.name} ended")
                return
            if message["type"] == "response":
                try:
                    self._take(message)
                except AssertionError as error:
                    self.model.fail(error)

    def _take(self, message: Message) -> None:
        code = "ok" if message["success"] else message["code"]
        number = message["request_seq"]
        if not number:
            assert code == "invalid_request", message
            self.unnamed += 1
            return
        sent = self.sent[number]
        self.model.note(f"← {self.name}.{number} {code}")
        self.model.count(code)
        if sent.answer.done():  # the first had ended when the second came
            sent.again -= 1
            self.unnamed += 1
            assert sent.again >= 0, f"two answers to {sent}: {message}"
            return
        assert code in sent.may, f"{sent} may be {sorted(sent.may)}, and is {code}: {message}"
        if sent.pipe is not None and code == "ok":
            pipe, closes = sent.pipe, sent.what.startswith("close")
            gaps = [use for use in pipe.uses[: None if closes else pipe.uses.index(sent)] if use.is_gap]
            failed = closes and "error" in message["body"]
            assert failed or not gaps, f"{sent} of a failed object tells no error, after {gaps}"
            assert not failed or pipe.may_fail, f"{sent} tells an error: {message}"
        sent.answer.set_result(message)

    def unanswered(self) -> list[Sent]:
        """What has no answer yet."""
        return [sent for sent in self.sent.values() if not sent.answer.done()]

    async def settle(self) -> None:
        """Read on, and wait for all answers that come by themselves."""
        self.goes_on.set()
        self.stalls = self.burst = 0
        for sent in self.unanswered():
            if sent not in self.waits:
                await within(asyncio.shield(sent.answer), sent)
        for sent in list(self.sent.values()):
            if sent.target is not None and sent.answer.done() and sent.answer.result()["body"]["cancelled"]:
                code = (await within(asyncio.shield(sent.target.answer), sent.target)).get("code")
                assert code == "cancelled", f"{sent.target} was cancelled, and is {code}"
        self.waits = [sent for sent in self.waits if not sent.answer.done()]
        kept = self.waits + [sent for sent in self.sent.values() if sent.again]
        self.sent = {sent.number: sent for sent in (*kept, *(pipe.opening for pipe in self.pipes))}


async def within(answer: Awaitable[Message], sent: object) -> Message:
    """An answer that must come."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await answer
    except TimeoutError:
        raise AssertionError(f"no answer: {sent}") from None


class Model:
    """Clients of one server."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.chance = Random(f"{server.way} {seed}")
        self.tasks = {token: Task(token) for token in TASKS}
        self.own: list[tuple[Client, Task]] = []
        self.clients: list[Client] = []
        self.outcomes: dict[str, int] = {}
        self.done: deque[str] = deque(maxlen=KEPT)
        self.lost: list[tuple[Task, int]] = []
        """Killed tasks of the operator, with the step in which they must be back."""
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._names = 0
        self._step = 0
        self._ways: list[tuple[Callable[[Client], Awaitable[None]], float]] = [
            (self.call, 30), (self.open, 8), (self.write, 25), (self.close, 8), (self.cancel, 14), (self.stall, 2),
            (self.repeat, 2), (self.ping, 1), (self.execute, 0.3), (self.terminate, 0.3), (self.kill_client, 0.5),
            (self.kill_worker, 0.15),
        ]  # fmt: skip

    def note(self, what: str) -> None:
        """Remember what happened, for the report of a failure."""
        self.done.append(what)

    def count(self, code: str) -> None:
        """Count an outcome."""
        self.outcomes[code] = self.outcomes.get(code, 0) + 1

    def fail(self, error: AssertionError) -> None:
        """Fail the run, from a reader."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def run(self, operations: int) -> None:
        """Do so many operations, and check what is left. Raises `AssertionError` with the last ones."""
        work = asyncio.create_task(self._run(operations))
        try:
            await asyncio.wait([work, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            await work
        finally:
            work.cancel()
            self._failure.cancel()
            for client in self.clients:
                client.reads.cancel()

    async def _run(self, operations: int) -> None:
        for _ in range(1 if self.server.way == "stdio" else CLIENTS):
            await self._connect()
        functions, weights = zip(*self._ways, strict=True)
        for self._step in range(operations):
            client = self.chance.choice(self.clients)
            await self.chance.choices(functions, weights)[0](client)
            if client.stalls:
                client.stalls -= 1
                if not client.stalls:
                    client.goes_on.set()
            if client.burst >= BURST:
                await client.settle()
            for task, step in list(self.lost):
                if step <= self._step:
                    await self._comes_back(task)
            if self.chance.random() < 0.4:
                await asyncio.sleep(0)
        await self._end()

    async def _connect(self) -> Client:
        self._names += 1
        client = Client(self, await self.server.connect(), f"c{self._names}")
        self.clients.append(client)
        return client

    # -- requests

    def _deadline(self, arguments: dict[str, Any], may: set[str], *, always: bool = False) -> None:
        if self.chance.random() < 0.15 or always:
            arguments["timeout"] = self.chance.choice(DEADLINES)
            may.add("tool_timeout")

    def _task(self, client: Client) -> Task:
        return self.chance.choice([*self.tasks.values(), *(task for owner, task in self.own if owner is client)])

    def _pipe(self, client: Client) -> Pipe:
        ready = [pipe for pipe in client.pipes if not pipe.is_closed]
        return self.chance.choice(ready if ready and self.chance.random() < 0.85 else client.pipes)

    async def call(self, client: Client) -> None:
        """Call a tool, of a pipe or of none."""
        name, size = self.chance.choice(TOOLS), self.chance.choice(SIZES)
        task, pipe = self._task(client), None
        arguments: dict[str, Any] = {"subcommand": "tool", "tool": name, "input": {"size": size}}
        may = {"wait": set[str](), "fails": {"model_fails"}, "fails_later": {"model_fails"}}.get(name, {"ok"})
        if name == "chunks":
            arguments["stream"] = True
        if client.pipes and self.chance.random() < 0.25:
            pipe = self._pipe(client)
            task = pipe.task
            arguments["pipe_id"] = await pipe.known()
            may = {"pipe_not_open"} if pipe.is_closed or pipe.is_gone else may
            may |= pipe.may | ({"pipe_failed", "pipe_not_open"} if pipe.may_fail and not pipe.is_gone else set())
        else:
            arguments["token"] = task.token
        self._deadline(arguments, may, always=pipe is not None and name == "wait")  # or a `close` would wait for it
        is_wait = name == "wait" and "timeout" not in arguments
        if is_wait and len(client.waits) >= WAITS:
            self._cancel(client, client.waits[0])
        what = f"tool {name} {size} {arguments.get('token') or arguments['pipe_id']} {arguments.get('timeout', '')}"
        sent = client.send(what, "rrext_process", arguments, task, may)
        sent.pipe = pipe
        if pipe is not None and not pipe.is_closed:
            pipe.uses.append(sent)
            if "timeout" in arguments:
                pipe.is_busy()
        if is_wait and not task.is_over:
            client.waits.append(sent)

    async def open(self, client: Client) -> None:
        """Open a pipe; of many, close one."""
        if sum(not pipe.is_closed for pipe in client.pipes) >= PIPES:
            await self._close(client, next(pipe for pipe in client.pipes if not pipe.is_closed))
        arguments, may = {"subcommand": "open", "mimeType": "application/octet-stream"}, {"ok"}
        task = self._task(client)
        arguments["token"] = task.token
        self._deadline(arguments, may)
        sent = client.send(f"open {task.token} {arguments.get('timeout', '')}", "rrext_process", arguments, task, may)
        old = client.pipes[: -2 * PIPES]
        client.pipes = [*(pipe for pipe in old if not pipe.is_closed), *client.pipes[len(old) :], Pipe(sent, task)]

    async def write(self, client: Client) -> None:
        """Write to a pipe, also to one that is closed or was never open."""
        if not client.pipes:
            return
        pipe = self._pipe(client)
        kind = self.chance.choices("dsf", (8, 3, 1))[0]
        arguments: dict[str, Any] = {"subcommand": "write", "pipe_id": await pipe.known()}
        arguments["data"] = kind + "." * self.chance.choice(SIZES)
        may = self._may_on(pipe, "model_fails" if kind == "f" else "ok")
        self._deadline(arguments, may)
        what = f"write {kind} {pipe.id} {arguments.get('timeout', '')}"
        sent = client.send(what, "rrext_process", arguments, pipe.task, may)
        sent.pipe = pipe
        if not pipe.is_closed:
            pipe.uses.append(sent)
            pipe.may_fail = pipe.may_fail or kind == "f" or "timeout" in arguments
            pipe.has_failed = pipe.has_failed or (kind == "f" and not pipe.is_unsure and "timeout" not in arguments)

    def _may_on(self, pipe: Pipe, outcome: str) -> set[str]:
        failed = {"pipe_failed", "pipe_not_open"} if pipe.may_fail else set[str]()  # its end may have come before
        if pipe.is_closed or pipe.is_gone:
            return {"pipe_not_open"} | failed
        return failed | pipe.may | (set[str]() if pipe.has_failed else {outcome})

    async def close(self, client: Client) -> None:
        """Close a pipe, also one that is closed or was never open."""
        if client.pipes:
            await self._close(client, self._pipe(client))

    async def _close(self, client: Client, pipe: Pipe) -> None:
        arguments: dict[str, Any] = {"subcommand": "close", "pipe_id": await pipe.known()}
        may = {"pipe_not_open"} if pipe.is_closed or pipe.is_gone else {"ok"} | pipe.may
        self._deadline(arguments, may)
        what = f"close {pipe.id} {arguments.get('timeout', '')}"
        sent = client.send(what, "rrext_process", arguments, pipe.task, may)
        sent.pipe = pipe
        if pipe.may_fail and pipe.task.end is not None:
            sent.may.add("ok")  # the result of an object that failed is kept
        pipe.is_closed = True
        if "timeout" in arguments:
            pipe.close_stops()

    async def cancel(self, client: Client) -> None:
        """Cancel one of the last requests."""
        if client.sent:
            self._cancel(client, self.chance.choice([*client.sent.values()][-12:]))

    def _cancel(self, client: Client, target: Sent) -> None:
        if target.target is not None or target.what.startswith(("execute", "terminate")):
            return
        target.may.add("cancelled")
        pipe = target.pipe
        if pipe is not None and target.what.startswith("close"):
            pipe.close_stops()
        if pipe is not None and target in pipe.uses:
            pipe.may_fail = True
            for later in pipe.uses[pipe.uses.index(target) + 1 :]:
                later.may |= {"pipe_failed", "pipe_not_open"}
            if target.what.startswith("tool"):
                pipe.is_busy(target)
        if target in client.waits:
            client.waits.remove(target)
        sent = client.send(f"cancel {target.number}", "cancel", {"requestId": target.number}, None, {"ok"})
        sent.target = target

    async def repeat(self, client: Client) -> None:
        """Send a request with the number of one that is in flight."""
        if client.waits:
            sent = self.chance.choice(client.waits)
            sent.again += 1
            client.again += 1
            arguments = {"subcommand": "tool", "tool": "echo", "input": {}, "token": "model"}
            client.line.send({"type": "request", "seq": sent.number, "command": "rrext_process", "arguments": arguments})
            self.note(f"→ {client.name}.{sent.number} again")

    async def ping(self, client: Client) -> None:
        """Ask whether it is there."""
        client.send("ping", "rrext_ping", {}, None, {"ok"})

    async def stall(self, client: Client) -> None:
        """Read nothing during the next requests."""
        client.goes_on.clear()
        client.stalls = self.chance.randrange(5, BURST)
        self.note(f"· {client.name} stalls")

    # -- tasks

    async def execute(self, client: Client) -> None:
        """Load a pipeline of a client's own."""
        if len(self.own) >= 3:
            return
        self._names += 1
        task = Task(f"own-{self._names}", own=True)
        provider = self.chance.choice([*TASKS.values()])
        arguments = {"token": task.token, "pipeline": pipeline(provider, task.token)}
        sent = client.send(f"execute {task.token}", "execute", arguments, None, {"ok"})
        client.goes_on.set()
        await within(asyncio.shield(sent.answer), sent)
        self.own.append((client, task))

    async def terminate(self, client: Client) -> None:
        """End a pipeline of a client's own, whatever runs in it."""
        for owner, task in self.own:
            if owner is client and not task.is_over:
                self._ends(client, task, ENDED)
                task.is_over, task.may = True, ENDED | {"pipe_failed"}
                task.end = client.send(f"terminate {task.token}", "terminate", {"token": task.token}, None, {"ok"})
                return
        self.own = [(owner, task) for owner, task in self.own if owner is not client]

    def _ends(self, client: Client, task: Task, may: set[str]) -> None:
        for sent in client.unanswered():
            if sent.task is task:
                sent.may |= may
                if sent.pipe is not None:
                    sent.may.add("pipe_failed")
        client.waits = [sent for sent in client.waits if sent.task is not task]
        for pipe in client.pipes:
            if pipe.task is task:
                pipe.may_fail = True

    async def kill_client(self, client: Client) -> None:
        """Kill a client, and connect another one."""
        if self.server.way == "stdio":
            return
        self.note(f"· {client.name} is killed")
        client.reads.cancel()
        client.line.kill()
        self.clients.remove(client)
        new = await self._connect()
        self.own = [(new if owner is client else owner, task) for owner, task in self.own]

    async def kill_worker(self, client: Client) -> None:
        """Kill the process of a pipeline, whatever runs in it."""
        task = self._task(client)
        if not self.server.runs_workers or task.may:
            return
        sent = client.send(
            f"pid of {task.token}", "rrext_process", {"subcommand": "tool", "tool": "pid", "token": task.token}, task, {"ok"}
        )
        client.goes_on.set()
        answer = await within(asyncio.shield(sent.answer), sent)
        task.may |= LOST
        if task.own:
            task.is_over = True
        else:
            self.lost.append((task, self._step + self.chance.randrange(60)))
        for each in self.clients:
            self._ends(each, task, LOST)
            for pipe in each.pipes:
                pipe.is_gone = pipe.is_gone or pipe.task is task
        self.note(f"· the worker of {task.token} is killed")
        os.kill(answer["body"]["result"], signal.SIGKILL)

    async def _comes_back(self, task: Task) -> None:
        """Wait until a pipeline of the operator is back."""
        self.lost = [(lost, step) for lost, step in self.lost if lost is not task]
        client = self.clients[0]
        client.goes_on.set()
        arguments = {"subcommand": "tool", "tool": "pid", "token": task.token}
        async with asyncio.timeout(PATIENCE):
            while True:
                sent = client.send(f"pid of {task.token}", "rrext_process", arguments, task, {"ok"})
                if (await within(asyncio.shield(sent.answer), sent))["success"]:
                    break
                await asyncio.sleep(0.01)
        task.may = set()
        self.note(f"· {task.token} is back")

    # -- the end

    async def _end(self) -> None:
        """Let all end in order: nothing may be left."""
        for task, _ in list(self.lost):
            await self._comes_back(task)
        for client in list(self.clients):
            for pipe in client.pipes:
                if not pipe.is_closed:
                    await self._close(client, pipe)
            for sent in list(client.waits):
                self._cancel(client, sent)
            await client.settle()
            async with asyncio.timeout(PATIENCE):
                while client.unnamed < client.again:
                    await asyncio.sleep(0.01)
            assert client.unnamed == client.again, f"{client.unnamed} answers without a number, and {client.again} repeats"
        client = self.clients[0]
        for task in self.tasks.values():
            await self._is_free(client, task)
        self.last = client.send(
            "the last call", "rrext_process", {"subcommand": "tool", "tool": "echo", "token": "model"}, None, {"ok"}
        )
        await client.settle()

    async def _is_free(self, client: Client, task: Task) -> None:
        """Wait until a pipeline has no pipe, and nothing runs in it."""
        seen: dict[str, Any] = {}
        try:
            async with asyncio.timeout(10):
                while True:
                    sent = client.send("status", "rrext_get_task_status", {"token": task.token}, None, {"ok"})
                    seen = (await within(asyncio.shield(sent.answer), sent))["body"]
                    if not seen["pipeflow"]["totalPipes"] and not seen["threads"]["used"]:
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{task.token} keeps {seen['pipeflow']} and {seen['threads']}") from None
