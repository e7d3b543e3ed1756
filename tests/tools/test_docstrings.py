"""Docstrings of three styles say what a tool and its parameters are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.tools.signature import parse_docstring

GOOGLE = """Search the library.

    Slowly.

    Args:
        query: What to look for,
            in words.
        limit (int, optional): How many. Note: at most 10.

        *names: More.

    Returns:
        A list: of hits.
    """
NUMPY = """Search the library.

    Slowly.

    Parameters
    ----------
    query : str
        What to look for,
        in words.
    limit : int, optional
        How many. Note: at most 10.
    *names
        More.

    Returns
    -------
    list
        Hits.
    """
REST = """Search the library.

    Slowly.

    :param query: What to look for,
        in words.
    :type query: str
    :param int limit: How many. Note: at most 10.
    :param names: More.
    :returns: Hits.
    """
PARAMETERS = {"query": "What to look for, in words.", "limit": "How many. Note: at most 10.", "names": "More."}


@pytest.mark.parametrize(
    ("doc", "rest"),
    [
        (GOOGLE, "\n\nReturns:\n    A list: of hits."),
        (NUMPY, "\n\nReturns\n-------\nlist\n    Hits."),
        (REST, "\n\n:returns: Hits."),
    ],
    ids=["google", "numpy", "rest"],
)
def test_parameters_are_taken_out_and_the_rest_stays(doc: str, rest: str) -> None:
    parsed = parse_docstring(doc)
    assert parsed.parameters == PARAMETERS
    assert parsed.text == "Search the library.\n\nSlowly." + rest


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Args:", "Args:"),
        ("Args:\nnothing indented", "Args:\nnothing indented"),
        ("See Args: below", "See Args: below"),
        ("Parameters\nare not underlined", "Parameters\nare not underlined"),
    ],
)
def test_what_is_no_section_is_text(doc: str | None, text: str) -> None:
    parsed = parse_docstring(doc)
    assert parsed.text == text
    assert parsed.parameters == {}


LINES = st.sampled_from(
    ["Args:", "    a: b", "        c", "", "Parameters", "---", "----------", "x : int", ":param q: z", "text"]
)


@given(st.one_of(st.text(), st.lists(LINES).map("\n".join)))
def test_no_docstring_is_an_error(doc: str) -> None:
    parsed = parse_docstring(doc)
    assert isinstance(parsed.text, str)
    assert all(name.isidentifier() for name in parsed.parameters)
