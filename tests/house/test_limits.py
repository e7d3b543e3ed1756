"""Constants of behaviour stand in a `limits.py`, or in the module that uses them, with their unit and their reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rrext

PACKAGE = Path(rrext.__file__).parent
ANYWHERE = re.compile(r"\(?(EXIT_\w+|STDERR|[KMG]IB)(, EXIT_\w+)*\)?")
"""Names that mean the same in every module: exit codes, a descriptor and units of bytes."""
OF_FORMATS = {
    "nodes/child": {"landlock.py", "system_calls.py"},  # of the kernel
    "nodes/databases": {"cells.py"},  # digits of a 64-bit float
    "nodes/documents": {"detection.py"},  # a flag of ZIP files
    "nodes/embeddings": {"embedder.py", "transformer.py"},  # other numbers would be another model
    "nodes/sandbox": {
        *("outcome.py",),  # UTF-8, and exit codes of shells
        *("supervisor.py", "kernel.py", "warden.py"),  # of the kernel
        *("guest.py", "values.py"),  # run in the guest, where no module of rrext is
    },
    "nodes/sql": {  # of protocols
        *("duckdb/worker.py", "mysql.py", "mysql_values.py", "postgres/types.py", "sqlite.py"),
    },
    "nodes/vectors": {
        "edge/folder.py",  # the version of a format
        *(
            "postgres/connection_pool.py",
            "postgres/store.py",
            "postgres/table.py",
        ),  # of PostgreSQL and pgvector
    },
    "picture": {  # measures of a drawing, and directions in it
        *("layout.py", "routes.py", "svg.py", "text.py"),
    },
    "editor": {"completions/cursor.py"},  # a state of a parser
    "engine": {"flow/objects.py", "views/task_views.py"},  # states
    "faces": {"lsp/protocol.py", "mcp/protocol.py"},  # codes of JSON-RPC
    "pipefile": {"environment.py", "shape.py"},  # a column of /proc/self/stat, the version of a format
    "providers": {"mcp/transport.py"},  # codes of JSON-RPC
    "server": {"reader.py", "commands.py"},  # a number that stands for all, the version of the protocol
    "sync": {"state.py"},  # the version of a format
    "tools": {"decorator.py", "grammar.py"},  # flags of Python, the largest whole number of a double
    "transports": {"claimed_stdio.py", "unix.py", "web.py"},  # a descriptor, the mode of a file, a port
    "wire": {"messages.py", "websocket.py"},  # the largest id, a protocol
}
"""Modules with numbers that are no choice: those of a format, a protocol, a kernel, states, and measures of drawings."""
OF_OTHERS = {
    "cli/console/formats.py: GAP",  # a measure of a drawing
}


def numbers(module: Path) -> Iterator[tuple[str, str]]:
    """Names of numbers at the top of a module, each with the text that describes it; numbers that follow each other may share
    one.
    """
    text = ""
    found: list[tuple[str, str]] = []
    for statement in reversed(ast.parse(module.read_text()).body):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            text = str(statement.value.value)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None and is_number(statement.value):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            found.append((ast.unparse(target), text))
        else:
            text = ""
    yield from reversed(found)


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant():
            return isinstance(value.value, int | float) and not isinstance(value.value, bool)
        case ast.UnaryOp():
            return is_number(value.operand)
        case ast.BinOp():
            return is_number(value.left) and (is_number(value.right) or isinstance(value.right, ast.Name))
        case ast.Tuple():
            return bool(value.elts) and all(map(is_number, value.elts))
    return False


def is_of_a_format(module: str) -> bool:
    """Whether numbers at the top of a module may be no choices of rrext."""
    return any(module == f"{room}/{name}" for room, names in OF_FORMATS.items() for name in names)


def test_numbers_of_behaviour_have_a_text_that_tells_their_unit_and_reason() -> None:
    elsewhere = {
        f"{module}: {number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for module in [path.relative_to(PACKAGE).as_posix()]
        for number, text in numbers(path)
        if not text and not ANYWHERE.fullmatch(number) and not is_of_a_format(module)
    }
    assert elsewhere == OF_OTHERS


def test_modules_of_formats_are_there_and_have_numbers() -> None:
    for room, names in OF_FORMATS.items():
        for name in names:
            assert list(numbers(PACKAGE / room / name)), f"{room}/{name} has no number any more"


def test_sections_of_limits_name_modules_that_are_there() -> None:
    for path in PACKAGE.rglob("limits.py"):
        for section in re.findall(r"^# (\S+\.py)$", path.read_text(), re.MULTILINE):
            assert (path.parent / section).exists(), f"{path} has a section for {section}"
