"""The benchmark of `knowledge` measures all that it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("re2", reason="the extra `knowledge` is not installed")
pytest.importorskip("qdrant_edge", reason="the extra `vector` is not installed")
pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")


@pytest.mark.timeout(300)
def test_the_quick_mode_has_a_line_for_each_figure() -> None:
    script = Path(__file__).resolve().parent / "run_knowledge.py"
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for what in ("storing 100 texts", "a rare word", "a regex without a literal", "find_by_name: an extension", "a read of"):
        assert what in done.stdout
