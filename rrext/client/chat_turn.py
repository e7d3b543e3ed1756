"""One question to a pipeline that chats, whose events are read while it answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, TypeAlias

import anyio
import msgspec

from rrext.client.chat_events import ChatEvent, ChatReader, ChatText, PermitAsked, UserAsked
from rrext.client.client_session import ClientSession
from rrext.client.endpoint import Body
from rrext.client.tool_call import AnsweringOptions, MakeUpdates, ask_for_questions
from rrext.client.updates import EventUpdates, PermissionCallback, QuestionCallback, Updates
from rrext.errors import UsageError
from rrext.limits import CLIENT_DEFAULTS
from rrext.wire.messages import RequestId, number_of

Ask: TypeAlias = Callable[[MakeUpdates], Awaitable[Body]]
"""Asks the question; what is given makes the updates of its requests."""

Answering: TypeAlias = PermissionCallback | QuestionCallback


class Question(msgspec.Struct, frozen=True):
    """A question of the server, for the reader to answer."""

    event: str
    body: Body
    callback: Answering
    session: ClientSession


class WaitingText:
    """The text of an agent that waits for the reader, and grows."""

    __slots__ = ("first", "missed", "pieces")

    def __init__(self, first: ChatText) -> None:
        self.first = first
        self.pieces = [first.text]
        self.missed = first.missed

    @property
    def key(self) -> tuple[int, str]:
        """The call and the agent."""
        return self.first.call, self.first.agent

    def event(self) -> ChatText:
        """All that waits, as one event."""
        return msgspec.structs.replace(self.first, text="".join(self.pieces), missed=self.missed)


class ChatTurn:
    """A question that is being answered: `async with client.chat_events(question=…) as turn: async for event in turn: …`.

    After the last event `result` has what `Client.chat` returns; if the question failed, its error is raised there. Leaving the
    block before that cancels the question. For a slow reader the pieces of an agent's text are joined; of more than 256 KiB of
    text that wait the rest is dropped, and counted in `missed` of a later event. Nothing else is joined or dropped here.
    """

    def __init__(self, ask: Ask, options: AnsweringOptions) -> None:
        """Made by `Client.chat_events`."""
        self._ask = ask
        self._options = options
        self._reader = ChatReader()
        self._waiting: deque[ChatEvent | WaitingText | Question] = deque()
        self._texts: dict[tuple[int, str], WaitingText] = {}
        """The texts that wait and may grow: no event of another kind came after them."""
        self._nchars = 0
        self._missed = 0
        self._news = anyio.Event()
        self._room = anyio.Event()
        self._asking: anyio.CancelScope | None = None
        """Around the `async` callback that is asked."""
        self._tasks: anyio.abc.TaskGroup | None = None
        self._request: tuple[ClientSession, RequestId] | None = None
        """That which tells of events now."""
        self._is_over = False
        self._error: Exception | None = None
        self.result: Body | None = None
        """The result of the pipeline, after the last event."""

    async def __aenter__(self) -> ChatTurn:
        if self._tasks is not None:
            raise UsageError("A turn is used once: make another with client.chat_events().")
        tasks = self._tasks = anyio.create_task_group()
        await tasks.__aenter__()
        tasks.start_soon(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = self._tasks
        assert tasks is not None
        tasks.cancel_scope.shield = True  # it ends at once
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)  # it would wrap the error

    def __aiter__(self) -> ChatTurn:
        return self

    async def __anext__(self) -> ChatEvent:
        while (item := await self.following()) is not None:
            if isinstance(item, ChatEvent):
                return item
            given: Any = item.callback(item.body)
            if isawaitable(given):
                with anyio.CancelScope() as self._asking:
                    if self._is_over:
                        self._asking.cancel()
                    given = await given
                asked, self._asking = self._asking, None
                if asked.cancelled_caught:  # nobody waits for the answer any more
                    continue
            return self._answer(item, given)
        raise StopAsyncIteration

    async def following(self) -> ChatEvent | Question | None:
        """The next event, or a question to `answer`; None at the end. Raises the failure of the chat."""
        while not self._waiting:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return None
            self._news = anyio.Event()
            await self._news.wait()
        item = self._waiting.popleft()
        self._room.set()
        if not isinstance(item, WaitingText):
            return item
        if self._texts.get(item.key) is item:
            del self._texts[item.key]
        event = item.event()
        self._nchars -= len(event.text)
        return event

    def cancel(self, call: int) -> None:
        """Cancel one tool that runs, also a sub-agent, by the `call` of its `ToolBegun`: its caller is told, and goes on."""
        if self._request is not None:
            session, number = self._request
            session.endpoint.post("cancel", {"requestId": number, "call": call}, urgent=True)

    def _answer(self, question: Question, given: Any) -> ChatEvent:
        """Send the answer to a question; the event that tells of it."""
        body, endpoint = question.body, question.session.endpoint
        endpoint.answer(question.event, number_of(question.event, body), given)
        now = time.time()
        if question.event == "rrext_question":
            return UserAsked(time=now, call=0, node_id=body["nodeId"], params=body["params"], answer=given)
        about = {"tool": body["tool"], "node_id": body["nodeId"], "arguments": body.get("arguments")}
        return PermitAsked(time=now, call=0, **about, allowed=given is True)

    async def _run(self) -> None:
        try:
            self.result = await self._ask(self._updates)
        except Exception as error:  # the reader gets it, after all events
            self._error = error
        finally:
            self._is_over = True
            self._request = None
            self._news.set()
            if self._asking is not None:
                self._asking.cancel()

    def _updates(self, session: ClientSession, arguments: Body) -> Updates:
        arguments["events"] = True
        callbacks = ask_for_questions(arguments, self._options)
        return EventUpdates(partial(self._take, session, callbacks), session.endpoint.resume)

    def _take(
        self, session: ClientSession, callbacks: Mapping[str, Answering], name: str, body: Body
    ) -> Awaitable[object] | None:
        self._request = session, body["request"]
        if name == "rrext_call":
            for event in self._reader.read(body):
                self._put(event)
        elif (callback := callbacks.get(name)) is not None:
            self._keep(Question(name, body, callback, session))
        return self._wait_for_room() if len(self._waiting) > CLIENT_DEFAULTS.events else None

    def _put(self, event: ChatEvent) -> None:
        if not isinstance(event, ChatText):
            self._texts.clear()
        elif self._nchars + len(event.text) > CLIENT_DEFAULTS.chat_text:
            self._missed += 1 + event.missed
            return
        else:
            self._nchars += len(event.text)
        if self._missed:
            event, self._missed = msgspec.structs.replace(event, missed=event.missed + self._missed), 0
        if not isinstance(event, ChatText):
            self._keep(event)
            return
        text = self._texts.get((event.call, event.agent))
        if text is None:
            text = self._texts[event.call, event.agent] = WaitingText(event)
            self._keep(text)
        else:
            text.pieces.append(event.text)
            text.missed += event.missed

    def _keep(self, item: ChatEvent | WaitingText | Question) -> None:
        self._waiting.append(item)
        self._news.set()

    async def _wait_for_room(self) -> None:
        """Let the server wait: a reader of events that must not be dropped is far behind."""
        while len(self._waiting) > CLIENT_DEFAULTS.events:
            self._room = anyio.Event()
            await self._room.wait()

    def __repr__(self) -> str:
        state = "new" if self._tasks is None else "over" if self._is_over else "running"
        return f"<ChatTurn {state}, {len(self._waiting)} events wait>"
