"""Limits of texts about JSON schemas: lengths in characters, depths in levels."""

from __future__ import annotations

from typing import Final

MAX_CHOICES: Final = 12
"""The number of values of a choice that are listed."""
MAX_DEFAULT: Final = 40
"""Characters of a default in a signature."""
MAX_TYPE_DEPTH: Final = 6
"""Levels of a schema that the text of its type names."""
MAX_EXAMPLE_DEPTH: Final = 4
"""The depth to which objects are filled in."""
MAX_REFERENCES: Final = 20
"""The number of references that are followed; a schema may contain itself."""
