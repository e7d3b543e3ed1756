"""A Python value as JSON text: how `result` leaves a program. It runs inside the guest, so it imports nothing.

`None`, `bool`, `int`, `float`, `str`, `list` and `dict`, subclasses too, stand for themselves, at any depth. So does what
has `tolist`, as arrays and numpy's numbers: by the value of that. Anything else is its `repr`: `(1, 2)` becomes `"(1, 2)"`,
`Decimal("1.5")` becomes `"Decimal('1.5')"`. So are NaN, the infinities, and ints from 2**1023 on, beyond which readers of
JSON that have no ints fail or read infinity; ints of more than 4,300 digits, whose `repr` Python refuses, become hexadecimal.
A key that is no `str` becomes the `repr` of its value; should that key exist, the name of its type follows. A container
inside itself is `"[...]"` or `"{...}"`, as `repr` has it. Containers nested deeper than `MAX_DEPTH` become their `repr`. Half
a surrogate pair becomes U+FFFD.
"""

MAX_DEPTH = 100
MOST_BITS = 1023
"""Of an int that is a number: what fits the range of a float."""

_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)}
_ESCAPES.update({ord('"'): '\\"', ord("\\"): "\\\\", 0x7F: "\\u007f", ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"})


class ResultTooBig(Exception):
    """The JSON text would exceed the limit."""


def encode_result(value: object, limit: int) -> bytes:
    """`value` as JSON in UTF-8. Raises `ResultTooBig` as soon as it passes `limit` bytes."""
    writer = _Writer(limit)
    writer.write(value, 0)
    return b"".join(writer.parts)


class _Writer:
    __slots__ = ("left", "open", "parts")

    def __init__(self, limit: int) -> None:
        self.parts: list[bytes] = []
        self.left = limit
        self.open: set[int] = set()

    def put(self, piece: bytes) -> None:
        self.left -= len(piece)
        if self.left < 0:
            raise ResultTooBig
        self.parts.append(piece)

    def write(self, value: object, depth: int) -> None:
        if value is None:
            self.put(b"null")
        elif isinstance(value, bool):
            self.put(b"true" if value else b"false")
        elif isinstance(value, int) and int.bit_length(value) <= MOST_BITS:
            self.put(int.__repr__(value).encode())
        elif isinstance(value, float) and value - value == 0:  # false of NaN and the infinities
            self.put(float.__repr__(value).encode())
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, list | dict) and depth < MAX_DEPTH:
            self.container(value, depth)
        elif depth < MAX_DEPTH and (listed := _listed(value)) is not None:
            self.write(listed, depth + 1)
        else:
            self.text(_repr(value))

    def text(self, text: str) -> None:
        if len(text) > self.left:  # before the copies that escaping makes
            raise ResultTooBig
        try:
            self.put(b'"' + str.translate(text, _ESCAPES).encode() + b'"')
        except UnicodeEncodeError:
            whole = str.encode(text, "utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self.put(b'"' + whole.translate(_ESCAPES).encode() + b'"')

    def container(self, value: list[object] | dict[object, object], depth: int) -> None:
        if id(value) in self.open:
            self.text("[...]" if isinstance(value, list) else "{...}")
            return
        self.open.add(id(value))
        if isinstance(value, list):
            self.items(list.copy(value), depth + 1)
        else:
            self.members(list(dict.items(value)), depth + 1)
        self.open.discard(id(value))

    def items(self, items: list[object], depth: int) -> None:
        self.put(b"[")
        for index, item in enumerate(items):
            if index:
                self.put(b",")
            self.write(item, depth)
        self.put(b"]")

    def members(self, members: list[tuple[object, object]], depth: int) -> None:
        self.put(b"{")
        names = _names([key for key, _ in members])
        for index, (name, (_, item)) in enumerate(zip(names, members, strict=True)):
            if index:
                self.put(b",")
            self.text(name)
            self.put(b":")
            self.write(item, depth)
        self.put(b"}")


def _names(keys: list[object]) -> list[str]:
    taken = {key for key in keys if type(key) is str}
    names: list[str] = []
    for key in keys:
        if type(key) is str:
            names.append(key)
            continue
        listed = _listed(key)
        name = str.__str__(key) if isinstance(key, str) else _repr(key if listed is None else listed)
        while name in taken:
            name = f"{name} ({type(key).__name__})"
        taken.add(name)
        names.append(name)
    return names


def _listed(value: object) -> object:
    try:
        return type(value).tolist(value)  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:
        return None


def _repr(value: object) -> str:
    try:
        return str.__str__(repr(value))
    except Exception as error:
        if isinstance(value, int):
            return int.__format__(value, "#x")
        return f"<{type(value).__name__}: repr() raised {type(error).__name__}>"
