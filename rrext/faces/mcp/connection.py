"""One connection that speaks the Model Context Protocol: its messages in and out, as requests and answers of a session.

Both eras are spoken: versions up to 2025-11-25, which begin with `initialize`, and 2026-07-28, where each request names its
version in `_meta` and `server/discover` takes the place of the handshake. Rules are those of the published `schema.json` of
each version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeGuard, cast

import msgspec

from rrext.errors import Cancelled, InvalidArguments, InvalidRequest, ParseError, RrextError, TooManyRequests, UnknownCommand
from rrext.faces.mcp.host_offers import TTL
from rrext.faces.mcp.listing import ListedTools, space_of, start_of
from rrext.faces.mcp.progress import CallSteps
from rrext.faces.mcp.protocol import (
    CAPABILITIES,
    CLIENT_KEY,
    HANDSHAKE_VERSIONS,
    NO_RESULTS,
    SERVER,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    VERSIONS,
    WITH_BATCHES,
    UnsupportedVersion,
    content_of,
    content_of_error,
    failure_of,
)
from rrext.faces.mcp.questions import METHOD as ELICIT
from rrext.faces.mcp.questions import SuspendableCall, SuspendedCalls, answer, can_ask, modes_of, question
from rrext.limits import DEFAULTS, Limits
from rrext.wire.codec import decode, encode_own, quote
from rrext.wire.framing import Framer
from rrext.wire.messages import (
    MAX_ID,
    QUESTIONS,
    Batch,
    Ignored,
    Malformed,
    Request,
    RequestId,
    ServerEvent,
    answering,
    number_of,
)

if TYPE_CHECKING:
    from rrext.faces.mcp.host_offers import HostOffers

CALL: Final = "rrext_process"
OFFERED: Final = ("prompts/", "resources/", "completion/", "logging/")
"""The beginnings of methods about what pipelines offer beside tools."""
TOOLS_CHANGED: Final = "notifications/tools/list_changed"


class _Message(msgspec.Struct, gc=False):
    """The members that a request can have; others are ignored."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Message).decode


class _Command(str):
    """A command of the session with the method of its request, and the fact on which the answer depends: the version that the
    host asked for, or the number of the first tool. A table by request id would not do: a host may use an id twice in one read.
    """

    __slots__ = ("fact", "method")

    def __new__(cls, command: str, method: str, fact: Any) -> Self:
        made = super().__new__(cls, command)
        made.method, made.fact = method, fact
        return made


def _is_offered(command: str) -> TypeGuard[_Command]:
    """Whether a tool is called for a method of resources."""
    return isinstance(command, _Command) and command == CALL


class McpConnection:
    """A server's side of one connection. Writing methods may be called from any thread, and return pieces of one message."""

    raw_tail = has_tails = False
    """The protocol has no raw tails; `initialize` of a session sets what its arguments say, which is never this."""

    def __init__(self, framer: Framer[ServerEvent], limits: Limits = DEFAULTS) -> None:
        self.framer = framer
        self._limits = limits
        self._shakes_hands = False
        self._is_initialized = False
        self._converses = False  # whether the client read the answer to its handshake before it went on
        self._is_over = False  # whether nothing more is written
        self._listed = ListedTools()
        self._progress: dict[RequestId, Any] = {}  # the progress tokens of calls
        self._steps: dict[RequestId, CallSteps] = {}  # of these calls, as far as they had progress
        self._cancelled: set[RequestId] = set()  # those that get no answer; also some that were answered before
        self._listening: dict[RequestId, bool] = {}  # open subscriptions, and whether each is told of changed tools
        self._takes_batches = False  # by the version of a handshake
        self._modes: list[str] = []  # what the client of a handshake shows its user
        self._asked: dict[int, tuple[str, RequestId]] = {}  # unanswered questions: the event, and the call
        self._suspendable: dict[RequestId, _Suspendable] = {}  # calls without a handshake whose user can be asked
        self._suspended = SuspendedCalls(limits.max_inflight_bytes)
        self._turns = Lock()  # the session asks and answers on other threads than that which reads
        self.user: str | None = None
        """The user of the connection, for whom its requests may name a space."""
        self.offers: HostOffers | None = None
        """The prompts and resources, if pipelines offer some."""
        self.when_heard: Callable[[], object] = lambda: None
        """Called whenever the client may have begun to hear of changed tools."""
        framer.deliver(self._read, self._refuse)

    # in

    def _read(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            message = _decode(json)
        except (ValueError, RecursionError):
            return self._judge(json)
        request_id = message.id
        if request_id is msgspec.UNSET:
            return self._notified(message.method, message.params, nbytes)
        if type(request_id) is int:
            if not -MAX_ID <= request_id <= MAX_ID:
                return Malformed(InvalidRequest(f'"id" must be a string, or a whole number up to {MAX_ID}'))
        elif len(cast("str", request_id)) > self._limits.max_name:
            return Malformed(InvalidRequest(f'"id" has more than max_name, {self._limits.max_name} characters'))
        try:
            return self._requested(request_id, message.method, message.params, nbytes)
        except RrextError as error:
            return Malformed(error, request_id)

    def _requested(self, request_id: RequestId, method: str, params: dict[str, Any], nbytes: int) -> ServerEvent:
        meta = params.get("_meta")
        if not self._shakes_hands and isinstance(meta, dict):
            version = cast("dict[str, Any]", meta).get(VERSION_KEY)
            if version is not None and version not in VERSIONS and method != "initialize":
                raise UnsupportedVersion(version)
        if request_id in self._listening:
            raise InvalidRequest(f"a subscription with the id {request_id} is open")
        space = None if meta is None else space_of(params, self._limits)
        named: dict[str, Any] = {} if space is None else {"context": {"userId": self.user, "spaceId": space}}
        if method == "tools/call":
            return self._call(request_id, params, named, nbytes)
        if method.startswith(OFFERED) and (offers := self._offers_of(method)) is not None:
            arguments, fact = offers.ask(method, params)
            arguments |= named if arguments else {}
            return Request(request_id, _Command(CALL if arguments else "rrext_ping", method, fact), arguments, None, nbytes)
        command, arguments, fact = "rrext_ping", {}, None  # what the connection answers itself
        if method == "tools/list":
            command, arguments, fact = "tools", {"format": "mcp", **named}, start_of(params.get("cursor"))
        elif method == "initialize":
            command, arguments, fact = "initialize", _client(params.get("clientInfo")), params.get("protocolVersion")
            self._modes = modes_of(params.get("capabilities"), params.get("protocolVersion"))
            self._takes_batches = params.get("protocolVersion") == WITH_BATCHES
        elif method == "subscriptions/listen" and not self._shakes_hands:
            if len(self._listening) >= self._limits.max_inflight:
                raise TooManyRequests(f"more than {self._limits.max_inflight} subscriptions are open (max_inflight)")
            fact = _wants_tools(params.get("notifications"))
        elif method not in ("ping", "server/discover"):
            raise UnknownCommand(f"Method not found: {method[: self._limits.max_name]}")
        return Request(request_id, _Command(command, method, fact), arguments, None, nbytes)

    def _offers_of(self, method: str) -> HostOffers | None:
        """The function that answers a method of prompts and resources; None for an unknown method."""
        from rrext.faces.mcp.host_offers import METHODS, HostOffers  # many hosts never ask

        if self.offers is None:
            self.offers = HostOffers()
        return self.offers if method in METHODS else None

    def _call(self, request_id: RequestId, params: dict[str, Any], named: dict[str, Any], nbytes: int) -> ServerEvent:
        arguments = self._listed.call(params) | named
        given = params.get("_meta")
        meta = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        if params.get("requestState") is not None and not self._shakes_hands:
            return self._resumed(request_id, params, arguments, nbytes)
        if arguments.get("progress"):
            self._progress.setdefault(request_id, meta["progressToken"])
        # by its handshake, which may be in the same read
        arguments |= can_ask(self._modes or ([] if self._shakes_hands else modes_of(meta.get(CLIENT_KEY), VERSIONS[0])))
        if "questions" in arguments and not self._modes:
            self._suspendable.setdefault(request_id, _Suspendable(request_id, arguments, nbytes))
        return Request(request_id, CALL, arguments, None, nbytes)

    def _resumed(self, request_id: RequestId, params: dict[str, Any], arguments: dict[str, Any], nbytes: int) -> ServerEvent:
        """A suspended call goes on, under the id of this request: the answers of the user. Raises `InvalidArguments`."""
        with self._turns:
            call = self._suspended.resume(params["requestState"], None, arguments)
            assert isinstance(call, _Suspendable)
            taken = call.take_answers(params.get("inputResponses"))
            call.answers_to = request_id
            if arguments.get("progress"):
                self._progress[call.request_id] = params["_meta"]["progressToken"]
            else:
                self._progress.pop(call.request_id, None)
        answers = [answering(event, number, answer(event, result)) for number, event, result in taken]
        events: list[ServerEvent] = [Request(None, name, given, None, nbytes) for name, given in answers]
        if call.questions:
            events.append(Request(request_id, _Command("rrext_ping", "tools/call", call), {}, None, nbytes))
        return Batch(events)

    def _notified(self, method: str, params: dict[str, Any], nbytes: int) -> ServerEvent:
        if method == "notifications/initialized":
            self._is_initialized = True
            self._converses = self._shakes_hands
            self.when_heard()
        if method == "notifications/cancelled" and isinstance(request_id := params.get("requestId"), int | str):
            if self._listening.pop(request_id, None) is not None:
                return Ignored("a subscription ended")
            if len(self._cancelled) > self._limits.max_inflight:
                self._cancelled.clear()
            waiting = [call.request_id for call in list(self._suspendable.values()) if call.answers_to == request_id]
            request_id = waiting[0] if waiting else request_id
            self._cancelled.add(request_id)
            return Request(None, "cancel", {"requestId": request_id}, None, nbytes)
        return Ignored(f"nothing is done for {method[:100]}")

    def _judge(self, json: memoryview) -> ServerEvent:
        """The event of a message that is no request: an answer to a request of ours, or a mistake."""
        try:
            value = decode(json)
        except ParseError as error:
            if bytes(json[:15]).lower() == b"content-length:":
                error.message = "the Model Context Protocol has one JSON text a line on stdio, without Content-Length"
            return self._refuse(error, json[: self._limits.id_recovery])
        if isinstance(value, list):
            return self._batch(cast("list[Any]", value), json)
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object"))
        members = cast("dict[str, Any]", value)
        if "method" not in members and ("result" in members or "error" in members):
            return self._answered(members, len(json))
        request_id = members.get("id")
        usable = request_id if isinstance(request_id, str) or (type(request_id) is int and abs(request_id) <= MAX_ID) else None
        if members.get("jsonrpc") != "2.0":
            return Malformed(InvalidRequest('"jsonrpc" must be "2.0"'), usable)
        if not isinstance(members.get("method"), str):
            return Malformed(InvalidRequest('"method" must be a string'), usable)
        if not isinstance(members.get("params", {}), dict):
            return Malformed(InvalidRequest('"params" must be an object'), usable)
        return Malformed(InvalidRequest('"id" must be a string or a whole number'))

    def _batch(self, values: list[Any], json: memoryview) -> ServerEvent:
        """The event of a batch: its messages, which are answered one by one, as their answers together have no bound."""
        if not self._takes_batches:
            version = f"batches are taken after a handshake in {WITH_BATCHES} alone"
            return Malformed(InvalidRequest(f"a message must be one JSON object: {version}"))
        most = self._limits.max_inflight
        if not 0 < len(values) <= most:
            return Malformed(InvalidRequest(f"a batch has 1 to {most} messages (max_inflight), not {len(values)}"))
        events: list[ServerEvent] = []
        for value, raw in zip(values, msgspec.json.decode(json, type=list[msgspec.Raw]), strict=True):
            view = memoryview(raw)
            if not isinstance(value, dict):
                events.append(Malformed(InvalidRequest("a message of a batch must be a JSON object")))
            elif cast("dict[str, Any]", value).get("method") == "initialize":
                events.append(self._refuse(InvalidRequest("initialize stands in no batch"), view[: self._limits.id_recovery]))
            else:
                events.append(self._read(view, None, len(view)))
        return Batch(events)

    def _answered(self, members: dict[str, Any], nbytes: int) -> ServerEvent:
        """The event of an answer of the client; an error denies what was asked."""
        number = members.get("id")
        asked = self._asked.pop(number, None) if type(number) is int else None
        if asked is None:
            return Ignored("nobody waits for this answer of the client")
        name, given = answering(asked[0], cast("int", number), answer(asked[0], members.get("result")))
        return Request(None, name, given, None, nbytes)

    def _refuse(self, error: RrextError, start: memoryview) -> ServerEvent:
        from rrext.wire.recovery import recover_members  # few connections ever need it

        found = recover_members(start).get("id")
        return Malformed(error, found)

    # out

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success; `body` is the encoded object of the session's command."""
        if command == CALL:
            before, host_id = self._ended(request_id)
            if _is_offered(command):
                return self._offered(request_id, command, msgspec.json.decode(body)["result"])
            return before if host_id is None else [*before, *self._result(host_id, content_of(body))]
        assert isinstance(command, _Command)
        if command.method == "tools/call":
            return self._suspended_again(request_id, command.fact)
        if command.method.startswith(OFFERED):
            return self._offered(request_id, command, None)
        if command.method == "initialize":
            self._shakes_hands = True
            return self._result(request_id, encode_own(self._handshake(command.fact))[1:-1])
        if command.method == "server/discover":
            return self._result(request_id, encode_own(self._discovery())[1:-1])
        if command.method == "tools/list":
            members = self._listed.page(body, command.fact)
            cached = b"" if self._shakes_hands else b',"ttlMs":%d,"cacheScope":"private"' % (TTL * 1000)
            return self._result(request_id, members + cached)
        if command.method == "subscriptions/listen":
            if request_id in self._cancelled:
                self._cancelled.discard(request_id)
                return [b""]
            self._listening[request_id] = command.fact
            self.when_heard()
            told = {"notifications": {"toolsListChanged": True} if command.fact else {}}
            return self._notification("notifications/subscriptions/acknowledged", told, request_id)
        return self._result(request_id, b"")

    def input_ended(self) -> None:
        """Write no more to a host that closes: clients of the first SDK break at an answer that comes then. One that sent all
        without reading, as a script does, gets its answers.
        """
        self._is_over = self._converses

    def takes_tail(self, command: str) -> bool:
        return False

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """Calls ask for content, which has no tail."""
        raise AssertionError(command)

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure: of a tool as a result, so that the model sees it; of anything else as an error of JSON-RPC.

        A request that its client cancelled gets no answer, as the protocol wants it.
        """
        if request_id is None:
            return self._error(None, failure_of(error))
        before, host_id = self._ended(request_id)
        if isinstance(error, Cancelled) and request_id in self._cancelled:
            self._cancelled.discard(request_id)
            return before or [b""]
        if _is_offered(command):
            instead = None if self.offers is None else self.offers.without(command.fact, error)
            if instead is not None:
                return self._offered(request_id, command, instead)
            return self._error(request_id, failure_of(error, command.method, shakes_hands=self._shakes_hands))
        if host_id is None:
            return before
        if command == CALL and not isinstance(error, NO_RESULTS):
            return [*before, *self._result(host_id, content_of_error(error))]
        return [*before, *self._error(host_id, failure_of(error))]

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """The progress of a call, or its question to the user. The protocol has no other event for a call."""
        told: dict[str, Any] = msgspec.json.decode(body)
        request_id = told.pop("request")
        if name in QUESTIONS:
            return self._question(request_id, name, told)
        token = self._progress.get(request_id)
        call = self._suspendable.get(request_id)
        if token is None or (call is not None and call.answers_to is None) or name not in ("rrext_progress", "rrext_call"):
            return [b""]
        steps = self._steps.setdefault(request_id, CallSteps())
        if name == "rrext_call":
            told = steps.step(told) or {}
        elif not steps.reported(told["progress"], told.get("total")):
            return [b""]
        return self._notification("notifications/progress", {"progressToken": token, **told}) if told else [b""]

    def _question(self, request_id: RequestId, event: str, told: dict[str, Any]) -> list[bytes]:
        """A question to the user, or the word that it needs no answer any more. Raises `TooManyRequests`."""
        number = number_of(event, told)
        call = self._suspendable.get(request_id)
        if call is not None:
            with self._turns:
                if "withdrawn" in told:
                    call.questions.pop(number, None)
                    return [b""]
                call.questions[number] = event, question(event, told)
                return [b""] if call.answers_to is None else self._suspend(call)
        if "withdrawn" in told:
            return [b""] if self._asked.pop(number, None) is None else self._taken_back(number, "no answer is needed any more")
        self._asked[number] = event, request_id
        members = {"jsonrpc": "2.0", "id": number, "method": ELICIT, "params": question(event, told)}
        return self._framed([encode_own(members)])

    def _suspend(self, call: _Suspendable) -> list[bytes]:
        """The result that asks the questions of a call, which is suspended now."""
        needed = self._suspended.suspend(call)
        host_id, call.answers_to = cast("RequestId", call.answers_to), None
        return self._result(host_id, encode_own(needed)[1:-1], kind="input_required")

    def _suspended_again(self, request_id: RequestId, call: _Suspendable) -> list[bytes]:
        """The result that asks what its host left without an answer, if the call still waits for that."""
        with self._turns:
            return self._suspend(call) if call.answers_to == request_id and call.questions else [b""]

    def _taken_back(self, number: int, reason: str) -> list[bytes]:
        return self._notification("notifications/cancelled", {"requestId": number, "reason": reason})

    def _ended(self, request_id: RequestId) -> tuple[list[bytes], RequestId | None]:
        """Forget a call that is answered. Returns the notifications that withdraw its unanswered questions, and the id of the
        request with which the host waits for the call; None if the call is suspended.
        """
        self._progress.pop(request_id, None)
        self._steps.pop(request_id, None)
        call = self._suspendable.pop(request_id, None)
        if call is not None:
            with self._turns:
                self._suspended.forget(call)
                return [b""] if call.answers_to is None else [], call.answers_to
        asked = [number for number, (_, asking) in list(self._asked.items()) if asking == request_id] if self._asked else []
        for number in asked:
            self._asked.pop(number, None)
        return [piece for number in asked for piece in self._taken_back(number, "the call ended")], request_id

    def tools_changed(self) -> list[bytes]:
        """The notifications that the list of tools has changed: to a client of the handshake, and to each subscription."""
        if self._shakes_hands:
            return self._notification(TOOLS_CHANGED, {}) if self._is_initialized else []
        listening = [request_id for request_id, wants_tools in list(self._listening.items()) if wants_tools]
        return [piece for request_id in listening for piece in self._notification(TOOLS_CHANGED, {}, request_id)]

    def _framed(self, message: list[bytes]) -> list[bytes]:
        return [b""] if self._is_over else self.framer.frame(message)

    def _error(self, request_id: RequestId | None, failure: dict[str, Any]) -> list[bytes]:
        known = {} if request_id is None else {"id": request_id}
        return self._framed([encode_own({"jsonrpc": "2.0", **known, "error": failure})])

    def _offered(self, request_id: RequestId, command: _Command, value: Any) -> list[bytes]:
        assert self.offers is not None
        members = self.offers.result(command.method, command.fact, value, keeps=not self._shakes_hands)
        return self._result(request_id, encode_own(members)[1:-1])

    def _notification(self, method: str, params: dict[str, Any], subscription: RequestId | None = None) -> list[bytes]:
        if subscription is not None:
            params = {**params, "_meta": {SUBSCRIPTION_KEY: subscription}}
        members = {"params": params} if params else {}
        return self._framed([encode_own({"jsonrpc": "2.0", "method": method, **members})])

    def _result(self, request_id: RequestId, members: bytes, kind: str = "complete") -> list[bytes]:
        written = b"%d" % request_id if type(request_id) is int else quote(cast("str", request_id))
        if not self._shakes_hands:
            members = b'"resultType":"%b"%b%b' % (kind.encode(), b"," if members else b"", members)
        return self._framed([b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (written, members)])

    @property
    def _capabilities(self) -> dict[str, Any]:
        return CAPABILITIES if self.offers is None else {**CAPABILITIES, **self.offers.capabilities}

    def _handshake(self, wanted: object) -> dict[str, Any]:
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "capabilities": self._capabilities, "serverInfo": SERVER}

    def _discovery(self) -> dict[str, Any]:
        versions = [*VERSIONS, *reversed(HANDSHAKE_VERSIONS)]
        found = {"supportedVersions": versions, "capabilities": self._capabilities, "cacheScope": "private", "ttlMs": 0}
        return {**found, "_meta": {SERVER_KEY: SERVER}}


class _Suspendable(SuspendableCall):
    """A call on this connection: its id in the session, and the id of the request that it answers, if it is not suspended."""

    def __init__(self, request_id: RequestId, arguments: Mapping[str, Any], nbytes: int) -> None:
        super().__init__(None, arguments, nbytes)
        self.request_id = request_id
        self.answers_to: RequestId | None = request_id


def _wants_tools(notifications: Any) -> bool:
    """Whether a subscription is to be told of changed tools. Raises `InvalidArguments`."""
    if not isinstance(notifications, dict):
        raise InvalidArguments.at("/notifications", 'expected an object, such as {"toolsListChanged": true}')
    return cast("dict[str, Any]", notifications).get("toolsListChanged") is True


def _client(info: Any) -> dict[str, Any]:
    """The arguments of a session's `initialize`."""
    given = cast("dict[str, Any]", info) if isinstance(info, dict) else {}
    name, version = given.get("name"), given.get("version")
    found = {"clientName": name, "clientVersion": version}
    return {key: value for key, value in found.items() if isinstance(value, str)}
