"""The options of the language server, and the nodes that the options of a trusted workspace name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast

import msgspec
from pygls.uris import to_fs_path

from rrext.editor.analysis import AnalysisSettings
from rrext.errors import RrextError, UsageError, near_matches
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import drop_compiled, load_nodes
from rrext.pipefile.environment import Environment
from rrext.project import find_project
from rrext.references import KnownConnection

ONLY_THERE = (
    "rrext takes {names} from initializationOptions only: with other settings an editor may mix those of a folder that "
    "somebody sent."
)


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """The options of a client. `trusted`: pipelines may run, and code of `nodes` is loaded. The others are as on the command
    line.

    `nodes`: files and modules with nodes of the user. `env`: names that `${NAME}` may read besides `ROCKETRIDE_*`. `root`: the
    folder that paths of nodes may not leave. `connections`: the file of connections for runs. `python_packages`: what programs
    of `tool_python` may import. `project`: whether a project file of the first workspace folder gives those of them that are
    not given, after `rrext trust`.
    """

    trusted: bool = False
    nodes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    root: str | None = None
    connections: str | None = None
    python_packages: tuple[str, ...] = ()
    project: bool = True

    @property
    def package_words(self) -> list[str]:
        """The packages as words of a command."""
        return [f"--python-package={name}" for name in self.python_packages]


def options_from(params: Any, given: Options) -> tuple[Options, list[str]]:
    """The options of an `initialize` over those of the command line, and complaints about invalid ones.

    An invalid value is never consent: `trusted` counts only if it is `true`. Paths are relative to the first workspace folder,
    because an editor's working directory is arbitrary; `~` is the home folder.
    """
    sent = _member(params, "initializationOptions")
    complaints: list[str] = []
    if sent is not None and not isinstance(sent, dict):
        complaints.append("initializationOptions must be an object")
        sent = None
    known = {field.encode_name: field.name for field in msgspec.structs.fields(Options)}
    taken: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", sent or {}).items():
        if key not in known:
            if near_matches(key, tuple(known)):  # other keys belong to other servers: some editors send all keys to all servers
                complaints.append(f'initializationOptions has no "{key}"; there are {", ".join(known)}')
            continue
        try:
            taken[known[key]] = getattr(msgspec.convert({key: value}, Options), known[key])
        except msgspec.ValidationError as error:
            complaints.append(f"initializationOptions: {error}")
    folder = _folder(params)
    for name in ("root", "connections"):
        if taken.get(name) is not None:
            taken[name] = _path(taken[name], folder)
    if "nodes" in taken:
        taken["nodes"] = tuple(_path(name, folder) if _is_file(name) else name for name in taken["nodes"])
    options, complaint = _with_project(msgspec.structs.replace(given, **taken), folder)
    return options, [*complaints, *complaint]


def _with_project(options: Options, folder: str | None) -> tuple[Options, list[str]]:
    """The options, with settings of the folder's project in the place of those that are not given, and complaints."""
    if not options.project or folder is None:
        return options, []
    try:
        project = find_project(folder)
    except UsageError as error:
        return options, [error.message]
    if project is None:
        return options, []
    found = project.allowed.over(msgspec.structs.asdict(options))
    return msgspec.structs.replace(options, **found), [] if project.notice is None else [project.notice]


def withdrawn(params: Any, options: Options) -> tuple[Options, list[str]]:
    """The options after `workspace/didChangeConfiguration`, and complaints.

    `trusted` may become false. No other change applies, because editors also merge settings from files of the workspace.
    """
    sent = _member(_member(params, "settings"), "rrext")
    if not isinstance(sent, dict):
        return options, []
    wanted = cast("dict[str, Any]", sent)
    left = msgspec.structs.replace(options, trusted=options.trusted and wanted.get("trusted") is not False)
    known = msgspec.json.decode(msgspec.json.encode(left))
    strange = [name for name, value in wanted.items() if name in known and value != known[name]]
    return left, [ONLY_THERE.format(names=", ".join(strange))] if strange else []


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _folder(params: Any) -> str | None:
    """The workspace's first folder, or None."""
    folders = _member(params, "workspaceFolders")
    first = _member(cast("list[Any]", folders)[0], "uri") if isinstance(folders, list) and folders else None
    uri = first or _member(params, "rootUri")
    try:
        return (to_fs_path(uri) or None) if isinstance(uri, str) else None
    except ValueError:
        return None


def _is_file(name: str) -> bool:
    """Whether a value of `nodes` names a file, by the same rule as `--nodes`."""
    return name.endswith(".py") or os.sep in name


def _path(path: str, folder: str | None) -> str:
    return os.path.join(folder or "", os.path.expanduser(path))


_State: TypeAlias = tuple[int, int] | None
"""Time of the last change in nanoseconds, and size; None for a file that is not there."""

_PACKAGES: Final = ("site-packages", "dist-packages")
_OURS: Final = __name__.partition(".")[0]


class OwnNodes:
    """The nodes of files and modules that the user named. One thread at a time may use it."""

    def __init__(self, targets: Iterable[str]) -> None:
        self.targets = tuple(targets)
        self._modules: dict[str, str] = {}
        """The modules that came with the nodes: name → source file."""
        self._seen: dict[str, _State] = {}

    @property
    def folders(self) -> list[str]:
        """The folders whose Python files the nodes are made of."""
        return sorted({os.path.dirname(path) for path in self._seen})

    def load(self, catalog: Catalog) -> list[str]:
        """Add the nodes to a catalog; complaints about those that cannot be loaded. Their code runs."""
        before, complaints = set(sys.modules), list[str]()
        for target in self.targets:
            try:
                for node_class in load_nodes(target):
                    catalog.add(node_class)
            except RrextError as error:
                complaints.append(error.message)
        files = [os.path.realpath(target) for target in self.targets if target.endswith(".py")]
        modules = [name for name, module in sys.modules.items() if getattr(module, "__rrext_nodes__", None) in files]
        self._modules |= _own_modules({*(set(sys.modules) - before), *modules, *self.targets})
        self._seen = {path: _state_of(path) for path in (*files, *self._modules.values())}
        return complaints

    def have_changed(self) -> bool:
        """Whether a source file is other than it was when it was loaded."""
        return any(_state_of(path) != state for path, state in self._seen.items())

    def reload(self, catalog: Catalog) -> list[str]:
        """Load the code again, as `load` does. If a part of it fails, its former modules stay."""
        for path, state in self._seen.items():
            if _state_of(path) != state:
                drop_compiled((path,))
        former = {name: sys.modules.pop(name) for name in self._modules if name in sys.modules}
        complaints = self.load(catalog)
        if complaints:
            sys.modules.update(former)
        return complaints


def analysis_settings_for(options: Options, own: OwnNodes, *, anew: bool = False) -> tuple[AnalysisSettings, list[str]]:
    """The settings, and complaints about nodes that could not be loaded. `anew`: their code has changed.

    Without trust only built-in nodes are known: a name in a file from a stranger must not select code to import.
    """
    catalog = Catalog(installed=options.trusted, unloaded=() if options.trusted else options.nodes)
    complaints: list[str] = []
    if options.trusted:
        complaints = own.reload(catalog) if anew else own.load(catalog)
    elif options.nodes:
        complaints.append(f"Nodes of {', '.join(options.nodes)} are not loaded: initializationOptions.trusted is not true.")
    connections, complaint = _connections(options.connections)
    complaints += [] if complaint is None else [complaint]
    environment = Environment.of_process(options.env)
    return AnalysisSettings(catalog, environment, options.trusted, connections=connections), complaints


def _connections(path: str | None) -> tuple[tuple[KnownConnection, ...] | None, str | None]:
    """The connections of a file without their secrets, or a complaint, with which they are unknown."""
    if path is None:
        return None, None
    from rrext.connections import load_connections

    try:
        return tuple(KnownConnection(*told) for told in load_connections(path).known_connections()), None
    except RrextError as error:
        return None, f"The connections are not known: {error.message}"


def _own_modules(names: Iterable[str]) -> dict[str, str]:
    """The modules whose code a user writes, rather than installs: name → source file."""
    found: dict[str, str] = {}
    for name in names:
        path = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and name.partition(".")[0] != _OURS and not _is_installed(path):
            found[name] = path
    return found


def _is_installed(path: str) -> bool:
    library = os.path.dirname(os.__file__) + os.sep
    return path.startswith(library) or not set(path.split(os.sep)).isdisjoint(_PACKAGES)


def _state_of(path: str) -> _State:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
