"""Measures of a text: characters, tokens of a tokenizer, or estimated tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONGEST: Final = 200_000
"""Characters of one piece, whatever its size in tokens: a store takes no more."""
BYTES_PER_TOKEN: Final = 4
"""UTF-8 bytes of an estimated token: what common vocabularies need for English prose, and more than for most else."""
CHARACTERS_PER_TOKEN: Final = 16
"""Characters of text that are looked at for each token of the size. Prose has 4; long runs of blanks have more."""


class Measure(Protocol):
    """A unit of size and its maximum."""

    @property
    def reach(self) -> int: ...

    def fit(self, text: str) -> int:
        """The length of the longest prefix within the size."""
        ...

    def fits(self, text: str) -> bool:
        """Whether the text is within the size."""
        ...

    def tail(self, text: str, overlap: int) -> int:
        """The length of the longest suffix within `overlap` units."""
        ...


class Characters:
    """Sizes in characters, as Python counts them: code points."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.reach = min(size, LONGEST)

    def fit(self, text: str) -> int:
        return min(len(text), self.reach)

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach

    def tail(self, text: str, overlap: int) -> int:
        return min(len(text), overlap)


class EstimatedTokens:
    """Sizes in estimated tokens, for want of a tokenizer: four bytes of UTF-8 each."""

    def __init__(self, size: int) -> None:
        self._bytes = size * BYTES_PER_TOKEN
        self.reach = min(self._bytes, LONGEST)

    def fit(self, text: str) -> int:
        return len(text[: self.reach].encode("utf-8")[: self._bytes].decode("utf-8", "ignore"))

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach and len(text.encode("utf-8")) <= self._bytes

    def tail(self, text: str, overlap: int) -> int:
        count = overlap * BYTES_PER_TOKEN
        if not count:
            return 0
        return len(text[-count:].encode("utf-8")[-count:].decode("utf-8", "ignore"))


class Tokens:
    """Sizes in tokens of a tokenizer, without the special ones that a model adds to each text."""

    def __init__(self, size: int, tokenizer: Tokenizer) -> None:
        self._size = size
        self._tokenizer = tokenizer
        self.reach = min(size * CHARACTERS_PER_TOKEN, LONGEST)

    def fit(self, text: str) -> int:
        text = text[: self.reach]
        starts = self._starts(text)
        return len(text) if len(starts) <= self._size else max(starts[self._size], 1)

    def fits(self, text: str) -> bool:
        return len(text) <= self.reach and len(self._starts(text)) <= self._size

    def tail(self, text: str, overlap: int) -> int:
        if not overlap:
            return 0
        text = text[-overlap * CHARACTERS_PER_TOKEN :]
        starts = self._starts(text)
        return len(text) if len(starts) <= overlap else len(text) - starts[-overlap]

    def _starts(self, text: str) -> list[int]:
        """The start of each token."""
        return [start for start, _ in self._tokenizer.encode(text, add_special_tokens=False).offsets]
