"""The client for TypeScript agrees with rrext: its version, its codes, its size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import rrext
from rrext.errors import NUMBERS, NotConnected, ServerExited, UsageError

CLIENT = Path(__file__).resolve().parents[2] / "rrext" / "typescript"
MOST_LINES = 600


def read(name: str) -> str:
    return (CLIENT / name).read_text(encoding="utf-8")


def test_it_has_our_version_and_depends_on_nothing() -> None:
    package = json.loads(read("package.json"))
    assert (package["version"], package.get("dependencies")) == (rrext.__version__, None)
    assert re.findall(r"clientVersion: '([^']*)'", read("src/index.ts")) == [rrext.__version__]


def test_its_codes_are_those_of_the_errors() -> None:
    listed, _, _ = read("src/errors.ts").partition("(string & {})")
    assert set(re.findall(r"'(\w+)'", listed)) == {*NUMBERS, NotConnected.code, ServerExited.code, UsageError.code}


def test_it_stays_small() -> None:
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in CLIENT.glob("src/**/*.ts"))
    assert lines <= MOST_LINES
