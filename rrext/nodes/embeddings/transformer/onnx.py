"""`OnnxEncoder`: a model computed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rrext.errors import ToolError, Unavailable

if TYPE_CHECKING:
    from rrext.nodes.embeddings.transformer.encoder import Floats, Ids

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
