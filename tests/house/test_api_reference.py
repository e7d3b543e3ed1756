"""What is public stands in one place, has texts, and is what the reference says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rrext
import rrext.blocking
import rrext.testing

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [rrext, rrext.blocking, rrext.testing]
"""The modules that others import; their `__all__` says what."""


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_has_a_text(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not inspect.getdoc(getattr(module, name))] == []


def test_the_reference_is_what_the_docstrings_say() -> None:
    done = subprocess.run([sys.executable, ".ci/reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
