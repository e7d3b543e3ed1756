"""`rrext chat`: questions for a pipeline that chats."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from rrext.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.keyboard import Keyboard, history, why_no_prompt
from rrext.cli.local import LocalPipeline, in_words_of_source, run_locally
from rrext.cli.options import (
    Command,
    add_caller_options,
    add_partial_option,
    add_pipeline_options,
    add_source_option,
    add_wait_option,
    let_words_follow_options,
)
from rrext.cli.output import Results, print_error
from rrext.cli.pipeline import failure_of
from rrext.cli.tracing import add_trace_options
from rrext.columns import printable
from rrext.engine.interface.operations import Close, Open, Write
from rrext.errors import RrextError

MAX_CHAT_MESSAGES: Final = 40
"""Messages of a chat that go with the next question; older ones are forgotten."""

DESCRIPTION = "Ask a pipeline that chats, in this process."
EXAMPLE = """examples:
  rrext chat pipeline.pipe
  rrext chat pipeline.pipe 'When are you open?'
  cat questions.txt | rrext chat pipeline.pipe --json | jq -c .result.answers

Without a question it is a prompt on a terminal, with history in the extra `cli`, and elsewhere each line of stdin is a
question. Earlier questions and answers go with the next one. At the prompt, Ctrl-C ends the question that runs, Ctrl-D the
chat, and \\new begins a new one.

Exit code 0: done. 1: a question failed. 2: the command or the pipeline is wrong, or nothing takes questions. 130: Ctrl-C.
"""
QUESTION_TYPE = "application/rocketride-question"
PROMPT = "chat> "

Reads: TypeAlias = Callable[[], Awaitable[str | None]]
"""Gives the next question; None at the end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE.pipe", help="the pipeline")
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="one question; else those of the prompt or of stdin")
    parser.add_argument("--json", action="store_true", help="a line {question, result} or {question, error} for each question")
    add_caller_options(parser)
    add_pipeline_options(parser)
    add_wait_option(parser)
    add_partial_option(parser)
    add_source_option(parser)
    add_trace_options(parser)
    let_words_follow_options(parser, "question")


def run(args: argparse.Namespace) -> int:
    """Ask until the questions end; returns the exit code."""
    keyboard = Keyboard()
    typed = args.question is None and why_no_prompt("") is None
    try:  # questions come through a descriptor that no child of a tool has; 0 becomes the null device
        fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3) if args.question is None else -1
    except OSError as error:
        print(f"rrext: stdin: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE

    async def work(pipeline: LocalPipeline, results: Results) -> int:
        try:
            plan = pipeline.task.plan_from(_source(pipeline, args.source))
        except RrextError as error:
            print_error(in_words_of_source(error))
            return EXIT_USAGE
        if not plan.listens("questions"):
            print(f"rrext: {args.file}: nothing takes questions; `rrext show` draws what it takes", file=sys.stderr)
            return EXIT_USAGE
        chat = Conversation(pipeline, results, keyboard, source=plan.source, as_json=args.json)
        if args.question is not None:
            await chat.ask(args.question)
        elif typed:
            print(r"Ctrl-D ends the chat, \new begins a new one.", file=sys.stderr)
            await chat.run(_from_prompt(keyboard, results))
        else:
            await chat.run(_from_stdin(fd))
        return EXIT_FAILED if chat.failed else EXIT_DONE

    return run_locally(args, work, absorbs=keyboard.absorbs)


CHAT = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


def _source(pipeline: LocalPipeline, given: str | None) -> str | None:
    """The source of the questions: the given one, or the only one of several that is for chats."""
    chats = [source for source, plan in pipeline.task.plans.items() if "chat" in plan.source_class.accepts]
    return chats[0] if not given and len(chats) == 1 else given


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


class Conversation:
    """Questions and answers, each with those before it."""

    def __init__(self, pipeline: LocalPipeline, results: Results, keyboard: Keyboard, *, source: str, as_json: bool) -> None:
        self._pipeline = pipeline
        self._source = source
        self._results = results
        self._keyboard = keyboard
        self._as_json = as_json
        self._messages: list[dict[str, str]] = []
        self._count = 0
        self.failed = False
        """Whether any question failed."""

    async def run(self, read: Reads) -> None:
        """Ask what is read, until the end. Raises `OSError` when stdout is closed."""
        while (question := await read()) is not None:
            if question == r"\new":
                self._messages.clear()
            elif question:
                await self._keyboard.stoppable(self.ask(question))
        self._keyboard.end()

    async def ask(self, question: str) -> None:
        """Ask one question and write what comes of it."""
        self._count += 1
        try:
            result = await self._result(question)
        except RrextError as error:
            self.failed = True
            if self._as_json:
                told = {"code": error.code, "message": error.message}
                self._results.write_line(msgspec.json.encode({"question": question, "error": told}))
            print_error(error)
            return
        answers = [_text(answer) for key in _answer_keys(result) for answer in result[key]]
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": "\n".join(answers)}]
        self._messages = [*self._messages, *said][-MAX_CHAT_MESSAGES:]
        if self._as_json:
            self._results.write_line(msgspec.json.encode({"question": question, "result": result}))
        elif answers:
            shown = "\n".join(answers)
            self._results.write_line((printable(shown) if self._results.is_terminal else shown).encode())
        else:
            self._results.write_line(msgspec.json.encode(result))

    async def _result(self, question: str) -> dict[str, Any]:
        caller = msgspec.structs.replace(self._pipeline.caller, connection_id=f"question-{self._count}")
        asked = {"type": "question", "questions": [{"text": question}], "history": self._messages}
        about = {"name": f"Question {self._count}"}
        try:
            opened, _ = await self._pipeline.ask(
                Open(object=about, mime_type=QUESTION_TYPE, source=self._source), caller=caller
            )
            pipe_id = msgspec.json.decode(opened)["pipe_id"]
            await self._pipeline.ask(Write(pipe_id=pipe_id), data=msgspec.json.encode(asked), caller=caller)
            closed, _ = await self._pipeline.ask(Close(pipe_id=pipe_id), caller=caller)
        except BaseException:  # failures and Ctrl-C leave no pipe behind
            self._pipeline.drop(caller)
            raise
        result = msgspec.json.decode(closed)
        if result.get("error") is not None:
            raise failure_of(result["error"], result)
        return result


def _answer_keys(result: dict[str, Any]) -> list[str]:
    """The members of a result that hold answers; `laneName` may give them any name."""
    kinds = result.get("result_types") or {}
    return [key for key, kind in kinds.items() if kind == "answers" and isinstance(result.get(key), list)]


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
