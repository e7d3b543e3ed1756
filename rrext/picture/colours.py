"""The style sheet of an SVG picture: rules for light paper, and the same for dark."""

from __future__ import annotations

from typing import Final

FONT_SIZE: Final = 12
"""Pixels. A monospaced character is six tenths as wide, so it fits into a cell in any such font."""

_LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "box": "#f6f8fa",
    "border": "#818b98",
    "data": "#0550ae",
    "control": "#8250df",
    "source": "#1a7f37",
    "source_box": "#dafbe1",
    "response": "#0969da",
    "response_box": "#ddf4ff",
    "error": "#cf222e",
    "error_box": "#ffebe9",
    "warning": "#9a6700",
    "warning_box": "#fff8c5",
}
_DARK: Final = {
    "paper": "#0d1117",
    "ink": "#f0f6fc",
    "faint": "#9198a1",
    "box": "#151b23",
    "border": "#656c76",
    "data": "#79c0ff",
    "control": "#d2a8ff",
    "source": "#3fb950",
    "source_box": "#12261e",
    "response": "#4493f8",
    "response_box": "#121d2f",
    "error": "#f85149",
    "error_box": "#25171c",
    "warning": "#d29922",
    "warning_box": "#272115",
}
_RULES: Final = """
.paper { fill: %(paper)s }
text { fill: %(ink)s }
.provider, .reference, .legend { fill: %(faint)s }
.box { fill: %(box)s; stroke: %(border)s }
.source .box { fill: %(source_box)s; stroke: %(source)s }
.response .box { fill: %(response_box)s; stroke: %(response)s }
.missing .box { stroke: %(error)s }
.error .box { fill: %(error_box)s; stroke: %(error)s }
.warning .box { fill: %(warning_box)s; stroke: %(warning)s }
.error .id, .label.error { fill: %(error)s }
.warning .id, .label.warning { fill: %(warning)s }
.data .line { stroke: %(data)s }
.control .line { stroke: %(control)s }
.data .dot, .data .head { fill: %(data)s; stroke: %(data)s }
.control .dot { fill: %(control)s }
.control .head { fill: %(paper)s; stroke: %(control)s }
.line.error, .head.error { stroke: %(error)s }
.data .head.error { fill: %(error)s }
.line.warning, .head.warning { stroke: %(warning)s }
.data .head.warning { fill: %(warning)s }
.reason.error { fill: %(error)s }
.reason.warning { fill: %(warning)s }
"""
_SHAPES: Final = f"""
text {{ font: {FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }}
.heading {{ font-size: 16px; font-weight: 600 }}
.id {{ font-weight: 600 }}
.title {{ font-style: italic }}
.box {{ stroke-width: 1.25 }}
.source .box, .response .box {{ stroke-width: 2 }}
.missing .box {{ stroke-dasharray: 4 3 }}
.line {{ fill: none; stroke-width: 1.5 }}
.control .line {{ stroke-dasharray: 5 4 }}
.head {{ stroke-width: 1.25; stroke-linejoin: round }}
"""


def style_sheet(root: str) -> str:
    """The rules for all elements inside the class `root`; the surrounding page is unaffected."""
    dark = _scoped(root, _RULES % _DARK)
    return f"{_scoped(root, _SHAPES)}{_scoped(root, _RULES % _LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _scoped(root: str, rules: str) -> str:
    found: list[str] = []
    for rule in rules.strip().splitlines():
        selectors, _, rest = rule.partition(" {")
        found.append(", ".join(f".{root} {selector}" for selector in selectors.split(", ")) + " {" + rest + "\n")
    return "".join(found)
