"""A missing ] is reported as that, at its list, wherever it stood, and its fix gives the pipeline that was meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rrext.cli.commands.authoring.check import fixed_text
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
WRITTEN: dict[str, Any] = {
    "components": [
        {"id": "w", "provider": "webhook", "config": {}},
        {
            "id": "f",
            "provider": "response_text",
            "config": {"x": [1, 2], "y": []},
            "input": [{"lane": "text", "from": "w"}],
            "control": [{"classType": "tool", "from": "w"}],
            "name": "files",
        },
    ],
    "source": "w",
    "version": 1,
}
TEXTS = {
    **{path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.pipe"))},
    "in one line": json.dumps(WRITTEN),
    "with an indentation": json.dumps(WRITTEN, indent=2),
    "with tabs": json.dumps(WRITTEN, indent="\t"),
    "with commas at the ends": json.dumps(WRITTEN, indent=2).replace("}\n", "},\n").replace("]\n", "],\n").removesuffix(","),
}


def loaded(text: str) -> LoadedPipeline:
    return load_pipeline(text, Catalog(), Environment(), positions=True, strict_env=False)


def without_each(text: str) -> list[tuple[int, str]]:
    """The place of the bracket of each list, and the text without its ]."""
    opened, found = list[int](), list[tuple[int, str]]()
    for sign in re.finditer(r'"(?:[^"\\]|\\.)*"|//[^\n]*|([\[\]])', text):
        if sign[1] == "[":
            opened.append(sign.start())
        elif sign[1] == "]":
            found.append((opened.pop(), text[: sign.start()] + text[sign.end() :]))
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_each_missing_bracket_of_a_list_is_told_and_fixed(name: str) -> None:
    whole = loaded(TEXTS[name])
    assert whole.source_map is not None
    others, value = [problem.code for problem in whole.problems], whole.source_map.root.value
    for place, text in without_each(TEXTS[name]):
        broken = loaded(text)
        assert broken.source_map is not None
        (told,) = [problem for problem in broken.problems if problem.code not in others]
        assert (told.code, told.message, told.span) == ("unclosed", "[ is never closed: ] is missing.", (place, place + 1))
        assert broken.source_map.root.value == value
        fixed = fixed_text(text.encode(), Catalog(), Environment(), None)
        assert fixed is not None
        meant = loaded(fixed)
        assert meant.source_map is not None
        assert ([problem.code for problem in meant.problems], meant.source_map.root.value) == (others, value)


def test_the_place_of_a_missing_bracket_is_told_too() -> None:
    told = loaded('{"components": [{"id": "w", "provider": "webhook"},\n "source": "w"}').problems[0]
    assert [(place.message, place.span) for place in told.related] == [("] is missing before this.", (53, 54))]
