"""The header block of a frame: the lengths that it announces."""

from __future__ import annotations

import msgspec

from rrext.errors import ParseError
from rrext.limits import MAX_LENGTH_DIGITS

FORM = "A frame is `Content-Length: N`, a blank line, and N bytes of JSON."


class Header(msgspec.Struct, frozen=True, gc=False):
    """The lengths that a header block announces, in bytes; `problem` says why a frame of known length is unusable."""

    length: int
    json_length: int | None = None
    problem: str | None = None


def parse_header(block: bytes, max_length: int) -> Header:
    """The lengths in a header block.

    Names are taken in any case, space around names and values does not count, other headers are passed over, and a length
    may be repeated. Raises `ParseError` if `Content-Length` is missing, not decimal, contradictory, or beyond `max_length`:
    then the start of the next frame is unknown.
    """
    lengths: list[bytes] = []
    json_lengths: list[bytes] = []
    problem: str | None = None
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        match name.strip().lower():
            case b"content-length":
                lengths.append(value.strip())
            case b"json-length":
                json_lengths.append(value.strip())
            case text if text and not colon:
                problem = 'a header line has no ":"'
            case _:
                pass
    if not lengths:
        raise ParseError("the header block has no Content-Length", hint=FORM)
    length = _number("Content-Length", lengths, max_length)
    if problem or not json_lengths:
        return Header(length, None, problem)
    try:
        return Header(length, _number("Json-Length", json_lengths, length))
    except ParseError as error:
        return Header(length, None, error.message)


def _number(name: str, values: list[bytes], most: int) -> int:
    if not all(value.isdigit() for value in values):
        raise ParseError(f"{name} is not a decimal number", hint=FORM)
    numbers = {int(value.lstrip(b"0")[:MAX_LENGTH_DIGITS] or b"0") for value in values}
    if len(numbers) > 1:
        raise ParseError(f"{name} is given more than once, with different values")
    number = numbers.pop()
    if number > most:
        raise ParseError(f"{name} is over {most}")
    return number
