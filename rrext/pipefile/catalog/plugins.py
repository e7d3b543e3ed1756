"""Origins of node classes: `--nodes` files and modules, `module:Class` references, installed packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from rrext.errors import UsageError, near_matches
from rrext.nodes.base.node import Node

ENTRY_POINTS: Final = "rrext.nodes"
"""The entry-point group in which a package names its nodes: `provider = "module:Class"`, or `provider = "module"`."""


BUILTIN_TABLE: Final = "rrext.nodes"
"""The module with the table of built-in nodes: all that the engine knows of them, and by reference like any other."""


class PluginError(UsageError):
    """Node code that cannot be used. The message names the file or module, and the line if there is one."""


def load_nodes(target: str, text: str | None = None) -> list[type[Node]]:
    """The node classes of a Python file or of an importable module, in the order of their definition.

    The code runs: it is the operator's own. Imports of the code are searched last in the file's folder, or in the current
    folder for a module. `text` is the content of a file that is on another machine. Raises `PluginError`.
    """
    if text is not None:
        return _nodes_of(_run_text(target, text), target)
    return _nodes_of(_run_file(target) if is_file(target) else _import_module(target), target)


def source_files(targets: Iterable[str]) -> dict[str, str]:
    """The files of the code of `--nodes` that is loaded: module → path, with the modules beside a file and below a package."""
    folders: list[str] = []
    for target in targets:
        if is_file(target):
            folders.append(os.path.dirname(os.path.realpath(target)))
        elif (path := getattr(sys.modules.get(target.partition(".")[0]), "__file__", None)) is not None:
            is_package = os.path.basename(path) == "__init__.py"
            folders.append(os.path.dirname(os.path.realpath(path)) if is_package else os.path.realpath(path))
    found: dict[str, str] = {}
    others = _installed_places()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name == "__main__" or "site-packages" in file.split(os.sep):
            continue
        path = _place_of(file)
        if any(_is_below(path, each) for each in folders) and not any(_is_below(path, each) for each in others):
            found[name] = path
    return found


@cache
def _place_of(file: str) -> str:
    """The path of a module's file, which stays."""
    return os.path.realpath(file)


def reload_nodes(targets: Sequence[str]) -> list[type[Node]]:
    """Run the code of `--nodes` again, with the modules beside it; the node classes.

    Raises `PluginError`, and leaves the modules as they were, if that fails.
    """
    files = source_files(targets)
    before = {name: sys.modules.pop(name) for name in files}
    drop_compiled(files.values())
    try:
        return [node for target in targets for node in load_nodes(target)]
    except BaseException:
        for name in source_files(targets):
            del sys.modules[name]
        sys.modules.update(before)
        raise


def drop_compiled(paths: Iterable[str]) -> None:
    """Remove compiled code, which Python takes for current if the source has the same size and second."""
    from importlib.util import cache_from_source

    for path in paths:
        with suppress(OSError, NotImplementedError):
            os.unlink(cache_from_source(path))


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(os.path.join(place, ""))


def _installed_places() -> list[str]:
    """Folders with code that is not the user's: of Python, of installed packages, and of rrext, which may be a clone."""
    from sysconfig import get_path

    places = [os.path.dirname(os.__file__), get_path("purelib"), get_path("platlib"), *sys.modules["rrext"].__path__]
    return [_place_of(place) for place in places]


def is_file(target: str) -> bool:
    """Whether a target of `--nodes` is a file, and no module."""
    return target.endswith(".py") or os.sep in target


def import_class(reference: str, provider: str) -> type[Node]:
    """The class that `module:Class` names, or the one in `module` with that provider name.

    Raises whatever its import raises, and `PluginError` if it is no node.
    """
    from importlib import import_module

    name, _, attribute = reference.partition(":")
    found: Any = import_module(name)
    if not attribute:
        providers = {node.provider: node for node in _classes_of(found)}
        if provider not in providers:
            others = f": its nodes are {', '.join(providers)}" if providers else ""
            raise PluginError(f'{reference} has no node "{provider}"{others}')
        return providers[provider]
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not _is_node(found):
        raise PluginError(f"{reference} is no Node class")
    return found


def builtin_nodes() -> tuple[dict[str, str], dict[str, str]]:
    """Provider → `module:Class`, and alias → provider, of the nodes that come with rrext. None of them is imported."""
    from importlib import import_module

    table = import_module(BUILTIN_TABLE)
    return dict(table.BUILTIN), dict(table.ALIASES)


def installed_nodes() -> dict[str, list[str]]:
    """Provider → the references that installed packages give for it. No code of theirs is imported."""
    from importlib.metadata import entry_points

    found: dict[str, list[str]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        references = found.setdefault(point.name, [])
        if point.value not in references:  # a package can be found twice on a search path
            references.append(point.value)
    return found


def packages_with_nodes() -> dict[str, str]:
    """The versions of the installed packages that name nodes. No code of theirs is imported."""
    from importlib.metadata import entry_points

    return {point.dist.name: point.dist.version for point in entry_points(group=ENTRY_POINTS) if point.dist is not None}


def check_definition(node: type[Node]) -> None:
    """Refuse class attributes that would only fail later, or never: `lanes = {"text": "text"}` has four lanes out.

    Raises `PluginError`, which names the class and the attribute.
    """
    for attribute in ("aliases", "class_types", "capabilities", "accepts"):
        if not _are_names(getattr(node, attribute)):
            raise PluginError(f'{origin_of(node)}: {attribute} is a tuple of texts, as ("{attribute}",)')
    lanes = node.lanes
    if not isinstance(lanes, Mapping) or not _are_names(tuple(lanes)) or not all(map(_are_names, lanes.values())):
        raise PluginError(f'{origin_of(node)}: lanes go from lane in to a tuple of lanes out, as {{"text": ("table",)}}')
    for attribute in ("invoke", "profiles"):
        found = getattr(node, attribute)
        if not isinstance(found, Mapping) or not all(isinstance(part, Mapping) for part in found.values()):
            raise PluginError(f"{origin_of(node)}: {attribute} is a dict of dicts")
    if node.default_profile is not None and node.default_profile not in node.profiles:
        raise PluginError(f'{origin_of(node)}: default_profile "{node.default_profile}" is none of its profiles')


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(name, str) and name for name in value)


def origin_of(node_class: type[Node]) -> str:
    """The place of a class definition, for people."""
    module = sys.modules.get(node_class.__module__)
    path = getattr(module, "__file__", None)
    own = f"{node_class.__module__}.{node_class.__qualname__}"
    return f"{own} in {path}" if path and "." not in node_class.__module__ else own


def _run_file(path: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if not os.path.isfile(path):
        raise PluginError(f"--nodes {path}: there is no such file.{_similar_files(path)}")
    full = os.path.realpath(path)
    for loaded in list(sys.modules.values()):
        if getattr(loaded, "__rrext_nodes__", None) == full:
            return loaded
    name = _free_name(full)
    spec = spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise PluginError(f"--nodes {path}: this is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    _search_last(os.path.dirname(full))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _failure(path, full, error) from error
    module.__rrext_nodes__ = full  # pyright: ignore[reportAttributeAccessIssue]
    return module


def _run_text(path: str, text: str) -> Any:
    """Run the content of a file that is not here. Tracebacks show its lines."""
    import linecache
    from types import ModuleType

    module = ModuleType(_free_name(path))
    module.__file__ = path
    sys.modules[module.__name__] = module
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    try:
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        raise _failure(path, path, error) from error
    return module


def _free_name(path: str) -> str:
    """The name of the module of a file: that of the file, unless there is such a module already."""
    stem = os.path.splitext(os.path.basename(path))[0]
    is_free = stem.isidentifier() and stem not in sys.modules and stem not in sys.stdlib_module_names
    return stem if is_free else f"rrext_nodes_{stem}"


def _import_module(name: str) -> Any:
    from importlib import import_module

    _search_last(os.getcwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f" For a file, write {name}.py." if os.path.isfile(f"{name}.py") else ""
            raise PluginError(f"--nodes {name}: there is no module {error.name}.{hint}") from None
        raise _failure(name, None, error) from error
    except BaseException as error:
        raise _failure(name, None, error) from error


def _failure(target: str, path: str | None, error: BaseException) -> BaseException:
    """The error for the operator after an exception in node code. A Ctrl-C stays one."""
    if isinstance(error, KeyboardInterrupt):
        return error
    if isinstance(error, SyntaxError):
        other = "" if error.filename in (None, target, path) else f": {error.filename}"
        text = (error.text or "").strip()
        return PluginError(f"--nodes {target}{other}, line {error.lineno}: {error.msg}" + (f": {text}" if text else ""))
    line = _line_in(path, error)
    where = f", line {line}" if line else ""
    return PluginError(f"--nodes {target}{where}: {type(error).__name__}: {error}")


def _line_in(path: str | None, error: BaseException) -> int | None:
    """The line of the file where the exception came through, innermost."""
    line, frame = None, error.__traceback__
    while frame is not None:
        if path is not None and frame.tb_frame.f_code.co_filename == path:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def _classes_of(module: Any) -> list[type[Node]]:
    """The node classes that a module, or its package, defines."""
    return [value for value in vars(module).values() if _is_node(value) and _belongs(value.__module__, module.__name__)]


def _nodes_of(module: Any, target: str) -> list[type[Node]]:
    classes = _classes_of(module)
    found = [cls for cls in dict.fromkeys(classes) if cls.provider]
    if not found and classes:
        bare = ", ".join(cls.__name__ for cls in classes)
        raise PluginError(f"--nodes {target}: {bare} has no `provider`, the name that pipelines use for it")
    if not found:
        raise PluginError(f"--nodes {target}: no Node class is defined there")
    return found


def _belongs(defined_in: str, module: str) -> bool:
    return defined_in == module or defined_in.startswith(f"{module}.")


def _is_node(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Node) and value is not Node


def _search_last(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def _similar_files(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        names: Iterable[str] = os.listdir(folder or ".")
    except OSError:
        return ""
    near = near_matches(name, [other for other in names if other.endswith(".py")])
    return " Did you mean " + " or ".join(os.path.join(folder, other) for other in near) + "?" if near else ""
