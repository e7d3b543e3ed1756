"""`NAME.cases.json`, the cases of `NAME.pipe`: what is sent to a tool or a lane, and what is expected of it.

The text is JSON with comments and trailing commas.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from rrext.errors import near_matches
from rrext.nodes.base.lanes import LANES
from rrext.pipefile.text.problems import Problem, Severity, below, pointer
from rrext.pipefile.text.source import SourceMap, parse
from rrext.testing.expectations import MATCHERS, flaws
from rrext.tools.validation import SchemaValidator
from rrext.tools.validation import pointer as cut_pointer

ENDING: Final = ".cases.json"
TIMEOUT: Final = 30.0
"""Seconds that a case may take, unless it says how many."""
MOST_PROBLEMS: Final = 50
"""Problems of a file of cases that are told."""

_NAME: Final = {"type": "string", "minLength": 1}
_ANYTHING: Final[dict[str, Any]] = {}
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Cases of a RocketRide pipeline",
    "type": "object",
    "properties": {"$schema": {"type": "string"}, "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}}},
    "required": ["cases"],
    "additionalProperties": False,
    "$defs": {
        "case": {
            "type": "object",
            "properties": {
                "name": {**_NAME, "description": "What holds, as a sentence."},
                "tool": {**_NAME, "description": "The tool that is called."},
                "node": {**_NAME, "description": "The node that is asked, if several have the tool."},
                "lane": {"enum": list(LANES), "description": "The lane on which one object enters the pipeline."},
                "source": {**_NAME, "description": "The source at which it enters, if the pipeline has several."},
                "input": {
                    "description": "The input of the tool; or the object: a text, JSON, or {$file: path beside this file}."
                },
                "expect": {"description": f"The result. An object with one of {', '.join(MATCHERS)} stands for many values."},
                "error": {
                    "description": "The failure that is expected: its code, or {code, message, hint, data}, as far as given.",
                    "anyOf": [_NAME, {"$ref": "#/$defs/error"}],
                },
                "timeout": {"type": "number", "exclusiveMinimum": 0, "description": f"Seconds; else {TIMEOUT:g}."},
                "user": {**_NAME, "description": "The user whose call it is."},
                "space": {**_NAME, "description": "The space of the call."},
                "stub": {
                    "description": "Stand-ins of nodes, by their ids.",
                    "type": "object",
                    "additionalProperties": {"$ref": "#/$defs/standIn"},
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "error": {
            "type": "object",
            "properties": {"code": _ANYTHING, "message": _ANYTHING, "hint": _ANYTHING, "data": _ANYTHING},
            "additionalProperties": False,
            "minProperties": 1,
        },
        "standIn": {
            "type": "object",
            "properties": {
                "tools": {"type": "object", "description": "Result by tool; {$error: {code, message}} is a failure."},
                "lanes": {
                    "type": "object",
                    "description": "Lane on which an object comes in: {lane out: what is sent}.",
                    "additionalProperties": {"type": "object", "propertyNames": {"enum": list(LANES)}},
                    "propertyNames": {"enum": list(LANES)},
                },
                "script": {"type": "array", "description": "Of a model: the script of an `llm_scripted` in its place."},
                "default": {"description": "Of a model: the answer where no line of the script fits."},
            },
            "additionalProperties": False,
            "minProperties": 1,
        },
    },
}
"""The JSON Schema of a file of cases, after comments and trailing commas are removed."""


class Case(msgspec.Struct, frozen=True):
    """One case. `index` is its place in the file."""

    name: str
    index: int = 0
    tool: str = ""
    node: str = ""
    lane: str = ""
    source: str | None = None
    input: Any = msgspec.UNSET
    expect: Any = msgspec.UNSET
    error: str | dict[str, Any] | None = None
    timeout: float = TIMEOUT
    user: str | None = None
    space: str | None = None
    stub: dict[str, dict[str, Any]] = {}


class CaseFile:
    """The cases of a pipeline, and the problems of their file; with a problem there are no cases."""

    def __init__(self, path: str, text: bytes) -> None:
        self.path = path
        self.text = text
        parsed = parse(text)
        assert parsed.map is not None  # `parse` always makes one
        self.map: SourceMap = parsed.map
        found = list(parsed.problems)
        if [problem.code for problem in found] == ["empty_file"]:
            found = [Problem("empty_file", "error", 'There is nothing here: a file of cases is {"cases": []}.', span=(0, 0))]
        if not any(problem.severity == "error" for problem in found):
            found += _problems(parsed.value)
        self.problems: list[Problem] = found
        self.cases: list[Case] = []
        if not any(problem.severity == "error" for problem in found):
            cases = enumerate(parsed.value["cases"])
            self.cases = [msgspec.convert({**case, "index": index}, Case) for index, case in cases]

    @property
    def pipeline(self) -> str:
        """The path of the pipeline."""
        return pipeline_path(self.path)

    @property
    def folder(self) -> str:
        """The folder of both files, in which paths of `$file` begin."""
        return os.path.dirname(os.path.abspath(self.path))

    def place(self, problem: Problem) -> tuple[int, int]:
        """Line and column of a problem."""
        return self.map.position(self.map.span_of(problem)[0])

    def line_of(self, case: Case) -> int:
        """The line on which a case begins."""
        return self.map.position(self.map.span(pointer("cases", case.index))[0])[0]

    def with_expectations(self, new: Iterable[tuple[Case, Any]]) -> str:
        """The text with other expectations of some cases; comments beside them stay."""
        text = self.map.text
        for case, value in sorted(new, key=lambda each: -each[0].index):
            at = pointer("cases", case.index)
            located = self.map.find(at)
            assert located is not None  # it was read from there
            indent = re.match(r"[ \t]*", self.map.line(self.map.position(located.children[0].start)[0]))
            margin = indent[0] if indent is not None else ""
            shown = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().replace("\n", f"\n{margin}")
            old = self.map.find(below(at, "expect"))
            if old is not None:
                text = text[: old.start] + shown + text[old.end :]
                continue
            end = located.children[-1].end
            space = f"\n{margin}" if "\n" in text[located.start : located.end] else " "
            text = f'{text[:end]},{space}"expect": {shown}{text[end:]}'
        return text


def cases_path(path: str) -> str:
    """The file of the cases of a pipeline, or that file itself."""
    return path if path.endswith(ENDING) else f"{path.removesuffix('.pipe')}{ENDING}"


def pipeline_path(path: str) -> str:
    """The pipeline of a file of cases."""
    return f"{path.removesuffix(ENDING)}.pipe"


def _problems(value: Any) -> Iterator[Problem]:
    """What is wrong with the cases."""
    validator = SchemaValidator(SCHEMA)
    if not validator.fits(value):
        for path, text in validator.problems(value, MOST_PROBLEMS):
            if len(path) == 3 and text.startswith("unexpected property") and "did you mean" not in text:
                text = f"{text}: a case has {', '.join(SCHEMA['$defs']['case']['properties'])}"
            yield _problem(text, cut_pointer("", path))
        return
    names: dict[str, int] = {}
    for index, case in enumerate(value["cases"]):
        at = pointer("cases", index)
        if case["name"] in names:
            yield _problem(f"case {names[case['name']] + 1} has this name too", below(at, "name"))
        names.setdefault(case["name"], index)
        yield from _problems_of(case, at)
        yield from _shapes_of(case, at)


def _problems_of(case: dict[str, Any], at: str) -> Iterator[Problem]:
    if ("tool" in case) == ("lane" in case):
        yield _problem("a case has a tool or a lane, and not both", at)
    for key, other in (("node", "tool"), ("source", "lane")):
        if key in case and other not in case:
            yield _problem(f'"{key}" belongs to a case with a {other}', below(at, key))
    if "expect" in case and "error" in case:
        yield _problem("a case expects a result or an error, and not both", below(at, "error"))
    for key in ("expect", "error"):
        for path, text in flaws(case.get(key), below(at, key)):
            yield _problem(text, path)
    for key in _dollars(case.get("expect")):
        near = near_matches(key, MATCHERS)
        if near:
            text = f'"{key}" is compared as a name of the result; did you mean {" or ".join(near)}?'
            yield _problem(text, below(at, "expect"), "warning")


def _shapes_of(case: dict[str, Any], at: str) -> Iterator[Problem]:
    """The objects with one key that are of another shape than that says."""
    given = case.get("input")
    if "lane" in case and isinstance(given, dict) and given.keys() == {"$file"} and not isinstance(given["$file"], str):
        yield _problem("expected the path of a file", below(at, "input", "$file"))
    for node, stand_in in case.get("stub", {}).items():
        for tool, result in stand_in.get("tools", {}).items():
            if isinstance(result, dict) and result.keys() == {"$error"} and not _ERROR.fits(result["$error"]):
                yield _problem(
                    "expected a code, or {code, message, hint, data}", below(at, "stub", node, "tools", tool, "$error")
                )


_ERROR: Final = SchemaValidator(
    {
        "anyOf": [
            _NAME,
            {
                "type": "object",
                "properties": {
                    "code": _NAME, "message": {"type": "string"}, "hint": {"type": "string"}, "data": {"type": "object"},
                },
                "additionalProperties": False,
            },
        ]
    }
)  # fmt: skip
"""What a stand-in raises."""


def _dollars(value: Any) -> Iterator[str]:
    """The names beginning with `$` that are alone in their object and no matcher."""
    if isinstance(value, dict):
        if len(value) == 1:
            yield from (key for key in value if key.startswith("$") and key not in MATCHERS)
        for each in value.values():
            yield from _dollars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _dollars(each)


def _problem(text: str, path: str, severity: Severity = "error") -> Problem:
    return Problem("invalid_cases", severity, text, path, on="key" if text.startswith("unexpected property") else "value")
