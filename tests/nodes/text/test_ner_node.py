"""`ner`: which entities a model and patterns find, and where they end up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import InvalidPipeline, ToolError, Unavailable
from rrext.nodes.text.anonymize import AnonymizeNode
from rrext.nodes.text.entity_kinds import Entity
from rrext.nodes.text.ner import MOST_NAMES, NerNode, metadata_of
from rrext.nodes.text.token_model import ScoredTokens, TokenModel, entities_of
from rrext.testing import run_node, run_pipeline

from text_pipelines import component, pipeline  # isort: skip
from tiny_bert import CONFIG, WORDS, ids_of, make_model, make_onnx, spelt_out, weights_of  # isort: skip

np = pytest.importorskip("numpy")
pytest.importorskip("re2", reason="the extra `text` is not installed")

LABELS = ["O", "B-PER", "I-PER", "B-LOC"]
SURE = 9.0


def make_ner(folder: Path, **config: Any) -> Path:
    """A model whose weights decide at random."""
    random = np.random.default_rng(3)
    weights = {f"bert.{name}": value for name, value in weights_of().items()}
    weights["classifier.weight"] = random.normal(0, 1, (len(LABELS), CONFIG["hidden_size"])).astype(np.float32)
    weights["classifier.bias"] = random.normal(0, 1, len(LABELS)).astype(np.float32)
    labels = {str(number): label for number, label in enumerate(LABELS)}
    return make_model(folder, weights=weights, pooling=None, length=None, **{"id2label": labels, **config})


def make_table(folder: Path, **words: str) -> Path:
    """A model in ONNX that knows the label of each word: `cat` is a person's first name, say."""
    make_ner(folder)
    (folder / "model.safetensors").unlink()
    table = np.zeros((len(WORDS), len(LABELS)), dtype=np.float32)
    for number, word in enumerate(WORDS):
        table[number, LABELS.index(words.get(word, "O"))] = SURE
    make_onnx(folder / "model.onnx", table)
    return folder


def found(folder: Path, text: str, aggregation: Any = "simple", least: float = 0.0, runtime: Any = "auto") -> list[Entity]:
    return TokenModel(str(folder), runtime).find(text, aggregation, least, lambda: None)


def test_scores_are_what_the_model_says_spelt_out_by_hand(tmp_path: Path) -> None:
    folder = make_ner(tmp_path)
    from safetensors.numpy import load_file

    weights = load_file(folder / "model.safetensors")
    plain = {name.removeprefix("bert."): value for name, value in weights.items()}
    text = "the cat sat on a mat"
    for entity in found(folder, text, "none", runtime="numpy"):
        place = text[: entity.start].count(" ") + 1
        hidden = np.array(spelt_out(plain, ids_of(text, 16))[place])
        scores = hidden @ plain["classifier.weight"].T + plain["classifier.bias"]
        shares = np.exp(scores) / np.exp(scores).sum()
        assert entity.group == LABELS[int(shares.argmax())]
        assert abs(entity.score - float(shares.max())) < 1e-4


def test_neighbours_of_one_kind_are_one_entity(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = make_table(tmp_path, cat="B-PER", dog="I-PER", mat="B-LOC")
    text = "the cat dog sat on mat cat cat"
    entities = found(folder, text)
    assert [(entity.group, text[entity.start : entity.end]) for entity in entities] == [
        ("PER", "cat dog"),
        ("LOC", "mat"),
        ("PER", "cat"),
        ("PER", "cat"),
    ]
    assert all(entity.score > 0.99 for entity in entities)


@pytest.mark.parametrize("words", [3, 13, 14, 15, 40, 200, 30_000])
def test_a_text_longer_than_the_window_is_read_whole_and_no_token_twice(tmp_path: Path, words: int) -> None:
    pytest.importorskip("onnxruntime")
    folder = make_table(tmp_path, cat="B-PER")
    text = " ".join("cat" if number % 3 == 0 else "sat" for number in range(words))
    assert [entity.start for entity in found(folder, text)] == [
        at for at in range(0, len(text), 4) if text.startswith("cat", at)
    ]


SCORES = [[0.1, 0.8, 0.1, 0.0], [0.6, 0.0, 0.4, 0.0], [0.0, 0.0, 0.9, 0.1]]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("none", [(0, 2, "B-PER"), (4, 6, "I-PER")]),
        ("simple", [(0, 2, "PER"), (4, 6, "PER")]),
        ("first", [(0, 6, "PER")]),
        ("average", [(0, 6, "PER")]),
        ("max", [(0, 6, "PER")]),
    ],
)
def test_tokens_of_a_word_have_one_label_as_the_settings_say(aggregation: Any, expected: list[tuple[int, int, str]]) -> None:
    tokens = ScoredTokens([(0, 2), (2, 4), (4, 6)], [0, 0, 1], np.array(SCORES))
    entities = entities_of(tokens, LABELS, aggregation)
    assert [(entity.start, entity.end, entity.group) for entity in entities] == expected


@given(st.lists(st.sampled_from(LABELS), max_size=12))
def test_every_token_inside_is_in_exactly_one_entity(labels: list[str]) -> None:
    scores = np.array([[1.0 if label == each else 0.0 for each in LABELS] for label in labels]).reshape(-1, len(LABELS))
    tokens = ScoredTokens([(n, n + 1) for n in range(len(labels))], [*range(len(labels))], scores)
    covered = [at for entity in entities_of(tokens, LABELS, "simple") for at in range(entity.start, entity.end)]
    assert covered == [at for at, label in enumerate(labels) if label != "O"]


def test_entities_stand_in_the_metadata_of_the_result_and_the_text_passes_as_it_came(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = make_table(tmp_path, cat="B-PER", mat="B-LOC")
    text = pipeline(
        component("in_1", "webhook"),
        component("ner_1", "ner", "text:in_1", profile="bertBase", bertBase={"path": str(folder), "min_confidence": 0.5}),
        component("split_1", "split", "text:ner_1"),
        component("out_1", "response", "text:ner_1", "documents:split_1"),
    )
    body = run_pipeline(text, "the cat sat on a mat, cat@mat.example, 50 %", mimetype="text/plain")
    facts = {
        "entities_count": 6,
        "entities_email": ["cat@mat.example"],
        "entities_loc": ["mat"],
        "entities_percent": ["50 %"],
        "entities_per": ["cat"],
    }
    assert body["metadata"] == facts
    assert body["text"] == ["the cat sat on a mat, cat@mat.example, 50 %\n\n"]
    assert body["documents"][0]["metadata"].items() >= facts.items()


def test_documents_get_their_own_entities_or_none_if_the_operator_says_so() -> None:
    given_documents = [{"page_content": "a@b.de", "metadata": {"n": 1}}, {"page_content": "none"}, {"metadata": None}]
    ((first, second, third),) = run_node(NerNode, "documents", given_documents)["documents"]
    assert first["metadata"] == {"n": 1, "entities_email": ["a@b.de"], "entities_count": 1}
    assert second["metadata"] == {"entities_count": 0}
    assert third == {"metadata": None}
    assert run_node(NerNode, "documents", given_documents, config={"store_in_metadata": False})["documents"] == [
        given_documents
    ]


def test_metadata_stay_small_and_say_what_was_left_out() -> None:
    text = " ".join(f"{number:04}" for number in range(MOST_NAMES + 5))
    entities = [Entity(5 * number, 5 * number + 4, "DATE") for number in range(MOST_NAMES + 5)]
    facts = metadata_of(text, entities)
    assert len(facts["entities_date"]) == MOST_NAMES
    assert (facts["entities_count"], facts["entities_cut"]) == (MOST_NAMES + 5, ["entities_date"])


def test_a_model_hides_names_too(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    folder = make_table(tmp_path, cat="B-PER", dog="I-PER")
    (text,) = run_node(AnonymizeNode, "text", "the cat dog ran, a@b.de", config={"path": str(folder)})["text"]
    assert text == "the ███ ███ ran, ██████"


def test_a_folder_without_a_usable_model_says_what_is_wrong(tmp_path: Path) -> None:
    def wrong(match: str, **settings: Any) -> None:
        with pytest.raises(Unavailable, match=match):
            run_node(NerNode, "text", "the cat", config=settings)

    wrong("is no folder", path=str(tmp_path / "none"))
    wrong("config.json is missing", path=str(tmp_path))
    wrong("no labels", path=str(make_ner(tmp_path / "a", id2label={"1": "O"})))
    wrong("is not what it should be", path=str(make_model(tmp_path / "b", pooling=None)))
    labels = {str(number): f"L{number}" for number in range(7)}
    with pytest.raises((Unavailable, ToolError), match="no classifier of 7 labels"):
        run_node(
            NerNode, "text", "the cat", config={"path": str(make_ner(tmp_path / "c", id2label=labels)), "runtime": "numpy"}
        )
    (tmp_path / "c" / "model.safetensors").unlink()
    with pytest.raises((Unavailable, ToolError), match="neither model.safetensors nor model.onnx"):
        run_node(NerNode, "text", "the cat", config={"path": str(tmp_path / "c")})
    with pytest.raises(InvalidPipeline):
        run_node(NerNode, "text", "the cat", config={"aggregation_strategy": "best"})


def test_a_missing_folder_is_found_before_anything_runs(tmp_path: Path) -> None:
    config = NerNode.Config()
    config.path = "models/none"
    assert [key for key, _ in NerNode.missing(config, lambda path: str(tmp_path / path))] == ["path"]
    config.path = ""
    assert list(NerNode.missing(config, str)) == []


@pytest.mark.parametrize("profile", ["bertLarge", "bertBase", "distilbert", "xlmRoberta", "deberta", "biomedical", "custom"])
def test_rocketrides_profiles_load_and_patterns_work_without_a_model(profile: str) -> None:
    text = pipeline(component("in_1", "webhook"), component("ner_1", "ner", "text:in_1", profile=profile))
    assert run_pipeline(text, "on 2026-11-29", mimetype="text/plain")["metadata"]["entities_date"] == ["2026-11-29"]
