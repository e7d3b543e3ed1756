"""A program on a screen: tmux runs it, keys go in as a person types them, and what it shows comes out as text."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 20.0  # seconds until a screen that does not come is a failure
LOOK_AGAIN = 0.02


class Terminal:
    """A terminal of a given size with one program in it. Ends with `close`, whatever the program does."""

    def __init__(self, folder: Path, environment: Mapping[str, str], columns: int = 110, lines: int = 34) -> None:
        self._socket = folder / "tmux"
        self._folder = folder
        self._environment = dict(environment)
        self._size = (columns, lines)

    def start(self, command: list[str]) -> None:
        """Run a program, in the folder of this terminal."""
        columns, lines = self._size
        # tmux hands its own environment on, but for what `-e` sets; `env -i` makes the given one the whole of it
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        inside = shlex.join(["env", "-i", *variables, "TERM=screen-256color", *command])
        size = ["-x", str(columns), "-y", str(lines)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(self._folder), inside)
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("set-option", "-s", "escape-time", "0")

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux' names: `Enter`, `Escape`, `C-x`, `Down`, or any text."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as it stands."""
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        """What is shown now."""
        return self._tmux("capture-pane", "-p").rstrip("\n") + "\n"

    def until(self, *wanted: str, gone: tuple[str, ...] = ()) -> str:
        """Wait until the screen shows all that is wanted and nothing of `gone`; the screen."""
        return self.when(
            lambda screen: all(text in screen for text in wanted) and not any(text in screen for text in gone),
            f"a screen with {wanted} and without {gone}",
        )

    def when(self, fits: Callable[[str], bool], what: str) -> str:
        """Wait until the screen fits; the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if fits(screen):
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} within {PATIENCE} s:\n{screen}")
            time.sleep(LOOK_AGAIN)

    def close(self) -> None:
        """End the program and the terminal."""
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def __repr__(self) -> str:
        return f"<Terminal {self._socket}>"
