"""Optional packages of a node: the missing ones, and the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec


def missing_packages(extra: str, *modules: str) -> str | None:
    """The command that installs an extra's missing modules; None if none is missing.

    Only looks for the modules, without importing them.
    """
    missing = [module for module in modules if not _is_there(module)]
    if not missing:
        return None
    return f'{" and ".join(missing)} cannot be imported; install with: pip install "rrext[{extra}]"'


def _is_there(module: str) -> bool:
    top, _, rest = module.partition(".")
    try:
        return find_spec(top) is not None and (not rest or find_spec(module) is not None)
    except (ImportError, ValueError):  # a parent package that fails, or a module made by hand
        return False
