"""`Price`: what a model costs."""

from __future__ import annotations

from typing import Annotated, TypedDict

import msgspec


class Price(TypedDict):
    """What a model costs, in dollars per million tokens read (`input`) and written (`output`)."""

    input: Annotated[float, msgspec.Meta(ge=0)]
    output: Annotated[float, msgspec.Meta(ge=0)]


def known_price(model: str, address: str, maker: str) -> Price | None:
    """The price of a model at its address, or of its maker, if the list of genai-prices knows it: without rebates.

    Imports that package, which takes a quarter of a second: the extra `agent` has it.
    """
    from genai_prices import Usage, calc_price

    thousand = Usage(input_tokens=1000, output_tokens=1000)
    for place in ({"provider_api_url": address}, {"provider_id": maker}):
        try:
            found = calc_price(thousand, model, **place)  # pyright: ignore[reportArgumentType, reportCallIssue]
        except LookupError:
            continue
        return Price(input=float(found.input_price) * 1000, output=float(found.output_price) * 1000)
    return None
