"""What all servers of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from pygls.protocol import default_converter

from rrext.faces.lsp import server as server_module


@pytest.fixture(scope="session", autouse=True)
def one_converter() -> Iterator[None]:
    """Servers in this process take one converter: it compiles a function for each type of message, and keeps nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "default_converter", cache(default_converter))
        yield
