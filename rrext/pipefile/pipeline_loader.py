"""Loads a pipeline from its text or JSON value. The result is a pipeline that can run, or all problems of the text; problems
that only follow from a parse error are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import Cancelled, InvalidPipeline
from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.component_reader import ComponentReader
from rrext.pipefile.environment import Environment
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.resources import NO_RESOURCES, Resources, read_resources
from rrext.pipefile.shape import ShapeReader
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, Problems, Severity, below
from rrext.pipefile.text.source import ParsedText, SourceMap, read
from rrext.pipefile.validation import PipelineOutline, validated
from rrext.secrets.redaction import Redactor

if TYPE_CHECKING:
    from rrext.references import KnownConnection


def load_pipeline(
    pipeline: str | bytes | Mapping[str, Any],
    catalog: Catalog,
    environment: Environment,
    *,
    source: str | None = None,
    strict_env: bool = True,
    partial: bool = False,
    positions: bool = False,
    connections: Sequence[KnownConnection] | None = None,
    limits: Limits = DEFAULTS,
    stop: Callable[[], bool] | None = None,
) -> LoadedPipeline:
    """Read and check a pipeline; problems of its content are returned, not raised.

    `source` replaces the source component that the file names. With `strict_env` an unresolved variable is an error, else a
    warning, for a check without a run. With `partial` a component whose node or settings are missing is unavailable, and its
    problems are warnings. `positions` makes the source map at once; a text with a problem needs it anyway. With `connections`
    references to others are warnings. Raises `Cancelled` soon after `stop()` returns true.
    """
    pause = _pause(stop)
    problems = Problems(limits.max_problems)
    given = _given(pipeline, limits, positions)
    for problem in given.problems:
        problems.append(problem)
    document, base = _unwrapped(given.value, problems) if given.complete else (None, "")
    text = pipeline if isinstance(pipeline, str | bytes) else None
    if document is None:
        outline = PipelineOutline()
        return LoadedPipeline(None, problems.listing(), {}, base=base, outline=outline, text=text, source_map=given.map)
    near = NearNames()
    shape = ShapeReader(base, problems, near)
    resources = shape.root(document, limits)
    unresolved: Severity = "error" if strict_env else "warning"
    reader = ComponentReader(
        catalog,
        environment,
        shape,
        problems,
        near,
        unresolved=unresolved,
        is_file=text is not None,
        partial=partial,
    )
    drafts = _drafts(document, reader, limits, pause)
    outline, spec = validated(
        document, drafts, base, problems, near, source=source, connections=connections, resources=resources, pause=pause
    )
    found = _sifted(problems.listing(), given, reader.without_value, environment.redactor)
    pause()
    plans: dict[str, LanePlan] = {}
    try:
        plans = {} if spec is None else LanePlan.of_sources(spec, limits)
    except InvalidPipeline as error:
        found = (*found, Problem("cannot_run", "error", error.message, below(base, "components"), on="key"))
        spec = None
    return LoadedPipeline(
        spec,
        found,
        document,
        base=base,
        outline=outline,
        text=text,
        source_map=given.map,
        plans=plans,
        ignored=catalog.ignored,
    )


def resources_in(
    pipeline: str | bytes | Mapping[str, Any],
    refusals: Callable[[Resources, str], Iterable[Problem]],
    limits: Limits = DEFAULTS,
) -> Resources:
    """What a pipeline asks for, before it is loaded; nothing, if that cannot be read, which its load tells.

    `refusals` has the problems of these resources at a pointer. Raises `InvalidPipeline` if there are any.
    """
    given, near = _given(pipeline, limits, positions=False), NearNames()
    document, base = _unwrapped(given.value, Problems()) if given.complete else (None, "")
    if document is None:
        return NO_RESOURCES
    resources = read_resources(document, base, Problems(), near)
    if refused := tuple(refusals(resources, below(base, "resources"))):
        text = pipeline if isinstance(pipeline, str | bytes) else None
        outline = PipelineOutline(resources=resources)
        LoadedPipeline(None, refused, document, base=base, outline=outline, text=text, source_map=given.map).require()
    return resources


def validate(
    pipeline: str | Mapping[str, Any],
    catalog: Catalog,
    environment: Environment,
    source: str | None = None,
    limits: Limits = DEFAULTS,
    refusals: Callable[[LoadedPipeline], Iterable[Problem]] | None = None,
) -> dict[str, Any]:
    """Make the body of the answer to `rrext_validate`: the pipeline with its chain, and its problems.

    Nothing runs, so unresolved variables are warnings. Problems of a text have a line and a column. `refusals` has those that
    only this caller gets.
    """
    loaded = load_pipeline(pipeline, catalog, environment, source=source, strict_env=False, limits=limits)
    if refusals is not None:
        loaded.add(problem.rewritten(environment.redactor.text) for problem in refusals(loaded))
    entries = [(problem, _reference_entry(problem, loaded.component_of(problem.path))) for problem in loaded.problems]
    shown_pipeline: dict[str, Any] = {**loaded.unresolved, "chain": list(loaded.outline.chain)}
    if loaded.outline.source:
        shown_pipeline["source"] = loaded.outline.source
    return {
        "pipeline": shown_pipeline,
        "errors": [entry for problem, entry in entries if problem.severity == "error"],
        "warnings": [entry for problem, entry in entries if problem.severity == "warning"],
        "problems": loaded.problems_as_json(),
    }


def _reference_entry(problem: Problem, component: ComponentSpec | None) -> dict[str, Any]:
    """Convert a problem to the form of RocketRide's validator: `id` is the component, `ccode` the code."""
    entry = {"message": problem.message, "ccode": problem.code, "path": problem.path}
    return {**entry, "id": component.id} if component is not None and component.id else entry


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


def _given(pipeline: Any, limits: Limits, positions: bool) -> ParsedText:
    if isinstance(pipeline, str | bytes):
        return read(pipeline, limits=limits, positions=positions)
    return _as_source(dict(pipeline) if isinstance(pipeline, Mapping) else pipeline, limits)


def _drafts(
    document: Mapping[str, Any], reader: ComponentReader, limits: Limits, pause: Callable[[], None]
) -> list[ComponentSpec]:
    components = document.get("components")
    if not isinstance(components, list) or len(components) > limits.max_components:
        return []
    found: list[ComponentSpec] = []
    for index, component in enumerate(components):
        if index % 64 == 0:
            pause()
        found.append(reader.read(component, index))
    return found


def _pause(stop: Callable[[], bool] | None) -> Callable[[], None]:
    """Make a function to call regularly; it raises `Cancelled` when `stop` returns true."""

    def pause() -> None:
        if stop is not None and stop():
            raise Cancelled("The check was stopped")

    return pause


def _caused(found: tuple[Problem, ...], syntax: tuple[Problem, ...], where: SourceMap) -> tuple[Problem, ...]:

    return tuple(without_consequences(syntax, found[len(syntax) :], where))


def _sifted(found: tuple[Problem, ...], given: ParsedText, without_value: Set[str], redactor: Redactor) -> tuple[Problem, ...]:
    """Sort the problems in the order of the text, and remove repeated ones and values of variables."""
    misplaced = {problem.path for problem in found if problem.code == "misplaced_key"}
    no_names = {problem.path for problem in found if problem.code == "variable_in_name"}
    kept: list[Problem] = []
    if given.map is not None:
        if given.problems:
            found = _caused(found, given.problems, given.map)
        found = tuple(sorted(found, key=given.map.span_of))
    for problem in found:
        consequence = problem.path in without_value and problem.code == "invalid_config"
        consequence = consequence or (problem.path in misplaced and problem.code == "unknown_config_key")
        consequence = consequence or (problem.path in no_names and problem.code != "variable_in_name")
        if problem.span is None and given.map is not None and given.map.is_hole(problem.path):
            consequence = True
        if not consequence:
            kept.append(problem.rewritten(redactor.text) if redactor.knows_any else problem)
    return tuple(kept)


_STRUCTURAL: Final = frozenset(
    {
        *("unclosed", "unexpected_closer", "trailing_text", "missing_bracket", "missing_brace", "expected_key"),
        *(
            "expected_value",
            "expected_colon",
            "unexpected_text",
            "unterminated_string",
            "unterminated_comment",
            "unquoted_text",
        ),
    }
)
"""Errors after which the text means something else than its author does."""

_LITERAL: Final = frozenset({"single_quotes", "invalid_escape", "control_character", "not_finite", "not_utf8", "wrapped"})
"""Errors of one token, whatever stands around it."""

_ON_THEIR_OWN: Final = frozenset(
    {
        *("unknown_provider", "foreign_provider", "provider_unavailable", "unknown_key", "misplaced_key", "wrong_type"),
        "missing_key",
        *("unresolved_variable", "variable_not_allowed", "variable_in_name", "variable_in_project_id", "invalid_version"),
        *("profile_not_found", "beside_profile", "profile_not_selected", "unknown_config_key", "invalid_config"),
    }
)
"""Problems that depend on one value alone."""


def without_consequences(syntax: Sequence[Problem], others: Iterable[Problem], where: SourceMap) -> Iterator[Problem]:
    """The problems of a text without the consequences of its first structural error: later errors of the structure, and
    problems of what does not stand complete in the lines before it. An error behind the components touches none of them.

    `syntax` has the parse errors in the order in which they were found.
    """
    first = next((place for place, problem in enumerate(syntax) if _is_structural(problem)), None)
    if first is None or (syntax[first].code == "unclosed" and first == len(syntax) - 1):  # what lacks is the end of the text
        yield from syntax
        yield from others
        return
    cause = syntax[first]
    at = where.span_of(cause)[0]
    line, _ = where.position(at)
    yield from syntax[: first + 1]
    for problem in syntax[first + 1 :]:
        if problem.code in _LITERAL and where.position(where.span_of(problem)[0])[0] != line:
            yield problem
    begin = where.offset(line, 1)
    components = where.find("/components") or where.find("/pipeline/components")
    is_behind = components is not None and components.kind == "array" and components.end <= at
    for problem in others:
        is_known = problem.code in _ON_THEIR_OWN and where.nearest(problem.path).end < begin
        if is_behind or is_known or problem.span is not None:
            yield problem


def _is_structural(problem: Problem) -> bool:
    return problem.code in _STRUCTURAL and not problem.near
