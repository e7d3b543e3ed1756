"""`Glob`: a pattern for names and paths, compiled by RE2."""

from __future__ import annotations

import re
from typing import Final

from rrext.errors import InvalidArguments
from rrext.nodes.text_search.pattern import reason_of
from rrext.nodes.text_search.trigrams import folded

LONGEST_GLOB: Final = 1000
"""Characters of a glob; paths have fewer."""


class Glob:
    """A glob: `*` and `?` stay within a name, `**` crosses folders, `[a-z]` and `{a,b}` mean what they mean in shells.

    Without `/` it is about the name, with it about the whole path. Case does not count.
    """

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidArguments` for a pattern that is none."""
        text = pattern.strip()
        if not text or len(text) > LONGEST_GLOB:
            raise InvalidArguments.at("/input/pattern", f"expected a glob of 1 to {LONGEST_GLOB:,} characters")
        self.is_path = "/" in text
        self.literals: list[str] = []
        import re2

        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled = re2.compile(self._regex(folded(text).lstrip("/")), options)
        except re2.error as error:
            raise InvalidArguments.at("/input/pattern", f"is no glob: {reason_of(error)}") from None
        except UnicodeEncodeError:
            raise InvalidArguments.at("/input/pattern", "holds half of a surrogate pair, which is no text") from None

    @property
    def extension(self) -> str | None:
        """The extension that a name needs, if the pattern says nothing else."""
        return self._extension

    def fits(self, path: str, name: str) -> bool:
        """Whether a path fits, or its name."""
        return self._compiled.fullmatch(folded(path if self.is_path else name)) is not None

    def _regex(self, text: str) -> str:
        plain = re.fullmatch(r"\*\.([a-z0-9]+)", text)
        self._extension = plain[1] if plain else None
        parts: list[str] = []
        literal = ""
        depth = at = 0
        while at < len(text):
            one = text[at]
            two = text[at : at + 2]
            if one in "*?[{,}" and (one not in ",}" or depth):
                self._add(literal, depth)
                literal = ""
            if two == "**":
                at += 2
                if text[at : at + 1] == "/":
                    at += 1
                    parts.append("(?:[^/]+/)*")
                else:
                    parts.append(".*")
                continue
            if one == "*":
                parts.append("[^/]*")
            elif one == "?":
                parts.append("[^/]")
            elif one == "[" and (end := text.find("]", at + 2)) > 0:
                inside = text[at + 1 : end]
                negated = inside[:1] in ("!", "^")
                body = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[1:] if negated else inside)
                parts.append(f"[{'^/' if negated else ''}{body}]")
                at = end
            elif one == "{":
                depth += 1
                parts.append("(?:")
            elif one == "," and depth:
                parts.append("|")
            elif one == "}" and depth:
                depth -= 1
                parts.append(")")
            else:
                literal += one
                parts.append(re.escape(one))
            at += 1
        self._add(literal, depth)
        if depth:
            raise InvalidArguments.at("/input/pattern", 'is no glob: a "{" has no "}"')
        return f"(?s){''.join(parts)}"

    def _add(self, literal: str, depth: int) -> None:
        if literal and not depth:
            self.literals.append(literal)
