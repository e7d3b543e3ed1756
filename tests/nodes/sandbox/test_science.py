"""numpy, pandas and matplotlib as they are published, in a sandbox: they compute, know time zones, and draw."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guests import Guests

from rrext.nodes.sandbox.engine import SandboxEngine
from rrext.nodes.sandbox.node import Sandbox
from rrext.nodes.sandbox.packages import OfferedPackages

pytestmark = pytest.mark.system

PACKAGES = ("numpy", "pandas", "matplotlib")


@pytest.fixture(scope="module")
def science(engine: SandboxEngine) -> Iterator[Guests]:
    """Programs with the packages of another environment of the same Python."""
    if "RREXT_SCIENCE" not in os.environ:
        pytest.skip("set RREXT_SCIENCE to a Python that has numpy, pandas and matplotlib")
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = Path(os.environ["RREXT_SCIENCE"]).parents[1] / "lib" / library / "site-packages"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        sandbox = Sandbox(OfferedPackages(PACKAGES).grant(PACKAGES), engine.name)
    yield Guests(sandbox)
    sandbox.close()


def test_linear_algebra_needs_one_thread(science: Guests) -> None:
    code = """
        import numpy as np
        inverse = np.linalg.inv(np.eye(400) * 2)
        result = [inverse.trace(), np.arange(3), float(np.ones((400, 400)).dot(inverse).sum()), np.__version__ > "2"]
        """
    assert science.result(code, threads=0) == [200.0, [0, 1, 2], 80000.0, True]


def test_tables_are_read_grouped_and_moved_between_time_zones(science: Guests) -> None:
    code = """
        import io, pandas as pd
        table = pd.read_csv(io.StringIO("at,city,n\\n2026-03-29 00:30,a,1\\n2026-03-29 01:30,a,2\\n,b,5"), parse_dates=["at"])
        local = table["at"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
        result = [table.groupby("city")["n"].sum().to_dict(), str(local[1] - local[0]), local[1].hour, int(local.isna().sum())]
        """
    assert science.result(code, timeout=30.0) == [{"a": 3, "b": 5}, "0 days 01:00:00", 3, 1]


def test_a_picture_is_drawn_and_handed_back_as_text(science: Guests) -> None:
    code = """
        import base64, io
        import matplotlib.pyplot as plt, pandas as pd
        pd.Series([1, 3, 2], name="Überschrift").plot(legend=True, title="$x^2$")
        file = io.BytesIO()
        plt.savefig(file)
        result = base64.b64encode(file.getvalue()).decode()
        """
    assert base64.b64decode(science.result(code, timeout=30.0)).startswith(b"\x89PNG")


def test_a_figure_is_a_picture(science: Guests) -> None:
    code = """
        import matplotlib.pyplot as plt
        result, axes = plt.subplots()
        axes.plot([1, 3, 2])
        """
    run = science.run(code, timeout=30.0)
    assert (run.result, run.stderr) == ("<Figure size 640x480 with 1 Axes>", "")
    assert run.picture is not None
    assert run.picture.startswith(b"\x89PNG")
