"""`rrext space`: spaces, members, and all that a space or a user has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import InProcess, call, component, pipeline, spawned, until

from rrext.nodes.base.space_list import SpaceList

SOURCE = component("webhook_1", "webhook")


def knowledge(name: str = "knowledge_1", path: str = "catalog") -> dict[str, Any]:
    return component(name, "knowledge", "text:webhook_1", control="webhook_1", path=path)


def with_store(folder: Path) -> str:
    """A pipeline with a catalog and a vector store."""
    store = component("store_1", "store_qdrant_edge", "documents:split_1", path="vectors", shared="space")
    store["control"] = [{"classType": "store", "from": "knowledge_1"}]
    return pipeline(folder, SOURCE, component("split_1", "split", "text:webhook_1"), knowledge(), store)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return InProcess(capfd, monkeypatch)


def test_an_operator_makes_spaces_and_lets_users_in_and_out(run: InProcess, tmp_path: Path) -> None:
    file = pipeline(tmp_path, SOURCE, knowledge())
    assert run("space", "list", file, "--json").value == []
    assert "no spaces" in run("space", "list", file).err
    assert run("space", "create", file, "legal").code == 0
    assert run("space", "create", file, "hr").code == 0
    added = run("space", "add", file, "legal", "ben", "ada", "ben")
    assert added.err.splitlines() == [f'rrext: "{user}" is now in the space "legal"' for user in ("ben", "ada")]
    assert 'rrext: "ada" was in the space "legal"' in run("space", "add", file, "legal", "ada").err
    assert run("space", "list", file, "--json").value == [
        {"space": "hr", "members": []},
        {"space": "legal", "members": ["ada", "ben"]},
    ]
    assert run("space", "list", file).out.decode().splitlines() == ["SPACE  MEMBERS", "hr", "legal  ada, ben"]
    removed = run("space", "remove", file, "legal", "ben", "eve").err
    assert removed.splitlines() == [
        'rrext: "ben" is now out of the space "legal"',
        'rrext: "eve" was not in the space "legal"',
    ]
    assert SpaceList(tmp_path / "catalog").spaces_of("ada") == ("legal",)


def test_what_is_there_and_what_is_not_fails_with_its_code(run: InProcess, tmp_path: Path) -> None:
    file = pipeline(tmp_path, SOURCE, knowledge())
    run("space", "create", file, "legal")
    for words, code in (
        (("create", file, "legal"), "space_exists"),
        (("create", file, " "), "bad_id"),
        (("add", file, "hr", "ada"), "space_not_found"),
        (("remove", file, "hr", "ada"), "space_not_found"),
        (("delete", file, "--space", "hr", "--yes"), "space_not_found"),
    ):
        done = run("space", *words)
        assert (done.code, f"[{code}]" in done.err, done.out) == (1, True, b"")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("create",), "FILE.pipe"),
        (("create", "{}"), "expected: rrext space create FILE.pipe SPACE"),
        (("create", "{}", "a", "b"), "expected: rrext space create FILE.pipe SPACE"),
        (("add", "{}", "a"), "expected: rrext space add FILE.pipe SPACE USER"),
        (("list", "{}", "a"), "expected: rrext space list FILE.pipe"),
        (("delete", "{}"), "--space SPACE, or --user USER"),
        (("delete", "{}", "--space", "a", "--user", "b", "--yes"), "--space SPACE, or --user USER"),
        (("delete", "{}", "a", "--yes"), "expected: rrext space delete FILE.pipe"),
        (("delete", "{}", "--space", "a"), "without a terminal it needs --yes"),
        (("add", "{}", "a", "b", "--user", "c"), "--user and --space are for delete"),
        (("make", "{}", "a"), "invalid choice"),
        (("list", "{}", "--node", "other"), "--node ID says which catalog is meant: knowledge_1"),
        (("list", "none.pipe"), "none.pipe"),
    ],
    ids=repr,
)
def test_wrong_words_do_nothing(words: tuple[str, ...], told: str, run: InProcess, tmp_path: Path) -> None:
    file = pipeline(tmp_path, SOURCE, knowledge())
    done = run("space", *(word.format(file) for word in words))
    assert (done.code, told in done.err) == (2, True), done
    assert not (tmp_path / "catalog").exists()


def test_a_pipeline_with_several_catalogs_or_none_says_so(run: InProcess, tmp_path: Path) -> None:
    file = pipeline(tmp_path, SOURCE, knowledge(), knowledge("knowledge_2", "other"))
    done = run("space", "create", file, "legal")
    assert (done.code, "knowledge_1, knowledge_2" in done.err) == (2, True)
    assert run("space", "create", file, "--node", "knowledge_2", "legal").code == 0
    assert [space.space for space in SpaceList(tmp_path / "other").spaces()] == ["legal"]
    plain = pipeline(tmp_path, SOURCE, name="plain.pipe")
    done = run("space", "create", plain, "legal")
    assert (done.code, "no node `knowledge`" in done.err) == (2, True)


def names(run: InProcess, file: str, *who: str) -> list[str]:
    """The names of the documents that a caller finds."""
    done = run("tool", file, "find_by_name", "pattern=*", *who)
    return sorted(each["name"] for each in done.value["documents"])


def chunks(run: InProcess, file: str, *who: str) -> int:
    return run("tool", file, "list", "--node", "store_1", *who).value["total"]


def filled(run: InProcess, folder: Path) -> str:
    """A pipeline with documents of ada, of ben, and of the space `legal` in which both are."""
    file = with_store(folder)
    run("space", "create", file, "legal")
    run("space", "add", file, "legal", "ada", "ben")
    for name, who in (
        ("adas", ("--user", "ada")),
        ("bens", ("--user", "ben")),
        ("ours", ("--user", "ada", "--space", "legal")),
    ):
        (folder / f"{name}.txt").write_text(f"the text {name}")
        assert run("send", file, folder / f"{name}.txt", *who).code == 0
    return file


def test_one_command_removes_all_that_a_space_has_and_nothing_else(run: InProcess, tmp_path: Path) -> None:
    file = filled(run, tmp_path)
    assert names(run, file, "--user", "ada") == ["adas.txt", "ours.txt"]
    done = run("space", "delete", file, "--space", "legal", "--yes")
    assert done.code == 0
    assert done.err.splitlines() == [
        'rrext: the space "legal" has no members',
        "rrext: its documents are gone",
        "rrext: 1 chunks in store_1 are gone",
    ]
    assert (names(run, file, "--user", "ada"), names(run, file, "--user", "ben")) == (["adas.txt"], ["bens.txt"])
    assert [chunks(run, file, *who) for who in (("--user", "ada"), ("--user", "ben"), ("--space", "legal"))] == [1, 1, 0]
    assert "space_not_found" in run("tool", file, "find_by_name", "pattern=*", "--user", "ada", "--space", "legal").err
    assert run("space", "create", file, "legal").code == 0
    run("space", "add", file, "legal", "ben")
    assert names(run, file, "--user", "ben", "--space", "legal") == [], "nothing of the space before"


def test_a_space_of_an_id_that_was_deleted_begins_empty_whatever_a_call_left_that_was_on_its_way(
    run: InProcess, tmp_path: Path
) -> None:
    file = filled(run, tmp_path)
    run("space", "delete", file, "--space", "legal", "--yes")
    documents = {"documents": [{"content": "late", "object_id": "o"}]}
    late = run("tool", file, "upsert", "--node", "store_1", "--space", "legal", "--input", json.dumps(documents))
    assert late.code == 0
    assert chunks(run, file, "--space", "legal") == 1, "the store asks no list of members in this process"
    assert run("space", "create", file, "legal").code == 0
    assert chunks(run, file, "--space", "legal") == 0
    assert chunks(run, file, "--user", "ada") == 1


def test_one_command_removes_all_that_a_user_has_outside_of_spaces(run: InProcess, tmp_path: Path) -> None:
    file = filled(run, tmp_path)
    done = run("space", "delete", file, "--user", "ada", "--yes")
    assert done.err.splitlines()[0] == 'rrext: "ada" is out of the space "legal"'
    assert (names(run, file, "--user", "ada"), names(run, file, "--user", "ben")) == ([], ["bens.txt", "ours.txt"])
    assert [chunks(run, file, *who) for who in (("--user", "ada"), ("--user", "ben"), ("--space", "legal"))] == [0, 1, 1]
    again = run("space", "delete", file, "--user", "ada", "--yes")
    assert (again.code, again.err) == (0, 'rrext: "ada" has nothing here\n')


def test_a_delete_that_was_cut_off_is_finished_by_the_next_one(run: InProcess, tmp_path: Path) -> None:
    file = filled(run, tmp_path)
    SpaceList(tmp_path / "catalog").begin_delete("legal")
    listed = run("space", "list", file, "--json").value
    assert listed == [{"space": "legal", "members": [], "leaving": True}]
    assert "being deleted" in run("space", "list", file).out.decode()
    assert run("space", "create", file, "legal").code == 1
    assert run("space", "add", file, "legal", "ada").code == 1
    assert run("space", "delete", file, "--space", "legal", "--yes").code == 0
    assert run("space", "list", file, "--json").value == []
    assert run("space", "create", file, "legal").code == 0


def test_at_a_terminal_a_delete_asks(tmp_path: Path) -> None:
    file = pipeline(tmp_path, SOURCE, knowledge())
    spaces = SpaceList(tmp_path / "catalog")
    spaces.create("legal")
    with at_terminal(["space", "delete", file, "--space", "legal"], folder=tmp_path) as terminal:
        terminal.until('Remove all documents of the space "legal", for good? [y/n]')
        terminal.type("n\n")
        terminal.until("nothing was removed")
        assert terminal.ended() == 2
    assert [space.space for space in spaces.spaces()] == ["legal"]
    with at_terminal(["space", "delete", file, "--space", "legal"], folder=tmp_path) as terminal:
        terminal.until("[y/n]")
        terminal.type("y\n")
        terminal.until("has no members")
        assert terminal.ended() == 0
    assert spaces.spaces() == []


@pytest.fixture
def short() -> Iterator[Path]:
    """A short path: a socket's has at most 107 bytes."""
    with TemporaryDirectory(prefix="rrext-") as path:
        yield Path(path)


def test_a_server_that_runs_sees_each_change_at_its_next_call(short: Path) -> None:
    file = with_store(short)
    (short / "ours.txt").write_text("our text")
    at = ["--at", f"unix:{short}/s", "--user", "ada", "--space", "legal"]
    find = ["tool", *at, "find_by_name", "pattern=*"]
    with spawned("serve", "--listen", f"unix:{short}/s", file) as server:
        assert server.stderr is not None
        until(server.stderr, "listening at")
        assert "space_not_found" in call(*find).err
        assert call("space", "create", file, "legal").code == 0
        assert "space_not_found" in call(*find).err
        assert call("space", "add", file, "legal", "ada").code == 0
        assert call("send", *at, str(short / "ours.txt")).code == 0
        assert [each["name"] for each in call(*find).value["documents"]] == ["ours.txt"]
        assert call("space", "remove", file, "legal", "ada").code == 0
        assert "space_not_found" in call(*find).err
        call("space", "add", file, "legal", "ada")
        assert call("space", "delete", file, "--space", "legal", "--yes").code == 0
        assert "space_not_found" in call(*find).err
        call("space", "create", file, "legal")
        call("space", "add", file, "legal", "ada")
        assert call(*find).value["documents"] == []
        stored = call("tool", *at, "list", "--node", "store_1")
        assert json.loads(stored.out)["total"] == 0
