"""Installed packages for programs: what the operator offers and a pipeline allows, with all that it needs.

pip installs distributions, and programs import packages: the distribution `pillow` has the package `PIL`. Either name means
both. A program gets the folders of a distribution's packages, and its other files one by one, as its RECORD lists them: two
distributions may share a folder, and what else lies there is not offered.
"""

from __future__ import annotations

import csv
import inspect
import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from typing import Any, Final

import msgspec

from rrext.errors import Unavailable, near_matches
from rrext.nodes.sandbox.grant import Grant

OPTION: Final = "--python-package"


def how_to_offer(name: str) -> str:
    """Advice: how an operator offers a module that programs cannot import."""
    if re.fullmatch(r"[\w.-]+", name) is None:
        return "this is no name of a package"
    return f"the operator may offer it with {OPTION} {_top(name)}"


@cache
def offered(names: tuple[str, ...]) -> OfferedPackages:
    """The packages that an operator names, read once in a process: that takes 0.1 s for numpy, pandas and matplotlib."""
    return OfferedPackages(names)


class OfferedPackages:
    """The distributions that an operator names, and those that they need."""

    def __init__(self, names: Iterable[str]) -> None:
        """Look for the names among the installed packages. Raises `Unavailable` for one that cannot be offered."""
        self._offered: dict[str, _Distribution] = {}
        for name in names:
            for found in _installed(name):
                self._add(found)

    def _add(self, found: metadata.Distribution) -> None:
        if (key := _key(found.name)) in self._offered:
            return
        self._offered[key] = distribution = _Distribution(found)
        for name in distribution.needs:
            if needed := _distribution(name):  # else for another system
                self._add(needed)

    def has(self, name: str) -> bool:
        """Whether the package, or the module of a package, is offered or belongs to the standard library."""
        return _top(name) in sys.stdlib_module_names or bool(self._meant(name))

    def grant(self, allowed: Iterable[str]) -> Grant:
        """The packages that are both allowed and offered."""
        names: dict[str, str] = {}
        refused = {
            package: f"the server offers it, but `allowedModules` of this component does not name {package}"
            for distribution in self._offered.values()
            for package in distribution.packages
        }
        for name in allowed:
            if self.has(name):
                names |= {key: self._offered[key].imported_as(name) for key in self._meant(name)}
            else:
                refused[_top(name)] = f"this server does not offer it: {how_to_offer(name)}"
        found = self._with_needs(names)
        granted = found.values()
        for each in granted:
            for package in each.packages:
                refused.pop(package, None)
        return Grant(
            names=tuple(f"{name} {self._offered[key].version}" for key, name in names.items()),
            paths=tuple(path for each in granted for path in each.paths),
            modules={module: file for each in granted for module, file in each.modules.items()},
            distributions={key: each.folder for key, each in found.items()},
            refused=refused,
            roots=tuple(dict.fromkeys(each.root for each in granted)),
        )

    def _meant(self, name: str) -> list[str]:
        """The keys of the distributions that a name means."""
        key, top = _key(name), _top(name)
        return [found for found, each in self._offered.items() if key == found or top in each.packages]

    def _with_needs(self, keys: Iterable[str]) -> dict[str, _Distribution]:
        found: dict[str, _Distribution] = {}
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key in self._offered and key not in found:
                found[key] = self._offered[key]
                waiting += map(_key, found[key].needs)
        return found


class _Distribution:
    """An installed distribution: its modules and files, and the names of the distributions that it requires."""

    def __init__(self, found: metadata.Distribution) -> None:
        name = found.name
        self.version = found.version
        self.needs = [
            re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in found.requires or () if "extra" not in each.partition(";")[2]
        ]
        self.root = str(found.locate_file("")).rstrip(os.sep)
        self.modules: dict[str, str] = {}
        files = _recorded(found)
        own = next((file[:1] for file in files if file[0].endswith(".dist-info") and file[1:] == ("RECORD",)), None)
        if own is None:
            raise Unavailable(f"{name} cannot be offered to programs: its files are not recorded; install it with pip")
        if _is_editable(found):
            raise Unavailable(f"{name} cannot be offered to programs: it is an editable install, whose code lies elsewhere")
        self.folder = os.path.join(self.root, *own)
        folders = {own, *(file[:-1] for file in files if inspect.getmodulename(file[-1]) == "__init__")}
        self.paths: list[str] = []
        for place in dict.fromkeys(self._place(file, folders) for file in files):
            path = os.path.join(self.root, *place)
            if os.path.isdir(path) if place in folders else os.path.isfile(path):
                self.paths.append(path)
        self.packages = tuple(module for module in self.modules if "." not in module)
        if not self.packages:
            raise Unavailable(f"{name} cannot be offered to programs: it has no package that they could import")

    def imported_as(self, name: str) -> str:
        """The module that a name means, which may be that of the distribution or of a folder that it shares."""
        modules = [module for module, place in self.modules.items() if not place.endswith(os.sep)]
        return _top(name) if _top(name) in modules else modules[0]

    def _place(self, file: tuple[str, ...], folders: set[tuple[str, ...]]) -> tuple[str, ...]:
        """What programs need for a file: the outermost package with it, or itself. Enters what is imported by it."""
        package = next((file[:end] for end in range(1, len(file)) if file[:end] in folders), None)
        module = inspect.getmodulename(file[-1])
        if package is None:
            self._enter((*file[:-1], module or ""), file)
        elif package == file[:-1] and module == "__init__":
            self._enter(package, file)
        return package or file

    def _enter(self, module: tuple[str, ...], file: tuple[str, ...]) -> None:
        if all(map(str.isidentifier, module)) and "__pycache__" not in module:
            for end in range(1, len(module)):
                self.modules.setdefault(".".join(module[:end]), os.path.join(self.root, *module[:end], ""))
            self.modules.setdefault(".".join(module), os.path.join(self.root, *file))


def _installed(name: str) -> list[metadata.Distribution]:
    """The distributions that an operator's name means: that of this name, or all that have a package of this name."""
    if found := _distribution(name):
        return [found]
    packages = _packages()
    if names := packages.get(name):
        return [metadata.distribution(each) for each in dict.fromkeys(names)]
    near = near_matches(name, [*packages, *(each for names in packages.values() for each in names)])
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise Unavailable(f'{OPTION}: no package "{name}" is installed beside this server{hint}')


def _packages() -> dict[str, list[str]]:
    """The names of the distributions that have a package, by its name."""
    packages: dict[str, list[str]] = {}
    for found in metadata.distributions():
        name = _name_of(found)
        files = [] if name is None else found.files or []
        for package in {
            file.parts[0] if len(file.parts) > 1 else file.stem for file in files if inspect.getmodulename(file.name)
        }:
            packages.setdefault(package, []).append(str(name))
    return packages


def _distribution(name: str) -> metadata.Distribution | None:
    """The distribution of this name."""
    return next((each for each in metadata.distributions(name=name) if _name_of(each)), None) if name else None


def _name_of(found: metadata.Distribution) -> str | None:
    """The name of a distribution. What pip could not remove of one has none; where the library `importlib_metadata` is in use,
    that is an error of its own.
    """
    try:
        return found.name or None
    except Exception:
        return None


def _recorded(found: metadata.Distribution) -> list[tuple[str, ...]]:
    """The files of a distribution among the installed packages; scripts and manuals elsewhere are left out."""
    names = [row[0] for row in csv.reader((found.read_text("RECORD") or "").splitlines()) if row]
    return [parts for name in names if not {"", ".", ".."}.intersection(parts := tuple(name.split("/")))]


def _is_editable(found: metadata.Distribution) -> bool:
    origin: Any = msgspec.json.decode(found.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _top(name: str) -> str:
    return name.partition(".")[0]
