"""A program in whose package one line was added to the table of lanes; it prints what the package makes of the new lane."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

LINE = '    Lane("charts", "object", "a chart, an object", "value", "application/x-chart"),\n'
PIPELINE = """{
  "components": [
    {"id": "in", "provider": "webhook", "config": {"mode": "Source"}},
    {"id": "out", "provider": "response", "config": {}, "input": [{"lane": "charts", "from": "in"}]}
  ],
  "source": "in"
}"""


def add_the_line() -> None:
    """Load the module of the lanes with one line more, before anything else of the package."""
    spec = importlib.util.find_spec("rrext.nodes.base.lanes")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    last = source.index('    Lane("json"')
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(source[:last] + LINE + source[last:], spec.origin, "exec"), module.__dict__)


def found() -> dict[str, Any]:
    from rrext.editor.analysis import AnalysisSettings, analyse
    from rrext.editor.completions.completion import Completer
    from rrext.editor.hover import hover_at
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.testing import open_pipeline, run_node
    from rrext.testing.nodes import run_to_end

    analysis = analyse(PIPELINE, AnalysisSettings(Catalog(), Environment()))
    hover = hover_at(analysis, PIPELINE.index("charts"))
    assert hover is not None
    gap = PIPELINE.replace("charts", "")
    offers = Completer().complete(analyse(gap, analysis.settings), PIPELINE.index("charts")).items

    async def send() -> Any:
        async with open_pipeline(json.loads(PIPELINE)) as client, client.pipe(mimetype="application/x-chart") as pipe:
            await pipe.write('{"bars": 3}')
            return await pipe.close()

    from rrext import Node

    class Redraw(Node):
        provider = "redraw"
        lanes = {"charts": ("charts",)}

        def write_charts(self, chart: Any) -> None:
            self.emit("charts", {"bars": chart["bars"] + 1})

    return {
        "problems": [problem.message for problem in analysis.problems],
        "page": hover.page.plain(),
        "offers": [item.offer.label for item in offers],
        "result": run_to_end(send),
        "emitted": run_node(Redraw, "charts", {"bars": 3}),
    }


if __name__ == "__main__":
    add_the_line()
    print(json.dumps(found(), default=str))
