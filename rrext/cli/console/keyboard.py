"""Typed input of a command: lines with history, and Ctrl-C that cancels the running work.

A thread reads the prompt, so that signals reach the command: Ctrl-C is a key during input, and cancels the work during a run.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
from collections.abc import Coroutine
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


PROMPT_PAUSE: Final = 0.05
"""Seconds until a prompt that is given up, and has not begun, is looked at again."""


def why_no_prompt(instead: str) -> str | None:
    """The reason why there can be no prompt here, if any; `instead` says what does without one."""
    from rrext.nodes.base.setup import missing_packages

    missing = missing_packages("cli", "prompt_toolkit")
    if missing is None and os.isatty(0) and os.isatty(1):
        return None
    return f"there is no prompt: {missing or f'stdin or stdout is no terminal: {instead}'}"


class Keyboard:
    """The keyboard of a prompt: it reads lines, and its Ctrl-C cancels work, never the prompt."""

    def __init__(self) -> None:
        self._work: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False

    def absorbs(self, number: int) -> bool:
        """Handle Ctrl-C: it cancels the running work; before `begin` and after `end` it is not handled."""
        if number != signal.SIGINT or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(self._stop)
        return True

    def begin(self) -> None:
        """Handle Ctrl-C from now on."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Handle Ctrl-C no longer."""
        self._loop = None

    def _stop(self) -> None:
        self._is_stopped = True  # also the next work, if it is about to start
        if self._work is not None:
            self._work.cancel()

    async def read(self, session: PromptSession[str], name: str, more: str = "", typed: str = "") -> str | None:
        """The typed text, empty after Ctrl-C; None at the end. `more` stands before further lines; `typed` is there already."""
        before = termios.tcgetattr(0)
        self._is_stopped = False
        asked = asyncio.get_running_loop().run_in_executor(
            None, lambda: session.prompt(name, prompt_continuation=more, handle_sigint=False, default=typed)
        )
        try:
            return (await asked).strip()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)  # a signal that ends the command leaves the thread behind

    async def confirmed(self, question: str) -> bool:
        """Whether the user says yes; asked again until the answer is yes or no. Ctrl-C is no, and stops the running work.

        What was typed before the question is no answer to it.
        """
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.typeahead import clear_typeahead

        session: PromptSession[str] = PromptSession()
        before = termios.tcgetattr(0)
        asked: asyncio.Future[str] | None = None
        forget_typed(0)
        clear_typeahead(session.input)
        try:
            while True:
                asked = asyncio.get_running_loop().run_in_executor(None, lambda: session.prompt(question, handle_sigint=False))
                await asyncio.wait([asked])
                answer = asked.result().strip().lower()
                if answer in ("y", "yes", "n", "no"):
                    return answer[0] == "y"
        except KeyboardInterrupt:
            self._interrupt()
            return False
        except EOFError:
            return False
        except asyncio.CancelledError:  # nobody waits for the answer any more: the thread must give the keyboard back
            if asked is not None:
                await _given_up(session, asked)
            raise
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)

    def _interrupt(self) -> None:
        if self._loop is None:
            os.kill(os.getpid(), signal.SIGINT)  # which ends the command
        else:
            self._stop()

    async def stoppable(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do work that Ctrl-C may cancel; False if it did."""
        task = self._work = asyncio.ensure_future(work)
        if self._is_stopped:
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if not task.cancelled() or (me is not None and me.cancelling()):  # the command itself is to end
                raise
            print("cancelled", file=sys.stderr)
            return False
        finally:
            self._work = None
        return True


class TypedLines:
    """The lines that are typed at a terminal, for a thread that reads them, until `stop`. A context manager of that thread.

    What was typed before it is entered is forgotten: it answers no question that nobody had read.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._wake, self._stop = os.pipe()
        self._lock = Lock()

    def __enter__(self) -> TypedLines:
        forget_typed(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            os.close(self._wake)
            os.close(self._stop)
            self._stop = -1

    def __iter__(self) -> TypedLines:
        return self

    def __next__(self) -> str:
        ready = select.select([self._fd, self._wake], [], [])[0]
        typed = b"" if self._wake in ready else os.read(self._fd, 65536)
        if not typed:
            raise StopIteration
        return typed.decode("utf-8", "replace")

    def stop(self) -> None:
        """End the lines; from any thread."""
        with self._lock:
            if self._stop >= 0:
                os.write(self._stop, b"x")


def forget_typed(fd: int) -> None:
    """Drop what was typed at a terminal and not read."""
    if os.isatty(fd):
        termios.tcflush(fd, termios.TCIFLUSH)


async def _given_up(session: PromptSession[str], asked: asyncio.Future[str]) -> None:
    """End the prompt of a thread."""

    def leave() -> None:
        if session.app.is_running and not session.app.is_done:
            session.app.exit(exception=EOFError())

    while not asked.done():  # the thread may be about to begin
        if session.app.is_running and session.app.loop is not None:
            session.app.loop.call_soon_threadsafe(leave)
        await asyncio.wait([asked], timeout=PROMPT_PAUSE)
    asked.exception()


def history(name: str) -> Any:
    """The history of input, in a file that only its owner can read."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = os.path.join(state, "rrext", name)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        os.chmod(path, 0o600)
    except OSError as error:
        print(f"rrext: no history is kept: {path}: {error.strerror}", file=sys.stderr)
        return InMemoryHistory()
    return FileHistory(path)
