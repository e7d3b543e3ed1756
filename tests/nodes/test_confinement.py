"""No path, and nobody who moves things meanwhile, gets file access out of its directory."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ToolError
from rrext.files import confinement
from rrext.files.confinement import MAX_DEPTH, MAX_PATH, Confinement, explanation

INSIDE = b"inside"
SECRET = b"SECRET"
MUCH = 1 << 20


class Ground:
    """A directory `root` to be confined to, beside a directory `outside` that holds a secret."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.outside = base / "outside"
        (self.root / "a" / "b").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "f").write_bytes(SECRET)
        for place in (self.root, self.root / "a", self.root / "a" / "b"):
            (place / "f").write_bytes(INSIDE)
        (self.root / "file_link").symlink_to(self.outside / "f")
        (self.root / "dir_link").symlink_to(self.outside)
        (self.root / "up_link").symlink_to("..")
        (self.root / "own_link").symlink_to("a")
        (self.root / "a" / "loop").symlink_to("loop")
        os.mkfifo(self.root / "fifo")

    def files(self) -> Confinement:
        return Confinement.at(str(self.root))

    def outside_now(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.outside.iterdir()}

    def door(self) -> Callable[[], None]:
        """What an attacker does at the worst moment: the directory `a` becomes a link to `outside`."""

        def swap() -> None:
            (self.root / "a").rename(self.root / "moved")
            (self.root / "a").symlink_to(self.outside)

        return swap

    def trap(self) -> Callable[[], None]:
        """The same for a file: `f` becomes a link to the secret."""

        def swap() -> None:
            (self.root / "f").unlink()
            (self.root / "f").symlink_to(self.outside / "f")

        return swap


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture(scope="module")
def shared_ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"))


def code_of(work: Callable[[], Any]) -> str:
    with pytest.raises(ToolError) as caught:
        work()
    return caught.value.code


def open_descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


# --- what works ---


@pytest.mark.parametrize("path", ["f", "a/f", "a/b/f", "./a//b/./f", "a/"])
def test_paths_below_the_root_are_found(ground: Ground, path: str) -> None:
    with ground.files() as files:
        info = files.info(path)
        assert info is not None
        if info.type == "file":
            assert files.read(path, limit=MUCH) == (INSIDE, len(INSIDE))


def test_a_part_of_a_file_comes_with_the_size_of_the_whole(ground: Ground) -> None:
    with ground.files() as files:
        assert files.read("f", offset=2, limit=3) == (b"sid", 6)
        assert files.read("f", offset=99, limit=3)[0] == b""


def test_a_large_file_is_read_whole(ground: Ground) -> None:
    data = bytes(range(256)) * 12_000
    (ground.root / "large").write_bytes(data)
    with ground.files() as files:
        assert files.read("large", limit=len(data) + 1) == (data, len(data))


@pytest.mark.parametrize("path", ["", ".", "/".join("....")])
def test_the_root_itself_can_be_listed(ground: Ground, path: str) -> None:
    with ground.files() as files:
        kinds = {info.name: info.type for info in files.listing(path, limit=100)}
    assert kinds == {
        "a": "dir",
        "f": "file",
        "fifo": "other",
        "file_link": "symlink",
        "dir_link": "symlink",
        "up_link": "symlink",
        "own_link": "symlink",
    }


def test_a_listing_goes_on_behind_a_name_and_loses_none(ground: Ground) -> None:
    names = sorted(f"{n:03}" for n in range(25))
    (ground.root / "many").mkdir()
    for name in names:
        (ground.root / "many" / name).touch()
    for raw, shown in ((b"\xff\xfe", "\\xff\\xfe"), (b"\xe9", "\\xe9"), ("é".encode(), "é")):
        try:
            (ground.root / "many" / os.fsdecode(raw)).touch()
        except OSError:  # a file system that takes UTF-8 only
            continue
        names.append(shown)
    found: list[str] = []
    with ground.files() as files:
        while page := files.listing("many", limit=1, after=found[-1] if found else ""):
            found += [info.name for info in page]
    assert found == sorted(names)


def test_a_listing_asks_now_and_then_whether_it_is_still_wanted(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "SCAN_STEP", 2)

    def unwanted() -> None:
        raise ToolError("unwanted", code="unwanted")

    before = open_descriptors()
    with ground.files() as files:
        assert code_of(lambda: files.listing("", limit=100, check=unwanted)) == "unwanted"
    assert open_descriptors() == before


def test_a_new_file_belongs_to_its_owner_alone_and_a_replaced_one_keeps_its_mode(ground: Ground) -> None:
    (ground.root / "f").chmod(0o640)
    with ground.files() as files:
        files.write("f", b"changed")
        files.write("a/new", b"new")
    assert (ground.root / "f").stat().st_mode & 0o777 == 0o640
    assert (ground.root / "f").read_bytes() == b"changed"
    assert (ground.root / "a" / "new").stat().st_mode & 0o777 == 0o600


def test_who_reads_while_a_file_is_replaced_sees_the_old_one_whole(ground: Ground) -> None:
    with (ground.root / "f").open("rb") as reader, ground.files() as files:
        files.write("f", b"changed")
        assert reader.read() == INSIDE


def test_directories_are_made_with_those_above_and_said_to_be_there_already(ground: Ground) -> None:
    with ground.files() as files:
        assert files.make_directory("x/y/z") == 3
        assert files.make_directory("x/y/z") == 0
        assert files.make_directory("a/c") == 1
        assert files.make_directory(".") == 0
    assert (ground.root / "x" / "y" / "z").stat().st_mode & 0o777 == 0o700


def test_a_directory_below_is_a_root_of_its_own(ground: Ground) -> None:
    with ground.files() as files, files.beneath("a") as inner:
        assert inner.read("b/f", limit=MUCH)[0] == INSIDE
        assert code_of(lambda: inner.read("../f", limit=MUCH)) == "path_outside_root"
        assert code_of(lambda: files.beneath("dir_link")) == "path_is_symlink"


# --- what is refused, and how it is said ---


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "path_outside_root"),
        ("//f", "path_outside_root"),
        ("..", "path_outside_root"),
        ("../outside/f", "path_outside_root"),
        ("a/../f", "path_outside_root"),
        ("a/../../outside/f", "path_outside_root"),
        ("file_link", "path_is_symlink"),
        ("dir_link/f", "path_is_symlink"),
        ("up_link/outside/f", "path_is_symlink"),
        ("own_link/f", "path_is_symlink"),
        ("a/loop", "path_is_symlink"),
        ("a/loop/f", "path_is_symlink"),
        ("fifo", "not_a_file"),
        ("a", "not_a_file"),
        ("", "not_a_file"),
        ("f/x", "not_a_directory"),
        ("missing", "path_not_found"),
        ("a/missing/f", "path_not_found"),
        ("a\0b", "path_invalid"),
        ("\udcff", "path_invalid"),
        ("x" * 300, "path_invalid"),
        ("x/" * (MAX_PATH // 2 + 1), "path_invalid"),
        ("x/" * (MAX_DEPTH + 1), "path_invalid"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused_with_a_code_of_its_own(ground: Ground, path: str, code: str) -> None:
    before = open_descriptors()
    with ground.files() as files:
        assert code_of(lambda: files.read(path, limit=MUCH)) == code
    assert open_descriptors() == before


def test_the_message_names_the_part_of_the_path_that_is_wrong(ground: Ground) -> None:
    with ground.files() as files:
        with pytest.raises(ToolError, match=r'^"a/missing" does not exist$'):
            files.read("a/missing/deep/f", limit=MUCH)
        with pytest.raises(ToolError, match=r'^"own_link" is a symbolic link$'):
            files.listing("own_link/b", limit=1)


def test_reading_a_pipe_without_a_writer_returns_at_once(ground: Ground) -> None:
    with ground.files() as files:
        assert code_of(lambda: files.read("fifo", limit=MUCH)) == "not_a_file"


def test_looking_never_follows_the_last_link(ground: Ground) -> None:
    with ground.files() as files:
        info = files.info("dir_link")
        assert info is not None
        assert info.type == "symlink"
        assert files.info("missing") is None
        assert files.info("a/missing/x") is None


@pytest.mark.parametrize("path", ["file_link", "dir_link", "fifo", "a", "."])
def test_only_regular_files_are_replaced_or_removed(ground: Ground, path: str) -> None:
    with ground.files() as files:
        assert code_of(lambda: files.write(path, b"x")) in ("not_a_file", "path_is_symlink")
        assert code_of(lambda: files.delete(path)) in ("not_a_file", "path_is_symlink")
    assert os.path.lexists(ground.root / path)
    assert ground.outside_now() == {"f": SECRET}


def test_a_write_protected_file_is_not_replaced(ground: Ground) -> None:
    (ground.root / "f").chmod(0o444)
    with ground.files() as files:
        assert code_of(lambda: files.write("f", b"x")) == "permission_denied"


def test_a_directory_is_not_made_where_something_else_stands(ground: Ground) -> None:
    with ground.files() as files:
        assert code_of(lambda: files.make_directory("f")) == "not_a_directory"
        assert code_of(lambda: files.make_directory("dir_link")) == "path_is_symlink"
        assert code_of(lambda: files.make_directory("dir_link/new")) == "path_is_symlink"
    assert ground.outside_now() == {"f": SECRET}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "permission_denied"),
        (errno.EROFS, "permission_denied"),
        (errno.ENOSPC, "no_space"),
        (errno.EIO, "file_failed"),
        (errno.ELOOP, "path_is_symlink"),
    ],
)
def test_what_the_system_refuses_has_a_code(number: int, code: str) -> None:
    assert explanation(OSError(number, "text"), "f").code == code


# --- attacks: every moment at which somebody could move things ---


class Tampered:
    """`os`, with something that happens just before one of its calls. `count` says how many calls there were."""

    def __init__(self, before: int, happening: Callable[[], None]) -> None:
        self._before = before
        self._happening = happening
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("open", "stat", "mkdir", "unlink", "replace", "scandir", "fstat", "pread"):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.count == self._before:
                self._happening()
            self.count += 1
            return real(*args, **kwargs)

        return call


def moments(
    tmp_path: Path, attack: Callable[[Ground], Callable[[], None]], work: Callable[[Ground, Any], Any]
) -> Iterator[tuple[Ground, Any]]:
    """Run `work` once for each system call that it makes, the attack happening just before that call.

    Yields the ground afterwards, and what `work` returned (None if it was refused).
    """
    for before in range(100):
        base = tmp_path / str(before)
        base.mkdir()
        ground = Ground(base)
        tampered = Tampered(before, attack(ground))
        try:
            result = work(ground, tampered)
        except ToolError:
            result = None
        yield ground, result
        if tampered.count <= before:
            return
    pytest.fail("more system calls than a path of this length needs")


def confined(monkeypatch: pytest.MonkeyPatch, operation: Callable[[Confinement], Any]) -> Callable[[Ground, Any], Any]:
    def work(ground: Ground, tampered: Any) -> Any:
        with ground.files() as files, monkeypatch.context() as patch:
            patch.setattr(confinement, "os", tampered)
            return operation(files)

    return work


ATTACKS: dict[str, Callable[[Ground], Callable[[], None]]] = {"door": Ground.door, "trap": Ground.trap}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_moment_exists_at_which_a_read_can_be_led_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    path = {"door": "a/b/f", "trap": "f"}[attack]
    seen = set()
    for _, result in moments(tmp_path, ATTACKS[attack], confined(monkeypatch, lambda files: files.read(path, limit=MUCH))):
        seen.add(None if result is None else result[0])
    assert seen <= {INSIDE, None}
    assert INSIDE in seen  # the attack came too late at least once, so the call does work


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_check_before_the_use_could_be_led_out(tmp_path: Path, attack: str) -> None:
    """The attacks are real: they succeed against the usual `realpath` check."""

    def naive(ground: Ground, tampered: Any) -> bytes:
        full = os.path.realpath(ground.root / {"door": "a/f", "trap": "f"}[attack])
        if not full.startswith(str(ground.root)):
            raise ToolError("outside")
        fd = tampered.open(full, os.O_RDONLY)
        try:
            return os.read(fd, MUCH)
        finally:
            os.close(fd)

    assert SECRET in {result for _, result in moments(tmp_path, ATTACKS[attack], naive)}


def test_no_moment_exists_at_which_a_listing_can_be_led_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for ground, result in moments(tmp_path, Ground.door, confined(monkeypatch, lambda files: files.listing("a", limit=9))):
        (ground.outside / "marker").touch()
        found.add(None if result is None else tuple(info.name for info in result))
    assert found <= {("b", "f", "loop"), None}


@pytest.mark.parametrize(
    ("attack", "operation"),
    [
        ("door", lambda files: files.write("a/f", b"changed")),
        ("door", lambda files: files.write("a/new", b"changed")),
        ("trap", lambda files: files.write("f", b"changed")),
        ("door", lambda files: files.delete("a/f")),
        ("trap", lambda files: files.delete("f")),
        ("door", lambda files: files.make_directory("a/x/y")),
    ],
)
def test_no_moment_exists_at_which_a_change_can_be_led_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str, operation: Callable[[Confinement], Any]
) -> None:
    for ground, _ in moments(tmp_path, ATTACKS[attack], confined(monkeypatch, operation)):
        assert ground.outside_now() == {"f": SECRET}


def test_a_thread_that_swaps_a_directory_all_the_time_leads_nobody_out(ground: Ground) -> None:
    stop = threading.Event()
    door, away, link = ground.root / "door", ground.root / "away", ground.root / "link"
    door.mkdir()
    (door / "f").write_bytes(INSIDE)
    link.symlink_to(ground.outside)

    def swap() -> None:
        while not stop.is_set():
            door.rename(away)
            link.rename(door)
            door.rename(link)
            away.rename(door)

    swapper = threading.Thread(target=swap)
    swapper.start()
    read: set[bytes] = set()
    try:
        with ground.files() as files:
            for _ in range(1500):
                try:
                    read.add(files.read("door/f", limit=MUCH)[0])
                    files.write("door/f", INSIDE)
                except ToolError:
                    continue
    finally:
        stop.set()
        swapper.join()
    assert read <= {INSIDE}
    assert ground.outside_now() == {"f": SECRET}


@given(
    parts=st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "..",
                    ".",
                    "",
                    "a",
                    "b",
                    "f",
                    "dir_link",
                    "file_link",
                    "up_link",
                    "own_link",
                    "loop",
                    "fifo",
                    "outside",
                    "root",
                ]
            ),
            st.text(max_size=6),
        ),
        max_size=8,
    ),
    absolute=st.booleans(),
)
def test_no_path_reads_or_lists_what_is_outside(shared_ground: Ground, parts: list[str], absolute: bool) -> None:
    path = "/" * absolute + "/".join(parts)
    with shared_ground.files() as files:
        for operation in (
            lambda: files.read(path, limit=MUCH)[0],
            lambda: b" ".join(info.name.encode() for info in files.listing(path, limit=99)),
        ):
            try:
                found = operation()
            except ToolError:
                continue
            assert found == INSIDE or b"f" in found.split(b" ")
            assert SECRET not in found
            assert b"outside" not in found


@given(path=st.text(max_size=40))
def test_any_path_is_answered_or_refused_with_a_code(shared_ground: Ground, path: str) -> None:
    with shared_ground.files() as files:
        codes = set()
        for operation in (files.info, lambda p: files.read(p, limit=1), lambda p: files.listing(p, limit=1)):
            try:
                operation(path)
            except ToolError as error:
                codes.add(error.code)
    assert not codes & {"file_failed", "tool_failed"}


# --- nothing half-done ---


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(os.listdir(ground.root)), open_descriptors()
    monkeypatch.setattr(os, "write", full)
    with ground.files() as files:
        assert code_of(lambda: files.write("f", b"changed")) == "no_space"
    assert (ground.root / "f").read_bytes() == INSIDE
    assert (sorted(os.listdir(ground.root)), open_descriptors()) == before


def test_a_short_write_is_continued(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    with ground.files() as files:
        files.write("f", b"0123456789")
    assert (ground.root / "f").read_bytes() == b"0123456789"


def test_no_descriptor_is_left_open_whatever_happens(ground: Ground) -> None:
    before = open_descriptors()
    with ground.files() as files:
        for path in ("f", "a", "a/b/f", "missing/x", "dir_link/f", "f/x", "..", ""):
            for operation in (
                lambda p: files.read(p, limit=1),
                lambda p: files.listing(p, limit=1),
                files.info,
                lambda p: files.beneath(p).close(),
                lambda p: files.write(p, INSIDE),
                lambda p: files.make_directory(p),
            ):
                try:
                    operation(path)
                except ToolError:
                    continue
    assert open_descriptors() == before


def test_closing_twice_is_harmless(ground: Ground) -> None:
    files = ground.files()
    files.close()
    files.close()
    assert repr(files) == "<Confinement closed>"
