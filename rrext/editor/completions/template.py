"""Templates of inserted text: fixed pieces, and stops at which a person continues typing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec


class Stop(msgspec.Struct, frozen=True):
    """A stop with its initial text; with `choices`, the first of them."""

    text: str = ""
    choices: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """The initial text."""
        return self.choices[0] if self.choices else self.text


Wrapping: TypeAlias = Literal["braces", "lines", "none"]
"""The text around the members of an object: braces with line breaks, line breaks alone, or none."""

Template: TypeAlias = tuple[str | Stop, ...]
"""Pieces in order. Each tab after a line break in a piece stands for one level of indentation."""


class Indent(msgspec.Struct, frozen=True):
    """The indentation of the lines after the first: `margin`, and `unit` for each level."""

    margin: str = ""
    unit: str = "  "

    def laid(self, piece: str) -> str:
        """A piece with indented lines."""
        return re.sub(r"\n(\t*)", self._start, piece) if "\n" in piece else piece

    def _start(self, match: re.Match[str]) -> str:
        return f"\n{self.margin}{self.unit * len(match[1])}"


_SPECIAL: Final = "\\$"  # the backslash first, as the others get one
_SPECIAL_IN_STOP: Final = "\\$}"
_SPECIAL_IN_CHOICE: Final = "\\$},|"


def as_plain(template: Template, indent: Indent) -> str:
    """The template as text, with the initial text of every stop."""
    return "".join(indent.laid(piece if isinstance(piece, str) else piece.first) for piece in template)


def as_snippet(template: Template, indent: Indent) -> str:
    """The template in the snippet syntax of the Language Server Protocol."""
    pieces: list[str] = []
    number = 0
    for piece in template:
        if isinstance(piece, str):
            pieces.append(_escaped(indent.laid(piece), _SPECIAL))
            continue
        number += 1
        if len(piece.choices) > 1:
            choices = ",".join(_escaped(choice, _SPECIAL_IN_CHOICE) for choice in piece.choices)
            pieces.append(f"${{{number}|{choices}|}}")
        else:
            text = _escaped(indent.laid(piece.first), _SPECIAL_IN_STOP)
            pieces.append(f"${{{number}:{text}}}" if text else f"${{{number}}}")
    return "".join(pieces)


def _escaped(text: str, signs: str) -> str:
    for sign in signs:
        text = text.replace(sign, f"\\{sign}")
    return text


def has_stops(template: Template) -> bool:
    """Whether a template has stops."""
    return any(isinstance(piece, Stop) for piece in template)


def joined(templates: Iterable[Template], between: str) -> Template:
    """Templates one after the other, with `between` between them."""
    pieces: list[str | Stop] = []
    for template in templates:
        if pieces:
            pieces.append(between)
        pieces.extend(template)
    return tuple(pieces)


def deeper(template: Template, levels: int) -> Template:
    """A template with more indentation after its first line."""
    tabs = "\t" * levels
    return tuple(piece.replace("\n", f"\n{tabs}") if isinstance(piece, str) else piece for piece in template)


def block(members: Iterable[Template], wrapping: Wrapping) -> Template:
    """The members of an object, one per line, inside `wrapping`."""
    if wrapping == "none":
        return joined(members, ",\n")
    inner = deeper(joined(members, ",\n"), 1)
    return ("{\n\t", *inner, "\n}") if wrapping == "braces" else ("\n\t", *inner, "\n")


def literal(value: Any) -> str:
    """A value as JSON; `null` for a value that JSON cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "null"


def inside_quotes(text: str) -> str:
    """A text in JSON, without its quotes."""
    return literal(text)[1:-1]
