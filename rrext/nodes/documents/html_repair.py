"""HTML for the parser: without its head, which would come into the text, and repaired.

Elements are closed where a browser would close them, and not nested too deeply. The parser takes `<p>` for a child of an
unclosed `<p>` before it, and silently drops the content of more than 64 nested elements: pages with many such paragraphs, and
newsletters with tables in tables, lost most of their text.
"""

from __future__ import annotations

import html
import re
from typing import Final

DEEPEST: Final = 48
"""Elements in each other that are kept; the tags of deeper ones go, their text stays."""


_MARK: Final = re.compile(r"<!--|<(/?)([a-zA-Z][a-zA-Z0-9]{0,31})(?=[\s/>])[^<>]*>")
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
_UNSEEN: Final = {
    "": re.compile("-->"),  # end of a comment
    "script": re.compile(r"</script[^<>]*>", re.IGNORECASE),
    "style": re.compile(r"</style[^<>]*>", re.IGNORECASE),
}
"""Invisible content of a page -> its end."""
_INLINE: Final = frozenset(
    "a abbr b big cite code em font i kbd label mark q s samp small span strike strong sub sup tt u var".split()  # noqa: SIM905
)
_BLOCKS: Final = """
    address article aside blockquote center dir div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre
    section table ul
    """.split()  # noqa: SIM905 – a table, read as words
_PARAGRAPH: Final = (frozenset({"p"}), frozenset({"table", "td", "th", "li", "dd", "div", "section", "article", "button"}))
_CLOSES: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    **dict.fromkeys(_BLOCKS, _PARAGRAPH),
    "a": (frozenset({"a"}), frozenset({"table", "td", "th"})),
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "dir"})),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl"}))),
    **dict.fromkeys(("td", "th"), (frozenset({"td", "th"}), frozenset({"tr", "table"}))),
    "tr": (frozenset({"tr"}), frozenset({"table", "thead", "tbody", "tfoot"})),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (frozenset({"thead", "tbody", "tfoot"}), frozenset({"table"}))),
    "option": (frozenset({"option"}), frozenset({"select", "optgroup"})),
}
"""Element -> elements of which it closes the innermost open one, unless one of the others stands between them."""


def flattened(page: str) -> str:
    """Add the missing end tags of a page, and remove the tags of elements that are nested too deeply."""
    return _Flattener(page).run()


class _Flattener:
    """Goes through the tags of one page once. No more than `DEEPEST` elements are ever open, so this takes linear time."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._at = 0
        self._out: list[str] = []
        self._is_apart = False  # whether there was no text since the last line break
        self._open: list[str] = []
        self._dropped: dict[str, int] = {}  # dropped tags within the innermost open element, by name

    def run(self) -> str:
        page = self._page
        while (mark := _MARK.search(page, self._at)) is not None:
            text = page[self._at : mark.start()]
            self._out.append(text)
            self._is_apart = self._is_apart and not text.strip()
            self._at = mark.end()
            name = (mark[2] or "").lower()
            if mark[1]:
                self._close(name, mark[0])
            else:
                self._begin(name, mark[0], is_empty=name in _VOID or mark[0].endswith("/>"))
        self._out.append(page[self._at :])
        return "".join(self._out)

    def _begin(self, name: str, tag: str, *, is_empty: bool) -> None:
        if name in _UNSEEN:
            end = _UNSEEN[name].search(self._page, self._at)
            self._at = end.end() if end else len(self._page)
            return
        ended, between = _CLOSES.get(name, ((), ()))
        for depth in range(len(self._open) - 1, -1, -1):
            if self._open[depth] in ended:
                self._end(depth)
                break
            if self._open[depth] in between:
                break
        if is_empty:
            self._out.append(tag)
        elif len(self._open) < DEEPEST:
            self._out.append(tag)
            self._open.append(name)
        else:
            self._dropped[name] = self._dropped.get(name, 0) + 1
            self._part(name)

    def _close(self, name: str, tag: str) -> None:
        if self._dropped.get(name):
            self._dropped[name] -= 1
            self._part(name)
        elif name in self._open:
            self._end(len(self._open) - 1 - self._open[::-1].index(name))
        else:
            self._out.append(tag)

    def _end(self, depth: int) -> None:
        """Close the element at a depth and all elements in it."""
        self._out += [f"</{name}>" for name in reversed(self._open[depth:])]
        del self._open[depth:]
        self._dropped.clear()

    def _part(self, name: str) -> None:
        """Keep the text around a tag that is taken out of it, unless the tag is only formatting."""
        if name not in _INLINE and not self._is_apart:
            self._out.append("<br>")
            self._is_apart = True


_META: Final = re.compile(r"<(?:meta|link|base)\b[^<>]*>", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title\s{0,9}>", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD: Final = re.compile(r"<head\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD_END: Final = re.compile(r"</head\s{0,9}>", re.IGNORECASE)


def without_head(page: str) -> tuple[str, str]:
    """Return the page without the content of its head, and its title, "" if it has none."""
    title = ""
    begin = _TITLE.search(page)
    end = _TITLE_END.search(page, begin.end()) if begin else None
    if begin and end:
        title = " ".join(html.unescape(page[begin.end() : end.start()]).split())
        page = page[: begin.start()] + page[end.end() :]
    begin = _HEAD.search(page)
    end = _HEAD_END.search(page, begin.end()) if begin else None
    if begin and end:
        page = page[: begin.end()] + page[end.start() :]
    return _META.sub("", page), title
