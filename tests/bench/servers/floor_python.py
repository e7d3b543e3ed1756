"""The Python floor: it reads frames, decodes, adds, encodes and writes. No schema, no limits, no errors, one thread."""

import os
from typing import Any

import msgspec


class Input(msgspec.Struct):
    a: int
    b: int


class Arguments(msgspec.Struct):
    tool: str
    input: Input


class Request(msgspec.Struct):
    seq: int
    command: str
    arguments: Arguments


class Response(msgspec.Struct):
    seq: int
    request_seq: int
    command: str
    body: dict[str, Any]
    type: str = "response"
    success: bool = True


TOOLS = {"add": lambda given: {"sum": given.a + given.b}}
decode, encode = msgspec.json.Decoder(Request).decode, msgspec.json.Encoder().encode


def answer(body: bytes, number: int) -> bytes:
    request = decode(body)
    result = TOOLS[request.arguments.tool](request.arguments.input)
    out = encode(Response(number, request.seq, request.command, {"result": result}))
    return b"Content-Length: %d\r\n\r\n%b" % (len(out), out)


def main() -> None:
    """Answer all frames of one read in one write."""
    data, number = b"", 0
    while piece := os.read(0, 65536):
        data += piece
        at, answers = 0, []
        while (end := data.find(b"\r\n\r\n", at)) >= 0:
            stop = end + 4 + int(data[data.index(b":", at) + 1 : end])
            if stop > len(data):
                break
            number += 1
            answers.append(answer(data[end + 4 : stop], number))
            at = stop
        data = data[at:]
        out = b"".join(answers)
        while out:
            out = out[os.write(1, out) :]


main()
