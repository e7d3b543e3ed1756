"""`SpaceList`: who is in a space, as every process on the folder sees it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from rrext.errors import ToolError
from rrext.nodes.base.space_list import FILE, MAX_NAME, Space, SpaceList


def code_of(work: object, *args: object) -> str:
    with pytest.raises(ToolError) as caught:
        work(*args)  # type: ignore[operator]
    return caught.value.code


def test_spaces_have_the_members_that_were_added(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.create("hr")
    assert spaces.add("legal", ["ada", "ben"]) == ["ada", "ben"]
    assert spaces.add("legal", ["ada", "eve"]) == ["eve"], "who was in it stays"
    assert spaces.add("hr", ["ada"]) == ["ada"]
    assert spaces.spaces() == [Space("hr", ("ada",), False), Space("legal", ("ada", "ben", "eve"), False)]
    assert (spaces.spaces_of("ada"), spaces.spaces_of("ben"), spaces.spaces_of("joe")) == (("hr", "legal"), ("legal",), ())
    assert spaces.remove("legal", ["ben", "joe"]) == ["ben"]
    assert (spaces.is_member("ada", "legal"), spaces.is_member("ben", "legal")) == (True, False)
    assert spaces.delete_user("ada") == ["hr", "legal"]
    assert spaces.spaces() == [Space("hr", (), False), Space("legal", ("eve",), False)]


def test_nobody_is_in_no_space(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    assert (spaces.is_member(None, "legal"), spaces.spaces_of(None)) == (False, ())


def test_a_space_that_does_not_exist_is_answered_like_one_that_the_user_is_not_in(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.add("legal", ["ada"])
    asked: list[str] = []
    spaces.is_member("ben", "legal")
    spaces._rows.set_trace_callback(asked.append)  # type: ignore[union-attr]
    told = []
    for space in ("legal", "other"):
        with pytest.raises(ToolError) as caught:
            spaces.require("ben", space)
        told.append((caught.value.code, caught.value.message, caught.value.hint, caught.value.data))
    assert told[0] == told[1]
    assert told[0][0] == "space_not_found"
    assert "".join(told[0][1:3]).count("legal") == 0
    assert [asked[0].replace("legal", "other")] == asked[1:], "the same query"
    plan = spaces._rows.execute("EXPLAIN QUERY PLAN SELECT 1 FROM members WHERE user = 'u' AND space = 's'").fetchall()  # type: ignore[union-attr]
    assert [row[3] for row in plan] == ["SEARCH members USING PRIMARY KEY (user=? AND space=?)"], "no table of spaces is read"


def test_a_read_sees_at_once_what_another_process_changed(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.add("legal", ["ada"])
    assert spaces.is_member("ada", "legal")
    change = "import sys; from rrext.nodes.base.space_list import SpaceList; SpaceList(sys.argv[1]).remove('legal', ['ada'])"
    subprocess.run([sys.executable, "-c", change, str(tmp_path)], check=True)
    assert not spaces.is_member("ada", "legal")
    assert spaces.spaces_of("ada") == ()


def test_a_file_that_is_gone_or_another_has_no_members_of_the_one_before(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.add("legal", ["ada"])
    assert spaces.is_member("ada", "legal")
    for file in tmp_path.iterdir():
        file.unlink()
    assert not spaces.is_member("ada", "legal")
    SpaceList(tmp_path).create("legal")
    assert not spaces.is_member("ada", "legal")


def test_without_a_file_there_are_no_spaces_and_none_is_made_by_a_read(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path / "catalog")
    assert (spaces.is_member("ada", "legal"), spaces.spaces_of("ada"), spaces.spaces()) == (False, (), [])
    assert not (tmp_path / "catalog").exists()
    assert code_of(spaces.add, "legal", ["ada"]) == "space_not_found"


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path / "catalog")
    spaces.create("legal")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "catalog").iterdir()}
    assert modes == {FILE: 0o600, f"{FILE}-wal": 0o600, f"{FILE}-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "catalog").stat().st_mode) == 0o700
    spaces.close()
    assert os.listdir(tmp_path / "catalog") == [FILE]
    assert [space.space for space in spaces.spaces()] == ["legal"], "it is opened again"


def test_a_space_whose_content_is_being_removed_lets_nobody_in_until_it_is_gone(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.add("legal", ["ada"])
    spaces.begin_delete("legal")
    assert spaces.spaces() == [Space("legal", (), True)]
    assert not spaces.is_member("ada", "legal")
    assert code_of(spaces.add, "legal", ["ada"]) == "space_not_found"
    assert code_of(spaces.create, "legal") == "space_exists"
    spaces.begin_delete("legal")  # again, after it was cut off
    spaces.delete("legal")
    assert spaces.spaces() == []
    assert code_of(spaces.remove, "legal", ["ada"]) == code_of(spaces.begin_delete, "legal") == "space_not_found"
    assert not spaces.create("legal"), "a call that was on its way may have left something of the one before"
    assert spaces.spaces() == [Space("legal", (), True)]
    assert code_of(spaces.add, "legal", ["ada"]) == "space_not_found"
    assert code_of(spaces.create, "legal") == "space_exists"
    spaces.open("legal")
    assert spaces.spaces() == [Space("legal", (), False)]
    assert not spaces.is_member("ada", "legal"), "the members of the one before are not those of this one"
    assert spaces.add("legal", ["ada"]) == ["ada"]
    assert spaces.create("fresh"), "a new id needs no look"
    assert code_of(spaces.begin_delete, "other") == "space_not_found"


def test_one_of_many_who_create_a_space_at_once_makes_it(tmp_path: Path) -> None:
    create = """
import sys
from rrext.errors import ToolError
from rrext.nodes.base.space_list import SpaceList
sys.stdin.read(1)
try:
    SpaceList(sys.argv[1]).create("legal")
except ToolError as error:
    print(error.code)
else:
    print("created")
"""
    command = [sys.executable, "-c", create, str(tmp_path)]
    makers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("x")
        maker.stdin.flush()
    assert sorted(maker.communicate()[0].strip() for maker in makers) == ["created", *["space_exists"] * 5]
    assert os.listdir(tmp_path) == [FILE]


def done(work: object, *args: object) -> object:
    """What a change answers, or its code."""
    try:
        return work(*args)  # type: ignore[operator]
    except ToolError as error:
        return error.code


@pytest.mark.parametrize("seed", range(4))
def test_two_who_change_the_list_in_turns_agree_with_a_model_of_it(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    lists = [SpaceList(tmp_path), SpaceList(tmp_path)]
    states: dict[str, str] = {}
    members: dict[str, set[str]] = {"a": set(), "b": set(), "c": set()}
    users = ["ada", "ben", "eve"]
    for _ in range(200):
        spaces, space, user = random.choice(lists), random.choice(list(members)), random.choice(users)
        state = states.get(space)
        match random.choice(["create", "open", "add", "add", "remove", "begin", "delete", "delete_user"]):
            case "create":
                expected = "space_exists" if state in ("open", "leaving") else state is None
                assert done(spaces.create, space) == expected
                if expected != "space_exists":
                    states[space] = "open" if expected else "leaving"
            case "open" if state == "leaving":
                spaces.open(space)
                states[space] = "open"
            case "add":
                new = [] if user in members[space] else [user]
                assert done(spaces.add, space, [user]) == (new if state == "open" else "space_not_found")
                members[space].update(new if state == "open" else ())
            case "remove":
                old = [user] if user in members[space] else []
                assert done(spaces.remove, space, [user]) == (old if state == "open" else "space_not_found")
                members[space].discard(user)
            case "begin":
                assert done(spaces.begin_delete, space) == (None if state in ("open", "leaving") else "space_not_found")
                if state in ("open", "leaving"):
                    states[space] = "leaving"
                    members[space].clear()
            case "delete" if state == "leaving":
                spaces.delete(space)
                states[space] = "gone"
            case "delete_user":
                assert done(spaces.delete_user, user) == sorted(name for name, those in members.items() if user in those)
                for those in members.values():
                    those.discard(user)
            case _:
                continue
        for reader in lists:
            for one in users:
                assert reader.spaces_of(one) == tuple(sorted(name for name, those in members.items() if one in those))
                assert all(reader.is_member(one, name) == (one in those) for name, those in members.items())
            there = [name for name in sorted(states) if states[name] != "gone"]
            found = [Space(name, tuple(sorted(members[name])), states[name] == "leaving") for name in there]
            assert reader.spaces() == found


def test_threads_share_one_list(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("s")
    with ThreadPoolExecutor(8) as threads:
        for done in threads.map(lambda number: spaces.add("s", [f"user-{number}"]), range(40)):
            assert len(done) == 1
        assert all(threads.map(lambda number: spaces.is_member(f"user-{number}", "s"), range(40)))


@pytest.mark.parametrize("name", ["", " s", "s ", "a\nb", "a\0b", "\ud800", "x" * (MAX_NAME + 1), "a\u202eb"], ids=ascii)
def test_ids_that_a_person_cannot_see_or_write_are_refused(name: str, tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    assert code_of(spaces.create, name) == "bad_id"
    spaces.create("s")
    assert code_of(spaces.add, "s", ["ada", name]) == "bad_id"
    assert spaces.spaces() == [Space("s", (), False)], "all or nothing"
    assert not spaces.is_member(name, name)
    assert spaces.spaces_of(name) == ()


@pytest.mark.parametrize(
    "name", ["Legal", "legal ", "legal\0", "lega1", "ｌegal", "le\u0301gal", "légal", "%", "legal' OR 1=1 --"]
)
def test_ids_are_compared_character_by_character(name: str, tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("legal")
    spaces.create("l\u00e9gal")
    spaces.add("legal", ["legal"])
    spaces.add("l\u00e9gal", ["ada"])
    assert not spaces.is_member("legal", name)
    assert not spaces.is_member(name, "legal")


@pytest.mark.parametrize("content", [b"", b"this is no database, and it goes on for longer than a header has bytes " * 30])
def test_a_damaged_file_is_a_clear_error_and_never_a_member(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    spaces = SpaceList(tmp_path)
    for work, args in (
        (spaces.is_member, ("ada", "s")),
        (spaces.spaces_of, ("ada",)),
        (spaces.spaces, ()),
        (spaces.create, ("s",)),
    ):
        with pytest.raises(ToolError, match=FILE) as caught:
            work(*args)  # type: ignore[operator]
        assert caught.value.code == "store_failed"
        assert str(tmp_path) not in caught.value.message
    (tmp_path / FILE).unlink()
    spaces.create("s")
    assert spaces.add("s", ["ada"]) == ["ada"], "a mended folder is used again"


def test_a_file_with_lost_pages_is_a_clear_error(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("s")
    spaces.add("s", [f"user-{number:05}" for number in range(2000)])
    spaces.close()
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    assert code_of(spaces.is_member, "user-01000", "s") == "store_failed"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert code_of(SpaceList(tmp_path / "file" / "catalog").create, "s") == "store_failed"


def test_the_list_waits_for_a_process_that_writes(tmp_path: Path) -> None:
    spaces = SpaceList(tmp_path)
    spaces.create("s")
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not spaces.is_member("ada", "s"), "reads wait for nobody"
        with ThreadPoolExecutor(1) as threads:
            adding = threads.submit(spaces.add, "s", ["ada"])
            other.execute("INSERT INTO members VALUES ('ben', 's')")
            other.execute("COMMIT")
            assert adding.result() == ["ada"]
    assert spaces.spaces() == [Space("s", ("ada", "ben"), False)]
