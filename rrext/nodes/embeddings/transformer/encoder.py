"""`Encoder`: a model's output for each token; and the vectors of texts, pooled from that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

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
