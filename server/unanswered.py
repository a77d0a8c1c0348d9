"""What a client over standard input has asked and was not answered: it is waited for when the server stops.

Each message is answered in a context of its own, and whoever wants to is told of each answer that is an error.
"""

from collections.abc import Callable, Hashable
from contextvars import Context
from types import TracebackType
from typing import Self

import anyio
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from guideway.server.idle import Idle, drain
from guideway.server.oauth.refusal_log import answering_context

_Read = SessionMessage | Exception


class Unanswered:
    """Counts requests between the two streams of a connection, by their ids.

    ``refused`` is told of each error before it is sent, in the context of its request; with None, of what was no
    message.
    """

    def __init__(self, refused: Callable[[JSONRPCError | None], None] = lambda _: None) -> None:
        self.refused = refused
        self._ids = set[Hashable]()
        self._idle = Idle()

    def __len__(self) -> int:
        return len(self._ids)

    def reading(self, stream: ReadStream[_Read]) -> ReadStream[_Read]:
        """Return a stream whose requests are counted."""
        return _Reading(stream, self)

    def writing(self, stream: WriteStream[SessionMessage]) -> WriteStream[SessionMessage]:
        """Return the stream whose answers end them, once they are on their way."""
        return _Writing(stream, self)

    async def drain(self, seconds: float, hurry: anyio.Event) -> None:
        """Return when all were answered; at the latest after some seconds, or at an event."""
        await drain(self._idle.wait, seconds, hurry)

    def note(self, item: _Read) -> None:
        """Count what a message begins or ends. A request that its client cancels is answered no more."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
            self._idle.busy()
            return
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId"))
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._ids.discard(message.id)
        if not self._ids:
            self._idle.rest()


class _Reading:
    """Reads on, and notes what comes. It has the context that each message is answered in, as the SDK wants it."""

    def __init__(self, stream: ReadStream[_Read], unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered
        self.last_context: Context | None = None

    async def receive(self) -> _Read:
        item = await self._stream.receive()
        self.last_context = answering_context(getattr(self._stream, "last_context", None))
        if isinstance(item, Exception):
            self.last_context.run(self._unanswered.refused, None)
        if not (isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse | JSONRPCError)):
            self._unanswered.note(item)  # an answer here is to a question of the server's
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _Read:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writing:
    """Writes on, and notes what is on its way."""

    def __init__(self, stream: WriteStream[SessionMessage], unanswered: Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCError):
            self._unanswered.refused(item.message)
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.note(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
