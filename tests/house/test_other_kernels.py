"""`.ci/kernels` says how it is called, and ends a machine that hangs."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kernels() -> Any:
    loader = SourceFileLoader("kernels", str(ROOT / ".ci" / "kernels"))
    spec = spec_from_loader("kernels", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("has_folder", [False, True])
def test_without_a_kernel_the_usage_is_said(
    kernels: Any, has_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels", *([str(tmp_path)] if has_folder else [])])
    with pytest.raises(SystemExit) as caught:
        kernels.main()
    assert "`.ci/kernels FOLDER [ARGUMENT OF PYTEST]…`" in str(caught.value)
    assert (str(tmp_path) in str(caught.value)) == has_folder


@pytest.mark.skipif(sys.platform != "linux", reason="it runs there")
def test_a_machine_that_hangs_is_ended(
    kernels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "vmlinuz-1").touch()
    for name, script in (("qemu-system-x86_64", "echo booted; exec sleep 1000"), ("busybox", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", ["kernels", str(tmp_path)])
    monkeypatch.setattr(kernels, "LONGEST", 1)
    assert kernels.main() == 1
    said = capfd.readouterr()
    assert said.out == "booted\n"
    assert "ended after 1 seconds" in said.err
