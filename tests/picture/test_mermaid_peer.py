"""Mermaid itself reads what we write for it, and finds the nodes, edges and texts of the picture."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from picture_graphs import drawn_from

from rrext.columns import one_line
from rrext.picture.picture import Picture, PictureEdge, PictureNode, Remark
from rrext.picture.text import as_mermaid

HERE = Path(__file__).resolve().parent
STROKES = {"data": "normal", "control": "dotted"}

pytestmark = pytest.mark.system

TEXTS = [
    'a"b',
    "<script>alert(1)</script>",
    "end",
    "`code`",
    '%%{init: {"theme": "dark"}}%%',
    'style: #x; "q"',
    "classDef x:#;",
    "日本語🙂e\u0301",
    "-->|x|",
    "a\nb\tc\x1b[31m\u202e",
    "#35; &amp; #quot;",
    "{}[]()",
    ";",
    "graph TD; A-->B",
    "---",
    '"]',
    "subgraph",
    'click n0 "javascript:alert(1)"',
    "{{{",
    "|",
    "\\",
]


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder `node_modules` with Mermaid, as `RREXT_NODE_MODULES` names it."""
    folder = os.environ.get("RREXT_NODE_MODULES", "")
    if not all(Path(folder, name).is_dir() for name in ("mermaid", "jsdom")):
        pytest.skip("set RREXT_NODE_MODULES to a node_modules folder with mermaid and jsdom")
    if shutil.which("node") is None:
        pytest.skip("install Node.js 20 or later")
    return folder


def read(modules: str, *pictures: Picture) -> list[dict[str, Any]]:
    """What Mermaid makes of some pictures."""
    command = ["node", str(HERE / "mermaid_peer.mjs"), modules]
    given = json.dumps([as_mermaid(picture) for picture in pictures])
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(found: dict[str, Any], picture: Picture) -> None:
    assert "error" not in found, found["error"]
    texts = dict(found["nodes"])
    for index, node in enumerate(picture.nodes):
        assert texts[f"n{index}"].partition("\n")[0].strip() == one_line(node.id).strip()
    wanted = [
        [f"n{edge.source}", f"n{edge.target}", STROKES[edge.kind], ", ".join(map(one_line, edge.names)).strip()]
        for edge in picture.edges
    ]
    assert [[*edge[:3], edge[3].strip()] for edge in found["edges"]] == wanted


def test_mermaid_reads_any_picture(modules: str) -> None:
    chance = random.Random(7)
    pictures = [drawn_from(chance.randrange(2**32), count, count * 2, 5) for count in (1, 2, 5, 20, 100)]
    for found, picture in zip(read(modules, *pictures), pictures, strict=True):
        check(found, picture)


def test_mermaid_reads_any_text_as_text(modules: str) -> None:
    pictures = [full_of(text) for text in TEXTS]
    for found, picture in zip(read(modules, *pictures), pictures, strict=True):
        check(found, picture)


def full_of(text: str) -> Picture:
    """A picture that has a text wherever a file may have one."""
    nodes = (PictureNode(text, text, text, "source"), PictureNode(f"{text} 2", "", role="missing"), PictureNode("c", "p"))
    edges = (PictureEdge(0, 1, "data", (text,)), PictureEdge(1, 2, "control", (text, "tool")))
    return Picture(nodes, edges, (Remark("error", "x", text, (1, 2)), Remark("warning", "y", text)), name=text)
