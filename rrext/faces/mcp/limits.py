"""Constants of the Model Context Protocol's face."""

from __future__ import annotations

from typing import Final

PAGE_SIZE: Final = 250
"""Tools in one answer to `tools/list`. Hosts show a model a tenth of that; a page stays far below the size of a frame."""

TTL: Final = 60.0
"""Seconds for which a client may keep the list of tools. Loaded pipelines stay, but tools can become unavailable."""

# http_app.py
MAX_SESSIONS: Final = 1000
"""Sessions of the handshake era over HTTP; each has a few tasks, and ends after half an hour without a request."""
MAX_SUBSCRIPTIONS: Final = 1000
"""Open `subscriptions/listen` over HTTP."""

# host_offers.py
MAX_DESCRIPTION: Final = 200
"""Characters of a prompt's instructions that describe it; a host shows a line or two."""

# questions.py
MAX_SHOWN_ARGUMENTS: Final = 4000
"""Characters of the arguments of a call in the question for a permit; more fit no window in which a person decides."""
MAX_SUSPENDED: Final = 256
"""Calls of a user that wait for the host to come again with answers; a person is asked few things at once."""

# progress.py
MAX_WAITING_PROGRESS: Final = 64
"""Reports of a call that wait for a client that reads slowly; earlier ones are dropped."""
