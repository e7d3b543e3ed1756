"""The error of calls whose process has died."""

from __future__ import annotations

import signal
from collections.abc import Callable

from rrext.errors import TaskLost
from rrext.tasks.limits import STDERR_KEPT, STDERR_TAIL


def process_lost(name: str | None, how: str, exit_code: int, stderr: str | None) -> TaskLost:
    """The error, with the exit code or the signal, and the last words of the process for those who may read them."""
    what = "a process" if name is None else f'the process of pipeline "{name}"'
    data: dict[str, object] = {"exitCode": exit_code}
    if exit_code < 0:
        data["signal"] = _name_of(-exit_code)
    text = f"{what[0].upper()}{what[1:]} ended before it answered: {how}"
    if stderr is not None:
        data["stderr"] = stderr
        last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
        text += f". Its last words: {last}" if last else ""
    return TaskLost(text, hint="execute the pipeline again", data=data)


def last_words(kept: bytes, redact: Callable[[str], str]) -> str:
    """The end of what a process wrote to stderr, without secrets, whole or cut."""
    text = redact(kept.decode("utf-8", "replace"))
    return (text if len(kept) < STDERR_KEPT else text[STDERR_TAIL:])[-STDERR_TAIL:]


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
