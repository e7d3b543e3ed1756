"""`rrext chat`: questions for a pipeline that chats, in this process or of a server that runs."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.keyboard import Keyboard, TypedLines, history, why_no_prompt
from rrext.cli.console.lines import is_terminal, terminal_width
from rrext.cli.console.output import Results, print_error
from rrext.cli.local import LocalPipeline, in_words_of_source, run_locally
from rrext.cli.options import (
    Command,
    add_caller_options,
    add_pipeline_options,
    add_source,
    add_source_option,
    add_wait_option,
    let_words_follow_options,
)
from rrext.cli.pipeline import failure_of
from rrext.cli.tracing import add_trace_options
from rrext.columns import cut, one_line, printable
from rrext.engine.interface.operations import Close, ListTools, Open, Write
from rrext.errors import RrextError

if TYPE_CHECKING:
    from rrext.cli.commands.calls.chat_display import ChatDisplay
    from rrext.cli.remote import RemotePipeline
    from rrext.client.chat_events import ChatEvent

MAX_CHAT_MESSAGES: Final = 40
"""Messages of a chat that go with the next question; older ones are forgotten."""

DESCRIPTION = "Ask a pipeline that chats, in this process or of a server that runs."
EXAMPLE = """examples:
  rrext chat pipeline.pipe
  rrext chat pipeline.pipe 'When are you open?'
  rrext chat --at unix:/tmp/rrext.sock --session mine
  cat questions.txt | rrext chat pipeline.pipe --json | jq -c .result.answers

Without a question it is a prompt on a terminal, with history in the extra `cli`, and elsewhere each line of stdin is a
question. Earlier questions and answers go with the next one, unless --session leaves that to the agent.

A terminal shows the text as it comes and the tools while they run, and asks where a tool needs a permit or asks its user;
elsewhere stdout has the answers alone. At the prompt, Ctrl-C stops the question that runs, Ctrl-D ends the chat, /new
begins a new one, /tools lists the tools of the pipeline, /trace draws what the last question did, with times.

Exit code 0: done. 1: a question failed. 2: the command or the pipeline is wrong, or nothing takes questions. 130: Ctrl-C.
"""
QUESTION_TYPE = "application/rocketride-question"
PROMPT = "chat> "
NEW: Final = ("/new", r"\new")

Reads: TypeAlias = Callable[[], Awaitable[str | None]]
"""Gives the next question; None at the end."""


def add_arguments(parser: argparse.ArgumentParser, *, at: bool) -> None:
    """Add the arguments of the command; `at`: a server is used."""
    add_source(parser, at=at)
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="one question; else those of the prompt or of stdin")
    parser.add_argument("--session", metavar="NAME", help="the conversation of the questions, for agents that keep some")
    parser.add_argument("--json", action="store_true", help="a line {question, result} or {question, error} for each question")
    parser.add_argument("--events", action="store_true", help="what happens meanwhile, each event as a line of JSON on stderr")
    parser.add_argument("--plain", action="store_true", help="show text as it is, not as Markdown")
    add_caller_options(parser)
    if not at:
        add_pipeline_options(parser)
        add_wait_option(parser)
        add_trace_options(parser)
    add_source_option(parser)
    let_words_follow_options(parser, "question")


def run(args: argparse.Namespace) -> int:
    """Ask until the questions end; returns the exit code."""
    keyboard = Keyboard()
    can_prompt = why_no_prompt("") is None
    try:  # questions come through a descriptor that no child of a tool has; 0 becomes the null device
        fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3) if args.question is None else -1
    except OSError as error:
        print(f"rrext: stdin: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE

    async def chat(asker: ChatAsker, results: Results) -> int:
        display: ChatDisplay | None = None
        if results.is_terminal and is_terminal(sys.__stdout__ or sys.stdout) and not (args.json or args.events):
            from rrext.cli.commands.calls.chat_display import ChatDisplay  # a pipe sees the answers alone

            display = ChatDisplay(results, as_markdown=not args.plain)
        watch = ChatWatch(display, keyboard if can_prompt and display is not None else None, tells=args.events)
        conversation = Conversation(asker, results, keyboard, watch, session=args.session, as_json=args.json)
        with nullcontext() if display is None else display.messages_above():
            if args.question is not None:
                await conversation.ask(args.question)
            elif can_prompt:
                print("Ctrl-D ends the chat, /new begins a new one; /tools, /trace.", file=sys.stderr)
                await conversation.run(_from_prompt(keyboard, results))
            else:
                await conversation.run(_from_stdin(fd))
        return EXIT_FAILED if conversation.failed else EXIT_DONE

    async def locally(pipeline: LocalPipeline, results: Results) -> int:
        try:
            plan = pipeline.task.plan_from(args.source, "chat")
        except RrextError as error:
            print_error(in_words_of_source(error))
            return EXIT_USAGE
        if not plan.listens("questions"):
            print(f"rrext: {args.file}: nothing takes questions; `rrext show` draws what it takes", file=sys.stderr)
            return EXIT_USAGE
        return await chat(LocalAsker(pipeline, plan.source), results)

    async def remotely(pipeline: Any, results: Results) -> int:
        return await chat(RemoteAsker(pipeline, args.source), results)

    if args.at is not None:
        from rrext.cli.remote import run_remotely

        return run_remotely(args, remotely, absorbs=keyboard.absorbs)
    return run_locally(args, locally, absorbs=keyboard.absorbs)


CHAT = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _from_prompt(keyboard: Keyboard, results: Results) -> Reads:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(history=history("chat_history"), output=create_output(stdout=results.text()))
    keyboard.begin()
    return lambda: keyboard.read(session, PROMPT)


def _from_stdin(fd: int) -> Reads:
    stdin = os.fdopen(fd, encoding="utf-8", errors="replace")

    async def read() -> str | None:
        if stdin.isatty():
            print(PROMPT, end="", file=sys.stderr, flush=True)
        line = await asyncio.to_thread(stdin.readline)
        return line.strip() if line else None

    return read


class ChatWatch:
    """The display of a chat, and of the questions that its tools ask: the user at `keyboard` answers; None is no user.

    `tells` says that events are lines of JSON on stderr. On the loop's thread.
    """

    def __init__(self, display: ChatDisplay | None, keyboard: Keyboard | None, *, tells: bool) -> None:
        self.display = display
        self.keyboard = keyboard
        self._tells = tells
        self._lock = asyncio.Lock()

    @property
    def wants_events(self) -> bool:
        """Whether anybody sees the events."""
        return self.display is not None or self._tells

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        if self.display is not None:
            self.display.show(event)
        if self._tells:
            sys.stderr.write(msgspec.json.encode(event).decode() + "\n")

    async def permit(self, body: dict[str, Any]) -> bool:
        """Ask the user whether a tool may be called; one question at a time."""
        display, keyboard = self.display, self.keyboard
        assert display is not None
        assert keyboard is not None  # else no permit is offered
        async with self._lock:
            display.hold()
            try:
                display.lines(asking_lines(body))
                return await keyboard.confirmed("allow this call? [y/n] ")
            finally:
                display.go_on()

    async def answered(self, body: dict[str, Any]) -> dict[str, Any]:
        """The user's answer to a question of a tool, as `rrext tool` asks it: `{action, content?}`."""
        from rrext.cli.commands.calls.tool import answer

        assert self.display is not None
        async with self._lock:
            self.display.hold()
            lines = TypedLines(0)

            def ask() -> dict[str, Any]:
                with lines:
                    return answer(body["params"], lines)

            asked = asyncio.get_running_loop().run_in_executor(None, ask)
            try:
                await asyncio.wait([asked])
                return asked.result()
            except asyncio.CancelledError:
                print(file=sys.stderr)  # the cursor stands behind the question
                lines.stop()
                await asyncio.wait([asked])
                raise
            finally:
                self.display.go_on()

    async def idle(self) -> None:
        """Wait until the keyboard is free: a question that is cancelled gives it back a moment later."""
        async with self._lock:
            pass

    async def content(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """What the user put into the form of a question; None for a user who does not agree."""
        given = await self.answered(body)
        return given.get("content", {}) if given["action"] == "accept" else None


def asking_lines(body: dict[str, Any]) -> list[str]:
    """The question for a permit: the tool, who calls it, and its arguments."""
    within = f', called by "{one_line(body["within"])}",' if body.get("within") else ""
    line = f'? The tool "{one_line(body["tool"])}" of "{one_line(body["nodeId"])}"{within} needs a permit. Its arguments:'
    arguments = msgspec.json.format(msgspec.json.encode(body.get("arguments")), indent=2).decode()
    return [line, *printable(arguments).split("\n")]


class ChatAsker(Protocol):
    """The pipeline of a chat."""

    async def ask(self, question: dict[str, Any], watch: ChatWatch) -> dict[str, Any]:
        """The result of a question. Raises its failure."""
        ...

    async def tools(self) -> list[dict[str, Any]]:
        """The tools that may be called."""
        ...


class LocalAsker:
    """The pipeline in this process. `source` is where questions enter."""

    def __init__(self, pipeline: LocalPipeline, source: str) -> None:
        self._pipeline = pipeline
        self._source = source
        self._count = 0

    async def ask(self, question: dict[str, Any], watch: ChatWatch) -> dict[str, Any]:
        self._count += 1
        pipeline = self._pipeline
        caller = msgspec.structs.replace(pipeline.caller, connection_id=f"question-{self._count}")
        feed = WatchFeed(watch) if watch.wants_events else None
        told: dict[str, Any] = {} if feed is None else {"events": True}
        if watch.keyboard is not None:
            told |= {"permits": True, "questions": ["form", "url"]}
        about = {"name": f"Question {self._count}"}
        try:
            opened, _ = await pipeline.ask(Open(object=about, mime_type=QUESTION_TYPE, source=self._source), caller=caller)
            pipe_id = msgspec.json.decode(opened)["pipe_id"]
            write = Write(pipe_id=pipe_id, **told)
            await pipeline.ask(write, data=msgspec.json.encode(question), feed=feed, caller=caller)
            closed, _ = await pipeline.ask(Close(pipe_id=pipe_id, **told), feed=feed, caller=caller)
        except BaseException:  # failures and Ctrl-C leave no pipe behind
            pipeline.drop(caller)
            raise
        finally:
            if feed is not None:
                feed.end()
        result = msgspec.json.decode(closed)
        if result.get("error") is not None:
            raise failure_of(result["error"], result)
        return result

    async def tools(self) -> list[dict[str, Any]]:
        body, _ = await self._pipeline.ask(ListTools())
        tools: list[dict[str, Any]] = msgspec.json.decode(body)["tools"]
        return tools


class WatchFeed:
    """Brings the events of a question from any thread to the loop, and asks for permits there."""

    def __init__(self, watch: ChatWatch) -> None:
        from rrext.client.chat_events import ChatReader

        self._watch = watch
        self._reader = ChatReader()
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    def call_event(self, body: dict[str, Any]) -> None:
        """Show an event of the question, soon."""
        if not self._is_over:
            self._loop.call_soon_threadsafe(self._show, body)

    def _show(self, body: dict[str, Any]) -> None:
        for event in self._reader.read(body):
            if not self._is_over:
                self._watch.show(event)

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the user."""
        return await (self._watch.permit(body) if event == "rrext_permission" else self._watch.answered(body))

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Do nothing: nobody asked for progress."""

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Do nothing: nobody asked for chunks."""

    def wait_for_room(self) -> None:
        """Return at once."""

    async def room(self) -> None:
        """Return at once."""

    def end(self) -> None:
        """Show nothing more: the question is over."""
        self._is_over = True


class RemoteAsker:
    """The pipeline of a server."""

    def __init__(self, pipeline: RemotePipeline, source: str | None) -> None:
        self._pipeline = pipeline
        self._source = source

    async def ask(self, question: dict[str, Any], watch: ChatWatch) -> dict[str, Any]:
        client, token = self._pipeline.client, self._pipeline.token
        if not watch.wants_events:
            return await client.chat(question=question, token=token, source=self._source)
        asks = {} if watch.keyboard is None else {"on_permission": watch.permit, "on_question": watch.content}
        async with client.chat_events(question=question, token=token, source=self._source, **asks) as turn:
            async for event in turn:
                watch.show(event)
        return turn.result or {}

    async def tools(self) -> list[dict[str, Any]]:
        return await self._pipeline.client.tools(token=self._pipeline.token)


class Conversation:
    """Questions and answers, each with those before it, unless a `session` of the pipeline has them."""

    def __init__(
        self, asker: ChatAsker, results: Results, keyboard: Keyboard, watch: ChatWatch, *, session: str | None, as_json: bool
    ) -> None:
        self._asker = asker
        self._results = results
        self._keyboard = keyboard
        self._watch = watch
        self._session = session
        self._as_json = as_json
        self._messages: list[dict[str, str]] = []
        self.failed = False
        """Whether any question failed."""

    async def run(self, read: Reads) -> None:
        """Ask what is read, until the end. Raises `OSError` when stdout is closed."""
        while (question := await read()) is not None:
            if question in NEW:
                self._messages.clear()
            elif question == "/tools":
                await self._keyboard.stoppable(self._list_tools())
            elif question == "/trace":
                self._trace()
            elif question:
                await self._keyboard.stoppable(self.ask(question))
                await self._watch.idle()
        self._keyboard.end()

    async def ask(self, question: str) -> None:
        """Ask one question and write what comes of it."""
        display = self._watch.display
        asked: dict[str, Any] = {"type": "question", "questions": [{"text": question}], "history": self._messages}
        if self._session is not None:
            asked |= {"history": [], "session": self._session}
        try:
            if display is not None:
                display.begin()
                await display.prepare()
            result = await self._asker.ask(asked, self._watch)
        except RrextError as error:
            self.failed = True
            if display is not None:
                display.end()
            if self._as_json:
                told = {"code": error.code, "message": error.message}
                self._results.write_line(msgspec.json.encode({"question": question, "error": told}))
            print_error(error)
            return
        except asyncio.CancelledError:
            if display is not None:
                display.end()
            raise
        answers = [_text(answer) for key in _answer_keys(result) for answer in result[key]]
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": "\n".join(answers)}]
        self._messages = [*self._messages, *said][-MAX_CHAT_MESSAGES:]
        if self._as_json:
            self._results.write_line(msgspec.json.encode({"question": question, "result": result}))
        elif display is not None and answers:
            display.answer(answers)
        elif answers:
            shown = "\n".join(answers)
            self._results.write_line((printable(shown) if self._results.is_terminal else shown).encode())
        else:
            if display is not None:
                display.end()
            self._results.write_line(msgspec.json.encode(result))

    async def _list_tools(self) -> None:
        try:
            tools = await self._asker.tools()
        except RrextError as error:
            print_error(error)
            return
        width = max((len(tool["name"]) for tool in tools), default=0)
        lines = [f"{tool['name']:{width}}  {tool.get('description') or ''}  ({tool['nodeId']})" for tool in tools]
        self._write(lines or ["the pipeline has no tools for callers; those of an agent are its own"])

    def _trace(self) -> None:
        from rrext.cli.commands.calls.chat_display import trace_lines

        display = self._watch.display
        self._write((trace_lines(display.turn) if display is not None else []) or ["the last question called nothing"])

    def _write(self, lines: list[str]) -> None:
        """Write lines that hold the words of models and servers."""
        width = terminal_width() - 1 if self._results.is_terminal else sys.maxsize
        self._results.write("".join(f"{cut(one_line(line), width)}\n" for line in lines).encode())


def _answer_keys(result: dict[str, Any]) -> list[str]:
    """The members of a result that hold answers; `laneName` may give them any name."""
    kinds = result.get("result_types") or {}
    return [key for key, kind in kinds.items() if kind == "answers" and isinstance(result.get(key), list)]


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
