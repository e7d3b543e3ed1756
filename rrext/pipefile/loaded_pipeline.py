"""The result of reading and checking a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import Any, Final

from rrext.errors import InvalidPipeline
from rrext.pipefile.component_reader import ABSENT, is_excusable
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.spec import ComponentSpec, PipelineSpec
from rrext.pipefile.text.problems import Problem, parts_of
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.validation import PipelineOutline

OF_PROJECTS: Final = ("unknown_provider", "variable_not_allowed")
"""Codes of what a project may add: nodes, and names of variables."""


class LoadedPipeline:
    """A checked pipeline. `spec` is None after an error; `plans` has the plan of each source; `outline` all that could be read.

    `unresolved` is the pipeline as it was written, without a wrapper around it: its `${NAME}` are in place, so it may be
    shown. `problems` never hold a variable's value.
    """

    def __init__(
        self,
        spec: PipelineSpec | None,
        problems: tuple[Problem, ...],
        unresolved: dict[str, Any],
        *,
        base: str,
        outline: PipelineOutline,
        text: str | bytes | None,
        source_map: SourceMap | None,
        plans: dict[str, LanePlan] | None = None,
        ignored: str = "",
    ) -> None:
        self.ignored = ignored
        """The project that may have what is missing, and is not trusted."""
        self.spec = spec
        self.plans = plans or {}
        self.problems = problems
        self.unresolved = unresolved
        self.base = base
        self.outline = outline
        self._text = text
        self._map = source_map

    @property
    def source_map(self) -> SourceMap | None:
        """The positions of values in the text, worked out at first use; None without a text."""
        if self._map is None and self._text is not None:
            self._map = parse(self._text).map
        return self._map

    def add(self, found: Iterable[Problem]) -> None:
        """Add problems in the order of the text; with an error among them the pipeline cannot run."""
        problems = (*self.problems, *found)
        where = self.source_map
        self.problems = problems if where is None else tuple(sorted(problems, key=where.span_of))
        if self.errors:
            self.spec = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop a pipeline from running."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not stop a pipeline from running."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    def require(self) -> PipelineSpec:
        """Return the pipeline. Raises `InvalidPipeline` with all problems in `data`."""
        if self.spec is not None:
            return self.spec
        errors = self.errors
        if not errors:  # only where unknown providers are no error
            raise InvalidPipeline("This pipeline has no source that is known here", data={"problems": []})
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidPipeline(
            f"{first.path or '/'}: {first.message}{more}", hint=self.remedy, data={"problems": self.problems_as_json()}
        )

    @property
    def remedy(self) -> str | None:
        """How to get the nodes and variables that are missing here, or how to run the rest of the pipeline without them.

        None if all names of missing ones are probably misspelt, or if there are other errors.
        """
        errors = self.errors
        if self.ignored and any(problem.code in OF_PROJECTS for problem in errors):
            return f"`rrext trust {quote(self.ignored)}` lets its nodes and variables count, which may be the missing ones"
        if not any(problem.code in ABSENT and not problem.near for problem in errors):
            return None
        for problem in errors:
            draft = self.component_of(problem.path)
            if draft is None or not is_excusable(problem, draft.path):
                return None
        return "`--partial` (`partial: true`) loads the rest: only what needs these nodes is unavailable then"

    def parts(self, path: str) -> list[str]:
        """The path from the pipeline to a value in it; empty for a value outside."""
        base, parts = parts_of(self.base), parts_of(path)
        return parts[len(base) :] if parts[: len(base)] == base else []

    def component_of(self, path: str) -> ComponentSpec | None:
        """The component around a value."""
        parts, drafts = self.parts(path), self.outline.components
        if len(parts) < 2 or parts[0] != "components" or not parts[1].isdecimal() or len(parts[1]) > 9:
            return None
        return drafts[int(parts[1])] if int(parts[1]) < len(drafts) else None

    def problems_as_json(self) -> list[dict[str, Any]]:
        """Convert the problems to JSON, with lines and columns if the pipeline was a text."""
        from rrext.pipefile.text.problems import located

        where = self.source_map if self.problems else None
        return [located(problem, where) for problem in self.problems]
