"""Packages that a node needs and rrext does not install by itself: which are missing, and the line that installs them."""

from __future__ import annotations

from importlib.util import find_spec


def missing_packages(extra: str, *modules: str) -> str | None:
    """What a person has to install before modules of an extra can be imported; None if they are all there.

    Nothing is imported, so that it costs no more than looking.
    """
    missing = [module for module in modules if not _is_there(module)]
    if not missing:
        return None
    return f'{" and ".join(missing)} cannot be imported; install with: pip install "rrext[{extra}]"'


def _is_there(module: str) -> bool:
    top, _, rest = module.partition(".")
    try:
        return find_spec(top) is not None and (not rest or find_spec(module) is not None)
    except (ImportError, ValueError):  # a parent that fails, or a module that was made by hand
        return False
