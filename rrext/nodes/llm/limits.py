"""Limits of questions to language models."""

from __future__ import annotations

from typing import Final

# bound_model.py
MAX_QUESTION: Final = 16_000
"""Characters of a question; longer texts are documents, not questions."""
DATA_ROWS: Final = 250
"""Rows of `get_data` unless the caller gives a limit, as in RocketRide's nodes."""

# replies.py
REPLY_KEPT: Final = 4000
"""Characters of a cut answer that its failure repeats, so that a person sees how far the model came."""
