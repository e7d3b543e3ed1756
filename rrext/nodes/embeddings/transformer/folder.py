"""`ModelFolder`: the settings of a sentence model in small files, in the layout of sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from rrext.errors import Unavailable

T = TypeVar("T")
Pooling = Literal["mean", "cls", "max", "mean_sqrt_len"]

FLAGS: Final[dict[str, Pooling]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
}
"""The switches of older pooling files, and their pooling modes."""
WEIGHTS: Final = "model.safetensors"
GRAPHS: Final = ("model.onnx", "onnx/model.onnx")


class BertConfig(msgspec.Struct, frozen=True):
    """The fields of `config.json` that an encoder needs."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int = 512
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    position_embedding_type: str | None = None


class ModelFolder(msgspec.Struct, frozen=True):
    """A sentence model: the paths of its files, and the way from token outputs to vectors.

    `weights` and `graph` are the files for NumPy and for ONNX Runtime, None where one is missing.
    """

    path: Path
    config: BertConfig
    tokenizer: Path
    weights: Path | None
    graph: Path | None
    max_length: int
    lower_case: bool = False
    pooling: Pooling = "mean"
    normalize: bool = True
    prompts: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The default name of the model: the folder's own name."""
        return self.path.name


def read_folder(path: str | Path) -> ModelFolder:
    """Read the settings of a folder's model, from its small files alone.

    Raises `Unavailable` for a missing folder, and for one without a usable sentence model.
    """
    path = Path(path)
    if not path.is_dir():
        raise Unavailable(f"{path} is no folder: there is no model", hint="Download a model and set its folder.")
    config = _read(path / "config.json", BertConfig)
    tokenizer = path / "tokenizer.json"
    if not tokenizer.is_file():
        raise Unavailable(f"The model in {path} has no tokenizer.json")
    weights = path / WEIGHTS
    graph = next((path / name for name in GRAPHS if (path / name).is_file()), None)
    if graph is None and not weights.is_file():
        raise Unavailable(
            f"The model in {path} has neither {WEIGHTS} nor {GRAPHS[0]}",
            hint="Weights in pickle files (pytorch_model.bin) are not read: they could run code.",
        )
    limits = _read_if_there(path / "sentence_bert_config.json", _Limits) or _Limits()
    length = min(limits.max_seq_length or config.max_position_embeddings, config.max_position_embeddings)
    pooling, normalize = _modules(path)
    said = _read_if_there(path / "config_sentence_transformers.json", _Prompts) or _Prompts()
    return ModelFolder(
        path=path,
        config=config,
        tokenizer=tokenizer,
        weights=weights if weights.is_file() else None,
        graph=graph,
        max_length=length,
        lower_case=limits.do_lower_case,
        pooling=pooling,
        normalize=normalize,
        prompts={name: text for name, text in (said.prompts or {}).items() if text},
    )


class _Limits(msgspec.Struct, frozen=True):
    max_seq_length: int | None = None
    do_lower_case: bool = False


class _Prompts(msgspec.Struct, frozen=True):
    prompts: dict[str, str | None] | None = None


class _Module(msgspec.Struct, frozen=True):
    type: str
    path: str = ""


def _modules(path: Path) -> tuple[Pooling, bool]:
    """The pooling according to `modules.json`; without that file the mean, with length 1."""
    modules = _read_if_there(path / "modules.json", list[_Module])
    if modules is None:
        return "mean", True
    pooling: Pooling = "mean"
    normalize = False
    for module in modules:
        kind = module.type.rpartition(".")[2]
        if kind == "Pooling":
            pooling = _pooling(path / module.path / "config.json")
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            raise Unavailable(f'The model in {path} has a module "{module.type}", which is not known here')
    return pooling, normalize


def _pooling(path: Path) -> Pooling:
    said = _read(path, dict[str, Any])
    wanted = said.get("pooling_mode")
    modes = [wanted] if isinstance(wanted, str) else [mode for flag, mode in FLAGS.items() if said.get(flag)]
    for mode in FLAGS.values():
        if modes == [mode]:
            return mode
    raise Unavailable(
        f"{path} asks for a way of pooling that is not known here", hint=f"Known are {', '.join(FLAGS.values())}."
    )


def _read(path: Path, kind: type[T]) -> T:
    found = _read_if_there(path, kind)
    if found is None:
        raise Unavailable(f"{path} is missing: this is no folder of a model")
    return found


def _read_if_there(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unavailable(f"{path} is not what it should be: {error}") from None
