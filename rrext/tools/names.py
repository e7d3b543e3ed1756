"""Tool names for models: every provider accepts `[a-zA-Z0-9_-]{1,64}`, and most accept nothing else.

A reference is a tuple of segments, such as `(node, tool)`. Joined by `__` it is a name that splits into the same segments.
Other references (long ones, other characters, `__` inside) get a name that ends in a hash; only the table that gave the name
maps it back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["ExportedNames", "export_name", "import_name"]

SEPARATOR = "__"
_LONGEST = 64
_HASH = 16
# No "_" at either end and no "__" inside, so that the separator is unambiguous.
_SEGMENT = re.compile(r"[a-zA-Z0-9-]+(?:_[a-zA-Z0-9-]+)*")
_HASHED = re.compile(rf".*{SEPARATOR}h[0-9a-f]{{{_HASH}}}")
_OTHER = re.compile(r"[^a-zA-Z0-9-]+")

Reference = tuple[str, ...]


def export_name(reference: Sequence[str]) -> str:
    """The name of a reference, always the same. Raises `ValueError` for a reference without segments."""
    if not reference:
        raise ValueError("a reference has at least one segment")
    name = SEPARATOR.join(reference)
    if len(name) <= _LONGEST and all(map(_SEGMENT.fullmatch, reference)) and not _HASHED.fullmatch(name):
        return name
    # Each segment with its length: no two references look the same to the hash.
    told = "".join(f"{len(segment)}:{segment}" for segment in reference)
    digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    readable = _OTHER.sub("_", name).strip("_")[: _LONGEST - _HASH - len(SEPARATOR) - 1].strip("_") or "tool"
    return f"{readable}{SEPARATOR}h{digest}"


def import_name(name: str, known: Mapping[str, Reference] | None = None) -> Reference:
    """The reference of a name. Raises `KeyError` for a hashed name that is not in `known`, and for an impossible name."""
    if known is not None and name in known:
        return known[name]
    reference = tuple(name.split(SEPARATOR))
    if export_name(reference) != name:
        raise KeyError(name)
    return reference


class ExportedNames(Mapping[str, Reference]):
    """A two-way table of references and their names."""

    __slots__ = ("_references",)

    def __init__(self, references: Iterable[Sequence[str]] = ()) -> None:
        self._references: dict[str, Reference] = {}
        for reference in references:
            self.add(reference)

    def add(self, reference: Sequence[str]) -> str:
        """Add a reference and return its name. Raises `ValueError` if another reference has the name: a collision of hashes."""
        name = export_name(reference)
        if self._references.setdefault(name, tuple(reference)) != tuple(reference):
            raise ValueError(f'"{name}" stands for {self._references[name]} and for {tuple(reference)}')
        return name

    def __getitem__(self, name: str) -> Reference:
        return self._references[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._references)

    def __len__(self) -> int:
        return len(self._references)

    def __repr__(self) -> str:
        return f"<ExportedNames {', '.join(self._references) or 'none'}>"
