"""The project of a folder: a file `rrext.toml` beside the pipelines, with the settings that commands and editors share.

A file that was found, and not named, may lie in a folder that somebody sent. It is used only if nobody but its user can write
it, and the settings that can run code, open connections or start a server count only after `rrext trust`, which keeps the path
and the hash of the file in the user's folder of configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from rrext.columns import one_line
from rrext.errors import UsageError, near_matches
from rrext.secrets.names import is_secret, secret_in, secrets_within
from rrext.secrets.private_file import NotPrivate, others_who_write, read_private

NAME: Final = "rrext.toml"
FORMAT: Final = 1
"""The version of the file's format that this module reads."""

GUARDED: Final = ("pipeline", "nodes", "env", "connections", "python_packages", "serve")
"""The settings of a found file that count only after `rrext trust`: the others can do no harm."""

SHARED: Final = ("root", "connections", "nodes", "env", "python_packages")
"""The settings that are options of commands, of editors and of pytest."""

PRIVATE_FILES: Final = frozenset((("serve", "keys"), ("serve", "tls-key"), ("serve", "metrics-key-file")))
"""Options of `rrext serve` that name a file of secrets, and are none."""

MAX_PROJECT: Final = 16 * 1024
"""Bytes of a project file: it has tens of lines, and every command reads it."""

MAX_LINE: Final = 1000
"""Characters of its longest line: the time to read a key with dots grows with the square of its parts."""

MAX_NAME: Final = 80
"""Characters of a setting's name in a message: the names that exist have a tenth of it."""

MAX_PROBLEMS: Final = 20
"""Problems that are told at once: a file has a few settings."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The settings of a project. Paths are absolute.

    `pipeline`: the one that commands use where none is named. `root`, `connections`, `nodes`, `env` and `python_packages` are
    the options of those names. `serve`: options of `rrext serve` by their names, as the file has them.
    """

    version: int = FORMAT
    pipeline: str | None = None
    root: str | None = None
    connections: str | None = None
    nodes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    python_packages: tuple[str, ...] = ()
    serve: dict[str, Any] = {}

    def over(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The `SHARED` options among these, with the project's for what is not given."""
        return {name: getattr(self, name) if given[name] in (None, [], ()) else given[name] for name in SHARED if name in given}


Trust = Literal["named", "trusted", "changed", "unknown", "unsafe"]
"""How a file came to its settings: `named` and `trusted` ones count, of an `unsafe` one nothing was read."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project file, its text, and what it says. `fault` says why an unsafe one is not used."""

    path: str
    trust: Trust
    settings: ProjectSettings = ProjectSettings()
    text: str = ""
    fault: str = ""

    @property
    def folder(self) -> str:
        """The folder where paths of the file begin."""
        return os.path.dirname(self.path)

    @property
    def guarded(self) -> tuple[str, ...]:
        """The names of its settings that need trust."""
        return tuple(name.replace("_", "-") for name in GUARDED if getattr(self.settings, name))

    @property
    def allowed(self) -> ProjectSettings:
        """The settings that count."""
        return self.settings if self.trust in ("named", "trusted") else ProjectSettings(root=self.settings.root)

    @property
    def notice(self) -> str | None:
        """What its user has to know of settings that do not count, in a line."""
        if self.trust == "unsafe":
            return f"{one_line(self.path)} is ignored: {self.fault}"
        if self.trust in ("named", "trusted") or not self.guarded:
            return None
        why = "it has changed since `rrext trust`" if self.trust == "changed" else "it is not trusted"
        return f"{one_line(self.path)}: {', '.join(self.guarded)} ignored: {why}; `rrext trust` shows what it would allow"


def find_project(folder: str) -> Project | None:
    """The project of a folder: the nearest file in it or above, up to the home folder or a border of file systems.

    Raises `UsageError` with all problems of the file.
    """
    folder, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    device = _device(folder)
    while device is not None and _device(folder) == device:
        path = os.path.join(folder, NAME)
        if os.path.lexists(path):
            return _found(path)
        if folder in (home, os.path.dirname(folder)):
            break
        folder = os.path.dirname(folder)
    return None


def named_project(path: str) -> Project:
    """The project of a file that the user named, which is consent: all of its settings count. Raises `UsageError`."""
    path = os.path.abspath(path)
    try:
        text, _ = _read(path)
    except NotPrivate as error:
        raise UsageError(f"--project {error}") from None
    return Project(path=path, trust="named", settings=_settings(path, text), text=text)


def _device(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def _found(path: str) -> Project:
    try:
        text, writer = _read(path)
    except NotPrivate as error:
        return Project(path=path, trust="unsafe", fault=str(error).removeprefix(f"{path}: "))
    if writer is not None:
        return Project(path=path, trust="unsafe", fault=writer)
    known = _trusted_digest(path)
    trust: Trust = "unknown" if known is None else "trusted" if known == _digest(text) else "changed"
    return Project(path=path, trust=trust, settings=_settings(path, text), text=text)


def _read(path: str) -> tuple[str, str | None]:
    """The text of a project file, and who else can write its folder. Raises `NotPrivate`.

    The folder is opened first, and the file within that folder: neither can be exchanged between the check and the read.
    """
    try:
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise NotPrivate(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return read_private(path, may_be_read=True, folder=folder), others_who_write(os.fstat(folder), "the folder")
    finally:
        os.close(folder)


def _digest(text: str) -> str:
    import hashlib  # it takes longer to load than a search that finds no file

    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


class _Fault(NamedTuple):
    """A problem of a project file: the names that lead to the setting, and a message, which has nothing of a value."""

    place: tuple[str, ...]
    message: str


def _settings(path: str, text: str) -> ProjectSettings:
    """The settings of a text. Raises `UsageError` with all problems."""
    import tomllib

    if len(text) > MAX_PROJECT or any(len(line) > MAX_LINE for line in text.splitlines()):
        raise UsageError(one_line(f"{path}: the file is too large: {MAX_PROJECT:,} characters, {MAX_LINE:,} in a line"))
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of a number that is too long it is no `TOMLDecodeError`
        raise UsageError(one_line(f"{path}: {error}")) from None
    version = tables.get("version", FORMAT)
    if version != FORMAT:  # the other settings may mean something else there
        raise invalid(path, text, [_Fault(("version",), f"this rrext reads version {FORMAT} of the format alone")])
    values, faults = _converted(tables)
    folder = os.path.dirname(path)
    for name in ("pipeline", "root", "connections"):
        if name in values:
            values[name] = absolute(values[name], folder)
    if "nodes" in values:
        values["nodes"] = tuple(_node(each, folder) for each in values["nodes"])
    if "root" in values and not _is_within(values["root"], folder):
        faults.append(_Fault(("root",), "it leaves the folder of the project; --root may"))
    faults = [*_strange_values(tables), *_unknown(tables), *faults]
    if faults:
        raise invalid(path, text, faults)
    return ProjectSettings(**values)


def _converted(tables: Mapping[str, Any]) -> tuple[dict[str, Any], list[_Fault]]:
    """The known settings of the right types, and the faults of the others."""
    values: dict[str, Any] = {}
    faults: list[_Fault] = []
    for field in msgspec.structs.fields(ProjectSettings):
        if field.encode_name not in tables:
            continue
        try:
            values[field.name] = msgspec.convert(tables[field.encode_name], field.type)
        except msgspec.ValidationError as error:
            message, _, _ = str(error).partition(" - at `$")
            faults.append(
                _Fault((field.encode_name,), message.replace("`", "").replace(" | null", "").replace("Expected", "expected"))
            )
    if not all(map(_VARIABLE.fullmatch, values.get("env", ()))):
        faults.append(_Fault(("env",), "expected names of variables alone: their values stay in the environment"))
    return values, faults


def absolute(path: str, folder: str) -> str:
    """A path of the file as an absolute one."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _node(name: str, folder: str) -> str:
    """The absolute path of a file of nodes, or the name of a module. One that lies in the folder is a file of it: as a module
    it would be looked up in the current folder, which may be anybody's.
    """
    is_file = name.endswith(".py") or os.sep in name  # the rule of --nodes
    own = absolute(name if is_file else f"{name}.py", folder)
    return own if is_file or os.path.isfile(own) else name


def _is_within(path: str, folder: str) -> bool:
    try:
        path, folder = os.path.realpath(path), os.path.realpath(folder)
    except ValueError:  # a zero byte
        return False
    return os.path.commonpath((path, folder)) == folder


def _unknown(tables: Mapping[str, Any]) -> Iterator[_Fault]:
    known = ProjectSettings.__struct_encode_fields__
    for name in tables:
        if name not in known and not is_secret(name):
            near = near_matches(name, known)
            meant = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
            yield _Fault((name,), f"unknown setting; {meant}")


def _strange_values(tables: Mapping[str, Any]) -> Iterator[_Fault]:
    """The settings that are secrets, by their names or by the form of their values, and texts that no path or name can be."""
    left: list[tuple[tuple[str, ...], Any]] = [((), tables)]
    while left:
        place, value = left.pop()
        name = place[-1] if place else ""
        if isinstance(value, dict):
            left += [((*place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [(place, inner) for inner in value]
        by_name = is_secret(name) and place not in PRIVATE_FILES
        if by_name or (isinstance(value, str) and (secret_in(value, "") or next(secrets_within(value), None))):
            text = (
                "a secret does not belong into this file: keep it in a variable that env names, or in the file of connections"
            )
            yield _Fault(place, text)
        elif isinstance(value, str) and "\0" in value:
            yield _Fault(place, "expected a text without zero bytes")


def invalid(path: str, text: str, faults: list[_Fault] | list[tuple[tuple[str, ...], str]]) -> UsageError:
    """The error for a project file with problems: a line each, with the line of the file."""
    from rrext.connections import lines_of

    lines, told = lines_of(text), dict[str, None]()
    for place, message in faults:
        pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in place)
        while pointer and pointer not in lines:
            pointer = pointer.rpartition("/")[0]
        where = f"{path}:{lines[pointer]}" if pointer else path
        told[one_line(f"{where}: {'.'.join(place)[:MAX_NAME]}: {message}")] = None
    more = [f"and {len(told) - MAX_PROBLEMS} more problems"] if len(told) > MAX_PROBLEMS else []
    return UsageError("\n".join([*list(told)[:MAX_PROBLEMS], *more]))


def trust_folder() -> str:
    """The folder with a file for each project that the user trusts. A relative one could be that of a stranger."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "rrext", "trusted")


def _mark_of(path: str) -> str:
    return os.path.join(trust_folder(), f"{_digest(path)}.json")


def _trusted_digest(path: str) -> str | None:
    """The hash of the content that the user trusted under a path."""
    with suppress(NotPrivate, msgspec.MsgspecError):
        return msgspec.json.decode(read_private(_mark_of(path)), type=dict[str, str]).get("sha256")
    return None


def trust(project: Project) -> None:
    """Let the settings of a project count, as they are. Raises `OSError`."""
    mark = _mark_of(project.path)
    os.makedirs(os.path.dirname(mark), mode=0o700, exist_ok=True)
    new = f"{mark}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(new)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(
            msgspec.json.encode({"path": os.fsencode(project.path).decode(errors="replace"), "sha256": _digest(project.text)})
        )
    os.replace(new, mark)


def withdraw(path: str) -> bool:
    """Withdraw the trust in a project file, also one that is gone; whether there was any. Raises `OSError`."""
    try:
        os.unlink(_mark_of(path))
    except FileNotFoundError:
        return False
    return True


def trusted_paths() -> list[str]:
    """The paths of the project files that the user trusts, in their order, whether or not they are there."""
    found: list[str] = []
    with suppress(FileNotFoundError):
        for name in os.listdir(trust_folder()):
            with suppress(NotPrivate, msgspec.MsgspecError):
                mark = msgspec.json.decode(read_private(os.path.join(trust_folder(), name)), type=dict[str, str])
                found.append(mark.get("path", ""))
    return sorted(found)
