"""`Encoder`: a model's output for each token, as ONNX Runtime computes it; and the vectors of texts, pooled from that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rrext.errors import ToolError, Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rrext.nodes.embeddings.transformer.folder import Pooling

    Floats = NDArray[np.float32]
    Ids = NDArray[np.int64]


class Encoder(Protocol):
    """A model that computes token outputs. May be called from several threads at once."""

    size: int
    """Numbers in the output of each token."""

    @property
    def vocabulary(self) -> int | None:
        """The number of known tokens, if the encoder can tell."""
        ...

    def encode(self, ids: Ids, mask: Ids, check: Callable[[], object]) -> Floats:
        """The output for each token: texts × tokens → texts × tokens × size.

        `mask` is 1 for tokens and 0 for padding. `check` is called now and then, and may raise to stop the computation.
        """
        ...


def pooled(hidden: Floats, mask: Ids, mode: Pooling) -> Floats:
    """One vector for each text, pooled from those of its tokens; padding does not count."""
    import numpy as np

    if mode == "cls":
        return hidden[:, 0]
    weights = mask[:, :, None].astype(hidden.dtype)
    if mode == "max":
        return np.where(weights > 0, hidden, -np.inf).max(axis=1)
    count = weights.sum(axis=1)
    total = (hidden * weights).sum(axis=1)
    return total / (np.sqrt(count) if mode == "mean_sqrt_len" else count)


def unit(vectors: Any) -> Any:
    """The vectors scaled to length 1."""
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxEncoder:
    """An exported encoder in an ONNX graph: its inputs are tokens and their mask, its output is one row for each token."""

    def __init__(self, path: Path, size: int) -> None:
        """Load the graph. Raises `Unavailable` for a file that is no encoder."""
        import onnxruntime

        try:
            session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has no common class for its errors
            raise Unavailable(f"{path} cannot be loaded: {error}") from None
        self._session = session
        self._inputs = [given.name for given in session.get_inputs()]
        unknown = [name for name in self._inputs if name not in INPUTS]
        outputs = [output.name for output in session.get_outputs() if len(output.shape) == 3]
        if unknown or not outputs:
            raise Unavailable(
                f"{path} is no encoder: it wants {', '.join(unknown) or 'what encoders want'}, and answers otherwise"
            )
        self._output = outputs[0]
        self.size = size

    @property
    def vocabulary(self) -> int | None:
        """None: a graph does not contain the number of known tokens."""
        return None

    def encode(self, ids: Ids, mask: Ids, check: Callable[[], object]) -> Floats:
        """The encoder's output for each token: texts × tokens × size. `check` is called before the computation."""
        import numpy as np

        check()
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            (hidden,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        except Exception as error:  # as in __init__
            raise ToolError(f"The model could not be computed: {error}", code="model_failed") from None
        return hidden
