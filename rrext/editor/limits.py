"""Limits of the analysis of pipeline files in an editor: lengths in characters, depths in levels."""

from __future__ import annotations

from typing import Final

# documents
MAX_CALL_LINES: Final = 1000
"""Call lines of one document that are read; nobody writes more."""
MAX_STYLE_CONTAINERS: Final = 300
"""The number of objects and lists that are examined; authors write consistently."""
MARK_STEP: Final = 512
"""Characters. In a longer line, the units before every so many characters are counted once and kept."""

FORMAT_WIDTH: Final = 120
"""Columns of a line up to which a formatted list or object stays on it; components of one line have about a hundred."""

# completions
MAX_OFFERS: Final = 200
"""The number of offers that are listed; of more, those that match the typed text."""
STYLE_COMPONENTS: Final = 10
"""The number of components from which the style of a document is derived."""
MIN_PARSED_REST: Final = 10_000
"""The number of characters after the gap that are always parsed."""
MAX_LISTED_FILES: Final = 2000
"""Entries of a folder that are read for offers; with more, typing on helps nobody."""
MAX_DETAIL_VALUE: Final = 40
"""Characters of a value in the detail of an offer."""
MAX_LABEL_VALUE: Final = 60
"""Characters of a value as the label of an offer."""
MAX_TEMPLATE_DEPTH: Final = 3
"""The nesting depth of objects in a template."""
MAX_WALK_TOKENS: Final = 20_000
"""The number of tokens that are read; only a text in which the parser gave up needs more."""

# fixes
MAX_FIXES: Final = 5
"""Fixes of one kind that are offered for a problem; for more, completion is the better choice."""
MAX_VALUE_FIXES: Final = 6
"""Names or values that are offered if none resembles the invalid one."""
MAX_FIX_ROUNDS: Final = 50
"""Rounds of fixing everything; errors behind more rounds are left for the next invocation."""
MAX_NUMBER_LENGTH: Final = 100
"""Characters of a number that a fix rewrites; longer ones are other text."""

# outline
MAX_LENS_VALUE: Final = 40
"""Characters of a path or a question in the title of a lens."""
MAX_OUTLINE_DEPTH: Final = 3
"""Levels of settings in the outline."""
MAX_SYMBOLS: Final = 5000
"""Symbols of one document; more are useless and slow to draw."""

# pages
MAX_PAGE_EDGES: Final = 12
"""The number of edges of one kind that a page lists."""
MAX_JSON_WIDTH: Final = 100
"""Columns of a list or an object that stands in one line."""
MAX_FULL_TOOLS: Final = 8
"""Tools that a page shows in full; of more, only the first sentence is shown, without parameters."""
MAX_PAGE_NAMES: Final = 20
"""Names in a list of a page."""
MAX_CODE: Final = 200
"""Characters of a name or value inside a sentence."""
MAX_BLOCK: Final = 4000
"""Characters of a code block; a hover should stay short."""
MAX_PROSE: Final = 4000
"""Characters of a text of a page."""
