"""Attacks on the read-only promise, and how they are run against a database. For every folder of tests with a database.

`attacks/<dialect>.sql` has one attack a line: what it is after, `|`, and the statement, in which `\\n` is a line break,
`{secret}` a file whose text is `SECRET`, `{folder}` its folder, and `{out}` a file that does not exist. What an attack is
after: `rows`, `schema`, `file_written`, `file_read`, `setting`, `lock`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rrext.errors import RrextError
from rrext.nodes.sql.dialect import ReadingSql

__all__ = ["SECRET", "Attack", "NoGate", "World", "attacks", "broken_by"]

SECRET: Final = "the-secret-of-the-file"


class Attack(msgspec.Struct, frozen=True):
    after: str
    sql: str


def attacks(dialect: str) -> tuple[Attack, ...]:
    text = (Path(__file__).parent / "attacks" / f"{dialect}.sql").read_text()
    parts = (line.partition("|") for line in text.splitlines() if line)
    return tuple(Attack(after, sql.replace("\\n", "\n")) for after, _, sql in parts)


class NoGate:
    """Lets everything through, so that the database has to hold by itself: `database.gate = NoGate()`."""

    def read_only(self, sql: str) -> ReadingSql:
        return ReadingSql(sql, "select")


class World(msgspec.Struct, frozen=True):
    """What can be seen of an attack: files of a folder, and what `look` says of the database.

    `look` answers by name what an attack could have changed: rows, names of tables, settings, locks. It has to look
    from outside, or with a connection that attacks use too, as fits each thing.
    """

    folder: Path
    look: Callable[[], Awaitable[Mapping[str, Any]]]

    def prepare(self) -> None:
        (self.folder / "secret.txt").write_text(f"a,b\n{SECRET},2\n")

    def statement(self, attack: Attack) -> str:
        names = {"{secret}": self.folder / "secret.txt", "{out}": self.folder / "written", "{folder}": self.folder}
        sql = attack.sql
        for name, path in names.items():
            sql = sql.replace(name, str(path))
        return sql

    async def seen(self) -> dict[str, Any]:
        files = {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}
        return {**await self.look(), "files": files}


async def broken_by(
    attack: Attack, world: World, query: Callable[[str], Awaitable[Any]]
) -> tuple[str | None, RrextError | None]:
    """What the attack did that must not happen (None: nothing), and how it was refused (None: it was answered)."""
    before = await world.seen()
    answer: Any = None
    refusal: RrextError | None = None
    try:
        answer = await query(world.statement(attack))
    except RrextError as error:
        refusal = error
    after = await world.seen()
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if changed:
        return f"changed {', '.join(sorted(changed))}", refusal
    if refusal is not None and refusal.code == "internal":
        return "ran into a bug", refusal
    told = json.dumps(answer, default=str) + str(refusal)
    return ("told the secret" if SECRET in told else None), refusal
