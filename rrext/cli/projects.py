"""The project of a command: its settings as the defaults of the options, and its pipeline in the place of FILE.pipe."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from rrext.cli.options import OF_PORT, add_project_options
from rrext.errors import UsageError, near_matches
from rrext.project import Project, absolute, find_project, invalid, named_project

NEXT: Final = {"tool": "tool", "tools": "", "sql": "words", "send": "paths", "chat": "question", "show": "", "space": "words"}
"""Command with a FILE.pipe that a project may name → the argument behind it, if there is one."""

Make = Callable[[dict[str, Any]], argparse.ArgumentParser]
"""Makes the parser of a command with other defaults; a `file` among them stands for FILE.pipe."""


def parse(words: Sequence[str], make: Make) -> argparse.Namespace:
    """The arguments of a command, with those of a project if it takes one. Raises `UsageError`."""
    if not {"-h", "--help"}.isdisjoint(words):
        return make({}).parse_args(words)
    if words[0] in NEXT and (args := _without_file(words, make)) is not None:
        return args
    args = make({}).parse_args(words)
    project = None if words[0] == "lsp" and args.project is None else _project_of(args)  # editors have folders of their own
    if project is None:
        return args
    if words[0] == "serve" and project.allowed.serve:
        args = make(_serve_defaults(project, args)).parse_args(words)
    return _filled(args, project)


def _without_file(words: Sequence[str], make: Make) -> argparse.Namespace | None:
    """The arguments of a command whose words name no pipeline, where a project does; else None."""
    early = argparse.ArgumentParser(f"rrext {words[0]}", add_help=False, allow_abbrev=False)
    add_project_options(early)
    given, _ = early.parse_known_args(words)
    project = None if given.no_project else _project_at(None, given.project)
    if project is None or project.settings.pipeline is None:
        return None
    parser = make({"file": _shown(project.settings.pipeline)})
    args, rest = parser.parse_known_args(words)
    first = getattr(args, NEXT[words[0]] or "-", None) or [word for word in rest if word == "-" or not word.startswith("-")]
    first = first if isinstance(first, str) else next(iter(first), None)
    if first is not None and _is_pipeline(first, words[0]):
        return None
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if project.allowed.pipeline is None:
        raise UsageError(_no_default(project))
    return _filled(args, project)


def _no_default(project: Project) -> str:
    """Why the pipeline of a project is not used without its name."""
    text = f"name a pipeline: that of {project.path} is used without its name only after `rrext trust`"
    return text if project.trust == "unknown" else f"{text}, as the file has changed"


def _is_pipeline(word: str, command: str) -> bool:
    """Whether the first word of a command is its FILE.pipe. Files to `send` are none, those that `sql` asks stand for one."""
    if command == "sql":
        from rrext.cli.data_files import names_data

        if names_data(word):
            return True
    return not NEXT[command] or word.endswith(".pipe") or (command != "send" and os.path.isfile(word))


def _project_of(args: argparse.Namespace) -> Project | None:
    """The project of the pipelines that are named, or of the current folder."""
    if getattr(args, "no_project", True):  # also of a command that has no such option
        return None
    files = [args.file] if getattr(args, "file", None) else getattr(args, "files", [])
    folders = dict.fromkeys(os.path.dirname(os.path.abspath(file)) for file in files if file != "-")
    found = {None if project is None else project.path: project for project in map(_project_for(args), folders or [None])}
    if len(found) > 1:
        raise UsageError("the pipelines are of different projects: name one with --project, or none with --no-project")
    (project,) = found.values()
    if project is not None and project.notice is not None:
        print(f"rrext: {project.notice}", file=sys.stderr)
    return project


def _project_for(args: argparse.Namespace) -> Callable[[str | None], Project | None]:
    return lambda folder: _project_at(folder, args.project)


def _project_at(folder: str | None, named: str | None) -> Project | None:
    if named is not None:
        return named_project(named)
    try:
        return find_project(os.getcwd() if folder is None else folder)
    except FileNotFoundError:  # the current folder is gone
        return None


def _filled(args: argparse.Namespace, project: Project) -> argparse.Namespace:
    """The arguments, with the settings of the project where no option was given."""
    settings = project.allowed
    if settings != project.settings:
        args.ignored = project.path if project.settings.nodes or project.settings.env else ""
        args.no_default = None if project.settings.pipeline is None else _no_default(project)
    vars(args).update(settings.over(vars(args)))
    args.is_default = settings.pipeline is not None and getattr(args, "files", "") == [] and not getattr(args, "parent", None)
    if settings.pipeline is not None and args.is_default:
        args.files = [_shown(settings.pipeline)]
    return args


def _shown(path: str) -> str:
    """A path as a user would write it here."""
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _serve_defaults(project: Project, args: argparse.Namespace) -> dict[str, Any]:
    """The defaults that the table `serve` gives options of `rrext serve`, by their names in the arguments.

    A server whose pipelines or address are named, or that a program starts, listens where its options say, or on stdin.
    """
    found = serve_values(project)
    if args.files or args.parent or args.listen or args.ws:
        for name in ("listen", "ws", "stdio"):
            found.pop(name, None)
    if not (args.ws or found.get("ws")):
        for name in OF_PORT:
            found.pop(name, None)
    return {name: value for name, value in found.items() if not (isinstance(value, list) and getattr(args, name))}


def serve_values(project: Project) -> dict[str, Any]:
    """The values of the table `serve`, as the options of these names have them. Raises `UsageError` with all problems."""
    from rrext.cli.main import add_arguments

    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser, "serve", ())
    known = parser._option_string_actions  # pyright: ignore[reportPrivateUsage] – argparse has no other list
    others = (
        "--project",
        "--no-project",
        "--no-audit",
        "--parent",
        "--nodes",
        "--env",
        "--connections",
        "--root",
        "--python-package",
    )
    actions = {option[2:]: action for option, action in known.items() if option not in others}
    values: dict[str, Any] = {}
    faults: list[tuple[tuple[str, ...], str]] = []
    for name, value in project.settings.serve.items():
        if name not in actions:
            near = near_matches(name, actions)
            meant = f'did you mean "{near[0]}"?' if near else "`rrext serve --help` lists the options"
            faults.append((("serve", name), f"there is no such option; {meant}"))
            continue
        try:
            values[actions[name].dest] = _value_of(actions[name], value, project.folder)
        except (argparse.ArgumentTypeError, UsageError) as error:
            faults.append((("serve", name), str(error)))
    if faults:
        raise invalid(project.path, project.text, faults)
    return values


def _value_of(action: argparse.Action, value: Any, folder: str) -> Any:
    """The value of an option, from that of a file in a folder."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UsageError("expected true or false")
        return value
    if isinstance(action, argparse._AppendAction):  # pyright: ignore[reportPrivateUsage]
        values = value if isinstance(value, list) else [value]
        return [_text_value(action, each, folder) for each in values]
    return _text_value(action, value, folder)


def _text_value(action: argparse.Action, value: Any, folder: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError("expected a text or a number")
    text = str(value)
    if action.choices is not None and text not in action.choices:
        raise UsageError(f"expected one of {', '.join(action.choices)}")
    if action.metavar in ("FILE", "DIR"):
        return absolute(text, folder)
    if text.startswith("unix:"):
        return f"unix:{absolute(text.removeprefix('unix:'), folder)}"
    return action.type(text) if callable(action.type) else text
