"""Problems of pipeline files: records with a stable code, a severity, a message and a place, and their JSON for readers of the
text.

JSON pointers (RFC 6901) name the places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rrext.limits import DEFAULTS

if TYPE_CHECKING:
    from rrext.pipefile.text.source import SourceMap


def pointer(*parts: str | int) -> str:
    """`("components", 0, "a/b")` → `/components/0/a~1b`; nothing → the empty pointer, the whole document."""
    return below("", *parts)


def below(path: str, *parts: str | int) -> str:
    """The pointer of a value inside the value at `path`."""
    for part in parts:
        path += f"/{part}" if type(part) is int else f"/{_escaped(str(part))}"
    return path


def parts_of(path: str) -> list[str]:
    """The keys and indexes of a pointer, unescaped. List indexes stay strings."""
    if not path:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def value_at(value: Any, place: str) -> Any:
    """The value at a pointer; `UNSET` if there is none."""
    for part in parts_of(place):
        if isinstance(value, list) and part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return msgspec.UNSET
    return value


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


Severity = Literal["error", "warning", "information"]
Span = tuple[int, int]
"""Start and end in the text, in code points; the end is not included."""

CODES: dict[str, tuple[Severity, str]] = {
    # the text
    "not_utf8": ("error", "The file is not UTF-8."),
    "empty_file": ("error", "The file holds no value at all."),
    "wrapped": ("error", "Text around the pipeline: a Markdown fence, prose, `pipeline = `, a `#!` line."),
    "too_large": ("error", "The file is larger than `max_pipeline`."),
    "too_deep": ("error", "Objects and lists are nested deeper than `max_depth`."),
    "expected_value": ("error", "A value is missing, for example after a colon."),
    "expected_key": ("error", "A key in double quotes is missing."),
    "expected_colon": ("error", "The colon after a key is missing."),
    "expected_comma": ("error", "The comma between two members or elements is missing."),
    "extra_comma": ("error", "A comma with nothing before it; one comma after the last element is fine."),
    "missing_bracket": ("error", "Several objects where one value can stand: the [ of a list is missing before the first."),
    "missing_brace": ("error", "A key where only a value can stand: braces around the members are missing."),
    "unclosed": ("error", "A bracket is never closed."),
    "unexpected_closer": ("error", "A closing bracket that closes nothing."),
    "unexpected_text": ("error", "Text that is no JSON."),
    "trailing_text": ("error", "Text after the end of the value."),
    "unterminated_string": ("error", "A string without closing quote."),
    "unterminated_comment": ("error", "A comment without `*/`."),
    "unquoted_text": ("error", "A key or a text without double quotes."),
    "single_quotes": ("error", "Single or curly quotes where JSON has straight double quotes."),
    "invalid_escape": ("error", "A backslash sequence that JSON does not have."),
    "control_character": ("error", "A control character that must be escaped inside a string."),
    "invalid_number": ("error", "A number that JSON does not have, such as `01` or `.5`, or that is too large."),
    "not_finite": ("error", "NaN or Infinity."),
    "duplicate_key": ("error", "A key that stands twice in one object."),
    # the shape
    "wrong_type": ("error", "A value of the wrong JSON type."),
    "missing_key": ("error", "A key that must be there is missing."),
    "misplaced_key": ("error", "`control` or `input` inside of `config`; they belong beside it."),
    "unknown_key": ("warning", "A key that resembles one that has a meaning."),
    "invalid_version": ("error", "A `version` that this program does not know."),
    "too_many_components": ("error", "More components than `max_components`."),
    "invalid_resources": ("error", "A member of `resources` that is no resource, or a value that no machine can have."),
    "resources_ignored": ("warning", "`resources` that have no effect on one machine: processors, and the node of a cluster."),
    "duplicate_id": ("error", "Two components with one id."),
    "unknown_provider": ("error", "No installed node has that provider name."),
    "foreign_provider": ("error", "A node of RocketRide that is not part of rrext."),
    "provider_unavailable": ("error", "The node is known, but its code cannot be imported."),
    "node_unavailable": (
        "error",
        "The node cannot run on this machine; the message says what to install.",
    ),
    "tool_undescribed": ("error", "A tool of the node cannot be described: its schema or its definition is wrong."),
    "not_permitted": (
        "error",
        "A setting `allow_…` in the pipeline of a network client, which only the operator permits; a path out of `--root`.",
    ),
    "not_on_cluster": (
        "error",
        "On a cluster: a path of the server, or a connection that stays on it; the message says what to do.",
    ),
    # variables
    "unresolved_variable": ("error", "A `${NAME}` that has no value. A warning where nothing is run."),
    "variable_not_allowed": ("error", "A `${NAME}` that pipelines may not read. A warning where nothing is run."),
    "variable_in_name": ("error", "A `${NAME}` in an id, a provider, an edge or `source`: names must be literal."),
    "literal_secret": ("warning", "A key or password that stands in the file; a `${NAME}` would keep it out."),
    "variable_in_project_id": ("error", "`project_id` must be literal."),
    # config
    "profile_not_found": (
        "error",
        "`config.profile` names no profile of the node. A warning where it may be one of RocketRide's node of that name.",
    ),
    "beside_profile": ("warning", "A config key beside its profile section: it is not used."),
    "profile_not_selected": ("warning", "A profile section that `profile` does not select: it is not used."),
    "missing_file": ("error", "A setting names a file or folder that is not there."),
    "caution": ("warning", "A setting that leaves something undone, or will end; the message says what, and the way out."),
    "package_not_offered": ("warning", "A setting names a package for programs that the operator does not offer."),
    "unknown_config_key": ("warning", "A config key that the node does not know."),
    "invalid_config": ("error", "A config value that the node does not accept."),
    # edges
    "from_not_found": ("error", "`from` names no component."),
    "unknown_lane": ("error", "No node has a lane of that name."),
    "lane_not_offered": (
        "error",
        "The producing node does not send on that lane. A warning where RocketRide's node of that name does.",
    ),
    "lane_not_accepted": ("error", "The consuming node does not accept that lane."),
    "duplicate_edge": ("warning", "The same edge twice: everything would arrive twice."),
    "class_type_not_served": ("error", "The controlled node does not serve that class type."),
    "control_on_invoker": ("error", "A control edge on the node that invokes; it belongs on the controlled node."),
    "cycle": ("error", "Data edges that lead back to where they came from."),
    "control_cycle": ("error", "Control edges that lead back to where they came from."),
    "invoke_missing": ("warning", "A node needs more nodes bound to it by control than it has."),
    "invoke_excess": ("warning", "A node has more nodes bound to it by control than it uses."),
    # references to tools
    "invalid_reference": ("error", "A reference to a tool that is not in its form, or does not fit the tool."),
    "reference_not_found": ("error", "A reference names a node, a tool or a connection that is not there."),
    "duplicate_reference": ("error", "Two references of one node offer the same name."),
    # the whole
    "no_source": ("error", "No component is a source."),
    "multiple_sources": ("warning", "Several sources, and `source` names none: each object names its own."),
    "source_not_found": ("error", "`source` names no component."),
    "not_a_source": ("error", "`source` names a node that is no source."),
    "other_source": ("information", "A source that this run does not start from."),
    "not_connected": ("warning", "A node that nothing reaches from the source."),
    "no_response": ("warning", "Objects leave no result: no response node is reached."),
    "output_unread": ("warning", "Nothing reads what a node sends."),
    "source_unread": ("warning", "Nothing reads what the source sends: `send` or `chat` have no effect."),
    "response_key_unread": ("warning", "A response key for a lane that does not arrive."),
    # all of it
    "cannot_run": ("error", "The nodes cannot be put together; the message says why."),
    "too_many_problems": ("information", "There are more problems than `max_problems`; only the first are listed."),
}
"""Code → (usual severity, meaning). The complete list."""


class Related(msgspec.Struct, frozen=True, gc=False):
    """Another place that is related to a problem."""

    path: str
    message: str
    span: Span | None = None


class Problem(msgspec.Struct, frozen=True, gc=False):
    """A problem of a pipeline file.

    `path` is a JSON pointer into the document as written, also of a missing member. `on` tells whether the problem is in the
    key or in the value, `part` in which piece of its text. `span` is given where no pointer is exact (broken text, the second
    of two equal keys). `near` are near matches; the message lists them too.
    """

    code: str
    severity: Severity
    message: str
    path: str = ""
    related: tuple[Related, ...] = ()
    near: tuple[str, ...] = ()
    on: Literal["key", "value"] = "value"
    span: Span | None = None
    part: str = ""

    def as_json(self) -> dict[str, Any]:
        """Convert the problem to JSON."""
        related = [{"path": other.path, "message": other.message} for other in self.related]
        shown: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "path": self.path,
            "related": related,
        }
        if self.near:
            shown["near"] = list(self.near)
        return shown

    def rewritten(self, rewrite: Callable[[str], str]) -> Problem:
        """Copy the problem with `rewrite` applied to every text that a person reads."""
        return Problem(
            self.code,
            self.severity,
            rewrite(self.message),
            self.path,
            tuple(Related(other.path, rewrite(other.message), other.span) for other in self.related),
            tuple(rewrite(name) for name in self.near),
            self.on,
            self.span,
            self.part,
        )


class Problems:
    """A list of at most `limit` problems. `errors` counts all errors, listed or not; `cut`: some problems are not listed."""

    def __init__(self, limit: int = DEFAULTS.max_problems) -> None:
        self._found: list[Problem] = []
        self.limit = limit
        self.errors = 0
        self.cut = False

    def add(
        self,
        code: str,
        message: str,
        path: str = "",
        *,
        severity: Severity | None = None,
        related: Iterable[Related] = (),
        near: Iterable[str] = (),
        on: Literal["key", "value"] = "value",
        span: Span | None = None,
        part: str = "",
    ) -> None:
        """Add one problem, with the usual severity of its code unless one is given."""
        near = tuple(near)
        if near:
            message += " Did you mean " + " or ".join(f'"{name}"' for name in near) + "?"
        self.append(Problem(code, severity or CODES[code][0], message, path, tuple(related), near, on, span, part))

    def append(self, problem: Problem) -> None:
        """Add a problem."""
        self.errors += problem.severity == "error"
        if len(self._found) < self.limit:
            self._found.append(problem)
        else:
            self.cut = True

    def excuse(self, since: int, is_excusable: Callable[[Problem], bool]) -> list[Problem]:
        """Make warnings of excusable errors that were added after the first `since` problems; return those errors."""
        excused: list[Problem] = []
        for place in range(since, len(self._found)):
            problem = self._found[place]
            if problem.severity == "error" and is_excusable(problem):
                excused.append(problem)
                self._found[place] = msgspec.structs.replace(problem, severity="warning")
        self.errors -= len(excused)
        return excused

    @property
    def full(self) -> bool:
        """Whether the list has no room for more problems."""
        return len(self._found) >= self.limit

    def listing(self) -> tuple[Problem, ...]:
        """The problems, with `too_many_problems` at the end if some are not listed."""
        if not self.cut:
            return tuple(self._found)
        text = f"There are more problems: only {self.limit} are listed (max_problems)."
        return (*self._found, Problem("too_many_problems", CODES["too_many_problems"][0], text))

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def shown(text: str) -> str:
    """A piece of the user's text for a message: in quotes, cut at 60 characters."""
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}…"'


def located(problem: Problem, where: SourceMap | None) -> dict[str, Any]:
    """Convert a problem to JSON; for a text with `line`, `column`, `endLine` and `endColumn`, all from 1."""
    shown = problem.as_json()
    if where is None:
        return shown
    (start, end), related = where.span_of(problem), []
    line, column = where.position(start)
    end_line, end_column = where.position(end)
    for other, span in related_places(problem, where):
        other_line, other_column = where.position(span[0])
        related.append({**other, "line": other_line, "column": other_column})
    place = {"line": line, "column": column, "endLine": end_line, "endColumn": end_column}
    return {**shown, **place, "related": related}


def related_places(problem: Problem, where: SourceMap) -> Iterator[tuple[dict[str, str], Span]]:
    """The related places of a problem, each `{path, message}` with its span."""
    for other in problem.related:
        span = other.span if other.span is not None else where.span(other.path)
        yield {"path": other.path, "message": other.message}, span
