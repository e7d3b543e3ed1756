"""From a pipeline's text, or its JSON value, to a pipeline that can run, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rrext.engine.catalog import Catalog
from rrext.engine.environment import NEVER, PREFIX, Environment, Substitution, substitute
from rrext.engine.pointer import below
from rrext.engine.problems import NearNames, Problem, Problems, Severity, shown
from rrext.engine.source import Source, SourceMap, parse, read
from rrext.engine.spec import PipelineSpec
from rrext.engine.validation import Outline, Validation
from rrext.errors import InvalidPipeline
from rrext.limits import DEFAULTS, Limits

__all__ = ["Loaded", "check_pipeline", "load_pipeline", "validate"]

LITERAL = ("project_id", "name", "description")
"""What stays as it is written: the project keeps its id wherever it runs, and whoever lists pipelines reads the others."""


class Loaded:
    """What loading gave. `spec` is None if there are errors; `outline` is what could be made out all the same.

    `unresolved` is the pipeline as it was written, without a wrapper around it: its `${NAME}` are in place, so it may be
    shown. `problems` never hold a variable's value.
    """

    __slots__ = ("_map", "_text", "base", "outline", "problems", "spec", "unresolved")

    def __init__(
        self,
        spec: PipelineSpec | None,
        problems: tuple[Problem, ...],
        unresolved: dict[str, Any],
        *,
        base: str,
        outline: Outline,
        text: str | bytes | None,
        source_map: SourceMap | None,
    ) -> None:
        self.spec = spec
        self.problems = problems
        self.unresolved = unresolved
        self.base = base
        self.outline = outline
        self._text = text
        self._map = source_map

    @property
    def source_map(self) -> SourceMap | None:
        """Where everything stands in the text; None if there is none. It is worked out when it is first asked for."""
        if self._map is None and self._text is not None:
            self._map = parse(self._text).map
        return self._map

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop a pipeline from running."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    def require(self) -> PipelineSpec:
        """The pipeline. Raises `InvalidPipeline` with all problems in `data`."""
        if self.spec is not None:
            return self.spec
        errors = self.errors
        if not errors:  # only where unknown providers are no error
            raise InvalidPipeline("This pipeline has no source that is known here", data={"problems": []})
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidPipeline(f"{first.path or '/'}: {first.message}{more}", data={"problems": self.problems_as_json()})

    def problems_as_json(self) -> list[dict[str, Any]]:
        """The problems as they travel, with lines and columns if the pipeline was a text."""
        from rrext.engine.located import located

        where = self.source_map if self.problems else None
        return [located(problem, where) for problem in self.problems]

    def __repr__(self) -> str:
        return f"<Loaded {self.spec.source if self.spec else 'nothing'}, {len(self.problems)} problems>"


def load_pipeline(
    pipeline: str | bytes | Mapping[str, Any],
    catalog: Catalog,
    environment: Environment,
    *,
    source: str | None = None,
    strict_env: bool = True,
    unknown_provider: Severity = "error",
    positions: bool = False,
    limits: Limits = DEFAULTS,
) -> Loaded:
    """Read and check a pipeline; never raises for what it holds.

    `source` begins elsewhere than the file says. With `strict_env` an unresolved variable is an error, else a warning.
    `positions` makes the source map at once, which a text with a problem needs anyway.
    """
    problems = Problems(limits.max_problems)
    text = pipeline if isinstance(pipeline, str | bytes) else None
    given = (
        read(text, limits=limits, positions=positions)
        if text is not None
        else _as_source(dict(pipeline) if isinstance(pipeline, Mapping) else pipeline, limits)
    )
    for problem in given.problems:
        problems.append(problem)
    document, base = _unwrapped(given.value, problems) if given.complete else (None, "")
    if document is None:
        return Loaded(None, problems.listing(), {}, base=base, outline=Outline(), text=text, source_map=given.map)
    done = substitute(document, environment, base, skip=[below(base, key) for key in LITERAL])
    _report_variables(document, done, environment, base, problems, "error" if strict_env else "warning")
    validation = Validation(catalog, problems, limits, base=base, unknown=unknown_provider)
    spec = validation.run(done.value, source)
    return Loaded(
        spec,
        _sifted(problems.listing(), given, done),
        document,
        base=base,
        outline=validation.outline,
        text=text,
        source_map=given.map,
    )


def check_pipeline(
    pipeline: str | bytes | Mapping[str, Any],
    catalog: Catalog,
    environment: Environment,
    *,
    source: str | None = None,
    unknown_provider: Severity = "error",
    positions: bool = False,
    limits: Limits = DEFAULTS,
) -> Loaded:
    """Check a pipeline that is not to run: unresolved variables are warnings, and all that a run would refuse is looked for."""
    loaded = load_pipeline(
        pipeline,
        catalog,
        environment,
        source=source,
        strict_env=False,
        unknown_provider=unknown_provider,
        positions=positions,
        limits=limits,
    )
    if loaded.spec is not None:
        from rrext.engine.plan import LanePlan

        classes = {component.id: component.node_class for component in loaded.spec.components}
        try:
            LanePlan.of(loaded.spec, classes, limits)
        except InvalidPipeline as error:
            found = Problem("cannot_run", "error", error.message, below(loaded.base, "components"), on="key")
            loaded.problems = (*loaded.problems, found)
            loaded.spec = None
    return loaded


def validate(
    pipeline: str | Mapping[str, Any],
    catalog: Catalog,
    environment: Environment,
    source: str | None = None,
    limits: Limits = DEFAULTS,
) -> dict[str, Any]:
    """The body that answers `rrext_validate`: the pipeline with its chain, and what is wrong with it.

    Nothing runs, so unresolved variables are warnings. Problems of a text have a line and a column.
    """
    loaded = check_pipeline(pipeline, catalog, environment, source=source, limits=limits)
    ids = [draft.id for draft in loaded.outline.components]
    entries = [(problem, _reference_entry(problem, loaded.base, ids)) for problem in loaded.problems]
    shown_pipeline: dict[str, Any] = {**loaded.unresolved, "chain": list(loaded.outline.chain)}
    if loaded.outline.source:
        shown_pipeline["source"] = loaded.outline.source
    return {
        "pipeline": shown_pipeline,
        "errors": [entry for problem, entry in entries if problem.severity == "error"],
        "warnings": [entry for problem, entry in entries if problem.severity == "warning"],
        "problems": loaded.problems_as_json(),
    }


def _reference_entry(problem: Problem, base: str, ids: list[str]) -> dict[str, Any]:
    """A problem as RocketRide's validator names it: `id` is the component, `ccode` the code."""
    entry = {"message": problem.message, "ccode": problem.code, "path": problem.path}
    prefix = below(base, "components") + "/"
    if problem.path.startswith(prefix):
        index = problem.path[len(prefix) :].partition("/")[0]
        if index.isdecimal() and int(index) < len(ids) and ids[int(index)]:
            entry["id"] = ids[int(index)]
    return entry


def _as_source(pipeline: Any, limits: Limits) -> Source:
    """A JSON value that was never text here; only its nesting has to be looked at."""
    level: list[Any] = [pipeline]
    for _ in range(limits.max_depth + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return Source(pipeline)
        level = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
    message = f"Nested deeper than {limits.max_depth} levels (max_depth)."
    return Source(None, (Problem("too_deep", "error", message),), False)


def _unwrapped(value: Any, problems: Problems) -> tuple[dict[str, Any] | None, str]:
    """The pipeline in a document, which may be wrapped once in `{"pipeline": …}`, and where it stands."""
    base = ""
    if isinstance(value, dict) and "pipeline" in value and "components" not in value:
        value, base = value["pipeline"], "/pipeline"
    if isinstance(value, dict):
        return value, base
    if not problems.errors:
        problems.add("wrong_type", "A pipeline is an object.", base)
    return None, base


def _report_variables(
    document: Mapping[str, Any], done: Substitution, environment: Environment, base: str, problems: Problems, severity: Severity
) -> None:
    project = document.get("project_id")
    if isinstance(project, str) and "${" in project:
        message = "project_id must be literal: a pipeline keeps it wherever it runs."
        problems.add("variable_in_project_id", message, below(base, "project_id"))
    known, like = environment.names, NearNames()
    for path, name in dict.fromkeys(done.unresolved):
        code, message = "unresolved_variable", f"The variable ${{{name}}} has no value."
        near = like.of(name, known)
        if not environment.may_read(name):
            rule = f"pipelines may read {PREFIX}* and the names given by --env"
            why = "it is the server's own" if name in NEVER else rule
            code, message = "variable_not_allowed", f"The variable {shown(name)} may not be read here: {why}."
            near = (PREFIX + name,) if PREFIX + name in known else near
        problems.add(code, message, path, severity=severity, near=near, part=f"${{{name}}}")


def _sifted(found: tuple[Problem, ...], given: Source, done: Substitution) -> tuple[Problem, ...]:
    """The problems in the order of the text, without those that only repeat others, and without any variable's value."""
    unresolved = {path for path, _ in done.unresolved}
    kept: list[Problem] = []
    if given.map is not None:
        found = tuple(sorted(found, key=given.map.span_of))
    for problem in found:
        consequence = problem.path in unresolved and problem.code == "invalid_config"
        if problem.span is None and given.map is not None and given.map.is_hole(problem.path):
            consequence = True
        if not consequence:
            kept.append(problem.rewritten(done.redacted) if done.used else problem)
    return tuple(kept)
