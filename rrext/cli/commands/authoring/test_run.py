"""The run of `rrext test`: cases of several pipelines beside each other, told in the order of the files."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from rrext.cli.commands.authoring.check import replace_content
from rrext.cli.console.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from rrext.cli.console.lines import painted
from rrext.cli.console.output import Results, unreadable
from rrext.cli.local import redirected
from rrext.cli.options import catalog_from, packages_from, root_from
from rrext.cli.pipeline import Interrupts, end_process, exit_code_of
from rrext.cli.pipeline_problems import GREEN, RED, SEVERITIES, counted
from rrext.columns import one_line, printable
from rrext.errors import UsageError
from rrext.testing.case_file import CaseFile, cases_path, pipeline_path
from rrext.testing.case_runner import CaseRunner, Outcome, Surroundings
from rrext.testing.junit import junit_xml

VERDICTS: Final = ("passed", "updated", "failed")


def run_cases(args: argparse.Namespace) -> int:
    """Run the cases, and tell how they went."""
    with ExitStack() as stack:
        results, environment, connections = redirected(args, stack)
        packages_from(args)
        catalog_from(args)  # what is wrong with --nodes is told once, and before the first case
        paths = {os.path.realpath(path): path for path in map(cases_path, args.files)}  # each once
        files = [CaseFile(path, _content(path)) for path in paths.values()]
        report = None if args.junit is None else stack.enter_context(_opened(args.junit))
        around = Surroundings(
            lambda: catalog_from(args), environment, connections, root_from(args), tuple(args.python_packages)
        )
        with asyncio.Runner() as runner:
            return runner.get_loop().run_until_complete(_run(_Work(args, around, results, report), files))


def _content(path: str) -> bytes:
    """The text of a file of cases, which stands beside a pipeline."""
    pipeline = pipeline_path(path)
    try:
        with open(pipeline, "rb"):
            pass
    except OSError as error:
        raise UsageError(unreadable(pipeline, error).removeprefix("rrext: ")) from None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        what = f": {pipeline} has no cases" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{path}: {error.strerror}{what}") from None


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


async def _run(work: _Work, files: Sequence[CaseFile]) -> int:
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel)) as interrupts:
        code = await exit_code_of(work.run(files), interrupts)
    if not work.is_clean:
        end_process(code)
    return code


class _Work:
    """One run of the command: what it tells, and how it went."""

    def __init__(self, args: argparse.Namespace, around: Surroundings, results: Results, report: BinaryIO | None) -> None:
        self._args = args
        self._around = around
        self._results = results
        self._report = report
        self._turns = asyncio.Semaphore(args.jobs)
        self._found: dict[str, list[Outcome]] = {}
        self.is_clean = True
        """Whether no thread of a case is left behind."""

    async def run(self, files: Sequence[CaseFile]) -> int:
        """Run the files beside each other, and tell of them in their order; the exit code."""
        begun = time.monotonic()
        works = [asyncio.ensure_future(self._outcomes(file)) for file in files]
        told: list[tuple[CaseFile, list[Outcome]]] = []
        try:
            for file, work in zip(files, works, strict=True):
                told.append((file, await work))
                self._tell(*told[-1])
        except asyncio.CancelledError:
            for file in files[len(told) :]:
                told.append((file, self._found.get(file.path, [])))
                self._tell(*told[-1])
            self._line(f"cancelled: {', '.join(_counts(told)) or 'no case had run'}")
            raise
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
        if self._report is not None:
            self._report.write(junit_xml(told))
        verdicts = Counter(outcome.verdict for _, outcomes in told for outcome in outcomes)
        wrong = sum(any(problem.severity == "error" for problem in file.problems) for file in files)
        counts = [*_counts(told), *([f"{counted(wrong, 'file')} wrong"] if wrong else [])]
        self._line(f"{', '.join(counts) or 'no case was run'} in {time.monotonic() - begun:.1f} s")
        if wrong or not verdicts:
            return EXIT_USAGE
        return EXIT_FAILED if verdicts["failed"] else EXIT_DONE

    async def _outcomes(self, file: CaseFile) -> list[Outcome]:
        """How the cases of a file went."""
        words = self._args.words
        async with self._turns:
            runner = CaseRunner(file, self._around)
            try:
                found = self._found.setdefault(file.path, [])
                for case in file.cases:
                    if words is None or words in case.name:
                        found.append(await runner.run(case))
            finally:
                self.is_clean = await runner.aclose() and self.is_clean
        return self._updated(file, found) if self._args.update else found

    def _updated(self, file: CaseFile, outcomes: list[Outcome]) -> list[Outcome]:
        """Write the results that are not expected as what is."""
        new: dict[str, Any] = {}
        found: list[Outcome] = []
        for each in outcomes:
            expect = each.expect
            if expect is UNSET or expect is each.case.expect:
                found.append(each)
            elif self._holds_secret(expect):
                text = 'the result holds a secret, and is not written: expect {"$any": true} there'
                found.append(replace(each, verdict="failed", details=(*each.details, text)))
            else:
                new[each.case.name] = expect
                found.append(replace(each, verdict="updated", details=()))
        if new:
            text = file.with_expectations((case, new[case.name]) for case in file.cases if case.name in new)
            try:
                replace_content(file.path, file.text, text)
            except OSError as error:
                raise UsageError(f"{file.path}: {error.strerror}") from None
        return found

    def _holds_secret(self, expect: Any) -> bool:
        text = msgspec.json.encode(expect).decode()
        return self._around.environment.redactor.text(text) != text

    def _tell(self, file: CaseFile, outcomes: list[Outcome]) -> None:
        for problem in file.problems:
            line, column = file.place(problem)
            severity = self._painted(problem.severity, SEVERITIES.get(problem.severity))
            at = f"{problem.path}: " if problem.path else ""
            self._line(f"{printable(file.path)}:{line}:{column}: {severity}: {one_line(at + problem.message)} [{problem.code}]")
        if not outcomes:
            return
        self._line(printable(file.path))
        for each in outcomes:
            word = self._painted(f"{each.verdict:<7}", RED if each.verdict == "failed" else GREEN)
            self._line(f"  {word} {one_line(each.case.name)} ({each.seconds * 1e3:.0f} ms)")
            for detail in each.details:
                for line in detail.split("\n"):
                    self._line(f"          {printable(line)}")

    def _painted(self, text: str, colour: str | None) -> str:
        return painted(text, colour if self._results.is_terminal else None)

    def _line(self, text: str) -> None:
        self._results.write_line(text.encode("utf-8", "backslashreplace"))


def _counts(told: Sequence[tuple[CaseFile, Sequence[Outcome]]]) -> list[str]:
    """How many cases went which way, in words."""
    found = [each for _, outcomes in told for each in outcomes]
    verdicts = Counter(each.verdict for each in found)
    bare = sum(each.is_bare for each in found)
    words = [f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict]]
    return [*words, *([f"{bare} without an expectation"] if bare else [])]
