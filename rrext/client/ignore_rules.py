"""The rules of gitignore: which files of a folder an upload leaves out.

A rule is asked about each file and folder on the way down, and answers for that path alone, as git does: `build/**` with
`!build/keep.txt` keeps that file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from rrext.errors import UsageError

IGNORE_FILE: Final = ".rrextignore"
BLANK: Final = re.compile(r"((?:\\.|[^\\])*?) *", re.DOTALL)
"""A line, whose last spaces count only behind a backslash."""
PIECE: Final = re.compile(
    r"(?P<folders>(?:^|(?<=/))\*{2,}/)|(?P<all>(?:^|(?<=/))\*{2,}$)|(?P<some>\*+)|(?P<one>\?)"
    r"|\[(?P<but>[!^]?)(?P<of>(?:]|\[:[a-z]+:]|\\.|[^]\\])(?:\[:[a-z]+:]|\\.|[^]\\])*)]|\\(?P<quoted>.)|(?P<plain>[^\\[])",
    re.DOTALL,
)
"""A piece of a pattern. `**` is any number of folders only between slashes."""
OF_SET: Final = re.compile(r"\[:([a-z]+):]|\\(.)|(?<=.)(-)(?=.)|(.)", re.DOTALL)
"""A piece of what stands in brackets: a named class, a character, or the dash of a range."""
CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\0-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class Rule(msgspec.Struct, frozen=True):
    """One rule: what fits is left out, or else not left out after all."""

    is_out: bool
    only_folders: bool
    path: re.Pattern[str]


class IgnoreRules(msgspec.Struct, frozen=True):
    """The rules for what is left out of an upload: the caller's, and those of folders, deepest first.

    Of the rules that fit a path the last one counts, the caller's before those of folders, a folder's before those of the
    folders above. What is in a folder that is left out is left out too.
    """

    always: Sequence[Rule]
    folders: tuple[tuple[str, Sequence[Rule]], ...] = ()

    def inside(self, folder: str, below: str) -> IgnoreRules:
        """These rules with those of a folder's own file; `below` is its path below the one that is sent.

        Raises `UsageError`.
        """
        path = os.path.join(folder, IGNORE_FILE)
        try:
            # What is no regular file must not make the upload wait.
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                text = os.fsdecode(file.read()).removeprefix("\ufeff")
        except (FileNotFoundError, IsADirectoryError):
            return self
        except OSError as error:
            raise UsageError(f"{IGNORE_FILE}: {error.strerror or error}") from None
        return IgnoreRules(self.always, ((below, rules_of(text.split("\n"), IGNORE_FILE)), *self.folders))

    def has(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a path below the folder that is sent is left out."""
        if os.path.basename(path) == IGNORE_FILE and not is_folder:
            return True
        for folder, rules in (("", self.always), *self.folders):
            below = path[len(folder) + 1 :] if folder else path
            for rule in reversed(rules):
                if (is_folder or not rule.only_folders) and rule.path.fullmatch(below):
                    return rule.is_out
        return False


def rules_of(lines: Sequence[str], origin: str) -> list[Rule]:
    """The rules of some lines. Raises `UsageError` that names their origin."""
    rules: list[Rule] = []
    for line in lines:
        line = line.removesuffix("\r")
        if not line.strip(" ") or line.startswith("#"):
            continue
        try:
            rules.append(_rule(line))
        except (LookupError, ValueError, re.error):
            raise UsageError(f"{origin}: {line!r} is no rule of gitignore") from None
    return rules


def _rule(line: str) -> Rule:
    """The rule of a line. Raises `LookupError`, `ValueError` and `re.error`."""
    found = BLANK.fullmatch(line)
    whole = found[1].removeprefix("!") if found else ""
    if not whole:
        raise ValueError
    pattern = whole.removesuffix("/")
    pieces = ["" if "/" in pattern else "(?:.*/)?"]  # a pattern without a slash means names in all folders
    pattern, place = pattern.removeprefix("/"), 0
    while place < len(pattern):
        piece = PIECE.match(pattern, place)
        if piece is None:
            raise ValueError
        pieces.append(_regex(piece))
        place = piece.end()
    return Rule(not line.startswith("!"), whole.endswith("/"), re.compile("".join(pieces), re.DOTALL))


def _regex(piece: re.Match[str]) -> str:
    kind = piece.lastgroup
    fixed = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}.get(kind or "")
    if fixed is not None:
        return fixed
    if kind == "of":
        return f"(?!/)[{'^' if piece['but'] else ''}{OF_SET.sub(_of_set, piece['of'])}]"
    return re.escape(piece["quoted"] or piece["plain"])


def _of_set(piece: re.Match[str]) -> str:
    name, quoted, dash, plain = piece.groups()
    return CLASSES[name] if name else dash or re.escape(quoted or plain)
