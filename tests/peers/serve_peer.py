"""Starts the server on peer.pipe: one file, because some peers can only spawn `runtime FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parents[1])  # rrext as it stands here, also when it is not installed

from rrext.cli.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["serve", "--nodes", str(HERE / "peer_nodes.py"), str(HERE / "peer.pipe")]))
