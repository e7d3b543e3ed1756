"""The importer of granted packages in a guest: it knows where they are, and lists no folder that they share with others.

The warden compiles this module as it does `guest`, for components that have packages.
"""

import os
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import DistributionFinder, PathDistribution

_SETTINGS = {
    # Else a library of linear algebra starts a thread for each processor of the machine, beyond the limit of threads.
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    "MPLBACKEND": "Agg",
    # matplotlib wants a folder that it may write to, for a list of fonts that it can make anew: one that looks so will do.
    "MPLCONFIGDIR": next((folder for folder in ("/", "/tmp") if os.access(folder, os.W_OK)), "/"),
}
"""Environment variables of libraries, as far as the program has not set them."""


class Packages:
    """A finder for `sys.meta_path`, behind those of the standard library, whose modules no package replaces."""

    def __init__(self, modules: dict[str, str], distributions: dict[str, str]) -> None:
        self._modules = modules
        self._distributions = distributions

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Find a granted module; those of a granted folder are found by Python itself."""
        place = self._modules.get(name)
        if place is None:
            return None
        for setting, value in _SETTINGS.items():
            os.environ.setdefault(setting, value)
        if name == "matplotlib":
            import logging

            logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it warns that its list was not kept
            _seem_writable(_SETTINGS["MPLCONFIGDIR"])
        if not place.endswith("/"):
            return spec_from_file_location(name, place)
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [place]
        return spec

    def find_distributions(self, context: "DistributionFinder.Context") -> "Iterator[PathDistribution]":
        """Find the metadata of granted distributions, for `importlib.metadata`."""
        from importlib.metadata import PathDistribution
        from pathlib import Path

        wanted = None if context.name is None else context.name.lower().replace("-", "_").replace(".", "_")
        for key, folder in self._distributions.items():
            if wanted in (None, key):
                yield PathDistribution(Path(folder))


def _seem_writable(folder: str) -> None:
    """Let `os.access` say that a folder can be written to, where it says so of none."""
    access = os.access

    def seeming(path: "int | str | bytes | os.PathLike[str] | os.PathLike[bytes]", mode: int, **where: bool) -> bool:
        return (path == folder and mode == os.W_OK) or access(path, mode, **where)

    if not access(folder, os.W_OK):
        os.access = seeming
