"""A text that is not quite a pipeline: text around the pipeline is one problem, a lost character is at most three problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.errors import InvalidPipeline
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.text.problems import Problem
from rrext.pipefile.text.source import parse

CATALOG = Catalog(installed=False)
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.pipe"))
GOOD = json.dumps(json.loads((Path(__file__).parents[1] / "examples" / "echo.pipe").read_text()), indent=2)
FENCE = "```json\n{}\n```\n"
AROUND = [
    FENCE,
    'Here is the pipeline that you asked for:\n\n```json\n{}\n```\n\nIt\'s done. {{Say}} if [more] is "needed".\n',
    "Sure!\n{}\nHope this helps: tell me.",
    "pipeline = {}",
    "const pipeline: Pipeline = {};\n",
    "#!/usr/bin/env -S rrext serve\n{}\n",
    "// a comment\n~~~\n{}\n~~~",
]


def problems(text: str) -> tuple[Problem, ...]:
    return load_pipeline(text, CATALOG, Environment({}), strict_env=False, positions=True).problems


def codes(text: str) -> list[str]:
    return [problem.code for problem in problems(text)]


@pytest.mark.parametrize("around", AROUND)
def test_the_pipeline_in_other_text_is_read_and_that_text_is_one_problem(around: str) -> None:
    text = around.format(GOOD)
    assert parse(text).value == json.loads(GOOD)
    assert codes(text) == ["wrapped"]
    (problem,) = problems(text)
    assert problem.severity == "error"
    assert problem.span is not None
    assert text[: problem.span[0]] in ("", "// a comment\n")


@pytest.mark.parametrize("around", AROUND)
def test_the_rest_of_a_wrapped_pipeline_is_checked_too(around: str) -> None:
    text = around.format(GOOD.replace('"webhook"', '"webhok"', 1))
    assert set(codes(text)) - {"wrapped"} == {"unknown_provider"}
    with pytest.raises(InvalidPipeline, match="around it stands") as caught:
        load_pipeline(text, CATALOG, Environment({})).require()
    assert {found["code"] for found in caught.value.data["problems"]} == {"wrapped", "unknown_provider"}


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}[]\"'/#\u2018\u2019\u201c\u201d"), max_size=60))
@example("```\n")
@example("a: b = c\n")
def test_prose_around_a_pipeline_never_hides_it(prose: str) -> None:
    text = prose + GOOD
    assert parse(text).value == json.loads(GOOD)
    assert codes(text) in ([], ["wrapped"])
    assert (codes(text) == []) == (not prose.strip(" \t\r\n\ufeff"))


@pytest.mark.parametrize("piece", ["{/*", "{//", "{a/*", "#!\n", '"\u201d/*', "{//\n//{\n", "\u201d /*", "{\n\n", "`{a ", '{"'])
def test_a_long_text_of_anything_is_read_in_time_that_grows_with_its_length(piece: str) -> None:
    """As a deadline: a quadratic search of these texts takes minutes."""
    for text in ("x" + piece * 200_000, '"' + piece * 200_000 + '"', piece * 200_000):
        parse(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"id"', "\u201cid\u201d"),
        ('"webhook_1"', "\u201cwebhook_1\u201d"),
        ('"webhook_1"', "\u201ewebhook_1\u201c"),
        ('"webhook_1"', '"webhook_1\u201d'),
        ('"id"', '"id\u201d'),
        ('"id"', '\u201cid"'),
        ('"id"', "\u2018id\u2019"),
    ],
)
def test_curly_quotes_are_wrong_quotes_and_no_part_of_the_text(old: str, new: str) -> None:
    for good in (GOOD, json.dumps(json.loads(GOOD))):
        text = good.replace(old, new, 1)
        assert parse(text).value == json.loads(GOOD)
        assert codes(text) == ["single_quotes"]


def test_all_quotes_of_a_text_may_be_curly() -> None:
    pieces = GOOD.split('"')
    curly = "".join(
        piece + ("\u201c\u201d"[place % 2] if place < len(pieces) - 1 else "") for place, piece in enumerate(pieces)
    )
    assert parse(curly).value == json.loads(GOOD)
    assert set(codes(curly)) == {"single_quotes"}


def test_curly_quotes_inside_of_a_text_are_text() -> None:
    text = json.dumps({"a": "He said \u201chi\u201d, and went.", "b\u201d": "\u201cx\u201d", "c": "\u201d"}, ensure_ascii=False)
    found = parse(text)
    assert (found.value, found.problems) == (json.loads(text), ())


def test_a_line_after_a_number_sign_is_a_comment_that_is_written_wrong() -> None:
    lines = GOOD.splitlines()
    text = "\n".join([f"{line} # it's {{ a }} \"note" if place % 3 else line for place, line in enumerate(lines)])
    found = parse(text)
    assert found.value == json.loads(GOOD)
    assert {(problem.code, problem.near) for problem in found.problems} == {("unexpected_text", ("//",))}


def test_edges_in_a_config_and_a_type_in_place_of_a_provider_are_named() -> None:
    found = problems('{"components": [{"id": "w", "type": "webhook", "config": {"input": [{"lane": "text", "from": "w"}]}}]}')
    named = {problem.code: problem.message for problem in found}
    assert 'write "provider": "webhook"' in named["missing_key"]
    assert '"input" belongs beside config' in named["misplaced_key"]


# one lost character


def test_a_misspelt_key_of_an_id_does_not_lose_the_edges_from_it() -> None:
    assert codes(GOOD.replace('"id"', '"idd"', 1)) == ["missing_key", "unknown_key"]


def worst(text: str) -> list[tuple[int, str, list[str]]]:
    """Which lost characters give more than three problems, with the text around each."""
    found: list[tuple[int, str, list[str]]] = []
    for at in range(len(text)):
        left = codes(text[:at] + text[at + 1 :])
        if len(left) > 3:
            found.append((at, text[max(at - 10, 0) : at + 10], left))
    return found


@pytest.mark.promise("editor:problems:no-consequences")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_one_lost_character_is_at_most_three_problems(path: Path) -> None:
    assert worst(path.read_text()) == []


@given(st.data())
def test_one_lost_character_of_any_layout_is_at_most_three_problems(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES)).read_text()
    value = json.loads(text) if parse(text).problems == () and "//" not in text else parse(text).value
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1, 4, "\t"])))
    at = data.draw(st.integers(0, len(text) - 1))
    left = codes(text[:at] + text[at + 1 :])
    assert len(left) <= 3, (text[max(at - 20, 0) : at + 20], left)


def test_what_stands_complete_before_a_parse_error_is_still_checked() -> None:
    text = '{"components": [\n{"id": "a", "provider": "webhok", "config": {}},\n{"id": "b", "provider: "chat", "config": {}}]}'
    assert codes(text)[0] == "unknown_provider"
    assert len(codes(text)) == 2
