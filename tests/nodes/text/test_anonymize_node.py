"""`anonymize`: hidden values, texts that stay, and the report in the result."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidPipeline, ToolError, Unavailable
from rrext.nodes.text.anonymize import AnonymizeNode, OwnPattern, masked
from rrext.nodes.text.entity_kinds import KINDS, Entity, PatternRecognizer, without_overlaps
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import run_node, run_pipeline

from text_pipelines import component, pipeline  # isort: skip

pytest.importorskip("re2", reason="the extra `text` is not installed")


def hidden(*pieces: str, **settings: Any) -> str:
    (text,) = run_node(AnonymizeNode, "text", *pieces, config=settings)["text"]
    return text


def kinds(text: str) -> dict[str, str]:
    """What patterns find in a text, by kind."""
    return {entity.group: text[entity.start : entity.end] for entity in PatternRecognizer(KINDS).find(text, lambda: None)}


@pytest.mark.parametrize(
    ("text", "group", "found"),
    [
        ("write to john.smith@example.com.", "EMAIL", "john.smith@example.com"),
        ("schreib an jörg@müller-bäcker.example, bitte", "EMAIL", "jörg@müller-bäcker.example"),
        ("call 555-123-4567 now", "PHONE", "555-123-4567"),
        ("call (555) 123-4567 now", "PHONE", "(555) 123-4567"),
        ("Tel. +49 (0)30 1234567.", "PHONE", "+49 (0)30 1234567"),
        ("Tel. 0171 1234567.", "PHONE", "0171 1234567"),
        ("card 4111 1111 1111 1111!", "CREDIT_CARD", "4111 1111 1111 1111"),
        ("card 4111-1111-1111-1111!", "CREDIT_CARD", "4111-1111-1111-1111"),
        ("IBAN DE89 3704 0044 0532 0130 00 BANK", "IBAN", "DE89 3704 0044 0532 0130 00"),
        ("IBAN GB29NWBK60161331926819.", "IBAN", "GB29NWBK60161331926819"),
        ("from 192.168.1.10:80", "IP", "192.168.1.10"),
        ("from fe80::1ff:fe23:4567:890a on", "IP", "fe80::1ff:fe23:4567:890a"),
        ("at 00:1B:44:11:3A:B7", "MAC", "00:1B:44:11:3A:B7"),
        ("SSN 078-05-1120", "SSN", "078-05-1120"),
        ("Date of birth: 12.03.1980", "BIRTH_DATE", "12.03.1980"),
        ("born on March 3, 1975 in", "BIRTH_DATE", "March 3, 1975"),
        ("Passport No. C01X00T47", "PASSPORT", "C01X00T47"),
        ("lives at 12 Main Street, ", "ADDRESS", "12 Main Street"),
        ("wohnt Hauptstraße 12a", "ADDRESS", "Hauptstraße 12a"),
        ("key sk-abcdefghijklmnopqrstuvwx", "SECRET", "sk-abcdefghijklmnopqrstuvwx"),
        ("on 2026-11-29 at", "DATE", "2026-11-29"),
        ("on the 1st of May", "DATE", "1st of May"),
        ("am 29.11.2026, um", "DATE", "29.11.2026"),
        ("in May 2026", "DATE", "May 2026"),
        ("at 5:30 pm", "TIME", "5:30 pm"),
        ("postgres://ada:sesame@host/db", "SECRET", "sesame"),
        ("tel:+4930123456", "PHONE", "+4930123456"),
        ("030/1234567", "PHONE", "030/1234567"),
        ("pays $1,200.50 or", "MONEY", "$1,200.50"),
        ("with 30 million euros", "MONEY", "30 million euros"),
        ("12.5 % off", "PERCENT", "12.5 %"),
        ("see https://example.com/a?b=c.", "URL", "https://example.com/a?b=c"),
    ],
)
def test_a_kind_is_found_where_it_begins_and_ends(text: str, group: str, found: str) -> None:
    assert kinds(text) == {group: found}


@pytest.mark.parametrize(
    "text",
    [
        "card 4111 1111 1111 1112",
        "IBAN GB28NWBK60161331926819",
        "version 1.2.3",
        "std::vector and a::b",
        "666-12-3456",
        "12:345",
        "May I?",
        "user@host",
        "ISBN 978-3-16-148410-0",
        "order 2026/11/29-0001",
        "31.31.2026",
        "5551234",
        "300.1.2.3",
    ],
)
def test_what_only_looks_like_a_kind_is_left_alone(text: str) -> None:
    assert kinds(text) == {}


def test_each_character_of_what_is_found_is_replaced_and_the_rest_stays() -> None:
    text = "Write to john.smith@example.com or +49 30 1234567, by Friday."
    assert hidden(text) == f"Write to {'█' * 22} or ███ ██ ███████, by Friday."


def test_what_stands_across_two_pieces_is_hidden_too() -> None:
    assert hidden("mail: jo", "hn@exam", "ple.com", anonymizeChar="*") == "mail: ****************"


def test_the_operator_chooses_labels_and_adds_patterns() -> None:
    own = [{"label": "customer", "pattern": r"customer (C-\d+)"}]
    text = "customer C-1234, john@example.com, 192.168.1.10"
    assert (
        hidden(text, labels=["ip address"], patterns=own, anonymizeChar="x")
        == "customer xxxxxx, john@example.com, xxxxxxxxxxxx"
    )


def test_tables_and_documents_are_hidden_too_and_a_vector_of_the_open_text_goes() -> None:
    assert run_node(AnonymizeNode, "table", "|a@b.de|")["table"] == ["|██████|"]
    given_document = {"page_content": "a@b.de", "embedding": [1.0], "embedding_model": "m", "metadata": {"n": 1}}
    ((document,),) = run_node(AnonymizeNode, "documents", [given_document])["documents"]
    assert document == {"page_content": "██████", "embedding": None, "embedding_model": None, "metadata": {"n": 1}}


def test_names_in_metadata_of_ner_are_hidden_as_in_the_text() -> None:
    metadata = {"entities_email": ["a@b.de"], "entities_person": ["Ada", "a@b"], "entities_cut": ["a"], "entities_count": 3}
    metadata["entities_url"] = ["http://x/?c@d.de"]
    document = {"page_content": "Ada: a@b.de", "metadata": metadata}
    ((hidden_document,),) = run_node(AnonymizeNode, "documents", [document])["documents"]
    assert hidden_document["page_content"] == "Ada: ██████"
    assert hidden_document["metadata"] == {
        **metadata,
        "entities_email": ["██████"],
        "entities_person": ["Ada", "███"],
        "entities_url": ["█" * 16],
    }
    assert metadata["entities_email"] == ["a@b.de"], "others may have that document too"


def test_the_result_counts_what_was_hidden_and_says_by_what() -> None:
    text = pipeline(
        component("in_1", "webhook"),
        component("hide_1", "anonymize_text", "text:in_1"),
        component("out_1", "response_text", "text:hide_1"),
    )
    body = run_pipeline(text, "a@b.de, c@d.de, 192.168.1.10, Ada Lovelace", mimetype="text/plain")
    assert body["text"] == ["██████, ██████, ████████████, Ada Lovelace\n\n"]
    assert body["metadata"] == {"anonymized": {"EMAIL": 2, "IP": 1}, "anonymizedBy": "patterns"}


@pytest.mark.parametrize(("provider", "told"), [("anonymize", "stay in the text"), ("ner", "are not found")])
def test_check_warns_that_names_are_left_without_a_model_and_names_the_way_out(provider: str, told: str) -> None:
    def warnings(**config: Any) -> list[tuple[str, str, str]]:
        graph = pipeline(component("in", "webhook"), component("a", provider, "text:in", **config))
        found = load_pipeline(graph, Catalog(installed=False), Environment()).problems
        return [(each.severity, each.path, each.message) for each in found if each.code == "caution"]

    [(severity, path, message)] = warnings()
    assert (severity, path) == ("warning", "/components/1/config/path")
    assert told in message
    assert 'pip install "rrext[text,embed-fast]"' in message
    assert [path for _, path, _ in warnings(profile="custom", custom={"path": " "})] == ["/components/1/config/custom/path"]
    assert warnings(path="models/names") == []


def test_a_label_or_pattern_that_is_none_is_told() -> None:
    with pytest.raises(Unavailable, match='did you mean "email"'):
        hidden("a", labels=["e-mail"])
    with pytest.raises(Unavailable, match="no regular expression"):
        hidden("a", patterns=[{"label": "x", "pattern": "("}])
    config = AnonymizeNode.Config()
    config.patterns = (OwnPattern("x", "("), OwnPattern("y", "b"))
    assert [setting for setting, _ in AnonymizeNode.missing(config, str)] == ["patterns"]
    with pytest.raises(InvalidPipeline):
        hidden("a", anonymizeChar="")
    with pytest.raises(Unavailable, match="is no folder"):
        hidden("a", path="/nowhere")


def test_a_text_that_is_too_large_is_refused() -> None:
    with pytest.raises(ToolError) as caught:
        hidden("a" * 11, maxCharacters=10)
    assert caught.value.code == "text_too_large"


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=6))
def test_masking_changes_the_places_and_nothing_else(text: str, places: list[tuple[int, int]]) -> None:
    entities = sorted(Entity(start, min(start + size, len(text)), "X") for start, size in places if start <= len(text))
    found = masked(text, entities, "#")
    assert len(found) == len(text)
    for at, (before, after) in enumerate(zip(text, found, strict=True)):
        is_inside = any(entity.start <= at < entity.end for entity in entities)
        assert after == ("#" if is_inside and not re.match(r"\s", before) else before)


PLACES = (
    st.lists(st.integers(0, 30), max_size=12, unique=True)
    .map(sorted)
    .map(lambda ends: list(zip(ends[::2], ends[1::2], strict=False)))
)


@given(PLACES, PLACES)
def test_of_places_that_overlap_the_first_list_wins(first: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    found = without_overlaps([(*place, "A") for place in first], [(*place, "B") for place in more])
    expected = [(*place, "A") for place in first]
    expected += [(start, end, "B") for start, end in more if not any(start < b and a < end for a, b in first)]
    assert found == sorted(expected)


@pytest.mark.parametrize(
    "text", ["1 " * 200_000, "a@" * 200_000, ":" * 200_000, "DE12 " * 50_000, "a." * 200_000 + "@", "\ud800a@b.de"]
)
def test_hostile_texts_are_searched_to_their_end(text: str) -> None:
    found = PatternRecognizer(KINDS).find(text, lambda: None)
    assert all(0 <= entity.start < entity.end <= len(text) for entity in found)
