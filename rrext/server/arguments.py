"""Decodes the arguments of commands into the engine's operations; errors have JSON pointers.

msgspec converts them, because it is strict, fast and loaded anyway: cattrs turns `true` into 1 and `"12"` into 12, and
would add a quarter to the time of a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Operation
from rrext.errors import InvalidArguments, UnknownCommand, fold
from rrext.limits import MAX_AUTHORIZATION, MAX_SHOWN_NAME, Limits
from rrext.wire.messages import Request

T = TypeVar("T", bound=msgspec.Struct)


def decode(arguments: dict[str, Any], shape: type[T], limits: Limits, *, also: frozenset[str] = frozenset()) -> T:
    """Convert the arguments to `shape`. Raises `InvalidArguments`.

    Unknown arguments are ignored, so that newer clients work, unless one differs from a known one in case, `_` or `-` only.
    `also` names arguments of the command that are not in the shape.
    """
    known = _known(shape)
    if not arguments.keys() <= known:
        _refuse_misspelt(arguments, known | also)
    try:
        decoded = msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), arguments) from None
    if isinstance(decoded, Operation) and decoded.timeout is not None:
        _check_timeout(decoded.timeout, limits)
    return decoded


_ENVELOPE = frozenset(("subcommand", "context", "_meta"))


@cache
def _known(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(shape.__struct_encode_fields__) | _ENVELOPE


def _refuse_misspelt(arguments: dict[str, Any], known: frozenset[str]) -> None:
    folded = {fold(name): name for name in known}
    wrong = [(name, folded[fold(name)]) for name in arguments if name not in known and fold(name) in folded]
    if wrong:
        problems = [(f"/{_escaped(name)}", f'unknown argument; did you mean "{right}"?') for name, right in wrong]
        raise InvalidArguments.of(problems, hint=f'use "{wrong[0][1]}"')


def _invalid(text: str, arguments: dict[str, Any]) -> InvalidArguments:
    """Translate msgspec's error, with its path as a JSON pointer. The message names types and fields, never values."""
    message, _, path = text.partition(" - at `")
    pointer = _pointer(path.rstrip("`"))
    if message.startswith("Object missing required field `"):
        field = message.split("`")[1]
        return InvalidArguments(
            f"{field} is required", data={"errors": [{"path": f"{pointer}/{field}", "message": "is required"}]}
        )
    message = message.replace("`", "").replace(" | null", "").replace("Expected", "expected")
    return InvalidArguments.at(pointer, message)


def _pointer(path: str) -> str:
    """`$.object.name` → `/object/name`; msgspec writes `[...]` for a key that it does not name."""
    parts = path.removeprefix("$").replace("[", ".").replace("]", "").split(".")
    return "".join(f"/{_escaped(part)}" for part in parts if part)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _check_timeout(timeout: float, limits: Limits) -> None:
    if not (isfinite(timeout) and 0 < timeout <= limits.max_timeout):
        raise InvalidArguments.at("/timeout", f"expected seconds above 0 and at most {limits.max_timeout:g} (max_timeout)")


_NAMES: Final = (
    "subcommand", "tool", "nodeId", "token", "provider", "mimeType", "service", "source", "name", "requestId",
    "clientName", "clientVersion", "userId", "spaceId", "format", "call_ref",
)  # fmt: skip


def refuse_long_names(request: Request, limits: Limits) -> None:
    """Raise `UnknownCommand` or `InvalidArguments` for a name that is too long to be searched for or repeated."""
    most = limits.max_name
    if len(request.command) > most:
        raise UnknownCommand(f"Invalid command: {cut_short(request.command, most)}: it is over max_name, {most} characters")
    context = request.arguments.get("context")
    for path, given in ("", request.arguments), ("/context", context if isinstance(context, dict) else {}):
        for name in given:
            if len(name) > most:
                raise InvalidArguments.at(
                    f"{path}/{_escaped(cut_short(name, most))}", f"its name is over max_name, {most} characters"
                )
        for name in _NAMES:
            value = given.get(name)
            if isinstance(value, str) and len(value) > most:
                raise InvalidArguments.at(f"{path}/{name}", f"expected at most {most} characters (max_name)")


def cut_short(name: str, most: int) -> str:
    """Shorten a name of more than `most` characters, so that a message may repeat it."""
    return name if len(name) <= most else f"{name[:MAX_SHOWN_NAME]}…"


def refuse_tail() -> NoReturn:
    """Raise `InvalidArguments` for raw bytes with a command that takes none."""
    raise InvalidArguments.at("/data", "this command takes no raw tail (Json-Length)")


class _Context(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    user_id: str | None = None
    space_id: str | None = None
    authorization: str | None = None


def caller_of(caller: Caller, context: Any, limits: Limits, path: str = "/context") -> Caller:
    """Read the caller from a request's `context`, which replaces the connection's as a whole. Raises `InvalidArguments`."""
    if context is None:
        return caller
    if not isinstance(context, Mapping):
        raise InvalidArguments.at(path, "expected an object")
    try:
        given = decode(dict(context), _Context, limits)
    except InvalidArguments as error:
        problems = [(path + e["path"], e["message"]) for e in error.data["errors"]]
        raise InvalidArguments.of(problems, hint=error.hint) from None
    secret = given.authorization
    if secret is not None and not (secret.isascii() and secret.isprintable() and 0 < len(secret) <= MAX_AUTHORIZATION):
        raise InvalidArguments.at(f"{path}/authorization", f"expected 1 to {MAX_AUTHORIZATION} printable ASCII characters")
    if not caller.is_keyed:
        return msgspec.structs.replace(caller, user_id=given.user_id, space_id=given.space_id, authorization=secret)
    for name, value, own in ("userId", given.user_id, caller.user_id), ("spaceId", given.space_id, caller.space_id):
        if value not in (None, own):
            raise InvalidArguments.at(f"{path}/{name}", "user and space are those of the connection's key here")
    return msgspec.structs.replace(caller, authorization=secret)
