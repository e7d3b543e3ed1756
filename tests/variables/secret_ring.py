"""A keyring whose one password is in a file."""

from __future__ import annotations

import os
from pathlib import Path

from keyring.backends.null import Keyring


class Ring(Keyring):
    """Knows the password of `rrext/me`."""

    def get_password(self, service: str, username: str) -> str | None:
        return Path(os.environ["RING"]).read_text() if (service, username) == ("rrext", "me") else None
