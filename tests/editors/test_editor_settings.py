"""Settings of editors that cannot be had here: at least they can be read, and start what there is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from editor_settings import PAGE, settings

from rrext.cli.commands.servers.lsp import SETTINGS
from rrext.cli.main import COMMANDS


def test_helix_can_read_its_settings() -> None:
    found = tomllib.loads(settings("Helix"))
    server = found["language-server"]["rrext"]
    (language,) = found["language"]
    assert language["language-servers"] == ["rrext"]
    assert language["file-types"] == ["pipe"]
    begins(server["command"], server["args"], server["config"])


def test_vs_code_can_read_its_settings() -> None:
    found = json.loads(settings("VS Code"))
    assert found["glspc.server.languageId"] == [found["files.associations"]["*.pipe"]]
    server = "glspc.server."
    begins(found[f"{server}command"], found[f"{server}commandArguments"], found[f"{server}initializationOptions"])


def test_zed_can_read_its_settings() -> None:
    found = json.loads(settings("Zed"))
    (server,) = found["lsp"].values()
    begins(server["binary"]["path"], server["binary"]["arguments"], server["initialization_options"])


def test_the_command_names_the_page_that_has_them() -> None:
    assert Path(SETTINGS).samefile(PAGE)


def begins(command: str, arguments: list[str], options: dict[str, object]) -> None:
    """The command exists, and the server knows the options."""
    from rrext.faces.lsp.options import Options, options_from

    assert command == "rrext"
    assert arguments[0] in COMMANDS
    taken, complaints = options_from({"initializationOptions": options}, Options())
    assert not complaints
    assert taken.trusted
