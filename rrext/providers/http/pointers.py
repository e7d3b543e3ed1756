"""References within a document: JSON pointers, followed without ever reading anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from rrext.providers.http.limits import MAX_REFERENCES


class UnusableDescription(Exception):
    """A part of a description from outside that no tool can be made of; the message says why."""


def leads_out(reference: Any) -> UnusableDescription:
    """The error for a reference to another document, or to nothing at all."""
    return UnusableDescription(f"the reference {str(reference)[:200]!r} leads out of the document: nothing else is read")


def pointed(document: Any, reference: Any) -> Any:
    """The value that a reference such as `#/components/schemas/Pet` names. Raises `UnusableDescription`."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise leads_out(reference)
    value = document
    for token in reference[2:].split("/") if len(reference) > 2 else ():
        token = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and len(token) < 10 and int(token) < len(value):
            value = value[int(token)]
        else:
            raise UnusableDescription(f"the reference {reference[:200]!r} leads to nothing")
    return value


def followed(document: Any, value: Any) -> Any:
    """The value itself, or the one that it refers to. Raises `UnusableDescription`, also for a circle."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(value, Mapping) or "$ref" not in value:
            return value
        value = pointed(document, value["$ref"])
    raise UnusableDescription("its references form a circle")
