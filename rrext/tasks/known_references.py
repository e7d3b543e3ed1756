"""Which worker knows the references that clients have resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rrext.references import CallRef, CallRefNames

if TYPE_CHECKING:
    from rrext.engine.interface.call import AnswerSink, Call
    from rrext.errors import RrextError
    from rrext.tasks.worker import Worker


class KnownReferences:
    """The worker of each name, by connection."""

    def __init__(self) -> None:
        self._workers: dict[str, dict[str, Worker]] = {}

    def find(self, connection_id: str, name: str) -> Worker | None:
        """The worker that resolved a name for a connection."""
        worker = self._workers.get(connection_id, {}).get(name)
        return None if worker is None or worker.is_over else worker

    def names(self, connection_id: str) -> tuple[str, ...]:
        """The names that a connection may use."""
        return tuple(self._workers.get(connection_id, ()))

    def keep(self, connection_id: str, worker: Worker, body: bytes) -> None:
        """Keep the names in the answer to a `rrext_tools_resolve`."""
        known = self._workers.setdefault(connection_id, {})
        for entry in msgspec.json.decode(body)["custom"]:
            ref = CallRef.read(entry["call_ref"])
            names = (entry["call_ref"],) if ref is None else CallRefNames().add(ref)
            known.update(dict.fromkeys((entry["name"], entry["call_ref"], *names), worker))

    def disconnect(self, connection_id: str) -> None:
        """Forget the names of a connection."""
        self._workers.pop(connection_id, None)

    def drop(self, worker: Worker) -> None:
        """Forget the names that a worker knew."""
        for connection_id, known in list(self._workers.items()):
            kept = {name: other for name, other in known.items() if other is not worker}
            if kept:
                self._workers[connection_id] = kept
            else:
                del self._workers[connection_id]


class ResolvedAnswer:
    """Keeps the names in an answer, and passes it on."""

    __slots__ = ("_answer", "_known", "_worker")

    def __init__(self, known: KnownReferences, worker: Worker, answer: AnswerSink) -> None:
        self._known = known
        self._worker = worker
        self._answer = answer

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._known.keep(call.caller.connection_id, self._worker, body)
        self._answer.succeed(call, body, tail)

    def fail(self, call: Call, error: RrextError) -> None:
        self._answer.fail(call, error)
