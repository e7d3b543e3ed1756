"""What is known of one state of a document: its problems, its components, and where everything stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rrext.errors import Cancelled
from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded import LoadedPipeline
from rrext.pipefile.loading import check_pipeline
from rrext.pipefile.shape import Draft
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem
from rrext.pipefile.text.source import SourceMap

if TYPE_CHECKING:
    from rrext.editor.checked_calls import Calls

__all__ = ["Analysis", "AnalysisSettings", "analyse"]


class AnalysisSettings(msgspec.Struct, frozen=True):
    """What a document is judged by. `trusted` says that its nodes may be loaded and run."""

    catalog: Catalog
    environment: Environment
    trusted: bool = False
    limits: Limits = DEFAULTS


class Analysis:
    """One state of a document. It never changes, so it may be read from any thread.

    `map` holds the text that was read: it is the document's, or empty if that was too large.
    """

    __slots__ = ("_calls", "_starts", "by_id", "drafts", "loaded", "map", "settings")

    def __init__(self, loaded: LoadedPipeline, settings: AnalysisSettings) -> None:
        where = loaded.source_map
        assert where is not None  # it was asked for
        self.loaded = loaded
        self.map: SourceMap = where
        self.settings = settings
        self.drafts = loaded.outline.components
        self.by_id = {draft.id: draft for draft in reversed(self.drafts) if draft.id}
        """Components by id; of an id that stands twice, the first."""
        listed = where.find(below(loaded.base, "components"))
        self._calls: Calls | None = None
        self._starts = [item.start for item in listed.children] if listed is not None and listed.kind == "array" else []

    @property
    def text(self) -> str:
        """The text that was read."""
        return self.map.text

    @property
    def base(self) -> str:
        """The pointer at which the pipeline stands."""
        return self.loaded.base

    @property
    def calls(self) -> Calls:
        """The calls that stand in comments."""
        if self._calls is None:
            from rrext.editor.checked_calls import calls_in

            self._calls = calls_in(self)
        return self._calls

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong: with the pipeline, then with the calls in comments."""
        return (*self.loaded.problems, *self.calls.problems)

    def component_at(self, offset: int) -> Draft | None:
        """The component around an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        located = self.map.find(below(self.base, "components", index))
        if located is None or offset > located.end:
            return None
        return self.drafts[index] if index < len(self.drafts) else None

    def __repr__(self) -> str:
        return f"<Analysis of {len(self.text)} characters, {len(self.drafts)} components, {len(self.loaded.problems)} problems>"


def analyse(
    text: str, settings: AnalysisSettings, *, before: Analysis | None = None, stop: Callable[[], bool] | None = None
) -> Analysis:
    """Look at a text. Nothing of it runs, and nothing is raised for what it holds.

    In a document that is not trusted an unknown provider is information: code that is not loaded may define it.
    `before` is what is known of an earlier state of the document; what has not changed since is not looked at again.
    Raises `Cancelled` soon after `stop` says so.
    """
    if stop is not None and stop():
        raise Cancelled
    loaded = check_pipeline(
        text,
        settings.catalog,
        settings.environment,
        unknown_provider="error" if settings.trusted else "information",
        positions=True,
        limits=settings.limits,
        before=None if before is None else before.loaded,
        stop=stop,
    )
    analysis = Analysis(loaded, settings)
    _ = analysis.calls  # now, as whoever publishes them must not wait for it
    return analysis
