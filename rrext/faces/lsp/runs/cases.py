"""The cases beside a document, run by `rrext test` in a process of its own, as an author would at a shell."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rrext.errors import RrextError
from rrext.faces.lsp.runs.engine import ENGINE_STOP_TIMEOUT, InputNeeded, engine_environment, path_of
from rrext.limits import MIB

if TYPE_CHECKING:
    from rrext.faces.lsp.options import Options

ENDING: Final = ".cases.json"
"""As in `testing/case_file.py`, with which the whole engine would be imported here."""
MOST_TOLD: Final = MIB
"""Characters of the outcomes that are kept; cases tell 20 differences each."""


class CasesFailed(RrextError, code="cases_failed", number=-32016):
    """Cases failed, or could not be run. `outcomes` is what `rrext test` told of them."""

    outcomes = ""


def cases_of(uri: str) -> str | None:
    """The file of a document's cases, if there is one."""
    path = path_of(uri)
    found = None if path is None else path.removesuffix(".pipe") + ENDING
    return found if found is not None and os.path.isfile(found) else None


async def run_cases(uri: str, text: str, words: str | None, options: Options, output: Callable[[bytes], object]) -> str:
    """What `rrext test` tells of the cases of a document whose text is `text`; of those alone whose names hold `words`.

    `output` receives what the nodes print. Raises `CasesFailed`, and `InputNeeded` if there are none or the text is not saved.
    """
    from rrext.client.server_address import serve_command
    from rrext.transports.descriptor_channel import WholeLines
    from rrext.transports.process import ChildProcess

    cases = cases_of(uri)
    if cases is None:
        raise InputNeeded("/uri", f"has no cases: a file NAME{ENDING} beside it", hint="`rrext help test` shows one")
    pipeline = cases.removesuffix(ENDING) + ".pipe"
    if await asyncio.to_thread(_text_of, pipeline) != text:
        raise InputNeeded("/uri", "is not saved: its cases run on the file", hint="save it")
    command = serve_command(
        (cases,),
        (sys.executable, "-P", "-m", "rrext", "test", "--no-project"),
        nodes=options.nodes,
        env_names=options.env,
        root=options.root,
        connections=options.connections,
        args=[*options.package_words, *(() if words is None else ("-k", words))],
    )
    process = ChildProcess(command, env=engine_environment(), cwd=os.path.dirname(cases), on_stderr=output)
    told = _Told()
    try:
        await asyncio.gather(process.drain_stderr(), process.pump(WholeLines(told.add)))
        code = await process.wait()
    finally:
        await process.stop(ENGINE_STOP_TIMEOUT)
        process.close()
    if code:
        error = CasesFailed(told.last or process.stderr_tail.strip())
        error.outcomes = told.text
        raise error
    return told.text


class _Told:
    """The lines of the command, of which the last one has the counts."""

    def __init__(self) -> None:
        self.text = self.last = ""

    def add(self, line: bytes) -> None:
        self.last = line.decode("utf-8", "replace")
        if len(self.text) + len(self.last) <= MOST_TOLD:
            self.text += f"{self.last}\n"


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            return file.read()
    except OSError:
        return ""
