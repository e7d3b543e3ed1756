"""Limits of rrext, each with its default and its reason: limits that an operator sets, and constants of behaviour.

A constant that one module uses stands in that module, with its reason. A limit that an operator sets per node is a field of the
node's `Config`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one server, as `initialize` reports them. Sizes are bytes, times are seconds."""

    # wire
    max_header: int = 8 * KIB
    """A header block; real ones are under 100 bytes (h11 allows 16 KiB for whole HTTP heads)."""
    max_frame: int = 16 * MIB
    """A received body; a larger one is skipped, and answered with an error. `--max-frame`."""
    max_length: int = 4 * GIB
    """An announced length beyond this is no length: skipping it could take for ever."""
    id_recovery: int = 4 * KIB
    """Bytes of an unreadable body that are searched for its id."""
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
    max_waiting_opens: int = 16_384
    """`open` requests of one connection beyond `max_inflight` that wait for their turn; RocketRide's client opens all files of
    an upload at once."""
    max_inflight_bytes: int = 64 * MIB
    """Bytes of requests in flight before reading pauses; a small request counts 4 KiB."""
    outbox_bytes: int = 8 * MIB
    """Answers that wait for a slow reader before only `cancel`, `shutdown` and `disconnect` are done at once."""
    max_user_bytes: int = 256 * MIB
    """What all connections of a user keep of unfinished messages, requests in flight and unread answers, before reading pauses:
    the largest message, and some beside it. `--max-user-bytes`."""
    max_timeout: float = 3600.0
    """The longest deadline that a caller may ask for."""
    progress_text: int = KIB
    """Characters of a progress message."""
    permission_timeout: float = 60.0
    """Seconds for the answer to a call's question for a permit; a person reads and decides. Without an answer it is denied."""
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
    # processes of pipelines
    task_memory: int = 0
    """Resident memory of the process of a pipeline with its children, read every second; 0 for no limit. `--task-memory`."""
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
    """An answer; servers have far lower limits, this one protects against a broken server."""
    start: float = 30.0
    """How long a server may take to answer `initialize`; a pipeline's models may load meanwhile."""
    stop: float = 2.0
    """The patience of each rung when a server is stopped: end of input, SIGTERM, SIGKILL."""
    loss: float = 1.0
    """How long last answers, the exit code and stderr are waited for when a server seems gone."""
    timeout_margin: float = 1.0
    """How much longer than the server the client waits, so that the server's own `tool_timeout` wins."""
    stderr_tail: int = 64 * KIB
    """Last bytes of a server's stderr, kept for the error when the server ends."""
    events: int = 1024
    """Server events that wait for a slow reader; the oldest go first, and are counted."""
    chat_text: int = 256 * KIB
    """Characters of the text of a chat that wait for a slow reader; more are dropped and counted, and are in the result."""
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
    """Time for tools and pipes of the command line to end by themselves after a first Ctrl-C; stuck threads are then left
    behind.
    """
    progress_redraw: float = 0.1
    """Between two states of progress on a terminal; faster ones flicker."""
    progress_line: float = 1.0
    """Between two lines of progress elsewhere, such as in the log of a build."""


CLIENT_DEFAULTS = ClientLimits()


class PictureLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the picture of a pipeline."""

    max_nodes: int = 1000
    """Nodes of one picture; a larger picture is unreadable, and takes seconds to draw."""
    max_edges: int = 5_000
    """Edges of one picture, several lanes between two nodes counted once."""
    width: int = 200
    """Columns of a picture in characters; people's screens and code reviews have no more."""


PICTURE_DEFAULTS = PictureLimits()

# Constants that nobody sets, by room: of the rooms that each server or client loads, as a module more would delay its start.

# server
EXIT_HANDLERS_TIMEOUT: Final = 0.1
"""Seconds for handlers of `atexit`, which libraries of tools may need."""
THREAD_SWITCH_INTERVAL: Final = 0.0005
"""Seconds until a thread that runs Python lets another one run. With Python's own 5 ms a ping takes seconds while 32 tools
compute. Half a millisecond costs those 15 % of their speed, 12 of them 10 %, and plain calls nothing that can be measured."""
HEAPS: Final = 2
"""Heaps of the C library for all threads. By its own choice, eight for each processor, 64 calls with results of 2 MB keep twice
the memory and take a quarter longer, as each thread gets it anew from the system. The interpreter's lock lets few allocate at
once."""
LOG_TAIL: Final = 200
"""Events of the log that are kept for the status page; more do not fit on a screen."""
LOG_TAIL_BYTES: Final = 4096
"""Bytes of such an event; the log itself has the rest."""
STDERR_FLUSH_TIMEOUT: Final = 0.1
"""Seconds that a reader of stderr gets to make room for the last lines."""
SHARED_CLOSE_TIMEOUT: Final = 0.1
"""Seconds after the last answers in which the shared state of nodes may close."""
END_WATCH_MARGIN: Final = 0.15
"""Seconds beyond the last answers until the end watch takes over."""
THREADS_END_TIMEOUT: Final = 0.1
"""Seconds that threads and peers get after the last answers."""
THREADS_POLL_INTERVAL: Final = 0.005
"""Seconds between two checks of these threads and peers."""
LAST_REQUESTS_TIMEOUT: Final = 0.15
"""Seconds of `Cause.flush` in which the requests that arrived at the end are read and refused."""
LAST_REQUESTS_POLL_INTERVAL: Final = 0.0005
"""Seconds between two checks for such requests."""
LOOP_POLL_INTERVAL: Final = 0.04
"""Seconds between two checks of the loop; each costs some microseconds."""
END_SLACK: Final = 0.3
"""Seconds beyond its time for a process that still makes progress to end by itself."""
WATCHDOG_POLL_INTERVAL: Final = 0.1
"""Seconds between two checks of the watchdog, after the end of the server has begun."""
WATCHDOG_MARGIN: Final = 0.2
"""Seconds beyond the server's own time to end, until the watchdog kills it."""
TRACE_TIMEOUT: Final = 0.1
"""Seconds for the trace of a process that the watchdog kills."""
MAX_SHOWN_NAME: Final = 100
"""Characters shown of a name that is too long."""
REQUEST_COST: Final = 4096
"""Bytes that each request in flight counts at least."""
MAX_OUTBOX_PIECES: Final = 512
"""Pieces of the outbox in one `writev`; below every system's IOV_MAX."""
WAKES_PER_ITERATION: Final = 16
"""Number of calls waiting for room in the outbox that begin in one iteration of the loop: each may fill the outbox again."""
CALM_TICKS: Final = 50
"""Ticks without a call before the watch of the reading thread sleeps."""
STEADY_CALLS: Final = 8
"""Calls between two looks of that watch beyond which the thread seems to run quick ones alone."""
STEADY_TICKS: Final = 4
"""Ticks until the next look at such a thread."""
REQUESTS_PER_ITERATION: Final = 16
"""Requests of one client that begin in an iteration of the loop: a flood delays others by a fraction of a millisecond."""
ACCEPT_RETRY_INTERVAL: Final = 1.0
"""Seconds until the next attempt to accept a client when the system gives no more descriptors."""

# engine
QUICK_SHARE_AMONG_OTHERS: Final = 0.25
QUICK_SHARE_ALONE: Final = 0.9
"""Shares of `Limits.quick` below which a tool counts as quick. A call without others beside it may take longer, because no
other call waits for its thread; calls beside others run faster in threads, at the same time.
"""
LARGE_RESULT: Final = 64 * KIB
"""Bytes of a result above which calls of its tool are counted: 64 smaller ones at once cost less than other parts of a task."""
RESULTS_ROOM: Final = 32 * MIB
"""Bytes of results that may wait in an engine for the clients to read, or are expected of running calls: sixteen calls of a
connection with results of 2 MB at once. Connections share it, and each may have one result, however large."""
CHUNKS_PER_ITERATION: Final = 32
"""Number of chunks after which an async generator that never suspends yields to the loop, so that a cancel arrives."""
MAX_WAITING_CHUNKS: Final = 16
"""Chunks of a nested call that wait for the node which reads them, before the tool waits too; each may be a large one."""
MIN_QUICK_TIMEOUT: Final = 0.05
"""Seconds. Calls with a shorter deadline do not run on the reading thread, whose overstay is noticed milliseconds late."""
MIN_SWEEP_ENTRIES: Final = 256
"""Entries of cancelled deadlines below which a sweep costs more than it frees."""
LAST_CALLS_TIMEOUT: Final = 0.1
"""Seconds for cancelled calls to return at the end of the engine, before their shared state is closed."""
MAX_LATE_EVENT_BYTES: Final = 256 * KIB
"""Bytes of a call's own events that wait for a slow reader; more are dropped and counted, because nothing waits for them."""
PROVIDER_CLOSE_TIMEOUT: Final = 3.0
"""Seconds in which the connections to outside tools close at the end of the engine; those that do not are left behind."""
BLOCKED_LOOP_TIME: Final = 0.1
"""Seconds in one step of a tool on the loop; all other calls wait meanwhile."""
MAX_KEPT_ERRORS: Final = 50
"""Errors in the status of a task that differ, as many as in the reference server's."""
MAX_ERROR_TEXT: Final = 1000
"""Characters of the error of a tool in the status of a task: a tool may raise any text, and each status has all of them."""
MIN_TASK_MEMORY: Final = 64 * MIB
"""Bytes of the smallest limit of a task's memory: an empty task takes a third, and each would be killed again and again."""
OPEN_RESERVE: Final = 8
"""Every eighth place of `max_inflight` is kept from `open` requests, so that thousands of them leave room for tools."""
MAX_SPARE_CHAINS: Final = 16
"""Pooled chains beyond this are cheaper to make again than to keep."""
MAX_PROBED_TEXT: Final = 1000
"""Characters of an exception of a node's code in the problem of a probe."""

# pipefile
MAX_LISTED_IDS: Final = 8
"""The number of ids of nodes up to which a message lists them all, if none resembles the wrong id."""
MAX_MISSING_REASONS: Final = 5
"""The number of reasons in a message why a node is unavailable."""
MAX_NEAR_NAMES: Final = 3
"""The number of near matches in a message."""
MIN_SIMILARITY: Final = 0.6
"""The least similarity of near names, as the ratio of `difflib`."""
MIN_TYPED_LENGTHS: Final = (3, 7)
"""Lengths of a word, in letters, from which one more slip of the fingers is likely: none below the first."""
MAX_COMPARED_NAME: Final = 100
"""Characters of a name that is compared letter by letter; longer names are not typed by hand."""
MIN_SECRET: Final = 4
"""The least number of characters of a value that is redacted: shorter values occur in every text."""
MIN_LITERAL_SECRET: Final = 8
"""Characters from which the text of a setting may be a secret that stands in the file."""
MIN_SECRET_IN_WORD: Final = 8
"""The least number of characters of a value that is redacted inside of words too; shorter ones only as whole words."""
MIN_SECRET_PART: Final = 8
"""The least number of characters of a part of a value (a path's last name, a URL's password) that is redacted by itself."""
MAX_SECRET_PARTS: Final = 256
"""Parts of a value that are redacted by themselves, the longest ones: a large private key has a hundred lines."""
MAX_KEPT_SECRETS: Final = 2000
"""Secrets of clients that are remembered, with their parts: the spellings of so many take a quarter of a second of the loop.
Clients may give new ones with every `execute`; the oldest are forgotten.
"""
MAX_KEPT_CHARACTERS: Final = MIB
"""Characters of these secrets together, and of each, which is longer than what is told of it: their spellings take ten times
as much memory, and half a second.
"""
MANY_SPELLINGS: Final = 600
"""Words of secrets that are searched for one by one; of more, those that may stand in a text are chosen before."""
MAX_PARSE_FAILURES: Final = 5
"""Failures of an import, each of which needs another thread that parses at the same moment."""
QUICK_SEARCH: Final = 65_536
"""Characters of a result of a server outside in which the loop looks for secrets, and of a piece of any text."""
MIN_SECRET_OF_URL: Final = 16
"""Characters from which a word with digits in the URL of a connection may be a key."""
MAX_AUTHORIZATION: Final = 16_384
"""Characters of a caller's authorization: servers of HTTP refuse longer headers."""
CONNECTION_TIMEOUT: Final = 60.0
"""Seconds for a call to a server outside, if its connection does not say."""
MAX_CONNECTION_TIMEOUT: Final = 86_400.0
"""Seconds that a connection may say: a longer call is taken for a mistake."""
MAX_FAST_PIECE: Final = 65_536
"""Characters of an object in a pipeline file that the fast decoder reads."""
MAX_SCANNED_MEMBERS: Final = 20
"""Members up to which an object is searched one by one; larger objects get an index."""

# tools
MAX_KEPT_SCHEMAS: Final = 64
"""Compiled schemas kept per tool whose schemas come from callables; pipelines configure a node in few ways."""
MAX_REFERENCES: Final = 1000
"""References in one list; agents are given tens of tools, and each costs some of a resolution's time."""
MAX_REFERENCE_CHAIN: Final = 20
"""References from one to the tool that it means, each by the name of the next: every one checks the input of a call again."""
MAX_COMPARED_PARTS: Final = 100
"""Parts of one schema that are compared with each other; schemas from outside may have any number."""
MAX_PATTERNS: Final = 100
"""Patterns of names in one list of references; each tool of a server, which may have 10,000, is compared with each."""
MAX_KEPT_REFERENCES: Final = 2000
"""Resolved references kept per connection: two full lists; the oldest must be resolved again."""
MAX_EXPORTED_NAME: Final = 64
"""Characters of the name of a tool, as it is exported: what OpenAI and Anthropic accept; MCP accepts more."""
NAME_HASH_DIGITS: Final = 10
"""Hexadecimal digits at the end of an exported name that was cut: 40 bits, for the few names of a pipeline."""
MAX_OPENAI_DESCRIPTION: Final = 1024
"""Characters of a function's description that OpenAI's Chat Completions accept."""
MAX_STRICT_DEPTH: Final = 10
"""Levels of nesting that OpenAI's strict function calling accepts."""
MAX_STRICT_PROPERTIES: Final = 5000
"""Properties of all objects of a schema that strict function calling accepts."""
MAX_STRICT_ENUM: Final = 1000
"""Values of all enumerations of a schema that strict function calling accepts."""
MAX_STRICT_TEXT: Final = 120_000
"""Characters of all names and enumerated values of a schema that strict function calling accepts."""
LONG_ENUM: Final = 250
"""Texts of one enumeration from which on strict function calling bounds their length."""
MAX_LONG_ENUM_TEXT: Final = 15_000
"""Characters of all texts of such an enumeration."""
MAX_SHOWN_DEFAULT: Final = 100
"""Characters of a default value that a description repeats."""
MAX_LOOPED_ENTRIES: Final = 16
"""Entries of a container that are checked in a loop of Python; of more, whole sets of types are compared."""
MAX_LISTED_NAMES: Final = 20
"""Names or values listed in one sentence."""
MAX_QUOTED_NAME: Final = 80
"""Characters of a caller's name in a message; longer names are cut."""

# wire
MAX_TEMPLATES: Final = 256
"""Commands whose message templates are kept; a server has far fewer commands."""
MAX_COPIED_PAYLOAD: Final = 16 * KIB
"""A payload up to this size is copied into its message, so that one write sends it; a larger one is handed on as it is."""
READ_BUFFER: Final = 64 * KIB
"""The capacity of a pipe, and so the most that one read can bring. A frame that fits is parsed where it lies."""
MAX_LENGTH_DIGITS: Final = 20
"""Digits of an announced length; more exceed every limit, and Python does not convert thousands of digits."""

# transports
MAX_CLIENT_PIECES: Final = 64
"""Pieces that a client gives to one `writev`; far below every system's IOV_MAX."""
LOSSY_BACKLOG: Final = 256 * 1024
"""Bytes that wait for a slow reader before messages are dropped: four pipes full, for bursts."""
SURE_WRITE: Final = 512
"""Bytes that a descriptor takes without blocking if it polls as writable: the smallest `PIPE_BUF` of POSIX."""
FULL_DISK_PAUSE: Final = 0.1
"""Seconds between attempts on a descriptor that polls as writable and takes nothing, such as on a full disk."""
WRITER_POLL_MILLISECONDS: Final = 1000
"""Milliseconds after which a waiting thread checks whether the writer was closed."""
MEMORY_PIPE_SIZE: Final = 65536
"""Bytes in flight before a sender waits: the size of a pipe of the kernel."""
CHILD_PIPE_SIZE: Final = 1024 * 1024
"""The requested pipe size on Linux: with 64 KiB, a write of 1 MiB passes sixteen times between the processes."""
CHILD_POLL_INTERVAL: Final = 0.02
"""Seconds between two checks of a child on systems without pidfd."""
SOCKET_LOCK_TIMEOUT: Final = 1.0
"""Seconds to wait for another server that starts in the same folder."""
SOCKET_LOCK_POLL_INTERVAL: Final = 0.01
"""Seconds between two attempts to lock that folder."""

# client
MAX_JOINED_PIECES: Final = 65536
"""Bytes of pieces that are joined before they are sent; joining costs less than another `send`."""
OPEN_PIPE_RESERVE: Final = 8
"""Every eighth slot is reserved for calls on open pipes, because other calls wait until those finish."""
MAX_QUOTED_LINES: Final = 20
"""Lines of stderr in the message of `ServerExited`; `data["stderr"]` has all that is kept."""
ATOMIC_WRITE: Final = 4096
"""Bytes that POSIX writes to a pipe as a whole or not at all. The loop writes larger messages: in a caller's thread Ctrl-C may
raise after an unknown part is written.
"""
BUSY_POLL_INTERVAL: Final = 0.01
"""Seconds between two attempts while a server is too busy to take one more client."""
READ_INSTEAD_ROWS: Final = 25_000
"""Rows that the client reads at most where a node refuses `execute`: as many as the tool `query` answers."""

# picture
MAX_DRAWN_PROBLEMS: Final = 20
"""Problems that are written in the place of a picture without nodes."""
MAX_ORDERED_LINES: Final = 40
"""The number of lines up to which an order with few crossings is searched."""


def memory_limits() -> dict[str, int]:
    """The limits of memory of this process, in bytes by name. Without any the kernel ends a process that takes too much."""
    try:
        import resource
    except ImportError:  # not on Windows
        return {}
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in ("RLIMIT_AS", "RLIMIT_DATA")}
    return {name: limit for name, limit in limits.items() if limit != resource.RLIM_INFINITY}
