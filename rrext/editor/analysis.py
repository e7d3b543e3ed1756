"""The analysis of one state of a document: its problems, its components, and the positions of all values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import msgspec

from rrext.editor.written_pipeline import WrittenPipeline
from rrext.errors import Cancelled
from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.validation import PipelineOutline
from rrext.references import KnownConnection


class AnalysisSettings(msgspec.Struct, frozen=True):
    """The catalog, environment and limits of an analysis. `trusted`: the document's nodes may be loaded and run.

    `connections` are those of the operator; None if they are not known.
    """

    catalog: Catalog
    environment: Environment
    trusted: bool = False
    limits: Limits = DEFAULTS
    connections: tuple[KnownConnection, ...] | None = None


class Analysis:
    """The analysis of one state of a document. It is immutable, so any thread may read it.

    `map` holds the text that was read: the document's, or an empty one if the document is too large.
    """

    def __init__(self, loaded: LoadedPipeline, settings: AnalysisSettings) -> None:
        where = loaded.source_map
        assert where is not None  # `positions=True` asks for it
        self.loaded = loaded
        self.map: SourceMap = where
        self.settings = settings
        self.drafts = loaded.outline.components
        self.by_id = {draft.id: draft for draft in reversed(self.drafts) if draft.id}
        """Components by id; the first one of a duplicate id."""
        listed = where.find(below(loaded.base, "components"))
        self._written: WrittenPipeline | None = None
        self._starts = [item.start for item in listed.children] if listed is not None and listed.kind == "array" else []

    @property
    def text(self) -> str:
        """The text that was read."""
        return self.map.text

    @property
    def base(self) -> str:
        """The pointer to the pipeline in the document."""
        return self.loaded.base

    @property
    def written(self) -> WrittenPipeline:
        """The components as they are written."""
        if self._written is None:
            self._written = WrittenPipeline(self.map, self.base, self.drafts)
        return self._written

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems of the pipeline."""
        return self.loaded.problems

    def component_at(self, offset: int) -> ComponentSpec | None:
        """The component around an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        located = self.map.find(below(self.base, "components", index))
        if located is None or offset > located.end:
            return None
        return self.drafts[index] if index < len(self.drafts) else None


def unread(problem: Problem, settings: AnalysisSettings) -> Analysis:
    """The analysis of a document without a text: a problem at its start says why."""
    where = parse("").map
    loaded = LoadedPipeline(None, (problem,), {}, base="", outline=PipelineOutline(), text="", source_map=where)
    return Analysis(loaded, settings)


def analyse(text: str, settings: AnalysisSettings, *, stop: Callable[[], bool] | None = None) -> Analysis:
    """Analyse a text. No code of it runs, and no content raises an exception.

    An unknown provider is information if code that is not loaded may define it. Raises `Cancelled` soon after `stop` returns
    true.
    """
    if stop is not None and stop():
        raise Cancelled
    loaded = load_pipeline(
        text,
        settings.catalog,
        settings.environment,
        strict_env=False,
        positions=True,
        connections=settings.connections,
        limits=settings.limits,
        stop=stop,
    )
    return Analysis(loaded, settings)
