"""What all tests share: the options of the test run, hypothesis' profiles, the backend of async tests, database servers."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

# The tests start hundreds of processes, which would each compile the same modules where nobody may keep what is compiled;
# and so would pytest, which compiles all of hypothesis anew for its assertions.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis
import pytest
from forked import FORKING
from postgres_server import Database, PostgresServer, running_postgres
from promises import PROMISES

from rrext.errors import near_matches

# A loaded machine is slow, not wrong: no deadlines, and no complaint about slow data. The checks of a change use the same
# examples in each run; runs by hand look for new ones.
hypothesis.settings.register_profile(
    "rrext",
    deadline=None,
    print_blob=True,
    max_examples=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="RREXT_SAME_EXAMPLES" in os.environ,
)
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("rrext"), max_examples=1000, derandomize=False)
hypothesis.settings.load_profile("rrext")  # `--hypothesis-profile=thorough` for another one

HERE = Path(__file__).resolve().parent
collect_ignore = ["examples"]  # their cases need servers: tests/nodes/test_reference_examples.py has these
MEMORY = Path("/dev/shm")
ROOMY = 4 << 30
"""Bytes that must be free: a vector store takes 64 MB, and several tests run at once."""
FIRST = "tests/nodes/graph/"
"""The tests of this folder are the first: processes take work over from the end of each other's, so one has all of these, and
the Java server that they share starts once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failed test: nothing may be missing here")
    parser.addoption("--promise", metavar="ID", help="only the tests that prove this promise of tests/promises.py")


def pytest_configure(config: pytest.Config) -> None:
    promise = config.getoption("--promise")
    if promise is not None and promise not in PROMISES:
        near = ", ".join(near_matches(promise, PROMISES)) or "none; they stand in tests/promises.py"
        raise pytest.UsageError(f"no promise {promise!r}, near matches: {near}")
    # A shell's background job is started with SIGINT ignored, which all that the tests start would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """All plain tests run on all processors; a part of them, others, and what `-n` says, as pytest would."""
    if hasattr(config, "workerinput"):
        return  # this is one of the processes
    chosen = config.option
    is_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS and chosen.markexpr == "not system"
    if is_all and chosen.promise is None and getattr(chosen, "numprocesses", 0) is None and not (chosen.usepdb or chosen.tx):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        chosen.numprocesses = cores + cores // 2  # some tests wait for what has to take its time: others run meanwhile
        chosen.dist = "worksteal"  # neighbours stay together, with the servers that they share


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m system` a few files are asked for: the others are not even imported."""
    is_other = collection_path.match("test_*.py") and config.option.markexpr == "system" and not may_be_system(collection_path)
    return True if is_other else None


@cache
def may_be_system(path: Path) -> bool:
    """Whether a file of tests names the mark, or a `conftest.py` above it, whose fixtures may give it to their values."""
    above = (folder / "conftest.py" for folder in path.parents if HERE in folder.parents)
    return any("mark.system" in file.read_text(encoding="utf-8") for file in (path, *above) if file.exists())


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests are made, and stay to the end: the collector need not look at them, now or ever."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None):
    """What a module leaves is collected at its end; what stays then is looked at by no later collection either."""
    result = yield
    if nextitem is not None and nextitem.getparent(pytest.Module) is not item.getparent(pytest.Module):
        gc.collect()
        gc.freeze()
    return result


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries complain at the end about what was never collected


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    unseen = sorted({str(item.path) for item in items if item.get_closest_marker("system") and not may_be_system(item.path)})
    if unseen:
        raise pytest.UsageError(f"`-m system` would miss tests of {', '.join(unseen)}: name the mark in the file itself")
    promise = config.getoption("--promise")
    if promise is None:
        return
    proofs = [item for item in items if any(promise in mark.args for mark in item.iter_markers("promise"))]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(proofs)])
    items[:] = proofs


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The server runs on asyncio; what also runs on trio says so by overriding this fixture."""
    return "asyncio"


@pytest.fixture
def hang_up_ends() -> Iterator[None]:
    """What is started heeds SIGHUP, also where the tests themselves are run by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def memory_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this test in memory, where there is much of it, else on the disk. A store waits for the disk at every file
    that it makes and changes, which protects it from a power cut; a test only kills processes."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOMY:
        yield tmp_path_factory.mktemp("disk")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="rrext-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def forked_children() -> Iterator[None]:
    """Nodes in this process fork their child processes: for tests of what such a node does, not of its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rrext.nodes.child.process.subprocess", FORKING)
        yield


@pytest.fixture(scope="module")
def forked_servers() -> Iterator[None]:
    """Clients in this process fork the servers that they spawn: for tests of what a server does, not of its start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rrext.transports.process.subprocess", FORKING)
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL with pgvector: started at the first test that asks for it, one for all of them."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[Database]:
    """A fresh, empty database on the server; the server runs again after a test that stopped it."""
    postgres_server.start()
    yield postgres_server.create_database("fresh")
    postgres_server.start()
    postgres_server.drop_database("fresh")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    return refuse_skip(item.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    return refuse_skip(collector.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """On its way to the process that shows it, a report has only text that UTF-8 has; what tests log may have other."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    """A value of lists, dicts and texts without lone surrogates."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(encodable, value))
    return value


def refuse_skip(config: pytest.Config, report):
    """With `--no-skips`, a skip becomes a failure that repeats its reason."""
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("--no-skips"):
        where = report.longrepr
        reason = where[2] if isinstance(where, tuple) else str(where)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and --no-skips is given: {reason}"
    return report
