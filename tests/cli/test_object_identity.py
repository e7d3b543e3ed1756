"""Which object a file is: the one of its real path, however it is sent, and of whoever sends it."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import EXAMPLES, Done, InProcess, call, command, component, environment, pipeline

import rrext
from rrext import blocking
from rrext.sync.upload_files import find_files
from rrext.testing import open_pipeline

ECHO = str(EXAMPLES / "echo.pipe")


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two folders with folders and files of the same names."""
    for person in ("p", "q"):
        (tmp_path / person / "docs" / "deep").mkdir(parents=True)
        for name in ("readme.md", "docs/a.txt", "docs/deep/b.txt"):
            (tmp_path / person / name).write_text(f"{name} of {person}")
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A pipeline that keeps text in a store."""
    (tmp_path / "pipes").mkdir()
    return pipeline(
        tmp_path / "pipes",
        component("w", "webhook"),
        component("split", "split", "text:w"),
        component("store", "store_qdrant_edge", "documents:split", path="store", min_free_bytes=0),
    )


def ids(done: Done) -> dict[str, str]:
    """Path → object id."""
    assert done.code == 0, done
    return {line["path"]: line["result"]["objectId"] for line in done.lines if "result" in line}


def kept(run: InProcess, store: str) -> dict[str, int]:
    return json.loads(run("tool", store, "stats").out)


@pytest.mark.promise("object:one-per-source")
def test_two_files_of_one_name_are_two_objects_in_the_store(two: Path, store: str, run: InProcess) -> None:
    for file in ("p/readme.md", "q/readme.md"):
        assert run("send", store, file, cwd=two).code == 0
    assert kept(run, store)["objects"] == 2
    for person in ("p", "q"):
        assert run("send", store, "docs", cwd=two / person).code == 0
    assert kept(run, store)["objects"] == 6
    found = json.loads(run("tool", store, "search", "--input", '{"query": "of p", "mode": "keyword"}').out)
    assert sum("of p" in hit["content"] for hit in found["results"]) == 3


@pytest.mark.promise("object:one-per-source")
def test_a_file_is_one_object_however_it_is_sent(two: Path, run: InProcess) -> None:
    folder = two / "p" / "docs"
    (two / "elsewhere").symlink_to(folder, target_is_directory=True)
    (two / "alias.txt").symlink_to(folder / "a.txt")
    expected = set(ids(call("send", ECHO, "docs", "--mime", "text/plain", cwd=two / "p")).values())
    files = ["docs/a.txt", "docs/deep/b.txt"]
    ways: list[tuple[Path, list[str]]] = [
        (two / "p", files),
        (two / "p", [str(two / "p" / file) for file in files]),
        (two, ["./p/../p/docs/"]),
        (two / "q", ["../p/docs"]),
        (folder, [".", "--mime", "lane/text"]),
        (two, ["elsewhere"]),
        (two, ["alias.txt", "elsewhere/deep"]),
    ]
    for cwd, paths in ways:
        assert set(ids(run("send", ECHO, *paths, cwd=cwd)).values()) == expected, paths
    results = anyio.run(_sent_files, folder)
    assert {(result.result or {})["objectId"] for result in results} == expected
    with blocking.Client.spawn(ECHO) as other:
        results = other.send_files([two / "elsewhere" / "a.txt", folder / "deep"])
    assert {(result.result or {})["objectId"] for result in results} == expected


async def _sent_files(folder: Path) -> Any:
    async with open_pipeline(ECHO) as client:
        return await client.send_files([folder])


@pytest.mark.promise("object:one-per-source")
def test_a_named_root_makes_the_same_objects_of_a_folder_for_the_sdk_and_the_command(two: Path, run: InProcess) -> None:
    of_command = ids(run("send", ECHO, "--root-name", "library", "--exclude", "*.md", "p", cwd=two))
    assert set(of_command) == {"p/docs/a.txt", "p/docs/deep/b.txt"}
    with blocking.Client.spawn(ECHO) as other:
        results = other.send_files([two / "q"], root_name="library", exclude=["*.md"])
        assert {(result.result or {})["objectId"] for result in results} == set(of_command.values())
        assert {(result.result or {})["path"] for result in results} == {"library/docs/a.txt", "library/docs/deep/b.txt"}
        for wrong in ({"root_name": "a/b"}, {"exclude": ["!"]}):
            with pytest.raises(rrext.RrextError) as failure:
                other.send_files([two / "q"], **wrong)
            assert failure.value.code == "usage"


@pytest.mark.promise("object:one-per-source")
def test_a_file_of_a_named_root_is_one_object_through_a_link_too(two: Path, run: InProcess) -> None:
    (two / "p" / "docs" / "alias.txt").symlink_to("a.txt")
    (expected,) = set(ids(run("send", ECHO, "--root-name", "library", "--exclude", "deep", "p/docs", cwd=two)).values())
    for path in ("p/docs/a.txt", "p/docs/alias.txt", "p/../p/docs/alias.txt"):
        assert set(ids(run("send", ECHO, "--root-name", "library", path, cwd=two)).values()) == {expected}, path


def test_an_id_of_a_user_is_not_empty(two: Path, run: InProcess) -> None:
    for option in ("--user", "--space"):
        assert run("send", ECHO, option, "", two / "p" / "readme.md").code == 2


def test_what_is_sent_as_a_folder_and_as_a_list_is_there_once(two: Path, store: str, run: InProcess) -> None:
    assert run("send", store, "p", cwd=two).code == 0
    assert run("send", store, "docs/a.txt", "readme.md", "docs/deep", cwd=two / "p").code == 0
    assert kept(run, store)["objects"] == 3


def test_a_file_that_is_named_twice_is_sent_once(two: Path, run: InProcess) -> None:
    done = run("send", ECHO, "p/docs", "p/docs/a.txt", "p/docs/deep", cwd=two)
    assert set(ids(done)) == {"p/docs/a.txt", "p/docs/deep/b.txt"}
    assert sorted(line["skipped"] for line in done.lines if "skipped" in line) == [
        "is the same file as p/docs/a.txt, which is sent",
        "is the same file as p/docs/deep/b.txt, which is sent",
    ]
    assert done.code == 0
    assert done.err.endswith("2 done, 0 failed, 2 skipped\n")


def test_one_path_given_twice_is_one_file(two: Path) -> None:
    path = str(two / "p" / "readme.md")
    assert [source.skipped for source in find_files([path, path])] == [None, f"is the same file as {path}, which is sent"]


def test_no_path_of_this_machine_is_told_that_was_not_given(two: Path, run: InProcess) -> None:
    done = run("send", ECHO, "docs", cwd=two / "p")
    assert str(two).encode() not in done.out
    (source,) = find_files([str(two / "p" / "readme.md")])
    assert str(source.about["url"]).startswith("urn:uuid:")


async def opened(client: rrext.Client, **about: Any) -> str:
    return (await client.send("text", objinfo=about))["objectId"]


async def test_a_client_that_gives_an_id_or_a_path_keeps_it() -> None:
    async with open_pipeline(ECHO) as client:
        assert await opened(client, objectId="mine/1", name="a.txt", path="x", url="https://example.org/") == "mine/1"
        page = await opened(client, url="https://example.org/a", name="a.txt", path="x")
        assert page == str(uuid.uuid5(uuid.NAMESPACE_URL, "https://example.org/a"))
        assert page == await opened(client, url="https://example.org/a", name="b.txt")
        folders = {await opened(client, path=path, name="a.txt") for path in ("p", "q", "/p", "")}
        assert len(folders) == 4
        assert await opened(client, path="p/", name="a.txt") == await opened(client, path="p/a.txt", name="a.txt")


async def test_what_has_a_name_alone_is_the_object_of_its_name() -> None:
    async with open_pipeline(ECHO) as client:
        named = await opened(client, name="a.txt")
        assert named == str(uuid.uuid5(uuid.NAMESPACE_URL, "null://Stream/a.txt"))
        assert await opened(client) != await opened(client)


def test_what_is_piped_in_is_the_object_of_the_name_under_which_it_comes(tmp_path: Path) -> None:
    piped = [call("send", ECHO, name, "--mime", "text/plain", stdin=b"one") for name in ("/dev/stdin", "-")]
    assert len({tuple(ids(done).values()) for done in piped}) == 1
    assert [done.value["result"]["reply"] for done in piped] == [["one\n\n"]] * 2
    twice = call("send", ECHO, "-", "-", "--mime", "text/plain", stdin=b"two")
    assert [line.get("skipped") for line in twice.lines] == ["is the same file as /dev/stdin, which is sent", None]
    (tmp_path / "a.txt").write_text("x")
    with (tmp_path / "a.txt").open("rb") as file:  # a file that is redirected is that file
        words = command("send", ECHO, "/dev/stdin", "--mime", "text/plain")
        out = subprocess.run(words, stdin=file, env=environment(), capture_output=True).stdout
    assert json.loads(out)["result"]["objectId"] in ids(call("send", ECHO, "a.txt", cwd=tmp_path)).values()


async def test_two_tenants_who_send_one_path_have_two_objects() -> None:
    found = []
    for context in (None, {"userId": "u"}, {"userId": "v"}, {"spaceId": "u"}, {"userId": "u", "spaceId": "s"}):
        async with open_pipeline(ECHO, context=context) as client:
            found.append(await opened(client, name="a.txt", path="docs"))
            assert await opened(client, objectId="mine", name="a.txt") == "mine"
    assert len(set(found)) == 5


@pytest.mark.parametrize("about", [{"object_id": "x"}, {"ObjectID": "x"}, {"objectId": ""}, {"url": ""}, {"objectId": 7}])
async def test_an_id_that_cannot_be_taken_is_refused(about: dict[str, Any]) -> None:
    async with open_pipeline(ECHO) as client:
        with pytest.raises(rrext.RrextError) as failure:
            await opened(client, **about)
        assert failure.value.code == "invalid_arguments"
        assert failure.value.data["errors"][0]["path"].startswith("/object/")


@pytest.mark.parametrize("name", [b"caf\xe9.txt", b"a%20b.txt", b"a b.txt", b"a?#.txt", "grün.txt".encode()])
def test_odd_names_are_objects_of_their_own(name: bytes, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(name)).write_text("x")
    (tmp_path / "other").write_text("x")
    assert len({source.about["url"] for source in find_files([str(tmp_path)])}) == 2


def test_a_result_says_how_many_chunks_were_stored(two: Path, store: str, run: InProcess) -> None:
    (two / "p" / "long.txt").write_text("A sentence of some words. " * 400)
    (two / "p" / "empty.txt").write_text("")
    done = run("send", store, "p", cwd=two)
    stored = {line["path"]: line["result"]["stored"] for line in done.lines}
    counts = [found["store"] for found in stored.values()]
    assert stored["p/empty.txt"] == {"store": 0}
    assert stored["p/readme.md"] == {"store": 1}
    assert stored["p/long.txt"]["store"] > 5
    assert kept(run, store)["count"] == sum(counts)
    assert done.err.endswith(f"5 done, 0 failed; {sum(counts)} chunks stored\n")


def test_what_two_stores_have_is_told_of_each(two: Path, tmp_path: Path, run: InProcess) -> None:
    path = pipeline(
        tmp_path,
        component("w", "webhook"),
        component("split", "split", "text:w"),
        component("one", "store_qdrant_edge", "documents:split", path="one", min_free_bytes=0),
        component("two", "store_qdrant_edge", "documents:split", path="two", min_free_bytes=0),
    )
    done = run("send", path, "p", cwd=two)
    assert [line["result"]["stored"] for line in done.lines] == [{"one": 1, "two": 1}] * 3
    assert done.err.endswith("3 done, 0 failed; 3 chunks stored in one; 3 chunks stored in two\n")


async def test_the_result_of_a_question_tells_nothing_of_chunks(tmp_path: Path) -> None:
    path = pipeline(
        tmp_path,
        component("w", "webhook"),
        component("store", "store_qdrant_edge", "questions:w", path="store", min_free_bytes=0),
        component("out", "response_answers", "answers:store"),
    )
    async with open_pipeline(path) as client:
        assert "stored" not in await client.send('{"questions": [{"text": "x"}]}', mimetype="lane/questions")
