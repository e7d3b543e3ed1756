"""`Price`: what a model costs."""

from __future__ import annotations

from typing import Annotated, TypedDict

import msgspec


class Price(TypedDict):
    """What a model costs, in dollars per million tokens read (`input`) and written (`output`)."""

    input: Annotated[float, msgspec.Meta(ge=0)]
    output: Annotated[float, msgspec.Meta(ge=0)]
