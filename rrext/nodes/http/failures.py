"""`ServerName`: the name of a model server in failures, whose codes begin with `model`, see `rrext.http.failures`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from rrext.secrets.redaction import Redactor


class ServerName(msgspec.Struct, frozen=True):
    """The node and the address of its server, for failures; and the key, which no text may show."""

    node_id: str
    address: str
    secret: str = ""
    family: ClassVar[str] = "model"
    hints: ClassVar[Mapping[str, str]] = {
        "unauthorized": 'Check "apikey" in the settings of the node.',
        "not_found": "Check the address and the model in the settings of the node.",
        "rate_limited": "Ask less often, or see what the account of this key may use.",
        "unreachable": "Check that the server runs and that the address in the settings of the node is right.",
        "redirected": "Put the address that the server really has into the settings of the node.",
        "bad_answer": (
            "Check that the address in the settings is that of an OpenAI-compatible API, most often with /v1 at its end."
        ),
    }

    def hide(self, text: str) -> str:
        """The text without the key, in whatever spelling the server repeats it."""
        redactor = Redactor()
        redactor.learn("apikey", self.secret)
        return redactor.text(text)

    def __str__(self) -> str:
        return f'Model server {self.address} of node "{self.node_id}"'

    def __repr__(self) -> str:
        return f"<ServerName {self.node_id} {self.address}>"
