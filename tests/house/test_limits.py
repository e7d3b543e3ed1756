"""Constants of behaviour stand in `limits.py`, or in the `limits.py` of a family of nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rrext

NODES = Path(rrext.__file__).parent / "nodes"
UNITS = re.compile(r"Seconds|Milliseconds|Bytes|Characters|Rows|Chunks|Descriptors|How (often|many)|Threads that")
OF_FORMATS = {
    "basic": {"memory.py", "prompt.py"},  # MIB
    "child": {"landlock.py"},  # of the kernel
    "databases": {"cells.py"},  # digits of a 64-bit float
    "documents": {"kinds.py", "parse.py", "reader.py"},  # a flag of ZIP files, MIB
    "embeddings": {"hashing.py", "transformer/bert.py"},  # other numbers would be another model
    "files": {"filesystem.py"},  # KIB and MIB
    "graph": {"ladybug/file.py"},  # MIB
    "http": {"settings.py"},  # MIB
    "sandbox": {
        *("capture.py", "outcome.py"),  # UTF-8, and exit codes of shells
        *("cell.py", "namespaces.py", "privileges.py", "seccomp.py", "warden.py"),  # of the kernel
        *("guest.py", "values.py"),  # run in the guest, where no module of rrext is
    },
    "sql": {"duckdb/worker.py", "mysql/node.py", "mysql/types.py", "postgres/params.py", "sqlite/schema.py"},  # of protocols
    "vectors": {
        "edge/folder.py",  # the version of a format
        "edge/node.py",  # MIB
        *("postgres/index.py", "postgres/session.py", "postgres/table.py", "postgres/words.py"),  # of PostgreSQL and pgvector
    },
}
"""Modules of families with numbers that are no choice: those of a format, a protocol, a kernel, and units of bytes."""


def numbers(module: Path) -> Iterator[tuple[str, str]]:
    """Names of numbers at the top of a module, each with the text that describes it."""
    body = ast.parse(module.read_text()).body
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None and is_number(statement.value):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            text = following.value if isinstance(following, ast.Expr) else None
            yield ast.unparse(target), str(text.value) if isinstance(text, ast.Constant) else ""


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


def modules() -> Iterator[tuple[str, str, Path]]:
    """Family, path within it, and file of each module of nodes that has a family."""
    for path in sorted(NODES.glob("*/**/*.py")):
        family, *rest = path.relative_to(NODES).parts
        yield family, "/".join(rest), path


def test_numbers_of_behaviour_stand_in_the_limits_of_their_family() -> None:
    elsewhere = {
        f"{family}/{name}: {number}"
        for family, name, path in modules()
        if path.name != "limits.py"
        for number, text in numbers(path)
        if name not in OF_FORMATS.get(family, set()) or (UNITS.match(text) and name not in ("guest.py", "values.py"))
    }
    known = {"vectors/postgres/table.py: MAX_NAME", "sql/mysql/types.py: LONGEST_CHARACTER"}  # of the server
    assert elsewhere - known == set()


def test_sections_of_limits_name_modules_that_are_there() -> None:
    for path in NODES.glob("*/**/limits.py"):
        for section in re.findall(r"^# (\S+\.py)$", path.read_text(), re.MULTILINE):
            assert (path.parent / section).exists(), f"{path} has a section for {section}"
