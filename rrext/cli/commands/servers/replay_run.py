"""The run of `rrext replay`: the lines of a recording, the servers that they are played to, and what is told."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import anyio
import msgspec

from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.output import Results, print_error
from rrext.cli.options import environment_from, key_from
from rrext.cli.pipeline import Interrupts, exit_code_of
from rrext.cli.pipeline_problems import counted
from rrext.client.channels import GONE, Channel
from rrext.client.server_address import Launch, ServerAddress, address_of, open_channel
from rrext.columns import one_line, printable
from rrext.errors import RrextError, UsageError
from rrext.limits import CLIENT_DEFAULTS
from rrext.server.journal.trace_file import RecordedLine, RecordingHead, TraceGap, TraceHead, TraceInvalid, read_trace
from rrext.testing.replay import Replay, ReplayCounts
from rrext.transports.process import ChildProcess
from rrext.version import __version__

STDIO: Final = "stdio"
"""The id of the connection on stdin and stdout."""


def replay_all(args: argparse.Namespace) -> int:
    """Replay each run of the recording, and tell how it went."""
    with Results() as results, asyncio.Runner() as runner:
        args.key = None if args.at is None else key_from(args)  # before the variables are taken out of this process
        environment, _ = environment_from(args)
        variables = {name: environment.get(name) or "" for name in environment.names} | args.connection_variables
        for name, value in variables.items():
            environment.redactor.learn(name, value, always=True)
        replayed = RecordingReplay(args, results, variables, environment.redactor.text)
        return runner.get_loop().run_until_complete(_run(replayed))


async def _run(replayed: RecordingReplay) -> int:
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel)) as interrupts:
        return await exit_code_of(replayed.run(), interrupts)


class RecordingReplay:
    """A recording on its way to servers. `variables` has the values of names, `redact` takes them out of what is told."""

    def __init__(
        self, args: argparse.Namespace, results: Results, variables: dict[str, str], redact: Callable[[str], str]
    ) -> None:
        self._args = args
        self._results = results
        self._variables = variables
        self._redact = redact
        self._counts = ReplayCounts()
        self._gaps: list[str] = []
        self._unread = 0
        self._met = set[str]()

    async def run(self) -> int:
        """Replay; returns the exit code."""
        lines = iter(read_trace(self._args.recording))
        try:
            line = next(lines, None)
            if line is None:
                raise TraceInvalid(f"{self._args.recording}: the file is empty")
            while line is not None:
                line = await self._run_of(line, lines)
        except TraceInvalid as error:
            print(f"rrext: {printable(str(error))}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            if error.filename is None:
                raise
            print(f"rrext: {printable(self._args.recording)}: {error.strerror}", file=sys.stderr)
            return EXIT_USAGE
        except RrextError as error:
            print_error(error)
            if not self._counts.played:
                return EXIT_USAGE
            self._gaps.append("the server is gone: the rest was not replayed")
        return self._summary()

    async def _run_of(self, head: Any, lines: Iterator[Any]) -> Any:
        """Replay one run: its lines up to the first that is missing. Returns the head of the next one, or None."""
        if not isinstance(head, TraceHead):
            raise TraceInvalid(f"{self._args.recording}: its first line is cut off")
        if not isinstance(head.recording, RecordingHead):
            raise TraceInvalid(f"{self._args.recording}: a trace without requests, of --trace; --record writes them too")
        if head.version != __version__:
            print(f"rrext: recorded by rrext {printable(head.version)}, replayed by {__version__}", file=sys.stderr)
        failure: Exception | None = None
        following: Any = None
        async with self._connecting(head.recording) as connect:
            replay = Replay(
                connect,
                self._tell,
                begun=head.time,
                value_of=self._variables.get,
                key=self._args.key,
                is_shared=self._args.at is not None,
                patience=self._args.timeout,
                ignored=self._args.ignore,
            )
            async with replay.running():
                try:
                    following = await self._play(replay, lines)
                except Exception as error:  # a group of tasks would wrap it
                    failure = error
            self._add(replay.counts)
            self._met |= replay.met
        if failure is not None:
            raise failure
        return following

    async def _play(self, replay: Replay, lines: Iterator[Any]) -> Any:
        is_whole = True
        for line in lines:
            if isinstance(line, TraceHead):
                return line
            if isinstance(line, TraceGap):
                if is_whole:
                    what = "a line is cut off or damaged" if line.is_cut else f"{counted(line.count, 'line')} were dropped"
                    self._gaps.append(f"{what} in the recording: it is replayed up to there")
                is_whole = False
            elif isinstance(line, RecordedLine):
                if is_whole:
                    await replay.play(line)
                else:
                    self._unread += 1
        return None

    def _add(self, counts: ReplayCounts) -> None:
        for name, number in msgspec.structs.asdict(counts).items():
            setattr(self._counts, name, getattr(self._counts, name) + number)

    def _tell(self, headline: str, below: list[str]) -> None:
        told = [headline, *(f"  {line}" for text in below for line in text.split("\n"))]
        for line in told:
            self._results.write_line(one_line(self._redact(line)).encode("utf-8", "replace"))

    def _summary(self) -> int:
        """Tell the sums on stderr; the exit code."""
        counts = self._counts
        rest = {
            f"{counts.skipped} not replayed": counts.skipped,
            f"{counts.unanswered} without an answer in the recording": counts.unanswered,
            f"{counts.too_large} too large to be compared": counts.too_large,
            f"{counted(counts.of_states, 'event')} of monitors and answers about the server not compared": counts.of_states,
        }
        for gap in self._gaps:
            after = f"; {counted(self._unread, 'line')} behind it" if self._unread else ""
            print(f"rrext: {gap}{after}", file=sys.stderr)
        for pointer in dict.fromkeys(self._args.ignore):
            if pointer not in self._met:
                print(f"rrext: --ignore {printable(pointer)}: nothing differed there", file=sys.stderr)
        outcome = f"{counts.differ} {'differs' if counts.differ == 1 else 'differ'}" if counts.differ else "no difference"
        told = [f"{counted(counts.played, 'request')} replayed, {outcome}", *(text for text, number in rest.items() if number)]
        print("; ".join(told), file=sys.stderr)
        return EXIT_FAILED if counts.differ or counts.skipped or self._gaps else EXIT_DONE

    # servers

    @asynccontextmanager
    async def _connecting(self, recording: RecordingHead) -> AsyncIterator[Callable[[str], Any]]:
        """Open channels to the server of `--at`, or to one that is started, and ends with the block."""
        if self._args.at is not None:
            address = address_of(self._args.at, self._args.key)
            yield lambda connection_id: open_channel(address)
            return
        folder = tempfile.mkdtemp(prefix="rrext-")
        try:
            face = next((face for face in recording.faces if face != STDIO), "unix")
            listen = ["--ws", "127.0.0.1:0"] if face == "ws" else ["--listen", f"unix:{folder}/s"]
            if face == "ws" and recording.trusts_clients and not self._args.trust_clients:
                print(f"rrext: {TRUSTED}", file=sys.stderr)
            trust = ["--trust-clients"] if face == "ws" and self._args.trust_clients else []
            store = ["--store", f"{folder}/files"] if recording.keeps_files else []
            words = ServerWords(self._redact)
            options = [*listen, *trust, *store, "--stdio", "--isolation", recording.isolation]
            child = self._launch(recording, options, words.take).start()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, child, words)
                try:
                    with anyio.move_on_after(CLIENT_DEFAULTS.start):
                        await words.told.wait()
                    if words.address is not None:
                        yield partial(_channel, child, words.address)
                finally:
                    await child.stop()
                    tasks.cancel_scope.deadline = anyio.current_time() + LAST_WORDS
            if words.address is None:
                raise UsageError("the server for the replay did not start")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _launch(self, recording: RecordingHead, words: list[str], on_stderr: Callable[[bytes], object]) -> Launch:
        args = self._args
        named = [] if getattr(args, "is_default", False) else args.files  # a project names one where nobody does
        files = named or recording.pipelines
        if not named and not all(map(os.path.exists, files)):
            names = " ".join(printable(os.path.basename(path)) for path in files)
            again = f"rrext replay {printable(args.recording)} {names}"
            raise UsageError(f"the recorded server had pipelines that are not here: name them: {again}")
        words += [f"--python-package={name}" for name in args.python_packages]
        words += [f"--tools={name}" for name in recording.tools or ()]
        return Launch.serving(
            files,
            None,
            self._variables,
            None,
            None,
            on_stderr,
            nodes=args.nodes,
            root=args.root,
            env_names=args.env,
            connections=args.connections,
            threads=recording.threads,
            pipe_idle=recording.pipe_idle,
            max_frame=recording.max_frame,
            partial=recording.partial,
            args=[*words, "--no-project"],
        )


class ServerWords:
    """What a started server says on stderr: the address at which it listens, and else what people read, as nodes print it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._rest = b""
        self.address: ServerAddress | None = None
        self.told = anyio.Event()
        """Set when it listens, or has ended."""

    def take(self, piece: bytes) -> None:
        """Take what it said."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            if self.address is None and text.startswith(LISTENING):
                self.address = address_of(text.removeprefix(LISTENING), None)
                self.told.set()
            else:
                print(self._redact(text), file=sys.stderr)

    def end(self) -> None:
        """Tell what it did not finish."""
        if self._rest:
            self.take(b"\n")
        self.told.set()


LISTENING: Final = "rrext: listening at "
"""The beginning of the line that tells the address."""

TRUSTED: Final = (
    "the recorded server trusted its clients, and this one does not: give --trust-clients, if you trust all who reach it"
)

LAST_WORDS: Final = 0.5
"""Seconds for what a server said at its end; what it left behind may keep its stderr open."""


async def _drain(child: ChildProcess, words: ServerWords) -> None:
    with suppress(*GONE):  # a replay may close the connection on stdio, and all with it
        await child.drain_stderr()
    words.end()


async def _channel(child: ChildProcess, address: ServerAddress, connection_id: str) -> Channel:
    return child if connection_id == STDIO else await open_channel(address)
