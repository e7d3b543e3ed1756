"""`rrext help`, and `rrext completion`: the script that lets a shell complete commands, options, files and tools, and the words
that it offers.

No node is set up, no code of `--nodes` is loaded and no server is asked: a key that completes must not run anything.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.cli.main import COMMANDS, main
from rrext.cli.main import add_arguments as add_command_arguments
from rrext.cli.options import Command
from rrext.columns import printable

if TYPE_CHECKING:
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.pipefile.spec import ComponentSpec
    from rrext.tools.spec import ToolSpec


DESCRIPTION = "Print the script that completes the commands of rrext in a shell."
EXAMPLE = """examples:
  eval "$(rrext completion bash)"                                # in ~/.bashrc
  rrext completion zsh > "${fpath[1]}/_rrext"                    # once
  rrext completion fish > ~/.config/fish/completions/rrext.fish  # once

Tab completes commands, options, .pipe files, tools and their parameters, nodes and providers. It runs nothing of a pipeline.
"""
BASH: Final = r"""_rrext() {
  local current=${COMP_WORDS[COMP_CWORD]} kind= text rest
  COMPREPLY=()
  [[ $current == "=" ]] && current=
  while IFS=$'\t' read -r text rest; do
    if [[ -z $kind ]]; then kind=$text; else COMPREPLY+=("$text"); fi
  done < <("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case $kind in
    pipes) compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current"; compgen -f -X '!*.pipe' -- "$current") ;;
    folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    files|value) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    keys) compopt -o nospace ;;
  esac
}
complete -F _rrext rrext
"""
ZSH: Final = r"""#compdef rrext
_rrext() {
  local -a lines texts
  local kind
  lines=("${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  kind=${lines[1]}
  lines=("${(@)lines[2,-1]}")
  case $kind in
    pipes) _files -g '*.pipe' ;;
    folders) _files -/ ;;
    files) _files ;;
    value) compset -P '*='; _files ;;
    keys) texts=("${(@)lines%%$'\t'*}"); compadd -S '' -a texts ;;
    words) lines=("${(@)lines//:/\\:}"); lines=("${(@)lines/$'\t'/:}"); (( $#lines )) && _describe rrext lines ;;
  esac
}
if [[ $funcstack[1] == _rrext ]]; then _rrext "$@"; else compdef _rrext rrext; fi
"""
FISH: Final = r"""function __rrext_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] completion words $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case pipes
            __fish_complete_suffix .pipe
        case folders
            __fish_complete_directories "$current"
        case files value
            __fish_complete_path (string replace -r '^.*?=' '' -- "$current")
        case '*'
            printf '%s\n' $lines[2..-1]
    end
end
complete -c rrext -f -a '(__rrext_complete)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=(*SCRIPTS, "words"), help="bash, zsh or fish")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script, or for `words` what may follow: the kind, then a word and its description per line."""
    if args.shell in SCRIPTS:
        print(SCRIPTS[args.shell], end="")
        return 0

    found = following(args.words)
    print(found.kind, *("\t".join(word) for word in found.words), sep="\n")
    return 0


COMPLETION = Command(DESCRIPTION, EXAMPLE, add_arguments, run)


_PLAIN: Final = re.compile(r"[\w.@%+:,/=-]+")
"""Words that mean themselves in every shell. Others are not offered: an id in a file must not become a command."""

FILES: Final = ("FILE", "PATH", "FILE.sql", "FILE.py|MODULE", "JSON|@FILE|-")


class Following(msgspec.Struct, frozen=True):
    """The words that may follow, with a description each.

    `kind` is `words`, or what the shell itself completes: `pipes`, `files`, `folders`; `keys` are words that end in `=`, and
    `value` is the file behind such a key.
    """

    kind: str
    words: tuple[tuple[str, str], ...] = ()


def following(words: Sequence[str]) -> Following:
    """The words that complete the last word; its letters are the beginning of each."""
    *before, current = words or [""]
    if not before:
        return _fitting(current, [*COMMANDS.items(), ("--help", "show this help"), ("--version", "show the version")])
    if before[0] not in COMMANDS:
        return Following("words")
    line = _CommandLine(before)
    if line.awaiting is not None:
        return _of_argument(line.awaiting, line, current)
    if current.startswith("-"):
        return _fitting(current, line.options())
    place = line.place()
    return Following("words") if place is None else _of_argument(place, line, current)


class _CommandLine:
    """The words before the one that is completed: the command, its arguments, and the option that awaits a value."""

    def __init__(self, words: Sequence[str]) -> None:
        parser = argparse.ArgumentParser()
        add_command_arguments(parser, words[0], words)
        self._actions = parser._actions  # pyright: ignore[reportPrivateUsage] – argparse has no other list
        self._given: set[str] = set()
        self.arguments: list[str] = []
        self.values: dict[str, list[str]] = {}
        """The values of options that stand in a word of their own."""
        self.awaiting: argparse.Action | None = None
        by_option = {name: action for action in self._actions for name in action.option_strings}
        for word in words[1:]:
            if self.awaiting is not None:
                self.values.setdefault(self.awaiting.option_strings[-1], []).append(word)
                self.awaiting = None
            elif word.startswith("-") and word != "-":
                name, _, value = word.partition("=")
                self._given.add(name)
                action = by_option.get(name)
                self.awaiting = action if action is not None and action.nargs is None and not value else None
            else:
                self.arguments.append(word)

    def options(self) -> Iterator[tuple[str, str]]:
        """The options that may follow, by their long names."""
        for action in self._actions:
            again = isinstance(action, argparse._AppendAction)  # pyright: ignore[reportPrivateUsage]
            if action.option_strings and (again or not self._given & set(action.option_strings)):
                yield action.option_strings[-1], (action.help or "").replace("%(default)s", str(action.default))

    def place(self) -> argparse.Action | None:
        """The argument whose turn it is."""
        places = [action for action in self._actions if not action.option_strings]
        index = len(self.arguments)
        if index < len(places):
            return places[index]
        return places[-1] if places and places[-1].nargs in ("*", "+") else None


def _of_argument(action: argparse.Action, line: _CommandLine, current: str) -> Following:
    if action.choices is not None:
        return _fitting(current, ((str(choice), "") for choice in action.choices))
    match action.metavar:
        case "FILE.pipe":
            return Following("pipes")
        case "DIR":
            return Following("folders")
        case "TOOL":
            return _fitting(current, ((name, _summary(spec)) for name, spec in _tools(line)))
        case "KEY=VALUE|JSON":
            return _of_tool_input(line, current)
        case "ID":
            return _fitting(current, ((draft.id, draft.provider) for draft in _components(line) if draft.id))
        case "COMMAND":
            return _fitting(current, COMMANDS.items())
        case "NAME" if action.dest == "name":
            return _fitting(current, ((name, "") for name in _providers()))
        case "NAME" if action.dest == "env":
            return _fitting(current, ((name, "") for name in sorted(os.environ)))
    return Following("files" if action.metavar in FILES else "words")


def _of_tool_input(line: _CommandLine, current: str) -> Following:
    arguments = line.arguments
    if "=" in current or arguments[-1] == "=":  # bash cuts words at `=`
        return Following("value" if "=" in current else "files")
    schema: dict[str, Any] = next(
        (spec.describe(None)["inputSchema"] for name, spec in _tools(line) if name == arguments[1]), {}
    )
    properties = schema.get("properties", {}).items()
    found = _fitting(current, ((f"{key}=", part.get("description", "")) for key, part in properties if isinstance(part, dict)))
    return Following("keys", found.words)


def _fitting(current: str, words: Iterable[tuple[str, str]]) -> Following:
    offered = ((word, text) for word, text in words if word.startswith(current) and _PLAIN.fullmatch(word))
    return Following("words", tuple((word, printable(" ".join(text.split()))) for word, text in offered))


def _pipeline(line: _CommandLine) -> LoadedPipeline | None:
    """The pipeline that is named first, as far as it can be read, without the nodes that cannot be loaded here."""
    from rrext.limits import DEFAULTS
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.pipeline_loader import load_pipeline

    path = line.arguments[0] if line.arguments else ""
    if not os.path.isfile(path):  # reading a pipe or a terminal would wait
        return None
    try:
        with open(path, "rb") as file:
            text = file.read(DEFAULTS.max_pipeline)
    except OSError:
        return None
    return load_pipeline(text, Catalog(), Environment.of_process(line.values.get("--env", ())), partial=True)


def _components(line: _CommandLine) -> Sequence[ComponentSpec]:
    loaded = _pipeline(line)
    return () if loaded is None else loaded.outline.components


def _tools(line: _CommandLine) -> Iterator[tuple[str, ToolSpec]]:
    """The tools that `rrext tools` lists, as far as that is known without a setup, and with parameters that are."""
    from rrext.engine.tasks.component import components_of, references_of
    from rrext.engine.tasks.routes import RouteTable, by_settings

    loaded, node_id = _pipeline(line), line.values.get("--node")
    if loaded is None or loaded.spec is None:
        return
    components = components_of(loaded, directory="", confined=False, partial=True)
    seen: set[str] = set()
    for route in RouteTable(components.values(), references_of(loaded.spec, components, remote=False)):
        component, spec = route.component, route.spec
        is_known = spec.static and not component.missing and component.node_class.unavailable() is None
        if is_known and by_settings(component, spec) and node_id in (None, [route.node_id]) and spec.name not in seen:
            seen.add(spec.name)
            yield spec.name, spec


def _summary(spec: ToolSpec) -> str:
    return str(spec.describe(None).get("description") or "").partition("\n")[0]


def _providers() -> tuple[str, ...]:
    from rrext.pipefile.catalog.catalog import Catalog

    return Catalog().names()


HELP_DESCRIPTION = "Show the help of a command, or of all."
HELP_EXAMPLE = "example:\n  rrext help tool\n"


def add_help_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rrext help`."""
    parser.add_argument("name", nargs="?", metavar="COMMAND", help="a command")


def show_help(args: argparse.Namespace) -> int:
    """Show the help; returns the exit code."""
    return main(["--help"] if args.name is None else [args.name, "--help"])


HELP = Command(HELP_DESCRIPTION, HELP_EXAMPLE, add_help_arguments, show_help)
