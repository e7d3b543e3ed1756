"""Runs the cases of a pipeline in this process, through the same code as in a server."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio
import msgspec

from rrext.client.client import Client
from rrext.connections import Connections
from rrext.engine.flow.intake import PAYLOADS
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError, UsageError
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS, MIB
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.text.source import read
from rrext.testing.case_file import Case, CaseFile
from rrext.testing.expectations import Difference, differences, shown, updated
from rrext.testing.sessions import pair
from rrext.testing.stand_ins import is_readable, payload_of, with_stand_ins
from rrext.wire.codec import encode

Verdict = Literal["passed", "failed", "updated"]

MOST_DIFFERENCES: Final = 20
"""Differences of a case that are told."""
MOST_BYTES: Final = 64 * MIB
"""Bytes of a file that a case sends: it is kept in memory."""
LIMITS: Final = msgspec.structs.replace(DEFAULTS, drain=1.0)
"""A case that was not answered in time gets a second more, not half a minute, to let its threads return."""


class Outcome(msgspec.Struct, frozen=True):
    """How a case went.

    `details` are sentences, each of a line or more; `seconds` is its time; `result` what came, if something did.
    """

    case: Case
    verdict: Verdict
    details: tuple[str, ...]
    seconds: float
    result: Any = msgspec.UNSET

    @property
    def is_bare(self) -> bool:
        """Whether the case passed for want of anything that it expects."""
        return self.verdict == "passed" and self.case.expect is msgspec.UNSET and self.case.error is None

    @property
    def expect(self) -> Any:
        """The expectation that the result meets: that of the case where it holds. `UNSET` without a result."""
        if self.result is msgspec.UNSET or self.case.error is not None:
            return msgspec.UNSET
        return updated(self.case.expect, self.result)


@dataclass(frozen=True)
class Surroundings:
    """What pipelines run in: the options of the command line. `catalog` makes a new catalog of nodes."""

    catalog: Callable[[], Catalog]
    environment: Environment
    connections: Connections
    root: str | None = None
    packages: tuple[str, ...] = ()


class CaseRunner:
    """Runs cases of one file, one after the other. Cases with the same stand-ins share a loaded pipeline."""

    def __init__(self, file: CaseFile, surroundings: Surroundings) -> None:
        self._file = file
        self._surroundings = surroundings
        self._engines: dict[bytes, LocalEngine | RrextError] = {}
        self._is_late = False

    async def run(self, case: Case) -> Outcome:
        """Run a case; never raises for what it does."""
        begun = time.monotonic()
        result: Any = msgspec.UNSET
        try:
            with anyio.fail_after(case.timeout):
                result = await self._result(case)
        except TimeoutError:
            self._is_late = True
            details = (f"was not answered within {case.timeout:g} s",)
        except RrextError as error:
            details = self._of_failure(case, error)
        except Exception as error:  # of a pipeline or a case that no check refuses
            details = (f"failed: {type(error).__name__}: {error}",)
        else:
            details = _of_result(case, result)
        verdict: Verdict = "failed" if details else "passed"
        redacted = tuple(map(self._surroundings.environment.redactor.text, details))
        return Outcome(case, verdict, redacted, time.monotonic() - begun, result)

    async def aclose(self) -> bool:
        """End the pipelines; whether no thread of a case is left behind, for which Python would wait."""
        is_clean = not self._is_late
        for engine in self._engines.values():
            if isinstance(engine, LocalEngine):
                try:
                    await asyncio.wait_for(engine.aclose(), CLIENT_DEFAULTS.interrupt)
                except TimeoutError:
                    is_clean = False
        return is_clean

    async def _result(self, case: Case) -> Any:
        engine = await self._engine(case.stub)
        context = {"userId": case.user, "spaceId": case.space} if case.user or case.space else None
        async with pair(engine, context=context) as client:
            return await (_call(client, case) if case.tool else self._send(client, case))

    async def _send(self, client: Client, case: Case) -> Any:
        """Send one object; what the response nodes say, and what the stores keep."""
        data, name = await asyncio.to_thread(self._object, case)
        about = {"name": name, "size": len(data)}
        async with client.pipe(mimetype=f"lane/{case.lane}", objinfo=about, source=case.source) as pipe:
            await pipe.write(data)
        body = pipe.result or {}
        return {key: body[key] for key in (*body.get("result_types", ()), *(("stored",) if "stored" in body else ()))}

    def _object(self, case: Case) -> tuple[bytes, str]:
        given = "" if case.input is msgspec.UNSET else case.input
        if isinstance(given, dict) and given.keys() == {"$file"}:
            return _content(self._file.folder, given["$file"]), os.path.basename(given["$file"])
        if isinstance(given, str) and PAYLOADS[case.lane] in ("text", "tags", "media"):
            return given.encode(), case.name
        return encode(payload_of(case.lane, given)), case.name

    async def _engine(self, stub: Mapping[str, Any]) -> LocalEngine:
        """The engine with the pipeline and these stand-ins. Raises why there is none, for each case anew."""
        key = encode(stub)
        if key not in self._engines:
            around = self._surroundings
            engine = LocalEngine(
                catalog=around.catalog(),
                environment=around.environment,
                connections=around.connections,
                limits=LIMITS,
                root=around.root,
                packages=around.packages,
            )
            self._engines[key] = engine
            try:
                self._load(engine, stub)
            except RrextError as error:
                await engine.aclose()
                self._engines[key] = error
        found = self._engines[key]
        if isinstance(found, RrextError):
            raise found
        return found

    def _load(self, engine: LocalEngine, stub: Mapping[str, Any]) -> None:
        path = self._file.pipeline
        try:
            with open(path, "rb") as file:
                text: Any = file.read()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        if stub:
            value = read(text).value
            if is_readable(value):  # else the problems of the text are told
                text, classes = with_stand_ins(value, stub, engine.catalog)
                for made in classes:
                    engine.catalog.add(made)
        stem = os.path.splitext(os.path.basename(path))[0]
        engine.load(text, token=stem, name=stem, folder=self._file.folder)

    def _of_failure(self, case: Case, error: RrextError) -> tuple[str, ...]:
        if case.error is None:
            problems = error.data.get("problems", ())
            told = [f"{each.get('path', '')}: {each.get('message', '')} [{each.get('code', '')}]" for each in problems]
            hint = [error.hint] if error.hint and error.hint not in error.message else []
            return (f"failed: {error.message} [{error.code}]", *told[:MOST_DIFFERENCES], *hint)
        said = {"code": error.code, "message": error.message, "hint": error.hint, "data": dict(error.data)}
        wanted = {"code": case.error} if isinstance(case.error, str) else case.error
        found = [line for key in wanted for line in differences(wanted[key], said[key], f"/error/{key}")]
        return _told(found)


def _content(folder: str, name: str) -> bytes:
    """A file beside the cases. Raises `UsageError` for what is elsewhere, no file, or too large."""
    path = os.path.realpath(os.path.join(folder, name))
    if not path.startswith(os.path.join(os.path.realpath(folder), "")):
        raise UsageError(f"{name} is not below the folder of the cases")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{name} is no file")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise UsageError(f"{name} has more than {MOST_BYTES // MIB} MiB")
    return content


async def _call(client: Client, case: Case) -> Any:
    given = {} if case.input is msgspec.UNSET else case.input
    result = await client.tool(tool=case.tool, node_id=case.node, unique=True, input=given)
    return base64.b64encode(result).decode() if isinstance(result, bytes) else result


def _of_result(case: Case, result: Any) -> tuple[str, ...]:
    if case.error is not None:
        return (f"expected the error {shown(case.error)}, got a result: {shown(result)}",)
    return () if case.expect is msgspec.UNSET else _told(list(differences(case.expect, result)))


def _told(found: list[Difference]) -> tuple[str, ...]:
    more = len(found) - MOST_DIFFERENCES
    return (*map(str, found[:MOST_DIFFERENCES]), *((f"and {more} more differences",) if more > 0 else ()))
