"""`rrext send --sync --watch`: what changes is synced again, until Ctrl-C."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import call, component, pipeline, spawned, until


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("first")
    return tmp_path / "docs"


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "pipes").mkdir()
    return pipeline(
        tmp_path / "pipes",
        component("w", "webhook"),
        component("split", "split", "text:w"),
        component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0),
    )


class Watch:
    """A command that watches, and what it says."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def outcomes(self, *names: str) -> dict[str, str]:
        """The outcomes of files up to a summary after which all of these names had one."""
        assert self.process.stdout is not None
        found: dict[str, str] = {}
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "path" in said:
                found[Path(said["path"]).name] = said.get("sync", "failed")
            elif set(names) <= set(found):
                return found
        raise AssertionError(f"it ended after {found}")


@contextmanager
def watching(store: str, *paths: object) -> Iterator[Watch]:
    with spawned("send", "--sync", "--watch", store, *map(str, paths)) as process:
        assert process.stderr is not None
        until(process.stderr, "watching until Ctrl-C")
        yield Watch(process)


@pytest.mark.promise("sync:store:as-folder")
def test_what_changes_is_synced_again_until_ctrl_c(docs: Path, store: str) -> None:
    with watching(store, docs) as watch:
        assert watch.outcomes("a.txt") == {"a.txt": "new"}
        (docs / "sub").mkdir()
        for number in range(30):
            (docs / "sub" / f"{number}.txt").write_text(f"text {number}")
        names = [f"{number}.txt" for number in range(30)]
        assert set(watch.outcomes(*names).values()) <= {"new", "changed"}
        (docs / "sub").rename(docs / "other")
        assert set(watch.outcomes(*names).values()) <= {"moved", "deleted"}
        (docs / "a.txt").unlink()
        assert watch.outcomes("a.txt")["a.txt"] == "deleted"
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait() == 130
    done = call("send", "--sync", store, str(docs))
    assert {word: count for word, count in done.lines[-1]["summary"].items() if count and word != "chunks"} == {"unchanged": 30}


@pytest.mark.promise("sync:delete:guarded")
def test_a_folder_that_goes_loses_nothing_and_is_watched_again_when_it_is_back(docs: Path, store: str) -> None:
    with watching(store, docs) as watch:
        assert watch.outcomes("a.txt") == {"a.txt": "new"}
        shutil.rmtree(docs)
        assert watch.outcomes("docs") == {"docs": "failed"}
        docs.mkdir()
        (docs / "b.txt").write_text("second")
        assert watch.outcomes("b.txt")["b.txt"] in ("new", "changed")
        (docs / "c.txt").write_text("third")
        assert watch.outcomes("c.txt")["c.txt"] in ("new", "changed")


def test_a_feed_in_a_file_is_read_again_when_another_takes_its_place(tmp_path: Path, store: str) -> None:
    form = "<rss version='2.0'><channel><title>t</title><item><title>{0}</title><guid>{0}</guid></item></channel></rss>"
    feed = tmp_path / "feed.xml"
    feed.write_text(form.format("one"))
    with watching(store, f"feed:{feed}") as watch:
        assert list(watch.outcomes().values()) == ["new"]
        (tmp_path / "next").write_text(form.format("two"))
        (tmp_path / "next").rename(feed)
        assert "new" in watch.outcomes("feed.xml: two").values()


def test_watching_needs_a_package_and_goes_with_sync(docs: Path, store: str, tmp_path: Path) -> None:
    done = call("send", "--watch", store, str(docs))
    assert (done.code, done.err) == (2, "rrext: --watch goes with --sync\n")
    (tmp_path / "watchfiles.py").write_text("raise ImportError('none')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "send", "--sync", "--watch", store, str(docs)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert 'pip install "rrext[knowledge]"' in ended.stderr
