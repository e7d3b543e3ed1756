"""Names that could have been meant: the same ones as comparing all finds, found faster, and within a budget."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.errors import near_matches
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.near_names import NearNames, is_typing_mistake, resembles

names = st.text("ab_-A1", max_size=8) | st.text(max_size=4)


@given(names, st.lists(names, max_size=20).map(tuple))
@example("", ("", "a"))
@example("prompt_12", tuple(f"prompt_{n}" for n in range(30)))
@example("ab", ("ba", "ab", "aab", "abb", "bab"))
@example("Ab_c", ("abc", "xyz", "Ab_d", "Ab_e", "Ab_f"))
def test_the_names_are_those_that_comparing_all_of_them_finds(name: str, known: tuple[str, ...]) -> None:
    alike = [other for other in known if resembles(name, other)]
    assert NearNames().of(name, known) == tuple(near_matches(name, alike))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("llm_anthropic", "llm_openai"),
        ("tool_github", "tool_python"),
        ("store_chroma", "store_pgvector"),
        ("memory_persistent", "memory_internal"),
        ("split_2", "split_1"),
        ("prompt_12", "prompt_11"),
        ("node_1234", "node_1235"),
    ],
)
def test_another_vendor_and_another_number_are_other_names(name: str, other: str) -> None:
    assert not resembles(name, other)
    assert NearNames().of(name, (other,)) == ()
    assert not is_typing_mistake(name, other)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("webhok", "webhook"),
        ("wehbook", "webhook"),
        ("chatt", "chat"),
        ("txt", "text"),
        ("form", "from"),
        ("lrge", "large"),
        ("llm_opnai", "llm_openai"),
        ("llmopenai", "llm_openai"),
        ("LLM-OpenAI", "llm_openai"),
        ("tool_pyhton", "tool_python"),
        ("response_txt", "response_text"),
        ("embedding_transformers", "embedding_transformer"),
        ("chat_l", "chat_1"),
        ("chat", "chat_1"),
        ("agnt_1", "agent_1"),
    ],
)
def test_a_slip_of_the_fingers_is_a_typing_mistake(name: str, meant: str) -> None:
    assert resembles(name, meant)
    assert is_typing_mistake(name, meant)
    assert NearNames().of(name, (meant,)) == (meant,)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("openai", "llm_openai"),
        ("store_qdrant", "store_qdrant_edge"),
        ("db_mssql", "db_mysql"),
        ("llm_llama", "llm_ollama"),
        ("chat_1", "chat"),
        ("chat_1", "chat_1_2"),
        ("openai", "apenai"),
        ("webhook", "webhook"),
    ],
)
def test_a_name_that_only_resembles_another_is_no_typing_mistake(name: str, other: str) -> None:
    assert resembles(name, other)
    assert not is_typing_mistake(name, other)


@given(names, names)
def test_a_typing_mistake_resembles_what_was_meant(name: str, meant: str) -> None:
    if is_typing_mistake(name, meant):
        assert name != meant
        assert resembles(name, meant)


def test_an_alias_is_found_and_no_node_is_found_twice() -> None:
    catalog = Catalog(installed=False)
    found = NearNames().of("embedding_transformers", catalog.names_and_aliases())
    assert found == ("embedding_transformer",)
    assert catalog.distinct(("store_postgres", "postgres", "db_postgres")) == ("store_postgres", "db_postgres")


KNOWN = ("model", "tokens", "Calls")


def test_beyond_the_budget_only_names_that_differ_in_case_and_marks_are_found() -> None:
    near = NearNames(budget=5)
    assert near.of("modle", KNOWN) == ("model",)
    assert near.of("modle", KNOWN) == ("model",), "asked again it costs nothing"
    assert near.of("tokenz", KNOWN) == ()
    assert near.of("ca_lls", KNOWN) == ("Calls",)
