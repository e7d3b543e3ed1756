"""Settings that the nodes of language models share."""

from __future__ import annotations

from typing import Annotated

from rrext.nodes.http import ApiSettings
from rrext.nodes.llm.price import Price


class LanguageModelSettings(ApiSettings):
    """The settings of a language model with an HTTP API. The base of the `Config` of its node."""

    temperature: Annotated[float | None, "How freely it writes, 0 to 2; null: as the server does by itself."] = None
    maxTokens: Annotated[int | None, "Tokens of an answer; a longer one fails as answer_cut. null: the server's limit."] = None
    price: Annotated[
        Price | None,
        "Dollars per million tokens, for the limits of agents: {input, output}. null: the known price of the model, if any.",
    ] = None
