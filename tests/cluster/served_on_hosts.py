"""`rrext`, whose tasks run on hosts that are its child processes: run as a program."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))


import msgspec


def main() -> None:
    from plain_hosts import plain_links

    from rrext.cli import start
    from rrext.tasks import task_engine

    class ServedEngine(task_engine.TaskEngine):
        """An engine with such tasks."""

        def __init__(self, **options: Any) -> None:
            settings = msgspec.structs.replace(options.pop("settings"), shares_root=True)  # they all have this machine's files
            super().__init__(**options, settings=settings, links=plain_links(settings))  # type: ignore[arg-type]

    # What a file of nodes imports is installed on each node: a cluster gets the file alone.
    folders = [str(Path(name).resolve().parent) for option, name in itertools.pairwise(sys.argv) if option == "--nodes"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    task_engine.TaskEngine = ServedEngine  # type: ignore[misc]
    start()


if __name__ == "__main__":
    main()
