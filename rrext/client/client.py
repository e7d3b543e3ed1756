"""`rrext.Client`: the SDK, on asyncio and on trio."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack, overload

import anyio
from anyio.abc import ByteStream

from rrext.client.channels import Channel
from rrext.client.chat_turn import ChatTurn
from rrext.client.client_session import ClientSession, Dialect
from rrext.client.databases import Database, Vectors
from rrext.client.endpoint import Body, Deadline
from rrext.client.pipe import Data, Pipe
from rrext.client.server_address import Launch, ServeOptions, ServerAddress, WebServer, address_of, open_channel
from rrext.client.stored_files import files
from rrext.client.tool_call import (
    AnsweringOptions,
    AnthropicTool,
    FeedOptions,
    MakeUpdates,
    McpTool,
    ObjectFeed,
    OpenAIFormat,
    OpenAITool,
    WhichTools,
    object_updates,
    result_of,
    tool_arguments,
    tool_call,
    tools_call,
    tools_resolve,
)
from rrext.client.updates import (
    EventCallback,
    EventStream,
    EventUpdates,
    MonitorTarget,
    TraceLevel,
    monitor_arguments,
)
from rrext.client.upload import FileResult, Upload, UploadCallback
from rrext.errors import NotConnected, ParseError, UsageError
from rrext.limits import CLIENT_DEFAULTS
from rrext.version import __version__
from rrext.wire.codec import decode, encode
from rrext.wire.connection import client_closed

if TYPE_CHECKING:
    from rrext.client.knowledge import Knowledge

Path: TypeAlias = str | os.PathLike[str]
QUESTION_TYPE: Final = "application/rocketride-question"


class Client:
    """A connection to a server: `async with Client.spawn("weather.pipe") as client: await client.tool(tool="forecast")`.

    `spawn` starts a server as a child process, `connect` joins one, `over` speaks over a stream. `token` may be left out
    while one pipeline is loaded. Failures raise the class of their code (`rrext.ToolError`, `rrext.PipeNotOpen` …);
    `ServerExited` has the exit code and the end of stderr. A call that is cancelled, or not answered in time, is cancelled
    in the server too. Times are in seconds.
    """

    def __init__(self, address: ServerAddress, *, dialect: Dialect = "dap", context: Mapping[str, Any] | None = None) -> None:
        """Use `spawn`, `connect` or `over`."""
        self._address = address
        self._dialect: Dialect = dialect
        self._context = context
        self._session: ClientSession | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._questions = count(1)

    @classmethod
    def spawn(
        cls,
        *files: Path,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        cwd: Path | None = None,
        rlimits: Mapping[str, int] | None = None,
        on_stderr: Callable[[bytes], object] | None = None,
        dialect: Dialect = "dap",
        context: Mapping[str, Any] | None = None,
        **options: Unpack[ServeOptions],
    ) -> Client:
        """A client of a server of its own, which starts with the `async with` block and ends with it.

        `files`, `nodes`, `root`, `env_names` (`--env`), `connections`, `threads`, `pipe_idle`, `max_frame`, `drain`, `partial`
        and `args` are those of `rrext serve`; `command` stands in for `python -m rrext serve`. The server sees our
        variables of paths, user, language and time zone, `ROCKETRIDE_*`, those of `env_names`, and `env`: give it there those
        that the file of connections names. `rlimits` maps names like `"AS"` to limits of the process (Linux).
        `on_stderr` is called with the bytes of the server's stderr, which is read in any case. `context` is `{userId, spaceId,
        authorization}`. Entering the block raises `InvalidPipeline` for a bad file.
        """
        launch = Launch.serving(files, command, env, cwd, rlimits, on_stderr, **options)
        return cls(launch, dialect=dialect, context=context)

    @classmethod
    def connect(
        cls, address: str, *, key: str | None = None, dialect: Dialect = "dap", context: Mapping[str, Any] | None = None
    ) -> Client:
        """A client of the server that `rrext serve` started at `unix:PATH` (`--listen`), or at `ws://HOST:PORT` (`--ws`), and
        which goes on afterwards. `key` is for a server with keys.

        Entering the block raises `NotConnected` when nobody listens there, and `NotAuthenticated` for a wrong key.
        """
        return cls(address_of(address, key), dialect=dialect, context=context)

    @classmethod
    def over(
        cls, stream: ByteStream | Channel, *, dialect: Dialect = "dap", context: Mapping[str, Any] | None = None
    ) -> Client:
        """A client over a byte stream, which it closes at the end of its `async with` block."""
        return cls(stream, dialect=dialect, context=context)

    # Life

    async def __aenter__(self) -> Client:
        if self._session is not None:
            raise UsageError("A client is used once: make another.")
        key = self._address.key if isinstance(self._address, WebServer) else None
        session = self._session = ClientSession(await open_channel(self._address), self._dialect, key)
        tasks = self._tasks = anyio.create_task_group()
        await tasks.__aenter__()
        introduction: Body = {"clientName": "rrext.Client", "clientVersion": __version__, "rawTail": True}
        if self._context is not None:
            introduction["context"] = self._context
        try:
            await session.start(tasks, introduction)
        except BaseException:
            await self._finish(abort=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish(abort=False)

    async def _finish(self, *, abort: bool) -> None:
        """End the session, then its tasks. The body's exception is not shown to the task group, which would wrap it."""
        tasks, session = self._tasks, self._session
        assert tasks is not None
        assert session is not None
        try:
            await (session.abort() if abort else session.close())
        finally:
            tasks.cancel_scope.shield = True  # they end at once
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
            session.release()

    async def close(self) -> None:
        """End the connection before the block ends: running calls get the server's drain time, then a spawned server is
        stopped, by force if need be. Later calls raise `NotConnected`."""
        await self._connected().close()

    @property
    def server(self) -> Body:
        """The body of the answer to `initialize`: `{server: {name, version}, protocol, capabilities, limits, commands}`."""
        return self._connected().server

    def _connected(self) -> ClientSession:
        session = self._session
        if session is None:
            raise NotConnected("The client is not connected yet: use it in an `async with` block.")
        if session.closing:
            raise client_closed()
        return session

    # Pipelines

    async def use(
        self,
        *,
        pipeline: Mapping[str, Any] | None = None,
        filepath: Path | None = None,
        token: str | None = None,
        source: str | None = None,
        threads: int | None = None,
        ttl: float | None = None,
        use_existing: bool = False,
        partial: bool = False,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
        trace: TraceLevel | None = None,
    ) -> Body:
        """Load a pipeline, given as an object or a file, and return `{token, …}`.

        `ttl` is the idle time in seconds after which the server unloads it. `use_existing` joins a pipeline that runs.
        `partial` loads a pipeline whose nodes are not all available: what needs one of them raises `Unavailable`.
        `trace` is what a `monitor` of `FLOW` is told of its objects.
        """
        if name is None and filepath is not None:
            name = os.path.basename(filepath)
        arguments = {
            **await pipeline_arguments(pipeline, filepath, source),
            "args": [],
            "token": token,
            "threads": threads,
            "ttl": ttl,
            "useExisting": use_existing or None,
            "partial": partial or None,
            "env": env,
            "name": name,
            "pipelineTraceLevel": trace,
        }
        return await self.request("execute", arguments)

    async def terminate(self, token: str | None = None) -> None:
        """Unload a pipeline: its calls are cancelled and its pipes are gone."""
        await self.request("terminate", {"token": token})

    async def validate(
        self, *, pipeline: Mapping[str, Any] | None = None, filepath: Path | None = None, source: str | None = None
    ) -> Body:
        """All problems of a pipeline, which is not loaded: `{pipeline, errors, warnings, …}`."""
        return await self.request("rrext_validate", await pipeline_arguments(pipeline, filepath, source))

    async def services(self, service: str | None = None) -> Body:
        """The catalog of nodes, or the definition of one of them."""
        return await self.request("rrext_services", {"service": service})

    async def tasks(self) -> list[Body]:
        """The pipelines that run."""
        return (await self.request("rrext_get_tasks"))["tasks"]

    async def status(self, token: str | None = None) -> Body:
        """How a pipeline is doing."""
        return await self.request("rrext_get_task_status", {"token": token})

    # Data

    def pipe(
        self,
        *,
        token: str | None = None,
        objinfo: Mapping[str, Any] | None = None,
        mimetype: str | None = None,
        provider: str | None = None,
        source: str | None = None,
        context: Mapping[str, Any] | None = None,
        meta: Any = None,
        **options: Unpack[ObjectFeed],
    ) -> Pipe:
        """A pipe for one object, opened by `async with` or `open()`. `source` is needed if the pipeline has several.

        `on_event`, `on_permission` and `on_question` are those of `tool`, for what the nodes do in each write and in the close.
        `objinfo` describes the object: `name`, `path`, `size`, `metadata`. `mimetype` chooses the lane; `lane/text` names it.
        """
        arguments: Body = {"object": dict(objinfo or {}), "mimeType": mimetype or "application/octet-stream"}
        optional = {"token": token, "provider": provider, "source": source, "context": context, "_meta": meta}
        arguments.update((key, value) for key, value in optional.items() if value is not None)
        return Pipe(self._connected, arguments, partial(object_updates, options) if options else None)

    async def send(
        self,
        data: Data,
        *,
        token: str | None = None,
        source: str | None = None,
        objinfo: Mapping[str, Any] | None = None,
        mimetype: str | None = None,
    ) -> Body:
        """Send one object through a pipeline and return its result. Text is sent as `text/plain` if not told otherwise.

        `source` is the id of the source at which the object enters, needed if the pipeline has several.
        Raises the object's failure; its `.result` is the partial result of the pipeline.
        """
        content = data.encode() if isinstance(data, str) else data
        about = {"size": memoryview(content).nbytes, **(objinfo or {})}
        mimetype = mimetype or ("text/plain" if isinstance(data, str) else None)
        async with self.pipe(token=token, source=source, objinfo=about, mimetype=mimetype) as pipe:
            await pipe.write(content)
        return pipe.result or {}

    async def send_files(
        self,
        paths: Iterable[Path],
        *,
        token: str | None = None,
        source: str | None = None,
        jobs: int = CLIENT_DEFAULTS.jobs,
        progress: UploadCallback | None = None,
        mimetype: str | None = None,
        exclude: Sequence[str] = (),
        root_name: str | None = None,
    ) -> list[FileResult]:
        """Send files, and all files in folders, through a pipeline: `jobs` at a time, in pieces of 1 MiB.

        Returns one result for each file, failures among them: see `FileResult.ok`. Without a MIME type, the name of each file
        tells it. `source` is as for `send`. `progress` is called after each piece and each file.

        Files that `exclude` names, or a `.rrextignore` in their folder, as gitignore does, are left out. With `root_name` the
        files of the one given folder are the objects of that name and their path below it, wherever the folder stands.
        """
        self._connected()
        if isinstance(paths, str | os.PathLike):
            raise UsageError("send_files takes a list of paths.")

        def pipe(objinfo: Body, mime: str) -> Pipe:
            return self.pipe(token=token, source=source, objinfo=objinfo, mimetype=mime)

        upload = Upload(pipe, jobs=jobs, mimetype=mimetype, progress=progress, exclude=exclude, root_name=root_name)
        return await upload.run(paths)

    async def chat(
        self,
        *,
        question: str | Mapping[str, Any],
        session: str | None = None,
        token: str | None = None,
        source: str | None = None,
        **options: Unpack[ObjectFeed],
    ) -> Body:
        """Ask a pipeline with a `questions` lane and return its result, usually with `answers`.

        A text becomes a question with that text; an object is sent as it is. `session` names the conversation to which the
        question belongs, for agents that keep some. `source` is as for `send`, `options` are as for `pipe`.
        """
        updates = partial(object_updates, options) if options else None
        return await self._chat(question, session, token, source, updates)

    def chat_events(
        self,
        *,
        question: str | Mapping[str, Any],
        session: str | None = None,
        token: str | None = None,
        source: str | None = None,
        **options: Unpack[AnsweringOptions],
    ) -> ChatTurn:
        """`chat`, whose events are read while the pipeline answers: texts, tools, agents; see `ChatTurn`.

        `on_permission` and `on_question` are those of `tool`; they run in the task that reads.
        """
        return ChatTurn(partial(self._chat, question, session, token, source), options)

    async def _chat(
        self,
        question: str | Mapping[str, Any],
        session: str | None,
        token: str | None,
        source: str | None,
        updates: MakeUpdates | None,
    ) -> Body:
        content = question_content(question, session)
        arguments: Body = {"object": {"name": f"Question {next(self._questions)}"}, "mimeType": QUESTION_TYPE}
        arguments.update((name, value) for name, value in (("token", token), ("source", source)) if value is not None)
        async with Pipe(self._connected, arguments, updates) as pipe:
            await pipe.write(content)
        return pipe.result or {}

    # Tools

    async def tool(
        self,
        *,
        tool: str,
        node_id: str = "",
        unique: bool = False,
        input: Mapping[str, Any] | None = None,
        token: str | None = None,
        timeout: float | None = None,
        pipe_id: int | None = None,
        context: Mapping[str, Any] | None = None,
        meta: Any = None,
        **options: Unpack[FeedOptions],
    ) -> Any:
        """Call a tool and return its result: a JSON value, or bytes.

        Without `node_id` the first node that has the tool answers; with `unique` the only one, and several are
        `InvalidArguments` with their ids in `data["nodes"]`. `progress` is called with value, total and message;
        `on_chunk` with each chunk of a generator tool; `on_event` with each `rrext_call` event: the start and the end of this
        call and of the calls within it, and the steps of agents; `on_permission` where a tool needs a permit for each call: it
        gets the tool and its arguments, and returns whether the call is allowed; `on_question` where a tool asks the user: it
        gets the question as `params`, and returns what the user put into the form, or None for one who declines. Each may be
        `async`, and all calls of them come before the return. `timeout` limits the whole call. With `reset_on_progress` it
        limits the time without progress instead, and `max_total` the whole call. With `content=True` the result is a
        `rrext.Content`, which has each block that the tool gave: texts, images, links, with their annotations and URIs.
        `context` stands in for the client's in this call; `meta` crosses as `_meta`.
        """
        arguments = tool_arguments(tool, node_id, input, token, pipe_id, context, meta, unique=unique)
        call = tool_call(self._connected(), arguments, timeout, options)
        return result_of(await call, options)

    @overload
    async def tools(self, *, format: None = None, **which: Unpack[WhichTools]) -> list[Body]: ...
    @overload
    async def tools(self, *, format: OpenAIFormat, **which: Unpack[WhichTools]) -> list[OpenAITool]: ...
    @overload
    async def tools(self, *, format: Literal["anthropic"], **which: Unpack[WhichTools]) -> list[AnthropicTool]: ...
    @overload
    async def tools(self, *, format: Literal["mcp"], **which: Unpack[WhichTools]) -> list[McpTool]: ...
    async def tools(
        self,
        *,
        token: str | None = None,
        node_id: str | None = None,
        tool: str | None = None,
        context: Mapping[str, Any] | None = None,
        format: str | None = None,
    ) -> Any:
        """The tools that may be called now, of `node_id` and of the name `tool` if given: `{nodeId, name, description,
        inputSchema, …}` each. Raises `ToolNotFound` for a name that no tool has.

        With `format` they are entries for the requests of a model's vendor, or for MCP. Their names are unique in the
        pipeline, and `tool` accepts them.
        """
        arguments = {"token": token, "nodeId": node_id, "tool": tool, "context": context, "format": format}
        return (await self.request("tools", arguments))["tools"]

    tools_resolve: Final = tools_resolve
    tools_call: Final = tools_call
    files: Final = files

    @property
    def database(self) -> Database:
        """The tools of database nodes by name: `await client.database.query("select 1")`."""
        return Database(self.tool)

    @property
    def knowledge(self) -> Knowledge:
        """Folders of this machine, kept in the stores of a pipeline: `await client.knowledge.sync("handbook", "docs/")`."""
        from rrext.client.knowledge import Knowledge  # most clients keep none

        return Knowledge(self, self._address)

    @property
    def vectors(self) -> Vectors:
        """The tools of vector stores by name: `await client.vectors.search("opening hours")`."""
        return Vectors(self.tool)

    # The server

    async def ping(self, token: str | None = None) -> Body:
        """Ask for a sign of life."""
        return await self.request("rrext_ping", {"token": token})

    async def cancel(self, request_id: int | str) -> Body:
        """Cancel a request by its id. Calls of this client are cancelled by cancelling their task."""
        return await self.request("cancel", {"requestId": request_id})

    async def shutdown(self) -> Body:
        """End the server, after its running calls have finished or its drain limit has passed."""
        return await self.request("shutdown")

    def events(self, *, size: int = CLIENT_DEFAULTS.events) -> EventStream:
        """The server's events from now on: `async for event in client.events()`. At most `size` wait for the reader."""
        return self._connected().events(size)

    async def monitor(self, *types: str, size: int = CLIENT_DEFAULTS.events, **target: Unpack[MonitorTarget]) -> EventStream:
        """Ask for these types of events of tasks, as `TASK` or `FLOW`; no types end it. Return the server's events.

        A type that the server does not know is ignored with a warning, if it knows others.
        """
        stream = self.events(size=size)
        body = await self.request("rrext_monitor", monitor_arguments(types, target))
        for each in body.get("ignored", ()):
            near = f' Did you mean "{each["near"][0]}"?' if each["near"] else ""
            warnings.warn(f'the server knows no events of the type "{each["name"]}".{near}', stacklevel=2)
        return stream

    async def request(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        tail: bytes | None = None,
        *,
        timeout: float | None = None,
        on_event: EventCallback | None = None,
    ) -> Body:
        """Send any command and return the body of its answer. Arguments that are None are left out.

        `tail` is sent as raw bytes after the JSON. After `timeout` seconds without an answer the request is cancelled.
        `on_event` is called with the progress and the chunks that `arguments` ask for, as the server sends them: the
        event's name and its body. All calls of it come before the return.
        """
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        deadline = None if timeout is None else Deadline(f'"{command}"', timeout)
        endpoint = self._connected().endpoint
        updates = None if on_event is None else EventUpdates(on_event, endpoint.resume)
        return await endpoint.call(command, given, tail, deadline=deadline, updates=updates)

    def __repr__(self) -> str:
        return f"<Client {self._address if self._session is None else self._session!r}>"


async def pipeline_arguments(pipeline: Mapping[str, Any] | None, filepath: Path | None, source: str | None) -> Body:
    """The arguments `pipeline` and `source` of a command. Raises `OSError` for a file that cannot be read."""
    if (pipeline is None) == (filepath is None):
        raise UsageError("Give a pipeline either as pipeline= or as filepath=.")
    value: Any = pipeline
    if filepath is not None:
        value = _read_pipeline(await anyio.Path(filepath).read_bytes())
    if isinstance(value, str):
        return {"pipeline": value, "source": source}
    inner = value.get("pipeline")
    flat = inner if isinstance(inner, dict) else value
    return {"pipeline": {**flat, "source": source} if source is not None else flat}


def _read_pipeline(content: bytes) -> Any:
    """The pipeline as an object, or as text when it has comments: reading those is the server's part."""
    try:
        return decode(content)
    except ParseError:
        return content.decode("utf-8", "replace")


def question_content(question: str | Mapping[str, Any], session: str | None = None) -> bytes:
    """The bytes of a question object, or of a new one for a text. Raises `UsageError` for what is not JSON."""
    asked = {"type": "question", "questions": [{"text": question}]} if isinstance(question, str) else question
    if session is not None:
        asked = {**asked, "session": session}
    try:
        return encode(asked)
    except ValueError as error:
        raise UsageError(f"the question is not JSON: {error}") from error
