"""Every limit of rrext, its default and its reason; limits of a family of nodes stand in `nodes/FAMILY/limits.py`."""

from __future__ import annotations

from typing import Any

import msgspec

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one server, as `initialize` reports them. Sizes are bytes, times are seconds."""

    # wire
    max_header: int = 8 * KIB
    """A header block; what people send is under 100 bytes (h11 allows 16 KiB for whole HTTP heads)."""
    max_frame: int = 16 * MIB
    """A body that is received; larger ones are skipped and answered. `--max-frame`."""
    max_length: int = 4 * GIB
    """An announced length beyond this is no length: skipping it could take for ever."""
    id_recovery: int = 4 * KIB
    """How much of an unreadable body is searched for its id."""
    max_name: int = KIB
    """Characters of a name or a text id in a request; real ones are under 100, and each is searched for and echoed."""
    # answers
    max_result: int = 16 * MIB
    """An encoded result; a larger one would cost the server too much memory."""
    max_error_text: int = 4 * KIB
    """Characters of the text of a foreign exception in an error message; a longer text is cut, with a mark."""
    max_log_text: int = 64 * KIB
    """Characters of one event in the log, a quarter of them for the text of an exception; a huge event would hide others."""
    max_errors: int = 100
    """Problems listed in one `invalid_arguments`."""
    all_errors_input: int = 64 * KIB
    """Input up to this size is searched for all its problems; of larger input only the first one is named."""
    # requests
    max_inflight: int = 4096
    """`open` and `tool` requests of one connection in flight."""
    max_inflight_bytes: int = 64 * MIB
    """Bytes of requests in flight before reading pauses; a small request counts 4 KiB."""
    outbox_bytes: int = 8 * MIB
    """Answers that wait for a slow reader before only `cancel`, `shutdown` and `disconnect` are done at once."""
    max_timeout: float = 3600.0
    """The longest deadline that a caller may ask for."""
    progress_text: int = KIB
    """Characters of a progress message."""
    max_event_data: int = MIB
    """Encoded data of one event; a larger message of a node is refused, larger arguments and results are left out."""
    # pipes and calls
    threads: int = 64
    """Pipes per task, open or borrowed; also, apart from that, running sync calls per task. `--threads`."""
    pipe_idle: float = 60.0
    """Idle time after which a pipe is reclaimed. `--pipe-idle`."""
    expired_pipes: int = 4096
    """Reclaimed pipes that are remembered, so that their owner reads `pipe_expired`."""
    return_grace: float = 2.0
    """How long calls that were answered may hold all places before calls that wait for one are `unavailable`; a tool that
    looks for its cancel now and then, or waits for a slow system, has returned by then."""
    call_depth: int = 8
    """Depth of nested calls, of tools by tools."""
    # pipeline files
    max_pipeline: int = 8 * MIB
    """A pipeline file; real ones are under 100 KiB."""
    max_components: int = 10_000
    """Components of one pipeline; 500 is already large for a person."""
    max_problems: int = 1000
    """Problems reported of one pipeline."""
    max_depth: int = 128
    """Nesting of a pipeline file; real ones stay under 20, and code that recurses over it has 1,000 stack frames."""
    # lanes
    max_receivers: int = 10_000
    """Receivers of one payload behind nodes that pass it on; each diamond of edges in a row doubles them."""
    emit_depth: int = 100
    """Depth of `emit` inside `emit`; each level takes five of Python's 1,000 stack frames, and the frames of the node."""
    # connections
    max_connections: int = 64
    """Clients of one socket at once; each may keep a thread that reads and an outbox of its own."""
    backlog: int = 128
    """Clients that wait for the server to accept them while it is busy; the system holds back further ones."""
    # life
    drain: float = 5.0
    """How long running calls may go on after `shutdown`, `disconnect` or SIGTERM. `--drain`."""
    eof_grace: float = 1.5
    """How long requests already read may go on after the peer closed stdin."""
    parent_poll: float = 0.5
    """How often the parent process is looked for."""
    quick: float = 0.001
    """Time after which a sync tool on the reading thread loses the reading to another thread."""

    def as_json(self) -> dict[str, Any]:
        """The limits as `initialize` sends them, in camel case."""
        return {camel(name): getattr(self, name) for name in self.__struct_fields__}


def camel(name: str) -> str:
    """`max_frame` → `maxFrame`."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


DEFAULTS = Limits()


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one `rrext.Client`. Sizes are bytes, times are seconds."""

    max_frame: int = 256 * MIB
    """An answer; servers bound their results far lower, this is against one that has gone mad."""
    start: float = 30.0
    """How long a server may take to answer `initialize`; a pipeline's models may load meanwhile."""
    stop: float = 2.0
    """The patience of each rung when a server is stopped: end of input, SIGTERM, SIGKILL."""
    loss: float = 1.0
    """How long last answers, the exit code and stderr are waited for when a server seems gone."""
    timeout_margin: float = 1.0
    """How much longer than the server the client waits, so that the server's own `tool_timeout` wins."""
    stderr_tail: int = 64 * KIB
    """What is kept of a server's stderr for the error when it dies."""
    events: int = 1024
    """Server events that wait for a slow reader; the oldest go first, and are counted."""
    chunk_backlog: int = 8 * MIB
    """Chunks that wait for `on_chunk` before reading pauses, where that delays nobody else."""
    max_chunk_backlog: int = 64 * MIB
    """Chunks that wait for `on_chunk` before their call is given up."""
    rollback: float = 5.0
    """How long a block that failed waits for the rollback of its transaction; the server undoes it anyway once it is idle."""
    write_chunk: int = MIB
    """A file is read and sent in pieces of this size; larger ones gain nothing and delay a cancel."""
    whole_write: int = 16 * MIB - 64 * KIB
    """A file that is one JSON value goes in one write, because each write of such an object is a value; more than this
    does not fit into a server's frame."""
    envelope: int = 64 * KIB
    """Room in a frame for everything beside a write's data."""
    jobs: int = 8
    """Files that `send_files` and `rrext send` send at a time."""
    interrupt: float = 1.0
    """What a first Ctrl-C leaves the command line's tools and pipes to end by themselves; a thread that is stuck is not
    waited for any longer."""
    progress_redraw: float = 0.1
    """Between two states of progress on a terminal; faster ones flicker."""
    progress_line: float = 1.0
    """Between two lines of progress elsewhere, such as in the log of a build."""


CLIENT_DEFAULTS = ClientLimits()


class PictureLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the picture of a pipeline."""

    max_nodes: int = 1000
    """Nodes of one picture; nobody finds anything among more, and drawing them takes seconds."""
    max_edges: int = 5_000
    """Edges of one picture, several lanes between two nodes counted once."""
    width: int = 200
    """Columns of a picture in characters; people's screens and code reviews have no more."""


PICTURE_DEFAULTS = PictureLimits()
