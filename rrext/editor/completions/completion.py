"""What can be typed at a place of a pipeline's text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.completions.about import page_about
from rrext.editor.completions.calls import call_offers
from rrext.editor.completions.configs import config_keys, config_values, takes_texts
from rrext.editor.completions.edges import edge_keys, edge_values, whole_edges
from rrext.editor.completions.files import whole_pipelines
from rrext.editor.completions.gap import Gap, gap_at
from rrext.editor.completions.here import Here, Scene
from rrext.editor.completions.keys import component_keys, component_values, root_keys, root_values
from rrext.editor.completions.nodes import provider_names, source_ids, suggested_ids, whole_components
from rrext.editor.completions.offer import About, Offer, Taken, ranked, taken
from rrext.editor.completions.parts import Parts
from rrext.editor.completions.shelf import Shelf
from rrext.editor.completions.template import Indent
from rrext.editor.completions.variables import variables_begun, variables_whole
from rrext.editor.pages.page import Page
from rrext.editor.style import Style, margin_of, style_of
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located

__all__ = ["TRIGGERS", "Completer", "Completion"]

TRIGGERS: Final = ('"', ":", "{")
"""Signs after which an editor may ask without being told to; `Completer.complete` answers only where that is no bother."""

MOST: Final = 200
"""So many offers are listed; of more, those that fit what was typed."""

FEW: Final = 10
"""So many components show how a document is written."""


class Completion(msgspec.Struct, frozen=True):
    """The offers, best first, and how their lines begin. `cut` says that more of them fit: they must be asked for again."""

    items: tuple[Taken, ...] = ()
    indent: Indent = Indent()
    cut: bool = False


class Completer:
    """Answers what can be typed. The nodes of a catalog are looked at once; to be used by one thread at a time.

    The first question may take long, as it imports the code of every node that there is.
    """

    __slots__ = ("_analysis", "_file", "_shelf")

    def __init__(self) -> None:
        self._shelf: Shelf | None = None
        self._analysis: Analysis | None = None
        self._file: Parts | None = None

    def complete(self, analysis: Analysis, offset: int, trigger: str | None = None) -> Completion:
        """What can be typed at an offset; `trigger` is the sign after which the editor asked by itself."""
        gap = gap_at(analysis.map, offset)
        if gap.place == "nowhere" or not _is_wanted(gap, analysis.text, offset, trigger):
            return Completion()
        file, shelf, style = self._file_of(analysis), self._shelf_of(analysis.around.catalog), _style(analysis)
        if gap.place == "comment":
            return Completion(tuple(call_offers(analysis, gap, file, shelf, offset, style)))
        scene = Scene(analysis, gap, file, shelf)
        offers = variables_begun(scene, offset) if _takes_variables(scene) else []
        offers = ranked(offers or _offers(scene))
        kept = offers if len(offers) <= MOST else [offer for offer in offers if _resembles(offer, gap)][:MOST]
        items = tuple(taken(offer, gap, analysis.text, style) for offer in kept)
        return Completion(items, Indent(margin_of(analysis.text, gap.start), style.indent), len(kept) < len(offers))

    def explain(self, about: About, catalog: Catalog) -> Page | None:
        """The documentation of an offer; None if there is none."""
        return page_about(self._shelf_of(catalog), about)

    def _shelf_of(self, catalog: Catalog) -> Shelf:
        if self._shelf is None or self._shelf.catalog is not catalog:
            self._shelf = Shelf(catalog)
        return self._shelf

    def _file_of(self, analysis: Analysis) -> Parts:
        if self._file is None or self._analysis is not analysis:
            self._analysis, self._file = analysis, Parts(analysis)
        return self._file

    def __repr__(self) -> str:
        return f"<Completer of {self._shelf!r}>"


def _style(analysis: Analysis) -> Style:
    """How the document is written, by its first components: to look at all of them takes long."""
    where = analysis.map
    listed = where.find(below(analysis.base, "components"))
    if listed is None or len(listed.children) <= FEW:
        return style_of(where)
    return style_of(SourceMap(where.text, Located("array", None, listed.start, listed.end, inside=listed.children[:FEW])))


def _is_wanted(gap: Gap, text: str, offset: int, trigger: str | None) -> bool:
    """Whether an editor that asked by itself should show anything: not behind a closing quote, nor at an opening brace."""
    if trigger == '"':
        return gap.typed == '"'
    if trigger == ":":
        return gap.place == "value" and not gap.typed and text[offset - 1 : offset] == ":"
    if trigger == "{":
        return gap.typed.endswith("${")
    return True


def _takes_variables(scene: Scene) -> bool:
    return scene.here is not None and scene.here.parts[:1] == ("config",) and scene.gap.place in ("value", "element")


def _resembles(offer: Offer, gap: Gap) -> bool:
    """Whether what was typed has its letters in an offer, in their order: as editors filter."""
    letters = iter((offer.finds or offer.label).casefold())
    return all(letter in letters for letter in gap.typed[len(gap.quote) :].casefold())


def _offers(scene: Scene) -> Iterator[Offer]:
    parts, gap, here = scene.parts, scene.gap, scene.here
    if gap.place == "root" or (parts == () and gap.place == "value"):
        yield from whole_pipelines(scene)
    elif parts is None:
        return
    elif here is not None:
        yield from _in_component(scene, here)
    elif parts and parts[0] == "components" and gap.place == "element" and len(parts) == 2:
        yield from whole_components(scene, int(parts[1]))
    elif not parts and gap.place == "key":
        if not scene.keys() and gap.colon == "none":
            yield from whole_pipelines(scene)
        yield from root_keys(scene)
    elif parts == ("source",) and gap.place == "value":
        yield from source_ids(scene)
    elif len(parts) == 1 and gap.place == "value":
        yield from root_values(scene, parts[0])


def _in_component(scene: Scene, here: Here) -> Iterator[Offer]:
    parts, is_key = here.parts, scene.gap.place == "key"
    match parts:
        case ():
            yield from component_keys(scene, here) if is_key else ()
            if is_key and not here.keys() and scene.gap.colon == "none":
                yield from whole_components(scene, here.index)
        case ("config", *_):
            yield from _in_config(scene, here)
        case ("provider",):
            yield from provider_names(scene)
        case ("id",):
            yield from suggested_ids(scene, here)
        case ("input" | "control" as kind, _):
            yield from edge_keys(scene, here, kind) if is_key else whole_edges(scene, here, kind)
        case ("input" | "control" as kind, _, _):
            yield from edge_values(scene, here, kind) if not is_key else ()
        case (key,) if not is_key:
            yield from component_values(scene, here, key)
        case _:
            return


def _in_config(scene: Scene, here: Here) -> Iterator[Offer]:
    if scene.gap.place == "key":
        yield from config_keys(scene, here)
        return
    yield from config_values(scene, here)
    if takes_texts(scene, here):
        yield from variables_whole(scene)
