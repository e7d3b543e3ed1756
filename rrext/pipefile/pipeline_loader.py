"""Loads a pipeline from its text or JSON value: a pipeline that can run, or all problems of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rrext.errors import Cancelled, InvalidPipeline
from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.component_reader import ComponentReader, ComponentReading
from rrext.pipefile.environment import NEVER, PREFIX, Environment
from rrext.pipefile.loaded_pipeline import CheckCache, LoadedPipeline
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.redaction import Redactor
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem, Problems, Severity, shown
from rrext.pipefile.text.source import ParsedText, SourceMap, read
from rrext.pipefile.validation import PipelineOutline, Validation

CheckInputs: TypeAlias = tuple[Catalog, Environment, Limits, Severity]
"""The inputs of a check besides the text."""


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
    before: LoadedPipeline | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadedPipeline:
    """Read and check a pipeline; problems of its content are returned, not raised.

    `source` is the id of the source component to use instead of the one in the file.
    With `strict_env` an unresolved variable is an error, else a warning.
    `positions` makes the source map at once, which a text with a problem needs anyway.
    `before` is the result of an earlier text, with `positions`: unchanged parts are not computed again, but shared by both
    results, settings of components included. It changes no result, and is only read.
    Raises `Cancelled` soon after `stop()` returns true.
    """
    pause = _pause(stop)
    problems = Problems(limits.max_problems)
    is_text = isinstance(pipeline, str | bytes)
    inputs = (catalog, environment, limits, unknown_provider)
    known = before.cache if before is not None and is_text and positions else None
    if known is not None and known.inputs != inputs:
        known = None
    given = _given(pipeline, limits, positions, known)
    for problem in given.problems:
        problems.append(problem)
    document, base = _unwrapped(given.value, problems) if given.complete else (None, "")
    text = pipeline if is_text else None
    if document is None:
        empty = PipelineOutline()
        return LoadedPipeline(
            None, problems.listing(), {}, base=base, outline=empty, text=text, source_map=given.map, cache=known
        )
    near = NearNames(former=None if known is None else known.near)
    reader = ComponentReader(
        catalog, environment, near, limits.max_problems, unknown_provider, {} if known is None else known.readings
    )
    readings = _readings(document, reader, limits, pause)
    unresolved = _unresolved(readings, base)
    _report_variables(unresolved, environment, problems, "error" if strict_env else "warning", near)
    validation = Validation(problems, near, limits, base=base, pause=pause)
    spec = validation.run(document, readings, source)
    return LoadedPipeline(
        spec,
        _sifted(problems.listing(), given, unresolved, environment.redactor),
        document,
        base=base,
        outline=validation.outline,
        text=text,
        source_map=given.map,
        cache=_remembered(given.map, known, inputs, readings, near) if is_text and positions else None,
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
    before: LoadedPipeline | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadedPipeline:
    """Check a pipeline without running it: unresolved variables are warnings, and every error of a run is reported.

    `before` and `stop` as for `load_pipeline`.
    """
    loaded = load_pipeline(
        pipeline,
        catalog,
        environment,
        source=source,
        strict_env=False,
        unknown_provider=unknown_provider,
        positions=positions,
        limits=limits,
        before=before,
        stop=stop,
    )
    _pause(stop)()
    if loaded.spec is not None:
        from rrext.pipefile.plan import LanePlan

        try:
            LanePlan.of(loaded.spec, limits)
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
    """Make the body of the answer to `rrext_validate`: the pipeline with its chain, and its problems.

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
    """Convert a problem to the form of RocketRide's validator: `id` is the component, `ccode` the code."""
    entry = {"message": problem.message, "ccode": problem.code, "path": problem.path}
    prefix = below(base, "components") + "/"
    if problem.path.startswith(prefix):
        index = problem.path[len(prefix) :].partition("/")[0]
        if index.isdecimal() and int(index) < len(ids) and ids[int(index)]:
            entry["id"] = ids[int(index)]
    return entry


def _as_source(pipeline: Any, limits: Limits) -> ParsedText:
    """Wrap a JSON value that was not read from text; only its depth must be checked."""
    level: list[Any] = [pipeline]
    for _ in range(limits.max_depth + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return ParsedText(pipeline)
        level = [item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer)]
    message = f"Nested deeper than {limits.max_depth} levels (max_depth)."
    return ParsedText(None, (Problem("too_deep", "error", message),), False)


def _unwrapped(value: Any, problems: Problems) -> tuple[dict[str, Any] | None, str]:
    """Find the pipeline in a document, which may be wrapped once in `{"pipeline": …}`, and its pointer."""
    base = ""
    if isinstance(value, dict) and "pipeline" in value and "components" not in value:
        value, base = value["pipeline"], "/pipeline"
    if isinstance(value, dict):
        return value, base
    if not problems.errors:
        problems.add("wrong_type", "A pipeline is an object.", base)
    return None, base


def _given(pipeline: Any, limits: Limits, positions: bool, known: CheckCache | None) -> ParsedText:
    if isinstance(pipeline, str | bytes):
        return read(pipeline, limits=limits, positions=positions, former=None if known is None else known.map)
    return _as_source(dict(pipeline) if isinstance(pipeline, Mapping) else pipeline, limits)


def _remembered(
    where: SourceMap | None,
    known: CheckCache | None,
    inputs: CheckInputs,
    readings: Sequence[ComponentReading],
    near: NearNames,
) -> CheckCache | None:
    """Make the cache for the next check."""
    if where is None or (known is not None and where.stopped):
        return known  # the text behind the place where reading stopped will be read again when the mistake is corrected
    settled = {id(reading.value): reading for reading in readings if reading.settled}
    return CheckCache(inputs, where, settled, near)


def _readings(
    document: Mapping[str, Any], reader: ComponentReader, limits: Limits, pause: Callable[[], None]
) -> list[ComponentReading]:
    components = document.get("components")
    if not isinstance(components, list) or len(components) > limits.max_components:
        return []
    found: list[ComponentReading] = []
    for index, component in enumerate(components):
        if index % 64 == 0:
            pause()
        found.append(reader.read(component))
    return found


def _unresolved(readings: Sequence[ComponentReading], base: str) -> list[tuple[str, str]]:
    """Pointer and name of each variable without a value."""
    components = below(base, "components")
    return [
        (f"{components}/{index}{path}", name)
        for index, reading in enumerate(readings)
        for path, name in reading.variables.unresolved
    ]


def _pause(stop: Callable[[], bool] | None) -> Callable[[], None]:
    """Make a function to call regularly; it raises `Cancelled` when `stop` returns true."""

    def pause() -> None:
        if stop is not None and stop():
            raise Cancelled("The check was stopped")

    return pause


def _report_variables(
    unresolved: Sequence[tuple[str, str]], environment: Environment, problems: Problems, severity: Severity, near: NearNames
) -> None:
    known = environment.names
    for path, name in dict.fromkeys(unresolved):
        code, message = "unresolved_variable", f"The variable ${{{name}}} has no value."
        like = near.of(name, known)
        if not environment.may_read(name):
            rule = f"pipelines may read {PREFIX}* and the names given by --env"
            why = "it is the server's own" if name in NEVER else rule
            code, message = "variable_not_allowed", f"The variable {shown(name)} may not be read here: {why}."
            like = (PREFIX + name,) if PREFIX + name in known else like
        problems.add(code, message, path, severity=severity, near=like, part=f"${{{name}}}")


def _sifted(
    found: tuple[Problem, ...], given: ParsedText, unresolved: Sequence[tuple[str, str]], redactor: Redactor
) -> tuple[Problem, ...]:
    """Sort the problems in the order of the text, and remove repeated ones and values of variables."""
    without_value = {path for path, _ in unresolved}
    no_names = {problem.path for problem in found if problem.code == "variable_in_name"}
    kept: list[Problem] = []
    if given.map is not None:
        found = tuple(sorted(found, key=given.map.span_of))
    for problem in found:
        consequence = problem.path in without_value and problem.code == "invalid_config"
        consequence = consequence or (problem.path in no_names and problem.code != "variable_in_name")
        if problem.span is None and given.map is not None and given.map.is_hole(problem.path):
            consequence = True
        if not consequence:
            kept.append(problem.rewritten(redactor.text) if redactor.knows_any else problem)
    return tuple(kept)
