"""Names that could have been meant: the same ones as comparing all finds, found faster, and within a budget."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rrext.errors import near_matches
from rrext.pipefile.near_names import NearNames

names = st.text("ab_-A1", max_size=8) | st.text(max_size=4)


@given(names, st.lists(names, max_size=20).map(tuple))
@example("", ("", "a"))
@example("prompt_12", tuple(f"prompt_{n}" for n in range(30)))
@example("ab", ("ba", "ab", "aab", "abb", "bab"))
@example("Ab_c", ("abc", "xyz", "Ab_d", "Ab_e", "Ab_f"))
def test_the_names_are_those_that_comparing_all_of_them_finds(name: str, known: tuple[str, ...]) -> None:
    assert NearNames().of(name, known) == tuple(near_matches(name, known))


KNOWN = ("model", "tokens", "Calls")


def test_beyond_the_budget_only_names_that_differ_in_case_and_marks_are_found() -> None:
    near = NearNames(budget=5)
    assert near.of("modle", KNOWN) == ("model",)
    assert near.of("modle", KNOWN) == ("model",), "asked again it costs nothing"
    assert near.of("tokenz", KNOWN) == ()
    assert near.of("ca_lls", KNOWN) == ("Calls",)


def test_what_was_compared_before_costs_as_much_as_if_it_had_not_been() -> None:
    first = NearNames(budget=5)
    first.of("tokenz", KNOWN)
    second = NearNames(budget=5, former=first)
    assert second.of("modle", KNOWN) == ("model",)
    assert second.of("tokenz", KNOWN) == ()
    assert NearNames(budget=5, former=first).of("tokenz", KNOWN) == ("tokens",)


def test_questions_are_repeated_only_if_every_answer_would_be_the_same() -> None:
    near = NearNames(budget=6)
    near.of("modle", KNOWN)
    near.taken()
    near.of("tokenz", KNOWN)
    near.of("ca_lls", KNOWN)
    asked = near.taken()
    assert [question.found for question in asked] == [("tokens",), ("Calls",)]
    rich = NearNames(budget=9)
    assert not rich.repeat(asked), "it would compare the second name letter by letter"
    assert rich.of("modle", (*KNOWN, "x", "y", "z", "1", "2", "3")) == ("model",), "nothing of the budget is gone"
    same = NearNames(budget=3)
    assert same.repeat(asked)
    assert same.of("modle", KNOWN) == (), "the budget is gone"
